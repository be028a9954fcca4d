"""Non-equality quarantining (Le Subscribe 3.4).

As in equality preferred, clusters find the subscriptions all of whose equality predicates hold. Of those found, the
other predicates are then evaluated one by one, until one fails: no counting for them at all. Only the subscriptions
without any equality predicate are quarantined in a fair predicate algorithm of their own.

Time for an event: one look-up per cluster, the remaining predicates of each subscription found, and counting over the
quarantined ones alone. A non-equality predicate may be evaluated several times, and is stored with each subscription.
It wins where equalities are selective; where they are not, equality preferred may.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.counting import CountingMatcher
from tocsin_lab.classic.equality_clusters import EqualityClusters, split_rows
from tocsin_lab.classic.jit import kernel
from tocsin_lab.classic.lists import Lists
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate, grown, holds


class QuarantiningMatcher(CountingMatcher):
    """Clusters by equality, the rest checked; counting for what has no equality."""

    name: ClassVar[str] = "quarantining"
    most_selective_first: ClassVar[bool] = True

    def _reset(self) -> None:
        super()._reset()
        self.clusters = EqualityClusters()
        self._members = Lists()  # group -> rows
        # Quarantined rows are counted under numbers of their own, so that comparisons are as many as they are.
        self._ward_of: dict[int, int] = {}
        self._row_in = np.zeros(16, np.int32)  # per number in the quarantine
        self._empty: list[int] = []

    def _quarantine(self, row: int) -> int:
        """Return the number under which a row is counted."""
        ward = self._empty.pop() if self._empty else len(self._ward_of)
        self._ward_of[row] = ward
        self._row_in = grown(self._row_in, ward + 1)
        self._row_in[ward] = row
        return ward

    def _keys(self, predicates: list[CodedPredicate]) -> list[CodedPredicate]:
        """Return the equality predicates that can be a key."""
        columns = self.columns.columns
        return [found for found in predicates if found.is_equality and not columns[found.column].multiple]

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        keys = self._keys(predicates)
        if keys:
            self._members.append(np.array([self.clusters.group(keys)]), row)
        else:
            super()._insert(self._quarantine(row), predicates)

    def _insert_many(self, rows: range) -> None:
        multiple = np.array([column.multiple for column in self.columns.columns])
        split = split_rows(self.rows, rows, multiple)
        if len(split.with_equality):
            self._members.extend(self.clusters.group_many(split.equalities), split.with_equality)
        quarantined = np.isin(split.other_row, split.without_equality)
        if quarantined.any():
            numbers = self.predicates.acquire_many([field[quarantined] for field in split.others])
            _, which = np.unique(split.other_row[quarantined], return_inverse=True)
            wards = np.array([self._quarantine(row) for row in split.without_equality.tolist()], np.int64)
            order = np.argsort(wards[which], kind="stable")  # numbers that were free come first
            self.associated.insert_many(wards[which][order], numbers[order])

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        keys = self._keys(predicates)
        if keys:
            self._members.remove(np.array([self.clusters.group(keys)]), row)
        else:
            ward = self._ward_of.pop(row)
            self._empty.append(ward)
            super()._delete(ward, predicates)

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        quarantined = self._row_in[super()._match(event)]
        groups = self.clusters.of_event(event)
        self._members.reserve(self.clusters.groups)
        members, sets = self._members.arrays, self.columns.sets
        partial = int(members.length[groups].sum())
        if not partial:
            return quarantined
        found = np.empty(partial + 1, np.int32)
        count, checked = check_members(
            members.start, members.length, members.pool, groups,
            self.rows.start, self.rows.count, *self.rows.predicates, *event,
            sets.offset, sets.low, sets.high, found,
        )  # fmt: skip
        self.work.subscriptions_checked += partial
        self.work.predicates_checked += checked
        return np.concatenate([quarantined, found[:count]])


@kernel
def check_members(  # type: ignore[no-untyped-def]
    member_start, member_length, member_pool, groups, row_start, row_count, column, kind, low, high,
    offset, labels, present, set_offset, set_low, set_high, found,
):  # fmt: skip
    """Write the rows of the groups all of whose predicates hold, tested until one fails."""
    count, checked = 0, 0
    for g in range(len(groups)):
        first = member_start[groups[g]]
        for i in range(first, first + member_length[groups[g]]):
            row = member_pool[i]
            matches = True
            for p in range(row_start[row], row_start[row] + row_count[row]):
                checked += 1
                if not holds(
                    column[p], kind[p], low[p], high[p], offset, labels, present, set_offset, set_low, set_high
                ):
                    matches = False
                    break
            if matches:
                found[count] = row
                count += 1
    return count, checked
