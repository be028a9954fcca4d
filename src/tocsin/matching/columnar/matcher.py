"""ColumnarMatcher: the engine that Tocsin runs on.

Subscriptions live in a SubscriptionIndex (index/subscription_index.py), a few tiers of immutable segments; events are
coded once per tier (index/encode.py) and joined with it by kernels (segment_matcher.py). docs/engine.md explains how.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.bulk import load_bulk
from tocsin.compile.normalise import normalise
from tocsin.compile.table import ConjunctionTable
from tocsin.errors import UnknownSubscription
from tocsin.index.build import Lifetimes
from tocsin.index.encode import EventColumns, EventObjects, EventSource
from tocsin.index.layout import Section
from tocsin.index.subscription_index import ALWAYS, IndexStats, Lifetime, SubscriptionIndex
from tocsin.index.tier import Tier
from tocsin.language import BoundSubscription
from tocsin.language.documents import BadLine
from tocsin.matching.columnar.checks import Checks
from tocsin.matching.columnar.code_text import predicate_text
from tocsin.matching.columnar.finish import finisher_of
from tocsin.matching.columnar.matches import Matches, in_sequence, joined
from tocsin.matching.columnar.near_misses import near_misses
from tocsin.matching.columnar.segment_matcher import (
    NOTHING_BESIDE,
    Beside,
    SegmentMatcher,
    WorkCounters,
    beside_of,
    visited_share,
)
from tocsin.matching.matcher import Matcher, SubscriptionId
from tocsin.schema import Event, Schema, Value

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.explain import ConjunctionPlan

Int64s = npt.NDArray[np.int64]
OUTPUT_IDS = 1 << 18  # ids of one chunk of matches: as many as stay in the cache between being found and being used
_NOTHING = np.zeros(0, np.int64)
WORK = tuple(field.name for field in fields(WorkCounters))
SAMPLE = 1_024  # events that the planner is shown
EVENTS_AT_ONCE = 4_096  # whose matches in several tiers are put together at once


@dataclass(frozen=True, slots=True)
class NearMatch:
    """A subscription that an event fails by one predicate."""

    id: SubscriptionId
    attribute: str
    wanted: str  # the predicate, in words
    actual: tuple[Value, ...] | None  # what the event has; None where it does not bind the attribute


class CodedEvents(NamedTuple):
    """A batch of events as the tiers of one moment read it."""

    source: EventSource
    readers: Sequence[_TierReader]
    coded: Sequence[CodedBatch]


class ColumnarMatcher(Matcher):
    """Matches events, singly or in batches, against a living set of subscriptions."""

    name: ClassVar[str] = "columnar"

    def __init__(
        self,
        schema: Schema,
        index: SubscriptionIndex | None = None,
        *,
        merge_beside: bool = True,
        numbered: bool = False,
    ) -> None:
        """Make a matcher of an index; `numbered`: it tells subscriptions' numbers, counted through all tiers, for ids."""
        super().__init__(schema)
        self.index = index or SubscriptionIndex(schema)
        self._merge_beside = merge_beside
        self._numbered = numbered
        self._readers: dict[tuple[str, int | None], _TierReader] = {}

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def add(self, id: SubscriptionId, subscription: BoundSubscription, lifetime: Lifetime = ALWAYS) -> None:
        self.index.add(id, normalise(subscription), lifetime)

    def remove(self, id: SubscriptionId, seq: int = 0) -> None:
        self.index.remove(id, seq)

    def load(self, lines: Iterable[bytes | str]) -> list[BadLine]:
        """Hold the subscriptions of these lines by the bulk path; return the bad lines."""
        loaded = load_bulk(lines, self.schema)
        self.load_table(loaded.table)
        return loaded.errors

    def load_table(self, table: ConjunctionTable, lifetimes: Lifetimes | None = None) -> None:
        """Hold the subscriptions of a compiled table."""
        self.index.add_table(table, lifetimes)

    def snapshot(self) -> ColumnarMatcher:
        return ColumnarMatcher(
            self.schema, self.index.snapshot(), merge_beside=self._merge_beside, numbered=self._numbered
        )

    def stats(self) -> IndexStats:
        """Return figures of the index."""
        return self.index.stats()

    def __len__(self) -> int:
        return len(self.index)

    # --- matching -----------------------------------------------------------------------------------------------------

    def match(self, event: Event, *, seq: int | None = None, arrival: int | None = None) -> list[SubscriptionId]:
        """Return the ids that the event satisfies; as of a seq and an arrival time (microseconds), where given."""
        found: list[SubscriptionId] = self.match_array(event, seq=seq, arrival=arrival).tolist()
        return found

    def match_array(self, event: Event, *, seq: int | None = None, arrival: int | None = None) -> npt.NDArray[Any]:
        """Return what `match` returns as an array, which takes a fraction of the time where the matches are many.

        It may be used again by the next call: keep what is to stay by `copy()`.
        """
        source = EventObjects([event])
        as_of = (_one(seq), _one(arrival))
        found: list[npt.NDArray[Any]] = []
        for reader in self._current():
            batch = reader.tier.encoder.encode_one(event, *as_of)
            found.append(reader.ids(reader.matcher().match_one(batch, partial(reader.checks.hold, source))))
        ids = found[0] if len(found) == 1 else np.concatenate(found) if found else _NOTHING
        self.work.events += 1
        self.work.matches += len(ids)
        return ids

    def match_batch(self, events: Sequence[Event]) -> list[list[SubscriptionId]]:
        return [ids for part in self.match_source(EventObjects(events)) for ids in part.lists()]

    def match_arrow(
        self,
        batch: pa.RecordBatch,
        *,
        seq: Int64s | None = None,
        arrival: Int64s | None = None,
        threads: int = 1,
        output_ids: int = OUTPUT_IDS,
    ) -> Iterator[Matches]:
        """Yield the matches of a record batch in the order of its rows, in chunks of about `output_ids` ids at most.

        A chunk's arrays may be used again by the next one: fresh memory is slow. Keep what is to stay by `copy()`.
        """
        source = EventColumns(batch, self.schema)
        return self.match_source(source, seq=seq, arrival=arrival, threads=threads, output_ids=output_ids)

    def match_source(
        self,
        source: EventSource,
        *,
        seq: Int64s | None = None,
        arrival: Int64s | None = None,
        threads: int = 1,
        output_ids: int = OUTPUT_IDS,
    ) -> Iterator[Matches]:
        """Yield the matches of a batch of events, in chunks; `threads` share the events among them."""
        if source.size >= SAMPLE:
            self.index.sample = source.sample(SAMPLE)
        coded = self.code(source, seq, arrival, raw=True)
        yield from self.match_coded(coded, threads=threads, output_ids=output_ids)

    def code(
        self, source: EventSource, seq: Int64s | None = None, arrival: Int64s | None = None, *, raw: bool = False
    ) -> CodedEvents:
        """Return the events in the code spaces of the tiers of this moment (`raw`: see SegmentEncoder.encode)."""
        readers = self._current()
        coded = [reader.tier.encoder.encode(source, seq, arrival, raw=raw) for reader in readers]
        return CodedEvents(source, readers, coded)

    def match_coded(self, events: CodedEvents, *, threads: int = 1, output_ids: int = OUTPUT_IDS) -> Iterator[Matches]:
        """Yield what match_source yields, for events that are coded already."""
        source, readers, coded = events
        self.work.events += source.size
        if len(readers) == 1 and threads == 1:
            parts = readers[0].match(coded[0], source, 0, output_ids)
        else:
            parts = _match_tiers(readers, coded, source, threads, output_ids)
        for part in parts:
            self.work.matches += len(part)
            yield part
        self._count_work()

    def count_arrow(self, batch: pa.RecordBatch, *, seq: Int64s | None = None, arrival: Int64s | None = None) -> Int64s:
        """Return how many subscriptions each row of a record batch satisfies: faster than finding out which."""
        source = EventColumns(batch, self.schema)
        if source.size >= SAMPLE:
            self.index.sample = source.sample(SAMPLE)
        events = self.code(source, seq, arrival, raw=True)
        counts = np.zeros(source.size, np.int64)
        for reader, coded in zip(events.readers, events.coded, strict=True):
            counts += reader.count(coded, source)
        self.work.events += source.size
        self.work.matches += int(counts.sum())
        self._count_work()
        return counts

    def near_misses(self, event: Event, limit: int = 100) -> list[NearMatch]:
        """Return subscriptions that the event fails by exactly one predicate, with that predicate and the actual values.

        One pass over all conjunctions. A subscription that the event satisfies by another conjunction is none.
        """
        matched, found = set(self.match(event)), []
        for reader in self._current():
            segment = reader.tier.segment
            for miss in near_misses(segment, reader.tier.encoder.encode_one(event), limit):
                id = segment.ids[miss.number : miss.number + 1].tolist()[0]
                if id not in matched and miss.number not in reader.tier.dead:
                    column = segment.columns[miss.column]
                    wanted = predicate_text(segment, miss)
                    found.append(NearMatch(id, column.attribute, wanted, event.values.get(column.attribute)))
        return found[:limit]

    def plan(self, id: SubscriptionId) -> list[ConjunctionPlan]:
        """Return how each conjunction of a subscription is found; raises UnknownSubscription.

        How many events visit its cluster is estimated from events that were matched before, where there were enough.
        """
        for tier in reversed(self.index.tiers()):
            number = tier.number_of(id)
            if number is not None:
                sample = self.index.sample
                coded = None if sample is None else tier.encoder.encode(sample)
                return tier.segment.plan(number, None if coded is None else visited_share(tier.segment, coded))
        raise UnknownSubscription(id)

    def _count_work(self) -> None:
        """Add up what the kernels have done."""
        counts = [reader.matcher().workspace.counters.tolist() for reader in self._readers.values()]
        self.work.details = dict(zip(WORK, map(sum, zip(*counts, strict=True)), strict=False))

    def _current(self) -> list[_TierReader]:
        """Return a reader for each tier of this moment; those of tiers that are gone are let go."""
        tiers = self.index.tiers()
        if self._merge_beside and len(tiers) > 1:
            self.index.merge_in_background()
        known, first, found = self._readers, 0, {}
        for tier in tiers:
            key = (tier.name, first if self._numbered else None)
            found[key] = known.get(key) or _TierReader(tier, self.schema, key[1])
            first += len(tier.segment) if self._numbered else 0
        self._readers = found
        return list(found.values())


