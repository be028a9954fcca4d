"""The join: rows of visited blocks against tiles of events, as bitmaps.

For a tile of up to 64 events of one block, a row's matches are the AND of the words of its atoms. Results wait in
runs, one list of runs per event, until emit.py writes them out event by event. A run is one of
    bitmap   bits of consecutive rows      (length in words, first row, position in `bitmaps`)
    sparse   subscription numbers          (length, -1, position in `sparse`)
    direct   a block still to be evaluated (-, -2, block), where a tile would cost more than testing its rows
runs[r] = next run of the same event (-1: none), length, first row or mark, position.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, inlined, kernel
from tocsin.index.layout import (
    EQ,
    SCALARS,
    Bytes,
    Directory,
    Scalar,
    Section,
    int32_section,
    uint8_section,
    uint16_section,
)
from tocsin.index.rows import SMALL_BLOCK
from tocsin.matching.columnar.bits import ONE, Words, count_ones, count_zeros, transpose
from tocsin.matching.columnar.events import Matrix
from tocsin.matching.columnar.fill import (
    Int32s,
    Int64s,
    clear_dense_words,
    clear_simple_words,
    fill_dense_words,
    fill_local_words,
    fill_simple_words,
    tile_mask,
)
from tocsin.matching.columnar.workspace import CHUNK_ROWS

Runs = npt.NDArray[np.int32]
SPARSE, DIRECT = -1, -2

# Counters, in the order of WorkCounters.
VISITS, TILES, TILE_ROWS, DIRECT_ROWS, WORDS = 0, 1, 2, 3, 4

# What a join needed more of, when it stops early.
NEEDS_BITMAPS, NEEDS_SPARSE, NEEDS_RUNS = 1, 2, 3


@helper
def and_words(results: Words, words: Words, atoms: npt.NDArray[np.uint16], data: int, width: int, rows: int) -> int:
    """results[r] = AND of words[atom] over the atoms of row r; return the number of bits set in all results."""
    total = 0
    if width == 2:
        for r in range(rows):
            word = words[atoms[data + 2 * r]] & words[atoms[data + 2 * r + 1]]
            results[r] = word
            total += count_ones(word)
    elif width == 3:
        for r in range(rows):
            word = words[atoms[data + 3 * r]] & words[atoms[data + 3 * r + 1]] & words[atoms[data + 3 * r + 2]]
            results[r] = word
            total += count_ones(word)
    elif width == 4:
        for r in range(rows):
            at = data + 4 * r
            word = words[atoms[at]] & words[atoms[at + 1]] & words[atoms[at + 2]] & words[atoms[at + 3]]
            results[r] = word
            total += count_ones(word)
    else:
        for r in range(rows):
            at = data + width * r
            word = words[atoms[at]] & words[atoms[at + 1]] & words[atoms[at + 2]] & words[atoms[at + 3]]
            for z in range(4, width):
                word &= words[atoms[at + z]]
            results[r] = word
            total += count_ones(word)
    return total


@helper
def transpose_all(results: Words, length: int, bitmaps: Words, position: int, stride: int) -> None:
    """Bit r of word b of event e's bitmap = bit e of results[64 * b + r]; event e's starts at position + e * stride."""
    for b in range(length):
        transpose(results, b << 6, bitmaps, position + b, stride)


@inlined
def add_run(
    runs: Runs, n: int, heads: Int32s, tails: Int32s, event: int, length: int, row: int, position: int
) -> int:
    """Append run n to the list of an event (counted from the block's first); return the number of runs."""
    runs[n, 0], runs[n, 1], runs[n, 2], runs[n, 3] = -1, length, row, position
    if heads[event] < 0:
        heads[event] = n
    else:
        runs[tails[event], 0] = n
    tails[event] = n
    return n + 1


@helper
def bitmap_stride(words: int) -> int:
    """Return the distance of two events' bitmaps; powers of two would fall into the same cache sets."""
    return words if words < 16 else (((words + 7) >> 3) | 1) << 3


@helper
def worth_a_tile(events: int, rows: int) -> bool:
    """Return whether a tile costs less than testing each row for each event."""
    return rows >= SMALL_BLOCK and events >= 3 and events * rows > 300


@kernel
def join(
    buffer: Bytes, directory: Directory, slots: Matrix, offset: Int64s, codes: Int32s, first_event: int,
    last_event: int, visits: Words, n: int, words: Words, results: Words, pairs: Int32s, bitmaps: Words,
    sparse: Int32s, runs: Runs, list_ends: npt.NDArray[np.int32], counters: Int64s, needs: Int64s,
) -> int:  # fmt: skip
    """Evaluate visits[:n], sorted by block, into runs; return 0, or what to have more of (`needs` says how much).

    for block, events in groupby(visits): for row in block: matches[row] = {e for e in events if all atoms hold}
    """
    groups = int32_section(buffer, directory, Section.GROUPS)
    columns = int32_section(buffer, directory, Section.COLUMNS)
    numbers = int32_section(buffer, directory, Section.NUMBERS)
    atoms = uint16_section(buffer, directory, Section.ATOMS)
    stripe_row = int32_section(buffer, directory, Section.STRIPE_ROW)
    stripe_data = int32_section(buffer, directory, Section.STRIPE_DATA)
    stripe_width = uint8_section(buffer, directory, Section.STRIPE_WIDTH)
    block_stripe = int32_section(buffer, directory, Section.BLOCK_STRIPE)
    block_local = int32_section(buffer, directory, Section.BLOCK_LOCAL)
    block_dense = int32_section(buffer, directory, Section.BLOCK_DENSE)
    local_group = uint16_section(buffer, directory, Section.LOCAL_GROUP)
    local_start = int32_section(buffer, directory, Section.LOCAL_START)
    local_value = int32_section(buffer, directory, Section.LOCAL_VALUE)
    dense_list = uint16_section(buffer, directory, Section.DENSE_LIST)
    generic = int32_section(buffer, directory, Section.GENERIC)
    set_offset = int32_section(buffer, directory, Section.SET_OFFSET)
    set_low = int32_section(buffer, directory, Section.SET_LOW)
    set_high = int32_section(buffer, directory, Section.SET_HIGH)
    dense_atoms = directory[SCALARS + Scalar.DENSE_ATOMS]
    heads, tails = list_ends[0], list_ends[1]
    heads[: last_event - first_event] = -1
    # Bound the memory first, so that nothing below has to stop halfway.
    need_bitmaps, need_sparse, need_runs = np.int64(64), np.int64(64), np.int64(64)
    i = 0
    while i < n:
        block, j = visits[i] >> np.uint64(32), i + 1
        while j < n and visits[j] >> np.uint64(32) == block:
            j += 1
        rows = np.int64(stripe_row[block_stripe[block + ONE]] - stripe_row[block_stripe[block]])
        stripes = np.int64(block_stripe[block + ONE] - block_stripe[block]) + rows // CHUNK_ROWS
        while i < j:
            m = min(64, j - i)
            if worth_a_tile(m, rows):
                need_bitmaps += 64 * bitmap_stride((rows >> 6) + 1) + 64 * 9 * stripes
                need_sparse += rows
                need_runs += m * stripes
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
    count, events = np.zeros(65, np.int64), np.zeros(64, np.int32)
    simple = directory[SCALARS + Scalar.SIMPLE_GROUPS]
    used_bitmaps, used_sparse, used_runs = np.int64(0), np.int64(0), np.int64(0)
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
                    used_runs = add_run(runs, used_runs, heads, tails, event, 0, DIRECT, block)
                i += m
                continue
            words[1] = tile_mask(m)
            for z in range(m):
                events[z] = np.int64(visits[i + z] & np.uint64(0xFFFFFFFF))
            for z in range(block_dense[block], block_dense[block + 1]):
                g = np.int64(dense_list[z])
                if g < simple:
                    slot, base = columns[4 * groups[4 * g] + 1], groups[4 * g + 2] + 1
                    fill_simple_words(words, slots, slot, base, events, m)
                else:
                    fill_dense_words(words, groups[4 * g : 4 * g + 4], columns, slots, offset, codes, events, m)
            first_value = local_start[block_local[block]]
            for z in range(block_local[block], block_local[block + 1]):
                g = np.int64(local_group[z])
                fill_local_words(
                    words, dense_atoms + local_start[z] - first_value, groups[4 * g + 1], groups[4 * g], local_value,
                    np.int64(local_start[z]), np.int64(local_start[z + 1] - local_start[z]), columns, slots, offset,
                    codes, generic, set_offset, set_low, set_high, events, m,
                )  # fmt: skip
            counters[TILES] += 1
            counters[TILE_ROWS] += rows
            for s in range(block_stripe[block], block_stripe[block + 1]):
                width, data = np.int64(stripe_width[s]), np.int64(stripe_data[s])
                row, end = np.int64(stripe_row[s]), np.int64(stripe_row[s + 1])
                counters[WORDS] += (end - row) * width
                while row < end:
                    chunk = min(end - row, CHUNK_ROWS)
                    total = and_words(results, words, atoms, data, width, chunk)
                    if total == 0:
                        pass
                    elif 4 * total <= chunk:
                        count[:] = 0
                        z = 0
                        for r in range(chunk):
                            word = results[r]
                            while word:
                                e = count_zeros(word)
                                word &= word - ONE
                                pairs[2 * z], pairs[2 * z + 1] = e, r
                                count[e + 1] += 1
                                z += 1
                        for e in range(m):
                            if count[e + 1]:
                                event = events[e] - first_event
                                used_runs = add_run(
                                    runs, used_runs, heads, tails, event, count[e + 1], SPARSE, used_sparse + count[e]
                                )
                            count[e + 1] += count[e]
                        for y in range(z):
                            e = pairs[2 * y]
                            sparse[used_sparse + count[e]] = numbers[row + pairs[2 * y + 1]]
                            count[e] += 1
                        used_sparse += z
                    else:
                        length = (chunk + 63) >> 6
                        results[chunk : length << 6] = np.uint64(0)
                        stride = bitmap_stride(length)
                        transpose_all(results, length, bitmaps, used_bitmaps, stride)
                        for e in range(m):
                            event = events[e] - first_event
                            used_runs = add_run(
                                runs, used_runs, heads, tails, event, length, row, used_bitmaps + e * stride
                            )
                        used_bitmaps += 64 * stride
                    row += chunk
                    data += chunk * width
            for z in range(block_dense[block], block_dense[block + 1]):
                g = np.int64(dense_list[z])
                if g < simple:
                    slot, base = columns[4 * groups[4 * g] + 1], groups[4 * g + 2] + 1
                    clear_simple_words(words, slots, slot, base, events, m)
                elif groups[4 * g + 1] == EQ:
                    clear_dense_words(words, groups[4 * g : 4 * g + 4], columns, slots, offset, codes, events, m)
            i += m
    return 0
