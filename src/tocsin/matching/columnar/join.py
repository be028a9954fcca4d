"""The join: rows of visited blocks against tiles of events, as bitmaps.

For a tile of up to 64 events of one block, a row's matches are the AND of the words of its atoms. Results wait in runs
(workspace.py), until emit.py writes them out event by event. Where a tile would cost more than testing its rows, a run says
that the block is still to be evaluated. Rows of a block that has filters may be passed event by event instead, into
sparse runs at once (join.py). 64 rows whose sketch holds for no event of the tile are skipped. Of a chunk of rows,
64 rows in which few bits are set for the whole tile go to the sparse runs, others to the bitmaps. Blocks with ranges in
bands (ranged.py) have tiles of 256 events.

Filtering: the rows of a block that an event passes, 32 at a time, and which of these it matches.

The layout of filters is in index/rows.py. What passes is tested atom by atom: few rows do.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.jit import helper, inlined, lean_kernel
from tocsin.index.layout import FALSE_ATOM, TRUE_ATOM, Bytes, Directory
from tocsin.index.open_segment import Atoms, Int32s, Int64s, OpenSegment, group_and_value, open_segment
from tocsin.index.ranges import CHUNK, PARTS
from tocsin.index.rows import EQUALITY_BYTES, EVENT_BYTES, FILTER_BYTES, FILTER_ROWS
from tocsin.matching.columnar.bits import ONE, Words, count_ones, count_zeros, rows_equal, rows_equal_twice, transpose
from tocsin.matching.columnar.events import EventMatrix, Narrow
from tocsin.matching.columnar.fill import EventTile, clear_tile, code_holds, expand_bytes, fill_tile, worth_a_tile
from tocsin.matching.columnar.ranged import (
    FEWEST_EVENTS,
    TILE_EVENTS,
    TILE_WORDS,
    RangedTile,
    and_bands,
    compare_ends,
    fill_bands,
)
from tocsin.matching.columnar.workspace import (
    CHUNK_ROWS,
    DIRECT,
    SPARSE,
    OpenWorkspace,
    add_run,
    group_runs,
    open_workspace,
)

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
def keep_matches(segment: OpenSegment, block: int, matrix: EventMatrix, pairs: Int32s, n: int) -> int:
    """Keep those of n pairs (event, row of the block) of which all atoms hold; return how many these are.

    The last atom is tested first: filters know the first ones.
    """
    stripe_row, first = segment.stripe_row, np.int64(segment.block_stripe[block])
    kept = 0
    for i in range(n):
        e, row, s = np.int64(pairs[2 * i]), np.int64(stripe_row[first]) + np.int64(pairs[2 * i + 1]), first
        while row >= stripe_row[s + 1]:
            s += 1
        holds = row_holds(segment, block, s, row, matrix, e)
        pairs[2 * kept], pairs[2 * kept + 1] = e, pairs[2 * i + 1]
        kept += holds
    return kept


@helper
def row_holds(segment: OpenSegment, block: int, stripe: int, row: int, matrix: EventMatrix, e: int) -> bool:
    """Return whether all atoms of a row hold for event e."""
    atoms, groups, byte_groups, narrow = segment.atoms, segment.groups, segment.byte_groups, matrix.narrow
    byte_end = np.int64(0)
    if byte_groups > 0 and len(narrow) > 0:
        byte_end = np.int64(groups[4 * byte_groups - 2] + groups[4 * byte_groups - 1])
    width = np.int64(segment.stripe_width[stripe])
    start = np.int64(segment.stripe_data[stripe]) + (row - np.int64(segment.stripe_row[stripe])) * width
    holds, z = True, start + width
    while holds and z > start:
        z -= 1
        atom = np.int64(atoms[z])
        if TRUE_ATOM < atom < byte_end:
            g = byte_group(groups, byte_groups, atom)
            holds = np.int64(narrow[EVENT_BYTES * e + g]) == atom - np.int64(groups[4 * g + 2])
        elif atom != TRUE_ATOM:
            holds = atom_holds(segment, block, atom, matrix, e)
    return holds


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
def atom_holds(segment: OpenSegment, block: int, atom: int, matrix: EventMatrix, e: int) -> bool:
    """Return whether an atom of the block that belongs to no byte group holds for event e."""
    if atom == FALSE_ATOM:
        return False
    g, value = group_and_value(segment, block, atom)
    if g < segment.simple_groups:
        return np.int64(matrix.simple[e, g]) == atom
    return code_holds(segment, segment.groups[4 * g + 1], segment.groups[4 * g], value, matrix, e)


# The join.


# Of 64 rows and 64 events, bits up to which these are listed one by one; all are, where a chunk has few.
SPARSE_BITS = 4

# Counters, in the order of WorkCounters.
VISITS, TILES, TILE_ROWS, DIRECT_ROWS, WORDS, FILTERED_ROWS = 0, 1, 2, 3, 4, 5

# What a join needed more of, when it stops early.
NEEDS_BITMAPS, NEEDS_SPARSE, NEEDS_RUNS = 1, 2, 3


class RowWords(NamedTuple):
    """Of a tile: the word of each atom, the word of each row of a chunk, and how many bits each 64 of these have."""

    words: Words
    results: Words
    totals: Int64s


@helper
def and_words(
    chunk: RowWords, first: int, atoms: Atoms, data: int, width: int, rows: int, sketches: Atoms, sketch: int
) -> int:
    """results[first + r] = AND of words[atom] over the atoms of row r; adds the bits of each 64 results to totals.

    Of 64 rows whose sketch holds for no event, the results are left as they are. `sketch` is that of the first results.
    Return how many rows were evaluated.
    Positions are unsigned: signed ones would be tested for being negative at every access.
    """
    words, results, totals = chunk.words, chunk.results, chunk.totals
    step, evaluated = np.uint64(width), 0
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    start, end = np.uint64(first), np.uint64(first + rows)
    while start < end:
        stop, total = min(end, (start | np.uint64(63)) + one), 0
        at, implied = (
            np.uint64(data) + (start - np.uint64(first)) * step,
            two * (np.uint64(sketch) + (start >> np.uint64(6))),
        )
        if words[sketches[implied]] & words[sketches[implied + one]] == np.uint64(0):
            start = stop
            continue
        if width == 2:
            for r in range(start, stop):
                word = words[atoms[at]] & words[atoms[at + one]]
                results[r] = word
                total += count_ones(word)
                at += step
        elif width == 3:
            for r in range(start, stop):
                word = words[atoms[at]] & words[atoms[at + one]] & words[atoms[at + two]]
                results[r] = word
                total += count_ones(word)
                at += step
        elif width == 4:
            for r in range(start, stop):
                word = words[atoms[at]] & words[atoms[at + one]] & words[atoms[at + two]] & words[atoms[at + three]]
                results[r] = word
                total += count_ones(word)
                at += step
        else:
            for r in range(start, stop):
                word = words[atoms[at]] & words[atoms[at + one]] & words[atoms[at + two]] & words[atoms[at + three]]
                word &= words[atoms[at + four]]
                for z in range(np.uint64(5), step):
                    word &= words[atoms[at + z]]
                results[r] = word
                total += count_ones(word)
                at += step
        totals[start >> np.uint64(6)] += total
        evaluated += np.int64(stop - start)
        start = stop
    return evaluated


@helper
def bitmap_stride(words: int) -> int:
    """Return the distance of two events' bitmaps; powers of two would fall into the same cache sets."""
    return words if words < 16 else (((words + 7) >> 3) | 1) << 3


