"""Rows: the predicates of every conjunction, flat; the predicates table of Hanson et al., and every engine's master copy.

A row is one conjunction. A coded predicate asks something of the labels that an event has in a column, by the kinds of
compile/table.py: SOME_IN and NONE_IN an interval [low, high] of labels, SOME_OF and NONE_OF one of the intervals of set
number `low`, PRESENT, ABSENT. (Checks never come here: the front end evaluates them last.) Where the engine asks for
it, a row's predicates stand most selective first. Row numbers are used again after removal, as TOPSS does (section 3),
so that vectors have no holes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import PredicateKind
from tocsin_lab.classic.jit import helper
from tocsin_lab.classic.labels import HIGHEST, LOWEST, Labels, moved_labels

SOME_IN, NONE_IN = int(PredicateKind.SOME_IN), int(PredicateKind.NONE_IN)
SOME_OF, NONE_OF = int(PredicateKind.SOME_OF), int(PredicateKind.NONE_OF)
PRESENT, ABSENT = int(PredicateKind.PRESENT), int(PredicateKind.ABSENT)


class CodedPredicate(NamedTuple):
    """One predicate of a row."""

    column: int
    kind: int
    low: int = LOWEST
    high: int = HIGHEST

    @property
    def is_equality(self) -> bool:
        return self.kind == SOME_IN and self.low == self.high


class CodedEvent(NamedTuple):
    """An event in labels: those of column c are labels[offset[c]:offset[c + 1]], ascending and distinct."""

    offset: npt.NDArray[np.int32]
    labels: Labels
    present: npt.NDArray[np.bool_]


class PredicateColumns(NamedTuple):
    """Predicates as flat columns, for kernels."""

    column: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    low: Labels
    high: Labels

    @classmethod
    def empty(cls, room: int) -> PredicateColumns:
        """Return columns with room for so many predicates."""
        return cls(
            np.zeros(room, np.int32), np.zeros(room, np.uint8), np.zeros(room, np.int64), np.zeros(room, np.int64)
        )

    def put(self, at: int, predicate: CodedPredicate) -> None:
        """Set one predicate."""
        self.column[at], self.kind[at], self.low[at], self.high[at] = predicate

    def with_room(self, size: int) -> PredicateColumns:
        """Return the columns, or larger copies of them."""
        return PredicateColumns(
            grown(self.column, size), grown(self.kind, size), grown(self.low, size), grown(self.high, size)
        )

    def taken(self, at: npt.NDArray[np.int64]) -> PredicateColumns:
        """Return the predicates at these positions."""
        return PredicateColumns(self.column[at], self.kind[at], self.low[at], self.high[at])


class Sets:
    """Sets of label intervals, numbered; equal sets share a number."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        self.offset = np.zeros(1, np.int64)
        self.low = np.zeros(0, np.int64)
        self.high = np.zeros(0, np.int64)

    def number(self, column: int, intervals: tuple[tuple[int, int], ...]) -> int:
        """Return the number of a set of ascending disjoint intervals of a column."""
        found = self.numbers.setdefault((column, intervals), len(self.numbers))
        if found == len(self.offset) - 1:
            self.offset = np.append(self.offset, self.offset[-1] + len(intervals))
            self.low = np.append(self.low, np.array([low for low, _ in intervals], np.int64))
            self.high = np.append(self.high, np.array([high for _, high in intervals], np.int64))
        return found

    def intervals(self, number: int) -> list[tuple[int, int]]:
        at = slice(int(self.offset[number]), int(self.offset[number + 1]))
        return list(zip(self.low[at].tolist(), self.high[at].tolist(), strict=True))

    def move(self, column: int, old: Labels, new: Labels) -> None:
        """Follow labels that were spread anew."""
        renumbered = {}
        for (of, intervals), number in self.numbers.items():
            if of == column:
                at = slice(int(self.offset[number]), int(self.offset[number + 1]))
                self.low[at] = moved_labels(self.low[at], old, new)
                self.high[at] = moved_labels(self.high[at], old, new)
                intervals = tuple(self.intervals(number))
            renumbered[of, intervals] = number
        self.numbers = renumbered


