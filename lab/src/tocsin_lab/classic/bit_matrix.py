"""BitMatrix: one bit per predicate and row (TOPSS 3.3, bit-wise), 64 rows to a word.

Space: predicates times rows, in bits. Matching adds the bit rows of the satisfied predicates with counters that lie
across words ("several subscriptions are processed simultaneously, through appropriate operations on the word level"):
plane p holds bit p of 64 counters, and adding a word is a ripple of XOR and AND. The needed counts are planes too, so
that the comparison is word-wise as well. Insertion and removal set or clear one bit per predicate.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.association import Association, Rows32
from tocsin_lab.classic.jit import helper, kernel

BLOCK = 256  # words; counters and carries of a block stay in the first cache


class BitMatrix(Association):
    """bits[predicate, word] and needed planes[p, word]."""

    name: ClassVar[str] = "bit matrix"

    def __init__(self) -> None:
        super().__init__()
        self._bits = np.zeros((16, BLOCK), np.uint64)
        self._planes = np.zeros((2, BLOCK), np.uint64)

    def _insert(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        self._make_room(row, int(predicates.max()), len(predicates))
        word, bit = row >> 6, np.uint64(1) << np.uint64(row & 63)
        self._bits[predicates, word] |= bit
        for p in range(len(self._planes)):
            if len(predicates) >> p & 1:
                self._planes[p, word] |= bit

    def _insert_many(self, rows: npt.NDArray[np.int64], predicates: npt.NDArray[np.int64]) -> None:
        most = int(self.needed[rows[0] : rows[-1] + 1].max())
        self._make_room(int(rows[-1]), int(predicates.max()), most)
        set_bits(self._bits, self._planes, rows, predicates, self.needed)

    def _remove(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        word, mask = row >> 6, ~(np.uint64(1) << np.uint64(row & 63))
        self._bits[predicates, word] &= mask
        self._planes[:, word] &= mask

    def matching(self, satisfied: npt.NDArray[np.int32]) -> Rows32:
        words = (self.rows + 63) >> 6
        found = self._output()
        known = satisfied[satisfied < len(self._bits)]
        self.counted += words * len(known)
        count = count_bits(self._bits, self._planes, known, words, found)
        return found[:count].copy()

    def bytes(self) -> int:
        return int(self._bits.nbytes + self._planes.nbytes)

    def _make_room(self, row: int, predicate: int, count: int) -> None:
        words = -(-((row >> 6) + 1) // BLOCK) * BLOCK
        if words > self._bits.shape[1]:
            words = max(words, self._bits.shape[1] * 5 // 4 // BLOCK * BLOCK)
        self._bits = _with_shape(self._bits, predicate + 1, words)
        self._planes = _with_shape(self._planes, count.bit_length(), words)


def _with_shape(matrix: npt.NDArray[Any], height: int, width: int) -> npt.NDArray[Any]:
    """Return the matrix, or a larger copy of it."""
    if matrix.shape[0] >= height and matrix.shape[1] >= width:
        return matrix
    if matrix.shape[0] < height:
        height = max(height, matrix.shape[0] * 3 // 2)
    larger = np.zeros((max(height, matrix.shape[0]), max(width, matrix.shape[1])), matrix.dtype)
    larger[: matrix.shape[0], : matrix.shape[1]] = matrix
    return larger


@kernel
def set_bits(bits, planes, rows, predicates, needed):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        word, bit = rows[i] >> 6, np.uint64(1) << np.uint64(rows[i] & 63)
        bits[predicates[i], word] |= bit
        for p in range(len(planes)):
            if needed[rows[i]] >> p & 1:
                planes[p, word] |= bit


@helper
def ripple(plane, carry):  # type: ignore[no-untyped-def]
    """Add the carries to one plane of counters; what overflows is the carry into the next."""
    for w in range(len(carry)):
        both = plane[w] & carry[w]
        plane[w] ^= carry[w]
        carry[w] = both


@kernel
def count_bits(bits, planes, satisfied, words, found):  # type: ignore[no-untyped-def]
    """Write the rows whose counter equals what they need, and need more than nothing."""
    depth, block = len(planes), min(BLOCK, words)
    counters = np.zeros((depth, block), np.uint64)
    carry = np.zeros(block, np.uint64)
    count = 0
    for start in range(0, words, BLOCK):
        size = min(block, words - start)
        counters[:, :] = 0
        for s in range(len(satisfied)):
            carry[:] = bits[satisfied[s], start : start + block]
            for p in range(depth):
                ripple(counters[p], carry)
        for w in range(size):
            different, live = np.uint64(0), np.uint64(0)
            for p in range(depth):
                different |= counters[p, w] ^ planes[p, start + w]
                live |= planes[p, start + w]
            left = live & ~different
            while left != np.uint64(0):
                lowest = left & (~left + np.uint64(1))
                found[count] = ((start + w) << 6) + trailing_zeros(left)
                count += 1
                left ^= lowest
    return count


@helper
def trailing_zeros(word):  # type: ignore[no-untyped-def]
    """Return the position of the lowest set bit."""
    at = 0
    half = word
    if half & np.uint64(0xFFFFFFFF) == np.uint64(0):
        at += 32
        half >>= np.uint64(32)
    if half & np.uint64(0xFFFF) == np.uint64(0):
        at += 16
        half >>= np.uint64(16)
    if half & np.uint64(0xFF) == np.uint64(0):
        at += 8
        half >>= np.uint64(8)
    if half & np.uint64(0xF) == np.uint64(0):
        at += 4
        half >>= np.uint64(4)
    if half & np.uint64(0x3) == np.uint64(0):
        at += 2
        half >>= np.uint64(2)
    if half & np.uint64(0x1) == np.uint64(0):
        at += 1
    return at
