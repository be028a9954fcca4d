"""Hanson's algorithm (Hanson et al. 1990; Le Subscribe 3.5, symmetric paper 3.1.2).

The most selective predicate of each subscription is its access predicate, kept in a balanced interval binary search
tree per attribute (ibs_tree.py); the predicates of all subscriptions are in one table. An event first finds the
subscriptions whose access predicate it satisfies; of these, every predicate is then tested until one fails.

Time for an event: O(log n) per attribute, plus the predicates of the subscriptions found. It improves on counting by
never touching the others, and depends on knowing selectivities: here they are guessed from the domains, since events
have not been seen. Insertion and removal: O(log n), the tree stays balanced.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.access import AccessIndex
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.lists import Lists
from tocsin_lab.classic.quarantining import check_members
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate


class HansonMatcher(ClassicMatcher):
    """One access predicate per row; the rows found are tested one by one."""

    name: ClassVar[str] = "hanson"
    most_selective_first: ClassVar[bool] = True

    def _reset(self) -> None:
        self.access = AccessIndex()
        self._members = Lists()  # entry -> rows

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        self._members.append(np.array([self.access.acquire(predicates)]), row)

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        entry = self.access.entry(predicates)
        self._members.remove(np.array([entry]), row)
        self.access.release(entry)

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        entries = self.access.of_event(event)
        self._members.reserve(self.access.entries)
        members, sets = self._members.arrays, self.columns.sets
        partial = int(members.length[entries].sum())
        found = np.empty(partial + 1, np.int32)
        count, checked = check_members(
            members.start, members.length, members.pool, entries,
            self.rows.start, self.rows.count, *self.rows.predicates, *event,
            sets.offset, sets.low, sets.high, found,
        )  # fmt: skip
        self.work.subscriptions_checked += partial
        self.work.predicates_checked += checked
        return found[:count]
