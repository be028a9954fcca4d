"""Filtering: the rows of a block that an event passes, 32 at a time, and which of these it matches.

The layout of filters is in index/filters.py. What passes is tested atom by atom: few rows do.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np

from tocsin.index.filters import EQUALITY_BYTES, EVENT_BYTES, FILTER_BYTES, FILTER_ROWS
from tocsin.index.jit import helper, inlined
from tocsin.index.layout import FALSE_ATOM, TRUE_ATOM, Bytes
from tocsin.index.open_segment import Atoms, Int32s, Int64s, OpenSegment, group_and_value
from tocsin.matching.columnar.bits import ONE, Words, count_zeros
from tocsin.matching.columnar.byte_vectors import rows_equal, rows_equal_twice
from tocsin.matching.columnar.events import Matrix, Narrow
from tocsin.matching.columnar.fill import code_holds

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
    segment: OpenSegment, block: int, slots: Matrix, simple: Atoms, offset: Int64s, codes: Int32s, narrow: Narrow,
    pairs: Int32s, n: int,
) -> int:  # fmt: skip
    """Keep those of n pairs (event, row of the block) of which all atoms hold; return how many these are.

    The last atom is tested first: filters know the first ones.
    """
    atoms, stripe_row, groups, byte_groups = segment.atoms, segment.stripe_row, segment.groups, segment.byte_groups
    byte_end = np.int64(groups[4 * byte_groups - 2] + groups[4 * byte_groups - 1])
    first = np.int64(segment.block_stripe[block])
    kept = 0
    for i in range(n):
        e, row, s = np.int64(pairs[2 * i]), np.int64(stripe_row[first]) + np.int64(pairs[2 * i + 1]), first
        while row >= stripe_row[s + 1]:
            s += 1
        width = np.int64(segment.stripe_width[s])
        start = np.int64(segment.stripe_data[s]) + (row - np.int64(stripe_row[s])) * width
        holds, z = True, start + width
        while holds and z > start:
            z -= 1
            atom = np.int64(atoms[z])
            if TRUE_ATOM < atom < byte_end:
                g = byte_group(groups, byte_groups, atom)
                holds = np.int64(narrow[EVENT_BYTES * e + g]) == atom - np.int64(groups[4 * g + 2])
            elif atom != TRUE_ATOM:
                holds = atom_holds(segment, block, atom, slots, simple, offset, codes, e)
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
    segment: OpenSegment, block: int, atom: int, slots: Matrix, simple: Atoms, offset: Int64s, codes: Int32s, e: int
) -> bool:
    """Return whether an atom of the block that belongs to no byte group holds for event e."""
    if atom == FALSE_ATOM:
        return False
    g, value = group_and_value(segment, block, atom)
    if g < segment.simple_groups:
        return np.int64(simple[e, g]) == atom
    return code_holds(segment, segment.groups[4 * g + 1], segment.groups[4 * g], value, slots, offset, codes, e)
