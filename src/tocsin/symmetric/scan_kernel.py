"""Kernels that find the first survivors of many offers: bitmaps of both sides, intersected block by block.

A request is (column, low, high): the rows whose value in the column is from low to high. Columns are those of the
directory (directory.py), which has the addresses of their values, buckets and bitmaps. Values of all kinds are compared as
int64: floats by their bits, turned so that they have the order of the numbers.

`resolve` finds the bitmaps of each request, and counts its rows; `scan` intersects the bitmaps of all requests of an offer,
for all offers over one block of rows before the next, so that bitmaps and values stay in the cache, and looks at the values
themselves where bitmaps are not exact; blocks in which a bitmap is empty are passed over. `collect` puts the rows of each offer together.
"""

# Numba checks the arithmetic of kernels; its intrinsics have no signatures for mypy.
# mypy: disable-error-code="call-arg, unreachable, arg-type, no-any-return, return-value, var-annotated"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, lean_kernel
from tocsin.index.raw_memory import byte_at, int32_at, int64_at
from tocsin.matching.columnar.bits import ALL, ONE, count_zeros
from tocsin.symmetric.bitmaps import BLOCK, EMPTY, FULL

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

LEAST, MOST = -(2**63), 2**63 - 1  # no bound
NO_COLUMN = -1  # of a request whose bitmap is given

WHOLE, FLOAT, CODE = range(3)  # int64, float64, int32
# What the directory has for each column.
(
    KIND, VALUES, BOUNDS, BOUND_COUNT, BITS, STRIDE, BLOCKS, BLOCK_COUNT, EXACT, HAS_ABSENT, ORDERED, ORDERED_COUNT, REST,
) = range(13)  # fmt: skip
FACTS = 13
PLACES = 6  # what `resolve` finds for each request


@helper
def _number(kind: int, address: int, index: int) -> int:
    """Return a value as an int64 that has the order of the values."""
    if kind == CODE:
        return np.int64(int32_at(address, np.uint64(index)))
    bits = int64_at(address, np.uint64(index))
    if kind == FLOAT:
        if bits == LEAST:  # -0.0 is 0.0
            return np.int64(0)
        return bits ^ ((bits >> 63) & MOST)
    return bits


