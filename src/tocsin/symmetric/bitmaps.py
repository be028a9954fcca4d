"""Bitmaps over a column: which rows may have a value in an interval, by a few operations per 64 rows.

The values are divided into at most 128 buckets of about equal size, and for each bucket there is a bitmap of the rows
whose value is in it or in one below. So the rows of an interval, and a few beside it that share the outermost buckets,
are one bitmap less another. Whoever asks looks at the values themselves afterwards (`within`), unless each bucket has
only one value: then the bitmaps say it all. Absent rows are in none.
"""

# Numba checks the arithmetic of kernels; its intrinsics have no signatures for mypy.
# mypy: disable-error-code="call-arg, unreachable"

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import lean_kernel
from tocsin.matching.columnar.bits import ALL, ONE, count_ones, count_zeros

Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

BUCKETS = 128
BLOCK = 128  # words of a bitmap, 8,192 rows, of which is known whether all or none are set
MIXED, EMPTY, FULL = range(3)
_SAMPLE = 20_000
_FIRST_WORDS = 16
_SLACK = 2  # how much longer than when its buckets were chosen a column may be


class BitmapIndex:
    """The bitmaps of one column; `reach` brings them up to the column's length, and must come before `narrow`."""

    def __init__(self) -> None:
        self.size = 0  # rows that the bitmaps know
        self._chosen_at = 0
        self._bounds: npt.NDArray[Any] = np.zeros(0)  # the last value of each bucket but the last, which has the rest
        self.exact = False  # each bucket but the last has one value, and the last has none
        self.has_absent = False
        self._bits: Words = np.zeros((1, _FIRST_WORDS), np.uint64)
        self._blocks: npt.NDArray[np.uint8] = np.zeros((1, 1), np.uint8)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], Words, npt.NDArray[np.uint8]]:
        """The bounds of the buckets, the bitmaps, one in each line, and what the blocks of each are."""
        return self._bounds, self._bits, self._blocks

    def reach(self, values: npt.NDArray[Any], absent: npt.NDArray[np.bool_]) -> None:
        """Take in the rows that came since; buckets are chosen anew when the column is twice as long."""
        size = len(values)
        if size == self.size:
            return
        if size > _SLACK * self._chosen_at or self._bounds.dtype != values.dtype:
            self._choose(values, absent)
        words = (size + 63) // 64
        if words > self._bits.shape[1]:
            wider = np.zeros((len(self._bits), max(words, self._bits.shape[1] * 3 // 2)), np.uint64)
            wider[:, : self._bits.shape[1]] = self._bits
            self._bits = wider
        start = self.size
        self.has_absent |= bool(absent[self.size :].any())
        single = _set_bits(self._bits, self._bounds, values, absent, self.size, size)
        self.exact = self.exact and single
        self.size = size
        blocks = np.zeros((len(self._bits), -(-words // BLOCK)), np.uint8)
        if start:  # blocks with new rows are taken to be mixed
            known = start // (64 * BLOCK)
            blocks[:, :known] = self._blocks[:, :known]
        else:
            _look_at_blocks(self._bits, size, blocks)
        self._blocks = blocks

    def _choose(self, values: npt.NDArray[Any], absent: npt.NDArray[np.bool_]) -> None:
        """Choose buckets, one for each value where they are few, else by a sample at equal distances."""
        step = max(1, len(values) // _SAMPLE)
        sample = np.sort(values[::step][~absent[::step]])
        distinct = np.unique(sample)
        if len(distinct) < BUCKETS:
            distinct = np.unique(values[~absent])
        self.exact = len(distinct) < BUCKETS
        if self.exact:
            self._bounds = distinct
        else:
            places = np.linspace(0, len(sample) - 1, BUCKETS + 1)[1:-1].astype(np.int64)
            self._bounds = np.unique(sample[places])
        self._bits = np.zeros((len(self._bounds) + 1, max((len(values) + 63) // 64, _FIRST_WORDS)), np.uint64)
        self.size, self._chosen_at, self.has_absent = 0, max(len(values), 64), False

    def narrow(self, found: Words, low: Any, high: Any) -> None:
        """Take from `found` (a bit for each row) rows whose values are not from low to high; None is no bound.

        All such rows where the index is exact, else most of them.
        """
        number = self._bounds.dtype.type
        top = len(self._bounds)
        if high is not None and self.exact:
            top = int(self._bounds.searchsorted(number(high), "right")) - 1
        elif high is not None:
            top = int(self._bounds.searchsorted(number(high)))
        if top < 0:
            found[:] = 0
            return
        below = -1 if low is None else int(self._bounds.searchsorted(number(low))) - 1
        if below < 0:
            _keep(found, self._bits[top])
        else:
            _keep_between(found, self._bits[top], self._bits[below])


@lean_kernel
def _set_bits(
    bits: Words,
    bounds: npt.NDArray[Any],
    values: npt.NDArray[Any],
    absent: npt.NDArray[np.bool_],
    start: int,
    stop: int,
) -> bool:
    """Set, for each row from start to stop that has a value, its bit in the bitmaps of its bucket and of those above.

    Return whether each value is the last of its bucket.
    """
    buckets = bits.shape[0]
    single = True
    for row in range(start, stop):
        if absent[row]:
            continue
        value = values[row]
        low, high = 0, len(bounds)
        while low < high:
            middle = (low + high) >> 1
            if bounds[middle] < value:
                low = middle + 1
            else:
                high = middle
        single &= low < len(bounds) and bounds[min(low, len(bounds) - 1)] == value
        word, bit = row >> 6, ONE << np.uint64(row & 63)
        for bucket in range(low, buckets):
            bits[bucket, word] |= bit
    return single


@lean_kernel
def _look_at_blocks(bits: Words, size: int, blocks: npt.NDArray[np.uint8]) -> None:
    """Set blocks[i, b] to whether in bitmap i all bits of the rows of block b are set, or none."""
    words = (size + 63) >> 6
    for i in range(blocks.shape[0]):
        for b in range(blocks.shape[1]):
            some, every = np.uint64(0), ALL
            for word in range(b * BLOCK, min(words, (b + 1) * BLOCK)):
                some |= bits[i, word]
                if word == words - 1 and size & 63:
                    every &= bits[i, word] | (ALL << np.uint64(size & 63))
                else:
                    every &= bits[i, word]
            blocks[i, b] = EMPTY if some == 0 else FULL if every == ALL else MIXED


@lean_kernel
def _keep(found: Words, upper: Words) -> None:
    for word in range(len(found)):
        found[word] &= upper[word]


@lean_kernel
def _keep_between(found: Words, upper: Words, lower: Words) -> None:
    """Keep what is in `upper` and not in `lower`."""
    for word in range(len(found)):
        found[word] &= upper[word] & ~lower[word]


def every_row(size: int) -> Words:
    """Return a bitmap with the bits of the rows below size."""
    found = np.full((size + 63) // 64, ALL)
    if size & 63:
        found[-1] = np.uint64((1 << (size & 63)) - 1)
    return found


def rows_of(found: Words) -> Rows:
    """Return the rows whose bits are set, in order."""
    rows: Rows = np.empty(_count(found), np.int64)
    _extract(found, rows)
    return rows


@lean_kernel
def _count(found: Words) -> int:
    total = 0
    for word in range(len(found)):
        total += count_ones(found[word])
    return total


@lean_kernel
def _extract(found: Words, rows: Rows) -> None:
    at = 0
    for word in range(len(found)):
        bits = found[word]
        while bits:
            rows[at] = word * 64 + count_zeros(bits)
            at += 1
            bits &= bits - ONE


def within(rows: Rows, values: npt.NDArray[Any], absent: npt.NDArray[np.bool_], low: Any, high: Any) -> Rows:
    """Return those of the rows that have a value from low to high; None is no bound."""
    kept = np.empty(len(rows), np.int64)
    number = values.dtype.type
    lowest = number(0) if low is None else number(low)
    highest = number(0) if high is None else number(high)
    return kept[: _within(rows, values, absent, lowest, highest, low is not None, high is not None, kept)]


@lean_kernel
def _within(
    rows: Rows,
    values: npt.NDArray[Any],
    absent: npt.NDArray[np.bool_],
    low: Any,
    high: Any,
    bounded_below: bool,
    bounded_above: bool,
    kept: Rows,
) -> int:
    count = 0
    for row in rows:
        value = values[row]
        if absent[row] or (bounded_below and value < low) or (bounded_above and value > high):
            continue
        kept[count] = row
        count += 1
    return count


def between_bounds(
    rows: Rows, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], keys: npt.NDArray[np.float64],
    present: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Return for which rows the key is within the row's bounds; without a key, only for rows that have none."""
    holds = np.empty(len(rows), np.bool_)
    _between_bounds(rows, low, high, keys, present, holds)
    return holds


@lean_kernel
def _between_bounds(
    rows: Rows,
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    keys: npt.NDArray[np.float64],
    present: npt.NDArray[np.bool_],
    holds: npt.NDArray[np.bool_],
) -> None:
    for at in range(len(rows)):
        least, most = low[rows[at]], high[rows[at]]
        if present[at]:
            holds[at] = least <= keys[at] <= most
        else:
            holds[at] = least == -np.inf and most == np.inf
