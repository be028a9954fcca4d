"""Gough and Smith's tree (1995; Le Subscribe 3.3).

One level per attribute. At each node the values of its attribute fall into stretches between which no subscription that
is still possible tells a difference, and an edge leads from each stretch to a node of the next level; what is left at
the end is the set of matching subscriptions. An event follows a single path.

Time for an event: O(attributes times log(values)), whatever the number of subscriptions. The price is space: a
subscription that does not ask about an attribute goes along every edge, so that the number of nodes may grow like the
product over the attributes. Nothing is incremental: after a change the tree is built anew.

Two things here that the paper does not have. Nodes of one level with the same possible subscriptions are one node. And a
node is made when the first event comes to it: few of the combinations ever occur, and the whole tree would not fit for
more than some hundred subscriptions (`expand` makes all of it, up to a bound, to show that).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.matching.engine import Capabilities
from tocsin_lab.classic.labels import HIGHEST, LOWEST
from tocsin_lab.classic.rows import ABSENT, NONE_IN, NONE_OF, PRESENT, SOME_IN, SOME_OF, CodedEvent, CodedPredicate
from tocsin_lab.classic.single_valued import INTERVALS, SingleValuedMatcher


@dataclass(slots=True)
class Level:
    """One attribute: where its stretches begin, and which rows (as bits) each of them leaves possible."""

    column: int
    starts: list[int]
    possible: list[int]
    possible_if_absent: int

    def stretch(self, label: int) -> int:
        """Return the number of the stretch that a label falls into."""
        return bisect_right(self.starts, label) - 1


@dataclass(slots=True)
class Node:
    """The rows that are still possible (as bits), and the edges made so far: stretch, or -1 for absent -> node."""

    possible: int
    edges: dict[int, Node] = field(default_factory=dict)
    rows: npt.NDArray[np.int64] | None = None  # at the last level


class GoughMatcher(SingleValuedMatcher):
    """A single path per event."""

    name: ClassVar[str] = "gough"
    capabilities: ClassVar[Capabilities] = Capabilities(
        operators=INTERVALS, several_patterns=False, multiple_attributes=False, incremental=False
    )

    def _reset(self) -> None:
        self._rows: dict[int, list[CodedPredicate]] = {}
        self._forget()

    def _forget(self) -> None:
        self._levels: list[Level] | None = None
        self._known: list[dict[int, Node]] = []  # per level: possible rows -> node
        self.root = Node(0)

    def _insert(self, row: int, predicates: list[CodedPredicate]) -> None:
        self._rows[row] = predicates
        self._forget()

    def _delete(self, row: int, predicates: list[CodedPredicate]) -> None:  # noqa: ARG002
        del self._rows[row]
        self._forget()

    # --- building -----------------------------------------------------------------------------------------------------

    def levels(self) -> list[Level]:
        """Return the levels, made at the first event after a change; columns with the most predicates come first."""
        if self._levels is None:
            asked: dict[int, list[tuple[int, CodedPredicate]]] = {}
            for row, predicates in self._rows.items():
                for predicate in predicates:
                    asked.setdefault(predicate.column, []).append((row, predicate))
            by_use = sorted(asked.items(), key=lambda found: (-len(found[1]), found[0]))
            self._levels = [self._level(column, found) for column, found in by_use]
            self._known = [{} for _ in range(len(self._levels) + 1)]
            self.root = Node(sum(1 << row for row in self._rows))
        return self._levels

    def _level(self, column: int, asked: list[tuple[int, CodedPredicate]]) -> Level:
        starts = {LOWEST}
        for _, predicate in asked:
            for low, high in self._intervals(predicate):
                starts.add(low)
                if high != HIGHEST:
                    starts.add(high + 1)
        ordered = sorted(starts)
        everybody = sum(1 << row for row in self._rows)
        possible = [everybody] * len(ordered)
        absent = everybody
        for row, predicate in asked:
            mask = ~(1 << row)
            if predicate.kind != ABSENT:
                absent &= mask
            for stretch in self._ruled_out(predicate, ordered):
                possible[stretch] &= mask
        return Level(column, ordered, possible, absent)

    def _intervals(self, predicate: CodedPredicate) -> list[tuple[int, int]]:
        if predicate.kind in (SOME_OF, NONE_OF):
            return self.columns.sets.intervals(predicate.low)
        return [(predicate.low, predicate.high)] if predicate.kind in (SOME_IN, NONE_IN) else []

    def _ruled_out(self, predicate: CodedPredicate, starts: list[int]) -> list[int]:
        """Return the stretches in which the predicate does not hold."""
        if predicate.kind in (PRESENT, ABSENT):
            return [] if predicate.kind == PRESENT else list(range(len(starts)))
        inside: set[int] = set()
        for low, high in self._intervals(predicate):
            inside.update(range(bisect_left(starts, low), bisect_right(starts, high)))
        wanted = predicate.kind in (SOME_IN, SOME_OF)
        return [stretch for stretch in range(len(starts)) if (stretch in inside) != wanted]

    def _next(self, depth: int, node: Node, stretch: int) -> Node:
        """Return the node that an edge leads to, made where it is not there yet."""
        found = node.edges.get(stretch)
        if found is None:
            level = self.levels()[depth]
            left = node.possible & (level.possible_if_absent if stretch < 0 else level.possible[stretch])
            found = self._known[depth + 1].setdefault(left, Node(left))
            node.edges[stretch] = found
        return found

    def expand(self, most: int) -> int:
        """Make all nodes, until there are more than `most`; return how many there are."""
        levels = self.levels()
        layer, total = [self.root], 1
        for depth, level in enumerate(levels):
            for node in layer:
                for stretch in range(-1, len(level.starts)):
                    self._next(depth, node, stretch)
                if total + len(self._known[depth + 1]) > most:
                    return total + len(self._known[depth + 1])
            layer = list(self._known[depth + 1].values())
            total += len(layer)
        return total

    # --- matching -----------------------------------------------------------------------------------------------------

    def _match(self, event: CodedEvent) -> npt.NDArray[np.int64]:
        levels = self.levels()
        node = self.root
        for depth, level in enumerate(levels):
            if event.present[level.column]:
                stretch = level.stretch(int(event.labels[event.offset[level.column]]))
            else:
                stretch = -1
            node = node.edges.get(stretch) or self._next(depth, node, stretch)
        if node.rows is None:
            bits = node.possible
            width = (bits.bit_length() + 7) // 8
            octets = np.frombuffer(bits.to_bytes(width, "little"), np.uint8)
            node.rows = np.flatnonzero(np.unpackbits(octets, bitorder="little"))
        self.work.predicates_checked += len(levels)
        self.work.details["nodes visited"] = self.work.details.get("nodes visited", 0) + len(levels) + 1
        self.work.details["nodes"] = 1 + sum(map(len, self._known))
        return node.rows
