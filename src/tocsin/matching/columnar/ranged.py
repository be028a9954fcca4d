"""Ranges in bands: rows with many ranges, for a tile of 256 events or for one event. The layout is in index/ranges.py.

A tile: of each column, word b says which events have a band below b, so that those between two bands are two words and an
AND. 512 rows go through the columns one after the other: the words of one column and the results stay in the first cache.
What is left of a row is looked at again, column by column: events in the band of an end are compared by their codes. What a
row asks beside its ranges is tested last, for what is left of all.

One event: of 512 rows, those whose ends lie on both sides of the event's band, column by column and by vectors; and the few that
pass are compared by their codes.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# ruff: noqa: ARG001 - intrinsics declare the arguments of what they generate
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc, no-redef"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from tocsin.index.jit import helper
from tocsin.index.layout import Bytes
from tocsin.index.open_segment import Atoms, Int32s, Int64s, OpenSegment
from tocsin.index.ranges import BANDS, CHUNK, PARTS, entry_of, layer_ends, layer_of
from tocsin.matching.columnar.bits import (
    ALL,
    HAS_SPREAD,
    ONE,
    Numbers,
    Words,
    append_selected,
    count_ones,
    count_zeros,
    data_of,
    pointer_to,
    spread,
    vector,
)
from tocsin.matching.columnar.events import Matrix

TILE_EVENTS, TILE_WORDS = 256, 4
COLUMN_WORDS = (BANDS + 1) * TILE_WORDS  # of one column
FEWEST_EVENTS = 24  # for which a tile costs less than going through the rows event by event


class RangedTile(NamedTuple):
    """Memory of a tile: its events, how many matches each has, rows that are left, words of bands, results, ...

    ... the band of each event in each range column, and of rows that are left to one event, which that is.
    """

    events: Int32s
    count: Int32s
    left: Words
    words: Words
    results: Words
    bands: Bytes
    only: Bytes


class Layers(NamedTuple):
    """The layers of all chunks: see index/ranges.py."""

    records: Int64s
    masks: Words
    starts: Atoms
    ranges: Bytes


class EventScratch(NamedTuple):
    """Of one event: a truth byte of each atom, its band and code in each range column, and where what it matches goes."""

    truth: Bytes
    bands: Int32s
    out: Numbers
    counters: Int64s
    left: Words  # of a chunk, the rows that may match


_i1, _i8, _i64 = ir.IntType(1), ir.IntType(8), ir.IntType(64)
_four, _rows = vector(_i64, TILE_WORDS), vector(_i8, 32)


def _load(context: Any, b: Any, kind: Any, array: Any, at: Any, element: ir.Type) -> Any:
    return b.load(pointer_to(b, data_of(context, b, kind, array), at, element), align=1)


@intrinsic
def keep_between(typing: Any, results: Any, at: Any, words: Any, low: Any, high: Any) -> Any:
    """results[at + i] &= words[high + i] & ~words[low + i] for the four words i."""
    signature = types.void(results, types.uint64, words, types.uint64, types.uint64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        place = pointer_to(b, data_of(context, b, sig.args[0], args[0]), args[1], _four)
        below = b.not_(_load(context, b, sig.args[2], args[2], args[3], _four))
        upto = _load(context, b, sig.args[2], args[2], args[4], _four)
        b.store(b.and_(b.and_(upto, below), b.load(place, align=8)), place, align=8)
        return context.get_dummy_value()

    return signature, generate


def _any_set(b: Any, words: Any) -> Any:
    return b.icmp_unsigned(
        "!=", b.bitcast(words, ir.IntType(64 * TILE_WORDS)), ir.Constant(ir.IntType(64 * TILE_WORDS), 0)
    )


@intrinsic
def some_of_four(typing: Any, words: Any, at: Any) -> Any:
    """Return whether any bit of the four words from `at` on is set."""
    signature = types.boolean(words, types.uint64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        return _any_set(b, _load(context, b, sig.args[0], args[0], args[1], _four))

    return signature, generate


@intrinsic
def some_at_ends(typing: Any, results: Any, at: Any, words: Any, low: Any, high: Any) -> Any:
    """Return whether some event of the results lies in one of two bands, whose words are words[low] and words[high]."""
    signature = types.boolean(results, types.uint64, words, types.uint64, types.uint64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        step = ir.Constant(_i64, TILE_WORDS)
        inside = []
        for where in (args[3], args[4]):
            below = b.not_(_load(context, b, sig.args[2], args[2], where, _four))
            inside.append(b.and_(_load(context, b, sig.args[2], args[2], b.add(where, step), _four), below))
        found = _load(context, b, sig.args[0], args[0], args[1], _four)
        return _any_set(b, b.and_(found, b.or_(*inside)))

    return signature, generate


@intrinsic
def rows_between(typing: Any, ranges: Any, low: Any, high: Any, band: Any) -> Any:
    """Return as bits for which of 64 rows ranges[low + row] <= band <= ranges[high + row]."""
    signature = types.uint64(ranges, types.uint64, types.uint64, types.uint64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        one = b.trunc(args[3], _i8)
        undefined, i32 = ir.Constant(_rows, ir.Undefined), ir.IntType(32)
        first = b.insert_element(undefined, one, ir.Constant(i32, 0))
        bands = b.shuffle_vector(first, undefined, ir.Constant(vector(i32, 32), [ir.Constant(i32, 0)] * 32))
        halves = []
        for start in (0, 32):  # a mask of 32 bits is one instruction; one of 64 would be taken apart bit by bit
            ends = []
            for at in args[1:3]:
                ends.append(_load(context, b, sig.args[0], args[0], b.add(at, ir.Constant(_i64, start)), _rows))
            inside = b.and_(b.icmp_unsigned("<=", ends[0], bands), b.icmp_unsigned("<=", bands, ends[1]))
            halves.append(b.zext(b.bitcast(inside, i32), _i64))
        return b.or_(halves[0], b.shl(halves[1], ir.Constant(_i64, 32)))

    return signature, generate


if config.DISABLE_JIT:

    def keep_between(results: Words, at: int, words: Words, low: int, high: int) -> None:
        """results[at + i] &= words[high + i] & ~words[low + i] for the four words i."""
        for i in range(TILE_WORDS):
            results[int(at) + i] &= words[int(high) + i] & ~words[int(low) + i]

    def some_of_four(words: Words, at: int) -> bool:
        """Return whether any bit of the four words from `at` on is set."""
        return bool(words[int(at) : int(at) + TILE_WORDS].any())

    def some_at_ends(results: Words, at: int, words: Words, low: int, high: int) -> bool:
        """Return whether some event of the results lies in one of two bands, whose words are words[low] and words[high]."""
        found = False
        for i in range(TILE_WORDS):
            for band in (int(low) + i, int(high) + i):
                found |= bool(results[int(at) + i] & words[band + TILE_WORDS] & ~words[band])
        return found

    def rows_between(ranges: Bytes, low: int, high: int, band: int) -> np.uint64:
        """Return as bits for which of 64 rows ranges[low + row] <= band <= ranges[high + row]."""
        found = 0
        for row in range(64):
            found |= int(ranges[int(low) + row] <= band <= ranges[int(high) + row]) << row
        return np.uint64(found)


@helper
def fill_bands(tile: RangedTile, segment: OpenSegment, slots: Matrix, m: int) -> None:
    """words[257 * 4 * k + 4 * b + q]: which of the tile's events 64 * q .. have a band below b in range column k."""
    words, events, bands = tile.words, tile.events, tile.bands
    for k in range(len(segment.range_columns) >> 1):
        slot, shift = column_of(segment, k)
        first = COLUMN_WORDS * k
        words[first : first + COLUMN_WORDS] = np.uint64(0)
        for i in range(m):
            code = np.int64(slots[events[i], slot])
            if code >= 0:
                bands[TILE_EVENTS * k + i] = code >> shift
                words[first + TILE_WORDS * ((code >> shift) + 1) + (i >> 6)] |= ONE << np.uint64(i & 63)
        for at in range(np.uint64(first + TILE_WORDS), np.uint64(first + COLUMN_WORDS)):
            words[at] |= words[at - np.uint64(TILE_WORDS)]


