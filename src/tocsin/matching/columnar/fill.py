"""Filling: which atoms hold, for a tile of up to 64 events (a word per atom) or for one event (a byte per atom).

Dense atoms come first: atom 0 is FALSE, atom 1 is TRUE, and the atom of value v in a dense group is first + 1 + v
(first + 0 takes the events that lack the column, so that no store needs a branch). The local atoms of a block follow,
in ascending order within each local group. The words and bytes of dense EQ groups are all zero between uses.

Tiles: the words of all atoms of a block, for up to 64 events that visit it.

What the join (join.py) and counting (count.py) begin and end a tile with. Words of equalities are all zero between
tiles; of a tile, only those are set, and cleared, that its events satisfy.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import PredicateKind
from tocsin.index.jit import helper, inlined
from tocsin.index.layout import EQ, GE, GENERIC, LE, NE
from tocsin.index.open_segment import Atoms, Int32s, OpenSegment
from tocsin.index.rows import EVENT_BYTES, SMALL_BLOCK
from tocsin.matching.columnar.bits import ALL, ONE, Words
from tocsin.matching.columnar.events import EventMatrix, Narrow
from tocsin.matching.columnar.probe import count_at_most, rank_all

Truth = npt.NDArray[np.uint8]

SOME_IN, SOME_OF, NONE_OF = int(PredicateKind.SOME_IN), int(PredicateKind.SOME_OF), int(PredicateKind.NONE_OF)
PRESENT, ABSENT = int(PredicateKind.PRESENT), int(PredicateKind.ABSENT)


class EventTile(NamedTuple):
    """Up to 64 events of a batch that visit a block together; atoms[places[i]] has the atoms of simple groups of event i.

    These are the events' own, or made for the tile alone. `limits` and `ranks` are scratch memory.
    """

    events: Int32s
    size: int
    atoms: Atoms
    places: Int32s
    limits: Int32s
    ranks: Int32s


@helper
def generic_holds(segment: OpenSegment, g: int, matrix: EventMatrix, e: int) -> bool:
    """Return whether generic predicate g holds for event e, by the meaning in compile/table.py."""
    slots, offset, codes = matrix.slots, matrix.offset, matrix.codes
    generic, columns, set_offset, set_low = segment.generic, segment.columns, segment.set_offset, segment.set_low
    column, kind, low, high = generic[4 * g], generic[4 * g + 1], generic[4 * g + 2], generic[4 * g + 3]
    slot, multiple = columns[4 * column + 1], columns[4 * column + 2]
    present = slots[e, slot] >= 0 if multiple < 0 else slots[e, slot + 2] != 0
    if kind == PRESENT:
        return present
    if kind == ABSENT:
        return not present
    if not present:
        return False
    some = False
    first, last = (0, 1) if multiple < 0 else (offset[multiple, e], offset[multiple, e + 1])
    for i in range(first, last):
        code = slots[e, slot] if multiple < 0 else codes[i]
        if kind < SOME_OF:
            some = low <= code <= high
        else:
            a = np.int64(set_offset[low])
            at = a + count_at_most(set_low, a, np.int64(set_offset[low + 1]) - a, code) - 1
            some = at >= a and code <= segment.set_high[at]
        if some:
            break
    return some == (kind == SOME_IN or kind == SOME_OF)


@helper
def fill_simple_words(words: Words, simple: Atoms, events: Int32s, m: int, count: int) -> None:
    """Fill the words of all simple groups."""
    bit = ONE
    for i in range(np.uint64(m)):
        e = np.uint64(events[i])
        for g in range(np.uint64(count)):
            words[simple[e, g]] |= bit
        bit <<= ONE


@helper
def clear_simple_words(words: Words, simple: Atoms, events: Int32s, m: int, count: int) -> None:
    """Zero what fill_simple_words set."""
    for i in range(np.uint64(m)):
        e = np.uint64(events[i])
        for g in range(np.uint64(count)):
            words[simple[e, g]] = np.uint64(0)


@inlined
def fill_some_simple_words(words: Words, simple: Atoms, g: int, events: Int32s, m: int) -> None:
    """Fill the words of one simple group."""
    bit = ONE
    for i in range(np.uint64(m)):
        words[simple[np.uint64(events[i]), g]] |= bit
        bit <<= ONE


@inlined
def clear_some_simple_words(words: Words, simple: Atoms, g: int, events: Int32s, m: int) -> None:
    """Zero what fill_some_simple_words set."""
    for i in range(np.uint64(m)):
        words[simple[np.uint64(events[i]), g]] = np.uint64(0)


@helper
def expand_bytes(segment: OpenSegment, narrow: Narrow, events: Int32s, m: int, atoms: Atoms) -> None:
    """atoms[i, g] = the atom of simple group g that event i of a tile satisfies, from its bytes."""
    groups, count = segment.groups, segment.simple_groups
    for i in range(np.uint64(m)):
        start = np.uint64(EVENT_BYTES) * np.uint64(events[i])
        for g in range(np.uint64(count)):
            atoms[i, g] = np.uint16(groups[np.uint64(4) * g + np.uint64(2)]) + np.uint16(narrow[start + g])


@inlined
def fill_dense_words(words: Words, segment: OpenSegment, g: int, matrix: EventMatrix, events: Int32s, m: int) -> None:
    """Fill the words of one dense group: bit i of its atom's word says whether event i of the tile satisfies it."""
    columns, group = segment.columns, segment.groups[4 * g : 4 * g + 4]
    slots, offset, codes = matrix.slots, matrix.offset, matrix.codes
    column, kind, first, size = group[0], group[1], np.int64(group[2]), np.int64(group[3])
    slot, multiple = columns[4 * column + 1], columns[4 * column + 2]
    base = first + 1
    if kind != EQ:
        words[first : first + size] = np.uint64(0)
    if multiple < 0 or kind == GE or kind == LE:
        if multiple >= 0 and kind == GE:
            slot += 1
        for i in range(m):
            e = np.int64(events[i])
            words[base + slots[e, slot]] |= ONE << np.uint64(i)
    else:
        for i in range(m):
            e = np.int64(events[i])
            bit = ONE << np.uint64(i)
            if slots[e, slot + 2] == 0:
                words[first] |= bit
            for j in range(offset[multiple, e], offset[multiple, e + 1]):
                words[base + codes[j]] |= bit
    if kind == GE:
        word = np.uint64(0)
        for v in range(first + size - 1, first, -1):
            word |= words[v]
            words[v] = word
    elif kind == LE:
        word = np.uint64(0)
        for v in range(base, first + size):
            word |= words[v]
            words[v] = word
    elif kind == NE:
        absent = words[first] | ~tile_mask(m)
        for v in range(base, first + size):
            words[v] = ~(words[v] | absent)


