"""Encoding: events as Arrow columns, or as admitted events, into the code space of a segment.

An EventSource gives the keys of its columns, each read once however many segments ask; a SegmentEncoder codes them by
its segment's constants into the CodedBatch that the kernels of matching/columnar/ read. Attributes that no column knows
are never read; columns whose attribute the events lack are absent.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, overload

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Column, Derivation
from tocsin.errors import BadValue
from tocsin.index.coded_batch import CodedBatch, CodesOfOne, MultipleCodes, RawColumns
from tocsin.index.coder import Coder, Codes, TextCoder
from tocsin.index.jit import kernel
from tocsin.index.key_column import KeyColumn, from_events, keys_of
from tocsin.index.layout import ABSENT_CODE
from tocsin.index.patterns import PatternTexts, StackedPatterns
from tocsin.index.raw_memory import addresses_of, code_by_tables
from tocsin.index.word_tokens import WordTokens
from tocsin.plugins import is_there
from tocsin.schema import EVENT_TYPE, NOW, Domain, Event, NumericDomain, Schema, TextDomain, Value, arrived
from tocsin.schema.domain import instant
from tocsin.schema.event import admit_elements, flatten, kept_values
from tocsin.schema.foreign_values import is_like_json
from tocsin.schema.readings import ANY_ATTRIBUTE, DYNAMIC, ReadableAttributes, ReadableValues, reading_of

if TYPE_CHECKING:
    import pyarrow as pa

Int64s = npt.NDArray[np.int64]
MOST_TYPES = 1_000  # sets of event types whose codes are remembered
_NO_CODES: Codes = np.zeros(0, np.int32)


class Int64Fields:
    """Where attributes lie in record batches, those of type int64; batches mostly have the schema of the last one."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = attributes
        self._last: tuple[pa.Schema, Int64s | None] | None = None

    def positions(self, schema: pa.Schema) -> Int64s | None:
        """Return the position of each attribute's column, -1 where it is of another type; None where all are."""
        last = self._last
        if last is not None and last[0].equals(schema):
            return last[1]
        import pyarrow as pa

        found = [schema.get_field_index(attribute) for attribute in self.attributes]
        chosen = [at if at >= 0 and schema.types[at] == pa.int64() else -1 for at in found]
        positions = np.array(chosen, np.int64) if any(at >= 0 for at in chosen) else None
        self._last = (schema, positions)
        return positions


