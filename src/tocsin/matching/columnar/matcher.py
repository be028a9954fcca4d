"""ColumnarMatcher: the engine that Tocsin runs on.

Subscriptions live in a SubscriptionIndex (index/subscription_index.py), a few tiers of immutable segments; events are
coded once per tier (index/encode.py) and joined with it by kernels (segment_matcher.py). docs/engine.md explains how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.bulk import load_bulk
from tocsin.compile.ids import id_at
from tocsin.compile.normalise import normalise
from tocsin.compile.table import ConjunctionTable
from tocsin.errors import UnknownSubscription
from tocsin.index.build import Lifetimes
from tocsin.index.encode import EventColumns, EventObjects, EventSource
from tocsin.index.subscription_index import ALWAYS, IndexStats, Lifetime, SubscriptionIndex
from tocsin.language import BoundSubscription
from tocsin.language.documents import BadLine
from tocsin.matching.columnar.checks import SourceChecks
from tocsin.matching.columnar.code_text import predicate_text
from tocsin.matching.columnar.matches import Matches
from tocsin.matching.columnar.near_misses import near_misses
from tocsin.matching.columnar.segment_matcher import WorkCounters, visited_share
from tocsin.matching.columnar.tier_ids import TierIds
from tocsin.matching.columnar.tier_reader import OUTPUT_IDS, TierReader, match_tiers
from tocsin.matching.matcher import Matcher, SubscriptionId
from tocsin.schema import Event, Schema, Value

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.explain import ConjunctionPlan
    from tocsin.index.tier import Tier

Int64s = npt.NDArray[np.int64]
_NOTHING = np.zeros(0, np.int64)
WORK = tuple(field.name for field in fields(WorkCounters))
SAMPLE = 1_024  # events that the planner is shown


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
    readers: Sequence[TierReader]
    coded: Sequence[CodedBatch]
    dictionary: TierIds | None


class TiersRead(NamedTuple):
    """The tiers of one moment, a reader for each, and the dictionary of what they tell where ids are texts."""

    tiers: Sequence[Tier]
    readers: list[TierReader]
    dictionary: TierIds | None


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
        self._readers: dict[tuple[str, int | None], TierReader] = {}
        self._read = TiersRead((), [], None)  # of the last match

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
        _, readers, dictionary = self._current()
        for reader in readers:
            batch = reader.tier.encoder.encode_one(event, *as_of, source=source)
            found.append(reader.ids(reader.matcher().match_one(batch, SourceChecks(reader.checks, source))))
        ids = found[0] if len(found) == 1 else np.concatenate(found) if found else _NOTHING
        if dictionary is not None:
            ids = dictionary.take(ids)
        self.work.events += 1
        self.work.matches += len(ids)
        return ids

    def match_raw(self, raw: dict[str, Any]) -> npt.NDArray[Any]:
        """Return what `match_array` returns for the event that `raw` (JSON-like) describes; raises EventRejected.

        Events of a shape that was met before are coded without being admitted one attribute after the other.
        """
        read = self._current()
        found = []
        for reader in read.readers if type(raw) is dict else ():
            ids = reader.match_raw(raw)
            if ids is None:
                return self.match_array(self.schema.admit(raw))
            found.append(ids)
        if not found:
            return self.match_array(self.schema.admit(raw))
        ids = found[0] if len(found) == 1 else np.concatenate(found)
        self.work.events += 1
        self.work.matches += len(ids)
        return ids if read.dictionary is None else read.dictionary.take(ids)

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
        _, readers, dictionary = self._current()
        coded = [reader.tier.encoder.encode(source, seq, arrival, raw=raw) for reader in readers]
        return CodedEvents(source, readers, coded, dictionary)

    def match_coded(self, events: CodedEvents, *, threads: int = 1, output_ids: int = OUTPUT_IDS) -> Iterator[Matches]:
        """Yield what match_source yields, for events that are coded already."""
        source, readers, coded, dictionary = events
        self.work.events += source.size
        if len(readers) == 1 and threads == 1:
            parts = readers[0].match(coded[0], source, 0, output_ids)
        else:
            parts = match_tiers(readers, coded, source, threads, output_ids)
        for part in parts:
            self.work.matches += len(part)
            yield part if dictionary is None else replace(part, dictionary=dictionary)
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
        for reader in self._current().readers:
            segment = reader.tier.segment
            for miss in near_misses(segment, reader.tier.encoder.encode_one(event), limit):
                id = id_at(segment.ids, miss.number)
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

    def _current(self) -> TiersRead:
        """Return a reader for each tier of this moment; those of tiers that are gone are let go."""
        tiers = self.index.tiers()
        if self._merge_beside and len(tiers) > 1:
            self.index.merge_in_background()
        if self._read.tiers is tiers:
            return self._read
        texts = any(tier.segment.ids_are_text for tier in tiers)
        known, first, found = self._readers, 0, {}
        for tier in tiers:
            key = (tier.name, first if self._numbered or texts else None)
            found[key] = known.get(key) or TierReader(tier, self.schema, key[1])
            first += len(tier.segment)
        self._readers, readers = found, list(found.values())
        held = TierIds([tier.segment.ids for tier in tiers]) if texts and not self._numbered else None
        self._read = read = TiersRead(tiers, readers, held)
        return read


def _one(number: int | None) -> Int64s | None:
    return None if number is None else np.array([number], np.int64)
