"""Row order: rows that the same events match stand together; and sketches, what all of 64 neighbours ask for.

Within a stripe, rows are ordered by their most selective atom. Where that is a range, a row is a point whose coordinates
are the selectivities of its ranges (one that it does not have is 1), and rows follow a space-filling curve: an event
matches a corner of that space, so most of its words of 64 rows are empty or full, where any other order would scatter
the bits. A sketch is two atoms that each of 64 rows implies: where one of them fails, none of the rows can match.

Radix sort: a stable order of integers, the same on every machine; of all, or within parts.

Library sorts break ties by CPU features; a segment must have the same bytes wherever it is built.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="arg-type, assignment"
# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, kernel
from tocsin.index.layout import GE, LE, SKETCH_ROWS, TRUE_ATOM
from tocsin.index.rows import MIN_WIDTH, SMALL_BLOCK

# Kernels take arrays only, named after what they hold; Numba, not mypy, checks their arithmetic.


# The groups of ranges that are coordinates beside a row's most selective atom.
DIMENSIONS = 6
# Bits of a coordinate; the most selective atom has more, as it tells most.
COORDINATE_BITS, LEAD_BITS = 5, 9
CURVE_BITS = LEAD_BITS + DIMENSIONS * COORDINATE_BITS
LEAD_FIRST = 3


@helper
def coordinate(selectivity, bits):
    """Return the selectivity as a number of so many bits."""
    return np.int64(min(np.float64(selectivity), 0.999) * (np.int64(1) << bits))


def curve_tables() -> npt.NDArray[np.uint64]:
    """Return where the bits of a coordinate go on the curve: tables[d, value] for each of them, the lead last.

    The place of a point is the OR of those of its coordinates. Their bits are interleaved, the highest first, and the
    three highest bits of the lead come before all others.
    """
    places = iter(range(CURVE_BITS - 1, -1, -1))
    place = np.zeros((DIMENSIONS + 1, LEAD_BITS), np.uint64)
    left = LEAD_BITS
    for bit in reversed(range(COORDINATE_BITS)):
        for _ in range(LEAD_FIRST if left == LEAD_BITS else 1):
            left -= 1
            place[DIMENSIONS, left] = next(places)
        for d in range(DIMENSIONS):
            place[d, bit] = next(places)
    for bit in reversed(range(left)):
        place[DIMENSIONS, bit] = next(places)
    tables = np.zeros((DIMENSIONS + 1, 1 << LEAD_BITS), np.uint64)
    for d, bits in enumerate([COORDINATE_BITS] * DIMENSIONS + [LEAD_BITS]):
        for bit in range(bits):
            with_bit = np.arange(1 << bits) >> bit & 1 == 1
            tables[d, : 1 << bits][with_bit] |= np.uint64(1) << place[d, bit]
    return tables


@kernel
def row_keys(block_start, block_ranged, column_key, arranged, dimension_of, curve):
    """Return per row its width, a key to sort rows within a block by, one for rows that share it, and its atoms.

    The atoms come most selective first, and the second key is the first three. `curve` is what curve_tables returns, `dimension_of` the coordinate of each group, or -1.
    Rows of blocks with ranges in bands (index/ranges.py) are ordered by column_key, and may have no atom at all.
    """
    atom_offset, atom_kind, _, atom_selectivity, atom_group, atom_number = arranged
    n = len(atom_offset) - 1
    widths, keys, second = np.empty(n, np.uint8), np.empty(n, np.uint64), np.zeros(n, np.uint64)
    atoms = np.empty(len(atom_number) + MIN_WIDTH * n, np.uint16)
    offset = np.zeros(n + 1, np.int64)
    chosen = np.empty(65_536, np.int64)  # the atoms of one row, most selective first
    coordinates = np.empty(DIMENSIONS, np.int64)
    p = 0
    for b in range(len(block_start) - 1):
        widest = 0 if block_ranged[b] else MIN_WIDTH
        small = block_start[b + 1] - block_start[b] < SMALL_BLOCK
        for r in range(block_start[b], block_start[b + 1]):
            count = 0
            for j in range(atom_offset[r], atom_offset[r + 1]):
                q = count
                while q > 0 and (
                    atom_selectivity[chosen[q - 1]] > atom_selectivity[j]
                    or (
                        atom_selectivity[chosen[q - 1]] == atom_selectivity[j]
                        and atom_number[chosen[q - 1]] > atom_number[j]
                    )
                ):
                    chosen[q] = chosen[q - 1]
                    q -= 1
                chosen[q] = j
                count += 1
            # The atoms of a row are few: they were put in their order one by one.
            for z in range(count):
                atoms[p + z] = atom_number[chosen[z]]
            least = 0 if block_ranged[b] and count == 0 else MIN_WIDTH
            for z in range(count, least):
                atoms[p + z] = TRUE_ATOM
            for z in range(min(3, count)):
                second[r] |= np.uint64(atoms[p + z]) << np.uint64(16 * (2 - z))
            width = max(count, least)
            widths[r], offset[r + 1] = width, p + width
            p += width
            widest = max(widest, width)
            if block_ranged[b]:
                second[r] = 0
                keys[r] = (np.uint64(0 if small else min(width, 255)) << np.uint64(56)) | column_key[r]
                continue
            # Where ranges make a row selective, rows that the same events match lie near on the curve.
            coordinates[:] = (1 << COORDINATE_BITS) - 1
            for z in range(1, count):
                j = chosen[z]
                d = dimension_of[atom_group[j]]
                if d >= 0 and (atom_kind[j] == GE or atom_kind[j] == LE):
                    coordinates[d] = coordinate(atom_selectivity[j], COORDINATE_BITS)
            place = np.uint64(0)
            for d in range(DIMENSIONS):
                place |= curve[d, coordinates[d]]
            key = np.uint64(0) if small else np.uint64(min(width, 255))
            lead = np.uint64(0)
            if count and (atom_kind[chosen[0]] == GE or atom_kind[chosen[0]] == LE):
                lead = np.uint64(1 << 16) | np.uint64(atom_group[chosen[0]])
                place |= curve[DIMENSIONS, coordinate(atom_selectivity[chosen[0]], LEAD_BITS)]
            elif count:
                lead = np.uint64(atom_number[chosen[0]])
                place >>= np.uint64(16)
                if count > 1 and atom_kind[chosen[1]] != GE and atom_kind[chosen[1]] != LE:
                    place |= np.uint64(atom_number[chosen[1]]) << np.uint64(CURVE_BITS - 16)
            keys[r] = (((key << np.uint64(17)) | lead) << np.uint64(CURVE_BITS)) | place
        if small:
            widths[block_start[b] : block_start[b + 1]] = widest
    return widths, keys, second, atoms, offset


@kernel
def sketch_rows(sorted_rows, block_start, arranged, groups):
    """Return SKETCHES, BLOCK_SKETCH, and how many rows are sketched by a range of each group.

    An atom of a group is implied by 64 rows that all have one of the group, if it is the weakest of these: of GE the one
    with the least number, of LE that with the greatest, of others only one that all have. The two that hold least are taken.
    """
    atom_offset, atom_kind, _, atom_selectivity, atom_group, atom_number = arranged
    blocks = len(block_start) - 1
    block_sketch = np.zeros(blocks + 1, np.int32)
    for b in range(blocks):
        block_sketch[b + 1] = block_sketch[b] + (block_start[b + 1] - block_start[b] + SKETCH_ROWS - 1) // SKETCH_ROWS
    sketches = np.full(2 * block_sketch[-1], TRUE_ATOM, np.uint16)
    sketched = np.zeros(groups + 1, np.int64)
    having, last_row = np.zeros(groups + 1, np.int64), np.full(groups + 1, -1, np.int64)
    weakest, share = np.zeros(groups + 1, np.int64), np.zeros(groups + 1, np.float32)
    seen = np.empty(groups + 1, np.int64)
    for b in range(blocks):
        for k in range(block_sketch[b], block_sketch[b + 1]):
            first = block_start[b] + (k - block_sketch[b]) * SKETCH_ROWS
            last = min(first + SKETCH_ROWS, block_start[b + 1])
            kinds = 0
            for position in range(first, last):
                r = sorted_rows[position]
                for j in range(atom_offset[r], atom_offset[r + 1]):
                    g, number = atom_group[j], np.int64(atom_number[j])
                    if having[g] == 0:
                        seen[kinds], weakest[g], share[g] = g, number, atom_selectivity[j]
                        kinds += 1
                    weaker = (atom_kind[j] == GE and number < weakest[g]) or (
                        atom_kind[j] == LE and number > weakest[g]
                    )
                    if weaker:
                        weakest[g], share[g] = number, atom_selectivity[j]
                    other = atom_kind[j] != GE and atom_kind[j] != LE and number != weakest[g]
                    if having[g] < 0 or other:
                        having[g] = -1
                    elif last_row[g] != position:
                        having[g] += 1
                    last_row[g] = position
            best, second = np.int64(-1), np.int64(-1)
            for z in range(kinds):
                g = seen[z]
                if having[g] == last - first:
                    if best < 0 or share[g] < share[best]:
                        best, second = g, best
                    elif second < 0 or share[g] < share[second]:
                        second = g
            if best >= 0:
                sketches[2 * k] = weakest[best]
                sketched[best] += last - first
            if second >= 0:
                sketches[2 * k + 1] = weakest[second]
                sketched[second] += last - first
            for z in range(kinds):
                having[seen[z]], last_row[seen[z]] = 0, -1
    return sketches, block_sketch, sketched[:groups]


# Radix sort.


Order = npt.NDArray[np.int64]

# Parts of at most so many are sorted by insertion, and of at most so many by digits of eight bits: others by eleven.
FEW, SOME = 40, 4_096


@kernel
def radix_order(keys: npt.NDArray[np.uint64], order: Order) -> Order:
    """Return `order` stably sorted by keys[order]: sorted(order, key=lambda i: keys[i]).

    Eleven bits a pass; bits in which all keys agree are skipped.
    """
    n = len(order)
    current, other = order.copy(), np.empty(n, np.int64)
    ones, zeros = np.uint64(0), ~np.uint64(0)
    for i in range(n):
        ones |= keys[order[i]]
        zeros &= keys[order[i]]
    differing = ones & ~zeros
    count = np.zeros(2048, np.int64)
    for shift in range(0, 64, 11):
        if (differing >> np.uint64(shift)) & np.uint64(2047) == 0:
            continue
        count[:] = 0
        for i in range(n):
            count[np.int64((keys[current[i]] >> np.uint64(shift)) & np.uint64(2047))] += 1
        total = 0
        for digit in range(2048):
            start = total
            total += count[digit]
            count[digit] = start
        for i in range(n):
            digit = np.int64((keys[current[i]] >> np.uint64(shift)) & np.uint64(2047))
            other[count[digit]] = current[i]
            count[digit] += 1
        current, other = other, current
    return current


@kernel
def sort_within(keys: npt.NDArray[np.uint64], starts: Order, order: Order) -> Order:
    """Return `order` with each part order[starts[i] : starts[i + 1]] stably sorted by its keys[order].

    Parts are sorted one by one, where they are in the cache.
    """
    order, largest = order.copy(), 0
    for part in range(len(starts) - 1):
        largest = max(largest, starts[part + 1] - starts[part])
    spare, count = np.empty(largest, np.int64), np.zeros(2048, np.int64)
    for part in range(len(starts) - 1):
        first, size = starts[part], starts[part + 1] - starts[part]
        if size <= FEW:
            for i in range(first + 1, first + size):
                position, j = order[i], i
                while j > first and keys[order[j - 1]] > keys[position]:
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = position
            continue
        ones, zeros = np.uint64(0), ~np.uint64(0)
        for i in range(first, first + size):
            ones |= keys[order[i]]
            zeros &= keys[order[i]]
        differing, bits = ones & ~zeros, np.uint64(8 if size <= SOME else 11)
        mask, shift = (np.uint64(1) << bits) - np.uint64(1), np.uint64(0)
        current, other = order[first : first + size], spare[:size]
        while shift < 64 and differing >> shift:
            if (differing >> shift) & mask == 0:
                shift += bits
                continue
            count[: mask + np.uint64(1)] = 0
            for i in range(size):
                count[(keys[current[i]] >> shift) & mask] += 1
            total = 0
            for digit in range(mask + np.uint64(1)):
                start = total
                total += count[digit]
                count[digit] = start
            for i in range(size):
                digit = (keys[current[i]] >> shift) & mask
                other[count[digit]] = current[i]
                count[digit] += 1
            current, other = other, current
            shift += bits
        order[first : first + size] = current
    return order
