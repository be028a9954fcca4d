"""Emission: the runs of each event become its subscription numbers, event by event; and the path of one event.

Bitmaps are decoded by whole vectors; direct blocks are evaluated here, by a truth byte per atom.

Finishing: what kernels leave to be decided after a chunk of matches is written.

A row with checks is written as ~row, and its checks are decided (matching/deciders.py) where it is live. LiveTimes are
compared where the segment is not live for the whole batch. A subscription with several rows is reported once. A segment that needs none of this has no finisher, and its chunks pass untouched.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, inlined, kernel, lean_kernel
from tocsin.index.layout import FOREVER, TRUE_ATOM, Bytes, Directory, Section
from tocsin.index.open_segment import Atoms, Int32s, Int64s, OpenSegment, open_segment
from tocsin.matching.columnar.bits import (
    ALL,
    ONE,
    WORDS_AT_ONCE,
    Numbers,
    Words,
    append_few,
    append_many,
    append_selected,
    copy_8,
    count_ones,
    count_zeros,
    many_of_eight,
    prefetch,
    some_of_eight,
)
from tocsin.matching.columnar.events import EventMatrix
from tocsin.matching.columnar.fill import Truth, clear_dense_truth, fill_dense_truth, fill_local_truth, set_simple_truth
from tocsin.matching.columnar.join import DIRECT_ROWS, VISITS, WORDS
from tocsin.matching.columnar.probe import probe
from tocsin.matching.columnar.ranged import EventScratch, append_ranged
from tocsin.matching.columnar.workspace import DIRECT, SPARSE, Runs, matrix_of_one, open_workspace

if TYPE_CHECKING:
    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.segment import Segment
    from tocsin.matching.columnar.segment_matcher import MatchChunk


FEW_ROWS = 12  # of 64, whose atoms are better tested one by one
WORDS_OF_A_LINE = 8  # of the cache
MARGIN = 64  # numbers that may be written beyond those that count


@helper
def append_rows(
    atoms: Atoms, width: int, rows: int, truth: Truth, numbers: Numbers, row: int, out: Numbers, p: int
) -> int:
    """Append the numbers of up to 64 rows whose atoms all hold; writes a few beyond the end; return the new end.

    The first two atoms of each row are tested without a branch, into a word; the others row by row where few rows are
    left, else for all at once.
    """
    at, step, one, two = np.uint64(0), np.uint64(width), np.uint64(1), np.uint64(2)
    word, first, count = np.uint64(0), at, np.uint64(rows)
    for r in range(count):
        word |= np.uint64(truth[atoms[at]] & truth[atoms[at + one]]) << r
        at += step
    if word == np.uint64(0):
        return p
    if step > two:
        if count_ones(word) <= FEW_ROWS:
            left = word
            while left:
                r = np.uint64(count_zeros(left))
                holds, place = np.uint8(1), first + r * step
                for z in range(place + two, place + step):
                    holds &= truth[atoms[z]]
                word ^= np.uint64(holds ^ np.uint8(1)) << r
                left &= left - one
        else:
            for z in range(two, step):
                place, also = first + z, np.uint64(0)
                for r in range(count):
                    also |= np.uint64(truth[atoms[place]]) << r
                    place += step
                word &= also
    return append_selected(word, numbers, row, out, p)


@helper
def append_bitmap(
    bitmaps: Words, position: int, length: int, rows: Int32s, first: int, numbers: Numbers, out: Numbers, p: int
) -> int:
    """Append the numbers of the rows whose bits are set in `length` words; return the new end.

    Word i has the 64 rows from rows[first + i] on. Words with few bits and words with many are told apart first, 64 words
    at a time, so that what is done with them has nothing to guess.
    """
    for begin in range(0, length, 64):
        start, place, left = np.uint64(position + begin), np.uint64(first + begin), np.uint64(min(64, length - begin))
        some, many = np.uint64(0), np.uint64(0)
        for i in range(np.uint64(0), left, np.uint64(WORDS_AT_ONCE)):
            some |= some_of_eight(bitmaps, start + i) << i
            many |= many_of_eight(bitmaps, start + i) << i
        ours = ALL >> (np.uint64(64) - left)
        few = some & ours & ~many
        many &= ours
        while few:
            i = np.uint64(count_zeros(few))
            p = append_few(bitmaps[start + i], numbers, np.int64(rows[place + i]), out, p)
            few &= few - ONE
        while many:
            i = np.uint64(count_zeros(many))
            p = append_many(bitmaps[start + i], numbers, np.int64(rows[place + i]), out, p)
            many &= many - ONE
    return p


@helper
def prefetch_runs(runs: Runs, start: int, stop: int, bitmaps: Words, sparse: Int32s) -> int:
    """Ask for what runs start .. stop-1 have; return how many numbers these may give at most."""
    room = np.int64(0)
    for run in range(np.uint64(start), np.uint64(stop)):
        length, mark, position = np.int64(runs[run, 1]), np.int64(runs[run, 2]), np.int64(runs[run, 3])
        if mark >= 0:
            room += length << 6
            for i in range(0, length + WORDS_OF_A_LINE - 1, WORDS_OF_A_LINE):
                prefetch(bitmaps, position + i)
        else:
            room += length
            if mark == SPARSE:
                prefetch(sparse, position)
    return room


@inlined
def prefetch_blocks(segment: OpenSegment, numbers: Numbers, far: int, near: int) -> None:
    """Ask for what append_block reads of two blocks: of the far one where its parts lie, of the near one these themselves.

    Blocks of few rows lie anywhere, and waiting for them would take longer than their rows.
    """
    if far >= 0:
        prefetch(segment.block_stripe, far)
        prefetch(segment.block_local, far)
        prefetch(segment.block_sketch, far)
    if near >= 0:
        stripe, local = np.int64(segment.block_stripe[near]), np.int64(segment.block_local[near])
        prefetch(segment.stripe_width, stripe)
        prefetch(segment.local_group, local)
        prefetch(segment.sketches, 2 * np.int64(segment.block_sketch[near]))
        prefetch(segment.atoms, np.int64(segment.stripe_data[stripe]))
        prefetch(numbers, np.int64(segment.stripe_row[stripe]))
        prefetch(segment.local_value, np.int64(segment.local_start[local]))


@helper
def append_block(
    segment: OpenSegment, numbers: Numbers, matrix: EventMatrix, e: int, block: int, scratch: EventScratch, p: int
) -> int:
    """Append the numbers of the block's rows that event e matches; dense truth is filled already.

    64 rows whose sketch fails are skipped.
    """
    truth, out, counters = scratch.truth, scratch.out, scratch.counters
    first_value = segment.local_start[segment.block_local[block]]
    for local in range(segment.block_local[block], segment.block_local[block + 1]):
        first = segment.dense_atoms + segment.local_start[local] - first_value
        fill_local_truth(truth, first, segment, local, matrix, e)
    atoms, sketches, stripe_row = segment.atoms, segment.sketches, segment.stripe_row
    if len(segment.block_ranges) > 0 and segment.block_ranges[block] >= 0:
        counters[DIRECT_ROWS] += np.int64(
            stripe_row[segment.block_stripe[block + 1]] - stripe_row[segment.block_stripe[block]]
        )
        return append_ranged(segment, block, matrix.slots, e, scratch, numbers, p)
    block_row, first_sketch = np.int64(stripe_row[segment.block_stripe[block]]), np.int64(segment.block_sketch[block])
    for s in range(segment.block_stripe[block], segment.block_stripe[block + 1]):
        width, row, end = np.int64(segment.stripe_width[s]), np.int64(stripe_row[s]), np.int64(stripe_row[s + 1])
        data = np.int64(segment.stripe_data[s]) - row * width
        while row < end:
            group = (row - block_row) >> 6
            stop = min(end, block_row + ((group + 1) << 6))
            implied = np.uint64(2 * (first_sketch + group))
            if truth[sketches[implied]] & truth[sketches[implied + ONE]]:
                p = append_rows(atoms[data + row * width :], width, stop - row, truth, numbers, row, out, p)
                counters[DIRECT_ROWS] += stop - row
                counters[WORDS] += (stop - row) * width
            row = stop
    return p


class MatchOutput(NamedTuple):
    """What is written: of each row that an event matches, and beside it; and how many numbers may be."""

    told: Numbers
    beside_offset: Int64s
    beside: Numbers
    room: int


@lean_kernel
def emit(
    buffer: Bytes, directory: Directory, output: MatchOutput, matrix: EventMatrix, first_event: int, start: int, stop: int,
    places: Int64s,
) -> int:  # fmt: skip
    """Write what is told (by row) of events start .. into out while there is room; return the first not written.

    offset[i + 1] is the end of event start + i in out. needs[0] is what the first event not written may need.
    What other segments have found stands beside[beside_offset[e] : beside_offset[e + 1]], where there are any, and is
    written before: one copy, where putting whole batches side by side later would take as long as all of this.
    """
    segment, work = open_segment(buffer, directory), open_workspace(places)
    numbers, beside_offset, beside = output.told, output.beside_offset, output.beside
    bitmaps, sparse, run_start, runs = work.bitmaps, work.sparse, work.run_start, work.grouped
    truth, out, ends = work.truth, work.out, work.offset
    scratch = EventScratch(truth, work.bands, out, work.counters, work.ranged.left)
    truth[TRUE_ATOM] = 1
    p = np.int64(0)
    ends[0] = 0
    run, after = np.int64(run_start[start - first_event]), np.int64(run_start[start - first_event + 1])
    room = prefetch_runs(runs, run, after, bitmaps, sparse)
    for e in range(start, stop):
        need, extra, end = room + MARGIN, np.int64(0), after
        if len(beside_offset):
            extra = beside_offset[e + 1] - beside_offset[e]
            need += extra + 8
        if p + need > output.room:
            work.needs[0] = need
            return e
        if e + 1 < stop:
            after = np.int64(run_start[e - first_event + 2])
            room = prefetch_runs(runs, end, after, bitmaps, sparse) if after > end else np.int64(0)
        for i in range(0, extra, 8):
            copy_8(beside, beside_offset[e] + i, out, p + i)
        p += extra
        filled = False
        while run < end:
            length, mark, position = np.int64(runs[run, 1]), np.int64(runs[run, 2]), np.int64(runs[run, 3])
            if mark >= 0:
                p = append_bitmap(bitmaps, position, length, sparse, mark, numbers, out, p)
            elif mark == SPARSE:
                for i in range(0, length, 8):
                    copy_8(sparse, position + i, out, p + i)
                p += length
            else:
                if not filled:
                    set_simple_truth(truth, segment, matrix, e, 1)
                    fill_dense_truth(truth, segment, matrix, e)
                    filled = True
                far, near = run + 8, run + 3
                prefetch_blocks(
                    segment,
                    numbers,
                    np.int64(runs[far, 3]) if far < end and runs[far, 2] == DIRECT else -1,
                    np.int64(runs[near, 3]) if near < end and runs[near, 2] == DIRECT else -1,
                )
                p = append_block(segment, numbers, matrix, e, position, scratch, p)
            run += 1
        if filled:
            set_simple_truth(truth, segment, matrix, e, 0)
            clear_dense_truth(truth, segment, matrix, e)
        ends[e - start + 1] = p
    return stop


@lean_kernel
def match_one(buffer: Bytes, directory: Directory, numbers: Numbers, matrix: EventMatrix, places: Int64s) -> int:
    """Write the numbers that event 0 matches into out (which has room for all rows); return how many."""
    segment, work = open_segment(buffer, directory), open_workspace(places)
    truth, visits = work.truth, work.visits
    scratch = EventScratch(truth, work.bands, work.out, work.counters, work.ranged.left)
    truth[TRUE_ATOM] = 1
    n = probe(buffer, directory, matrix, 0, 1, work.out[:0], places)
    if n < 0:
        return -1
    set_simple_truth(truth, segment, matrix, 0, 1)
    fill_dense_truth(truth, segment, matrix, 0)
    p = np.int64(0)
    for i in range(n):
        block = np.int64(visits[i] >> np.uint64(32))
        prefetch_blocks(
            segment,
            numbers,
            np.int64(visits[i + 8] >> np.uint64(32)) if i + 8 < n else -1,
            np.int64(visits[i + 3] >> np.uint64(32)) if i + 3 < n else -1,
        )
        p = append_block(segment, numbers, matrix, 0, block, scratch, p)
    set_simple_truth(truth, segment, matrix, 0, 0)
    clear_dense_truth(truth, segment, matrix, 0)
    work.counters[VISITS] += n
    return p


@lean_kernel
def match_packed(
    buffer: Bytes, directory: Directory, numbers: Int32s, packed: Int32s, of_slot: Int32s, of_simple: Int32s,
    first_atom: Int32s, places: Int64s,
) -> int:  # fmt: skip
    """Lay out event 0, whose codes are packed[of_slot] and packed[of_simple], and match it: see match_one."""
    matrix = matrix_of_one(places, len(of_slot), len(of_simple))
    for slot in range(len(of_slot)):
        matrix.slots[0, slot] = packed[of_slot[slot]]
    for g in range(len(of_simple)):
        matrix.simple[0, g] = first_atom[g] + packed[of_simple[g]]
    return match_one(buffer, directory, numbers, matrix, places)


# Finishing.


# (events of the batch, positions among the rows with checks, and the chunk that they are of) -> which rows hold
CheckCallback = Callable[[Int64s, Int64s, "MatchChunk"], npt.NDArray[np.bool_]]
Finisher = Callable[["MatchChunk"], "MatchChunk"]

NOW = FOREVER - 1


class LiveTimes(NamedTuple):
    """When subscriptions, by number, are live (an empty array: always), and when events, by position, came."""

    created: Int64s
    deleted: Int64s
    lease_start: Int64s
    lease_end: Int64s
    seq: Int64s
    arrival: Int64s


class Stamps:
    """The event that each subscription was told last, counted through all batches; for subscriptions of several rows."""

    def __init__(self) -> None:
        self._last = np.zeros(0, np.int64)
        self._events = 0

    def for_batch(self, subscriptions: int, events: int) -> tuple[Int64s, int]:
        """Return the stamps, and the number of the batch's first event."""
        if len(self._last) < subscriptions:
            self._last = np.full(subscriptions, -1, np.int64)
        first, self._events = self._events, self._events + events
        return self._last, first


