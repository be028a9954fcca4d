"""Lists: growable lists of integers in one pool, the re-allocatable arrays of TOPSS section 3.3.

List k is pool[start[k] : start[k] + length[k]]; one that is full moves to the end of the pool with twice the room, or, as
TOPSS says of its own, with room for a constant number more (`step`). Appending costs O(1) amortised with twice the
room, O(length / step) with constant steps; removing searches the list, O(length), and keeps the order, so that counting walks the
hit vector in one direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.jit import helper, kernel
from tocsin_lab.classic.rows import grown

Numbers = npt.NDArray[np.int64]


class ListArrays(NamedTuple):
    """The lists as kernels see them."""

    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int32]
    room: npt.NDArray[np.int32]
    pool: npt.NDArray[np.int32]
    used: npt.NDArray[np.int64]  # one element: how much of the pool is taken


class Lists:
    """Lists by number, all empty at first."""

    def __init__(self, step: int = 0) -> None:
        self.step = step  # 0: twice the room
        self.arrays = ListArrays(
            np.zeros(16, np.int64),
            np.zeros(16, np.int32),
            np.zeros(16, np.int32),
            np.zeros(64, np.int32),
            np.zeros(1, np.int64),
        )

    def reserve(self, lists: int) -> None:
        """Make room for lists 0 .. lists-1."""
        a = self.arrays
        if len(a.start) < lists:
            self.arrays = ListArrays(
                grown(a.start, lists), grown(a.length, lists), grown(a.room, lists), a.pool, a.used
            )

    def append(self, lists: Numbers, value: int) -> None:
        """Append the value to each of these lists."""
        if len(lists):
            self.reserve(int(lists.max()) + 1)
            self.make_room(int(np.sum(2 * self.arrays.length[lists] + 4 + self.step)))
            append_each(*self.arrays, self.step, lists, value)

    def remove(self, lists: Numbers, value: int) -> None:
        """Remove the value from each of these lists; where it is not, nothing happens."""
        remove_each(self.arrays.start, self.arrays.length, self.arrays.pool, lists, value)

    def extend(self, lists: Numbers, values: Numbers) -> None:
        """Append values[i] to lists[i], many at once."""
        if not len(lists):
            return
        self.reserve(int(lists.max()) + 1)
        added = np.bincount(lists, minlength=len(self.arrays.start))
        grows = self.arrays.length + added > self.arrays.room
        self.make_room(int(np.sum((self.arrays.length + added)[grows] * 5 // 4 + 4 + self.step)))
        extend_many(*self.arrays, self.step, added, lists, values)

    def of(self, number: int) -> list[int]:
        """Return one list."""
        if number >= len(self.arrays.start):
            return []
        first = int(self.arrays.start[number])
        found: list[int] = self.arrays.pool[first : first + int(self.arrays.length[number])].tolist()
        return found

    def bytes(self) -> int:
        """Return how much memory the lists take."""
        return sum(field.nbytes for field in self.arrays)

    def make_room(self, more: int) -> None:
        """Make room in the pool for lists that will move."""
        a = self.arrays
        needed = int(a.used[0]) + more
        if needed > len(a.pool) and int(a.room.sum()) * 2 < int(a.used[0]):
            self._compact()
            a = self.arrays
            needed = int(a.used[0]) + more
        if needed > len(a.pool):
            self.arrays = a._replace(pool=grown(a.pool, needed))

    def _compact(self) -> None:
        """Give the places that lists moved away from back."""
        a = self.arrays
        room = a.room.astype(np.int64)
        start = np.concatenate([[0], np.cumsum(room)])
        kept = np.repeat(a.start - start[:-1], room) + np.arange(start[-1])
        self.arrays = ListArrays(start[:-1].copy(), a.length, a.room, a.pool[kept], start[-1:].copy())


@helper
def move_list(start, length, room, pool, used, number, wanted):  # type: ignore[no-untyped-def]
    """Move a list to the end of the pool, with room for `wanted`."""
    first = used[0]
    for i in range(length[number]):
        pool[first + i] = pool[start[number] + i]
    start[number], room[number] = first, wanted
    used[0] = first + wanted


@helper
def append_one(start, length, room, pool, used, step, number, value):  # type: ignore[no-untyped-def]
    """Append to one list; the pool has the room."""
    if length[number] == room[number]:
        wanted = length[number] + step if step > 0 else 2 * length[number] + 4
        move_list(start, length, room, pool, used, number, wanted)
    pool[start[number] + length[number]] = value
    length[number] += 1


@kernel
def append_each(start, length, room, pool, used, step, lists, value):  # type: ignore[no-untyped-def]
    for number in lists:
        append_one(start, length, room, pool, used, step, number, value)


@helper
def remove_one(start, length, pool, number, value):  # type: ignore[no-untyped-def]
    first = start[number]
    for i in range(length[number]):
        if pool[first + i] == value:
            for j in range(i, length[number] - 1):
                pool[first + j] = pool[first + j + 1]
            length[number] -= 1
            return


@kernel
def remove_each(start, length, pool, lists, value):  # type: ignore[no-untyped-def]
    for number in lists:
        if number < len(start):
            remove_one(start, length, pool, number, value)


@kernel
def extend_many(start, length, room, pool, used, step, added, lists, values):  # type: ignore[no-untyped-def]
    for number in range(len(start)):
        if length[number] + added[number] > room[number]:
            wanted = (length[number] + added[number]) * 5 // 4 + 4
            if step > 0:
                wanted = -(-(length[number] + added[number]) // step) * step
            move_list(start, length, room, pool, used, number, wanted)
    for i in range(len(lists)):
        number = lists[i]
        pool[start[number] + length[number]] = values[i]
        length[number] += 1
