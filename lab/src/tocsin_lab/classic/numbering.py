"""Numbering: a number for each distinct key of four integers, in a hash table that kernels can read.

Keys are compared whole, so different keys never share a number. Longer keys are made of several: the number of the
first part is the start of the next key. Look-up and insertion take O(1); nothing is ever taken out (engines start anew
when most of what they numbered is gone).
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
    keys: npt.NDArray[np.int64]  # four per number
    used: npt.NDArray[np.int64]  # one element: how many numbers there are


class Numbering:
    """Numbers 0, 1, 2, ... for keys, in the order of their coming."""

    def __init__(self) -> None:
        self.arrays = NumberingArrays(np.full(64, -1, np.int32), np.zeros(4 * 32, np.int64), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return int(self.arrays.used[0])

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
        number = count[0]
        slots[at] = number
        keys[4 * number], keys[4 * number + 1], keys[4 * number + 2], keys[4 * number + 3] = a, b, c, d
        count[0] = number + 1
    return slots[at]


@kernel
def number_one(slots, keys, count, a, b, c, d):  # type: ignore[no-untyped-def]
    return find_or_add(slots, keys, count, a, b, c, d)


@kernel
def number_many(slots, keys, count, a, b, c, d, found):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        found[i] = find_or_add(slots, keys, count, a[i], b[i], c[i], d[i])


@kernel
def rehash(slots, keys, count):  # type: ignore[no-untyped-def]
    mask = len(slots) - 1
    for number in range(count[0]):
        k = 4 * number
        at = hash_key(keys[k], keys[k + 1], keys[k + 2], keys[k + 3]) & mask
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = number