@helper
def _first_from(kind: int, address: int, count: int, number: int) -> int:
    """Return where in an ordered array the first value is that is at least the number."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if _number(kind, address, middle) < number:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def _first_above(kind: int, address: int, count: int, number: int) -> int:
    """Return where in an ordered array the first value is that is more than the number."""
    return count if number == MOST else _first_from(kind, address, count, number + 1)


@lean_kernel
def resolve(directory: Int64s, requests: Int64s, none: int, counts: Int64s, bitmaps: Int64s, checked: Flags) -> None:
    """Find for each request the rows' bitmaps, those in bitmaps[r, 0] and not in bitmaps[r, 1] (addresses; 0: all, none).

    bitmaps[r, 2] and [r, 3] are the addresses of what their blocks are, 0 where that is not known. Of rows that are not in
    bitmaps[r, 4], or are in bitmaps[r, 5], the values have to be looked at (0: of none).

    `none` is the address of an empty bitmap. `counts` is about how many rows there are, where the directory has the values
    in order. `checked` says that some of the rows may have a value beside the interval.
    """
    for r in range(len(requests)):
        column, low, high = requests[r, 0], requests[r, 1], requests[r, 2]
        counts[r] = 0
        for place in range(PLACES):
            bitmaps[r, place] = 0
        checked[r] = False
        if column == NO_COLUMN:
            continue
        kind, bounds, buckets = directory[column, KIND], directory[column, BOUNDS], directory[column, BOUND_COUNT]
        exact = directory[column, EXACT] != 0
        top = buckets
        if high != MOST:
            if exact:
                top = _first_above(kind, bounds, buckets, high) - 1
            else:
                top = _first_from(kind, bounds, buckets, high)
        if top < 0 or low > high:
            bitmaps[r, 0] = none
            continue
        below = -1 if low == LEAST else _first_from(kind, bounds, buckets, low) - 1
        size = directory[column, STRIDE] * 8
        if directory[column, HAS_ABSENT] != 0 or top < buckets - (1 if exact else 0):
            bitmaps[r, 0] = directory[column, BITS] + top * size
            bitmaps[r, 2] = directory[column, BLOCKS] + top * directory[column, BLOCK_COUNT]
        if below >= 0:
            bitmaps[r, 1] = directory[column, BITS] + below * size
            bitmaps[r, 3] = directory[column, BLOCKS] + below * directory[column, BLOCK_COUNT]
        if not exact:
            checked[r] = True
            if high != MOST:
                bitmaps[r, 4] = none if top == 0 else directory[column, BITS] + (top - 1) * size
            if low != LEAST:
                bitmaps[r, 5] = directory[column, BITS] + (below + 1) * size
        if directory[column, ORDERED] != 0:
            ordered, count = directory[column, ORDERED], directory[column, ORDERED_COUNT]
            first = _first_from(kind, ordered, count, low)
            counts[r] = max(0, _first_above(kind, ordered, count, high) - first) + directory[column, REST]


@lean_kernel
def scan(
    directory: Int64s, requests: Int64s, starts: Int64s, stops: Int64s, bitmaps: Int64s, checked: Flags,
    live: int, size: int, first: int, last: int, block: Words, state: Int64s, out: Int32s, found: Int32s, tested: Int64s,
) -> bool:  # fmt: skip
    """Find the rows of all offers in the blocks from first to last; return whether all were done.

    An offer's requests are those from starts[o] to stops[o]. `live` is the address of the bitmap of rows that count, 0 for
    all below size. Rows go to `out`, block by block and in it offer by offer; found[b - first, o] says how many.
    state: the block, the offer and the place in `out` to go on with; when `out` is full it is to be called again.
    tested[o] is how many rows were looked at by their values.
    """
    offers = len(starts)
    words = (size + 63) >> 6
    at = state[2]
    start_offer = state[1]
    for b in range(state[0], last):
        start = b * BLOCK
        length = min(BLOCK, words - start)
        skipped = start * 8
        for o in range(start_offer, offers):
            if at + length * 64 > len(out):
                state[0], state[1], state[2] = b, o, at
                return False
            passed = False
            for r in range(starts[o], stops[o]):
                if bitmaps[r, 2] != 0 and byte_at(bitmaps[r, 2] + b) == EMPTY:
                    passed = True
                    break
                if bitmaps[r, 3] != 0 and byte_at(bitmaps[r, 3] + b) == FULL:
                    passed = True
                    break
            if passed:
                continue
            if live != 0:
                for w in range(length):
                    block[w] = np.uint64(int64_at(live + skipped, np.uint64(w)))
            else:
                for w in range(length):
                    block[w] = ALL
                if start + length == words and size & 63:
                    block[length - 1] = (ONE << np.uint64(size & 63)) - ONE
            for r in range(starts[o], stops[o]):
                if bitmaps[r, 0] != 0 and (bitmaps[r, 2] == 0 or byte_at(bitmaps[r, 2] + b) != FULL):
                    address = bitmaps[r, 0] + skipped
                    for w in range(length):
                        block[w] &= np.uint64(int64_at(address, np.uint64(w)))
                if bitmaps[r, 1] != 0 and (bitmaps[r, 3] == 0 or byte_at(bitmaps[r, 3] + b) != EMPTY):
                    address = bitmaps[r, 1] + skipped
                    for w in range(length):
                        block[w] &= ~np.uint64(int64_at(address, np.uint64(w)))
            for r in range(starts[o], stops[o]):
                if checked[r]:
                    column, low, high = requests[r, 0], requests[r, 1], requests[r, 2]
                    kind, values = directory[column, KIND], directory[column, VALUES]
                    inner, outer = bitmaps[r, 4], bitmaps[r, 5]
                    for w in range(length):
                        if block[w] == 0:
                            continue
                        unsure = np.uint64(0)
                        if inner != 0:
                            unsure |= ~np.uint64(int64_at(inner + skipped, np.uint64(w)))
                        if outer != 0:
                            unsure |= np.uint64(int64_at(outer + skipped, np.uint64(w)))
                        unsure &= block[w]
                        while unsure:
                            tested[o] += 1
                            place = count_zeros(unsure)
                            number = _number(kind, values, (start + w) * 64 + place)
                            if number < low or number > high:
                                block[w] &= ~(ONE << np.uint64(place))
                            unsure &= unsure - ONE
            before = at
            for w in range(length):
                bits = block[w]
                while bits:
                    out[at] = (start + w) * 64 + count_zeros(bits)
                    at += 1
                    bits &= bits - ONE
            found[b - first, o] = at - before
        start_offer = 0
    state[0], state[1], state[2] = last, 0, at
    return True


@lean_kernel
def collect(out: Int32s, found: Int32s, places: Int64s, rows: Int64s) -> None:
    """Copy what `scan` found to where each offer's rows go: places[o] is its next place, and is moved on."""
    at = 0
    for b in range(found.shape[0]):
        for o in range(found.shape[1]):
            place = places[o]
            count = found[b, o]
            for i in range(count):
                rows[place + i] = out[at + i]
            places[o] = place + count
            at += count
