"""Ranges in bands: how a block stores rows with many ranges over columns of many codes, as bytes that vectors compare.

A word for each end of a range and tile is memory traffic and little else where ends are many. So the codes of a column are
cut into 256 bands (a code's band is its upper eight bits), and of a range a row keeps the bands of its two ends, a byte
each; the lower bits stand beside them, packed. An event fails most ranges by its band alone; only where its band is that of
an end, the lower bits decide.

512 rows of a block are a chunk. Of each column that some of them have a range in, a chunk has a layer: which rows these are
(512 bits), the lower bands of these, the upper bands, and the lower bits of both ends. Rows that ask for the same columns
lie together, so that most layers have all of 64 rows, or none. Equalities of such rows are ranges of one code; what else
they ask is in their stripe, as that of other rows. A row dies by its bit in RANGE_ALIVE.

Chosen by index/row_sections.py where it costs less; read by matching/columnar/ranged.py, index/explain.py and
matching/columnar/near_misses.py.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.jit import helper, kernel
from tocsin.index.layout import EQ, GE, LE, Bytes
from tocsin.index.open_segment import Atoms, Int32s, Int64s, Words
from tocsin.index.raw_memory import count_ones

BANDS, BAND_BITS = 256, 8
CHUNK, PARTS = 512, 8  # rows of a chunk, and the words of a bit each that they take
POSITION_BITS, SIZE_BITS = 38, 10  # of a layer's record: where its bytes start, its ranges, and which column it is of
SPARE_BYTES = 64  # at the end, which vectors may read

KEY_BITS = 56  # of the columns that a row has ranges in, the most used first
ONE = np.uint64(1)


def band_shift(codes: int) -> int:
    """Return how many lower bits a code of a column of so many codes has below its band."""
    return max(0, (codes - 1).bit_length() - BAND_BITS)


@helper
def layer_ends(ranges: Bytes, base: int, size: int, entry: int, shift: int) -> tuple[int, int]:
    """Return the least and the greatest code of an entry of the layer of `size` ranges whose bytes start at base."""
    bit = 2 * shift * entry
    at = base + 2 * size + (bit >> 3)
    word = np.uint64(0)
    for z in range((2 * shift + 14) >> 3):
        word |= np.uint64(ranges[at + z]) << np.uint64(8 * z)
    word >>= np.uint64(bit & 7)
    rest = (ONE << np.uint64(shift)) - ONE
    low = (np.int64(ranges[base + entry]) << shift) | np.int64(word & rest)
    high = (np.int64(ranges[base + size + entry]) << shift) | np.int64((word >> np.uint64(shift)) & rest)
    return low, high


@helper
def layer_of(records: Int64s, layer: int) -> tuple[int, int, int]:
    """Return the number of a layer's column among the columns with ranges, where its bytes start, and its ranges."""
    record = np.int64(records[np.uint64(layer)])
    size = (record >> POSITION_BITS) & ((1 << SIZE_BITS) - 1)
    return record >> (POSITION_BITS + SIZE_BITS), record & ((1 << POSITION_BITS) - 1), size


@helper
def entry_of(masks: Words, starts: Atoms, layer: int, place: int) -> int:
    """Return which entry of a layer the row at that place of its chunk has; -1: none."""
    part = PARTS * layer + (place >> 6)
    mask, bit = masks[np.uint64(part)], ONE << np.uint64(place & 63)
    if mask & bit == 0:
        return -1
    return np.int64(starts[np.uint64(part)]) + count_ones(mask & (bit - ONE))


class RangeCosts(NamedTuple):
    """What PlanCosts (index/plan.py) has of ranges: see there."""

    ranged: int
    many_codes: int
    local: float
    interval: float
    passing: float


@kernel
def savings(atoms, replaced, never, codes, multiple, costs):
    """Return per conjunction how many nanoseconds a tile saves where its row is stored in bands; 0 where it is not to be.

    It has ranges in at least `ranged` columns of more than `many_codes` codes. What its row asks beside intervals is tested for what passes:
    few pairs may pass then.
    """
    atom_offset, atom_column, atom_kind, _, atom_selectivity = atoms
    fewest, many, local, interval, passing = costs
    n = len(atom_offset) - 1
    saved = np.zeros(n, np.float32)
    for i in range(n):
        wide, before, intervals, locals_, others, passes = 0, -1, 0, 0, 0, 1.0
        last = -1
        for j in range(atom_offset[i], atom_offset[i + 1]):
            if replaced[j]:
                continue
            c, k = atom_column[j], atom_kind[j]
            if multiple[c] or not (k == EQ or k == GE or k == LE):
                others += 1
                continue
            if c != last:
                intervals += 1
                passes *= atom_selectivity[j]
                last = c
            if k != EQ and codes[c] > many:
                locals_ += 1
                wide += c != before
                before = c
        if wide >= fewest and not never[i] and (others == 0 or passes <= passing):
            saved[i] = max(0.0, locals_ * local - intervals * interval)
    return saved


@kernel
def interval_atoms(atoms, replaced, chosen, multiple):
    """Return per atom whether it is an end of an interval of a chosen conjunction."""
    atom_offset, atom_column, atom_kind = atoms.offset, atoms.column, atoms.kind
    found = np.zeros(len(atom_column), np.bool_)
    for i in range(len(atom_offset) - 1):
        if chosen[i]:
            for j in range(atom_offset[i], atom_offset[i + 1]):
                k = atom_kind[j]
                found[j] = not replaced[j] and not multiple[atom_column[j]] and (k == EQ or k == GE or k == LE)
    return found


