"""HashStage: equality predicates in a hash table, the rest in sorted arrays (Le Subscribe 3.1 names both).

Look-up: O(1) per event label for =, O(log n) per column for the others. Insertion of an equality: O(1).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.jit import kernel
from tocsin_lab.classic.numbering import Numbering, find
from tocsin_lab.classic.rows import CodedEvent, grown
from tocsin_lab.classic.sorted_arrays import SortedArrays, search_arrays
from tocsin_lab.classic.stage import EQ, Satisfied, Stage


class HashStage(Stage):
    """(column, label) -> entry -> predicate."""

    name: ClassVar[str] = "hash"

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self._entries = Numbering()
        self._predicate = np.zeros(16, np.int32)  # per entry: 1 + the predicate's number, 0 where it has left
        self._rest = SortedArrays(columns)

    def _insert(self, number: int, column: int, operator: int, operand: int) -> None:
        if operator != EQ:
            self._rest._insert(number, column, operator, operand)
            return
        entry = self._entries.number(column, operand)
        self._predicate = grown(self._predicate, entry + 1)
        self._predicate[entry] = number + 1

    def _remove(self, number: int, column: int, operator: int, operand: int) -> None:
        if operator != EQ:
            self._rest._remove(number, column, operator, operand)
            return
        self._predicate[self._entries.number(column, operand)] = 0

    def _satisfied(self, event: CodedEvent, found: Satisfied) -> int:
        count = int(search_arrays(*self._rest.flat(), *event, found))
        return int(probe(*self._entries.arrays[:2], self._predicate, *event[:2], found, count))

    def bytes(self) -> int:
        return sum(field.nbytes for field in self._entries.arrays) + self._predicate.nbytes + self._rest.bytes()


@kernel
def probe(slots, keys, predicate, offset, labels, found, count):  # type: ignore[no-untyped-def]
    for column in range(len(offset) - 1):
        for i in range(offset[column], offset[column + 1]):
            entry = slots[find(slots, keys, column, labels[i], 0, 0)]
            if entry >= 0 and predicate[entry] > 0:
                found[count] = predicate[entry] - 1
                count += 1
    return count
