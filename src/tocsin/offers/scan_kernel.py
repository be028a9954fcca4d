"""Kernels over the rows of a tier: bitmaps intersected for all offers of a batch at once, and rows decided pair by pair.

A request is (column, low, high): the rows whose value in the column is from low to high. Columns are those of the facts that
scan.py gathers: the addresses of their values, buckets and bitmaps (scan_kernel.py). Values of all kinds are compared as int64:
floats by their bits, turned so that they have the order of the numbers.

`resolve` finds the bitmaps of each request; `scan` intersects those of an offer, for all offers over one block of rows
before the next, so that bitmaps and values stay in the cache, and looks at the values themselves where bitmaps are not
exact; blocks in which a bitmap is empty are passed over. `collect` puts the rows of each offer together. `decide_rows` asks
all that rows ask, of the codes that an event has and of those that were computed for the pair.

Bitmaps over a column: which rows may have a value in an interval, by a few operations per 64 rows.

The values are divided into at most 128 buckets of about equal size, and for each bucket there is a bitmap of the rows
whose value is in it or in one below. So the rows of an interval, and a few beside it that share the outermost buckets,
are one bitmap less another. The scan (scan_kernel.py) looks at the values of those few, unless each bucket has only one
value: then the bitmaps say it all. Absent rows are in none.
"""

# Numba checks the arithmetic of kernels; its intrinsics have no signatures for mypy.
# mypy: disable-error-code="call-arg, unreachable, arg-type, no-any-return, return-value, var-annotated, assignment"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import PredicateKind
from tocsin.index.jit import helper, lean_kernel
from tocsin.index.raw_memory import ALL, ONE, byte_at, count_zeros, int32_at, int64_at

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

BLOCK = 128  # words of a bitmap, 8,192 rows, of which is known whether all or none are set
MIXED, EMPTY, FULL = range(3)
LEAST, MOST = -(2**63), 2**63 - 1  # no bound
NO_COLUMN = -1  # of a request whose bitmap is given
WHOLE, FLOAT, CODE = range(3)  # int64, float64, int32
# What the facts say of each column.
KIND, VALUES, BOUNDS, BOUND_COUNT, BITS, STRIDE, BLOCKS, BLOCK_COUNT, EXACT, HAS_ABSENT = range(10)
FACTS = 10
PLACES = 6  # what `resolve` finds for each request

ABSENT, UNKNOWN = -1, -2  # in place of a code
SOME_IN, NONE_IN, SOME_OF = int(PredicateKind.SOME_IN), int(PredicateKind.NONE_IN), int(PredicateKind.SOME_OF)
PRESENT, IS_ABSENT = int(PredicateKind.PRESENT), int(PredicateKind.ABSENT)


# --- bitmaps ----------------------------------------------------------------------------------------------------------


@lean_kernel
def set_bits(bits: Words, bounds: npt.NDArray[Any], values: npt.NDArray[Any], absent: Flags) -> bool:
    """Set, for each row that has a value, its bit in the bitmaps of its bucket and of those above.

    Return whether each value is the last of its bucket.
    """
    single = True
    for row in range(len(values)):
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
        bits[low, row >> 6] |= ONE << np.uint64(row & 63)
    for bucket in range(1, bits.shape[0]):
        for word in range(bits.shape[1]):
            bits[bucket, word] |= bits[bucket - 1, word]
    return single


@lean_kernel
def look_at_blocks(bits: Words, size: int, blocks: npt.NDArray[np.uint8]) -> None:
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


# --- the scan ---------------------------------------------------------------------------------------------------------


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


@lean_kernel
def resolve(facts: Int64s, requests: Int64s, none: int, bitmaps: Int64s, checked: Flags) -> None:
    """Find for each request the rows' bitmaps, those in bitmaps[r, 0] and not in bitmaps[r, 1] (addresses; 0: all, none).

    requests[r] is column, low, high; for NO_COLUMN `low` is the address of the bitmap. bitmaps[r, 2] and [r, 3] are the
    addresses of what their blocks are, 0 where that is not known. Of rows that are not in bitmaps[r, 4], or are in
    bitmaps[r, 5], the values have to be looked at (0: of none). `none` is the address of an empty bitmap. `checked` says
    that some of the rows may have a value beside the interval.
    """
    for r in range(len(requests)):
        column, low, high = requests[r, 0], requests[r, 1], requests[r, 2]
        for place in range(PLACES):
            bitmaps[r, place] = 0
        checked[r] = False
        if column == NO_COLUMN:
            bitmaps[r, 0] = low
            continue
        kind, bounds, buckets = facts[column, KIND], facts[column, BOUNDS], facts[column, BOUND_COUNT]
        exact = facts[column, EXACT] != 0
        top = buckets
        if high != MOST:
            if exact:
                top = _first_from(kind, bounds, buckets, high + 1) - 1
            else:
                top = _first_from(kind, bounds, buckets, high)
        if top < 0 or low > high:
            bitmaps[r, 0] = none
            continue
        below = -1 if low == LEAST else _first_from(kind, bounds, buckets, low) - 1
        size = facts[column, STRIDE] * 8
        if facts[column, HAS_ABSENT] != 0 or top < buckets - (1 if exact else 0):
            bitmaps[r, 0] = facts[column, BITS] + top * size
            bitmaps[r, 2] = facts[column, BLOCKS] + top * facts[column, BLOCK_COUNT]
        if below >= 0:
            bitmaps[r, 1] = facts[column, BITS] + below * size
            bitmaps[r, 3] = facts[column, BLOCKS] + below * facts[column, BLOCK_COUNT]
        if not exact:
            checked[r] = True
            if high != MOST:
                bitmaps[r, 4] = none if top == 0 else facts[column, BITS] + (top - 1) * size
            if low != LEAST:
                bitmaps[r, 5] = facts[column, BITS] + (below + 1) * size