@kernel
def column_keys(conjunction, ranged, atom_offset, atom_column, interval, rank):
    """Return per row of a ranged block a key of its columns with ranges: bit 55 - rank of each, for the first 56."""
    keys = np.zeros(len(conjunction), np.uint64)
    for r in range(len(conjunction)):
        if ranged[r]:
            for j in range(atom_offset[conjunction[r]], atom_offset[conjunction[r] + 1]):
                if interval[j] and rank[atom_column[j]] < KEY_BITS:
                    keys[r] |= ONE << np.uint64(KEY_BITS - 1 - rank[atom_column[j]])
    return keys


@kernel
def write_ranges(conjunction, block_start, block_ranged, atoms, interval, number_of, shifts, codes):
    """Return BLOCK_RANGES, RANGE_ALIVE, RANGE_CHUNK, RANGE_LAYER, RANGE_ROWS, RANGE_START and RANGE_BYTES.

    conjunction[position] is that of each row in its order; number_of[column] its number among those with ranges, and
    shifts[number] the lower bits of its codes.
    """
    atom_offset, atom_column, atom_kind, atom_value, _ = atoms
    blocks, columns = len(block_ranged), len(shifts)
    block_ranges, chunks = np.full(blocks, -1, np.int32), 0
    for b in range(blocks):
        if block_ranged[b]:
            block_ranges[b] = chunks
            chunks += (block_start[b + 1] - block_start[b] + CHUNK - 1) // CHUNK
    last_code = np.zeros(columns, np.int64)
    for c in range(len(number_of)):
        if number_of[c] >= 0:
            last_code[number_of[c]] = codes[c] - 1
    alive, range_chunk = np.zeros(PARTS * chunks, np.uint64), np.zeros(chunks + 1, np.int32)
    masks, counts = np.zeros((columns, PARTS), np.uint64), np.zeros(columns, np.int64)
    lows, highs = np.zeros((columns, CHUNK), np.int64), np.zeros((columns, CHUNK), np.int64)
    used = np.zeros(columns, np.int64)
    records, rows, starts, data = (
        np.zeros(0, np.int64),
        np.zeros(0, np.uint64),
        np.zeros(0, np.uint16),
        np.zeros(0, np.uint8),
    )
    for filling in range(2):  # how much there is, then what it is
        layers, position, chunk = 0, 0, 0
        for b in range(blocks):
            if not block_ranged[b]:
                continue
            for first in range(block_start[b], block_start[b + 1], CHUNK):
                # A chunk: of each column, which rows have a range in it, and its ends.
                masks[:], counts[:], kinds = np.uint64(0), 0, 0
                for place in range(min(CHUNK, block_start[b + 1] - first)):
                    i = conjunction[first + place]
                    part, bit = place >> 6, ONE << np.uint64(place & 63)
                    alive[PARTS * chunk + part] |= bit
                    for j in range(atom_offset[i], atom_offset[i + 1]):
                        if not interval[j]:
                            continue
                        c, k, v = number_of[atom_column[j]], atom_kind[j], np.int64(atom_value[j])
                        if masks[c, part] & bit == 0:
                            if counts[c] == 0:
                                used[kinds] = c
                                kinds += 1
                            masks[c, part] |= bit
                            counts[c] += 1
                            lows[c, place], highs[c, place] = 0, last_code[c]
                        if k != LE:
                            lows[c, place] = max(lows[c, place], v)
                        if k != GE:
                            highs[c, place] = min(highs[c, place], v)
                # The most used columns come first, as in the order of rows: those that all of 64 rows have.
                used[:kinds].sort()
                for x in range(kinds):
                    c = used[x]
                    size, shift, entry = counts[c], shifts[c], 0
                    if filling:
                        records[layers] = (((c << SIZE_BITS) | size) << POSITION_BITS) | position
                        for part in range(PARTS):
                            mask = masks[c, part]
                            rows[PARTS * layers + part], starts[PARTS * layers + part] = mask, entry
                            for place in range(64 * part, 64 * part + 64):
                                if (mask >> np.uint64(place & 63)) & ONE == 0:
                                    continue
                                low, high = lows[c, place], highs[c, place]
                                data[position + entry] = low >> shift
                                data[position + size + entry] = high >> shift
                                rest = (np.int64(1) << shift) - 1
                                bit_at = 2 * shift * entry
                                word = (
                                    np.uint64(low & rest) | (np.uint64(high & rest) << np.uint64(shift))
                                ) << np.uint64(bit_at & 7)
                                at = position + 2 * size + (bit_at >> 3)
                                while word:
                                    data[at] |= np.uint8(word & np.uint64(255))
                                    word >>= np.uint64(8)
                                    at += 1
                                entry += 1
                    layers += 1
                    position += 2 * size + ((2 * shift * size + 7) >> 3)
                chunk += 1
                range_chunk[chunk] = layers
        if not filling:
            records, rows = np.zeros(layers, np.int64), np.zeros(PARTS * layers, np.uint64)
            starts, data = np.zeros(PARTS * layers, np.uint16), np.zeros(position + SPARE_BYTES, np.uint8)
    return block_ranges, alive, range_chunk, records, rows, starts, data


# Which rows live.


@helper
def alive_bit(row: Any, block_stripe: Int32s, stripe_row: Int32s, block_ranges: Int32s) -> int:
    """Return which bit of RANGE_ALIVE is that of a row; -1 where its block has no ranges in bands."""
    if len(block_ranges) == 0:
        return -1
    low, high = np.int64(0), np.int64(len(block_ranges))
    while high - low > 1:
        middle = (low + high) >> 1
        if stripe_row[block_stripe[middle]] <= row:
            low = middle
        else:
            high = middle
    if block_ranges[low] < 0:
        return -1
    return CHUNK * np.int64(block_ranges[low]) + np.int64(row) - np.int64(stripe_row[block_stripe[low]])