@helper
def transpose_some(
    chunk: RowWords, limit: int, length: int, row: int, bitmaps: Words, position: int, rows: Int32s, first: int
) -> int:
    """Write the results of each 64 rows that have more bits than `limit` as a word for each event, and where those rows start.

    Bit r of word b of event e's bitmap = bit e of results[64 * b + r]; event e's starts at position + e * stride. Return
    the stride.
    """
    results, totals = chunk.results, chunk.totals
    dense = 0
    for b in range(length):
        dense += totals[b] > limit
    stride = bitmap_stride(dense)
    dense = 0
    for b in range(length):
        if totals[b] > limit:
            transpose(results, b << 6, bitmaps, position + dense, stride)
            rows[first + dense] = row + (b << 6)
            dense += 1
    return stride


@helper
def extract(results: Words, totals: Int64s, limit: int, length: int, pairs: Int32s, count: Int32s) -> None:
    """List the bits set in each 64 rows that have at most `limit` as pairs (event, row); count[e + 1] is the number of event e."""
    z = np.uint64(0)
    for b in range(np.uint64(length)):
        if totals[b] == 0 or totals[b] > limit:
            continue
        for r in range(b << np.uint64(6), (b + ONE) << np.uint64(6)):
            word = results[r]
            while word:
                e = count_zeros(word)
                word &= word - ONE
                pairs[z], pairs[z + ONE] = e, r
                count[np.uint64(e + 1)] += 1
                z += np.uint64(2)


