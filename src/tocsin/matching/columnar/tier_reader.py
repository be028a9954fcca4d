"""TierReader: what matching keeps for one tier of an index; and the matches of several tiers, put together.

Used by matcher.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import TextIds, id_at
from tocsin.index.encode import EventSource
from tocsin.index.layout import Section
from tocsin.index.subscription_index import Tier
from tocsin.matching.columnar.emit import CheckCallback, finisher_of
from tocsin.matching.columnar.matches import Matches, joined
from tocsin.matching.columnar.raw_events import RawEvents
from tocsin.matching.columnar.segment_matcher import NOTHING_BESIDE, OtherSegments, SegmentMatcher
from tocsin.matching.columnar.workspace import Gathered, borrowed
from tocsin.matching.deciders import Candidates, Deciders
from tocsin.schema import Schema

if TYPE_CHECKING:
    from tocsin.index.coded_batch import CodedBatch
    from tocsin.matching.columnar.segment_matcher import MatchChunk
    from tocsin.matching.engine import Inquiry
    from tocsin.offers.scan import OfferScan
    from tocsin.operators.questions import OperatorQuestions

Int64s = npt.NDArray[np.int64]
OUTPUT_IDS = 1 << 20  # ids of one chunk of matches: some events, and no more than stays in the cache until it is used
EVENTS_AT_ONCE = 4_096  # whose matches in several tiers are put together at once
FEW_EVENTS = 1_024  # at once where they have many matches; still fewer would not fill tiles
IDS_AT_ONCE = 1 << 24  # of so many events, about


class TierReader:
    """What matching keeps for one tier: its checks, and a workspace for each thread.

    It tells ids, or numbers from `first_number` on: texts are told by number, which a dictionary looks up.
    """

    def __init__(self, tier: Tier, schema: Schema, asked: OperatorQuestions, first_number: int | None = None) -> None:
        self.tier = tier
        self.first_number = first_number
        self.schema = schema
        self.deciders = Deciders(tier, schema, asked)
        self._own = threading.local()

    @property
    def offers(self) -> OfferScan:
        """This thread's scan of the tier for offers."""
        if not hasattr(self._own, "offers"):
            from tocsin.offers.scan import OfferScan

            self._own.offers = OfferScan(self.tier, self.schema)
        scan: OfferScan = self._own.offers
        return scan

    def matcher(self) -> SegmentMatcher:
        """Return this thread's matcher of the tier."""
        if not hasattr(self._own, "matcher"):
            self._own.matcher = SegmentMatcher(self.tier.segment)
        matcher: SegmentMatcher = self._own.matcher
        return matcher

    def match_raw(self, raw: dict[str, Any]) -> npt.NDArray[np.int32] | None:
        """Return what is told of the subscriptions that one raw event matches; None where it must go the long way."""
        events: RawEvents | None = getattr(self._own, "raw_events", None)
        if events is None:
            events = RawEvents(self.schema, self.tier.encoder, self.matcher(), self.ids_of_rows)
            self._own.raw_events = events
        return events.match(raw)

    def match(
        self, coded: CodedBatch, source: EventSource, inquiry: Inquiry, first: int, output_ids: int
    ) -> Iterator[Matches]:
        """Yield the matches of coded events, the first of which is event `first` of the source."""
        if self.tells_ids(coded):
            yield from self.match_beside(coded, first, output_ids, NOTHING_BESIDE)
            return
        for chunk in self.matcher().match(coded, self.decider(source, inquiry, first), output_ids):
            yield Matches(first + chunk.first, chunk.offset, self.ids(chunk.numbers))

    def decider(self, source: EventSource, inquiry: Inquiry, first: int = 0) -> CheckCallback:
        """Return what decides rows with checks, for events the first of which is event `first` of the source."""

        def decide(events: Int64s, positions: Int64s, chunk: MatchChunk) -> npt.NDArray[np.bool_]:
            candidates = Candidates(events + first, positions)
            self.deciders.decide(candidates, source, inquiry)
            held = candidates.held()
            if candidates.bindings or candidates.failure:
                self._note(candidates, held, chunk, first, inquiry)
            return held

        return decide

    def _note(
        self, candidates: Candidates, held: npt.NDArray[np.bool_], chunk: MatchChunk, first: int, inquiry: Inquiry
    ) -> None:
        """Tell the inquiry the values of variables, and what failed."""
        numbers = self.deciders.number[candidates.position]
        for at, bindings in candidates.bindings.items():
            if held[at]:
                event, number = int(candidates.event[at]), int(numbers[at])
                inquiry.hold(event, self.id_of(number), bindings)
                same = np.flatnonzero(held & (candidates.event == event) & (numbers == number)).tolist()
                e = event - first - chunk.first
                plain = chunk.numbers[chunk.offset[e] : chunk.offset[e + 1]] == number
                if plain.any() or any(other not in candidates.bindings for other in same):
                    inquiry.hold(event, self.id_of(number), ())
        for at, reason in candidates.failure.items():
            if candidates.open[at]:
                inquiry.failures.setdefault((int(candidates.event[at]), self.id_of(int(numbers[at]))), reason)

    def id_of(self, number: int) -> Any:
        """Return the id of a subscription."""
        return id_at(self.tier.segment.ids, number)

    def count(self, coded: CodedBatch, source: EventSource, inquiry: Inquiry) -> Int64s:
        """Return how many subscriptions each of the source's events matches."""
        segment = self.tier.segment
        if finisher_of(segment, coded, None) is None:
            return self.matcher().count(coded)
        counts = np.zeros(source.size, np.int64)
        for part in self.match(coded, source, inquiry, 0, OUTPUT_IDS):
            counts[part.first : part.first + len(part.offset) - 1] = part.counts()
        return counts

    def match_beside(self, coded: CodedBatch, first: int, output_ids: int, beside: OtherSegments) -> Iterator[Matches]:
        """Yield the matches of coded events together with what stands beside; for a tier that tells ids."""
        for chunk in self.matcher().match(coded, None, output_ids, self.ids_of_rows, beside):
            yield Matches(first + chunk.first, chunk.offset, chunk.numbers)

    def tells_ids(self, coded: CodedBatch) -> bool:
        """Return whether kernels can write ids at once for these events: small numbers, and nothing to finish."""
        return self.ids_of_rows is not None and finisher_of(self.tier.segment, coded, None) is None

    def ids(self, numbers: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """Return what is told of the subscriptions, in memory that the next call uses again."""
        ids = self._compact_ids
        if ids is None:
            return numbers
        buffer = getattr(self._own, "ids", None)
        if buffer is None or len(buffer) < len(numbers):
            buffer = self._own.ids = np.empty(2 * len(numbers), ids.dtype)
        found: npt.NDArray[Any] = buffer[: len(numbers)]
        np.take(ids, numbers, out=found, mode="clip")
        return found

    @cached_property
    def ids_of_rows(self) -> npt.NDArray[np.int32] | None:
        """The id of each row; None where ids are no small numbers, or what is found needs finishing by its number."""
        segment, ids = self.tier.segment, self._compact_ids
        if segment.has_checks or len(segment.repeated):
            return None
        numbers: npt.NDArray[np.int32] = segment.section(Section.NUMBERS)
        if ids is None:
            return numbers
        return ids.take(numbers, mode="clip") if ids.dtype == np.int32 and len(ids) else None

    @cached_property
    def _compact_ids(self) -> npt.NDArray[Any] | None:
        """The ids by number, in as few bytes as they need; None where each id is its number."""
        segment = self.tier.segment
        if self.first_number is not None:
            ids = np.arange(self.first_number, self.first_number + len(segment))
        else:
            assert not isinstance(segment.ids, TextIds)
            ids = segment.ids
        if not len(ids):
            return ids
        if ids[0] == 0 and ids[-1] == len(ids) - 1 and (np.diff(ids) == 1).all():
            return None
        small = np.iinfo(np.int32).min <= ids.min() and ids.max() <= np.iinfo(np.int32).max
        return ids.astype(np.int32) if small else ids

    def match_part(
        self, coded: CodedBatch, source: EventSource, inquiry: Inquiry, start: int, stop: int, output_ids: int,
        memory: Gathered,
    ) -> Matches:  # fmt: skip
        """Return the matches of events start .. stop-1 of the source: as they were found where that is one chunk, else in that memory.

        A chunk lies in memory of this tier's own, and is there until the tier is asked again.
        """
        memory.clear()
        for part in self.match(coded.part(start, stop), source, inquiry, start, output_ids):
            if len(part.offset) - 1 == stop - start:
                return part
            memory.add(part)
        return memory.matches(start)


def match_tiers(
    readers: Sequence[TierReader], coded: Sequence[CodedBatch], source: EventSource, inquiry: Inquiry, threads: int,
    output_ids: int,
) -> Iterator[Matches]:  # fmt: skip
    """Yield the matches of all tiers, part by part of the events, so that no part becomes too large.

    The largest tier writes what the others found beside its own; where the others together are as large, what all found is
    put together once.
    """
    sizes = [len(reader.tier.segment) for reader in readers]
    largest = max(range(len(readers)), key=sizes.__getitem__, default=0)
    if sum(sizes) > 2 * max(sizes, default=0):
        largest = -1
    others = [pair for at, pair in enumerate(zip(readers, coded, strict=True)) if at != largest]

    def run(start: int, stop: int, memory: list[Gathered]) -> Iterator[Matches]:
        *each, together = memory
        found = [
            reader.match_part(batch, source, inquiry, start, stop, output_ids, of_reader)
            for (reader, batch), of_reader in zip(others, each, strict=True)
        ]
        small = together.joined(found, start, stop - start)
        if not readers or largest < 0:
            yield small
            return
        main, batch = readers[largest], coded[largest].part(start, stop)
        if main.tells_ids(batch) and small.codes.dtype == np.int32:
            beside = OtherSegments(small.offset, together.with_spare(len(small)))
            yield from main.match_beside(batch, start, output_ids, beside)
        else:
            for part in main.match(batch, source, inquiry, start, output_ids):
                yield joined([part, small.part(part.first, len(part.offset) - 1)], part.first, len(part.offset) - 1)

    step = max(1, min(EVENTS_AT_ONCE, -(-source.size // threads)))
    if threads > 1:

        def copied(start: int) -> list[Matches]:
            with borrowed(len(others) + 1) as memory:
                return [part.copy() for part in run(start, min(source.size, start + step), memory)]

        with ThreadPoolExecutor(threads) as pool:
            for parts in pool.map(copied, range(0, source.size, step)):
                yield from parts
        return
    with borrowed(len(others) + 1) as memory:
        start = 0
        while start < source.size:
            stop, ids = min(source.size, start + step), 0
            for part in run(start, stop, memory):
                ids += len(part)
                yield part
            fitting = IDS_AT_ONCE * (stop - start) // max(1, ids)
            start, step = stop, max(FEW_EVENTS, min(EVENTS_AT_ONCE, fitting))
