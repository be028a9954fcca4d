"""RawEvents: from one raw event, a dict, to what it matches, without an Event and without a walk over the schema.

Events come in few shapes: the same names in the same order, with values of the same types. A shape is compiled once: for
each value where its code is remembered, and for each slot of the segment which value it takes. Whatever is not plainly
right (schema/event.py), and segments whose matches need finishing (emit.py), are left to the long way.
Used by tier_reader.py, one for each thread.
"""

from __future__ import annotations

from operator import getitem
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.layout import ABSENT_CODE
from tocsin.matching.columnar.emit import match_packed, needs_finishing
from tocsin.schema import EVENT_TYPE, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tocsin.index.coder import Coder
    from tocsin.index.encode import SegmentEncoder
    from tocsin.matching.columnar.segment_matcher import SegmentMatcher

Int32s = npt.NDArray[np.int32]
SHAPES = 1_000  # remembered
VALUES = 100_000  # remembered, of an attribute


class _NotPlainError(Exception):
    """A value that needs a closer look."""


class _Codes(dict[Any, int]):
    """The codes of the values of one type that an attribute had before."""

    def __init__(self, take: Callable[[Any], Any], coder: Coder | None) -> None:
        super().__init__()
        self._take, self._coder = take, coder

    def __missing__(self, raw: Any) -> int:
        value = self._take(raw)
        if value is None:
            raise _NotPlainError
        code = 0 if self._coder is None else self._coder.remember_value(value)
        if len(self) >= VALUES:
            self.clear()
        self[raw] = code
        return code


class EventShape(NamedTuple):
    """How events of one shape are coded; values in the order of the dict, then a value that is absent."""

    codes: list[_Codes]
    of_slot: Int32s  # per slot of the segment: the place of its value
    of_simple: Int32s  # per simple group, the same
    struct: Struct
    packed: npt.NDArray[np.int32]


class RawEvents:
    """Matches raw events, one by one, with one segment."""

    def __init__(self, schema: Schema, encoder: SegmentEncoder, matcher: SegmentMatcher, told: Int32s | None) -> None:
        self._schema, self._encoder, self._matcher = schema, encoder, matcher
        self._layout = matcher.layout
        self._shapes: dict[tuple[Any, ...], EventShape | None] = {}
        self._codes: dict[tuple[str, type, str], _Codes] = {}
        matcher.workspace.grow("one_slots", self._layout.slots)
        matcher.workspace.grow("one_simple", self._layout.simple)
        matcher.workspace.grow("out", matcher.rows + 64)
        self._last: tuple[tuple[Any, ...], EventShape | None] = ((), None)
        self._told = told

    def match(self, raw: dict[str, Any]) -> npt.NDArray[np.int32] | None:
        """Return what is told of the rows that the event matches, in memory that is used again; None: go the long way."""
        if self._layout.multiples or self._told is None:
            return None
        values = raw.values()
        key = raw.get(EVENT_TYPE), tuple(raw), tuple(map(type, values))
        if key == self._last[0]:  # events of a shape come together, and comparing it takes half of finding it
            shape = self._last[1]
        else:
            try:
                shape = self._shapes[key]
            except (KeyError, TypeError):  # new, or an event type that is no text
                shape = self._learn(key, raw)
            self._last = key, shape
        if shape is None or needs_finishing(self._matcher.segment):
            return None
        try:
            shape.struct.pack_into(shape.packed, 0, *map(getitem, shape.codes, values))  # type: ignore[arg-type] # an array is a buffer
        except (_NotPlainError, TypeError):  # TypeError: a list, an array or an object, which has no code
            return None
        segment, work = self._matcher.segment, self._matcher.workspace
        while True:
            n = match_packed(
                segment.buffer, segment.directory, self._told, shape.packed, shape.of_slot, shape.of_simple,
                self._layout.first_atom, work.places,
            )  # fmt: skip
            if n >= 0:
                return work.out[:n]
            work.grow("visits", len(work.visits) + 1)

    def _learn(self, key: tuple[Any, ...], raw: dict[str, Any]) -> EventShape | None:
        event_type = raw.get(EVENT_TYPE)
        if event_type is not None and type(event_type) is not str:
            return None
        if len(self._shapes) >= SHAPES:
            self._shapes.clear()
        shape = self._shapes[key] = self._compiled(raw)
        return shape

    def _compiled(self, raw: dict[str, Any]) -> EventShape | None:
        """Return the shape of an event; None where its events go the long way."""
        plain = self._schema.plain_admission(raw.get(EVENT_TYPE))
        names = set(raw) - {EVENT_TYPE}
        if (
            plain is None
            or plain.readable is not None
            or self._layout.multiples
            or not plain.mandatory <= names <= plain.takers.keys()
        ):
            return None
        coders = {
            (coder.column.attribute, coder.column.derivation): at for at, coder in enumerate(self._encoder.coders)
        }
        if any(derivation != "value" for _, derivation in coders):
            return None
        place = {name: at for at, name in enumerate(raw)}
        place.setdefault(EVENT_TYPE, len(place))
        absent = len(place)
        of_column = np.full(len(self._encoder.coders) + 1, absent, np.int32)
        for (attribute, _), column in coders.items():
            of_column[column] = place.get(attribute, absent)
        packed = np.full(absent + 1, ABSENT_CODE, np.int32)
        (event_type,) = plain.types
        at = coders.get((EVENT_TYPE, "value"))
        packed[place[EVENT_TYPE]] = 0 if at is None else self._encoder.coders[at].remember_value(event_type)
        codes = [self._codes_of(name, type(value), plain, coders) for name, value in raw.items()]
        return EventShape(
            codes, of_column[self._layout.column_of_slot], of_column[self._layout.column_of_simple],
            Struct(f"{len(raw)}i"), packed,
        )  # fmt: skip

    def _codes_of(self, name: str, kind: type, plain: Any, coders: Mapping[Any, int]) -> _Codes:
        """Return the codes of an attribute's values of one type, shared by all shapes of an event type."""
        key = (name, kind, plain.types[0])
        if key not in self._codes:
            at = coders.get((name, "value"))
            take = plain.takers.get(name) or (lambda value: value)  # the event type, which the shape is of
            self._codes[key] = _Codes(take, None if at is None else self._encoder.coders[at])
        return self._codes[key]