@helper
def distribute(
    pairs: Int32s, total: int, place: Int32s, numbers: Int32s, row: int, sparse: Int32s, position: int
) -> None:
    """Write the number of each pair's row to its event's next place."""
    for z in range(np.uint64(0), np.uint64(2 * total), np.uint64(2)):
        e = np.uint64(pairs[z])
        sparse[np.uint64(position + place[e])] = numbers[np.uint64(row + pairs[z + ONE])]
        place[e] += 1


# Blocks with ranges in bands.


PAIRS_OF_A_CHUNK = 2_048  # of its 512 rows and 256 events, up to which these are listed one by one


@helper
def test_rest(segment: OpenSegment, block: int, row: int, matrix: EventMatrix, tile: RangedTile) -> None:
    """Clear the results of rows from `row` on, of a chunk, whose atoms do not all hold; left[part] are the rows to look at."""
    events, results, left = tile.events, tile.results, tile.left
    s = np.int64(segment.block_stripe[block])
    for part in range(PARTS):
        word = left[part]
        while word:
            r = 64 * part + count_zeros(word)
            word &= word - ONE
            while row + r >= segment.stripe_row[s + 1]:
                s += 1
            if segment.stripe_width[s] == 0:
                continue
            for q in range(TILE_WORDS):
                found = results[TILE_WORDS * r + q]
                while found:
                    e = count_zeros(found)
                    found &= found - ONE
                    event = np.int64(events[64 * q + e])
                    if not row_holds(segment, block, s, row + r, matrix, event):
                        results[TILE_WORDS * r + q] ^= ONE << np.uint64(e)


@helper
def list_pairs(results: Words, left: Words, row: int, pairs: Int32s, n: int, count: Int32s) -> int:
    """Append pairs (event of the tile, row + row of the chunk); count[e + 1] is the number of event e. Return how many there are."""
    z = np.uint64(2 * n)
    for part in range(PARTS):
        word = left[part]
        while word:
            r = 64 * part + count_zeros(word)
            word &= word - ONE
            for q in range(TILE_WORDS):
                found = results[np.uint64(TILE_WORDS * r + q)]
                while found:
                    e = 64 * q + count_zeros(found)
                    found &= found - ONE
                    pairs[z], pairs[z + ONE] = e, row + r
                    count[np.uint64(e + 1)] += 1
                    z += np.uint64(2)
    return np.int64(z >> ONE)


