"""Counting: how many rows each event matches, without telling which.

As in the join, a row's matches of a tile are the AND of the words of its atoms. The words are added up bit by bit: bit e
of planes[k] is bit k of the count of event e, and carry-save adders take 16 words at a time, some four operations a word.
No bitmap is written, turned or decoded, so that counting takes a fraction of the time of matching, and no memory.
Only where every row is a subscription of its own, and live: what needs finishing (emit.py) is matched, then counted, and
so are segments with ranges in bands (ranged.py).
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np

from tocsin.index.jit import helper, inlined, lean_kernel
from tocsin.index.layout import TRUE_ATOM, Bytes, Directory
from tocsin.index.open_segment import Atoms, Int32s, Int64s, open_segment
from tocsin.matching.columnar.bits import ONE, Numbers, Words
from tocsin.matching.columnar.emit import append_block
from tocsin.matching.columnar.events import EventMatrix
from tocsin.matching.columnar.fill import (
    EventTile,
    clear_dense_truth,
    clear_tile,
    fill_dense_truth,
    fill_tile,
    set_simple_truth,
    worth_a_tile,
)
from tocsin.matching.columnar.join import TILE_ROWS, TILES, VISITS, WORDS
from tocsin.matching.columnar.ranged import EventScratch
from tocsin.matching.columnar.workspace import (
    DIRECT,
    PLANES,
    add_run,
    group_runs,
    open_workspace,
)

ROWS_AT_ONCE = 1024  # whose words stay in the first cache between being made and being added


@helper
def and_into(results: Words, first: int, words: Words, atoms: Atoms, data: int, width: int, rows: int) -> None:
    """results[first + r] = AND of words[atom] over the atoms of row r."""
    at, step = np.uint64(data), np.uint64(width)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    start, end = np.uint64(first), np.uint64(first + rows)
    if width == 2:
        for r in range(start, end):
            results[r] = words[atoms[at]] & words[atoms[at + one]]
            at += step
    elif width == 3:
        for r in range(start, end):
            results[r] = words[atoms[at]] & words[atoms[at + one]] & words[atoms[at + two]]
            at += step
    elif width == 4:
        for r in range(start, end):
            results[r] = words[atoms[at]] & words[atoms[at + one]] & words[atoms[at + two]] & words[atoms[at + three]]
            at += step
    else:
        for r in range(start, end):
            word = words[atoms[at]] & words[atoms[at + one]] & words[atoms[at + two]] & words[atoms[at + three]]
            for z in range(four, step):
                word &= words[atoms[at + z]]
            results[r] = word
            at += step


@inlined
def sum_of(a: np.uint64, b: np.uint64, c: np.uint64) -> np.uint64:
    """Return the low bits of a + b + c, bit by bit."""
    return a ^ b ^ c


@inlined
def carry_of(a: np.uint64, b: np.uint64, c: np.uint64) -> np.uint64:
    """Return the high bits of a + b + c, bit by bit."""
    return (a & b) | ((a ^ b) & c)


@helper
def add_words(results: Words, rows: int, planes: Words) -> None:
    """Add results[:rows] to the counts; results up to the next multiple of 16 are set to zero."""
    results[rows : (rows + 15) // 16 * 16] = np.uint64(0)
    ones, twos, fours, eights = planes[0], planes[1], planes[2], planes[3]
    for at in range(np.uint64(0), np.uint64(rows), np.uint64(16)):
        eight_a, four_a, two_a = np.uint64(0), np.uint64(0), np.uint64(0)
        for half in range(np.uint64(2)):
            for quarter in range(np.uint64(2)):
                w = at + half * np.uint64(8) + quarter * np.uint64(4)
                a, b = results[w], results[w + ONE]
                two_a = carry_of(ones, a, b)
                ones = sum_of(ones, a, b)
                a, b = results[w + np.uint64(2)], results[w + np.uint64(3)]
                two_b = carry_of(ones, a, b)
                ones = sum_of(ones, a, b)
                four_b = carry_of(twos, two_a, two_b)
                twos = sum_of(twos, two_a, two_b)
                if quarter == 0:
                    four_a = four_b
                else:
                    eight_b = carry_of(fours, four_a, four_b)
                    fours = sum_of(fours, four_a, four_b)
                    if half == 0:
                        eight_a = eight_b
                    else:
                        carry = carry_of(eights, eight_a, eight_b)
                        eights = sum_of(eights, eight_a, eight_b)
                        k = np.uint64(4)
                        while carry:
                            left = planes[k] & carry
                            planes[k] ^= carry
                            carry = left
                            k += ONE
    planes[0], planes[1], planes[2], planes[3] = ones, twos, fours, eights


@helper
def take_counts(planes: Words, rows: int, events: Int32s, m: int, first_event: int, counts: Int64s) -> None:
    """Add the counts of a tile of so many rows to those of its events, and set the planes to zero."""
    for k in range(np.uint64(PLANES)):
        if rows >> k == 0:
            break
        plane = planes[k]
        for e in range(np.uint64(m)):
            counts[events[e] - first_event] += np.int64(((plane >> e) & ONE) << k)
        planes[k] = np.uint64(0)


@lean_kernel
def count(
    buffer: Bytes, directory: Directory, numbers: Numbers, matrix: EventMatrix, first_event: int, last_event: int, n: int,
    places: Int64s,
) -> None:  # fmt: skip
    """Write how many rows each event matches to offset; visits[:n] are sorted by block, and runs and grouped have room for n.

    `out` has room for the numbers of the largest block, which are written where rows are tested one by one.
    """
    segment, work = open_segment(buffer, directory), open_workspace(places)
    words, results, runs, planes, truth = work.words, work.results, work.runs, work.planes, work.truth
    visits, counts, counters, tile = work.visits, work.offset, work.counters, work.tile
    stripe_row, block_stripe, sketches = segment.stripe_row, segment.block_stripe, segment.sketches
    counts[: last_event - first_event] = 0
    events, limits, ranks = tile[0], tile[1], tile[2]
    used_runs = np.int64(0)
    words[0] = np.uint64(0)
    i = 0
    while i < n:
        block, j = np.int64(visits[i] >> np.uint64(32)), i + 1
        while j < n and np.int64(visits[j] >> np.uint64(32)) == block:
            j += 1
        counters[VISITS] += j - i
        rows = np.int64(stripe_row[block_stripe[block + 1]] - stripe_row[block_stripe[block]])
        while i < j:
            m = min(64, j - i)
            if not worth_a_tile(m, rows):
                for z in range(i, i + m):
                    event = np.int64(visits[z] & np.uint64(0xFFFFFFFF)) - first_event
                    used_runs = add_run(runs, used_runs, event, rows, DIRECT, block)
                i += m
                continue
            for z in range(m):
                events[z] = np.int64(visits[i + z] & np.uint64(0xFFFFFFFF))
            together = EventTile(events, m, matrix.simple, events, limits, ranks)
            fill_tile(words, segment, block, matrix, together)
            counters[TILES] += 1
            block_row, filled = np.int64(stripe_row[block_stripe[block]]), 0
            for s in range(block_stripe[block], block_stripe[block + 1]):
                width, row, end = (
                    np.int64(segment.stripe_width[s]),
                    np.int64(stripe_row[s]),
                    np.int64(stripe_row[s + 1]),
                )
                data = np.int64(segment.stripe_data[s]) - row * width
                while row < end:
                    group = (row - block_row) >> 6
                    stop = min(end, block_row + ((group + 1) << 6))
                    implied = np.uint64(2 * (segment.block_sketch[block] + group))
                    if words[sketches[implied]] & words[sketches[implied + ONE]]:
                        and_into(results, filled, words, segment.atoms, data + row * width, width, stop - row)
                        counters[TILE_ROWS] += stop - row
                        counters[WORDS] += (stop - row) * width
                        filled += stop - row
                        if filled >= ROWS_AT_ONCE:
                            add_words(results, filled, planes)
                            filled = 0
                    row = stop
            add_words(results, filled, planes)
            take_counts(planes, rows, events, m, first_event, counts)
            clear_tile(words, segment, block, matrix, together)
            i += m
    group_runs(runs, used_runs, last_event - first_event, work.run_start, work.grouped)
    scratch = EventScratch(truth, work.bands, work.out, counters, work.ranged.left)
    truth[TRUE_ATOM] = 1
    for e in range(first_event, last_event):
        run, end = np.int64(work.run_start[e - first_event]), np.int64(work.run_start[e - first_event + 1])
        if run == end:
            continue
        set_simple_truth(truth, segment, matrix, e, 1)
        fill_dense_truth(truth, segment, matrix, e)
        while run < end:
            block = np.int64(work.grouped[run, 3])
            counts[e - first_event] += append_block(segment, numbers, matrix, e, block, scratch, np.int64(0))
            run += 1
        set_simple_truth(truth, segment, matrix, e, 0)
        clear_dense_truth(truth, segment, matrix, e)
