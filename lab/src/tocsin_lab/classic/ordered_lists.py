"""OrderedLists: one ordered linked list per column and operator, TOPSS's general way to manage predicates (3.1).

Look-up, insertion and removal walk the list: O(n) per column and operator. Equality and >= lists ascend, <= lists
descend, so that a walk ends where inference says that no more can hold.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.jit import kernel
from tocsin_lab.classic.labels import Labels
from tocsin_lab.classic.rows import CodedEvent, grown
from tocsin_lab.classic.stage import LE, Satisfied, Stage


class OrderedLists(Stage):
    """Nodes in flat arrays, linked by `following`; -1 ends a list."""

    name: ClassVar[str] = "ordered lists"

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self._head = np.zeros(0, np.int32)  # per 4 * column + operator: 1 + the first node, 0 where there is none
        self._following = np.zeros(16, np.int32)
        self._operand = np.zeros(16, np.int64)
        self._number = np.zeros(16, np.int32)
        self._used = 0
        self._free: list[int] = []

    def _insert(self, number: int, column: int, operator: int, operand: int) -> None:
        self._head = grown(self._head, 4 * len(self.columns))
        node = self._free.pop() if self._free else self._new_node()
        self._operand[node], self._number[node] = operand, number
        link(self._head, self._following, self._operand, node, 4 * column + operator, operator == LE)

    def _insert_many(self, numbers: Labels, columns: Labels, operators: Labels, operands: Labels) -> None:
        """Take in many; into empty lists by sorting, with the nodes where they would lie had they come one by one."""
        if self._used or not len(numbers):
            super()._insert_many(numbers, columns, operators, operands)
            return
        self._used = len(numbers)
        self._head = grown(self._head, 4 * len(self.columns))
        self._operand, self._number = operands.astype(np.int64), numbers.astype(np.int32)
        self._following = np.full(self._used, -1, np.int32)
        places = 4 * columns + operators
        order = np.lexsort((np.where(operators == LE, -operands, operands), places))
        same = places[order][1:] == places[order][:-1]
        self._following[order[:-1][same]] = order[1:][same]
        first = order[np.concatenate([[True], ~same])]
        self._head[places[first]] = first + 1

    def _new_node(self) -> int:
        self._used += 1
        self._following = grown(self._following, self._used)
        self._operand = grown(self._operand, self._used)
        self._number = grown(self._number, self._used)
        return self._used - 1

    def _remove(self, number: int, column: int, operator: int, operand: int) -> None:  # noqa: ARG002
        node = int(unlink(self._head, self._following, self._number, number, 4 * column + operator))
        self._free.append(node)

    def _satisfied(self, event: CodedEvent, found: Satisfied) -> int:
        self._head = grown(self._head, 4 * len(self.columns))
        return int(walk_lists(self._head, self._following, self._operand, self._number, *event, found))

    def bytes(self) -> int:
        nodes = self._used * (self._following.itemsize + self._operand.itemsize + self._number.itemsize)
        return int(nodes + 4 * len(self.columns) * self._head.itemsize)


@kernel
def link(head, following, operand, node, place, descending):  # type: ignore[no-untyped-def]
    """Put a node into its list, in order."""
    before, at = -1, head[place] - 1
    while at >= 0 and (operand[at] > operand[node] if descending else operand[at] < operand[node]):
        before, at = at, following[at]
    following[node] = at
    if before < 0:
        head[place] = node + 1
    else:
        following[before] = node


@kernel
def unlink(head, following, number, wanted, place):  # type: ignore[no-untyped-def]
    """Take the node of a predicate out of its list; return it."""
    before, at = -1, head[place] - 1
    while number[at] != wanted:
        before, at = at, following[at]
    if before < 0:
        head[place] = following[at] + 1
    else:
        following[before] = following[at]
    return at


@kernel
def walk_lists(head, following, operand, number, offset, labels, present, found):  # type: ignore[no-untyped-def]
    count = 0
    for column in range(len(present)):
        if not present[column]:
            continue
        first, last = offset[column], offset[column + 1]
        i, at = first, head[4 * column] - 1  # EQ
        while at >= 0 and i < last:
            if operand[at] < labels[i]:
                at = following[at]
            elif operand[at] > labels[i]:
                i += 1
            else:
                found[count] = number[at]
                count += 1
                at = following[at]
        i, at = first, head[4 * column + 1] - 1  # NE
        while at >= 0:
            while i < last and labels[i] < operand[at]:
                i += 1
            if i == last or labels[i] != operand[at]:
                found[count] = number[at]
                count += 1
            at = following[at]
        if first == last:
            continue
        at = head[4 * column + 2] - 1  # GE
        while at >= 0 and operand[at] <= labels[last - 1]:
            found[count] = number[at]
            count += 1
            at = following[at]
        at = head[4 * column + 3] - 1  # LE
        while at >= 0 and operand[at] >= labels[first]:
            found[count] = number[at]
            count += 1
            at = following[at]
    return count