@helper
def tile_mask(m: int) -> np.uint64:
    """Return a word with the bits of m events set."""
    return ALL if m == 64 else (ONE << np.uint64(m)) - ONE


@inlined
def clear_dense_words(words: Words, segment: OpenSegment, g: int, matrix: EventMatrix, events: Int32s, m: int) -> None:
    """Zero what fill_dense_words set in an EQ group."""
    columns, group = segment.columns, segment.groups[4 * g : 4 * g + 4]
    slots, offset, codes = matrix.slots, matrix.offset, matrix.codes
    slot, multiple, first = columns[4 * group[0] + 1], columns[4 * group[0] + 2], np.int64(group[2])
    if group[3] <= 8 * m:
        words[first : first + np.int64(group[3])] = np.uint64(0)
        return
    words[first] = np.uint64(0)
    for i in range(m):
        e = np.int64(events[i])
        if multiple < 0:
            words[first + 1 + slots[e, slot]] = np.uint64(0)
        else:
            for j in range(offset[multiple, e], offset[multiple, e + 1]):
                words[first + 1 + codes[j]] = np.uint64(0)


@inlined
def fill_local_words(
    words: Words, first: int, segment: OpenSegment, local: int, matrix: EventMatrix, tile: EventTile
) -> None:
    """Fill the words from `first` on of one local group, a word for each of its values."""
    slots, offset, codes = matrix.slots, matrix.offset, matrix.codes
    events, m, limits, ranks = tile.events, tile.size, tile.limits, tile.ranks
    g, columns, values = np.int64(segment.local_group[local]), segment.columns, segment.local_value
    column, kind = segment.groups[4 * g], segment.groups[4 * g + 1]
    start, count = (
        np.int64(segment.local_start[local]),
        np.int64(segment.local_start[local + 1] - segment.local_start[local]),
    )
    slot, multiple = columns[4 * column + 1], columns[4 * column + 2]
    words[first : first + count] = np.uint64(0)
    absent = np.uint64(0)
    if kind == GE:
        greatest = slot if multiple < 0 else slot + 1
        for i in range(np.uint64(m)):
            limits[i] = slots[events[i], greatest]
        rank_all(values, start, count, limits, ranks, m)
        for i in range(np.uint64(m)):
            if ranks[i]:
                words[np.uint64(first + ranks[i] - 1)] |= ONE << i
    elif kind == LE:
        for i in range(np.uint64(m)):
            limits[i] = slots[events[i], slot] - 1
        rank_all(values, start, count, limits, ranks, m)
        for i in range(np.uint64(m)):
            if limits[i] >= -1 and ranks[i] < count:
                words[np.uint64(first + ranks[i])] |= ONE << i
    elif kind == GENERIC:
        for i in range(np.uint64(m)):
            e = np.int64(events[i])
            for v in range(count):
                holds = generic_holds(segment, values[start + v], matrix, e)
                words[first + v] |= np.uint64(holds) << i
    elif multiple < 0:
        for i in range(np.uint64(m)):
            limits[i] = slots[events[i], slot]
        rank_all(values, start, count, limits, ranks, m)
        for i in range(np.uint64(m)):
            if limits[i] < 0:
                absent |= ONE << i
            if ranks[i] and values[np.uint64(start + ranks[i] - 1)] == limits[i]:
                words[np.uint64(first + ranks[i] - 1)] |= ONE << i
    else:
        for i in range(np.uint64(m)):
            e = np.int64(events[i])
            if slots[e, slot + 2] == 0:
                absent |= ONE << i
            for j in range(offset[multiple, e], offset[multiple, e + 1]):
                rank = count_at_most(values, start, count, codes[j])
                if rank and values[start + rank - 1] == codes[j]:
                    words[first + rank - 1] |= ONE << i
    word = np.uint64(0)
    if kind == GE:
        for v in range(first + count - 1, first - 1, -1):
            word |= words[v]
            words[v] = word
    elif kind == LE:
        for v in range(first, first + count):
            word |= words[v]
            words[v] = word
    elif kind == NE:
        absent |= ~tile_mask(m)
        for v in range(first, first + count):
            words[v] = ~(words[v] | absent)