class _TierReader:
    """What matching keeps for one tier: its checks, and a workspace for each thread.

    It tells ids, or numbers from `first_number` on.
    """

    def __init__(self, tier: Tier, schema: Schema, first_number: int | None = None) -> None:
        self.tier = tier
        self.first_number = first_number
        self.checks = Checks(tier.segment.checks, schema)
        self._own = threading.local()

    def matcher(self) -> SegmentMatcher:
        """Return this thread's matcher of the tier."""
        if not hasattr(self._own, "matcher"):
            self._own.matcher = SegmentMatcher(self.tier.segment)
        matcher: SegmentMatcher = self._own.matcher
        return matcher

    def match(self, coded: CodedBatch, source: EventSource, first: int, output_ids: int) -> Iterator[Matches]:
        """Yield the matches of coded events, the first of which is event `first` of the source."""
        if self.tells_ids(coded):
            yield from self.match_beside(coded, first, output_ids, NOTHING_BESIDE)
            return

        def check(number: int, events: Int64s) -> npt.NDArray[np.bool_]:
            return self.checks.hold(source, number, events + first)

        for chunk in self.matcher().match(coded, check, output_ids):
            yield Matches(first + chunk.first, chunk.offset, self.ids(chunk.numbers))

    def count(self, coded: CodedBatch, source: EventSource) -> Int64s:
        """Return how many subscriptions each of the source's events matches."""
        segment = self.tier.segment
        if finisher_of(segment, coded, None) is None:
            return self.matcher().count(coded)
        counts = np.zeros(source.size, np.int64)
        for part in self.match(coded, source, 0, OUTPUT_IDS):
            counts[part.first : part.first + len(part.offset) - 1] = part.counts()
        return counts

    def match_beside(self, coded: CodedBatch, first: int, output_ids: int, beside: Beside) -> Iterator[Matches]:
        """Yield the matches of coded events together with what stands beside; for a tier that tells ids."""
        for chunk in self.matcher().match(coded, None, output_ids, self.ids_of_rows, beside):
            yield Matches(first + chunk.first, chunk.offset, chunk.numbers)

    def tells_ids(self, coded: CodedBatch) -> bool:
        """Return whether kernels can write ids at once for these events: small numbers, and nothing to finish."""
        return self.ids_of_rows is not None and finisher_of(self.tier.segment, coded, None) is None

    def ids(self, numbers: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """Return the ids of the subscriptions; in memory that the next call uses again, where they are integers."""
        ids = self._compact_ids
        if ids is None:
            return numbers
        if ids.dtype == object:
            return ids[numbers]
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
        ids = self.tier.segment.ids
        if self.first_number is not None:
            ids = np.arange(self.first_number, self.first_number + len(ids))
        if ids.dtype == object or not len(ids):
            return ids
        if ids[0] == 0 and ids[-1] == len(ids) - 1 and (np.diff(ids) == 1).all():
            return None
        small = np.iinfo(np.int32).min <= ids.min() and ids.max() <= np.iinfo(np.int32).max
        return ids.astype(np.int32) if small else ids

    def match_part(self, coded: CodedBatch, source: EventSource, start: int, stop: int, output_ids: int) -> Matches:
        """Return the matches of events start .. stop-1 of the source."""
        parts = self.match(coded.part(start, stop), source, start, output_ids)
        return in_sequence([part.copy() for part in parts], start)


def _match_tiers(
    readers: Sequence[_TierReader], coded: Sequence[CodedBatch], source: EventSource, threads: int, output_ids: int
) -> Iterator[Matches]:
    """Yield the matches of all tiers, part by part of the events, so that no part becomes too large."""
    step = max(1, min(EVENTS_AT_ONCE, -(-source.size // threads)))
    largest = max(range(len(readers)), key=lambda at: len(readers[at].tier.segment), default=0)

    def run(start: int) -> Iterator[Matches]:
        stop = min(source.size, start + step)
        found = [
            reader.match_part(batch, source, start, stop, output_ids)
            for at, (reader, batch) in enumerate(zip(readers, coded, strict=True))
            if at != largest
        ]
        small = joined(found, start, stop - start)
        if not readers:
            yield small
            return
        main, batch = readers[largest], coded[largest].part(start, stop)
        if main.tells_ids(batch) and small.ids.dtype == np.int32:
            yield from main.match_beside(batch, start, output_ids, beside_of(small.offset, small.ids))
        else:
            for part in main.match(batch, source, start, output_ids):
                yield joined([part, small.part(part.first, len(part.offset) - 1)], part.first, len(part.offset) - 1)

    starts = range(0, source.size, step)
    if threads == 1:
        for start in starts:
            yield from run(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        for parts in pool.map(lambda start: [part.copy() for part in run(start)], starts):
            yield from parts


def _one(number: int | None) -> Int64s | None:
    return None if number is None else np.array([number], np.int64)
