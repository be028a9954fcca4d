"""Finishing: what kernels leave to be decided after a chunk of matches is written.

A row with checks is written as ~row: its checks are evaluated once per (event, distinct check), all events of a check
in one call. Lifetimes are compared where the segment is not live for the whole batch. A subscription with several
rows is reported once. A segment that needs none of this has no finisher, and its chunks pass untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import kernel
from tocsin.index.layout import Section
from tocsin.index.segment import FOREVER
from tocsin.matching.columnar.checks import SourceChecks

if TYPE_CHECKING:
    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.segment import Segment
    from tocsin.matching.columnar.segment_matcher import MatchChunk

Int64s = npt.NDArray[np.int64]

# (check number, events of the batch, ascending) -> whether the check holds for each
CheckCallback = Callable[[int, Int64s], npt.NDArray[np.bool_]]
Finisher = Callable[["MatchChunk"], "MatchChunk"]

NOW = FOREVER - 1


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
    verdicts = _Verdicts(segment, batch.size, check)
    last, event = (stamps or Stamps()).for_batch(len(segment), batch.size) if len(repeated) else (_NOTHING, 0)

    def finish(chunk: MatchChunk) -> MatchChunk:
        if checked:
            chunk = verdicts.apply(chunk)
        if lifetimes is None and not len(repeated):
            return chunk
        offset = chunk.offset.copy()
        n = compact(chunk.first, offset, chunk.numbers, repeated, last, event, *(lifetimes or _ALWAYS))
        return chunk._replace(offset=offset, numbers=chunk.numbers[:n])

    return finish


def needs_finishing(segment: Segment) -> bool:
    """Return whether what kernels find for events of this moment must still go through something."""
    latest_creation, earliest_deletion, _, _ = segment.lifetime_bounds()
    return bool(segment.has_checks or len(segment.repeated) or latest_creation >= NOW or earliest_deletion <= NOW)


_NOTHING = np.zeros(0, np.int64)
_ALWAYS = (_NOTHING,) * 6


def _lifetimes_to_compare(segment: Segment, batch: CodedBatch) -> tuple[Int64s, ...] | None:
    """Return created, deleted, lease start, lease end (empty: always), seq and arrival; None if all is live."""
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
    return (*segment.lifetimes(), now, _NOTHING if arrival is None else arrival)


@kernel
def compact(
    first: int, offset: Int64s, numbers: npt.NDArray[np.int32], repeated: npt.NDArray[np.uint8], stamps: Int64s,
    first_stamp: int, created: Int64s, deleted: Int64s, lease_start: Int64s, lease_end: Int64s, seq: Int64s, arrival: Int64s,
) -> int:  # fmt: skip
    """Drop what is not live or was reported for the same event before, in place; return how many stay."""
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


class _Verdicts:
    """Which checks hold for which events of a batch, each asked for once."""

    def __init__(self, segment: Segment, events: int, check: CheckCallback | None) -> None:
        self.events, self.check = events, check
        self.row = segment.section(Section.CHECKED_ROW)
        self.number = segment.section(Section.CHECKED_NUMBER)
        self.offset = segment.section(Section.CHECKED_OFFSET)
        self.checks = segment.section(Section.CHECKED_CHECK)
        self.known: dict[int, npt.NDArray[np.int8]] = {}

    def apply(self, chunk: MatchChunk) -> MatchChunk:
        """Return the chunk with candidates replaced by the numbers of those whose checks all hold."""
        candidates = np.flatnonzero(chunk.numbers < 0)
        if not len(candidates):
            return chunk
        event = chunk.first + np.searchsorted(chunk.offset, candidates, side="right") - 1
        position = np.searchsorted(self.row, ~chunk.numbers[candidates])
        holds = np.ones(len(candidates), np.bool_)
        count = self.offset[position + 1] - self.offset[position]
        for z in range(int(count.max())):
            some = np.flatnonzero(holds & (count > z))
            asked = self.checks[self.offset[position[some]] + z]
            holds[some] = self._ask(asked, event[some])
        numbers = chunk.numbers.copy()
        numbers[candidates] = self.number[position]
        keep = np.ones(len(numbers), np.bool_)
        keep[candidates[~holds]] = False
        offset = np.concatenate([[0], np.cumsum(keep)])[chunk.offset]
        return chunk._replace(offset=offset, numbers=numbers[keep])

    def _ask(self, checks: npt.NDArray[np.int32], events: Int64s) -> npt.NDArray[np.bool_]:
        answers = np.zeros(len(checks), np.bool_)
        order = np.argsort(checks, kind="stable")
        if isinstance(self.check, SourceChecks):
            decided, answers = self.check.of_words(checks, events)
            order = order[~decided[order]]
        cuts = np.flatnonzero(np.diff(checks[order])) + 1
        for part in np.split(order, cuts) if len(order) else ():
            answers[part] = self._of_one_check(int(checks[part[0]]), events[part])
        return answers

    def _of_one_check(self, check: int, events: Int64s) -> npt.NDArray[np.bool_]:
        known = self.known.get(check)
        if known is None:
            known = self.known[check] = np.full(self.events, -1, np.int8)
        new = np.unique(events[known[events] < 0])
        if len(new):
            if self.check is None:
                raise ValueError("this segment has checks: matching it needs a callback that evaluates them")
            known[new] = self.check(check, new)
        return np.equal(known[events], 1)
