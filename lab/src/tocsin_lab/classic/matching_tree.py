"""The matching tree of Aguilera et al. 1999, used in Gryphon (Le Subscribe 3.6, symmetric paper 3.2).

Every inner node asks one thing about the event: the value of an attribute, with one edge per value that subscriptions
ask for, or whether a non-equality predicate holds, with one edge for yes. Beside these a node may have a don't-care
edge (a *-edge) to the subscriptions that do not ask. A subscription is a path from the root, its questions in one fixed
order; an event follows every edge that its answers allow, and the *-edges, and matches the subscriptions it reaches.

Time for an event: the paths followed, sublinear in the number of subscriptions where equalities dominate; each
non-equality predicate is a level of its own, so that many of them make long chains of *-edges. Space: O(subscriptions
times predicates) nodes at worst. Insertion walks from the root and may pass more nodes than the subscription has
predicates; removal likewise. Nodes that lead nowhere after removals stay until most subscriptions have left.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.jit import helper, kernel
from tocsin_lab.classic.lists import Lists
from tocsin_lab.classic.numbering import Numbering, find, find_or_add
from tocsin_lab.classic.rows import CodedEvent, CodedPredicate, grown, holds
from tocsin_lab.classic.single_valued import SingleValuedMatcher

VALUE = -1  # the kind of a node that asks for the attribute's value


class TreeNodes(NamedTuple):
    """Nodes ask (column, kind, low, high); a place is where an edge leads: maybe a node, and the rows that end there."""

    column: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    dont_care: npt.NDArray[np.int64]  # 1 + the place that the *-edge leads to, 0 where there is none
    yes: npt.NDArray[np.int64]  # of a node that asks whether a predicate holds
    edge: npt.NDArray[np.int64]  # per edge number (node, value): 1 + the place
    node_at: npt.NDArray[np.int64]  # per place: 1 + its node
    counts: npt.NDArray[np.int64]  # how many nodes, and how many places there are


class MatchingTreeMatcher(SingleValuedMatcher):
    """One path per row."""

    name: ClassVar[str] = "matching-tree"

    def _reset(self) -> None:
        self.tree = TreeNodes(*[*(np.zeros(16, np.int64) for _ in range(8)), np.array([0, 1])])
        self._edges = Numbering()
        self._ends = Lists()  # place -> rows
        self._removed = 0

    @property
    def nodes(self) -> int:
        return int(self.tree.counts[0])

    @staticmethod
    def _questions(predicates: list[CodedPredicate]) -> npt.NDArray[np.int64]:
        """Return the row's questions in the tree's order: by column, the value first, then predicates."""
        asked = [(p.column, VALUE, p.low, 0) if p.is_equality else tuple(p) for p in predicates]
        return np.array(sorted(asked), np.int64).reshape(-1, 4)

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        questions = self._questions(predicates)
        nodes, places = self.tree.counts.tolist()
        more = len(questions)
        sizes = [nodes + more] * 6 + [len(self._edges) + more, places + 2 * more + 1]
        larger = [grown(field, size) for field, size in zip(self.tree[:8], sizes, strict=True)]
        self.tree = TreeNodes(*[*larger, self.tree.counts])
        self._edges.reserve(more)
        place = add_path(*self.tree, *self._edges.arrays, questions)
        self._ends.append(np.array([place]), row)

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:
        place = find_path(*self.tree[:8], *self._edges.arrays[:2], self._questions(predicates))
        self._ends.remove(np.array([place]), row)
        self._removed += 1

    def _mostly_gone(self) -> bool:
        return self._removed > 256 and self._removed > len(self)

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        self._ends.reserve(int(self.tree.counts[1]))
        ends, sets = self._ends.arrays, self.columns.sets
        found = np.empty(int(ends.length.sum()) + 1, np.int32)
        waiting = np.empty(int(self.tree.counts[1]) + 1, np.int64)
        count, visited = follow(
            *self.tree[:8], *self._edges.arrays[:2], ends.start, ends.length, ends.pool, *event,
            sets.offset, sets.low, sets.high, waiting, found,
        )  # fmt: skip
        details = self.work.details
        details["nodes visited"] = details.get("nodes visited", 0) + int(visited)
        details["nodes"] = self.nodes
        return found[:count]


@helper
def compare(column, kind, low, high, node, question):  # type: ignore[no-untyped-def]
    """Return -1, 0 or 1 as the node's question comes before, is, or comes after a row's."""
    if column[node] != question[0]:
        return -1 if column[node] < question[0] else 1
    if kind[node] != question[1]:
        return -1 if kind[node] < question[1] else 1
    if kind[node] == VALUE:
        return 0
    if low[node] != question[2]:
        return -1 if low[node] < question[2] else 1
    if high[node] != question[3]:
        return -1 if high[node] < question[3] else 1
    return 0


@kernel
def add_path(column, kind, low, high, dont_care, yes, edge, node_at, counts, slots, keys, edges, questions):  # type: ignore[no-untyped-def]
    """Make the path of a row where it is not there yet; return the place where it ends."""
    place = 0
    for q in range(len(questions)):
        question = questions[q]
        while True:
            node = node_at[place] - 1
            order = 1 if node < 0 else compare(column, kind, low, high, node, question)
            if order < 0:  # the node asks something that the row does not care about
                if dont_care[node] == 0:
                    dont_care[node] = counts[1] + 1
                    counts[1] += 1
                place = dont_care[node] - 1
                continue
            if order > 0:  # a new node, before the one that is there
                new = counts[0]
                counts[0] += 1
                column[new], kind[new], low[new], high[new] = question[0], question[1], question[2], question[3]
                if node >= 0:
                    below = counts[1]
                    counts[1] += 1
                    dont_care[new] = below + 1
                    node_at[below] = node + 1
                node_at[place] = new + 1
                node = new
            if kind[node] == VALUE:
                number = find_or_add(slots, keys, edges, node, question[2], 0, 0)
                if edge[number] == 0:
                    edge[number] = counts[1] + 1
                    counts[1] += 1
                place = edge[number] - 1
            else:
                if yes[node] == 0:
                    yes[node] = counts[1] + 1
                    counts[1] += 1
                place = yes[node] - 1
            break
    return place


@kernel
def find_path(column, kind, low, high, dont_care, yes, edge, node_at, slots, keys, questions):  # type: ignore[no-untyped-def]
    """Return the place where the path of a row that is in the tree ends."""
    place = 0
    for q in range(len(questions)):
        question = questions[q]
        node = node_at[place] - 1
        while compare(column, kind, low, high, node, question) != 0:
            node = node_at[dont_care[node] - 1] - 1
        if kind[node] == VALUE:
            place = edge[slots[find(slots, keys, node, question[2], 0, 0)]] - 1
        else:
            place = yes[node] - 1
    return place


@kernel
def follow(  # type: ignore[no-untyped-def]
    column, kind, low, high, dont_care, yes, edge, node_at, slots, keys, end_start, end_length, end_pool,
    offset, labels, present, set_offset, set_low, set_high, waiting, found,
):  # fmt: skip
    """Write the rows at all places that the event reaches; return how many, and how many nodes were visited."""
    count, visited = 0, 0
    waiting[0] = 0
    left = 1
    while left > 0:
        left -= 1
        place = waiting[left]
        for i in range(end_start[place], end_start[place] + end_length[place]):
            found[count] = end_pool[i]
            count += 1
        node = node_at[place] - 1
        if node < 0:
            continue
        visited += 1
        if dont_care[node] > 0:
            waiting[left] = dont_care[node] - 1
            left += 1
        c = column[node]
        if kind[node] == VALUE:
            if present[c]:
                number = slots[find(slots, keys, node, labels[offset[c]], 0, 0)]
                if number >= 0:
                    waiting[left] = edge[number] - 1
                    left += 1
        elif holds(c, kind[node], low[node], high[node], offset, labels, present, set_offset, set_low, set_high):
            waiting[left] = yes[node] - 1
            left += 1
    return count, visited
