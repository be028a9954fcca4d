"""ValueTable: the table-based predicate index for finite domains, TOPSS section 3.2.

table[operator][value] is the number of the predicate with that operator and value. Insertion, removal and look-up of a
predicate take O(1). An event's value is an index into the table: the = predicate is there, every >= predicate at or
before it and every <= predicate at or after it is inferred to hold, every != predicate but the one there. (TOPSS has >
and <; over whole numbers `> 7` is `>= 8`.) Retrieving them walks the table: O(size of the domain) per column.

Columns over other domains (texts, unlimited numbers, more than 2^20 values) are left to sorted arrays.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.jit import kernel
from tocsin_lab.classic.labels import Labels, WholeLabels
from tocsin_lab.classic.rows import CodedEvent, grown
from tocsin_lab.classic.sorted_arrays import SortedArrays, search_column
from tocsin_lab.classic.stage import Satisfied, Stage

LARGEST = 1 << 20


class ValueTable(Stage):
    """One table per column with a finite domain, all in one array; 0 is no predicate, else 1 + its number."""

    name: ClassVar[str] = "table"

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self._table: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self._used = 0
        self._base = np.zeros(0, np.int64)  # per column: where its table starts
        self._lowest = np.zeros(0, np.int64)  # per column: the value of its first entry
        self._size = np.zeros(0, np.int64)  # per column: values of its domain; 0 where it has no table
        self._known = 0
        self._rest = SortedArrays(columns)

    def _insert(self, number: int, column: int, operator: int, operand: int) -> None:
        self._know_columns()
        place = self._place(column, operator, operand)
        if place < 0:
            self._rest._insert(number, column, operator, operand)
        else:
            self._table[place] = number + 1

    def _insert_many(self, numbers: Labels, columns: Labels, operators: Labels, operands: Labels) -> None:
        self._know_columns()
        at, size = operands - self._lowest[columns], self._size[columns]
        inside = (at >= 0) & (at < size)
        place = self._base[columns] + operators * size + at
        self._table[place[inside]] = numbers[inside] + 1
        beside = ~inside
        self._rest._insert_many(numbers[beside], columns[beside], operators[beside], operands[beside])

    def _remove(self, number: int, column: int, operator: int, operand: int) -> None:
        place = self._place(column, operator, operand)
        if place < 0:
            self._rest._remove(number, column, operator, operand)
        else:
            self._table[place] = 0

    def _satisfied(self, event: CodedEvent, found: Satisfied) -> int:
        self._know_columns()
        return int(
            look_up(self._table, self._base, self._lowest, self._size, *self._rest.flat(), *event, found)
        )  # fmt: skip

    def bytes(self) -> int:
        return 4 * self._used + self._rest.bytes()

    def _place(self, column: int, operator: int, operand: int) -> int:
        """Return the index of an entry; -1 where the column has no table, or the value is beside the domain."""
        size, at = int(self._size[column]), operand - int(self._lowest[column])
        return int(self._base[column]) + operator * size + at if 0 <= at < size else -1

    def _know_columns(self) -> None:
        """Make tables for the columns that came since."""
        while self._known < len(self.columns):
            column = self._known
            self._known += 1
            self._base, self._lowest, self._size = (
                grown(array, self._known) for array in (self._base, self._lowest, self._size)
            )
            labels = self.columns.columns[column].labels
            if isinstance(labels, WholeLabels) and labels.size <= LARGEST:
                self._base[column], self._lowest[column], self._size[column] = self._used, labels.lowest, labels.size
                self._used += 4 * labels.size
                self._table = grown(self._table, self._used)


@kernel
def look_up(table, base, lowest, size, array_offset, operand, number, offset, labels, present, found):  # type: ignore[no-untyped-def]
    count = 0
    for column in range(len(present)):
        if not present[column]:
            continue
        first, last, values = offset[column], offset[column + 1], size[column]
        # Also for a column with a table: operands beside the domain.
        count = search_column(array_offset, operand, number, column, offset, labels, found, count)
        if values == 0:
            continue
        start = base[column]
        for i in range(first, last):  # EQ
            entry = table[start + labels[i] - lowest[column]]
            if entry > 0:
                found[count] = entry - 1
                count += 1
        start += values
        i = first
        for value in range(values):  # NE
            if i < last and labels[i] - lowest[column] == value:
                i += 1
            elif table[start + value] > 0:
                found[count] = table[start + value] - 1
                count += 1
        start += values
        for value in range(labels[last - 1] - lowest[column], -1, -1):  # GE: inferred downwards
            if table[start + value] > 0:
                found[count] = table[start + value] - 1
                count += 1
        start += values
        for value in range(labels[first] - lowest[column], values):  # LE: inferred upwards
            if table[start + value] > 0:
                found[count] = table[start + value] - 1
                count += 1
    return count
