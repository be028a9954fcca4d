"""SubscriptionIndex: a living set of subscriptions over immutable segments, built like a log-structured merge tree.

What is added waits until somebody matches, then becomes a small tier of its own, together with other small tiers; what
is removed is marked in its tier. Tiers are merged so that each is at least RATIO times as large as all newer ones
together: there are never more than a few, and a subscription is rebuilt a few times only, however many come. Merging
may run beside matching: readers hold a tuple of tiers, which is replaced, never edited.

Used by matching/matcher.py; stored by index_folder.py.

Tier: one segment of a living index, with what has happened to it since it was built.

The segment never changes on disk. What left it is remembered here, and marked in private memory so that matching skips
it; merging leaves it out for good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import Ids, id_at
from tocsin.compile.normalise import NormalForm
from tocsin.compile.table import ConjunctionTable
from tocsin.compile.table_builder import compile_table
from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.index.build import Lifetimes, build_segment
from tocsin.index.coder import IdPlaces, first_repeated
from tocsin.index.encode import EventSource, SegmentEncoder
from tocsin.index.explain import table_of
from tocsin.index.layout import FOREVER
from tocsin.index.lowering import Statistics, code_counts, statistics_of_sample
from tocsin.index.merge_tables import merge_tables
from tocsin.index.plan import PlanCosts
from tocsin.index.segment import Segment
from tocsin.schema import Schema

Int64s = npt.NDArray[np.int64]


@dataclass(eq=False)
class Tier:
    """A segment, and the subscriptions that left it since it was built.

    `dead` maps the number of a subscription to the seq from which on it matches nothing; 0 is at once and for every
    event. `several` are the attributes that have several values by now.
    """

    name: str
    segment: Segment
    dead: dict[int, int] = field(default_factory=dict)
    several: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.segment) - len(self.dead)

    @cached_property
    def encoder(self) -> SegmentEncoder:
        return SegmentEncoder(self.segment, self.several)

    def follow(self, schema: Schema) -> None:
        """Code events by the domains of a later version of the schema, and by which attributes have several values."""
        self.segment.set_domains(schema.domain_of)
        self.several = schema.multiple_attributes
        self.__dict__.pop("encoder", None)

    def number_of(self, id: object) -> int | None:
        """Return the number of a living subscription; None where the tier has none of that id."""
        number = self._places.of(id)
        return None if number is None or number in self.dead else number

    def first_of(self, ids: Ids) -> int | None:
        """Return the position of the first of these ids that is a living subscription's here; None where none is."""
        known = np.flatnonzero(self.numbers_of(ids) >= 0)
        return int(known[0]) if len(known) else None

    def numbers_of(self, ids: Ids) -> Int64s:
        """Return the numbers of living subscriptions; -1 where the tier has none of an id."""
        numbers = self._places.of_all(ids)
        if self.dead:
            numbers[np.isin(numbers, np.fromiter(self.dead, np.int64))] = -1
        return numbers

    @cached_property
    def _places(self) -> IdPlaces:
        return IdPlaces(self.segment.ids)

    def bury(self, number: int, seq: int = 0) -> None:
        """Let a subscription match nothing from seq on; 0: at once."""
        self.dead[number] = seq
        self._mark(np.array([number], np.int64), seq)

    def bury_all(self, dead: dict[int, int]) -> None:
        """Do so for many; those that are buried already stay as they are."""
        new = {number: seq for number, seq in dead.items() if number not in self.dead}
        self.dead.update(new)
        for seq in set(new.values()):
            self._mark(np.array([number for number, at in new.items() if at == seq], np.int64), seq)

    def _mark(self, numbers: Int64s, seq: int) -> None:
        if seq == 0:
            self.segment.kill(numbers)
        else:
            self.segment.delete(numbers, seq)

    def copied(self) -> Tier:
        """Return a tier whose later deletions do not reach this one."""
        whole = self.segment
        segment = Segment(whole.buffer.copy(), whole.directory, whole.columns, whole.properties)
        copy = Tier(self.name, segment, dict(self.dead), self.several)
        for seq in set(self.dead.values()) - {0}:
            segment.delete(np.array([number for number, at in self.dead.items() if at == seq], np.int64), seq)
        return copy

    def lifetimes(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return created, deleted, lease start and lease end of each subscription, written out."""
        count = len(self.segment)
        created, deleted, start, end = (np.asarray(each) for each in self.segment.lifetimes())
        return (
            created if len(created) else np.full(count, -1, np.int64),
            deleted if len(deleted) else np.full(count, FOREVER, np.int64),
            start if len(start) else np.full(count, -FOREVER, np.int64),
            end if len(end) else np.full(count, FOREVER, np.int64),
        )


# SubscriptionIndex.


RATIO = 16
SMALL = 256  # tiers of at most so many subscriptions are rebuilt with the next change, in a few milliseconds
PLANNED = 10_000  # a tier of at least so many conjunctions is planned by observed events, which takes milliseconds
DEAD_SHARE = 0.25  # of a tier, before it is rebuilt without them


class Lifetime(NamedTuple):
    """When one subscription is live: created < seq < deleted, lease_start <= arrival < lease_end (microseconds)."""

    created: int = -1
    deleted: int = FOREVER
    lease_start: int = -FOREVER
    lease_end: int = FOREVER


ALWAYS = Lifetime()


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Figures of a living index."""

    subscriptions: int
    tiers: tuple[int, ...]  # subscriptions of each tier, the largest first
    dead: int
    bytes: int


class SubscriptionIndex:
    """Subscriptions by id; add and remove are seen by the next `tiers()`."""

    def __init__(self, schema: Schema, tiers: Iterable[Tier] = (), *, first_name: int = 1) -> None:
        self.schema = schema
        self._tiers: tuple[Tier, ...] = tuple(tiers)
        self._pending: dict[Any, tuple[NormalForm, Lifetime]] = {}
        self._lock = threading.RLock()
        self._one_merge = threading.Lock()  # taken before _lock, by who replaces tiers that it has looked at before
        self._in_merge: frozenset[str] = frozenset()  # names of the tiers that are being merged: nobody else moves them
        self._merging: threading.Thread | None = None
        self.next_name = first_name  # of tiers: a number that was never used in this index
        self.sample: EventSource | None = None  # events of late: larger tiers are planned for such
        self.costs: PlanCosts | None = None  # by which tiers are planned; None stands for the usual ones

    # --- changes ------------------------------------------------------------------------------------------------------

    def set_schema(self, schema: Schema) -> None:
        """Go on with a later version of the schema."""
        with self._lock:
            self.tiers()
            self.schema = schema
            for tier in self._tiers:
                tier.follow(schema)

    def add(self, id: Any, form: NormalForm, lifetime: Lifetime = ALWAYS) -> None:
        """Hold a subscription."""
        with self._lock:
            if id in self:
                raise DuplicateSubscription(id)
            self._pending[id] = (form, lifetime)

    def add_table(self, table: ConjunctionTable, lifetimes: Lifetimes | None = None) -> None:
        """Hold all subscriptions of a table, as one tier."""
        with self._lock:
            self.tiers()
            for tier in self._tiers:
                if (known := tier.first_of(table.ids)) is not None:
                    raise DuplicateSubscription(id_at(table.ids, known))
            if (again := first_repeated(table.ids)) is not None:
                raise DuplicateSubscription(id_at(table.ids, again))
            self._tiers = (*self._tiers, self._build(table, lifetimes))

    def remove(self, id: Any, seq: int = 0) -> None:
        """Let go of a subscription: at once, or for events from seq on."""
        with self._lock:
            if seq == 0 and self._pending.pop(id, None) is not None:
                return
            for tier in reversed(self.tiers() if id in self._pending else self._tiers):
                number = tier.number_of(id)
                if number is not None:
                    tier.bury(number, seq)
                    return
        raise UnknownSubscription(id)

    def remove_all(self, ids: Ids) -> int:
        """Let go of subscriptions at once; return how many of them there were."""
        with self._lock:
            found = 0
            for tier in self.tiers():
                numbers = tier.numbers_of(ids)
                gone = dict.fromkeys(np.unique(numbers[numbers >= 0]).tolist(), 0)
                tier.bury_all(gone)
                found += len(gone)
            return found

    def __contains__(self, id: object) -> bool:
        return id in self._pending or any(tier.number_of(id) is not None for tier in reversed(self._tiers))

    def __len__(self) -> int:
        return len(self._pending) + sum(map(len, self._tiers))

    # --- reading ------------------------------------------------------------------------------------------------------

    def tiers(self) -> tuple[Tier, ...]:
        """Return the tiers that together hold all subscriptions of this moment."""
        with self._lock:  # also where nothing waits: another thread may be making a tier of it
            if self._pending:
                self._flush()
            return self._tiers

    def tiers_to_save(self, saved: Container[str]) -> tuple[Tier, ...]:
        """Return the tiers, of which those that are not saved yet are as they were built: a segment on disk is whole."""
        with self._one_merge, self._lock:
            self._tiers = tuple(
                _Merge([tier], low_water_seq=0).run(self._build)
                if tier.segment.dead and tier.name not in saved
                else tier
                for tier in self.tiers()
            )
            return self._tiers

    def snapshot(self) -> SubscriptionIndex:
        """Return an index with the subscriptions of this moment, which changes here do not reach. Copies the segments."""
        with self._lock:
            copies = [tier.copied() for tier in self.tiers()]
            return SubscriptionIndex(self.schema, copies, first_name=self.next_name)

    def stats(self) -> IndexStats:
        """Return figures."""
        tiers = self.tiers()
        return IndexStats(
            len(self),
            tuple(len(tier.segment) for tier in tiers),
            sum(len(tier.dead) for tier in tiers),
            sum(tier.segment.buffer.nbytes for tier in tiers),
        )

    # --- tiers --------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Make a tier of what waits, together with the newest tiers as long as they are small."""
        pending, self._pending = self._pending, {}
        small = [tier for tier in self._tiers if len(tier.segment) <= SMALL and tier.name not in self._in_merge]
        table = compile_table(self.schema, ((id, form) for id, (form, _) in pending.items()))
        spans = np.array([lifetime for _, lifetime in pending.values()], np.int64).T
        lifetimes = lifetimes_of(*spans)
        larger = tuple(tier for tier in self._tiers if tier not in small)
        fresh = self._build(table, lifetimes)
        self._tiers = (*larger, _Merge([*small, fresh], low_water_seq=0).run(self._build) if small else fresh)

    def _build(self, table: ConjunctionTable, lifetimes: Lifetimes | None) -> Tier:
        with self._lock:
            name, self.next_name = f"{self.next_name:08d}", self.next_name + 1
        return Tier(name, build_segment(table, statistics=self._observed(table), lifetimes=lifetimes, costs=self.costs))

    def _observed(self, table: ConjunctionTable) -> Statistics | None:
        """Return how often the sampled events have which codes; None where the constants themselves must do."""
        if self.sample is None or len(table) < PLANNED:
            return None
        return statistics_of_sample(
            code_counts(table), SegmentEncoder(table, self.schema.multiple_attributes).encode(self.sample)
        )

    # --- merging ------------------------------------------------------------------------------------------------------

    def merge(self, low_water_seq: int = FOREVER - 1, *, everything: bool = False) -> bool:
        """Merge what is due, or everything; return whether there was anything. Matching may go on meanwhile.

        Subscriptions that left at or before low_water_seq are dropped for good: no event before it may come any more.
        """
        with self._one_merge:
            with self._lock:
                tiers = self.tiers()
                chosen = tiers if everything else due(tiers)
                if not chosen or (len(chosen) == 1 and not chosen[0].dead):
                    return False
                self._in_merge = frozenset(tier.name for tier in chosen)
                work = _Merge(chosen, low_water_seq)
            try:
                merged = work.run(self._build)
                with self._lock:
                    work.catch_up(merged)
                    merged.follow(self.schema)  # it may have changed meanwhile
                    at = self._tiers.index(chosen[0])
                    self._tiers = (*self._tiers[:at], merged, *self._tiers[at + len(chosen) :])
            finally:
                self._in_merge = frozenset()
        return True

    def merge_in_background(self) -> None:
        """Start merging what is due beside everything else, unless that is under way."""
        with self._lock:
            if (self._merging is None or not self._merging.is_alive()) and due(self._tiers):
                self._merging = threading.Thread(target=self.merge, name="tocsin-merge", daemon=True)
                self._merging.start()

    def wait_for_merging(self) -> None:
        """Wait until no merge is under way."""
        merging = self._merging
        if merging is not None:
            merging.join()


def due(tiers: Sequence[Tier]) -> Sequence[Tier]:
    """Return the neighbouring tiers that should become one: the newest ones that are not small beside their elders."""
    first, newer = len(tiers), 0
    for at in range(len(tiers) - 1, -1, -1):
        if newer and len(tiers[at].segment) < RATIO * newer:
            first = at
        newer += len(tiers[at].segment)
    if first < len(tiers):
        return tiers[first:]
    return next(([tier] for tier in tiers if len(tier.dead) > DEAD_SHARE * len(tier.segment)), [])


class _Merge:
    """Several tiers on their way to becoming one, as they were when it began."""

    def __init__(self, tiers: Sequence[Tier], low_water_seq: int) -> None:
        self.tiers = tiers
        self.dead = [dict(tier.dead) for tier in tiers]
        self.kept = [np.ones(len(tier.segment), np.bool_) for tier in tiers]
        for dead, keep in zip(self.dead, self.kept, strict=True):
            gone = [number for number, seq in dead.items() if seq <= low_water_seq]
            keep[np.array(gone, np.int64)] = False
        self.spans = [tier.lifetimes() for tier in tiers]

    def run(self, build: Callable[[ConjunctionTable, Lifetimes | None], Tier]) -> Tier:
        """Return the new tier."""
        table = merge_tables([table_of(tier.segment) for tier in self.tiers], self.kept)
        spans = [
            np.concatenate([span[at][keep] for span, keep in zip(self.spans, self.kept, strict=True)])
            for at in range(len(Lifetime._fields))
        ]
        merged = build(table, lifetimes_of(*spans))
        merged.bury_all(self._renumbered(self.dead))
        return merged

    def catch_up(self, merged: Tier) -> None:
        """Bury in the new tier what left the old ones since the merge began."""
        late = [
            {number: seq for number, seq in tier.dead.items() if number not in dead}
            for tier, dead in zip(self.tiers, self.dead, strict=True)
        ]
        merged.bury_all(self._renumbered(late))

    def _renumbered(self, dead: Sequence[dict[int, int]]) -> dict[int, int]:
        """Return the dead of each old tier under their numbers in the new one."""
        found: dict[int, int] = {}
        before = 0
        for keep, numbers in zip(self.kept, dead, strict=True):
            place = before + np.cumsum(keep) - 1
            found |= {int(place[number]): seq for number, seq in numbers.items() if keep[number]}
            before += int(keep.sum())
        return found


def lifetimes_of(created: Int64s, deleted: Int64s, lease_start: Int64s, lease_end: Int64s) -> Lifetimes | None:
    """Return lifetimes with what is the same as always left out; None where everything is."""
    spans = [
        None if (span == always).all() else span
        for span, always in zip((created, deleted, lease_start, lease_end), ALWAYS, strict=True)
    ]
    return Lifetimes(*spans) if any(span is not None for span in spans) else None
