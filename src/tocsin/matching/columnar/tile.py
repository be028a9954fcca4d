"""Tiles: the words of all atoms of a block, for up to 64 events that visit it.

What the join (join.py) and counting (count.py) begin and end a tile with. Words of equalities are all zero between
tiles; of a tile, only those are set, and cleared, that its events satisfy.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np

from tocsin.index.jit import helper
from tocsin.index.layout import EQ
from tocsin.index.open_segment import Atoms, Int32s, Int64s, OpenSegment
from tocsin.index.rows import SMALL_BLOCK
from tocsin.matching.columnar.bits import Words
from tocsin.matching.columnar.events import Matrix
from tocsin.matching.columnar.fill import (
    clear_dense_words,
    clear_simple_words,
    clear_some_simple_words,
    fill_dense_words,
    fill_local_words,
    fill_simple_words,
    fill_some_simple_words,
    tile_mask,
)


@helper
def worth_a_tile(events: int, rows: int) -> bool:
    """Return whether a tile costs less than testing each row for each event."""
    return rows >= SMALL_BLOCK and events >= 3 and events * rows > 300


@helper
def listed_after(segment: OpenSegment, block: int) -> int:
    """Return from where on the groups of a block's list are filled one by one.

    Simple groups come first in the list. Where a block uses most of them, filling all is cheapest: then, after them.
    """
    first, used = np.int64(segment.block_dense[block]), np.int64(0)
    while first + used < segment.block_dense[block + 1] and segment.dense_list[first + used] < segment.simple_groups:
        used += 1
    return first + used if 2 * used >= segment.simple_groups else first


@helper
def fill_tile(
    words: Words, segment: OpenSegment, block: int, slots: Matrix, simple: Atoms, places: Int32s, offset: Int64s,
    codes: Int32s, events: Int32s, m: int, limits: Int32s, ranks: Int32s,
) -> None:  # fmt: skip
    """Fill the words of the atoms of a block.

    simple[places[i]] has the atoms of event i of the tile: the events' own, or those of the tile alone.
    """
    first_dense = listed_after(segment, block)
    words[1] = tile_mask(m)
    if first_dense > segment.block_dense[block]:
        fill_simple_words(words, simple, places, m, segment.simple_groups)
    for z in range(first_dense, segment.block_dense[block + 1]):
        g = np.int64(segment.dense_list[z])
        if g < segment.simple_groups:
            fill_some_simple_words(words, simple, g, places, m)
        else:
            fill_dense_words(words, segment, g, slots, offset, codes, events, m)
    first_value = segment.local_start[segment.block_local[block]]
    for local in range(segment.block_local[block], segment.block_local[block + 1]):
        first = segment.dense_atoms + segment.local_start[local] - first_value
        fill_local_words(words, first, segment, local, slots, offset, codes, events, m, limits, ranks)


@helper
def clear_tile(
    words: Words, segment: OpenSegment, block: int, slots: Matrix, simple: Atoms, places: Int32s, offset: Int64s,
    codes: Int32s, events: Int32s, m: int,
) -> None:  # fmt: skip
    """Zero what fill_tile set in groups of equalities."""
    first_dense = listed_after(segment, block)
    if first_dense > segment.block_dense[block]:
        clear_simple_words(words, simple, places, m, segment.simple_groups)
    for z in range(first_dense, segment.block_dense[block + 1]):
        g = np.int64(segment.dense_list[z])
        if g < segment.simple_groups:
            clear_some_simple_words(words, simple, g, places, m)
        elif segment.groups[4 * g + 1] == EQ:
            clear_dense_words(words, segment, g, slots, offset, codes, events, m)