def finisher_of(
    segment: Segment, batch: CodedBatch, check: CheckCallback | None, stamps: Stamps | None = None
) -> Finisher | None:
    """Return what a chunk of this batch must still go through, None if nothing.

    `stamps` are memory to use again, by one batch at a time.
    """
    lifetimes = _lifetimes_to_compare(segment, batch)
    checked, repeated = segment.has_checks, segment.repeated
    if lifetimes is None and not checked and not len(repeated):
        return None
    last, event = (stamps or Stamps()).for_batch(len(segment), batch.size) if len(repeated) else (_NOTHING, 0)

    def finish(chunk: MatchChunk) -> MatchChunk:
        if checked:
            chunk = _decided(segment, chunk, check, lifetimes)
        if lifetimes is None and not len(repeated):
            return chunk
        offset = chunk.offset.copy()
        n = compact(chunk.first, offset, chunk.numbers, repeated, last, event, lifetimes or _ALWAYS)
        return chunk._replace(offset=offset, numbers=chunk.numbers[:n])

    return finish


def needs_finishing(segment: Segment) -> bool:
    """Return whether what kernels find for events of this moment must still go through something."""
    latest_creation, earliest_deletion, _, _ = segment.lifetime_bounds()
    return bool(segment.has_checks or len(segment.repeated) or latest_creation >= NOW or earliest_deletion <= NOW)