@inlined
def set_simple_truth(truth: Truth, segment: OpenSegment, matrix: EventMatrix, e: int, value: int) -> None:
    """Set the bytes of the atoms of simple groups that event e satisfies."""
    groups, count, simple, narrow = segment.groups, segment.simple_groups, matrix.simple, matrix.narrow
    if simple.shape[0]:
        row = np.uint64(e)
        for g in range(np.uint64(count)):
            truth[simple[row, g]] = value
    else:
        for g in range(count):
            truth[np.int64(groups[4 * g + 2]) + np.int64(narrow[EVENT_BYTES * e + g])] = value


@helper
def code_holds(segment: OpenSegment, kind: int, column: int, value: int, matrix: EventMatrix, e: int) -> bool:
    """Return whether event e satisfies the atom (kind, column, value)."""
    if kind == GENERIC:
        return generic_holds(segment, value, matrix, e)
    slots, offset, codes = matrix.slots, matrix.offset, matrix.codes
    slot, multiple = segment.columns[4 * column + 1], segment.columns[4 * column + 2]
    least = slots[e, slot]
    if kind == GE:
        return (least if multiple < 0 else slots[e, slot + 1]) >= value
    if kind == LE:
        return 0 <= least <= value
    if multiple < 0:
        return least == value if kind == EQ else least >= 0 and least != value
    some = False
    for j in range(offset[multiple, e], offset[multiple, e + 1]):
        some |= codes[j] == value
    return some if kind == EQ else slots[e, slot + 2] != 0 and not some


@inlined
def fill_dense_truth(truth: Truth, segment: OpenSegment, matrix: EventMatrix, e: int) -> None:
    """Fill the bytes of all dense groups but the simple ones for event e."""
    groups, columns = segment.groups, segment.columns
    slots, offset, codes = matrix.slots, matrix.offset, matrix.codes
    for g in range(segment.simple_groups, segment.all_groups):
        column, kind, first = groups[4 * g], groups[4 * g + 1], np.int64(groups[4 * g + 2])
        if first < 0:
            continue
        slot, multiple = columns[4 * column + 1], columns[4 * column + 2]
        base, end = first + 1, first + np.int64(groups[4 * g + 3])
        code = np.int64(slots[e, slot + 1 if multiple >= 0 and kind == GE else slot])
        if kind == EQ:
            truth[base + code] = 1
            if multiple >= 0:
                for j in range(offset[multiple, e], offset[multiple, e + 1]):
                    truth[base + codes[j]] = 1
        elif kind == GE:
            truth[base : base + code + 1] = 1
            truth[base + code + 1 : end] = 0
        elif kind == LE:
            code = code if code >= 0 else end - base
            truth[base : base + code] = 0
            truth[base + code : end] = 1
        elif multiple < 0:
            truth[base:end] = code >= 0
            truth[base + code] = 0
        else:
            truth[base:end] = slots[e, slot + 2]
            for j in range(offset[multiple, e], offset[multiple, e + 1]):
                truth[base + codes[j]] = 0