class EventSource(ABC):
    """A batch of events that can be asked for the keys of a column."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._known: dict[tuple[str, Derivation], KeyColumn | None] = {}
        self._tokens: dict[str, WordTokens | None] = {}
        self._pattern_texts: dict[str, PatternTexts] = {}

    def keys(self, column: Column) -> KeyColumn | None:
        """Return the keys of a column; None where the events have none of the attribute."""
        name = (column.attribute, column.derivation)
        if name not in self._known:
            self._known[name] = self.read(column.attribute, column.domain, column.derivation)
        return self._known[name]

    def word_tokens(self, attribute: str, domain: Domain) -> WordTokens | None:
        """Return the words of an attribute's texts; None where some event has several, or they are not plain texts."""
        if attribute not in self._tokens:
            plain = isinstance(domain, TextDomain) and domain.max_length is None
            texts = self.whole_texts(attribute) if plain else None
            self._tokens[attribute] = None if texts is None else WordTokens.of(texts)
        return self._tokens[attribute]

    def pattern_texts(self, attribute: str, domain: Domain) -> PatternTexts:
        """Return the texts of an attribute for patterns to be found in."""
        if attribute not in self._pattern_texts:
            self._pattern_texts[attribute] = self.read_texts(attribute, domain)
        return self._pattern_texts[attribute]

    def read_texts(self, attribute: str, domain: Domain) -> PatternTexts:
        """Return the same, read anew."""
        return PatternTexts.of_values(self.values(attribute, domain, np.arange(self.size)))

    @abstractmethod
    def read(self, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn | None:
        """Return the keys, read anew."""

    def addresses(self, _: Int64Fields) -> Int64s | None:
        """Return where in memory the values of attributes lie that are int64 and never absent, 0 for others."""
        return None

    def texts(self, _: str) -> pa.StringArray | None:
        """Return the values of an attribute, if they are plain UTF-8 texts in one piece of memory."""
        return None

    def whole_texts(self, attribute: str) -> pa.StringArray | None:
        """Return the same also where they must first be put into one piece, which pays for words."""
        return self.texts(attribute)

    def text_lists(self, _: str) -> tuple[pa.StringArray, Int64s] | None:
        """Return the texts of lists of an attribute, all in one, and where each event's begin and end there, if it has such."""
        return None

    @abstractmethod
    def sample(self, count: int) -> EventSource:
        """Return the first `count` events as a source of their own."""

    @abstractmethod
    def values(self, attribute: str, domain: Domain, events: Int64s) -> list[tuple[Value, ...] | None]:
        """Return the canonical values that these events have; None where an event does not bind the attribute."""

    @abstractmethod
    def event(self, number: int) -> Event:
        """Return one event."""

    @abstractmethod
    def arrived(self, arrival: Int64s | None) -> EventSource:
        """Return the same events with the times of their arrival, in microseconds; by the clock where nobody says."""


class EventObjects(EventSource):
    """Admitted events."""

    def __init__(self, events: Sequence[Event]) -> None:
        super().__init__(len(events))
        self.events = events

    def read(self, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
        return from_events(self.events, attribute, domain, derivation)

    def word_tokens(self, attribute: str, domain: Domain) -> WordTokens | None:
        if len(self.events) == 1 and attribute not in self._tokens:
            found = self.events[0].values.get(attribute)
            if isinstance(domain, TextDomain) and domain.max_length is None and (found is None or len(found) == 1):
                self._tokens[attribute] = WordTokens.of_one(None if found is None else str(found[0]))
        return super().word_tokens(attribute, domain)

    def whole_texts(self, attribute: str) -> pa.StringArray | None:
        if not is_there("pyarrow"):  # an extra; words are then cut event by event
            return None
        import pyarrow as pa

        values = [event.values.get(attribute) for event in self.events]
        if any(found is not None and len(found) > 1 for found in values):
            return None
        return pa.array([None if found is None else found[0] for found in values], pa.string())

    def sample(self, count: int) -> EventObjects:
        return EventObjects(self.events[:count])

    def values(self, attribute: str, _: Domain, events: Int64s) -> list[tuple[Value, ...] | None]:
        return [self.events[number].values.get(attribute) for number in events.tolist()]

    def event(self, number: int) -> Event:
        return self.events[number]

    def arrived(self, arrival: Int64s | None) -> EventObjects:
        times = [None] * self.size if arrival is None else arrival.tolist()
        return EventObjects([arrived(event, at) for event, at in zip(self.events, times, strict=True)])


class EventColumns(EventSource):
    """A record batch: columns are attributes, nested structs are dotted names.

    Where the schema has one event type only, the batch need not name it.
    """

    def __init__(self, batch: pa.RecordBatch, schema: Schema, *, strict: bool = False) -> None:
        """Read a batch; `strict`: a value that no event could hold raises BadValue, where it is asked for."""
        super().__init__(batch.num_rows)
        self.batch, self.schema, self._strict = batch, schema, strict
        self._bad: dict[str, BadValue] = {}  # the first of each column that has no type
        self._arrival: Int64s | None = None
        self._read: dict[str, list[tuple[Value, ...] | None]] = {}

    def read(self, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn | None:
        from tocsin.index.arrow_keys import from_arrow

        array = self._array(attribute)
        if array is None and self._is_read(attribute):
            events = [Event({} if found is None else {attribute: found}) for found in self._readings(attribute)]
            return from_events(events, attribute, domain, derivation)
        if array is not None:
            return from_arrow(array, attribute, domain, derivation)
        if attribute == EVENT_TYPE and self.schema.default_type is not None:
            default = self.schema.event_type_domain.key(self.schema.default_type)
            return KeyColumn(np.full(self.size, default, np.int64), None)
        return None

    def read_texts(self, attribute: str, domain: Domain) -> PatternTexts:
        texts = self.texts(attribute)
        if texts is None or not isinstance(domain, TextDomain) or domain.max_length is not None:
            return super().read_texts(attribute, domain)
        return PatternTexts.of_column(texts)

    def addresses(self, fields: Int64Fields) -> Int64s | None:
        positions = fields.positions(self.batch.schema)
        return addresses_of(self.batch, positions) if positions is not None else None

    def texts(self, attribute: str) -> pa.StringArray | None:
        import pyarrow as pa

        position = self.batch.schema.get_field_index(attribute)
        array = self._array(attribute) if position >= 0 else None
        return array if array is not None and array.type == pa.string() and len(array) else None

    def text_lists(self, attribute: str) -> tuple[pa.StringArray, Int64s] | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        position = self.batch.schema.get_field_index(attribute)
        array = self.batch.column(position) if position >= 0 else None
        if array is None or not pa.types.is_list(array.type) or array.type.value_type != pa.string():
            return None
        texts = pc.list_flatten(array)
        if texts.null_count or not len(texts):
            return None
        offset = np.zeros(len(array) + 1, np.int64)
        np.cumsum(pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False), out=offset[1:])
        return texts, offset

    def sample(self, count: int) -> EventColumns:
        return EventColumns(self.batch.slice(0, count), self.schema, strict=self._strict)

    def values(self, attribute: str, domain: Domain, events: Int64s) -> list[tuple[Value, ...] | None]:
        from tocsin.index.arrow_keys import values_from_arrow

        if attribute == NOW and self._arrival is not None:
            return [(instant(at),) for at in self._arrival[events].tolist()]
        array = self._array(attribute)
        if array is None and self._is_read(attribute):
            found = self._readings(attribute)
            return [found[number] for number in events.tolist()]
        if array is None:
            return [None] * len(events)
        if attribute in self.schema.object_attributes:
            raws = array.take(events).to_pylist()
            return [admit_elements(self.schema, attribute, raw) or None for raw in raws]
        return values_from_arrow(array, domain, events)

    @cached_property
    def _arrays(self) -> list[str]:
        """The arrays of objects that are columns; what their elements have is part of these."""
        return sorted(name for name in self.schema.object_attributes if _field(self.batch, name) is not None)

    def _array(self, attribute: str) -> pa.Array | None:
        """Return the column of an attribute; None where there is none."""
        for array in self._arrays:
            if attribute.startswith(f"{array}."):
                from tocsin.index.arrow_keys import inner_field

                path = attribute[len(array) + 1 :].split(".")
                is_point = attribute in self.schema.point_attributes
                return inner_field(_field(self.batch, array), path, is_point=is_point)
        return _field(self.batch, attribute)

    def _is_read(self, attribute: str) -> bool:
        known = self.schema.view().attributes
        return isinstance(known, ReadableAttributes) and (
            attribute == ANY_ATTRIBUTE or reading_of(attribute) is not None
        )

    def _readings(self, attribute: str) -> list[tuple[Value, ...] | None]:
        """Return what columns without a type of their own are read as, row by row."""
        if attribute not in self._read:
            self._read[attribute] = [event.values.get(attribute) for event in self._rows]
            reading = reading_of(attribute)
            if reading is not None and reading[0] in self._bad:
                raise self._bad[reading[0]]
        return self._read[attribute]

    @cached_property
    def _rows(self) -> list[Event]:
        known = self.schema.view().attributes
        assert isinstance(known, ReadableAttributes)
        return [self._row(number, row, known) for number, row in enumerate(self.batch.to_pylist())]

    def _row(self, number: int, raw: dict[str, object], known: ReadableAttributes) -> Event:
        """Return what can be read of a row."""
        found: dict[str, tuple[Value, ...]] = {}
        for name, raws in flatten(raw, self.schema.point_attributes).items():
            entry = known.declared(name)
            kept = kept_values(raws, DYNAMIC if entry is None else entry.domain)
            found.update({name: kept} if kept else {})
            if self._strict and name not in self._bad and len(kept) < len(raws):
                self._note_bad(number, name, raws)
        return Event(ReadableValues(found, known))

    def _note_bad(self, number: int, name: str, raws: list[object]) -> None:
        for raw in raws:
            if not is_like_json(raw):
                try:
                    DYNAMIC.admit(raw)
                except BadValue as error:
                    right = f"{error.right} (attribute {name}, row {number})"
                    self._bad.setdefault(name, BadValue(raw, DYNAMIC.name, right))

    def event(self, number: int) -> Event:
        at, readable = np.array([number]), self.schema.view().attributes
        bound: dict[str, tuple[Value, ...]] = {}
        if isinstance(readable, ReadableAttributes):
            raw = flatten(self.batch.slice(number, 1).to_pylist()[0], self.schema.point_attributes)
            kept = ((name, kept_values(raws)) for name, raws in raw.items() if name not in self.schema.attributes)
            bound.update((name, values) for name, values in kept if values)
        for name in self.schema.attributes:
            (values,) = self.values(name, self.schema.domain_of(name), at)
            if values is not None:
                bound[name] = values
        (types,) = self.values(EVENT_TYPE, self.schema.event_type_domain, at)
        if types is None and self.schema.default_type is not None:
            types = (self.schema.default_type,)
        bound[EVENT_TYPE] = types or ()
        if self._arrival is not None:
            bound[NOW] = (instant(int(self._arrival[number])),)
        return Event(ReadableValues(bound, readable) if isinstance(readable, ReadableAttributes) else bound)

    def arrived(self, arrival: Int64s | None) -> EventColumns:
        if arrival is None and self._arrival is not None:
            return self
        found = EventColumns(self.batch, self.schema, strict=self._strict)
        found._arrival = np.full(self.size, time.time_ns() // 1_000) if arrival is None else arrival
        return found


class EventRows(Sequence[Event]):
    """The events of columns, for who asks for one; matching takes the columns themselves."""

    def __init__(self, source: EventColumns) -> None:
        self.source = source

    def __len__(self) -> int:
        return self.source.size

    @overload
    def __getitem__(self, at: int) -> Event: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Event]: ...

    def __getitem__(self, at: int | slice) -> Event | Sequence[Event]:
        if isinstance(at, slice):
            return [self.source.event(number) for number in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return self.source.event(at % len(self))


def source_of(events: Sequence[Event]) -> EventSource:
    """Return events as the engine reads them."""
    return events.source if isinstance(events, EventRows) else EventObjects(events)


def _field(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return the column of that name, or the field of a struct column that the dotted name leads to."""
    import pyarrow as pa
    import pyarrow.compute as pc

    position = batch.schema.get_field_index(name)
    if position >= 0:
        return batch.column(position)
    outer, dot, inner = name.partition(".")
    position = batch.schema.get_field_index(outer) if dot else -1
    if position < 0 or not pa.types.is_struct(batch.schema.types[position]):
        return None
    array = batch.column(position)
    for part in inner.split("."):
        if not pa.types.is_struct(array.type) or array.type.get_field_index(part) < 0:
            return None
        array = pc.struct_field(array, part)
    return array


class Coded(Protocol):
    """What has columns of codes: a segment, or a table that becomes one."""

    @property
    def columns(self) -> Sequence[Column]: ...


class _Tables(NamedTuple):
    """Look-up tables of several columns, one after the other: see code_by_tables."""

    fields: Int64Fields
    rows: Int64s  # of the columns in the coded batch
    least: Int64s
    start: Int64s
    length: Int64s
    linear: npt.NDArray[np.bool_]
    codes: Codes


class SegmentEncoder:
    """Codes events by the constants of one segment, or of a table."""

    def __init__(self, segment: Coded, several: Container[str] = ()) -> None:
        self.coders = [Coder(column) for column in segment.columns]
        # No living row asks about a column that was single-valued before its attribute became one of `several` values.
        self._retired = {
            at for at, each in enumerate(segment.columns) if not each.multiple and each.attribute in several
        }

    def encode(
        self, source: EventSource, seq: Int64s | None = None, arrival: Int64s | None = None, *, raw: bool = False
    ) -> CodedBatch:
        """Return the events' codes; raises BadValue where events have several values of a single-valued attribute.

        With `raw`, columns of integers are left where they are, to be coded when the events are laid out for matching.
        """
        codes = np.empty((len(self.coders), source.size), np.int32)
        multiples: dict[int, MultipleCodes] = {}
        left = self._left_raw(source)
        if left is not None and not raw:
            rows = np.flatnonzero(left.table_of >= 0)
            t = left.table_of[rows]
            code_by_tables(
                rows, left.addresses[t], left.least[t], left.start[t], left.length[t], left.codes, source.size, codes
            )
        done = None if left is None else (left.table_of >= 0).tolist()
        for position, coder in enumerate(self.coders):
            if done is not None and done[position]:
                continue
            column, row = coder.column, codes[position]
            if position in self._retired:
                row.fill(ABSENT_CODE)
                continue
            if coder.words is not None and (tokens := source.word_tokens(column.attribute, column.domain)) is not None:
                row.fill(ABSENT_CODE)
                multiples[position] = tokens.coded(coder.words)
                continue
            if coder.patterns is not None:
                row.fill(ABSENT_CODE)
                multiples[position] = coder.patterns.coded(source.pattern_texts(column.attribute, column.domain))
                continue
            if (
                column.multiple
                and coder.texts is not None
                and (lists := source.text_lists(column.attribute)) is not None
            ):
                row.fill(ABSENT_CODE)
                multiples[position] = _multiple_texts(*lists, coder.texts)
                continue
            if (
                not column.multiple
                and coder.texts is not None
                and (texts := source.texts(column.attribute)) is not None
            ):
                coder.texts.code_into(texts, row)
                if texts.null_count:
                    row[texts.is_null().to_numpy(zero_copy_only=False)] = ABSENT_CODE
                continue
            keys = source.keys(column)
            if keys is None or column.multiple:
                row.fill(ABSENT_CODE)
                if keys is not None:
                    multiples[position] = _multiple(keys, coder)
            elif keys.offset is None:
                coder.code_into(keys, row)
            else:
                _lists_of_one(keys, coder, row)
        return CodedBatch(codes, multiples, seq, arrival, left if raw else None)

    def _left_raw(self, source: EventSource) -> RawColumns | None:
        """Return the columns of integers that a look-up table can code where they lie; None where there are none."""
        tables = self._tables
        addresses = source.addresses(tables.fields) if source.size and len(tables.rows) else None
        if addresses is None:
            return None
        table_of = np.full(len(self.coders), -1, np.int64)
        table_of[tables.rows] = np.where(addresses != 0, np.arange(len(addresses)), -1)
        return RawColumns(
            table_of, addresses, tables.least, tables.start, tables.length, tables.linear, tables.codes, source
        )

    @cached_property
    def _tables(self) -> _Tables:
        """The look-up tables of all single-valued columns of numbers that have one."""
        chosen = [
            (position, coder)
            for position, coder in enumerate(self.coders)
            if isinstance(coder.column.domain, NumericDomain) and not coder.column.multiple and len(coder.table)
        ]
        lengths = np.array([len(coder.table) for _, coder in chosen], np.int64)
        return _Tables(
            fields=Int64Fields([coder.column.attribute for _, coder in chosen]),
            rows=np.array([position for position, _ in chosen], np.int64),
            least=np.array([coder.table_start for _, coder in chosen], np.int64),
            start=np.cumsum(lengths) - lengths,
            length=lengths,
            linear=np.array([coder.successive for _, coder in chosen], np.bool_),
            codes=np.concatenate([np.zeros(0, np.int32), *(coder.table for _, coder in chosen)]),
        )

    def encode_one(
        self,
        event: Event,
        seq: Int64s | None = None,
        arrival: Int64s | None = None,
        source: EventSource | None = None,
    ) -> CodedBatch:
        """Return the codes of one event, without the detour by columns.

        `source` has the event alone, and keeps its words for who asks for them next.
        """
        single = [-1] * len(self.coders)
        values = event.values
        for position, attribute, known, remember in self._single_valued:
            found = values.get(attribute)
            if found is not None:
                code = known.get(found[0])
                single[position] = remember(found[0]) if code is None else code
        multiples = self._multiples_of_one(values, source)
        return CodedBatch(np.array(single, np.int32).reshape(-1, 1), multiples, seq, arrival)

    def _multiples_of_one(
        self, values: Mapping[str, tuple[Value, ...]], source: EventSource | None
    ) -> Mapping[int, MultipleCodes]:
        """Return the codes of one event in the columns in which it may have several."""
        of_patterns = None if self._patterns is None else self._patterns.coded_one(values)
        if not self._multiple_valued:
            return {} if of_patterns is None else of_patterns
        ends, parts, present = [0], [_NO_CODES], []
        if of_patterns is not None:
            ends, parts, present = of_patterns.offset.tolist(), [of_patterns.codes], of_patterns.present.tolist()
        for position, coder in self._multiple_valued:
            found = values.get(coder.column.attribute)
            if found is not None:
                parts.append(self._codes_of_one(position, coder, found, source))
            ends.append(ends[-1] + (0 if found is None else len(parts[-1])))
            present.append(found is not None)
        return CodesOfOne(
            self._multiple_positions, np.array(ends, np.int64), np.concatenate(parts), np.array(present, np.bool_)
        )

    def _codes_of_one(self, position: int, coder: Coder, found: tuple[Value, ...], source: EventSource | None) -> Codes:
        """Return the codes of one event's values in a multiple column that is none of patterns."""
        column = coder.column
        if coder.words is not None and source is not None:
            tokens = source.word_tokens(column.attribute, column.domain)
            if tokens is not None:
                return tokens.coded(coder.words).codes
        if column.attribute == EVENT_TYPE and (known := self._of_types.get((position, found))) is not None:
            return known
        keys = [key for value in found for key in keys_of(column.domain, column.derivation, value)]
        codes = sorted({coder.code_of(key) for key in keys} - ({0} if column.derivation == "words" else set()))
        array = np.array(codes, np.int32)
        if column.attribute == EVENT_TYPE and len(self._of_types) < MOST_TYPES:
            self._of_types[position, found] = array
        return array

    @cached_property
    def _of_types(self) -> dict[tuple[int, tuple[Value, ...]], Codes]:
        """The codes of event types by the column's position: they are few, and every event has some."""
        return {}

    @cached_property
    def _multiple_positions(self) -> tuple[int, ...]:
        """The columns of _multiples_of_one: one tuple for all events, which who lays them out knows again."""
        of_patterns = () if self._patterns is None else self._patterns.positions
        return (*of_patterns, *(position for position, _ in self._multiple_valued))

    @cached_property
    def _single_valued(self) -> list[tuple[int, str, dict[Value, int], Callable[[Value], int]]]:
        """Position, attribute, codes known and how to know more, of each column that an event has one value in."""
        return [
            (position, coder.column.attribute, coder.of_value, coder.remember_value)
            for position, coder in enumerate(self.coders)
            if not coder.column.multiple
        ]

    @cached_property
    def _multiple_valued(self) -> list[tuple[int, Coder]]:
        """Position and coder of each column that an event may have several codes in, but those of patterns."""
        return [
            (position, coder)
            for position, coder in enumerate(self.coders)
            if coder.column.multiple and coder.column.derivation != "patterns"
        ]

    @cached_property
    def _patterns(self) -> StackedPatterns | None:
        """The patterns of all columns together, for single events."""
        chosen = [
            (position, coder.column.attribute, coder.patterns)
            for position, coder in enumerate(self.coders)
            if coder.patterns is not None
        ]
        return StackedPatterns(chosen) if chosen else None


def _lists_of_one(keys: KeyColumn, coder: Coder, codes: Codes) -> None:
    """Write the codes of a single-valued column whose values came as lists."""
    assert keys.offset is not None
    counts = np.diff(keys.offset)
    if (counts > 1).any():
        row, column = int(np.argmax(counts > 1)), coder.column
        found = f"one value, and row {row} has {counts[row]} (attribute {column.attribute})"
        raise BadValue(f"{counts[row]} values", column.domain.name, found)
    codes.fill(ABSENT_CODE)
    codes[counts == 1] = coder.code(keys)


def _multiple_texts(texts: pa.StringArray, offset: Int64s, coder: TextCoder) -> MultipleCodes:
    """Return the distinct codes of each event's texts, ascending."""
    coded = np.empty(len(texts), np.int32)
    coder.code_into(texts, coded)
    distinct_offset, codes = sorted_distinct(offset, coded, False)
    return MultipleCodes(distinct_offset, codes, np.diff(offset) > 0)


def _multiple(keys: KeyColumn, coder: Coder) -> MultipleCodes:
    """Return the distinct codes of each event, ascending."""
    lists = keys.as_lists()
    assert lists.offset is not None
    assert lists.present is not None
    coded = coder.code(lists)
    offset, codes = sorted_distinct(lists.offset, coded, coder.column.derivation == "words")
    return MultipleCodes(offset, codes, lists.present)


@kernel
def sorted_distinct(offset: Int64s, codes: Codes, without_zero: bool) -> tuple[Int64s, Codes]:
    """Return the lists codes[offset[e] : offset[e + 1]] sorted, without repeats (and without zeros, if so asked)."""
    kept_offset = np.zeros(len(offset), np.int64)
    kept = np.empty(len(codes), np.int32)
    n = 0
    for e in range(len(offset) - 1):
        start = n
        for code in np.sort(codes[offset[e] : offset[e + 1]]):
            if (n == start or kept[n - 1] != code) and not (without_zero and code == 0):
                kept[n] = code
                n += 1
        kept_offset[e + 1] = n
    return kept_offset, kept[:n].copy()
