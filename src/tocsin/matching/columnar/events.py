"""EventMatrix: a batch laid out event by event, as the kernels read it.

A unique column has one slot per event, its code (-1: absent); a multiple column has three: least code, greatest code
(-1: no code), and whether it is present. The codes of multiple columns stay in lists beside the matrix. For the simple
groups (dense equalities on unique columns) each event also has the atom that it satisfies, ready to be looked up; where
a segment has filters, it has a byte for each of the byte groups, and atoms only if some simple group is no byte group.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.coded_batch import CodesOfOne
from tocsin.index.jit import lean_kernel
from tocsin.index.layout import SCALARS, Bytes, Directory, Scalar, Section, int32_section
from tocsin.index.raw_memory import int64_at
from tocsin.index.rows import EVENT_BYTES
from tocsin.matching.columnar.bits import EVENTS_TRANSPOSED, FILTERS_PAY, transpose_bytes

if TYPE_CHECKING:
    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.segment import Segment
    from tocsin.matching.columnar.workspace import Workspace

Matrix = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Narrow = npt.NDArray[np.uint8]

EVENTS_AT_ONCE = 128  # whose columns are laid out one after the other, so that they stay in the cache


class EventMatrix(NamedTuple):
    """Events of one batch: slots[e, slot]; codes of multiple column m: codes[offset[m, e] : offset[m, e + 1]].

    simple[e, g] is the atom of simple group g that event e satisfies. narrow[32 * e + g] is 1 + its code in the column of
    byte group g, 0 where it has none, and 0 beyond these groups. Either may be left out (be empty), not both.
    """

    slots: Matrix
    simple: npt.NDArray[np.uint16]
    offset: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]
    narrow: Narrow


class RawTables(NamedTuple):
    """What kernels read of RawColumns (index/coded_batch.py)."""

    table_of: Int64s
    addresses: Int64s
    least: Int64s
    start: Int64s
    length: Int64s
    linear: npt.NDArray[np.bool_]
    codes: npt.NDArray[np.int32]


class EventLayout:
    """Lays batches out as the kernels of one segment read them."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        columns = segment.section(Section.COLUMNS).reshape(-1, 4)
        self.slots, self.simple = segment.scalar(Scalar.READ_SLOTS), segment.scalar(Scalar.SIMPLE_GROUPS)
        self.bytes = segment.scalar(Scalar.BYTE_GROUPS) if FILTERS_PAY else 0
        self.multiples = [(c, slot, at) for c, (_, slot, at, _) in enumerate(columns.tolist()) if at >= 0]
        self._multiple_slots = np.array([slot + i for _, slot, _ in self.multiples for i in range(3)], np.int64)
        self._multiple_order = np.argsort([position for _, _, position in self.multiples], kind="stable")
        self._nothing_multiple = np.array([-1, -1, 0] * len(self.multiples), np.int32)
        self._known_places: tuple[tuple[int, ...], Int64s, Int64s] | None = None
        self.group_of = np.full(len(columns), -1, np.int64)  # the simple group of each column
        self.group_of[segment.section(Section.GROUPS)[: 4 * self.simple : 4]] = np.arange(self.simple)
        groups = segment.section(Section.GROUPS).reshape(-1, 4)[: self.simple]
        self.column_of_simple, self.first_atom = groups[:, 0].copy(), groups[:, 2] + 1
        self.column_of_slot = np.full(self.slots, -1, np.int32)
        for c, (_, slot, at, read) in enumerate(columns.tolist()):
            if at < 0 and read:
                self.column_of_slot[slot] = c
        self.nothing_raw = np.full(len(columns), -1, np.int64)
        self.strip = np.zeros(EVENT_BYTES * EVENTS_AT_ONCE, np.uint8)

    def lay_out(
        self, batch: CodedBatch, workspace: Workspace | None = None, *, for_filters: bool = False
    ) -> EventMatrix:
        """Return the batch as the kernels read it; in memory of the workspace, where one is given.

        `for_filters`: with bytes, where the segment has filters, and without atoms that these tell.
        """
        segment, size, raw = self.segment, batch.size, batch.raw
        work = workspace or _Fresh()
        with_bytes = for_filters and self.bytes > 0
        padded = -(-size // EVENTS_TRANSPOSED) * EVENTS_TRANSPOSED if with_bytes else 0
        slots = work.matrix("slots", size, self.slots)
        simple = work.matrix("simple", 0 if with_bytes and self.bytes == self.simple else size, self.simple)
        narrow = work.matrix("narrow", padded, EVENT_BYTES).reshape(-1)
        # A sliced batch has rows that are longer than it; a copy is cheaper than a second signature.
        codes = np.ascontiguousarray(batch.codes)
        events = EventMatrix(slots, simple, *self._lay_out_multiples(batch, slots), narrow)
        tables = (
            RawTables(self.nothing_raw, *_NOTHING_RAW)
            if raw is None
            else RawTables(raw.table_of, raw.addresses, raw.least, raw.start, raw.length, raw.linear, raw.codes)
        )
        _lay_out(segment.buffer, segment.directory, codes, self.group_of, tables, self.strip, events)
        return events

    def lay_out_one(self, batch: CodedBatch) -> EventMatrix:
        """Return a batch of one event, none of whose columns is raw, as the kernels read it."""
        slots, simple = np.empty((1, self.slots), np.int32), np.empty((1, self.simple), np.uint16)
        _lay_out_one(batch.codes, self.column_of_slot, self.column_of_simple, self.first_atom, slots, simple)
        return EventMatrix(slots, simple, *self._lay_out_multiples_of_one(batch, slots), _NO_BYTES)

    def _lay_out_multiples_of_one(self, batch: CodedBatch, slots: Matrix) -> tuple[Int64s, npt.NDArray[np.int32]]:
        """As _lay_out_multiples, for one event: with many columns, calls of NumPy would take most of its time."""
        if not self.multiples:
            return _NO_OFFSETS, _NO_CODES
        if isinstance(batch.multiples, CodesOfOne):
            found = batch.multiples
            slot, position = self._places_of(found.columns)
            offset = np.zeros((len(self.multiples), 2), np.int64)
            slots[0, self._multiple_slots] = self._nothing_multiple
            _lay_out_codes(found.offset, found.codes, found.present, slot, position, slots, offset)
            return offset, found.codes
        ends: list[int] = []
        parts: list[npt.NDArray[np.int32]] = [_NO_CODES]
        written: list[int] = []
        total = 0
        for column, _, _ in self.multiples:
            multiple = batch.multiples.get(column)
            first, last = (0, 0) if multiple is None else multiple.offset.tolist()
            ends += (total, total + last - first)
            total += last - first
            if multiple is None:
                written += (-1, -1, 0)
            elif first == last:
                written += (-1, -1, int(multiple.present[0]))
            else:
                codes = multiple.codes[first:last]
                parts.append(codes)
                written += (int(codes[0]), int(codes[-1]), int(multiple.present[0]))
        slots[0, self._multiple_slots] = written
        return np.array(ends, np.int64).reshape(-1, 2)[self._multiple_order], np.concatenate(parts)

    def _places_of(self, columns: tuple[int, ...]) -> tuple[Int64s, Int64s]:
        """Return the slot and the position of some multiple columns, -1 where they are not read."""
        if self._known_places is None or self._known_places[0] is not columns:
            known = {column: (slot, position) for column, slot, position in self.multiples}
            found = np.array([known.get(column, (-1, -1)) for column in columns], np.int64).reshape(-1, 2)
            self._known_places = columns, found[:, 0].copy(), found[:, 1].copy()
        return self._known_places[1:]

    def _lay_out_multiples(self, batch: CodedBatch, slots: Matrix) -> tuple[Int64s, npt.NDArray[np.int32]]:
        """Write the slots of multiple columns; return the offset and codes of an EventMatrix."""
        size = batch.size
        if not self.multiples:
            return _NO_OFFSETS, _NO_CODES
        offset = np.zeros((len(self.multiples), size + 1), np.int64)
        parts: list[npt.NDArray[np.int32]] = [_NO_CODES]
        total = 0
        for column, slot, position in self.multiples:
            slots[:, slot : slot + 3] = (-1, -1, 0)
            multiple = batch.multiples.get(column)
            if multiple is None:
                continue
            first, last = multiple.offset[0], multiple.offset[-1]
            offset[position] = multiple.offset - first + total
            parts.append(multiple.codes[first:last])
            total += int(last - first)
            slots[:, slot + 2] = multiple.present
            some = np.flatnonzero(np.diff(multiple.offset))
            slots[some, slot] = multiple.codes[multiple.offset[some]]
            slots[some, slot + 1] = multiple.codes[multiple.offset[some + 1] - 1]
        return offset, np.concatenate(parts)


class _Fresh:
    """Memory that nobody else uses."""

    def matrix(self, name: str, rows: int, columns: int) -> npt.NDArray[Any]:
        return np.empty((rows, columns), {"simple": np.uint16, "narrow": np.uint8}.get(name, np.int32))


_NO_OFFSETS = np.zeros((0, 0), np.int64)
_NO_CODES = np.zeros(0, np.int32)
_NO_BYTES = np.zeros(0, np.uint8)
_NOTHING_RAW = (*(np.zeros(0, np.int64),) * 4, np.zeros(0, np.bool_), _NO_CODES)


@lean_kernel
def _lay_out_codes(
    offset: Int64s, codes: npt.NDArray[np.int32], present: npt.NDArray[np.bool_], slot: Int64s, position: Int64s,
    slots: Matrix, ends: Int64s,
) -> None:  # fmt: skip
    """Write the slots and the ends of multiple columns: the least and the greatest code of each, and whether it is there."""
    for c in range(len(slot)):
        if slot[c] < 0:
            continue
        ends[position[c], 0], ends[position[c], 1] = offset[c], offset[c + 1]
        if offset[c] < offset[c + 1]:
            slots[0, slot[c]], slots[0, slot[c] + 1] = codes[offset[c]], codes[offset[c + 1] - 1]
        slots[0, slot[c] + 2] = present[c]


@lean_kernel
def _lay_out_one(
    codes: npt.NDArray[np.int32], column_of_slot: npt.NDArray[np.int32], column_of_simple: npt.NDArray[np.int32],
    first_atom: npt.NDArray[np.int32], slots: Matrix, simple: npt.NDArray[np.uint16],
) -> None:  # fmt: skip
    """As _lay_out, for event 0 alone; slots of multiple columns are left as they are."""
    for slot in range(len(column_of_slot)):
        if column_of_slot[slot] >= 0:
            slots[0, slot] = codes[column_of_slot[slot], 0]
    for g in range(len(column_of_simple)):
        simple[0, g] = first_atom[g] + codes[column_of_simple[g], 0]


@lean_kernel
def _lay_out(
    buffer: Bytes, directory: Directory, codes: npt.NDArray[np.int32], group_of: Int64s, raw: RawTables, strip: Narrow,
    matrix: EventMatrix,
) -> None:  # fmt: skip
    """slots[e, slot of c] = code of event e in column c; simple[e, g] = first atom of g + 1 + code in the column of g.

    narrow[32 * e + g] = 1 + code, by way of `strip`, which has a few events column by column.
    Columns that are raw (table_of[c] >= 0) are coded here, as by code_by_table in index/coder.py, from where Arrow has
    them; the codes of others are codes[c]. A few events at a time, so that they stay in the cache.
    """
    slots, simple, narrow = matrix.slots, matrix.simple, matrix.narrow
    table_of, addresses, least, table_start, table_length, linear, tables = raw
    columns = int32_section(buffer, directory, Section.COLUMNS)
    groups = int32_section(buffer, directory, Section.GROUPS)
    n = slots.shape[0]
    bytes_wanted = np.int64(directory[SCALARS + Scalar.BYTE_GROUPS]) if len(narrow) else np.int64(0)
    strip[bytes_wanted * EVENTS_AT_ONCE :] = 0
    for start in range(0, n, EVENTS_AT_ONCE):
        begin, end = np.uint64(start), np.uint64(min(n, start + EVENTS_AT_ONCE))
        for c in range(len(columns) // 4):
            g, slot, read = group_of[c], np.int64(columns[4 * c + 1]), columns[4 * c + 3] > 0
            if columns[4 * c + 2] >= 0 or (g < 0 and not read):
                continue
            t, atom_wanted, byte_wanted = table_of[c], g >= 0 and simple.shape[0] > 0, 0 <= g < bytes_wanted
            first = np.int64(groups[4 * g + 2]) + 1 if g >= 0 else np.int64(0)
            place = np.uint64(g * EVENTS_AT_ONCE) if byte_wanted else np.uint64(0)
            if t < 0:
                source = codes[c]
                if read:
                    for e in range(begin, end):
                        slots[e, slot] = source[e]
                if atom_wanted:
                    for e in range(begin, end):
                        simple[e, g] = first + source[e]
                if byte_wanted:
                    for e in range(begin, end):
                        strip[place + e - begin] = source[e] + 1
                continue
            address, low, table = addresses[t], least[t], table_start[t]
            high = low + table_length[t] - 1
            if read:
                for e in range(begin, end):
                    slots[e, slot] = tables[np.uint64(table + min(max(int64_at(address, e), low), high) - low)]
            if atom_wanted:
                for e in range(begin, end):
                    value = min(max(int64_at(address, e), low), high)
                    simple[e, g] = first + tables[np.uint64(table + value - low)]
            if byte_wanted and linear[t]:
                most = 2 * table_length[t] - 3
                for e in range(begin, end):
                    value = min(max(int64_at(address, e), low), high) - low
                    strip[place + e - begin] = min(max(2 * value, 1), most)
            elif byte_wanted:
                for e in range(begin, end):
                    value = min(max(int64_at(address, e), low), high)
                    strip[place + e - begin] = tables[np.uint64(table + value - low)] + 1
        if bytes_wanted:
            for e in range(start, np.int64(end), EVENTS_TRANSPOSED):
                transpose_bytes(strip, e - start, EVENTS_AT_ONCE, narrow, EVENT_BYTES * e)