@inlined
def clear_dense_truth(truth: Truth, segment: OpenSegment, matrix: EventMatrix, e: int) -> None:
    """Zero what fill_dense_truth set in EQ groups."""
    groups, columns = segment.groups, segment.columns
    slots, offset, codes = matrix.slots, matrix.offset, matrix.codes
    for g in range(segment.simple_groups, segment.all_groups):
        column, kind, first = groups[4 * g], groups[4 * g + 1], np.int64(groups[4 * g + 2])
        if first < 0 or kind != EQ:
            continue
        slot, multiple = columns[4 * column + 1], columns[4 * column + 2]
        truth[first + 1 + slots[e, slot]] = 0
        if multiple >= 0:
            for j in range(offset[multiple, e], offset[multiple, e + 1]):
                truth[first + 1 + codes[j]] = 0


@inlined
def fill_local_truth(truth: Truth, first: int, segment: OpenSegment, local: int, matrix: EventMatrix, e: int) -> None:
    """Fill the bytes from `first` on of one local group for event e, a byte for each of its values."""
    slots, offset, codes = matrix.slots, matrix.offset, matrix.codes
    g, columns, values = np.int64(segment.local_group[local]), segment.columns, segment.local_value
    column, kind = segment.groups[4 * g], segment.groups[4 * g + 1]
    start, count = (
        np.int64(segment.local_start[local]),
        np.int64(segment.local_start[local + 1] - segment.local_start[local]),
    )
    slot, multiple = columns[4 * column + 1], columns[4 * column + 2]
    if kind == GENERIC:
        for v in range(count):
            truth[first + v] = generic_holds(segment, values[start + v], matrix, e)
    elif kind == GE:
        rank = count_at_most(values, start, count, np.int64(slots[e, slot if multiple < 0 else slot + 1]))
        truth[first : first + rank] = 1
        truth[first + rank : first + count] = 0
    elif kind == LE:
        code = np.int64(slots[e, slot])
        rank = count_at_most(values, start, count, code - 1) if code >= 0 else count
        truth[first : first + rank] = 0
        truth[first + rank : first + count] = 1
    else:
        present = slots[e, slot] >= 0 if multiple < 0 else slots[e, slot + 2] != 0
        found = kind == EQ
        truth[first : first + count] = present and not found
        a, b = (0, 1) if multiple < 0 else (offset[multiple, e], offset[multiple, e + 1])
        if 4 * count < b - a:
            for v in range(count):
                rank = count_at_most(codes, a, b - a, values[start + v])
                if rank and codes[a + rank - 1] == values[start + v]:
                    truth[first + v] = found
            return
        for j in range(a, b):
            code = np.int64(slots[e, slot]) if multiple < 0 else np.int64(codes[j])
            rank = count_at_most(values, start, count, code)
            if rank and values[start + rank - 1] == code:
                truth[first + rank - 1] = found


# Tiles.


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
def fill_tile(words: Words, segment: OpenSegment, block: int, matrix: EventMatrix, tile: EventTile) -> None:
    """Fill the words of the atoms of a block."""
    first_dense = listed_after(segment, block)
    words[1] = tile_mask(tile.size)
    if first_dense > segment.block_dense[block]:
        fill_simple_words(words, tile.atoms, tile.places, tile.size, segment.simple_groups)
    for z in range(first_dense, segment.block_dense[block + 1]):
        g = np.int64(segment.dense_list[z])
        if g < segment.simple_groups:
            fill_some_simple_words(words, tile.atoms, g, tile.places, tile.size)
        else:
            fill_dense_words(words, segment, g, matrix, tile.events, tile.size)
    first_value = segment.local_start[segment.block_local[block]]
    for local in range(segment.block_local[block], segment.block_local[block + 1]):
        first = segment.dense_atoms + segment.local_start[local] - first_value
        fill_local_words(words, first, segment, local, matrix, tile)


@helper
def clear_tile(words: Words, segment: OpenSegment, block: int, matrix: EventMatrix, tile: EventTile) -> None:
    """Zero what fill_tile set in groups of equalities."""
    first_dense = listed_after(segment, block)
    if first_dense > segment.block_dense[block]:
        clear_simple_words(words, tile.atoms, tile.places, tile.size, segment.simple_groups)
    for z in range(first_dense, segment.block_dense[block + 1]):
        g = np.int64(segment.dense_list[z])
        if g < segment.simple_groups:
            clear_some_simple_words(words, tile.atoms, g, tile.places, tile.size)
        elif segment.groups[4 * g + 1] == EQ:
            clear_dense_words(words, segment, g, matrix, tile.events, tile.size)
