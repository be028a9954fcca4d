"""SegmentMatcher: batches and single events against one segment.

Probing, the join and emission are kernels of this package; this module runs them block of events by block of events,
within bounded memory, and applies what kernels leave over: checks, lifetimes, and ids reported once.
Used by matching/matcher.py, which adds several segments and encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.layout import Scalar, Section
from tocsin.matching.columnar.count import count
from tocsin.matching.columnar.emit import CheckCallback, MatchOutput, Stamps, emit, finished_one, finisher_of, match_one
from tocsin.matching.columnar.events import EventLayout, EventMatrix
from tocsin.matching.columnar.join import NEEDS_BITMAPS, NEEDS_RUNS, NEEDS_SPARSE, join
from tocsin.matching.columnar.probe import group, probe, sort_events
from tocsin.matching.columnar.ranged import COLUMN_WORDS, TILE_EVENTS
from tocsin.matching.columnar.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.segment import Segment

DEFAULT_OUTPUT_NUMBERS = 1 << 24
# Large enough that a cluster sees a whole tile of a block of events: 64 MB.
BITMAP_WORDS = 1 << 23
SPARSE_NUMBERS = 1 << 24  # as many bytes
NEEDED = {NEEDS_BITMAPS: "bitmaps", NEEDS_SPARSE: "sparse", NEEDS_RUNS: "runs"}
SMALLEST_EVENT_BLOCK = 64
COUNTED_AT_ONCE = 1 << 15  # events
SORTED_EVENTS = 256  # of fewer, a tile would hold about the same in any order
_UNSORTED = np.zeros(0, np.int32)


class MatchChunk(NamedTuple):
    """Matches of events first .. first+len(offset)-2: event first + i has numbers[offset[i] : offset[i + 1]].

    The arrays are reused by the next chunk: copy what is to stay.
    """

    first: int
    offset: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int32]


class OtherSegments(NamedTuple):
    """What other segments found for the same events, as a chunk has it; `numbers` has eight more at its end."""

    offset: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int32]


NOTHING_BESIDE = OtherSegments(np.zeros(0, np.int64), np.zeros(8, np.int32))


@dataclass(frozen=True, slots=True)
class WorkCounters:
    """What matching did since the counters were reset."""

    visits: int  # (event, block) pairs found by probing
    tiles: int
    tile_rows: int  # rows evaluated for up to 64 events at once
    direct_rows: int  # rows evaluated for one event
    words: int  # words or bytes of atoms read
    filtered_rows: int  # rows passed by filters, 32 at once, for one event


def visited_share(segment: Segment, batch: CodedBatch) -> npt.NDArray[np.float64]:
    """Return for each block of the segment which share of the events visits it."""
    events, work = EventLayout(segment).lay_out(batch), Workspace()
    n = _probe(segment, work, events, 0, batch.size, _UNSORTED)
    # An event with several values may find a block by more than one of them.
    blocks = (np.unique(work.visits[:n]) >> np.uint64(32)).astype(np.int64)
    return np.bincount(blocks, minlength=segment.scalar(Scalar.BLOCKS)) / max(1, batch.size)


def _probe(
    segment: Segment, work: Workspace, events: EventMatrix, start: int, stop: int, order: npt.NDArray[np.int32]
) -> int:
    """Fill work.visits with the visits of events start .. stop-1; return how many these are."""
    work.grow("visits", 2 * (stop - start) + 2)
    while True:
        n = probe(segment.buffer, segment.directory, events, start, stop, order, work.places)
        if n >= 0:
            return n
        work.grow("visits", len(work.visits) + 1)


class SegmentMatcher:
    """Matches coded events against one segment; not to be shared by threads (give each its own Workspace)."""

    def __init__(self, segment: Segment, workspace: Workspace | None = None) -> None:
        self.segment = segment
        self.workspace = workspace or Workspace()
        self.layout = EventLayout(segment)
        self._numbers = segment.section(Section.NUMBERS)
        self._rows = segment.scalar(Scalar.ROWS)
        ranged = len(segment.section(Section.RANGE_COLUMNS)) >> 1
        self.workspace.grow("ranged_words", COLUMN_WORDS * ranged)
        self.workspace.grow("ranged_bands", TILE_EVENTS * ranged)
        self.workspace.grow("bands", 2 * ranged)
        self._busy = False  # whether the workspace holds a batch that is under way
        self._stamps = Stamps()

    @property
    def rows(self) -> int:
        return self._rows

    def counters(self) -> WorkCounters:
        """Return the work done since reset_counters."""
        return WorkCounters(*(int(count) for count in self.workspace.counters[:6]))

    def reset_counters(self) -> None:
        self.workspace.counters[:] = 0

    def match(
        self,
        batch: CodedBatch,
        check: CheckCallback | None = None,
        output_numbers: int = DEFAULT_OUTPUT_NUMBERS,
        told: npt.NDArray[np.int32] | None = None,
        beside: OtherSegments = NOTHING_BESIDE,
    ) -> Iterator[MatchChunk]:
        """Yield the matches of all events in order, in chunks of at most output_numbers (or one event).

        `told` is what is told of each row instead of its subscription's number, and `beside` is told with it: both only
        where nothing needs finishing (emit.py).
        """
        if self._busy:  # who takes the chunks of another batch asks for this one meanwhile
            yield from SegmentMatcher(self.segment).match(batch, check, output_numbers, told, beside)
            return
        self._busy = True
        try:
            events = self.layout.lay_out(batch, self.workspace, for_filters=True)
            finish = finisher_of(self.segment, batch, check, self._stamps)
            report = MatchOutput(self._numbers if told is None else told, *beside, output_numbers)
            start = 0
            while start < batch.size:
                stop = self._join(report.told, events, start, min(batch.size, start + self.workspace.block_events))
                yield from self._emit(report, events, start, stop, finish)
                start = stop
        finally:
            self._busy = False

    def match_one(self, batch: CodedBatch, check: CheckCallback | None = None) -> npt.NDArray[np.int32]:
        """Return the numbers that the batch's only event matches; the array is reused by the next call."""
        work, segment = self.workspace, self.segment
        events = self.layout.lay_out_one(batch)  # not in the workspace, where a batch may be under way
        work.grow("out", self._rows + 64)
        while True:
            n = match_one(segment.buffer, segment.directory, self._numbers, events, work.places)
            if n >= 0:
                break
            work.grow("visits", len(work.visits) + 1)
        stamps = None if self._busy else self._stamps
        found = finished_one(segment, batch, work.out[:n], stamps)
        if found is not None:
            return found
        finish = finisher_of(segment, batch, check, stamps)
        assert finish is not None
        return finish(MatchChunk(0, np.array([0, n], np.int64), work.out[:n])).numbers

    def count(self, batch: CodedBatch) -> npt.NDArray[np.int64]:
        """Return how many subscriptions each event matches; only where nothing needs finishing (emit.py)."""
        if len(self.segment.section(Section.RANGE_COLUMNS)):
            chunks = [np.diff(chunk.offset) for chunk in self.match(batch)]
            return np.concatenate([np.zeros(0, np.int64), *chunks])
        work, segment = Workspace() if self._busy else self.workspace, self.segment
        events = self.layout.lay_out(batch, work)
        found = np.empty(batch.size, np.int64)
        work.grow("out", self._rows + 64)
        for start in range(0, batch.size, COUNTED_AT_ONCE):
            stop = min(batch.size, start + COUNTED_AT_ONCE)
            n = self._visits(work, events, start, stop)
            work.grow("runs", n)
            work.grow("grouped", n)
            work.grow("offset", stop - start)
            count(segment.buffer, segment.directory, self._numbers, events, start, stop, n, work.places)
            found[start:stop] = work.offset[: stop - start]
        return found

    def _visits(self, work: Workspace, events: EventMatrix, start: int, stop: int) -> int:
        """Fill work.visits with the visits of events, sorted by block; return how many these are."""
        n = _probe(self.segment, work, events, start, stop, self._order(work, events, start, stop))
        work.grow("spare", len(work.visits))
        work.grow("run_start", stop - start + 2)
        if group(work.visits, work.spare, self._root_blocks * (stop - start), n):
            work.visits, work.spare = work.spare, work.visits
        return n

    def _order(self, work: Workspace, events: EventMatrix, start: int, stop: int) -> npt.NDArray[np.int32]:
        """Return the events in an order in which neighbours match alike; an empty array for their own order."""
        column = self.segment.scalar(Scalar.SORT_COLUMN)
        if column < 0 or stop - start < SORTED_EVENTS:
            return _UNSORTED
        codes, slot, *_ = self.segment.section(Section.COLUMNS)[4 * column : 4 * column + 4].tolist()
        work.grow("order", stop - start)
        sort_events(events.slots, slot, codes, start, stop, work.order)
        return work.order

    def _join(self, told: npt.NDArray[np.int32], events: EventMatrix, start: int, stop: int) -> int:
        """Evaluate events from start into runs; return the end of the block of events that memory allows."""
        work, segment = self.workspace, self.segment
        limits = {NEEDS_BITMAPS: BITMAP_WORDS, NEEDS_SPARSE: SPARSE_NUMBERS}
        while True:
            n = self._visits(work, events, start, stop)
            work.grow("grouped", len(work.runs))
            short = join(segment.buffer, segment.directory, told, events, start, stop, n, work.places)
            if short == 0:
                return stop
            need, limit = int(work.needs[short - 1]), limits.get(short)
            if limit is not None and need > limit and stop - start > SMALLEST_EVENT_BLOCK:
                work.block_events = max(SMALLEST_EVENT_BLOCK, (stop - start) * limit // need // 64 * 64)
                stop = start + min(stop - start, work.block_events)
            else:
                work.grow(NEEDED[short], need)

    @cached_property
    def _root_blocks(self) -> int:
        if self.segment.scalar(Scalar.ROOT) < 0:
            return 0
        return int(np.argmin(self.segment.section(Section.BLOCK_NEXT))) + 1

    def _emit(
        self,
        report: MatchOutput,
        events: EventMatrix,
        first: int,
        stop: int,
        finish: Callable[[MatchChunk], MatchChunk] | None,
    ) -> Iterator[MatchChunk]:
        work, segment = self.workspace, self.segment
        work.grow("offset", stop - first + 1)
        start, room = first, report.room  # numbers that a chunk may hold; one event may need more
        while start < stop:
            within = report._replace(room=min(room, len(work.out)))
            end = emit(segment.buffer, segment.directory, within, events, first, start, stop, work.places)
            if end < stop and len(work.out) < report.room and 4 * (end - start) < 3 * (stop - first):
                # Rather a larger buffer than many small chunks.
                work.grow("out", min(report.room, 4 * len(work.out)))
                continue
            if end == start:
                room = max(room, int(work.needs[0]))
                work.grow("out", room)
                continue
            offset = work.offset[: end - start + 1]
            chunk = MatchChunk(start, offset, work.out[: offset[-1]])
            yield chunk if finish is None else finish(chunk)
            start = end
