"""Filters: up to three equalities of each row in six bytes, so that an event passes 32 rows at once.

Where rows are equalities on columns with few codes, an event fails nearly all rows of a block by their most selective
two. Its codes in up to 31 columns are 31 bytes (code + 1; 0: absent), and a byte shuffle brings to each of 32 rows the
event's byte in the column that the row asks for: a dozen instructions say which of them pass. Those that do are asked for
their third equality, and what is left is tested in full.

Of a block that has filters, 32 rows have 192 bytes: 32 times where the first equality looks, 32 times what it wants there,
and the same of the second and the third. `where` is 0x70 + byte group, so that its top bit tells which half of the event's
bytes it means. A row that has fewer asks its last equality again; one that has none asks the last byte, which is 0 for
every event, for 0.
Built by index/build.py, read by matching/columnar/filtering.py.
"""

# Kernels take arrays only, named after what they hold; Numba, not mypy, checks their arithmetic.
# mypy: allow-untyped-defs, disable-error-code="arg-type, assignment"

from __future__ import annotations

import numpy as np

from tocsin.index.jit import kernel

FILTER_ROWS = 32
EQUALITIES = 3
EQUALITY_BYTES = 2 * FILTER_ROWS
FILTER_BYTES = EQUALITIES * EQUALITY_BYTES
EVENT_BYTES = 32
BYTE_GROUPS = EVENT_BYTES - 1  # the last byte is 0
BYTE_CODES = 255  # of a column, at most
WHERE = 0x70
FEWEST_ROWS = 8  # of a block with filters: for fewer, 192 bytes are too many


@kernel
def write_filters(atoms, stripe_row, stripe_data, stripe_width, block_stripe, byte_group, first_atom, share, passing):
    """Return FILTERS, BLOCK_FILTER, and how many rows have filters.

    byte_group[atom] is the byte group of the atoms that have one (the first ones), first_atom[g] its first atom, and
    share[atom] how many events satisfy it. A block has filters if at most `passing` of its (event, row) pairs pass.
    """
    blocks = len(block_stripe) - 1
    block_filter, parts, kept = np.full(blocks, -1, np.int32), 0, 0
    for b in range(blocks):
        rows = np.int64(stripe_row[block_stripe[b + 1]] - stripe_row[block_stripe[b]])
        if rows < FEWEST_ROWS:
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