@helper
def column_of(segment: OpenSegment, k: int) -> tuple[int, int]:
    """Return the slot of range column k, and how many lower bits its codes have."""
    return np.int64(segment.columns[4 * segment.range_columns[2 * k] + 1]), np.int64(segment.range_columns[2 * k + 1])


@helper
def tile_word(m: np.uint64, q: int) -> np.uint64:
    """Return word q of a tile of m events, all set."""
    start = np.uint64(64 * q)
    if m >= start + np.uint64(64):
        return ALL
    return np.uint64(0) if m <= start else (ONE << (m - start)) - ONE


@helper
def and_bands(segment: OpenSegment, chunk: int, words: Words, results: Words, m: int) -> None:
    """results[4 * r + q] = which of the events 64 * q .. have a band in all ranges of row r of the chunk."""
    alive, masks, ranges, four = segment.range_alive, segment.range_rows, segment.range_bytes, np.uint64(TILE_WORDS)
    here = np.uint64(m)
    first_word, second = tile_word(here, 0), tile_word(here, 1)
    third, fourth = tile_word(here, 2), tile_word(here, 3)
    at = np.uint64(0)
    for part in range(PARTS):
        living = alive[np.uint64(PARTS * chunk + part)]
        for r in range(np.uint64(64)):
            lives = ALL * ((living >> r) & ONE)
            results[at], results[at + ONE] = first_word & lives, second & lives
            results[at + np.uint64(2)], results[at + np.uint64(3)] = third & lives, fourth & lives
            at += four
    for layer in range(segment.range_chunk[chunk], segment.range_chunk[chunk + 1]):
        k, base, size = layer_of(segment.range_layer, layer)
        first, low_at = np.uint64(COLUMN_WORDS * k), np.uint64(base)
        for part in range(PARTS):
            mask, high_at = masks[np.uint64(PARTS * layer + part)], low_at + np.uint64(size)
            at = np.uint64(4 * 64 * part)
            if mask == ALL:
                for r in range(np.uint64(64)):
                    low = first + four * np.uint64(ranges[low_at + r])
                    high = first + four * (np.uint64(ranges[high_at + r]) + ONE)
                    keep_between(results, at + four * r, words, low, high)
                low_at += np.uint64(64)
                continue
            while mask:
                r = np.uint64(count_zeros(mask))
                mask &= mask - ONE
                low = first + four * np.uint64(ranges[low_at])
                high = first + four * (np.uint64(ranges[low_at + np.uint64(size)]) + ONE)
                keep_between(results, at + four * r, words, low, high)
                low_at += ONE


