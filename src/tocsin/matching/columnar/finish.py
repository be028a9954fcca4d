"""Finishing: what kernels leave to be decided after a chunk of matches is written.

A row with checks is written as ~row, and its checks are decided (matching/deciders.py) where it is live. Lifetimes are
compared where the segment is not live for the whole batch. A subscription with several rows is reported once. A segment that needs none of this has no finisher, and its chunks pass untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import kernel
from tocsin.index.layout import Section
from tocsin.index.segment import FOREVER

if TYPE_CHECKING:
    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.segment import Segment
    from tocsin.matching.columnar.segment_matcher import MatchChunk

Int64s = npt.NDArray[np.int64]

# (events of the batch, positions among the rows with checks, and the chunk that they are of) -> which rows hold
CheckCallback = Callable[[Int64s, Int64s, "MatchChunk"], npt.NDArray[np.bool_]]
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
    last, event = (stamps or Stamps()).for_batch(len(segment), batch.size) if len(repeated) else (_NOTHING, 0)

    def finish(chunk: MatchChunk) -> MatchChunk:
        if checked:
            chunk = _decided(segment, chunk, check, lifetimes)
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


def _decided(
    segment: Segment, chunk: MatchChunk, check: CheckCallback | None, lifetimes: tuple[Int64s, ...] | None
) -> MatchChunk:
    """Return the chunk with rows that have checks replaced by the numbers of those that hold."""
    candidates = np.flatnonzero(chunk.numbers < 0)
    if not len(candidates):
        return chunk
    if check is None:
        raise ValueError("this segment has checks: matching it needs a callback that decides them")
    event = chunk.first + np.searchsorted(chunk.offset, candidates, side="right") - 1
    position = np.searchsorted(segment.section(Section.CHECKED_ROW), ~chunk.numbers[candidates])
    number = segment.section(Section.CHECKED_NUMBER)[position]
    if lifetimes is None:
        holds = check(event, position, chunk)
    else:  # nobody asks an operator, or hears of a failure, for what is not live
        holds = _live(event, number, *lifetimes)
        holds[holds] = check(event[holds], position[holds], chunk)
    numbers = chunk.numbers.copy()
    numbers[candidates] = number
    keep = np.ones(len(numbers), np.bool_)
    keep[candidates[~holds]] = False
    offset = np.concatenate([[0], np.cumsum(keep)])[chunk.offset]
    return chunk._replace(offset=offset, numbers=numbers[keep])


def _live(
    event: Int64s, number: Int64s, created: Int64s, deleted: Int64s, lease_start: Int64s, lease_end: Int64s,
    seq: Int64s, arrival: Int64s,
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Return which subscriptions are live for their events, as `compact` has it."""
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
