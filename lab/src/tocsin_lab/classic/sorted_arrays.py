"""SortedArrays: one sorted array per column and operator, searched by bisection (Le Subscribe 3.1; thesis 7.1).

The leaf level of a B-tree without the tree. Look-up: O(log n) per column and operator, then one step per satisfied
predicate. Insertion and removal shift the array: O(n) with a small constant. What the kernel reads is one flat copy of
all arrays, made anew at the first event after a change.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.jit import helper, kernel
from tocsin_lab.classic.rows import CodedEvent
from tocsin_lab.classic.stage import EQ, GE, LE, NE, Satisfied, Stage


class FlatArrays(NamedTuple):
    """All arrays behind one another: those of (column c, operator o) are offset[4c + o] .. offset[4c + o + 1]."""

    offset: npt.NDArray[np.int64]
    operand: npt.NDArray[np.int64]
    number: npt.NDArray[np.int32]


class SortedArrays(Stage):
    """Operands in ascending order, the predicate's number beside each."""

    name: ClassVar[str] = "sorted arrays"

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self._operands: dict[tuple[int, int], list[int]] = {}
        self._numbers: dict[tuple[int, int], list[int]] = {}
        self._flat: FlatArrays | None = None

    def _insert(self, number: int, column: int, operator: int, operand: int) -> None:
        operands = self._operands.setdefault((column, operator), [])
        at = bisect_left(operands, operand)
        operands.insert(at, operand)
        self._numbers.setdefault((column, operator), []).insert(at, number)
        self._flat = None

    def _remove(self, number: int, column: int, operator: int, operand: int) -> None:  # noqa: ARG002
        at = bisect_left(self._operands[column, operator], operand)
        del self._operands[column, operator][at]
        del self._numbers[column, operator][at]
        self._flat = None

    def _satisfied(self, event: CodedEvent, found: Satisfied) -> int:
        return int(search_arrays(*self.flat(), *event, found))

    def flat(self) -> FlatArrays:
        """Return all arrays behind one another."""
        if self._flat is None or len(self._flat.offset) != 4 * len(self.columns) + 1:
            places = [(column, operator) for column in range(len(self.columns)) for operator in (EQ, NE, GE, LE)]
            offset = np.zeros(len(places) + 1, np.int64)
            np.cumsum([len(self._operands.get(place, ())) for place in places], out=offset[1:])
            operands = [operand for place in places for operand in self._operands.get(place, ())]
            numbers = [number for place in places for number in self._numbers.get(place, ())]
            self._flat = FlatArrays(offset, np.array(operands, np.int64), np.array(numbers, np.int32))
        return self._flat

    def bytes(self) -> int:
        return sum(field.nbytes for field in self.flat())


@helper
def first_at_least(operand, start, stop, value):  # type: ignore[no-untyped-def]
    """Return the first position in start .. stop whose operand is not below the value."""
    while start < stop:
        middle = (start + stop) >> 1
        if operand[middle] < value:
            start = middle + 1
        else:
            stop = middle
    return start


@helper
def search_column(array_offset, operand, number, column, offset, labels, found, count):  # type: ignore[no-untyped-def]
    """Append the satisfied predicates of one column that is present; return the new count."""
    first, last = offset[column], offset[column + 1]
    for i in range(first, last):  # EQ
        stop = array_offset[4 * column + 1]
        at = first_at_least(operand, array_offset[4 * column], stop, labels[i])
        if at < stop and operand[at] == labels[i]:
            found[count] = number[at]
            count += 1
    at, stop = array_offset[4 * column + 1], array_offset[4 * column + 2]  # NE: all between the labels
    for i in range(first, last):
        equal = first_at_least(operand, at, stop, labels[i])
        for j in range(at, equal):
            found[count] = number[j]
            count += 1
        at = equal + 1 if equal < stop and operand[equal] == labels[i] else equal
    for j in range(at, stop):
        found[count] = number[j]
        count += 1
    if first == last:
        return count
    at, stop = array_offset[4 * column + 2], array_offset[4 * column + 3]  # GE: operands up to the greatest label
    greatest = labels[last - 1]
    while at < stop and operand[at] <= greatest:
        found[count] = number[at]
        count += 1
        at += 1
    stop = array_offset[4 * column + 4]  # LE: operands from the least label on
    for j in range(first_at_least(operand, array_offset[4 * column + 3], stop, labels[first]), stop):
        found[count] = number[j]
        count += 1
    return count


@kernel
def search_arrays(array_offset, operand, number, offset, labels, present, found):  # type: ignore[no-untyped-def]
    count = 0
    for column in range(len(present)):
        if present[column]:
            count = search_column(array_offset, operand, number, column, offset, labels, found, count)
    return count