@helper
def compare_ends(segment: OpenSegment, chunk: int, tile: RangedTile, slots: Matrix) -> None:
    """Clear the results of events that lie in the band of an end of a range, but beyond it; tile.left[part]: rows with results before.

    Most of these rows are left to one event only, whose bands are compared with those of the ends; for the others, words say
    whether some event lies there.
    """
    words, results, left, events, bands, only = tile.words, tile.results, tile.left, tile.events, tile.bands, tile.only
    ranges, four = segment.range_bytes, np.uint64(TILE_WORDS)
    for part in range(PARTS):
        some, alone = np.uint64(0), np.uint64(0)
        first_row = np.uint64(64 * part)
        for r in range(np.uint64(64)):
            some |= np.uint64(some_of_four(results, four * (first_row + r))) << r
        word = some
        while word:
            r = np.uint64(count_zeros(word))
            at, event, total = four * (first_row + r), 0, 0
            for q in range(np.uint64(TILE_WORDS)):
                found = results[at + q]
                total += count_ones(found)
                if found:
                    event = np.int64(q << np.uint64(6)) + count_zeros(found)
            only[first_row + r] = event
            alone |= np.uint64(total == 1) << r
            word &= word - ONE
        left[part], left[PARTS + part] = some, alone
    for layer in range(segment.range_chunk[chunk], segment.range_chunk[chunk + 1]):
        k, base, size = layer_of(segment.range_layer, layer)
        slot, shift = column_of(segment, k)
        if shift == 0:
            continue
        first, upper = np.uint64(COLUMN_WORDS * k), np.uint64(size)
        for part in range(PARTS):
            mask = segment.range_rows[np.uint64(PARTS * layer + part)]
            start = np.uint64(base) + np.uint64(segment.range_start[np.uint64(PARTS * layer + part)])
            here = mask & left[part] & left[PARTS + part]
            while here:
                r = np.uint64(count_zeros(here))
                here &= here - ONE
                entry = start + np.uint64(count_ones(mask & ((ONE << r) - ONE)))
                row = np.uint64(64 * part) + r
                band = bands[np.uint64(TILE_EVENTS * k) + np.uint64(only[row])]
                if (band == ranges[entry]) | (band == ranges[entry + upper]):
                    least, greatest = layer_ends(ranges, base, size, np.int64(entry) - base, shift)
                    e = np.int64(only[row])
                    code = np.int64(slots[events[e], slot])
                    if code < least or code > greatest:
                        results[four * row + np.uint64(e >> 6)] = np.uint64(0)
            here = mask & left[part] & ~left[PARTS + part]
            while here:
                r = np.uint64(count_zeros(here))
                here &= here - ONE
                entry = start + np.uint64(count_ones(mask & ((ONE << r) - ONE)))
                at = four * (np.uint64(64 * part) + r)
                low = first + four * np.uint64(ranges[entry])
                high = first + four * np.uint64(ranges[entry + upper])
                if some_at_ends(results, at, words, low, high):
                    least, greatest = layer_ends(ranges, base, size, np.int64(entry) - base, shift)
                    for q in range(np.uint64(TILE_WORDS)):
                        inside = (words[low + four + q] & ~words[low + q]) | (words[high + four + q] & ~words[high + q])
                        word = results[at + q] & inside
                        while word:
                            e = count_zeros(word)
                            code = np.int64(slots[events[np.int64(q << np.uint64(6)) + e], slot])
                            if code < least or code > greatest:
                                results[at + q] ^= ONE << np.uint64(e)
                            word &= word - ONE


