"""Matcher: the engine that Tocsin runs on, whatever a subscription asks and an event offers.

Subscriptions live in a SubscriptionIndex (index/subscription_index.py), a few tiers of immutable segments. Matching is
always: candidates by the index, then deciders. Events are coded once per tier (index/encode.py) and joined with it by
kernels (columnar/); what their rows leave open is decided by deciders.py, cheapest first. The answer is that of
language/semantics.py. docs/engine.md explains how.

The kernels are compiled once after an install, for a minute or two. Until then the definition itself answers for few
subscriptions and few events (young.py): `index` is empty before it is asked for.

    matcher = Matcher(schema)    # without one, attributes have the types of what they are compared with
    matcher.subscribe("ann", "car where price < 0.8 * estimate and brand in ('mini', 'cooper')")
    matcher.match({"event_type": "car", "brand": "mini", "price": 900, "estimate": 1200})    # ['ann']
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.bulk import load_bulk
from tocsin.compile.ids import id_at
from tocsin.compile.normalise import normalise
from tocsin.compile.table import ConjunctionTable
from tocsin.errors import DuplicateSubscription, EventRejected, NotSupported, TooLarge, UnknownSubscription, Violation
from tocsin.index.build import Lifetimes
from tocsin.index.encode import EventColumns, EventObjects, EventSource, source_of
from tocsin.index.subscription_index import ALWAYS, IndexStats, Lifetime, SubscriptionIndex
from tocsin.language import BoundSubscription, Explanation, Subscription, explain, parse
from tocsin.language.documents import BadLine, read_lines
from tocsin.language.formula import Operators
from tocsin.language.offer import is_offer, needs_scan
from tocsin.matching import young
from tocsin.matching.columnar.matches import Matches, TierIds
from tocsin.matching.columnar.near_misses import near_misses, predicate_text
from tocsin.matching.columnar.segment_matcher import WorkCounters, visited_share
from tocsin.matching.columnar.tier_reader import OUTPUT_IDS, TierReader, match_tiers
from tocsin.matching.engine import Capabilities, Engine, Failure, Inquiry, Match, SubscriptionId
from tocsin.matching.frames import decoded, match_frame
from tocsin.matching.offering import OfferMatches, match_offers
from tocsin.matching.recall import recalled
from tocsin.matching.young import OwnWords, YoungMatcher, compiling_beside, kernels_kept
from tocsin.offers.analysis import Analysis
from tocsin.offers.programs import Programs
from tocsin.operators.operator import StoredCalls
from tocsin.operators.problem import Schedule
from tocsin.operators.questions import OperatorQuestions
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Schema, Value, arrived
from tocsin.schema.shown import Shown, ShownTable

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.explain import ConjunctionPlans
    from tocsin.index.subscription_index import Tier

log = logging.getLogger(__name__)
Int64s = npt.NDArray[np.int64]
_NOTHING = np.zeros(0, np.int64)
WORK = tuple(field.name for field in fields(WorkCounters))
SAMPLE = 1_024  # events that the planner is shown
_COMPILING = "compiling kernels, once after an install, which takes a minute or two; tocsin warm does it ahead"


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
    asks_arrival: bool = False


RawEvent = Event | Mapping[str, Any] | str | bytes  # the last two: its JSON


class Matcher(Engine, Shown):
    """Matches events and offers, singly or in batches, against a living set of subscriptions."""

    name: ClassVar[str] = "columnar"
    capabilities: ClassVar[Capabilities] = Capabilities(decided_leaves=True)

    def __init__(
        self,
        schema: Schema | None = None,
        index: SubscriptionIndex | None = None,
        *,
        operators: Registry | None = None,
        programs: Programs | None = None,
        schedule: str | Callable[[], Schedule] = "adaptive",
        merge_beside: bool = True,
        numbered: bool = False,
    ) -> None:
        """Make a matcher of an index, of subscriptions that may call these operators, in the order of a schedule.

        Without a schema, attributes have the types of what they are compared with (schema/readings.py). Offers that come as documents may call programs.

        `numbered`: it tells subscriptions' numbers, counted through all tiers, for ids.
        """
        schema = Schema.dynamic() if schema is None else schema
        if not isinstance(schema, Schema):
            raise NotSupported(
                f"a {type(schema).__name__} is no schema; of sample events: Matcher(Schema.infer(events))"
            )
        super().__init__(schema)
        self.operators: Registry = operators or Registry()
        self.programs = Programs() if programs is None else programs
        self._index = SubscriptionIndex(schema) if index is None else index
        self._growing = threading.RLock()
        self._young: YoungMatcher | None = None  # holds the subscriptions as long as the index is not needed
        self._written = OwnWords()
        if index is None and not numbered and (compiling_beside.is_set() or not kernels_kept()):
            self._young = YoungMatcher(schema, self.operators, self.programs)
            self._young.work = self.work
        self.asked = OperatorQuestions(schema, self.operators, schedule)
        self._analysis = Analysis(schema, self.programs, self.operators)
        self._schedule = schedule
        self._merge_beside = merge_beside
        self._numbered = numbered
        self._readers: dict[tuple[str, int | None], TierReader] = {}
        self._read = TiersRead((), [], None)  # of the last match

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, id: SubscriptionId, expression: str | Subscription) -> None:
        """Hold a subscription written as text, or as a tree; raises LanguageError where it is wrong."""
        default = self.schema.default_type
        if default is not None and self.schema.event_types[default].unknown == "dynamic":
            tree = parse(expression) if isinstance(expression, str) else expression
            # A matcher without a schema learns the types that are asked for; what is no tree is refused by bind.
            for name in getattr(tree, "event_types", ()):
                if name not in self.schema.event_types:
                    self._follow(self.schema.add_event_type(name, (), unknown="dynamic"))
        super().subscribe(id, expression)

    def add(self, id: SubscriptionId, subscription: BoundSubscription, lifetime: Lifetime = ALWAYS) -> None:
        form = normalise(subscription)
        with self._growing:
            if self._young is None or lifetime is not ALWAYS or not self._young.takes():
                self.index.add(id, form, lifetime)
            else:
                self._young.add(id, subscription)
            if lifetime is ALWAYS:
                self._written.add(id, subscription)

    def remove(self, id: SubscriptionId, seq: int = 0) -> None:
        with self._growing:
            if self._young is None or seq:
                self.index.remove(id, seq)
            else:
                self._young.remove(id)
            self._written.remove(id)

    @property
    def needs_kernels(self) -> bool:
        """Whether the index answers; else the definition does, and nobody waits for a compiler."""
        return self._young is None

    @property
    def index(self) -> SubscriptionIndex:
        """The index of all subscriptions: from now on it answers, and no longer the definition."""
        with self._growing:
            if self._young is not None:
                shown = sys.stderr.isatty() or "ipykernel" in sys.modules  # by index/jit.py
                if len(self._young) and not shown and not kernels_kept():
                    log.warning(_COMPILING)
                for id, subscription in self._young.held():
                    self._index.add(id, normalise(subscription))
                self._young = None
        return self._index

    @index.setter
    def index(self, index: SubscriptionIndex) -> None:
        with self._growing:
            self._index, self._young, self._written = index, None, OwnWords()

    def _definition(self, events: int) -> YoungMatcher | None:
        """Return the engine that asks the definition where it is to answer for so many events; None: the index is."""
        young = self._young
        return young if young is not None and young.answers(events) else None

    def unsubscribe(self, id: SubscriptionId) -> None:
        """Let go of a subscription; raises UnknownSubscription."""
        self.remove(id)

    def set_schema(self, schema: Schema) -> None:
        """Go on with an extension of the schema; who added what it moves (schema/growth.py) adds it anew."""
        _ = self.index  # what is held is bound to the schema so far
        self._written = OwnWords()
        self._follow(schema)

    def _follow(self, schema: Schema) -> None:
        self._index.set_schema(schema)
        self.schema = schema
        self.asked = self.asked.cleared(schema)
        self._analysis = Analysis(schema, self.programs, self.operators)
        self._readers, self._read = {}, TiersRead((), [], None)

    def load(self, lines: Iterable[bytes | str], *, operators: Operators | None = None) -> list[BadLine]:
        """Hold the subscriptions of these lines by the bulk path; return the bad lines."""
        rest = iter(lines)
        few = [] if operators is not None else list(islice(rest, young.MOST_YOUNG + 1))
        if few and (bad := self._load_few(few)) is not None:
            return bad
        loaded = load_bulk(chain(few, rest), self.schema, operators or self.operators)
        self.load_table(loaded.table)
        if 0 < len(few) <= young.MOST_YOUNG:
            self._write_down(read_lines(few, self.schema, self.operators))
        return loaded.errors

    def _load_few(self, lines: Sequence[bytes | str]) -> list[BadLine] | None:
        """Hold the subscriptions of these lines without the index; return the bad lines, or None: they are for the bulk path."""
        with self._growing:
            if self._young is None or not self._young.takes(len(lines)):
                return None
            read = list(read_lines(lines, self.schema, self.operators))
            good = [one for one in read if not isinstance(one, BadLine)]
            try:
                grown = self._young.snapshot()
                for id, subscription in good:
                    normalise(subscription)
                    grown.add(id, subscription)
            except (TooLarge, DuplicateSubscription):
                return None
            grown.work, self._young = self.work, grown
            self._write_down(good)
            return [one for one in read if isinstance(one, BadLine)]

    def _write_down(self, read: Iterable[tuple[SubscriptionId, BoundSubscription] | BadLine]) -> None:
        for one in read:
            if not isinstance(one, BadLine):
                self._written.add(*one)

    def load_table(self, table: ConjunctionTable, lifetimes: Lifetimes | None = None) -> None:
        """Hold the subscriptions of a compiled table."""
        self.index.add_table(table, lifetimes)

    def snapshot(self) -> Matcher:
        return Matcher(
            self.schema, self.index.snapshot(), operators=self.operators, programs=self.programs, schedule=self._schedule,
            merge_beside=self._merge_beside, numbered=self._numbered,
        )  # fmt: skip

    def stats(self) -> IndexStats:
        """Return figures of the index, which is empty as long as the definition answers."""
        if self._young is not None:
            return IndexStats(len(self._young), (), 0, 0)
        return self.index.stats()

    def __len__(self) -> int:
        return len(self._index if self._young is None else self._young)

    def __repr__(self) -> str:
        types = ", ".join(self.schema.event_types)
        return f"<Matcher of {len(self)} subscriptions to {types if len(types) < 60 else f'{types[:60]}…'}>"

    def as_table(self) -> ShownTable:
        stats = self.stats()
        rows = [(field.name.replace("_", " "), str(getattr(stats, field.name))) for field in fields(stats)]
        return ShownTable(repr(self).strip("<>"), ("figure", ""), rows)

    # --- matching -----------------------------------------------------------------------------------------------------

    def admit(self, raw: RawEvent) -> Event:
        """Return an event as the schema has it, admitted already or not; raises EventRejected."""
        if isinstance(raw, Event):
            return raw
        if isinstance(raw, str | bytes):
            raw = decoded(raw)
        if not isinstance(raw, Mapping):
            words = f"an event is a mapping, or its JSON, and not {type(raw).__name__}; a table of them: match_frame"
            raise EventRejected([Violation("not an object", None, words)])
        return self._analysis.analyse(raw) if is_offer(raw) else self.schema.admit(raw)

    @property
    def stored_operators(self) -> StoredCalls:
        """What stored subscriptions are bound to: operators that are gone do not keep one from being held."""
        return self.asked.stored

    @property
    def takes_long(self) -> bool:
        """Whether there is something to prefetch: operators that subscriptions call, or programs that offers do."""
        if self._young is not None:
            return self._young.asks_operators or self.programs.take_long
        readers = self._current().readers
        return any(reader.deciders.asks for reader in readers) or self.programs.take_long

    def match(self, event: RawEvent, *, seq: int | None = None, arrival: int | None = None) -> list[SubscriptionId]:
        """Return the ids that the event satisfies; as of a seq and an arrival time (microseconds), where given."""
        as_of_now = seq is None and arrival is None
        if as_of_now and (definition := self._definition(1)) is not None:
            return definition.match(self.admit(event))
        ids = (
            self.match_raw(event)
            if as_of_now and type(event) is dict
            else self.match_array(event, seq=seq, arrival=arrival)
        )
        found: list[SubscriptionId] = ids.tolist()
        return found

    def find(
        self,
        event: RawEvent,
        *,
        seq: int | None = None,
        arrival: int | None = None,
        inquiry: Inquiry | None = None,
    ) -> tuple[list[Match], list[Failure]]:
        """Return the matches of an event, with the values of variables and what is computed; and what failed."""
        plain = seq is None and arrival is None and inquiry is None
        if plain and (definition := self._definition(1)) is not None:
            return definition.find(self.admit(event))
        inquiry = Inquiry() if inquiry is None else inquiry
        ids = self.match_array(event, seq=seq, arrival=arrival, inquiry=inquiry).tolist()
        return inquiry.matches(0, ids), inquiry.failed(0, set(ids))

    def match_array(
        self,
        event: RawEvent,
        *,
        seq: int | None = None,
        arrival: int | None = None,
        inquiry: Inquiry | None = None,
    ) -> npt.NDArray[Any]:
        """Return what `match` returns as an array, which takes a fraction of the time where the matches are many.

        It may be used again by the next call: keep what is to stay by `copy()`.
        """
        event, read = self.admit(event), self._current()
        if read.asks_arrival:
            event = arrived(event, arrival)
        as_of = (_one(seq), _one(arrival))
        inquiry = Inquiry() if inquiry is None else inquiry
        if needs_scan(event):
            (matches,) = self._match_offers([event], [0], inquiry, *as_of)
            return matches.told
        source = EventObjects([event])
        found: list[npt.NDArray[Any]] = []
        for reader in read.readers:
            batch = reader.tier.encoder.encode_one(event, *as_of, source=source)
            found.append(reader.ids(reader.matcher().match_one(batch, reader.decider(source, inquiry))))
        ids = found[0] if len(found) == 1 else np.concatenate(found) if found else _NOTHING
        if read.dictionary is not None:
            ids = read.dictionary.take(ids)
        self.work.events += 1
        self.work.matches += len(ids)
        return ids

    def match_raw(self, raw: dict[str, Any]) -> npt.NDArray[Any]:
        """Return what `match_array` returns for the event that `raw` (JSON-like) describes; raises EventRejected.

        Events of a shape that was met before are coded without being admitted one attribute after the other.
        """
        read = self._current()
        found = []
        for reader in read.readers if type(raw) is dict and not is_offer(raw) else ():
            ids = reader.match_raw(raw)
            if ids is None:
                return self.match_array(raw)
            found.append(ids)
        if not found:
            return self.match_array(raw)
        ids = found[0] if len(found) == 1 else np.concatenate(found)
        self.work.events += 1
        self.work.matches += len(ids)
        return ids if read.dictionary is None else read.dictionary.take(ids)

    def match_batch(self, events: Sequence[RawEvent]) -> list[list[SubscriptionId]]:
        """Return the ids that each event satisfies, as lists.

        Each id becomes a Python object, which takes some 30 ns: many times what finding it takes. Where an event has
        thousands of matches, `match_source`, `match_arrow` and `match_frame` have them as arrays, and make nothing else.
        """
        admitted = [self.admit(event) for event in events]
        if (definition := self._definition(len(admitted))) is not None:
            return definition.match_batch(admitted)
        return [ids for part in self.match_source(EventObjects(admitted)) for ids in part.lists()]

    def find_batch(self, events: Sequence[RawEvent]) -> list[tuple[list[Match], list[Failure]]]:
        """Return the matches of each event, with the values of variables and what is computed; and what failed."""
        admitted = [self.admit(event) for event in events]
        if (definition := self._definition(len(admitted))) is not None:
            return definition.find_batch(admitted)
        inquiry = Inquiry()
        parts = self.match_source(EventObjects(admitted), inquiry=inquiry)
        listed = [ids for part in parts for ids in part.lists()]
        return [(inquiry.matches(at, ids), inquiry.failed(at, set(ids))) for at, ids in enumerate(listed)]

    def find_all(
        self, events: Sequence[Event], inquiry: Inquiry, arrival: Int64s | None = None
    ) -> tuple[Int64s, Int64s]:
        """Return (position of the event, id) of every match, of subscriptions whose ids are numbers.

        The times of arrival (microseconds) are what `now()` is; who says none has the clock's.
        """
        # What operators and programs said is kept by the index's deciders only, which call each of them once.
        if not self.takes_long and (definition := self._definition(len(events))) is not None:
            return definition.find_all(events, inquiry, arrival)
        source = source_of(events)
        if arrival is not None and self._current().asks_arrival:
            source = source.arrived(arrival)
            events = source.events if isinstance(source, EventObjects) else events
        if len(events) == 1 and isinstance(source, EventObjects):
            ids = np.asarray(self.match_array(events[0], inquiry=inquiry), np.int64)
            return np.zeros(len(ids), np.int64), ids.copy()
        positions, found = [_NOTHING], [_NOTHING]
        for part in self.match_source(source, inquiry=inquiry):
            counts = part.counts()
            positions.append(np.repeat(np.arange(part.first, part.first + len(counts)), counts))
            found.append(part.ids.astype(np.int64))
        return np.concatenate(positions), np.concatenate(found)

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
        source = EventColumns(batch, self.schema, strict=True)
        return self.match_source(source, seq=seq, arrival=arrival, threads=threads, output_ids=output_ids)

    def match_source(
        self,
        source: EventSource,
        *,
        seq: Int64s | None = None,
        arrival: Int64s | None = None,
        threads: int = 1,
        output_ids: int = OUTPUT_IDS,
        inquiry: Inquiry | None = None,
    ) -> Iterator[Matches]:
        """Yield the matches of a batch of events, in chunks; `threads` share the events among them.

        The inquiry is told what else is found out.
        """
        if source.size >= SAMPLE:
            self.index.sample = source.sample(SAMPLE)
        if self._current().asks_arrival:
            source = source.arrived(arrival)
        if isinstance(source, EventObjects) and any(map(needs_scan, source.events)):
            yield from self._match_mixed(source, seq, arrival, threads, Inquiry() if inquiry is None else inquiry)
            return
        coded = self.code(source, seq, arrival, raw=True)
        yield from self.match_coded(coded, threads=threads, output_ids=output_ids, inquiry=inquiry)

    def _match_mixed(
        self, source: EventObjects, seq: Int64s | None, arrival: Int64s | None, threads: int, inquiry: Inquiry
    ) -> Iterator[Matches]:
        """Yield the matches of events of which some have rules or compute attributes, one by one in their order."""
        scanned = [at for at, event in enumerate(source.events) if needs_scan(event)]
        rest = [at for at, event in enumerate(source.events) if not needs_scan(event)]
        offers = [source.events[at] for at in scanned]
        found = dict(
            zip(scanned, self._match_offers(offers, scanned, inquiry, _of(seq, scanned), _of(arrival, scanned), threads),
                strict=True)
        )  # fmt: skip
        told: dict[int, npt.NDArray[Any]] = {at: matches.told for at, matches in found.items()}
        inner = inquiry.renumbered(rest)
        plain = EventObjects([source.events[at] for at in rest])
        for part in self.match_source(
            plain, seq=_of(seq, rest), arrival=_of(arrival, rest), threads=threads, inquiry=inner
        ):
            for at, ids in enumerate(part.lists(), part.first):
                told[rest[at]] = np.array(ids, object if self._current().dictionary is not None else np.int64)
        inquiry.take_over(inner, rest)
        for at in range(source.size):
            yield Matches(at, np.array([0, len(told[at])], np.int64), told[at])

    def match_offers(
        self, offers: Sequence[Any], *, threads: int = 1, inquiry: Inquiry | None = None
    ) -> list[OfferMatches]:
        """Return whom each offer matches, with what is computed, as arrays; offers may be documents, or analysed before."""
        admitted = [self.admit(offer) for offer in offers]
        if self._current().asks_arrival:
            admitted = [arrived(offer) for offer in admitted]
        inquiry = Inquiry() if inquiry is None else inquiry
        return self._match_offers(admitted, range(len(admitted)), inquiry, threads=threads)

    def _match_offers(
        self, offers: Sequence[Any], numbers: Sequence[int], inquiry: Inquiry, seq: Int64s | None = None,
        arrival: Int64s | None = None, threads: int = 1,
    ) -> list[OfferMatches]:  # fmt: skip
        _, readers, dictionary, _ = self._current()
        found = match_offers(readers, offers, numbers, inquiry, seq, arrival, threads)
        if dictionary is not None:
            found = [OfferMatches(dictionary.take(matches.told), matches.computed) for matches in found]
        for number, matches in zip(numbers, found, strict=True):
            self.work.events += 1
            self.work.matches += len(matches)
            inquiry.offers[number] = matches
        return found

    def code(
        self, source: EventSource, seq: Int64s | None = None, arrival: Int64s | None = None, *, raw: bool = False
    ) -> CodedEvents:
        """Return the events in the code spaces of the tiers of this moment (`raw`: see SegmentEncoder.encode)."""
        _, readers, dictionary, _ = self._current()
        coded = [reader.tier.encoder.encode(source, seq, arrival, raw=raw) for reader in readers]
        return CodedEvents(source, readers, coded, dictionary)

    def match_coded(
        self, events: CodedEvents, *, threads: int = 1, output_ids: int = OUTPUT_IDS, inquiry: Inquiry | None = None
    ) -> Iterator[Matches]:
        """Yield what match_source yields, for events that are coded already."""
        source, readers, coded, dictionary = events
        inquiry = Inquiry() if inquiry is None else inquiry
        self.work.events += source.size
        if len(readers) == 1 and threads == 1:
            parts = readers[0].match(coded[0], source, inquiry, 0, output_ids)
        else:
            parts = match_tiers(readers, coded, source, inquiry, threads, output_ids)
        for part in parts:
            self.work.matches += len(part)
            yield part if dictionary is None else replace(part, dictionary=dictionary)
        self._count_work()

    def match_frame(
        self, frame: Any, *, column: str = "subscription", threads: int = 1, progress: bool | None = None
    ) -> Any:
        """Return the rows of a table of events that match, once for each subscription, whose id is in `column`.

        A DataFrame of pandas or polars, an Arrow table, batch, reader or dataset, or events as dicts or lines of JSON; the
        answer is of the same kind. `progress` shows a bar, by default from a million rows on. Raises BadValue with the row.
        """
        return match_frame(self, frame, column=column, threads=threads, progress=progress)

    def count_arrow(self, batch: pa.RecordBatch, *, seq: Int64s | None = None, arrival: Int64s | None = None) -> Int64s:
        """Return how many subscriptions each row of a record batch satisfies: faster than finding out which."""
        source = EventColumns(batch, self.schema, strict=True)
        if source.size >= SAMPLE:
            self.index.sample = source.sample(SAMPLE)
        if self._current().asks_arrival:
            source = source.arrived(arrival)
        events = self.code(source, seq, arrival, raw=True)
        counts = np.zeros(source.size, np.int64)
        for reader, coded in zip(events.readers, events.coded, strict=True):
            counts += reader.count(coded, source, Inquiry())
        self.work.events += source.size
        self.work.matches += int(counts.sum())
        self._count_work()
        return counts

    def explain(self, id: SubscriptionId, event: RawEvent, *, arrival: int | None = None) -> Explanation:
        """Return why an event, or offer, and a held subscription match, or do not; raises UnknownSubscription."""
        written = self._written.get(id)
        if written is None and self._young is not None:
            written = self._young.subscription(id)
        if written is not None:
            return explain(written, arrived(self.admit(event), arrival), self.operators)
        for tier in reversed(self.index.tiers()):
            number = tier.number_of(id)
            if number is not None:
                bound = recalled(tier.segment, number, self.schema, self.operators)
                return explain(bound, arrived(self.admit(event), arrival), self.operators)
        raise UnknownSubscription(id)

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

    def plan(self, id: SubscriptionId) -> ConjunctionPlans:
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
        tiers = (self._index if self._young is None else self.index).tiers()
        if self._merge_beside and len(tiers) > 1:
            self._index.merge_in_background()
        if self._read.tiers is tiers:
            return self._read
        texts = any(tier.segment.ids_are_text for tier in tiers)
        known, first, found = self._readers, 0, {}
        for tier in tiers:
            key = (tier.name, first if self._numbered or texts else None)
            found[key] = known.get(key) or TierReader(tier, self.schema, self.asked, key[1])
            first += len(tier.segment)
        self._readers, readers = found, list(found.values())
        held = TierIds([tier.segment.ids for tier in tiers]) if texts and not self._numbered else None
        asks_arrival = any(reader.deciders.asks_arrival for reader in readers)
        self._read = read = TiersRead(tiers, readers, held, asks_arrival)
        return read


def _of(values: Int64s | None, chosen: Sequence[int]) -> Int64s | None:
    return None if values is None else values[list(chosen)]


def _one(number: int | None) -> Int64s | None:
    return None if number is None else np.array([number], np.int64)
