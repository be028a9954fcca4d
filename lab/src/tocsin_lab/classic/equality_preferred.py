"""Equality preferred (Le Subscribe 3.4).

Subscriptions are clustered by their equality predicates: those with equality predicates on the same attributes share a
cluster, in which one hash look-up finds the subscriptions all of whose equality predicates an event satisfies. The
other predicates are stored and counted as in the fair predicate algorithm; a subscription found by its equalities, or
without any, matches when as many of its other predicates are satisfied as it has.

Time for an event: one look-up per cluster whose attributes the event has, the predicate stage for the others, one
addition per (satisfied non-equality predicate, subscription), one comparison per subscription found by its equalities
or without equalities. Space: an equality predicate is stored once per combination it is part of.
Maintenance is incremental and costs a little more than counting's: the clusters.

An equality on an attribute that may have several values is no key for a hash table; it counts as a non-equality here.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.errors import TooLarge
from tocsin_lab.classic.association import MOST_PREDICATES
from tocsin_lab.classic.counting import DistinctPredicates
from tocsin_lab.classic.equality_clusters import EqualityClusters, split_rows
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.jit import kernel
from tocsin_lab.classic.lists import Lists
from tocsin_lab.classic.posting_lists import add_hits
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate, grown
from tocsin_lab.classic.sorted_arrays import SortedArrays

WITHOUT_EQUALITY = 0  # the list of the rows without equality predicate; group g has list g + 1


class EqualityPreferredMatcher(ClassicMatcher):
    """Clusters by equality, counting for the rest."""

    name: ClassVar[str] = "equality-preferred"

    def _reset(self) -> None:
        self.clusters = EqualityClusters()
        self._members = Lists()  # group -> rows
        self._predicates = DistinctPredicates(SortedArrays(self.columns))
        self._postings = Lists()  # non-equality predicate -> rows
        self._needed = np.zeros(16, np.uint8)  # per row: its non-equality predicates
        self._hits = np.zeros(16, np.uint8)

    def split(self, predicates: list[CodedPredicate]) -> tuple[list[CodedPredicate], list[CodedPredicate]]:
        """Return the equality predicates that can be a key, and the others."""
        keys: dict[int, CodedPredicate] = {}
        others = []
        for predicate in predicates:
            if predicate.is_equality and not self.columns.columns[predicate.column].multiple:
                keys[predicate.column] = predicate
            else:
                others.append(predicate)
        return list(keys.values()), others

    def _list_of(self, equalities: list[CodedPredicate]) -> npt.NDArray[np.int64]:
        return np.array([self.clusters.group(equalities) + 1 if equalities else WITHOUT_EQUALITY])

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        equalities, others = self.split(predicates)
        if len(others) > MOST_PREDICATES:
            raise TooLarge(f"a conjunction of {len(others)} predicates; this engine counts up to {MOST_PREDICATES}")
        self._members.append(self._list_of(equalities), row)
        self._postings.append(self._predicates.acquire(others), row)
        self._needed, self._hits = grown(self._needed, row + 1), grown(self._hits, row + 1)
        self._needed[row] = len(others)

    def _insert_many(self, rows: range) -> None:
        multiple = np.array([column.multiple for column in self.columns.columns])
        split = split_rows(self.rows, rows, multiple)
        if len(split.with_equality):
            self._members.extend(self.clusters.group_many(split.equalities) + 1, split.with_equality)
        nowhere = np.full(len(split.without_equality), WITHOUT_EQUALITY)
        self._members.extend(nowhere, split.without_equality)
        self._postings.extend(self._predicates.acquire_many(split.others), split.other_row)
        self._needed, self._hits = grown(self._needed, rows.stop), grown(self._hits, rows.stop)
        counts = np.bincount(split.other_row - rows.start, minlength=len(rows))
        self._needed[rows.start : rows.stop] = counts

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        equalities, others = self.split(predicates)
        self._members.remove(self._list_of(equalities), row)
        self._postings.remove(self._predicates.release(others), row)

    def _mostly_gone(self) -> bool:
        return self._predicates.mostly_gone

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        groups = np.concatenate([np.array([WITHOUT_EQUALITY]), self.clusters.of_event(event) + 1])
        self._members.reserve(self.clusters.groups + 1)
        satisfied = self._predicates.satisfied(event)
        self._postings.reserve(len(self._predicates.numbering))
        members, postings = self._members.arrays, self._postings.arrays
        partial = int(members.length[groups].sum())
        found = np.empty(partial + 1, np.int32)
        count, additions = count_partial(
            members.start, members.length, members.pool, groups,
            postings.start, postings.length, postings.pool, satisfied,
            self._needed, self._hits, found,
        )  # fmt: skip
        self.work.subscriptions_checked += partial
        details = self.work.details
        details["additions"] = details.get("additions", 0) + int(additions)
        details["clusters"] = len(self.clusters.schemas)
        return found[:count]


@kernel
def count_partial(  # type: ignore[no-untyped-def]
    member_start, member_length, member_pool, groups, start, length, pool, satisfied, needed, hits, found
):
    """Write the rows of the groups with as many hits as they need; the hit vector is zero before and after."""
    additions = add_hits(start, length, pool, satisfied, hits)
    count = 0
    for g in range(len(groups)):
        first = member_start[groups[g]]
        for i in range(first, first + member_length[groups[g]]):
            row = member_pool[i]
            found[count] = row
            count += hits[row] == needed[row]
    hits[:] = 0
    return count, additions