@helper
def join_ranged(
    segment: OpenSegment, block: int, numbers: Int32s, matrix: EventMatrix, first_event: int, i: int, m: int,
    work: OpenWorkspace,
) -> int:  # fmt: skip
    """Evaluate a block for visits i .. i + m - 1, at most 256; return 0, or what to have more of.

    needs[5], needs[6] and needs[7] are how much of bitmaps, sparse and runs is in use. Pairs of several chunks are put into
    the order of events together.
    """
    ranged, visits, pairs, bitmaps, sparse, runs = (
        work.ranged, work.visits, work.pairs, work.bitmaps, work.sparse, work.runs,
    )  # fmt: skip
    needs, used, slots = work.needs, work.needs[5:8], matrix.slots
    chunk_words, results, totals = RowWords(work.words, work.results, work.totals), work.results, work.totals
    events, count, left, words, found = ranged.events, ranged.count, ranged.left, ranged.words, ranged.results
    for z in range(m):
        events[z] = np.int64(visits[i + z] & np.uint64(0xFFFFFFFF))
    fill_bands(ranged, segment, slots, m)
    stripe_row, stripe, after = segment.stripe_row, segment.block_stripe[block], segment.block_stripe[block + 1]
    first, end = np.int64(stripe_row[stripe]), np.int64(stripe_row[after])
    with_atoms = segment.stripe_width[after - 1] > 0
    chunk, n = np.int64(segment.block_ranges[block]), np.int64(0)
    room = (len(pairs) >> 1) - PAIRS_OF_A_CHUNK
    count[:] = 0
    for row in range(first, end, CHUNK):
        and_bands(segment, chunk, words, found, m)
        compare_ends(segment, chunk, ranged, slots)
        if with_atoms:
            test_rest(segment, block, row, matrix, ranged)
        total = np.int64(0)
        for part in range(PARTS):
            word = left[part]
            while word:
                at = np.uint64(TILE_WORDS * (64 * part + count_zeros(word)))
                word &= word - ONE
                for q in range(np.uint64(TILE_WORDS)):
                    total += count_ones(found[at + q])
        if total <= PAIRS_OF_A_CHUNK:
            n = list_pairs(found, left, row - first, pairs, n, count)
        else:
            for q in range((m + 63) >> 6):
                dense = np.int64(0)
                for part in range(PARTS):
                    totals[part] = 0
                    for r in range(64 * part, 64 * part + 64):
                        results[r] = found[TILE_WORDS * r + q]
                        totals[part] += count_ones(results[r])
                    dense += totals[part] > 0
                if dense == 0:
                    continue
                if used[0] + 64 * dense + 64 > len(bitmaps):
                    needs[0] = 2 * len(bitmaps) + 1
                    return NEEDS_BITMAPS
                if used[1] + dense > len(sparse):
                    needs[1] = 2 * len(sparse) + 1
                    return NEEDS_SPARSE
                if used[2] + 64 > len(runs):
                    needs[2] = 2 * len(runs) + 1
                    return NEEDS_RUNS
                transpose_some(chunk_words, 0, PARTS, row, bitmaps, used[0], sparse, used[1])
                for e in range(min(64, m - 64 * q)):
                    used[2] = add_run(
                        runs, used[2], events[64 * q + e] - first_event, dense, used[1], used[0] + e * dense
                    )
                used[0] += 64 * dense
                used[1] += dense
        if n > room or row + CHUNK >= end:
            if used[1] + n + 8 > len(sparse):  # emission reads eight at a time
                needs[1] = 2 * len(sparse) + n
                return NEEDS_SPARSE
            if used[2] + m > len(runs):
                needs[2] = 2 * len(runs) + m
                return NEEDS_RUNS
            for e in range(m):
                if count[e + 1]:
                    used[2] = add_run(runs, used[2], events[e] - first_event, count[e + 1], SPARSE, used[1] + count[e])
                count[e + 1] += count[e]
            distribute(pairs, n, count, numbers, first, sparse, used[1])
            used[1] += n
            n = np.int64(0)
            count[:] = 0
        chunk += 1
    return 0