class ScanRequests(NamedTuple):
    """What offers ask of columns: the columns, the requests, where those of each offer start, as bitmaps; of so many rows."""

    facts: Int64s
    requests: Int64s
    starts: Int64s
    bitmaps: Int64s
    checked: Flags
    size: int


@lean_kernel
def scan(asked: ScanRequests, first: int, last: int, block: Words, state: Int64s, out: Int32s, found: Int32s) -> bool:
    """Find the rows of all offers in the blocks from first to last; return whether all were done.

    An offer's requests are those from starts[o] to starts[o + 1]. Rows go to `out`, block by block and in it offer by offer;
    found[b - first, o] says how many. state: the block, the offer and the place in `out` to go on with; when `out` is full
    it is to be called again.
    """
    facts, requests, starts, bitmaps, checked, size = asked
    offers = len(starts) - 1
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
            for r in range(starts[o], starts[o + 1]):
                if bitmaps[r, 2] != 0 and byte_at(bitmaps[r, 2] + b) == EMPTY:
                    passed = True
                    break
                if bitmaps[r, 3] != 0 and byte_at(bitmaps[r, 3] + b) == FULL:
                    passed = True
                    break
            if passed:
                continue
            for w in range(length):
                block[w] = ALL
            if start + length == words and size & 63:
                block[length - 1] = (ONE << np.uint64(size & 63)) - ONE
            for r in range(starts[o], starts[o + 1]):
                if bitmaps[r, 0] != 0 and (bitmaps[r, 2] == 0 or byte_at(bitmaps[r, 2] + b) != FULL):
                    address = bitmaps[r, 0] + skipped
                    for w in range(length):
                        block[w] &= np.uint64(int64_at(address, np.uint64(w)))
                if bitmaps[r, 1] != 0 and (bitmaps[r, 3] == 0 or byte_at(bitmaps[r, 3] + b) != EMPTY):
                    address = bitmaps[r, 1] + skipped
                    for w in range(length):
                        block[w] &= ~np.uint64(int64_at(address, np.uint64(w)))
            # Values are looked at only once no bitmap can take a row away any more.
            for r in range(starts[o], starts[o + 1]):
                if checked[r]:
                    column, low, high = requests[r, 0], requests[r, 1], requests[r, 2]
                    kind, values = facts[column, KIND], facts[column, VALUES]
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
def collect(out: Int32s, found: Int32s, places: Int64s, positions: Int32s) -> None:
    """Copy what `scan` found to where each offer's rows go: places[o] is its next place, and is moved on."""
    at = 0
    for b in range(found.shape[0]):
        for o in range(found.shape[1]):
            place = places[o]
            count = found[b, o]
            for i in range(count):
                positions[place + i] = out[at + i]
            places[o] = place + count
            at += count


# --- what rows ask ----------------------------------------------------------------------------------------------------


class RowPredicates(NamedTuple):
    """What rows ask (compile/table.py): predicates offset[p] .. offset[p + 1] are those of the row at position p."""

    offset: Int64s
    column: npt.NDArray[np.uint16]
    kind: npt.NDArray[np.uint8]
    low: Int32s
    high: Int32s
    set_offset: Int32s
    set_low: Int32s
    set_high: Int32s


class Given(NamedTuple):
    """What pairs have in each column c: codes[c, offer], or computed[per_pair[c], pair] where that is not negative.

    It is a code; ABSENT; UNKNOWN, which satisfies all that is asked; or, where lists[c] is not negative, the number n of
    the list list_codes[list_offset[lists[c] + n] : list_offset[lists[c] + n + 1]].
    """

    codes: Int32s
    computed: Int32s
    per_pair: Int64s
    lists: Int64s
    list_offset: Int64s
    list_codes: Int32s


@lean_kernel
def hull(asked: RowPredicates, wanted: int, lows: Int32s, highs: Int32s) -> None:
    """Narrow lows and highs to the codes of a column that each row accepts: ABSENT is one, and MOST codes is no bound.

    For a row to accept a set of codes, its low must be at most the greatest, and its high at least the least of them.
    """
    for p in range(len(lows)):
        for q in range(asked.offset[p], asked.offset[p + 1]):
            if asked.column[q] != wanted:
                continue
            kind = asked.kind[q]
            low, high = np.int32(0), np.int32(2**31 - 1)
            if kind == SOME_IN:
                low, high = asked.low[q], asked.high[q]
            elif kind == SOME_OF:
                number = asked.low[q]
                low, high = np.int32(2**31 - 1), np.int32(-1)
                if asked.set_offset[number] < asked.set_offset[number + 1]:
                    low = asked.set_low[asked.set_offset[number]]
                    high = asked.set_high[asked.set_offset[number + 1] - 1]
            elif kind == IS_ABSENT:
                low, high = np.int32(ABSENT), np.int32(ABSENT)
            lows[p], highs[p] = max(lows[p], low), min(highs[p], high)


