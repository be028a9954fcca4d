"""Numbering: a number for each distinct key of four integers, in a hash table that kernels can read.

Keys are compared whole, so different keys never share a number. Longer keys are made of several: the number of the
first part is the start of the next key. Look-up, insertion and removal take O(1). Numbers that were given back are given
again before new ones are made, as TOPSS does with the ids of its predicates (section 3): vectors by number have no holes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.jit import helper, kernel
from tocsin_lab.classic.rows import grown


class NumberingArrays(NamedTuple):
    """The hash table as kernels see it."""

    slots: npt.NDArray[np.int32]  # number, or -1; the size is a power of two
    keys: npt.NDArray[np.int64]  # four per number; of a free number the first is 1 + the next free one
    used: npt.NDArray[np.int64]  # how many numbers were ever made; 1 + the first free one, 0 where there is none


class Numbering:
    """Numbers 0, 1, 2, ... for keys, in the order of their coming."""

    def __init__(self) -> None:
        self.arrays = NumberingArrays(np.full(64, -1, np.int32), np.zeros(4 * 32, np.int64), np.zeros(2, np.int64))

    def __len__(self) -> int:
        """Return how many numbers were ever made: all in use are below this."""
        return int(self.arrays.used[0])

    def forget(self, number: int) -> None:
        """Give a number back: its key is no longer known, and the next new key gets it."""
        forget_one(*self.arrays, number)

    def reserve(self, more: int) -> None:
        """Make room for that many new keys."""
        wanted = len(self) + more
        a = self.arrays
        if 2 * wanted > len(a.slots):
            slots = np.full(1 << (4 * wanted - 1).bit_length(), -1, np.int32)
            rehash(slots, a.keys, a.used)
            a = a._replace(slots=slots)
        self.arrays = a._replace(keys=grown(a.keys, 4 * wanted))

    def number(self, a: int, b: int, c: int = 0, d: int = 0) -> int:
        """Return the number of a key, new or not."""
        self.reserve(1)
        return int(number_one(*self.arrays, a, b, c, d))

    def numbers(
        self,
        a: npt.NDArray[np.int64],
        b: npt.NDArray[np.int64],
        c: npt.NDArray[np.int64],
        d: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Return the numbers of many keys."""
        found = np.empty(len(a), np.int64)
        for start in range(0, len(a), 65536):  # few of them are new, mostly
            self.reserve(min(65536, len(a) - start))
            part = slice(start, start + 65536)
            number_many(*self.arrays, a[part], b[part], c[part], d[part], found[part])
        return found


@helper
def hash_key(a, b, c, d):  # type: ignore[no-untyped-def]
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for part in (np.int64(a), np.int64(b), np.int64(c), np.int64(d)):
        mixed = (mixed ^ np.uint64(part)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed >> np.uint64(1))


@helper
def find(slots, keys, a, b, c, d):  # type: ignore[no-untyped-def]
    """Return the slot of a key: where its number is, or would be."""
    mask = len(slots) - 1
    at = hash_key(a, b, c, d) & mask
    while slots[at] >= 0:
        k = 4 * slots[at]
        if keys[k] == a and keys[k + 1] == b and keys[k + 2] == c and keys[k + 3] == d:
            return at
        at = (at + 1) & mask
    return at


@helper
def find_or_add(slots, keys, count, a, b, c, d):  # type: ignore[no-untyped-def]
    """Return the number of a key; there is room for one more."""
    at = find(slots, keys, a, b, c, d)
    if slots[at] < 0:
        if count[1] > 0:
            number = count[1] - 1
            count[1] = keys[4 * number]
        else:
            number = count[0]
            count[0] = number + 1
        slots[at] = number
        keys[4 * number], keys[4 * number + 1], keys[4 * number + 2], keys[4 * number + 3] = a, b, c, d
    return slots[at]


@helper
def home_of(keys, number, mask):  # type: ignore[no-untyped-def]
    """Return the slot where the search for a number's key begins."""
    k = 4 * number
    return hash_key(keys[k], keys[k + 1], keys[k + 2], keys[k + 3]) & mask


@kernel
def forget_one(slots, keys, count, number):  # type: ignore[no-untyped-def]
    """Take a number out of its slot; those that were pushed beyond it move back, so that searches still find them."""
    mask, k = len(slots) - 1, 4 * number
    hole = find(slots, keys, keys[k], keys[k + 1], keys[k + 2], keys[k + 3])
    at = (hole + 1) & mask
    while slots[at] >= 0:
        if (at - home_of(keys, slots[at], mask)) & mask >= (at - hole) & mask:
            slots[hole] = slots[at]
            hole = at
        at = (at + 1) & mask
    slots[hole] = -1
    keys[k] = count[1]
    count[1] = number + 1


@kernel
def number_one(slots, keys, count, a, b, c, d):  # type: ignore[no-untyped-def]
    return find_or_add(slots, keys, count, a, b, c, d)


@kernel
def number_many(slots, keys, count, a, b, c, d, found):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        found[i] = find_or_add(slots, keys, count, a[i], b[i], c[i], d[i])


@kernel
def rehash(slots, keys, count):  # type: ignore[no-untyped-def]
    mask, free = len(slots) - 1, np.zeros(count[0], np.bool_)
    following = count[1]
    while following > 0:
        free[following - 1] = True
        following = keys[4 * (following - 1)]
    for number in range(count[0]):
        if free[number]:
            continue
        at = home_of(keys, number, mask)
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = number
