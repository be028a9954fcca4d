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
from tocsin.index.rows import SMALL_BLOCK
from tocsin.matching.columnar.bits import Words
from tocsin.matching.columnar.events import Matrix
from tocsin.matching.columnar.fill import (
    Atoms,
    Int32s,
    Int64s,
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
def listed_after(block_dense: Int32s, dense_list: Atoms, block: int, all_simple: int) -> int:
    """Return from where on the groups of a block's list are filled one by one.

    Simple groups come first in the list. Where a block uses most of them, filling all is cheapest: then, after them.
    """
    first, used = np.int64(block_dense[block]), np.int64(0)
    while first + used < block_dense[block + 1] and dense_list[first + used] < all_simple:
        used += 1
    return first + used if 2 * used >= all_simple else first


@helper
def fill_tile(
    words: Words, first_dense: int, groups: Int32s, columns: Int32s, block_dense: Int32s,
    dense_list: Atoms, block_local: Int32s, local_group: Atoms, local_start: Int32s, local_value: Int32s,
    generic: Int32s, set_offset: Int32s, set_low: Int32s, set_high: Int32s, dense_atoms: int, all_simple: int,
    slots: Matrix, simple: Atoms, places: Int32s, offset: Int64s, codes: Int32s, block: int, events: Int32s, m: int,
    limits: Int32s, ranks: Int32s,
) -> None:  # fmt: skip
    """Fill the words of the atoms of a block; first_dense is listed_after of it.

    simple[places[i]] has the atoms of event i of the tile: the events' own, or those of the tile alone.
    """
    words[1] = tile_mask(m)
    if first_dense > block_dense[block]:
        fill_simple_words(words, simple, places, m, all_simple)
    for z in range(first_dense, block_dense[block + 1]):
        g = np.int64(dense_list[z])
        if g < all_simple:
            fill_some_simple_words(words, simple, g, places, m)
        else:
            fill_dense_words(words, groups[4 * g : 4 * g + 4], columns, slots, offset, codes, events, m)
    first_value = local_start[block_local[block]]
    for z in range(block_local[block], block_local[block + 1]):
        g = np.int64(local_group[z])
        fill_local_words(
            words, dense_atoms + local_start[z] - first_value, groups[4 * g + 1], groups[4 * g], local_value,
            np.int64(local_start[z]), np.int64(local_start[z + 1] - local_start[z]), columns, slots, offset, codes,
            generic, set_offset, set_low, set_high, events, m, limits, ranks,
        )  # fmt: skip


@helper
def clear_tile(
    words: Words, first_dense: int, groups: Int32s, columns: Int32s, block_dense: Int32s,
    dense_list: Atoms, all_simple: int, slots: Matrix, simple: Atoms, places: Int32s, offset: Int64s, codes: Int32s,
    block: int, events: Int32s, m: int,
) -> None:  # fmt: skip
    """Zero what fill_tile set in groups of equalities."""
    if first_dense > block_dense[block]:
        clear_simple_words(words, simple, places, m, all_simple)
    for z in range(first_dense, block_dense[block + 1]):
        g = np.int64(dense_list[z])
        if g < all_simple:
            clear_some_simple_words(words, simple, g, places, m)
        elif groups[4 * g + 1] == EQ:
            clear_dense_words(words, groups[4 * g : 4 * g + 4], columns, slots, offset, codes, events, m)
