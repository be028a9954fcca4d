"""Encoding: events as Arrow columns, or as admitted events, into the code space of a segment.

An EventSource gives the keys of its columns, each read once however many segments ask; a SegmentEncoder codes them by
its segment's constants into the CodedBatch that the kernels of matching/columnar/ read. Attributes that no column knows
are never read; columns whose attribute the events lack are absent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Column, Derivation
from tocsin.errors import BadValue
from tocsin.index.coded_batch import CodedBatch, MultipleCodes
from tocsin.index.coder import Coder, Codes
from tocsin.index.jit import kernel
from tocsin.index.key_column import KeyColumn, from_events, keys_of
from tocsin.index.layout import ABSENT_CODE
from tocsin.index.raw_memory import code_by_tables
from tocsin.schema import EVENT_TYPE, Domain, Event, NumericDomain, Schema, Value

if TYPE_CHECKING:
    import pyarrow as pa

Int64s = npt.NDArray[np.int64]


class EventSource(ABC):
    """A batch of events that can be asked for the keys of a column."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._known: dict[tuple[str, Derivation], KeyColumn | None] = {}

    def keys(self, column: Column) -> KeyColumn | None:
        """Return the keys of a column; None where the events have none of the attribute."""
        name = (column.attribute, column.derivation)
        if name not in self._known:
            self._known[name] = self.read(column.attribute, column.domain, column.derivation)
        return self._known[name]

    @abstractmethod
    def read(self, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn | None:
        """Return the keys, read anew."""

    def address(self, _: str) -> int | None:
        """Return where in memory the events' values of an attribute lie, if they are int64 and none is absent."""
        return None

    @abstractmethod
    def sample(self, count: int) -> EventSource:
        """Return the first `count` events as a source of their own."""

    @abstractmethod
    def values(self, attribute: str, domain: Domain, events: Int64s) -> list[tuple[Value, ...] | None]:
        """Return the canonical values that these events have; None where an event does not bind the attribute."""


class EventObjects(EventSource):
    """Admitted events."""

    def __init__(self, events: Sequence[Event]) -> None:
        super().__init__(len(events))
        self.events = events

    def read(self, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn:
        return from_events(self.events, attribute, domain, derivation)

    def sample(self, count: int) -> EventObjects:
        return EventObjects(self.events[:count])

    def values(self, attribute: str, _: Domain, events: Int64s) -> list[tuple[Value, ...] | None]:
        return [self.events[number].values.get(attribute) for number in events.tolist()]


class EventColumns(EventSource):
    """A record batch: columns are attributes, nested structs are dotted names.

    Where the schema has one event type only, the batch need not name it.
    """

    def __init__(self, batch: pa.RecordBatch, schema: Schema) -> None:
        super().__init__(batch.num_rows)
        self.batch, self.schema = batch, schema

    def read(self, attribute: str, domain: Domain, derivation: Derivation) -> KeyColumn | None:
        from tocsin.index.arrow_keys import from_arrow

        array = _field(self.batch, attribute)
        if array is not None:
            return from_arrow(array, attribute, domain, derivation)
        if attribute == EVENT_TYPE and len(self.schema.event_types) == 1:
            return KeyColumn(np.zeros(self.size, np.int64), None)
        return None

    def address(self, attribute: str) -> int | None:
        import pyarrow as pa

        position = self.batch.schema.get_field_index(attribute)
        array = self.batch.column(position) if position >= 0 else None
        if array is None or array.type != pa.int64() or array.null_count:
            return None
        found: int = array.buffers()[1].address + 8 * array.offset
        return found

    def sample(self, count: int) -> EventColumns:
        return EventColumns(self.batch.slice(0, count), self.schema)

    def values(self, attribute: str, domain: Domain, events: Int64s) -> list[tuple[Value, ...] | None]:
        from tocsin.index.arrow_keys import values_from_arrow

        array = _field(self.batch, attribute)
        return [None] * len(events) if array is None else values_from_arrow(array, domain, events)


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

    attributes: list[str]
    rows: Int64s  # of the columns in the coded batch
    least: Int64s
    start: Int64s
    length: Int64s
    codes: Codes


class SegmentEncoder:
    """Codes events by the constants of one segment, or of a table."""

    def __init__(self, segment: Coded) -> None:
        self.coders = [Coder(column) for column in segment.columns]

    def encode(self, source: EventSource, seq: Int64s | None = None, arrival: Int64s | None = None) -> CodedBatch:
        """Return the events' codes; raises BadValue where events have several values of a single-valued attribute."""
        codes = np.empty((len(self.coders), source.size), np.int32)
        multiples: dict[int, MultipleCodes] = {}
        done = self._code_where_they_lie(source, codes)
        for position, coder in enumerate(self.coders):
            if position in done:
                continue
            column, row = coder.column, codes[position]
            keys = source.keys(column)
            if keys is None or column.multiple:
                row.fill(ABSENT_CODE)
                if keys is not None:
                    multiples[position] = _multiple(keys, coder)
            elif keys.offset is None:
                coder.code_into(keys, row)
            else:
                _lists_of_one(keys, coder, row)
        return CodedBatch(codes, multiples, seq, arrival)

    def _code_where_they_lie(self, source: EventSource, codes: Codes) -> set[int]:
        """Code the columns of integers that have a look-up table, all in one call; return their positions."""
        tables = self._tables
        if not source.size:
            return set()
        found = [source.address(attribute) for attribute in tables.attributes]
        chosen = [number for number, address in enumerate(found) if address is not None]
        if not chosen:
            return set()
        rows = tables.rows[chosen]
        addresses = np.array([found[number] for number in chosen], np.int64)
        code_by_tables(
            rows, addresses, tables.least[chosen], tables.start[chosen], tables.length[chosen], tables.codes,
            source.size, codes,
        )  # fmt: skip
        return set(rows.tolist())

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
            attributes=[coder.column.attribute for _, coder in chosen],
            rows=np.array([position for position, _ in chosen], np.int64),
            least=np.array([coder.table_start for _, coder in chosen], np.int64),
            start=np.cumsum(lengths) - lengths,
            length=lengths,
            codes=np.concatenate([np.zeros(0, np.int32), *(coder.table for _, coder in chosen)]),
        )

    def encode_one(self, event: Event, seq: Int64s | None = None, arrival: Int64s | None = None) -> CodedBatch:
        """Return the codes of one event, without the detour by columns."""
        single = [-1] * len(self.coders)
        multiples: dict[int, MultipleCodes] = {}
        values = event.values
        for position, coder in enumerate(self.coders):
            column = coder.column
            found = values.get(column.attribute)
            if found is None:
                continue
            if not column.multiple:
                single[position] = coder.code_of(keys_of(column.domain, column.derivation, found[0])[0])
                continue
            keys = [key for value in found for key in keys_of(column.domain, column.derivation, value)]
            codes = sorted({coder.code_of(key) for key in keys} - ({0} if column.derivation == "words" else set()))
            multiples[position] = MultipleCodes(
                np.array([0, len(codes)], np.int64), np.array(codes, np.int32), np.ones(1, np.bool_)
            )
        return CodedBatch(np.array(single, np.int32).reshape(-1, 1), multiples, seq, arrival)


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
