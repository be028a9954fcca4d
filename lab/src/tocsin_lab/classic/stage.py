"""The predicate stage: which distinct predicates an event satisfies (TOPSS section 3.1, Le Subscribe section 3.1).

A stage holds predicates by number and writes the numbers of the satisfied ones; any stage goes with any association of
predicates and subscriptions (counting.py). Four operators have a place in every stage's own structure:

    EQ   label = v          satisfied by the event's own labels
    NE   label != v         by all events that have the column, except those labels
    GE   label >= v         inference: satisfied up to the event's greatest label
    LE   label <= v         inference: satisfied from the event's least label

With several labels in a column (a multiple attribute), `some label <= v` is `least label <= v`, so inference stays
exact. The other kinds (an interval of a multiple attribute, `in`, `is present`) are tested one by one, once per event
and distinct predicate; that is OtherPredicates, which every stage shares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.jit import kernel
from tocsin_lab.classic.labels import HIGHEST, LOWEST, Labels
from tocsin_lab.classic.rows import NONE_IN, SOME_IN, CodedEvent, CodedPredicate, PredicateColumns, grown, holds

EQ, NE, GE, LE, OTHER = range(5)
Satisfied = npt.NDArray[np.int32]


def operator_of(predicate: CodedPredicate) -> tuple[int, int]:
    """Return the operator of a predicate in a stage's structures, and its operand."""
    _, kind, low, high = predicate
    if kind == SOME_IN and low == high:
        return EQ, low
    if kind == NONE_IN and low == high:
        return NE, low
    if kind == SOME_IN and high == HIGHEST:
        return GE, low
    if kind == SOME_IN and low == LOWEST:
        return LE, high
    return OTHER, 0


class Stage(ABC):
    """Predicates by number."""

    name: ClassVar[str]

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.other = OtherPredicates(columns)

    def insert(self, number: int, predicate: CodedPredicate) -> None:
        """Take in a predicate under a number that is not in use."""
        operator, operand = operator_of(predicate)
        if operator == OTHER:
            self.other.insert(number, predicate)
        else:
            self._insert(number, predicate.column, operator, operand)

    def insert_many(self, numbers: Labels, fields: Sequence[Labels]) -> None:
        """Take in many predicates, given as columns (column, kind, low, high), under numbers that are not in use."""
        column, kind, low, high = fields
        some, point = kind == SOME_IN, low == high
        operator = np.select(
            [some & point, (kind == NONE_IN) & point, some & (high == HIGHEST), some & (low == LOWEST)],
            [EQ, NE, GE, LE],
            OTHER,
        )
        operand = np.where(operator == LE, high, low)
        for at in np.flatnonzero(operator == OTHER).tolist():
            fields_there = (int(field[at]) for field in fields)
            self.other.insert(int(numbers[at]), CodedPredicate(*fields_there))
        own = operator != OTHER
        self._insert_many(numbers[own], column[own], operator[own], operand[own])

    def _insert_many(self, numbers: Labels, columns: Labels, operators: Labels, operands: Labels) -> None:
        """Take in many; a stage that can do better than one by one does."""
        for each in zip(numbers.tolist(), columns.tolist(), operators.tolist(), operands.tolist(), strict=True):
            self._insert(*each)

    def remove(self, number: int, predicate: CodedPredicate) -> None:
        """Let go of a predicate."""
        operator, operand = operator_of(predicate)
        if operator == OTHER:
            self.other.remove(number)
        else:
            self._remove(number, predicate.column, operator, operand)

    def satisfied(self, event: CodedEvent, found: Satisfied) -> int:
        """Write the numbers of the satisfied predicates, each once; return how many there are."""
        return self.other.satisfied(event, found, self._satisfied(event, found))

    @abstractmethod
    def _insert(self, number: int, column: int, operator: int, operand: int) -> None: ...

    @abstractmethod
    def _remove(self, number: int, column: int, operator: int, operand: int) -> None: ...

    @abstractmethod
    def _satisfied(self, event: CodedEvent, found: Satisfied) -> int: ...

    @abstractmethod
    def bytes(self) -> int:
        """Return how much memory the structure takes."""


class OtherPredicates:
    """Predicates that are tested one by one."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.numbers = np.zeros(0, np.int32)
        self.predicates = PredicateColumns.empty(8)
        self._place: dict[int, int] = {}

    def insert(self, number: int, predicate: CodedPredicate) -> None:
        at = len(self._place)
        self.numbers = grown(self.numbers, at + 1)
        self.predicates = self.predicates.with_room(at + 1)
        self.numbers[at] = number
        self.predicates.put(at, predicate)
        self._place[number] = at

    def remove(self, number: int) -> None:
        at, last = self._place.pop(number), len(self._place)
        if at != last:  # the last one takes its place
            self._place[int(self.numbers[last])] = at
            for field in (self.numbers, *self.predicates):
                field[at] = field[last]

    def satisfied(self, event: CodedEvent, found: Satisfied, count: int) -> int:
        """Append the satisfied ones to `found`, which has `count` numbers already; return how many it has then."""
        if not self._place:
            return count
        sets = self.columns.sets
        return int(
            test_others(
                len(self._place), self.numbers, *self.predicates, *event,
                sets.offset, sets.low, sets.high, found, count,
            )
        )  # fmt: skip


@kernel
def test_others(  # type: ignore[no-untyped-def]
    size, numbers, column, kind, low, high, offset, labels, present, set_offset, set_low, set_high, found, count
):
    for i in range(size):
        if holds(column[i], kind[i], low[i], high[i], offset, labels, present, set_offset, set_low, set_high):
            found[count] = numbers[i]
            count += 1
    return count
