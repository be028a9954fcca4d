"""Clusters: rows with the same access and the same number of predicates, their remaining predicates column by column.

In a cluster of m rows with k remaining predicates, the j-th predicates of all rows lie next to one another, most
selective first. Propagation (Le Subscribe's second phase, as the symmetric paper 3.1.3 describes it): the first
predicates of all rows are tested, the rows that fail are gone, the second predicates of those left are tested, and so
on. Each pass reads memory in order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.jit import helper, kernel
from tocsin_lab.classic.lists import Lists
from tocsin_lab.classic.numbering import Numbering
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate, PredicateColumns, grown, holds


class ClusterArrays(NamedTuple):
    """Cluster c: row i is row[first[c] + i], its j-th predicate is at base[c] + j * room[c] + i."""

    steps: npt.NDArray[np.int32]
    size: npt.NDArray[np.int32]
    room: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]
    base: npt.NDArray[np.int64]


class Clusters:
    """Clusters by (access entry, number of remaining predicates)."""

    def __init__(self) -> None:
        self.arrays = ClusterArrays(
            np.zeros(16, np.int32),
            np.zeros(16, np.int32),
            np.zeros(16, np.int32),
            np.zeros(16, np.int64),
            np.zeros(16, np.int64),
        )
        self.row = np.zeros(16, np.int32)
        self.predicates = PredicateColumns.empty(16)
        self._numbering = Numbering()
        self._of_entry = Lists()  # access entry -> clusters
        self._rows_used = self._predicates_used = 0
        self._place: dict[int, tuple[int, int]] = {}  # row -> cluster, position

    def __len__(self) -> int:
        return len(self._numbering)

    def insert(self, entry: int, row: int, remaining: list[CodedPredicate]) -> None:
        """Put a row into its cluster."""
        cluster = self._cluster(entry, len(remaining))
        a = self.arrays
        if a.size[cluster] == a.room[cluster]:
            self._move(cluster, 2 * int(a.size[cluster]) + 4)
        at = int(a.size[cluster])
        self.row[int(a.first[cluster]) + at] = row
        for j, predicate in enumerate(remaining):
            self.predicates.put(int(a.base[cluster]) + j * int(a.room[cluster]) + at, predicate)
        a.size[cluster] += 1
        self._place[row] = cluster, at

    def remove(self, row: int) -> None:
        """Take a row out of its cluster; the cluster's last row takes its place."""
        a = self.arrays
        cluster, at = self._place.pop(row)
        a.size[cluster] -= 1
        last = int(a.size[cluster])
        if at != last:
            first, room = int(a.first[cluster]), int(a.room[cluster])
            moved = int(self.row[first + last])
            self.row[first + at] = moved
            self._place[moved] = cluster, at
            for j in range(int(a.steps[cluster])):
                place = int(a.base[cluster]) + j * room
                for field in self.predicates:
                    field[place + at] = field[place + last]

    def propagate(
        self, entries: npt.NDArray[np.int64], event: CodedEvent, columns: Columns
    ) -> tuple[npt.NDArray[np.int32], int, int]:
        """Return the rows of the entries' clusters all of whose remaining predicates hold, and the work done."""
        if not len(entries) or not len(self):
            return np.zeros(0, np.int32), 0, 0
        self._of_entry.reserve(int(entries.max()) + 1)
        clusters = self._of_entry.arrays
        sets = columns.sets
        found = np.empty(len(self._place) + 1, np.int32)
        count, looked_at, checked = propagate(
            clusters.start, clusters.length, clusters.pool, entries, *self.arrays, self.row, *self.predicates,
            *event, sets.offset, sets.low, sets.high, found,
        )  # fmt: skip
        return found[:count], int(looked_at), int(checked)

    def _cluster(self, entry: int, steps: int) -> int:
        known = len(self._numbering)
        cluster = self._numbering.number(entry, steps)
        if cluster == known:
            self.arrays = ClusterArrays(*(grown(field, cluster + 1) for field in self.arrays))
            self.arrays.steps[cluster] = steps
            self._of_entry.append(np.array([entry]), cluster)
        return cluster

    def _move(self, cluster: int, room: int) -> None:
        """Give a cluster more room, at the end of the pools."""
        a = self.arrays
        size, old_room = int(a.size[cluster]), int(a.room[cluster])
        first, base, steps = self._rows_used, self._predicates_used, int(a.steps[cluster])
        self._rows_used += room
        self._predicates_used += room * steps
        self.row = grown(self.row, self._rows_used)
        self.predicates = self.predicates.with_room(self._predicates_used)
        old_first, old_base = int(a.first[cluster]), int(a.base[cluster])
        self.row[first : first + size] = self.row[old_first : old_first + size]
        for j in range(steps):
            old, new = old_base + j * old_room, base + j * room
            for field in self.predicates:
                field[new : new + size] = field[old : old + size]
        a.first[cluster], a.base[cluster], a.room[cluster] = first, base, room


@helper
def survivors(candidates, left, base, column, kind, low, high, offset, labels, present, set_offset, set_low, set_high):  # type: ignore[no-untyped-def]
    """Keep the candidates whose predicate at base + candidate holds; return how many."""
    kept = 0
    for i in range(left):
        p = base + candidates[i]
        if holds(column[p], kind[p], low[p], high[p], offset, labels, present, set_offset, set_low, set_high):
            candidates[kept] = candidates[i]
            kept += 1
    return kept


@kernel
def propagate(  # type: ignore[no-untyped-def]
    cluster_start, cluster_length, cluster_pool, entries, steps, size, room, first, base, row,
    column, kind, low, high, offset, labels, present, set_offset, set_low, set_high, found,
):  # fmt: skip
    count, looked_at, checked = np.int64(0), np.int64(0), np.int64(0)
    for e in range(len(entries)):
        for k in range(cluster_start[entries[e]], cluster_start[entries[e]] + cluster_length[entries[e]]):
            c = cluster_pool[k]
            left = np.int64(size[c])
            looked_at += left
            candidates = found[count : count + left]  # positions first; rows at the end
            for i in range(left):
                candidates[i] = i
            for j in range(steps[c]):
                checked += left
                left = survivors(
                    candidates, left, base[c] + j * room[c], column, kind, low, high,
                    offset, labels, present, set_offset, set_low, set_high,
                )  # fmt: skip
            for i in range(left):
                candidates[i] = row[first[c] + candidates[i]]
            count += left
    return count, looked_at, checked
