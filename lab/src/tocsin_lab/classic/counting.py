"""Counting, also called fair predicate (Yan and García-Molina; Le Subscribe 3.2, TOPSS 3.3, thesis chapter 7).

Every distinct predicate is stored and evaluated once, whoever contains it. Step one, the predicate stage, finds the
satisfied predicates; step two adds one to each subscription for each satisfied predicate that it contains; step three
compares the sums with the numbers of predicates.

Time for an event: the stage, plus one addition per (satisfied predicate, subscription that contains it), plus one
comparison per subscription. Its weakness: all additions for all subscriptions, also of those that cannot match.
Space: each predicate once, and the association. Subscriptions are added and removed incrementally; a predicate leaves
with the last subscription that contains it.

The stage (stage.py) and the association (association.py) are parts of their own; any two go together.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.errors import TooLarge
from tocsin.schema import Schema
from tocsin_lab.classic.association import MOST_PREDICATES, Association
from tocsin_lab.classic.bit_matrix import BitMatrix
from tocsin_lab.classic.byte_matrix import ByteMatrix
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.hash_stage import HashStage
from tocsin_lab.classic.numbering import Numbering
from tocsin_lab.classic.ordered_lists import OrderedLists
from tocsin_lab.classic.posting_lists import PostingLists
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate, grown
from tocsin_lab.classic.sorted_arrays import SortedArrays
from tocsin_lab.classic.stage import Stage
from tocsin_lab.classic.topss_lists import TopssLists
from tocsin_lab.classic.value_table import ValueTable

STAGES: dict[str, type[Stage]] = {stage.name: stage for stage in (OrderedLists, SortedArrays, ValueTable, HashStage)}
ASSOCIATIONS: dict[str, type[Association]] = {
    each.name: each for each in (PostingLists, TopssLists, BitMatrix, ByteMatrix)
}


class DistinctPredicates:
    """The distinct predicates of many rows: their numbers, how many rows contain each, and the stage that has them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.numbering = Numbering()
        self.uses = np.zeros(16, np.int64)  # per predicate
        self.live = 0
        self._satisfied = np.zeros(16, np.int32)

    def acquire(self, predicates: list[CodedPredicate]) -> npt.NDArray[np.int64]:
        """Return the numbers of a row's predicates; those that are new go into the stage."""
        numbers = [self.numbering.number(*predicate) for predicate in predicates]
        self.uses = grown(self.uses, len(self.numbering))
        for number, predicate in zip(numbers, predicates, strict=True):
            if self.uses[number] == 0:
                self.stage.insert(number, predicate)
                self.live += 1
            self.uses[number] += 1
        return np.array(numbers, np.int64)

    def acquire_many(self, columns: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """Return the numbers of the predicates of many rows, given as columns."""
        numbers = self.numbering.numbers(*columns)
        self.uses = grown(self.uses, len(self.numbering))
        before = self.uses[: len(self.numbering)] > 0
        self.uses[: len(self.numbering)] += np.bincount(numbers, minlength=len(self.numbering))
        keys = self.numbering.arrays.keys.reshape(-1, 4)
        new = np.flatnonzero(~before & (self.uses[: len(self.numbering)] > 0))
        self.stage.insert_many(new, list(keys[new].T))
        self.live += len(new)
        return numbers

    def release(self, predicates: list[CodedPredicate]) -> npt.NDArray[np.int64]:
        """Return the numbers of a row's predicates; those that no other row contains leave the stage."""
        numbers = [self.numbering.number(*predicate) for predicate in predicates]
        for number, predicate in zip(numbers, predicates, strict=True):
            self.uses[number] -= 1
            if self.uses[number] == 0:
                self.stage.remove(number, predicate)
                self.numbering.forget(number)  # given again before new ones are made
                self.live -= 1
        return np.array(numbers, np.int64)

    def satisfied(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        """Return the numbers of the predicates that the event satisfies."""
        self._satisfied = grown(self._satisfied, len(self.numbering) + 1)
        return self._satisfied[: self.stage.satisfied(event, self._satisfied)]

    @property
    def mostly_gone(self) -> bool:
        """Whether most of the numbers belong to predicates that have left."""
        return len(self.numbering) > 1024 and self.live * 2 < len(self.numbering)


class CountingMatcher(ClassicMatcher):
    """The fair predicate algorithm of Le Subscribe: sorted arrays, then lists."""

    name: ClassVar[str] = "counting"
    stage: ClassVar[type[Stage]] = SortedArrays
    association: ClassVar[type[Association]] = PostingLists

    def __init__(
        self, schema: Schema, stage: type[Stage] | None = None, association: type[Association] | None = None
    ) -> None:
        self._stage, self._association = stage or self.stage, association or self.association
        super().__init__(schema)

    def like_this(self) -> CountingMatcher:
        """Return an empty engine of the same parts."""
        return type(self)(self.schema, self._stage, self._association)

    def _reset(self) -> None:
        self.predicates = DistinctPredicates(self._stage(self.columns))
        self.associated = self._association()

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        if len(predicates) > MOST_PREDICATES:
            raise TooLarge(f"a conjunction of {len(predicates)} predicates; this engine counts up to {MOST_PREDICATES}")
        self.associated.insert(row, self.predicates.acquire(predicates))

    def _insert_many(self, rows: range) -> None:
        first = int(self.rows.start[rows.start])
        counts = self.rows.count[rows.start : rows.stop]
        part = slice(first, first + int(counts.sum()))
        columns = [np.asarray(field[part], np.int64) for field in self.rows.predicates]
        self.associated.insert_many(np.repeat(np.array(rows), counts), self.predicates.acquire_many(columns))

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        self.associated.remove(row, self.predicates.release(predicates))

    def _mostly_gone(self) -> bool:
        return self.predicates.mostly_gone

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        satisfied = self.predicates.satisfied(event)
        found = self.associated.matching(satisfied)
        details = self.work.details
        details["predicates satisfied"] = details.get("predicates satisfied", 0) + len(satisfied)
        details["additions"] = self.associated.counted
        self.work.subscriptions_checked += self.associated.rows
        return found


class TableListMatcher(CountingMatcher):
    """TOPSS's fastest: table-based predicate evaluation, then lists."""

    name: ClassVar[str] = "counting-table"
    stage: ClassVar[type[Stage]] = ValueTable


class BitMatrixMatcher(CountingMatcher):
    """TOPSS's bit-wise matching, on the table-based predicate evaluation."""

    name: ClassVar[str] = "counting-bits"
    stage: ClassVar[type[Stage]] = ValueTable
    association: ClassVar[type[Association]] = BitMatrix


class ByteMatrixMatcher(CountingMatcher):
    """TOPSS's regular matching, on the table-based predicate evaluation."""

    name: ClassVar[str] = "counting-bytes"
    stage: ClassVar[type[Stage]] = ValueTable
    association: ClassVar[type[Association]] = ByteMatrix