class Rows:
    """The predicates of each row: predicates start[row] .. start[row] + count[row] of the flat columns."""

    def __init__(self) -> None:
        self.start = np.zeros(0, np.int64)
        self.count = np.zeros(0, np.int32)  # -1: the row is free
        self._predicates = PredicateColumns.empty(64)
        self._used = 0
        self._garbage = 0
        self._size = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return how many row numbers there are, free ones included."""
        return self._size

    @property
    def predicates(self) -> PredicateColumns:
        return self._predicates

    def live(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows in use."""
        return np.flatnonzero(self.count[: self._size] >= 0)

    def add(self, predicates: list[CodedPredicate]) -> int:
        """Return the number of a new row with these predicates."""
        row = self._free.pop() if self._free else self._grow_rows(1)
        first = self._grow_predicates(len(predicates))
        for at, predicate in enumerate(predicates, first):
            self._predicates.put(at, predicate)
        self.start[row], self.count[row] = first, len(predicates)
        return row

    def extend(self, offset: npt.NDArray[np.int64], predicates: PredicateColumns) -> range:
        """Return the numbers of many new rows; the predicates of the i-th are offset[i] .. offset[i + 1]."""
        count = len(offset) - 1
        row = self._grow_rows(count)
        first = self._grow_predicates(len(predicates.column))
        for name, values in zip(PredicateColumns._fields, predicates, strict=True):
            getattr(self._predicates, name)[first : self._used] = values
        self.start[row : row + count] = first + offset[:-1]
        self.count[row : row + count] = np.diff(offset)
        return range(row, row + count)

    def remove(self, row: int) -> None:
        """Let go of a row; its number will be used again."""
        self._garbage += int(self.count[row])
        self.count[row] = -1
        self._free.append(row)
        if self._garbage > 1024 and 2 * self._garbage > self._used:
            self._compact()

    def of(self, row: int) -> list[CodedPredicate]:
        """Return the predicates of a row."""
        at = slice(int(self.start[row]), int(self.start[row]) + int(self.count[row]))
        return [
            CodedPredicate(*found) for found in zip(*(field[at].tolist() for field in self._predicates), strict=True)
        ]

    def move(self, column: int, old: Labels, new: Labels) -> None:
        """Follow labels that were spread anew."""
        predicates = self._predicates
        at = np.flatnonzero((predicates.column[: self._used] == column) & (predicates.kind[: self._used] <= NONE_IN))
        predicates.low[at] = moved_labels(predicates.low[at], old, new)
        predicates.high[at] = moved_labels(predicates.high[at], old, new)

    def _grow_rows(self, count: int) -> int:
        first, self._size = self._size, self._size + count
        self.start = grown(self.start, self._size)
        self.count = grown(self.count, self._size)
        return first

    def _grow_predicates(self, count: int) -> int:
        first, self._used = self._used, self._used + count
        self._predicates = self._predicates.with_room(self._used)
        return first

    def _compact(self) -> None:
        live = self.live()
        counts = self.count[live].astype(np.int64)
        start = np.concatenate([[0], np.cumsum(counts)])
        kept = np.repeat(self.start[live] - start[:-1], counts) + np.arange(start[-1])
        self._predicates = self._predicates.taken(kept)
        self.start[live] = start[:-1]
        self._used, self._garbage = int(start[-1]), 0


def grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Return the array, or a larger copy of it, with room for `size`; what is new is zero."""
    if len(array) >= size:
        return array
    larger = np.zeros(max(size, 2 * len(array), 16), array.dtype)
    larger[: len(array)] = array
    return larger


# --- one predicate against one event, for kernels --------------------------------------------------------------------------


@helper
def holds(column, kind, low, high, offset, labels, present, set_offset, set_low, set_high):  # type: ignore[no-untyped-def]
    """Return whether the predicate holds for the event."""
    if kind == ABSENT:
        return not present[column]
    if not present[column]:
        return False
    if kind == PRESENT:
        return True
    if kind <= NONE_IN:
        inside = False
        for i in range(offset[column], offset[column + 1]):
            if low <= labels[i] <= high:
                inside = True
                break
        return inside == (kind == SOME_IN)
    inside = False
    for i in range(offset[column], offset[column + 1]):
        for s in range(set_offset[low], set_offset[low + 1]):
            if set_low[s] <= labels[i] <= set_high[s]:
                inside = True
                break
    return inside == (kind == SOME_OF)