_NOTHING = np.zeros(0, np.int64)
_ALWAYS = LiveTimes(*(_NOTHING,) * 6)


def _lifetimes_to_compare(segment: Segment, batch: CodedBatch) -> LiveTimes | None:
    """Return what is to be compared; None if all is live."""
    if not batch.size:
        return None
    latest_creation, earliest_deletion, latest_start, earliest_end = segment.lifetime_bounds()
    seq, arrival = batch.seq, batch.arrival
    if seq is None:
        dead = latest_creation >= NOW or earliest_deletion <= NOW
    else:
        dead = latest_creation >= seq.min() or earliest_deletion <= seq.max()
    if arrival is not None and not dead:
        dead = latest_start > arrival.min() or earliest_end <= arrival.max()
    if not dead:
        return None
    now = np.full(batch.size, NOW, np.int64) if seq is None else seq
    return LiveTimes(*segment.lifetimes(), now, _NOTHING if arrival is None else arrival)


@kernel
def compact(
    first: int, offset: Int64s, numbers: npt.NDArray[np.int32], repeated: npt.NDArray[np.uint8], stamps: Int64s,
    first_stamp: int, lifetimes: LiveTimes,
) -> int:  # fmt: skip
    """Drop what is not live or was reported for the same event before, in place; return how many stay."""
    created, deleted, lease_start, lease_end, seq, arrival = lifetimes
    p, start = 0, offset[0]
    for i in range(len(offset) - 1):
        e, stop = first + i, offset[i + 1]
        for j in range(start, stop):
            number = np.int64(numbers[j])
            if len(seq) and (
                (len(created) and created[number] >= seq[e]) or (len(deleted) and deleted[number] <= seq[e])
            ):
                continue
            if len(arrival) and (
                (len(lease_start) and arrival[e] < lease_start[number])
                or (len(lease_end) and arrival[e] >= lease_end[number])
            ):
                continue
            if len(repeated) and (repeated[number >> 3] >> np.uint8(number & 7)) & np.uint8(1):
                if stamps[number] == first_stamp + e:
                    continue
                stamps[number] = first_stamp + e
            numbers[p] = numbers[j]
            p += 1
        start = stop
        offset[i + 1] = p
    return p


