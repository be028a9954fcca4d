"""IbsForest: the interval binary search trees of Hanson et al. 1990, one per column, kept balanced as AVL trees.

A binary search tree over the end points of intervals. Each node carries three lists of intervals: BELOW, those that
cover the whole range of keys below the node's key in its subtree; AT, those that contain the key itself; ABOVE, those
that cover the whole range above it. The search for a value walks one path and collects one list per node: exactly the
intervals that contain the value, each once. Search: O(log n + found). Inserting or removing an interval touches
O(log n) lists, and a rotation moves the marks of the two nodes involved.

How a rotation of y over its left child x moves marks (to the other side: the same with BELOW and ABOVE swapped):
    an interval in BELOW of y covers below x, x, and between: it goes to BELOW and AT of x, and stays for what is between
    an interval in ABOVE of x covers between x and y: it goes to BELOW of y
    an interval in all three lists of y covers everything above x: it becomes one mark in ABOVE of x

End points of removed intervals stay in the tree; where most are such, the trees are built anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.jit import helper, kernel
from tocsin_lab.classic.labels import HIGHEST, LOWEST
from tocsin_lab.classic.lists import Lists, append_one, remove_one
from tocsin_lab.classic.rows import CodedEvent, grown

BELOW, AT, ABOVE = 0, 1, 2
DEEPEST = 64  # an AVL tree of this depth has more nodes than memory holds


class TreeArrays(NamedTuple):
    """The nodes of all trees: children[2n] lies below node n, children[2n + 1] above; -1 is none."""

    root: npt.NDArray[np.int64]  # per column: 1 + its root
    key: npt.NDArray[np.int64]
    children: npt.NDArray[np.int32]
    height: npt.NDArray[np.int32]


class IbsForest:
    """Intervals by number, each of one column."""

    def __init__(self) -> None:
        self._intervals: dict[int, tuple[int, int, int]] = {}  # number -> column, low, high
        self.nodes = 0
        self.marks = Lists()  # 3 * node + BELOW, AT or ABOVE -> intervals
        self._stamp = np.zeros(16, np.uint8)  # scratch, per interval
        self._found = np.zeros(16, np.int32)
        self._clear()

    def __len__(self) -> int:
        return len(self._intervals)

    def insert(self, number: int, column: int, low: int, high: int) -> None:
        """Take in an interval, ends included, that is bounded on one side at least."""
        self._make_room(column, number)
        for end in sorted({low, high} - {LOWEST, HIGHEST}):
            self.nodes = int(add_key(*self.trees, *self.marks.arrays, self._stamp, column, end, self.nodes))
        mark(*self.trees[:3], *self.marks.arrays, column, number, low, high, True)
        self._intervals[number] = column, low, high

    def remove(self, number: int) -> None:
        """Let go of an interval."""
        column, low, high = self._intervals.pop(number)
        mark(*self.trees[:3], *self.marks.arrays, column, number, low, high, False)
        self._removed += 1
        if self._removed > 256 and self._removed > len(self._intervals):
            self._rebuild()

    def of_event(self, event: CodedEvent) -> npt.NDArray[np.int32]:
        """Return the numbers of the intervals that contain a label of the event in their column, each once."""
        self._found = grown(self._found, len(self._intervals) * max(1, len(event.labels)) + 1)
        marks = self.marks.arrays
        count = stab(*self.trees[:3], marks.start, marks.length, marks.pool, event.offset, event.labels, self._found)
        found = self._found[:count]
        several = (np.diff(event.offset) > 1).any()  # a text that no pattern or word describes has no label at all
        return np.unique(found) if several else found

    def depth(self, column: int) -> int:
        """Return the height of a column's tree."""
        root = int(self.trees.root[column]) - 1 if column < len(self.trees.root) else -1
        return int(self.trees.height[root]) if root >= 0 else 0

    def _clear(self) -> None:
        self.trees = TreeArrays(
            np.zeros(16, np.int64), np.zeros(16, np.int64), np.zeros(32, np.int32), np.zeros(16, np.int32)
        )
        self.nodes, self.marks = 0, Lists()
        self._removed = 0

    def _make_room(self, column: int, number: int) -> None:
        root, key, children, height = self.trees
        self.trees = TreeArrays(
            grown(root, column + 1),
            grown(key, self.nodes + 2),
            grown(children, 2 * (self.nodes + 2)),
            grown(height, self.nodes + 2),
        )
        self._stamp = grown(self._stamp, number + 1)
        self.marks.reserve(3 * (self.nodes + 2))
        # Two keys, each with a double rotation of up to twelve lists; then one list per node on two paths.
        longest = int(self.marks.arrays.length.max())
        self.marks.make_room((4 * 12 + 2 * DEEPEST) * (4 * longest + 8))

    def _rebuild(self) -> None:
        self._clear()
        for number, interval in self._intervals.items():
            self.insert(number, *interval)


# --- search -----------------------------------------------------------------------------------------------------------


@kernel
def stab(root, key, children, mark_start, mark_length, mark_pool, offset, labels, found):  # type: ignore[no-untyped-def]
    """Write the intervals that contain the event's labels."""
    count = 0
    for column in range(min(len(offset) - 1, len(root))):
        for i in range(offset[column], offset[column + 1]):
            node = root[column] - 1
            while node >= 0:
                if labels[i] == key[node]:
                    which, following = AT, -1
                elif labels[i] < key[node]:
                    which, following = BELOW, children[2 * node]
                else:
                    which, following = ABOVE, children[2 * node + 1]
                place = 3 * node + which
                for m in range(mark_start[place], mark_start[place] + mark_length[place]):
                    found[count] = mark_pool[m]
                    count += 1
                node = following
    return count