@helper
def ends_hold(layers: Layers, first: int, end: int, place: int, bands: Int32s, codes: Int32s, shifts: Int32s) -> bool:
    """Return whether an event that lies in the bands of all ranges of a row, of layers first .. end-1, lies in these ranges too.

    codes[k] is its code in range column k.
    """
    records, masks, starts, ranges = layers
    for layer in range(first, end):
        entry = entry_of(masks, starts, layer, place)
        if entry >= 0:
            k, base, size = layer_of(records, layer)
            band = np.int64(bands[k])
            if band == np.int64(ranges[base + entry]) or band == np.int64(ranges[base + size + entry]):
                low, high = layer_ends(ranges, base, size, entry, np.int64(shifts[2 * k + 1]))
                if codes[k] < low or codes[k] > high:
                    return False
    return True


@helper
def keep_in_bands(layers: Layers, first: int, end: int, bands: Int32s, left: Words) -> None:
    """Clear the bits of those rows of a chunk, of layers first .. end-1, that have a range which an event's bands are outside of.

    left[part] are 64 rows. Layer by layer, so that its bytes are read as they lie. The ranges of 64 rows lie side by side, those
    of rows that have none left out: they are compared by vectors, and the answers spread to their rows. Where that takes
    many steps, and not all of the rows have a range, it is row by row: few are left then.
    """
    records, masks, starts, ranges = layers
    for layer in range(np.uint64(first), np.uint64(end)):
        k, base, size = layer_of(records, np.int64(layer))
        band, upper = np.int64(bands[np.uint64(k)]), np.uint64(size)
        at = layer << np.uint64(3)
        for part in range(np.uint64(PARTS)):
            mask, word = masks[at + part], left[part]
            some = word & mask
            if some == np.uint64(0):
                continue
            if band < 0:
                left[part] = word & ~mask
                continue
            start = np.uint64(base) + np.uint64(starts[at + part])
            if HAS_SPREAD or mask == ALL:
                left[part] = word & (spread(rows_between(ranges, start, start + upper, np.uint64(band)), mask) | ~mask)
                continue
            while some:
                bit = some & (~some + ONE)
                some ^= bit
                entry = start + np.uint64(count_ones(mask & (bit - ONE)))
                inside = (np.int64(ranges[entry]) <= band) & (band <= np.int64(ranges[entry + upper]))
                word ^= bit * np.uint64(not inside)
            left[part] = word


@helper
def append_ranged(
    segment: OpenSegment,
    block: int,
    slots: Matrix,
    e: int,
    scratch: EventScratch,
    numbers: Numbers,
    p: int,
) -> int:
    """Append the numbers of the block's rows that event e matches; writes a few beyond the end; return the new end.

    The truth of all atoms of the block is filled already; `bands` has room for two numbers of each range column. What is
    called for each chunk takes the arrays that it reads: all of a segment would be copied for each call.
    """
    count, bands, truth, out = len(segment.range_columns) >> 1, scratch.bands, scratch.truth, scratch.out
    codes = bands[count:]
    for k in range(count):
        slot, shift = column_of(segment, k)
        codes[k] = slots[e, slot]
        bands[k] = np.int64(codes[k]) >> shift  # -1 stays -1
    layers = Layers(segment.range_layer, segment.range_rows, segment.range_start, segment.range_bytes)
    alive, chunks, shifts, rows_left = segment.range_alive, segment.range_chunk, segment.range_columns, scratch.left
    stripe_row, s = segment.stripe_row, np.int64(segment.block_stripe[block])
    first, end = np.int64(stripe_row[s]), np.int64(stripe_row[segment.block_stripe[block + 1]])
    chunk = np.int64(segment.block_ranges[block])
    for begin in range(first, end, CHUNK):
        layer, after = np.int64(chunks[chunk]), np.int64(chunks[chunk + 1])
        for part in range(PARTS):
            rows_left[part] = alive[np.uint64(PARTS * chunk + part)]
        keep_in_bands(layers, layer, after, bands, rows_left)
        for part in range(PARTS):
            word = left = rows_left[part]
            row = begin + 64 * part
            while left:
                r = count_zeros(left)
                left &= left - ONE
                holds = ends_hold(layers, layer, after, 64 * part + r, bands, codes, shifts)
                if holds:
                    while row + r >= stripe_row[s + 1]:
                        s += 1
                    width = np.int64(segment.stripe_width[s])
                    at = np.int64(segment.stripe_data[s]) + (row + r - np.int64(stripe_row[s])) * width
                    for z in range(at, at + width):
                        holds = holds and truth[segment.atoms[z]] != 0
                if not holds:
                    word ^= ONE << np.uint64(r)
            if word:
                p = append_selected(word, numbers, row, out, p)
        chunk += 1
    return p
