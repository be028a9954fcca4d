"""Filtering: the rows of a block that an event passes, 32 at a time, and which of these it matches.

The layout of filters is in index/filters.py. What passes is tested atom by atom: few rows do.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np

from tocsin.index.filters import EQUALITY_BYTES, EVENT_BYTES, FILTER_BYTES, FILTER_ROWS
from tocsin.index.jit import helper, inlined
from tocsin.index.layout import (
    FALSE_ATOM,
    SCALARS,
    TRUE_ATOM,
    Bytes,
    Directory,
    Scalar,
    Section,
    int32_section,
    uint8_section,
    uint16_section,
)
from tocsin.matching.columnar.bits import ONE, Words, count_zeros
from tocsin.matching.columnar.byte_vectors import rows_equal, rows_equal_twice
from tocsin.matching.columnar.events import Matrix, Narrow
from tocsin.matching.columnar.fill import Atoms, Int32s, Int64s, code_holds

_ROWS, _BYTES, _THIRD = np.uint64(FILTER_ROWS), np.uint64(FILTER_BYTES), np.uint64(2 * EQUALITY_BYTES)


@helper
def worth_a_filter(events: int, rows: int) -> bool:
    """Return whether passing the rows of a block event by event costs less than a tile of so many events.

    A row costs 0.1 ns by a filter; by a tile it costs 1 ns for all events together, and each event about 80.
    """
    return events * rows < 8 * rows + 800 * events


@helper
def list_passing(
    filters: Bytes, first_filter: int, rows: int, narrow: Narrow, visits: Words, stop: int, pairs: Int32s, place: Int64s
) -> int:
    """List pairs (event, row of the block) that pass, for visits place[0] .. stop-1; return how many.

    It goes on from place (a visit, and how many filters are done of it), and stops early where `pairs` is full.
    """
    start, parts = np.uint64(first_filter) * _BYTES, np.uint64((rows + FILTER_ROWS - 1) // FILTER_ROWS)
    n, full, done = np.uint64(0), np.uint64(len(pairs) - 2 * FILTER_ROWS), np.uint64(place[1])
    for z in range(np.uint64(place[0]), np.uint64(stop)):
        e = visits[z] & np.uint64(0xFFFFFFFF)
        event = e * np.uint64(EVENT_BYTES)
        for part in range(done, parts):
            at = start + part * _BYTES
            passed = rows_equal_twice(filters, at, narrow, event)
            if passed:
                passed &= rows_equal(filters, at + _THIRD, narrow, event)
                if n > full:
                    place[0], place[1] = z, part
                    return np.int64(n >> ONE)
                while passed:
                    pairs[n], pairs[n + ONE] = e, np.int64(part * _ROWS) + count_zeros(passed)
                    passed &= passed - ONE
                    n += np.uint64(2)
        done = np.uint64(0)
    place[0], place[1] = stop, 0
    return np.int64(n >> ONE)


@helper
def keep_matches(
    buffer: Bytes, directory: Directory, block: int, slots: Matrix, simple: Atoms, offset: Int64s, codes: Int32s,
    narrow: Narrow, pairs: Int32s, n: int,
) -> int:  # fmt: skip
    """Keep those of n pairs (event, row of the block) of which all atoms hold; return how many these are.

    The last atom is tested first: filters know the first ones.
    """
    atoms = uint16_section(buffer, directory, Section.ATOMS)
    stripe_row = int32_section(buffer, directory, Section.STRIPE_ROW)
    stripe_data = int32_section(buffer, directory, Section.STRIPE_DATA)
    stripe_width = uint8_section(buffer, directory, Section.STRIPE_WIDTH)
    groups = int32_section(buffer, directory, Section.GROUPS)
    byte_groups = directory[SCALARS + Scalar.BYTE_GROUPS]
    byte_end = np.int64(groups[4 * byte_groups - 2] + groups[4 * byte_groups - 1])
    first = np.int64(int32_section(buffer, directory, Section.BLOCK_STRIPE)[block])
    kept = 0
    for i in range(n):
        e, row, s = np.int64(pairs[2 * i]), np.int64(stripe_row[first]) + np.int64(pairs[2 * i + 1]), first
        while row >= stripe_row[s + 1]:
            s += 1
        width = np.int64(stripe_width[s])
        start = np.int64(stripe_data[s]) + (row - np.int64(stripe_row[s])) * width
        holds, z = True, start + width
        while holds and z > start:
            z -= 1
            atom = np.int64(atoms[z])
            if TRUE_ATOM < atom < byte_end:
                g = byte_group(groups, byte_groups, atom)
                holds = np.int64(narrow[EVENT_BYTES * e + g]) == atom - np.int64(groups[4 * g + 2])
            elif atom != TRUE_ATOM:
                holds = atom_holds(buffer, directory, block, atom, slots, simple, offset, codes, e)
        pairs[2 * kept], pairs[2 * kept + 1] = e, pairs[2 * i + 1]
        kept += holds
    return kept


@inlined
def byte_group(groups: Int32s, count: int, atom: int) -> int:
    """Return which of the first `count` groups an atom belongs to."""
    low, left = np.int64(0), np.int64(count)
    while left > 1:
        half = left >> 1
        low += half * np.int64(groups[4 * (low + half) + 2] <= atom)
        left -= half
    return low


@helper
def atom_holds(
    buffer: Bytes, directory: Directory, block: int, atom: int, slots: Matrix, simple: Atoms, offset: Int64s,
    codes: Int32s, e: int,
) -> bool:  # fmt: skip
    """Return whether an atom of the block that belongs to no byte group holds for event e."""
    groups = int32_section(buffer, directory, Section.GROUPS)
    dense_atoms = directory[SCALARS + Scalar.DENSE_ATOMS]
    if atom == FALSE_ATOM:
        return False
    if atom < dense_atoms:
        g = np.int64(0)
        while groups[4 * g + 2] < 0 or atom >= groups[4 * g + 2] + groups[4 * g + 3]:
            g += 1
        if g < directory[SCALARS + Scalar.SIMPLE_GROUPS]:
            return np.int64(simple[e, g]) == atom
        value = atom - np.int64(groups[4 * g + 2]) - 1
    else:
        block_local = int32_section(buffer, directory, Section.BLOCK_LOCAL)
        local_start = int32_section(buffer, directory, Section.LOCAL_START)
        y = np.int64(block_local[block])
        at = np.int64(local_start[y]) + atom - dense_atoms
        while at >= local_start[y + 1]:
            y += 1
        g = np.int64(uint16_section(buffer, directory, Section.LOCAL_GROUP)[y])
        value = np.int64(int32_section(buffer, directory, Section.LOCAL_VALUE)[at])
    return code_holds(
        groups[4 * g + 1], groups[4 * g], value, int32_section(buffer, directory, Section.COLUMNS), slots, offset, codes,
        int32_section(buffer, directory, Section.GENERIC), int32_section(buffer, directory, Section.SET_OFFSET),
        int32_section(buffer, directory, Section.SET_LOW), int32_section(buffer, directory, Section.SET_HIGH), e,
    )  # fmt: skip