# --- marks ------------------------------------------------------------------------------------------------------------


@helper
def set_mark(start, length, room, pool, used, place, number, adding):  # type: ignore[no-untyped-def]
    if adding:
        append_one(start, length, room, pool, used, 0, place, number)
    else:
        remove_one(start, length, pool, place, number)


@kernel
def mark(root, key, children, start, length, room, pool, used, column, number, low, high, adding):  # type: ignore[no-untyped-def]
    """Add or remove the marks of an interval whose end points are in the tree."""
    nodes = np.empty(2 * DEEPEST, np.int64)
    above = np.empty(2 * DEEPEST, np.int64)  # the range of keys that the node's subtree may have: above .. below
    below = np.empty(2 * DEEPEST, np.int64)
    nodes[0], above[0], below[0] = root[column] - 1, LOWEST, HIGHEST
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node, a, b = nodes[waiting], above[waiting], below[waiting]
        k = key[node]
        if low <= a and high >= k:
            set_mark(start, length, room, pool, used, 3 * node + BELOW, number, adding)
        elif low < k and high > a:
            nodes[waiting], above[waiting], below[waiting] = children[2 * node], a, k
            waiting += 1
        if low <= k <= high:
            set_mark(start, length, room, pool, used, 3 * node + AT, number, adding)
        if low <= k and high >= b:
            set_mark(start, length, room, pool, used, 3 * node + ABOVE, number, adding)
        elif low < b and high > k:
            nodes[waiting], above[waiting], below[waiting] = children[2 * node + 1], k, b
            waiting += 1


# --- balance ----------------------------------------------------------------------------------------------------------


@helper
def measure(children, height, node):  # type: ignore[no-untyped-def]
    """Set the node's height from its children's; return how much higher the lower side is."""
    below, above = children[2 * node], children[2 * node + 1]
    first = height[below] if below >= 0 else 0
    second = height[above] if above >= 0 else 0
    height[node] = max(first, second) + 1
    return first - second


@helper
def rotate(children, height, start, length, room, pool, used, stamp, y, side):  # type: ignore[no-untyped-def]
    """Turn y over its child x on the side (0: below, 1: above); return x, which takes its place."""
    x = children[2 * y + side]
    children[2 * y + side] = children[2 * x + 1 - side]
    children[2 * x + 1 - side] = y
    near, far = (BELOW, ABOVE) if side == 0 else (ABOVE, BELOW)
    for i in range(length[3 * y + near]):
        number = pool[start[3 * y + near] + i]
        append_one(start, length, room, pool, used, 0, 3 * x + near, number)
        append_one(start, length, room, pool, used, 0, 3 * x + AT, number)
    for i in range(length[3 * x + far]):
        append_one(start, length, room, pool, used, 0, 3 * y + near, pool[start[3 * x + far] + i])
    length[3 * x + far] = 0
    for step in range(3):
        place = 3 * y + (near if step == 0 else (AT if step == 1 else far))
        for i in range(length[place]):
            if stamp[pool[start[place] + i]] == step:
                stamp[pool[start[place] + i]] = step + 1
    for i in range(length[3 * y + far]):
        if stamp[pool[start[3 * y + far] + i]] == 3:
            append_one(start, length, room, pool, used, 0, 3 * x + far, pool[start[3 * y + far] + i])
    for which in range(3):
        drop_stamped(start, length, pool, stamp, 3 * y + which)
    for which in range(3):
        for i in range(length[3 * y + which]):
            stamp[pool[start[3 * y + which] + i]] = 0
    for i in range(length[3 * x + far]):
        stamp[pool[start[3 * x + far] + i]] = 0
    measure(children, height, y)
    measure(children, height, x)
    return x


@helper
def drop_stamped(start, length, pool, stamp, place):  # type: ignore[no-untyped-def]
    """Remove the intervals with stamp 3 from a list."""
    kept = 0
    for i in range(length[place]):
        number = pool[start[place] + i]
        if stamp[number] != 3:
            pool[start[place] + kept] = number
            kept += 1
    length[place] = kept


@kernel
def add_key(root, key, children, height, start, length, room, pool, used, stamp, column, new_key, nodes):  # type: ignore[no-untyped-def]
    """Put an end point into a column's tree, and balance it; return how many nodes there are."""
    path = np.empty(DEEPEST, np.int64)
    depth, node = 0, root[column] - 1
    while node >= 0:
        if key[node] == new_key:
            return nodes
        path[depth] = node
        depth += 1
        node = np.int64(children[2 * node + (1 if new_key > key[node] else 0)])
    key[nodes], height[nodes] = new_key, 1
    children[2 * nodes], children[2 * nodes + 1] = -1, -1
    if depth == 0:
        root[column] = nodes + 1
        return nodes + 1
    children[2 * path[depth - 1] + (1 if new_key > key[path[depth - 1]] else 0)] = nodes
    for level in range(depth - 1, -1, -1):
        node = path[level]
        lean = measure(children, height, node)
        if lean < -1 or lean > 1:
            side = 0 if lean > 1 else 1
            child = np.int64(children[2 * node + side])
            inner = measure(children, height, child)
            if (inner < 0) if side == 0 else (inner > 0):  # the grandchild between the two comes up first
                children[2 * node + side] = rotate(
                    children, height, start, length, room, pool, used, stamp, child, 1 - side
                )
            top = rotate(children, height, start, length, room, pool, used, stamp, node, side)
            if level == 0:
                root[column] = top + 1
            else:
                parent = path[level - 1]
                children[2 * parent + (1 if children[2 * parent + 1] == node else 0)] = top
    return nodes + 1