@lean_kernel
def join(
    buffer: Bytes, directory: Directory, numbers: Int32s, matrix: EventMatrix, first_event: int, last_event: int, n: int,
    places: Int64s,
) -> int:  # fmt: skip
    """Evaluate visits[:n], sorted by block, into runs, grouped by event; return 0, or what to have more of (`needs` says how much).

    for block, events in groupby(visits): for row in block: matches[row] = {e for e in events if all atoms hold}

    `numbers` has what is told of each row: the number of its subscription, or its id.
    """
    segment, work = open_segment(buffer, directory), open_workspace(places)
    simple, narrow, visits, needs, counters = matrix.simple, matrix.narrow, work.visits, work.needs, work.counters
    pairs, bitmaps, sparse, runs, tile = work.pairs, work.bitmaps, work.sparse, work.runs, work.tile
    words, results, totals = work.words, work.results, work.totals
    row_words = RowWords(words, results, totals)
    stripe_row, block_stripe, block_filter = segment.stripe_row, segment.block_stripe, segment.block_filter
    atoms, sketches = segment.atoms, segment.sketches
    filtering, told_by_bytes = len(narrow) > 0, simple.shape[0] == 0
    block_ranges, ranging = segment.block_ranges, len(segment.block_ranges) > 0
    # Bound the memory first, so that nothing below has to stop within a tile.
    need_bitmaps, need_sparse, need_runs = np.int64(64), np.int64(64), np.int64(64)
    i = 0
    while i < n:
        block, j = visits[i] >> np.uint64(32), i + 1
        while j < n and visits[j] >> np.uint64(32) == block:
            j += 1
        rows = np.int64(stripe_row[block_stripe[block + ONE]] - stripe_row[block_stripe[block]])
        chunks = rows // CHUNK_ROWS + 1
        if filtering and block_filter[block] >= 0 and worth_a_filter(min(64, j - i), rows):
            need_sparse += j - i  # a guess: how many match shows below
            need_runs += (j - i) * (rows // (len(pairs) >> 2) + 1) + 1
            i = j
        elif ranging and block_ranges[block] >= 0:
            need_runs += j - i  # at least: what is needed beyond shows below
            i = j
        while i < j:
            m = min(64, j - i)
            if worth_a_tile(m, rows):
                need_bitmaps += 64 * bitmap_stride((rows >> 6) + 1) + 64 * 9 * chunks
                need_sparse += rows + (rows >> 6) + 128  # numbers, and first rows of the words of bitmaps
                need_runs += 2 * m * chunks
            else:
                need_runs += m
            i += m
    needs[0], needs[1], needs[2] = need_bitmaps, need_sparse, need_runs
    if need_bitmaps > len(bitmaps):
        return NEEDS_BITMAPS
    if need_sparse > len(sparse):
        return NEEDS_SPARSE
    if need_runs > len(runs):
        return NEEDS_RUNS
    place = needs[3:5]
    events, limits, ranks, count, numbered = tile[0], tile[1], tile[2], tile[3], tile[4]
    for z in range(64):
        numbered[z] = z
    used_bitmaps, used_sparse, used_runs = np.int64(0), np.int64(0), np.int64(0)
    words[0] = np.uint64(0)
    i = 0
    while i < n:
        block, j = np.int64(visits[i] >> np.uint64(32)), i + 1
        while j < n and np.int64(visits[j] >> np.uint64(32)) == block:
            j += 1
        counters[VISITS] += j - i
        row = np.int64(stripe_row[block_stripe[block]])
        rows = np.int64(stripe_row[block_stripe[block + 1]]) - row
        # Few events of a block with filters: 32 rows at a time for each event, and no tile.
        if filtering and block_filter[block] >= 0 and worth_a_filter(min(64, j - i), rows):
            counters[FILTERED_ROWS] += rows * (j - i)
            place[0], place[1] = i, 0
            while place[0] < j:
                passed = list_passing(segment.filters, block_filter[block], rows, narrow, visits, j, pairs, place)
                if passed:
                    passed = keep_matches(segment, block, matrix, pairs, passed)
                if used_sparse + passed > len(sparse):
                    needs[1] = 2 * len(sparse) + passed
                    return NEEDS_SPARSE
                for z in range(0, 2 * passed, 2):
                    event = np.int64(pairs[z]) - first_event
                    sparse[used_sparse] = numbers[row + pairs[z + 1]]
                    used_sparse += 1
                    if z > 0 and pairs[z] == pairs[z - 2]:
                        runs[used_runs - 1, 1] += 1
                    else:
                        used_runs = add_run(runs, used_runs, event, 1, SPARSE, used_sparse - 1)
            i = j
        # Ranges in bands: tiles of 256 events, or event by event when they are told.
        while ranging and i < j and block_ranges[block] >= 0:
            m = min(TILE_EVENTS, j - i)
            if m >= FEWEST_EVENTS:
                counters[TILES] += 1
                counters[TILE_ROWS] += rows * ((m + 63) >> 6)
                needs[5], needs[6], needs[7] = used_bitmaps, used_sparse, used_runs
                short = join_ranged(segment, block, numbers, matrix, first_event, i, m, work)
                if short:
                    return short
                used_bitmaps, used_sparse, used_runs = needs[5], needs[6], needs[7]
            else:
                if used_runs + m > len(runs):
                    needs[2] = 2 * len(runs) + m
                    return NEEDS_RUNS
                for z in range(i, i + m):
                    event = np.int64(visits[z] & np.uint64(0xFFFFFFFF)) - first_event
                    used_runs = add_run(runs, used_runs, event, rows, DIRECT, block)
            i += m
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
            # Where bytes tell the atoms of events, those of a tile are written out for it alone.
            own_atoms, own_places = simple, events
            if told_by_bytes:
                own_atoms, own_places = work.tile_atoms, numbered
                expand_bytes(segment, narrow, events, m, work.tile_atoms)
            together = EventTile(events, m, own_atoms, own_places, limits, ranks)
            fill_tile(words, segment, block, matrix, together)
            counters[TILES] += 1
            s, sketch = np.int64(block_stripe[block]), np.int64(segment.block_sketch[block])
            row, end = np.int64(stripe_row[s]), np.int64(stripe_row[block_stripe[block + 1]])
            while row < end:
                # The rows of a block are one sequence, whatever their widths: results of all stripes go together.
                chunk = min(end - row, CHUNK_ROWS)
                done, length = 0, (chunk + 63) >> 6
                totals[:length] = 0
                while done < chunk:
                    width, left = np.int64(segment.stripe_width[s]), np.int64(stripe_row[s + 1]) - row - done
                    part = min(left, chunk - done)
                    data = np.int64(segment.stripe_data[s]) + (row + done - np.int64(stripe_row[s])) * width
                    evaluated = and_words(row_words, done, atoms, data, width, part, sketches, sketch)
                    counters[TILE_ROWS] += evaluated
                    counters[WORDS] += evaluated * width
                    done += part
                    s += part == left
                total, few, dense = 0, 0, 0
                for b in range(length):
                    total += totals[b]
                limit = 64 * 64 if total <= chunk else SPARSE_BITS
                for b in range(length):
                    dense += totals[b] > limit
                    few += totals[b] if totals[b] <= limit else 0
                results[chunk : length << 6] = np.uint64(0)
                # What few events match is listed by event at once; the rest waits as bitmaps, one of each event.
                if few:
                    count[:] = 0
                    extract(results, totals, limit, length, pairs, count)
                    for e in range(m):
                        if count[e + 1]:
                            used_runs = add_run(
                                runs, used_runs, events[e] - first_event, count[e + 1], SPARSE, used_sparse + count[e]
                            )
                        count[e + 1] += count[e]
                    distribute(pairs, few, count, numbers, row, sparse, used_sparse)
                    used_sparse += few
                if dense:
                    stride = transpose_some(row_words, limit, length, row, bitmaps, used_bitmaps, sparse, used_sparse)
                    for e in range(m):
                        used_runs = add_run(
                            runs, used_runs, events[e] - first_event, dense, used_sparse, used_bitmaps + e * stride
                        )
                    used_bitmaps += 64 * stride
                    used_sparse += dense
                row += chunk
                sketch += length
            clear_tile(words, segment, block, matrix, together)
            i += m
    group_runs(runs, used_runs, last_event - first_event, work.run_start, work.grouped)
    return 0
