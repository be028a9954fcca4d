"""Many subscriptions in the bulk predicate form, straight into flat columns.

    {"id": "s1", "event_types": ["car"], "predicates": [["price", "<", 1300], ["brand", "=", "mini"]]}
    {"id": "s2", "event_types": ["insurance"], "predicates": [["price", "<", 700]], "with": {"age": 42, "years_ncd": 8}}

Hundreds of thousands a second: lines are decoded by msgspec and their predicates laid into slots, one for each
(event types, attribute, operator); a slot is then bound as a whole, without a syntax tree, and so is each property. A
subscription with a predicate that no slot takes, or with a value that its slot refuses, goes the long way (syntax tree, binding, normal
form), which either takes it or says what is wrong with it. Both ways end in one TableBuilder and mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.compile.normalise import normalise
from tocsin.compile.properties import admit_list
from tocsin.compile.table import ConjunctionTable, PredicateKind
from tocsin.compile.table_builder import UNBOUNDED, Chunk, TableBuilder
from tocsin.errors import BadValue, SchemaError, TocsinError
from tocsin.language.bind import bind
from tocsin.language.documents import BadLine, decode, from_document
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.sides import sides_of
from tocsin.language.text_patterns import words
from tocsin.schema import EVENT_TYPE, Domain, NumericDomain, Schema, ViewAttribute

LINES_AT_ONCE = 50_000
_EXACT = 2**53


class BulkSubscription(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename={"properties": "with"}):
    """One line of the common shape."""

    id: str | int
    predicates: list[tuple[str, str, Any]]
    event_types: list[str] | None = None
    properties: dict[str, str | int | float | bool] | None = None


@dataclass
class BulkLoad:
    """What came of a bulk load: the table, and the lines that are not in it."""

    table: ConjunctionTable
    errors: list[BadLine]


def load_bulk(
    lines: Iterable[bytes | str], schema: Schema, operators: Operators = NO_OPERATORS, *, first_line: int = 1
) -> BulkLoad:
    """Return the table of the subscriptions in these lines. Blank lines are passed over; bad ones are reported."""
    loader = _Loader(schema, operators)
    remaining, first = iter(lines), first_line
    while chunk := list(islice(remaining, LINES_AT_ONCE)):
        loader.take(first, chunk)
        first += len(chunk)
    return BulkLoad(loader.builder.finish(), loader.errors)


# --- slots ------------------------------------------------------------------------------------------------------------


class _LongWay(Exception):
    """No slot takes the predicate."""


@dataclass
class _Slot:
    """The predicates of one attribute and operator, in a run of lines: positions of subscriptions, and operands."""

    attribute: ViewAttribute
    op: str
    subscriptions: list[int] = field(default_factory=list)
    operands: list[Any] = field(default_factory=list)


class _SlotsOfAttribute(dict[str, tuple[Callable[[int], None], Callable[[Any], None]]]):
    """Operator -> how to append to the slot's two lists; slots are made when they are first asked for."""

    def __init__(self, attribute: ViewAttribute | None, slots: list[_Slot]) -> None:
        super().__init__()
        self._attribute, self._slots = attribute, slots

    def __missing__(self, op: str) -> tuple[Callable[[int], None], Callable[[Any], None]]:
        if self._attribute is None or not _is_plain(self._attribute.domain, op):
            raise _LongWay
        slot = _Slot(self._attribute, op)
        self._slots.append(slot)
        self[op] = slot.subscriptions.append, slot.operands.append
        return self[op]


class _Frame(dict[str, _SlotsOfAttribute]):
    """The slots for one combination of event types: attribute -> operator -> slot."""

    def __init__(self, schema: Schema, types: tuple[str, ...]) -> None:
        super().__init__()
        self.view, self.types = schema.view(types), types
        self.sides = sides_of(schema, types)
        self.given: list[tuple[int, dict[str, Any]]] = []  # properties, by the positions of subscriptions
        self.slots: list[_Slot] = []
        self.subscriptions: list[int] = []

    def __missing__(self, attribute: str) -> _SlotsOfAttribute:
        self[attribute] = _SlotsOfAttribute(self.view.attributes.get(attribute), self.slots)
        return self[attribute]


_ENDS = {  # operator -> does the operand bound (low, high), and are the ends open
    "=": (True, True, False, False),
    "!=": (True, True, False, False),
    "<": (False, True, False, True),
    "<=": (False, True, False, False),
    ">": (True, False, True, False),
    ">=": (True, False, False, False),
    "contains": (True, True, False, False),
}


def _is_plain(domain: Domain, op: str) -> bool:
    """Return whether the operator asks for one interval of keys."""
    if op not in _ENDS or op not in domain.offered or domain.kind == "point":
        return False
    return op in ("=", "!=") or domain.kind in ("numeric", "text", "time")