@lean_kernel
def told_once(
    numbers: npt.NDArray[np.int32], n: int, repeated: npt.NDArray[np.uint8], stamps: Int64s, stamp: int
) -> int:
    """As `compact`, for one event and subscriptions that are all live; -1, and nothing done, where some row has checks."""
    for j in range(n):
        if numbers[j] < 0:
            return -1
    p = 0
    for j in range(n):
        number = np.int64(numbers[j])
        if len(repeated) and (repeated[number >> 3] >> np.uint8(number & 7)) & np.uint8(1):
            if stamps[number] == stamp:
                continue
            stamps[number] = stamp
        numbers[p] = numbers[j]
        p += 1
    return p


def finished_one(
    segment: Segment, batch: CodedBatch, numbers: npt.NDArray[np.int32], stamps: Stamps | None
) -> npt.NDArray[np.int32] | None:
    """Return what is left of one event's matches, for most events; None where a finisher must look."""
    if _lifetimes_to_compare(segment, batch) is not None:
        return None
    repeated = segment.repeated
    if not segment.has_checks and not len(repeated):
        return numbers
    last, stamp = (stamps or Stamps()).for_batch(len(segment), 1) if len(repeated) else (_NOTHING, 0)
    n = told_once(numbers, len(numbers), repeated, last, stamp)
    return None if n < 0 else numbers[:n]


