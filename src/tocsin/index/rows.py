"""Rows: the kernels that turn conjunctions, ordered by cluster, into blocks, stripes and rows of atom numbers.

Called by index/build.py, in the order of this file; the order of rows within a block is made by index/row_order.py. A block is a cluster, or a part of one whose local atoms would
not fit 16 bits. A stripe is the rows of a block that have the same number of atoms.

Filters: up to three equalities of each row in six bytes, so that an event passes 32 rows at once.

Where rows are equalities on columns with few codes, an event fails nearly all rows of a block by their most selective
two. Its codes in up to 31 columns are 31 bytes (code + 1; 0: absent), and a byte shuffle brings to each of 32 rows the
event's byte in the column that the row asks for: a dozen instructions say which of them pass. Those that do are asked for
their third equality, and what is left is tested in full.

Of a block that has filters, 32 rows have 192 bytes: 32 times where the first equality looks, 32 times what it wants there,
and the same of the second and the third. `where` is 0x70 + byte group, so that its top bit tells which half of the event's
bytes it means. A row that has fewer asks its last equality again; one that has none asks the last byte, which is 0 for
every event, for 0.
Built by index/build.py, read by matching/columnar/join.py.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="arg-type, assignment"
# mypy: allow-untyped-defs, disable-error-code="arg-type, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import PredicateKind
from tocsin.index.jit import helper, kernel

# Kernels take arrays only, named after what they hold; Numba, not mypy, checks their arithmetic.


# Blocks of fewer rows are one stripe (padded with TRUE atoms) and are matched event by event.
SMALL_BLOCK = 16
MIN_WIDTH = 2
SOME_IN = int(PredicateKind.SOME_IN)
TRUE_ATOM = 1


@kernel
def lead_keys(atoms, replaced):
    """Return per conjunction a key of its most selective remaining atom, so that neighbours share atoms."""
    atom_offset, atom_column, atom_kind, atom_value, atom_selectivity = atoms
    n = len(atom_offset) - 1
    keys = np.zeros(n, np.uint64)
    for i in range(n):
        best, chosen = np.float32(3.0), -1
        for j in range(atom_offset[i], atom_offset[i + 1]):
            if not replaced[j] and atom_selectivity[j] < best:
                best, chosen = atom_selectivity[j], j
        if chosen >= 0:
            keys[i] = (np.uint64(atom_column[chosen] * 5 + atom_kind[chosen] + 1) << np.uint64(32)) | np.uint64(
                atom_value[chosen]
            )
    return keys


@kernel
def arrange(order, most, atoms, replaced):
    """Return the atoms that are not replaced, conjunction by conjunction in that order: offset, column, kind, value, selectivity.

    All that follows goes through them as they lie. `most` is how many these are at most; -1: it is counted.
    """
    atom_offset, atom_column, atom_kind, atom_value, atom_selectivity = atoms
    n = len(order)
    if most < 0:
        most = 0
        for r in range(n):
            most += atom_offset[order[r] + 1] - atom_offset[order[r]]
    offset = np.zeros(n + 1, np.int64)
    column, kind = np.empty(most, np.int32), np.empty(most, np.uint8)
    value, selectivity = np.empty(most, np.int32), np.empty(most, np.float32)
    p = 0
    for r in range(n):
        for j in range(atom_offset[order[r]], atom_offset[order[r] + 1]):
            if not replaced[j]:
                column[p], kind[p], value[p] = atom_column[j], atom_kind[j], atom_value[j]
                selectivity[p] = atom_selectivity[j]
                p += 1
        offset[r + 1] = p
    return offset, column[:p], kind[:p], value[:p], selectivity[:p]


@kernel
def cut_blocks(cluster_start, offset, is_local, local_limit, ranged):
    """Return where blocks start (and the end), and 1 per block that the next continues.

    A block has at most local_limit uses of local atoms; rows with ranges in bands have blocks of their own.
    """
    starts, continued = [0], [0]
    starts.pop()
    continued.pop()
    for cluster in range(len(cluster_start) - 1):
        uses = 0
        starts.append(cluster_start[cluster])
        for r in range(cluster_start[cluster], cluster_start[cluster + 1]):
            mine = 0
            for j in range(offset[r], offset[r + 1]):
                mine += is_local[j]
            if uses + mine > local_limit or (r > cluster_start[cluster] and ranged[r] != ranged[r - 1]):
                starts.append(r)
                continued.append(1)
                uses = 0
            uses += mine
        continued.append(0)
    starts.append(len(offset) - 1)
    return np.array(starts, dtype=np.int64), np.array(continued, dtype=np.int64).astype(np.uint8)


@kernel
def local_uses(block_start, offset, is_local):
    """Return the local atoms, the block of each, and where the uses of each block start (and the end)."""
    count = 0
    for j in range(len(is_local)):
        count += is_local[j]
    atom, block = np.empty(count, np.int64), np.empty(count, np.int64)
    start = np.zeros(len(block_start), np.int64)
    u = 0
    for b in range(len(block_start) - 1):
        for j in range(offset[block_start[b]], offset[block_start[b + 1]]):
            if is_local[j]:
                atom[u], block[u] = j, b
                u += 1
        start[b + 1] = u
    return atom, block, start


@kernel
def number_local(use_order, use_block, value_key, blocks, first_number):
    """Return per use its atom number in its block, and the local groups and values of all blocks.

    Within a block, distinct (group, value) are numbered from first_number in ascending order.
    """
    uses = len(use_order)
    number = np.zeros(uses, np.uint16)
    group, start = np.empty(uses, np.uint16), np.empty(uses + 1, np.int32)
    value, block_local = np.empty(uses, np.int32), np.zeros(blocks + 1, np.int32)
    groups, values, first_value = 0, 0, 0
    for u in range(uses):
        i = use_order[u]
        new_block = u == 0 or use_block[i] != use_block[use_order[u - 1]]
        if new_block:
            first_value = values
        if new_block or value_key[i] != value_key[use_order[u - 1]]:
            if new_block or value_key[i] >> np.uint64(32) != value_key[use_order[u - 1]] >> np.uint64(32):
                group[groups] = value_key[i] >> np.uint64(32)
                start[groups] = values
                groups += 1
                block_local[use_block[i] + 1] += 1
            value[values] = np.int64(value_key[i] & np.uint64(0xFFFFFFFF))
            values += 1
        number[i] = first_number + values - 1 - first_value
    start[groups] = values
    for b in range(blocks):
        block_local[b + 1] += block_local[b]
    return number, group[:groups].copy(), start[: groups + 1].copy(), value[:values].copy(), block_local


@kernel
def write_rows(sorted_rows, block_start, widths, row_atoms, row_offset, arranged, is_local, groups):
    """Return ATOMS, STRIPE_ROW, STRIPE_DATA, STRIPE_WIDTH, BLOCK_STRIPE, DENSE_LIST and BLOCK_DENSE."""
    atom_group, offset = arranged.group, arranged.offset
    n, blocks = len(sorted_rows), len(block_start) - 1
    total = 0
    for r in range(n):
        total += np.int64(widths[r])
    atoms = np.empty(total, np.uint16)
    stripe_row, stripe_data, stripe_width = [0], [0], [0]
    block_stripe, block_dense = np.zeros(blocks + 1, np.int32), np.zeros(blocks + 1, np.int32)
    dense_list = [0]
    used = np.full(groups + 1, -1, np.int64)
    p = 0
    for b in range(blocks):
        for position in range(block_start[b], block_start[b + 1]):
            r = sorted_rows[position]
            if position == block_start[b] or widths[r] != widths[sorted_rows[position - 1]]:
                stripe_row.append(position)
                stripe_data.append(p)
                stripe_width.append(np.int64(widths[r]))
            end = p + np.int64(widths[r])
            for q in range(row_offset[r], row_offset[r + 1]):
                atoms[p] = row_atoms[q]
                p += 1
            while p < end:
                atoms[p] = TRUE_ATOM
                p += 1
            for j in range(offset[r], offset[r + 1]):
                if not is_local[j]:
                    used[atom_group[j]] = b
        block_stripe[b + 1] = len(stripe_row) - 1
        if block_start[b + 1] - block_start[b] >= SMALL_BLOCK:
            for g in range(groups):
                if used[g] == b:
                    dense_list.append(g)
        block_dense[b + 1] = len(dense_list) - 1
    stripe_row.append(n)
    return (
        atoms,
        np.array(stripe_row[1:], dtype=np.int64).astype(np.int32),
        np.array(stripe_data, dtype=np.int64).astype(np.int32)[1:].copy(),
        np.array(stripe_width, dtype=np.int64).astype(np.uint8)[1:].copy(),
        block_stripe,
        np.array(dense_list, dtype=np.int64).astype(np.uint16)[1:].copy(),
        block_dense,
    )


@kernel
def overlapping(subscription, subscriptions, predicates, multiple, never):
    """Return per subscription (ascending in the table) whether an event may satisfy several of its conjunctions.

    It cannot where all of them ask a unique column for intervals that do not overlap.
    """
    found = np.zeros(subscriptions + 1, np.bool_)
    n, start = len(subscription), 0
    while start < n:
        stop, living = start + 1, np.int64(not never[start])
        while stop < n and subscription[stop] == subscription[start]:
            living += not never[stop]
            stop += 1
        if living > 1:
            found[subscription[start]] = not disjoint(start, stop, predicates, multiple, never)
        start = stop
    return found


@helper
def disjoint(start, stop, predicates, multiple, never):
    """Return whether all living conjunctions of start .. stop-1 have disjoint intervals in one unique column."""
    offset, column, kind = predicates.offset, predicates.column, predicates.kind
    low, high = predicates.low, predicates.high
    first = start
    while never[first]:
        first += 1
    lows, highs = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
    for j in range(offset[first], offset[first + 1]):
        if kind[j] != SOME_IN or multiple[column[j]]:
            continue
        count, everywhere = 0, True
        for i in range(first, stop):
            if never[i]:
                continue
            has = False
            for k in range(offset[i], offset[i + 1]):
                if column[k] == column[j] and kind[k] == SOME_IN:
                    lows[count], highs[count], has = low[k], high[k], True
            if not has:
                everywhere = False
                break
            count += 1
        if not everywhere:
            continue
        order, apart = np.argsort(lows[:count]), True
        for z in range(1, count):
            apart = apart and highs[order[z - 1]] < lows[order[z]]
        if apart:
            return True
    return False


@kernel
def hash_table(keys, blocks, bits):
    """Return open-addressing tables of keys and blocks with 2**bits slots; block -1 marks an empty slot."""
    slots = np.int64(1) << bits
    table_key, table_block = np.zeros(slots, np.uint64), np.full(slots, -1, np.int32)
    for i in range(len(keys)):
        h = np.int64((keys[i] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))
        while table_block[h] >= 0:
            h = (h + 1) & (slots - 1)
        table_key[h], table_block[h] = keys[i], blocks[i]
    return table_key, table_block


# Filters.


# Kernels take arrays only, named after what they hold; Numba, not mypy, checks their arithmetic.


FILTER_ROWS = 32
EQUALITIES = 3
EQUALITY_BYTES = 2 * FILTER_ROWS
FILTER_BYTES = EQUALITIES * EQUALITY_BYTES
EVENT_BYTES = 32
BYTE_GROUPS = EVENT_BYTES - 1  # the last byte is 0
BYTE_CODES = 255  # of a column, at most
WHERE = 0x70
FEWEST_ROWS = 8  # of a block with filters: for fewer, 192 bytes are too many


class Stripes(NamedTuple):
    """Sections of a segment: its rows, and where those of each stripe and block are."""

    atoms: npt.NDArray[np.uint16]
    row: npt.NDArray[np.int32]
    data: npt.NDArray[np.int32]
    width: npt.NDArray[np.uint8]
    of_block: npt.NDArray[np.int32]


@kernel
def write_filters(stripes, block_ranges, byte_group, first_atom, share, passing):
    """Return FILTERS, BLOCK_FILTER, and how many rows have filters.

    byte_group[atom] is the byte group of the atoms that have one (the first ones), first_atom[g] its first atom, and
    share[atom] how many events satisfy it. A block has filters if at most `passing` of its (event, row) pairs pass.
    """
    atoms, stripe_row, stripe_data, stripe_width, block_stripe = stripes
    blocks = len(block_stripe) - 1
    block_filter, parts, kept = np.full(blocks, -1, np.int32), 0, 0
    for b in range(blocks):
        rows = np.int64(stripe_row[block_stripe[b + 1]] - stripe_row[block_stripe[b]])
        if rows < FEWEST_ROWS or (len(block_ranges) and block_ranges[b] >= 0):
            continue
        passed = 0.0
        for s in range(block_stripe[b], block_stripe[b + 1]):
            width, at = np.int64(stripe_width[s]), np.int64(stripe_data[s])
            for _ in range(stripe_row[s], stripe_row[s + 1]):
                passes, found = 1.0, 0
                for z in range(at, at + width):
                    if found < 2 and 2 <= atoms[z] < len(byte_group):
                        passes *= share[atoms[z]]
                        found += 1
                passed += passes
                at += width
        if passed <= passing * rows:
            block_filter[b] = parts
            parts += (rows + FILTER_ROWS - 1) // FILTER_ROWS
            kept += rows
    filters = np.empty(parts * FILTER_BYTES, np.uint8)
    for b in range(blocks):
        if block_filter[b] < 0:
            continue
        r = 0
        for s in range(block_stripe[b], block_stripe[b + 1]):
            width, at = np.int64(stripe_width[s]), np.int64(stripe_data[s])
            for _ in range(stripe_row[s], stripe_row[s + 1]):
                place = (np.int64(block_filter[b]) + r // FILTER_ROWS) * FILTER_BYTES + r % FILTER_ROWS
                where, wanted, found = WHERE + BYTE_GROUPS, 0, 0
                for z in range(at, at + width):
                    if found < EQUALITIES and 2 <= atoms[z] < len(byte_group):
                        g = np.int64(byte_group[atoms[z]])
                        where, wanted = WHERE + g, np.int64(atoms[z]) - first_atom[g]
                        filters[place + EQUALITY_BYTES * found] = where
                        filters[place + EQUALITY_BYTES * found + FILTER_ROWS] = wanted
                        found += 1
                for y in range(found, EQUALITIES):
                    filters[place + EQUALITY_BYTES * y] = where
                    filters[place + EQUALITY_BYTES * y + FILTER_ROWS] = wanted
                at += width
                r += 1
        while r % FILTER_ROWS:  # the last ones are no rows: one byte cannot be both
            place = (np.int64(block_filter[b]) + r // FILTER_ROWS) * FILTER_BYTES + r % FILTER_ROWS
            for y in range(EQUALITIES):
                filters[place + EQUALITY_BYTES * y] = WHERE
                filters[place + EQUALITY_BYTES * y + FILTER_ROWS] = y + 1
            r += 1
    return filters, block_filter, kept