class _Loader:
    """Takes in lines, chunk by chunk."""

    def __init__(self, schema: Schema, operators: Operators) -> None:
        self.schema, self.operators = schema, operators
        self.builder = TableBuilder(schema)
        self.errors: list[BadLine] = []
        self._frames: dict[tuple[str, ...], _Frame | None] = {}

    def take(self, first: int, lines: Sequence[bytes | str]) -> None:
        """Take in a run of lines, the first of which has that number."""
        decode_record = msgspec.json.Decoder(BulkSubscription).decode
        ids: list[str | int | None] = []
        plain = np.ones(len(lines), np.bool_)
        for at, line in enumerate(lines):
            try:
                record = decode_record(line)
                frame = self._frame(record.event_types)
                for attribute, op, operand in record.predicates:
                    add_subscription, add_operand = frame[attribute][op]
                    add_subscription(at)
                    add_operand(operand)
                if record.properties:
                    frame.given.append((at, record.properties))
                frame.subscriptions.append(at)
                ids.append(record.id)
            except (msgspec.MsgspecError, _LongWay):  # another form, or wrong: the long way tells
                plain[at] = False  # what was laid out of it already is left out with it
                ids.append(None)
        self._bind(ids, plain)
        for at in np.flatnonzero(~plain).tolist():
            if lines[at].strip():
                self._take_slowly(first + at, lines[at])
        self.builder.flush()

    def _frame(self, event_types: list[str] | None) -> _Frame:
        types = tuple(event_types) if event_types else ()
        if types not in self._frames:
            try:
                self._frames[types] = _Frame(self.schema, tuple(dict.fromkeys(types)))
            except SchemaError:
                self._frames[types] = None
        frame = self._frames[types]
        if frame is None:
            raise _LongWay
        return frame

    def _bind(self, ids: list[str | int | None], plain: npt.NDArray[np.bool_]) -> None:
        """Bind the slots and take in what fitted; marks the rest in `plain`."""
        builder = self.builder
        frames = [frame for frame in self._frames.values() if frame is not None]
        bound = [chunk for frame in frames for chunk in _bind_frame(builder, frame, plain)]
        properties = [each for frame in frames if frame.given for each in _bind_properties(frame, plain)]
        # Only now is it known which subscriptions fitted everywhere: number these.
        numbers = len(builder.subscription) + np.cumsum(plain) - 1
        builder.chunks += [_renumbered(chunk, plain, numbers) for chunk in bound]
        first = len(builder.ids)
        builder.ids += [ids[at] for at in np.flatnonzero(plain).tolist()]
        builder.subscription += range(first, len(builder.ids))
        for name, at, values in properties:
            chosen = plain[at]
            kept = values if chosen.all() else [value for value, keep in zip(values, chosen, strict=True) if keep]
            if kept:
                builder.properties.extend(name, first + (np.cumsum(plain) - 1)[at[chosen]], kept)

    def _take_slowly(self, number: int, line: bytes | str) -> None:
        id = None
        try:
            document = decode(line)
            id = document.get("id") if isinstance(document, Mapping) else None
            id, tree = from_document(document)
            form = normalise(bind(tree, self.schema, operators=self.operators))
        except TocsinError as error:
            self.errors.append(BadLine(number, id, error))
        else:
            self.builder.add(number if id is None else id, form)


# --- binding a slot as a whole ----------------------------------------------------------------------------------------


def _bind_frame(builder: TableBuilder, frame: _Frame, plain: npt.NDArray[np.bool_]) -> Iterator[Chunk]:
    """Yield a chunk per slot, and empty the slots; marks in `plain` the subscriptions that do not fit."""
    if frame.types and frame.subscriptions:
        yield _type_chunk(builder, frame)
    frame.subscriptions.clear()
    for slot in frame.slots:
        if slot.operands:
            yield _bind_slot(builder, slot, plain)
            slot.subscriptions.clear()
            slot.operands.clear()


def _bind_properties(
    frame: _Frame, plain: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, npt.NDArray[np.int64], list[Any]]]:
    """Yield each property with positions and admitted values, and empty the frame; marks in `plain` what does not fit."""
    names, mandatory = frame.sides.property_names, frame.sides.mandatory_properties
    for at, given in frame.given:
        if not (names.keys() >= given.keys() and any(each <= given.keys() for each in mandatory)):
            plain[at] = False
    fitting = [(at, given) for at, given in frame.given if plain[at]]
    frame.given.clear()
    everyone = np.array([at for at, _ in fitting], np.int64)
    for name, full_names in names.items():
        try:
            positions, values = everyone, [given[name] for _, given in fitting]
        except KeyError:  # not everyone has it
            pairs = [(at, given[name]) for at, given in fitting if name in given]
            positions, values = np.array([at for at, _ in pairs], np.int64), [value for _, value in pairs]
        if not values:
            continue
        domain = frame.sides.properties[full_names[0]].domain
        try:
            admitted = admit_list(domain, values)
        except BadValue:  # the long way tells which; these lines are few
            wrong = [not _is_admitted(domain, value) for value in values]
            plain[positions[wrong]] = False
            values = [value for value, bad in zip(values, wrong, strict=True) if not bad]
            positions, admitted = positions[np.invert(wrong)], admit_list(domain, values)
        for full in full_names:
            yield full, positions, admitted