def _decided(
    segment: Segment, chunk: MatchChunk, check: CheckCallback | None, lifetimes: LiveTimes | None
) -> MatchChunk:
    """Return the chunk with rows that have checks replaced by the numbers of those that hold."""
    candidates, event, position = undecided(
        chunk.first, chunk.offset, chunk.numbers, segment.section(Section.CHECKED_ROW)
    )
    if not len(candidates):
        return chunk
    if check is None:
        raise ValueError("this segment has checks: matching it needs a callback that decides them")
    number = segment.section(Section.CHECKED_NUMBER)[position]
    if lifetimes is None:
        holds = check(event, position, chunk)
    else:  # nobody asks an operator, or hears of a failure, for what is not live
        holds = _live(event, number, lifetimes)
        holds[holds] = check(event[holds], position[holds], chunk)
    offset, numbers = with_decided(chunk.offset, chunk.numbers, candidates, number, holds)
    return chunk._replace(offset=offset, numbers=numbers)


@kernel
def undecided(
    first: int, offset: Int64s, numbers: npt.NDArray[np.int32], checked: npt.NDArray[np.int32]
) -> tuple[Int64s, Int64s, Int64s]:
    """Return where rows with checks are told, of which events, and their positions among the `checked` rows, ascending."""
    total = 0
    for number in numbers:
        total += number < 0
    place, event, position = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    n = 0
    for i in range(len(offset) - 1):
        for j in range(offset[i], offset[i + 1]):
            if numbers[j] < 0:
                row, low, high = ~np.int64(numbers[j]), 0, len(checked)
                while low < high:
                    middle = (low + high) >> 1
                    if checked[middle] < row:
                        low = middle + 1
                    else:
                        high = middle
                place[n], event[n], position[n] = j, first + i, low
                n += 1
    return place, event, position


@kernel
def with_decided(
    offset: Int64s, numbers: npt.NDArray[np.int32], place: Int64s, number: npt.NDArray[np.int32], holds: npt.NDArray[np.bool_]
) -> tuple[Int64s, npt.NDArray[np.int32]]:  # fmt: skip
    """Return offset and numbers with the rows told at these places as the numbers of those that hold, without the others."""
    kept_offset, kept = np.zeros(len(offset), np.int64), np.empty(len(numbers), np.int32)
    n, z = 0, 0
    for i in range(len(offset) - 1):
        for j in range(offset[i], offset[i + 1]):
            if z < len(place) and place[z] == j:
                kept[n] = number[z]
                n += holds[z]
                z += 1
            else:
                kept[n] = numbers[j]
                n += 1
        kept_offset[i + 1] = n
    return kept_offset, kept[:n]


def _live(event: Int64s, number: Int64s, lifetimes: LiveTimes) -> npt.NDArray[np.bool_]:
    """Return which subscriptions are live for their events, as `compact` has it."""
    created, deleted, lease_start, lease_end, seq, arrival = lifetimes
    live = np.ones(len(event), np.bool_)
    if len(created):
        live &= created[number] < seq[event]
    if len(deleted):
        live &= deleted[number] > seq[event]
    if len(arrival) and len(lease_start):
        live &= lease_start[number] <= arrival[event]
    if len(arrival) and len(lease_end):
        live &= lease_end[number] > arrival[event]
    return live