@lean_kernel
def accept(positions: Int32s, values: Int32s, lows: Int32s, highs: Int32s, holds: Flags) -> None:
    """holds[i] &= whether the hull of the row at positions[i] has the code values[i] in it, or that is UNKNOWN."""
    for i in range(len(positions)):
        position, value = positions[i], values[i]
        holds[i] &= value == UNKNOWN or lows[position] <= value <= highs[position]


@lean_kernel
def gather(positions: Int32s, number: Int32s, row: Int32s, numbers: Int32s, rows: Int32s) -> None:
    """numbers[i], rows[i] = number[positions[i]], row[positions[i]]."""
    for i in range(len(positions)):
        numbers[i], rows[i] = number[positions[i]], row[positions[i]]


@helper
def _is_in(asked: RowPredicates, kind: int, low: int, high: int, code: int) -> bool:
    """Return whether a code is in the interval, or in one of the set's, that a predicate names."""
    if kind == SOME_IN or kind == NONE_IN:
        return low <= code <= high
    for z in range(asked.set_offset[low], asked.set_offset[low + 1]):
        if asked.set_low[z] <= code <= asked.set_high[z]:
            return True
    return False


@lean_kernel
def decide_rows(asked: RowPredicates, given: Given, positions: Int32s, offers: Int32s, holds: Flags) -> None:
    """holds[i] = whether all that the row at positions[i] asks is satisfied by what the pair i has."""
    for i in range(len(positions)):
        holds[i] = True
        for q in range(asked.offset[positions[i]], asked.offset[positions[i] + 1]):
            c, kind, low, high = asked.column[q], asked.kind[q], asked.low[q], asked.high[q]
            if given.per_pair[c] >= 0:
                value = given.computed[given.per_pair[c], i]
            else:
                value = given.codes[c, offers[i]]
            if value == UNKNOWN:
                continue
            if kind == IS_ABSENT or kind == PRESENT:
                satisfied = (value == ABSENT) == (kind == IS_ABSENT)
            elif value == ABSENT:
                satisfied = False
            else:
                some = False
                if given.lists[c] < 0:
                    some = _is_in(asked, kind, low, high, value)
                else:
                    number = given.lists[c] + value
                    for z in range(given.list_offset[number], given.list_offset[number + 1]):
                        if _is_in(asked, kind, low, high, given.list_codes[z]):
                            some = True
                            break
                satisfied = some == (kind == SOME_IN or kind == SOME_OF)
            if not satisfied:
                holds[i] = False
                break


# Bitmaps over a column.


BUCKETS = 128
_SAMPLE = 20_000
_KINDS = {np.dtype(np.int64): WHOLE, np.dtype(np.float64): FLOAT, np.dtype(np.int32): CODE}


class BitmapIndex:
    """The bitmaps of one column, whose values are int64, float64 or int32."""

    def __init__(self, values: npt.NDArray[Any], absent: Flags) -> None:
        self.values = values
        step = max(1, len(values) // _SAMPLE)
        sample = np.sort(values[::step][~absent[::step]])
        distinct = np.unique(sample)
        if len(distinct) < BUCKETS:
            distinct = np.unique(values[~absent])
        if len(distinct) < BUCKETS:
            self.bounds = distinct  # the last value of each bucket but the last, which has the rest
        else:
            self.bounds = np.unique(sample[np.linspace(0, len(sample) - 1, BUCKETS + 1)[1:-1].astype(np.int64)])
        words = (len(values) + 63) // 64
        self.bits = np.zeros((len(self.bounds) + 1, words), np.uint64)
        self.exact = set_bits(self.bits, self.bounds, values, absent)
        self.has_absent = bool(absent.any())
        self.blocks = np.zeros((len(self.bits), -(-words // BLOCK)), np.uint8)
        look_at_blocks(self.bits, len(values), self.blocks)

    def facts(self) -> list[int]:
        """Return what the kernels know of the column; its addresses are good as long as this object."""
        return [
            _KINDS[self.values.dtype], self.values.ctypes.data, self.bounds.ctypes.data, len(self.bounds),
            self.bits.ctypes.data, self.bits.shape[1], self.blocks.ctypes.data, self.blocks.shape[1],
            int(self.exact), int(self.has_absent),
        ]  # fmt: skip


def packed(flags: Flags) -> Words:
    """Return a bitmap of the rows whose flag is set."""
    words = np.zeros((len(flags) + 63) // 64, np.uint64)
    bytes_ = np.packbits(flags, bitorder="little")
    words.view(np.uint8)[: len(bytes_)] = bytes_
    return words