def _is_admitted(domain: Domain, value: Any) -> bool:
    try:
        domain.admit(value)
    except BadValue:
        return False
    return True


def _type_chunk(builder: TableBuilder, frame: _Frame) -> Chunk:
    """Return the predicates that ask for the frame's event types."""
    column = builder.column(EVENT_TYPE)
    domain = frame.view[EVENT_TYPE].domain
    references = builder.keys[column].intern(domain.key(name) for name in frame.types).tolist()
    if len(references) == 1:
        kind, low = PredicateKind.SOME_IN, references[0]
    else:
        points = tuple((reference, reference, False, False) for reference in references)
        kind, low = PredicateKind.SOME_OF, builder.set_number(column, points)
    count = len(frame.subscriptions)
    return _chunk(np.array(frame.subscriptions), column, kind, np.full(count, low), np.full(count, low))


def _bind_slot(builder: TableBuilder, slot: _Slot, plain: npt.NDArray[np.bool_]) -> Chunk:
    """Return the slot's predicates; an operand that is not of the domain marks its subscription in `plain`."""
    words_asked = slot.op == "contains"
    column = builder.column(slot.attribute.name, "words" if words_asked else "value")
    subscriptions = np.array(slot.subscriptions, np.int64)
    operands = [_only_word(operand) for operand in slot.operands] if words_asked else slot.operands
    references, fits = _references(builder, column, slot.attribute.domain, operands)
    plain[subscriptions[~fits]] = False
    has_low, has_high, low_open, high_open = _ENDS[slot.op]
    kind = PredicateKind.NONE_IN if slot.op == "!=" else PredicateKind.SOME_IN
    nowhere = np.full(len(references), UNBOUNDED)
    return _chunk(
        subscriptions,
        column,
        kind,
        references if has_low else nowhere,
        references if has_high else nowhere,
        low_open=low_open,
        high_open=high_open,
    )


def _only_word(operand: Any) -> str | None:
    """Return the word of a text that is a single word; None where there are more, or none."""
    found = words(operand) if type(operand) is str else ()
    return found[0] if len(found) == 1 else None


def _references(
    builder: TableBuilder, column: int, domain: Domain, operands: list[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the key reference of each operand, and which operands are of the domain at all."""
    keys = builder.keys[column]
    if isinstance(domain, NumericDomain) and domain.type != "decimal" and (array := _numbers(operands)) is not None:
        first = keys.extend(array)
        return np.arange(first, first + len(array)), np.ones(len(array), np.bool_)
    by_operand: dict[Any, Any] = {}
    found = [_key(domain, operand, by_operand) for operand in operands]
    fits = np.array([key is not None for key in found], np.bool_)
    references = np.full(len(found), UNBOUNDED)
    references[fits] = keys.intern(key for key in found if key is not None)
    return references, fits


def _numbers(operands: list[Any]) -> npt.NDArray[Any] | None:
    """Return the operands as int64 or float64, or None where that would not be exact or they are not all numbers."""
    kinds = set(map(type, operands))
    try:
        if kinds == {int}:
            return np.array(operands, np.int64)
        if kinds == {float}:
            return np.array(operands, np.float64)
    except OverflowError:
        return None
    if kinds == {int, float} and all(-_EXACT <= operand <= _EXACT for operand in operands):
        return np.array(operands, np.float64)
    return None


def _key(domain: Domain, operand: Any, known: dict[Any, Any]) -> Any:
    """Return the key of an operand, or None where it is not of the domain."""
    if type(operand) in (list, dict):
        return None
    memo = (type(operand), operand)  # 1, 1.0 and True are equal, and not the same
    if memo not in known:
        try:
            admit = domain.admit_operand if isinstance(domain, NumericDomain) else domain.admit
            known[memo] = domain.key(admit(operand))
        except BadValue:
            known[memo] = None
    return known[memo]


def _chunk(
    subscriptions: npt.NDArray[np.int64],
    column: int,
    kind: PredicateKind,
    low: npt.NDArray[Any],
    high: npt.NDArray[Any],
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> Chunk:
    count = len(subscriptions)
    return Chunk(
        subscriptions,
        np.full(count, column, np.uint16),
        np.full(count, kind, np.uint8),
        low.astype(np.int64),
        high.astype(np.int64),
        np.full(count, low_open),
        np.full(count, high_open),
    )


def _renumbered(chunk: Chunk, kept: npt.NDArray[np.bool_], numbers: npt.NDArray[np.int64]) -> Chunk:
    """Return the chunk's predicates of the kept subscriptions, under their conjunctions' numbers."""
    chosen = kept[chunk.conjunction]
    fields = (getattr(chunk, name)[chosen] for name in Chunk.__dataclass_fields__)
    _, *rest = fields
    return Chunk(numbers[chunk.conjunction[chosen]], *rest)
