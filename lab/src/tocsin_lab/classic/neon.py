"""NEON's tables (New Era of Networks; Le Subscribe 3.7).

Nothing is factorised: the predicates table has one entry per predicate of each subscription, (subscription, event type,
attribute, comparison, value), as often as it occurs. The operations table says which (event type, attribute,
comparison) occur, so that an event looks only at the entries that can concern it; of these every one is evaluated. A
count per subscription is compared with its number of predicates at the end.

Time for an event: one test per entry of the operations that concern it, then one comparison per subscription. Space: one
entry per predicate and subscription, and one per event type it names. Maintenance: rows of tables, with their indexes.
Comparisons of one attribute with a constant (= != < <= > >=), joined by `and`; as in the product, no more.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.errors import TooLarge
from tocsin.matching.engine import Capabilities
from tocsin.schema import EVENT_TYPE
from tocsin_lab.classic.association import FREE, MOST_PREDICATES
from tocsin_lab.classic.jit import kernel
from tocsin_lab.classic.rows import SOME_IN, SOME_OF, CodedEvent, CodedPredicate, PredicateColumns, grown, holds
from tocsin_lab.classic.single_valued import COMPARISONS, SingleValuedMatcher

ANY_TYPE = -1


class Operation(NamedTuple):
    """What an entry of the operations table says: event type (its label), column, kind of comparison."""

    event_type: int
    column: int
    kind: int


class Entries:
    """The entries of the predicates table that belong to one operation: rows, low and high ends."""

    def __init__(self) -> None:
        self.size = 0
        self.rows = np.zeros(8, np.int32)
        self.predicates = PredicateColumns.empty(8)

    def insert(self, row: int, predicate: CodedPredicate) -> None:
        self.size += 1
        self.rows = grown(self.rows, self.size)
        self.predicates = self.predicates.with_room(self.size)
        self.rows[self.size - 1] = row
        self.predicates.put(self.size - 1, predicate)

    def remove(self, row: int, predicate: CodedPredicate) -> None:
        """Remove one entry; the last one takes its place."""
        same = (self.rows[: self.size] == row) & (self.predicates.low[: self.size] == predicate.low)
        at = int(np.flatnonzero(same & (self.predicates.high[: self.size] == predicate.high))[0])
        self.size -= 1
        for field in (self.rows, *self.predicates):
            field[at] = field[self.size]


class NeonMatcher(SingleValuedMatcher):
    """Two tables and a count."""

    name: ClassVar[str] = "neon"
    capabilities: ClassVar[Capabilities] = Capabilities(
        operators=COMPARISONS, disjunction=False, negation=False, multiple_attributes=False
    )

    def _reset(self) -> None:
        self.operations: dict[int, dict[Operation, Entries]] = {}  # by event type
        self._needed = np.zeros(0, np.uint8)
        self._hits = np.zeros(0, np.uint8)
        self._rows = 0

    def _types(self, predicates: list[CodedPredicate]) -> tuple[list[int], list[CodedPredicate]]:
        """Return the event types that a row names, and its predicates on attributes."""
        column = self._type_column()
        types = [ANY_TYPE]
        for predicate in predicates:
            if predicate.column == column:
                ends = self.columns.sets.intervals(predicate.low) if predicate.kind == SOME_OF else [predicate[2:]]
                types = [label for low, high in ends for label in range(low, high + 1)]
        return types, [predicate for predicate in predicates if predicate.column != column]

    def _type_column(self) -> int:
        return self.columns.number(EVENT_TYPE)

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        types, asked = self._types(predicates)
        if len(asked) > MOST_PREDICATES:
            raise TooLarge(f"a conjunction of {len(asked)} predicates; this engine counts up to {MOST_PREDICATES}")
        if row >= self._rows:
            self._needed, self._hits = grown(self._needed, row + 1), grown(self._hits, row + 1)
            self._needed[self._rows : row + 1] = FREE
            self._rows = row + 1
        # A row that asks only about types still needs one entry to be found by.
        entries = asked or [CodedPredicate(self._type_column(), SOME_IN)]
        self._needed[row] = len(entries)
        for event_type in types:
            for predicate in entries:
                operation = Operation(event_type, predicate.column, predicate.kind)
                self.operations.setdefault(event_type, {}).setdefault(operation, Entries()).insert(row, predicate)

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        types, asked = self._types(predicates)
        for event_type in types:
            for predicate in asked or [CodedPredicate(self._type_column(), SOME_IN)]:
                operation = Operation(event_type, predicate.column, predicate.kind)
                self.operations[event_type][operation].remove(row, predicate)
        self._needed[row] = FREE

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        types = [ANY_TYPE]
        if self._type_column() < len(event.present):
            types.append(int(event.labels[event.offset[self._type_column()]]))
        sets = self.columns.sets
        for event_type in types:
            for entries in self.operations.get(event_type, {}).values():
                evaluate_entries(
                    entries.size, entries.rows, *entries.predicates, *event,
                    sets.offset, sets.low, sets.high, self._hits,
                )  # fmt: skip
                self.work.predicates_checked += entries.size
        found = np.empty(self._rows + 1, np.int32)
        count = compare_counts(self._hits, self._needed, self._rows, found)
        self.work.subscriptions_checked += self._rows
        return found[:count]


@kernel
def evaluate_entries(size, rows, column, kind, low, high, offset, labels, present, set_offset, set_low, set_high, hits):  # type: ignore[no-untyped-def]
    """Add one to the row of each entry that holds."""
    if size == 0 or column[0] >= len(present):
        return
    for i in range(size):
        if holds(column[i], kind[i], low[i], high[i], offset, labels, present, set_offset, set_low, set_high):
            hits[rows[i]] += np.uint8(1)


@kernel
def compare_counts(hits, needed, rows, found):  # type: ignore[no-untyped-def]
    count = 0
    for row in range(rows):
        found[count] = row
        count += hits[row] == needed[row]
    hits[:rows] = 0
    return count
