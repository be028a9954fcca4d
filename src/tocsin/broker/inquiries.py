"""Inquiries: what an event would reach, why a notification came, and dead letters once more. Nothing here is published.

A dry run sees what the next publish would see; it writes nothing to the store, and nobody waits for it but readers of
the live index.

Held offers: the other direction, in which a subscription asks which live offers it matches.

An offer that was published with a time to live is an advertisement until that ends or it is withdrawn. The book of them
(offers/scan.py) follows the store when somebody asks; what it finds is looked up in the store once more, so an offer
that another process has withdrawn is not told.

Volume estimates for a draft subscription: how many events a day would it match? Without Spark, in a moment.

From a sample of recent events, kept as admitted events with a weight (events of the log for each one in the sample).
The draft is evaluated on the sample; the share that matches is given with the Wilson interval, and
times the rate of events. A sample of 5,000 gives a share of 10% to within about 0.8 points, 19 times out of 20.
`refresh` keeps a sample up to date: a reservoir over the events of a window, so that each is as likely to be in it.

Trial: a draft subscription asked of events one by one, outside of any index; for estimates and looks back.

By a matcher of its own, which asks operators only where the rest leaves it open; and only as long as the allowance of
seconds for operators lasts: whoever asks is waiting, and may ask often.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import Connection

from tocsin.broker.admission import Admitted, OfferAdmission, RawEvent, admit_all, admit_stored
from tocsin.broker.changes import Change
from tocsin.broker.core import BrokerSettings, Commit, Core
from tocsin.broker.expressions import Expression, Prepared, bind_expression, bind_stored, prepare
from tocsin.documents.subscriptions import Estimate, FoundOffer, HeldOffer
from tocsin.errors import EventRejected, TocsinError, UnknownNotification, UnknownOffer, UnknownSubscription, Violation
from tocsin.language import BoundSubscription, Explanation, Subscription, bind, explain
from tocsin.language.explain import plain_values
from tocsin.language.formula import ConditionFormula, Operators, ValueFormula
from tocsin.language.mapping import SiteMapping
from tocsin.language.offer import ComputedAttribute, Offer
from tocsin.language.semantics import Verdict
from tocsin.language.syntax import Constant, Literal
from tocsin.matching.engine import Inquiry
from tocsin.matching.matcher import Matcher
from tocsin.offers.programs import ProgramMemo, Programs
from tocsin.offers.scan import OfferBook
from tocsin.operators.operator import StoredCalls
from tocsin.operators.problem import EventEvaluation
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Schema, Value, arrived
from tocsin.schema.sources import Provenance
from tocsin.store import Store, accounts, events, notifications, schema_history, subscriptions
from tocsin.store.events import DeadLetter, StoredEvent, StoredOffer, documents_between, read_dead_letters, read_events
from tocsin.store.notifications import StoredMatches
from tocsin.store.store import instant
from tocsin.store.subscriptions import StoredSubscription


class Reached(NamedTuple):
    """A subscription that an event would reach."""

    subscription: int
    owner: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What publishing an event would come to: whom it would reach, or why it would be refused."""

    violations: tuple[Violation, ...]
    reached: tuple[Reached, ...]

    @property
    def accepted(self) -> bool:
        return not self.violations


def dry_run(
    core: Core,
    raws: Sequence[RawEvent],
    owner: str | None,
    mapping: SiteMapping | None = None,
    provenance: Provenance | None = None,
) -> list[DryRun]:
    """Return what publishing these events now would come to, without doing it; matches of one owner, or of all."""
    core.refresh()
    judged = admit_all(raws, core.schema, core.settings.event_bytes, core.offers, mapping, provenance)
    fine = [(at, item.event) for at, item in enumerate(judged) if isinstance(item, Admitted)]
    found_events = [event for _, event in fine]
    matches, first = _match_now(core, found_events)
    positions = [fine[seq - first][0] for seq in matches.seq.tolist()]
    pairs = zip(matches.subscription.tolist(), matches.owner.tolist(), strict=True)
    with core.store.read() as connection:
        names = accounts.names_of(connection, set(matches.owner.tolist()))
        origins = subscriptions.origins_of(connection, set(matches.subscription.tolist()))
    found: list[list[Reached]] = [[] for _ in raws]
    for at, (subscription, number) in zip(positions, pairs, strict=True):
        if owner is None or names[number] == owner:
            found[at].append(Reached(origins.get(subscription, subscription), names[number]))
    return [
        DryRun((), tuple(sorted(reached))) if isinstance(item, Admitted) else DryRun(item.violations, ())
        for item, reached in zip(judged, found, strict=True)
    ]


def _match_now(core: Core, found: Sequence[Event]) -> tuple[StoredMatches, int]:
    """Return whom events would reach that had the next seqs, and the first of these; operators run without the lock."""
    memo, matcher, patience = ProgramMemo(), core.live.matcher, 4
    known: list[EventEvaluation | None] = [None] * len(found)
    while True:
        known = matcher.prefetch(found, known, memo)
        patience -= 1
        closed = patience > 0 and matcher.takes_long
        inquiry = Inquiry({at: each for at, each in enumerate(known) if each is not None}, closed=closed)
        memo.closed = closed
        with core.lock, matcher.programs.remembering(memo):
            now, first = core.store.now_us(), core.live.seq + 1
            matches = core.live.match(range(first, first + len(found)), [now] * len(found), found, inquiry)
        if not (closed and (memo.missing or inquiry.missing)):
            return matches, first


def explain_notification(core: Core, owner: str, seq: int, subscription: int) -> Explanation:
    """Return why a stored notification came; raises UnknownNotification, also where it is another's.

    With the values that were computed then. What the rules of an offer say is its publisher's: settings may let it be seen.
    """
    core.refresh()
    with core.store.read() as connection:
        number = accounts.find_account(connection, owner)
        event = events.find_events(connection, [seq]).get(seq)
        versions = subscriptions.find_subscriptions(connection, subscriptions.all_ids(connection, [subscription]))
        kept = next((one for one in versions if _was_told(connection, number, seq, one)), None)
        told = {} if kept is None else events.find_values(connection, kept.owner, [seq])
        offer = events.find_offer(connection, seq)
    if event is None or kept is None or kept.origin != subscription:
        raise UnknownNotification(seq, subscription)
    values = told.get((seq, kept.id), events.NOTHING_BESIDE).values
    found, computed = _as_told(core, event.body, None if offer is None else offer.document, values)
    return replace(_explain_stored(core, kept, arrived(found, event.arrival_us)), computed=computed)


def _explain_stored(core: Core, kept: StoredSubscription, event: Event) -> Explanation:
    operators = StoredCalls(core.registry)
    return _explain(core, bind_stored(kept.tree, core.schema, operators), event, operators)


def _explain(core: Core, bound: BoundSubscription, event: Event, operators: Operators) -> Explanation:
    return explain(bound, event, operators, reveal_rules=core.settings.reveal_rules)


def explain_event(core: Core, owner: str, raw: RawEvent, subscription: int) -> Explanation:
    """Return why an event, or offer, would match an owner's subscription, or not; raises EventRejected."""
    core.refresh()
    with core.store.read() as connection:
        kept = subscriptions.find_current(connection, [subscription]).get(subscription)
    if kept is None or kept.owner_name != owner:
        raise UnknownSubscription(subscription)
    return _explain_stored(core, kept, read_event(core, raw))


def explain_draft(core: Core, raw: RawEvent, expression: Expression) -> Explanation:
    """Return why an event, or offer, would match an expression, or not; raises LanguageError, EventRejected.

    Nothing is kept, so the operators that it calls need not be pure.
    """
    core.refresh()
    most_bytes = core.settings.expression_bytes
    bound = bind_expression(expression, core.schema, core.registry, most_bytes=most_bytes)
    return _explain(core, bound, read_event(core, raw), core.registry)


def read_event(core: Core, raw: RawEvent) -> Event:
    """Return an event, or offer, as publishing it would take it, wherever it says that it comes from; raises EventRejected."""
    (judged,) = admit_all([raw], core.schema, core.settings.event_bytes, core.offers, as_said=True)
    if not isinstance(judged, Admitted):
        raise EventRejected(judged.violations)
    return judged.event


def _as_told(core: Core, body: bytes, document: bytes | None, values: dict[str, Any]) -> tuple[Event, dict[str, Value]]:
    """Return a stored event as a subscription was told it, with the values that were computed for it then; and these.

    They are computed attributes still, as constants: operators see the event as it was published, without them.
    """
    event = admit_stored(core.schema, body)
    computed = {name: core.schema.domain_of(name).admit(value) for name, value in values.items()}
    constants = tuple(
        ComputedAttribute(name, ValueFormula(Constant(cast("Literal", value), domain=domain), ()), domain)
        for name, value in computed.items()
        for domain in [core.schema.domain_of(name)]
    )
    rules: tuple[ConditionFormula, ...] = ()
    if document is not None:
        with suppress(EventRejected):  # it calls a program that is gone
            rules = core.offers.admit_stored(document, core.schema).rules
    return (Offer(event.values, rules, constants) if rules or constants else event), computed


def _was_told(connection: Connection, owner: int | None, seq: int, one: StoredSubscription) -> bool:
    return one.owner == owner and notifications.is_recorded(connection, one.owner, seq, one.id)


def find_dead_letter(core: Core, seq: int, publisher: str | None) -> DeadLetter | None:
    """Return the dead letter of that seq; of one publisher, or of any."""
    with core.store.read() as connection:
        found = read_dead_letters(connection, seq - 1, 1, publisher)
    return found[0] if found and found[0].seq == seq else None


# Held offers.


class HeldOffers:
    """The live offers of a store, and what is asked about them. Safe to share among threads."""

    def __init__(self, core: Core, take: Callable[[Change], object]) -> None:
        self._core, self._take = core, take
        self._lock = threading.Lock()
        self._schema: Schema | None = None
        self._generation = -1  # of the programs
        self._book: OfferBook | None = None
        self._ends: dict[int, int] = {}  # seq -> end
        self._seq = 0
        self.unusable = 0  # offers that cannot be bound any more: their program is gone

    def query(self, subscription: str) -> list[FoundOffer]:
        """Return the live offers that a subscription, as text, matches now; raises LanguageError."""
        self._core.refresh()
        schema = self._core.schema
        bound = bind(subscription, schema, operators=self._core.registry)
        with self._lock:
            now = self._follow(schema)
            assert self._book is not None
            found = self._book.query(bound)[: self._core.settings.query_offers]
        seqs = [int(id) for id, _ in found]
        with self._core.store.read() as connection:
            live = events.are_live(connection, seqs, now)
            stored = events.find_events(connection, sorted(live))
        return [
            self._told(int(id), verdict, msgspec.json.decode(stored[int(id)].body))
            for id, verdict in found
            if int(id) in stored
        ]

    def _told(self, seq: int, verdict: Verdict, event: dict[str, Any]) -> FoundOffer:
        values = {name: value for name, value in plain_values(verdict.computed).items() if value is not None}
        return FoundOffer(seq, event | values, tuple(values), instant(self._ends[seq]))

    def _follow(self, schema: Schema) -> int:
        """Take in the offers that are new, let go of those that ended; return the time."""
        now = self._core.store.now_us()
        generation = self.programs.generation
        if self._book is None or schema is not self._schema or generation != self._generation:
            self._schema, self._ends, self._seq = schema, {}, 0
            self._book = OfferBook(schema, self._core.registry)
            self._generation = generation
        with self._core.store.read() as connection:
            for one in events.live_offers(connection, now, after_seq=self._seq):
                self._add(self._book, one, schema)
        for seq in [seq for seq, end in self._ends.items() if end <= now]:
            del self._ends[seq]
            self._book.remove(seq)
        return now

    def _add(self, book: OfferBook, one: StoredOffer, schema: Schema) -> None:
        self._seq = max(self._seq, one.seq)
        try:
            offer = self._core.offers.analyse(msgspec.json.decode(one.document), schema)
        except EventRejected:
            self.unusable += 1
            return
        book.add(one.seq, offer)
        self._ends[one.seq] = one.ends_us

    def of(self, publisher: str, *, after: int = 0, limit: int = 1000) -> list[HeldOffer]:
        """Return a publisher's live offers."""
        now = self._core.store.now_us()
        with self._core.store.read() as connection:
            found = events.live_offers(connection, now, after_seq=after, publisher=publisher, limit=limit)
        return [HeldOffer(one.seq, msgspec.json.decode(one.document), instant(one.ends_us)) for one in found]

    def withdraw(self, seq: int, *, publisher: str) -> None:
        """Let no new subscription find an offer from now on; raises UnknownOffer, also where it is another's."""
        self._take(Withdraw(seq, publisher))

    @property
    def programs(self) -> Programs:
        """The programs that offers may call, as they are now."""
        self._core.offers.follow()
        return self._core.offers.programs


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Let no new subscription find a publisher's offer from now on. Asking again does no harm."""

    seq: int
    publisher: str

    def run(self, commit: Commit, settings: BrokerSettings) -> None:
        del settings
        found = events.find_offer(commit.connection, self.seq)
        if found is None or found.publisher != self.publisher:
            raise UnknownOffer(self.seq)
        if found.ends_us > commit.now_us:
            events.withdraw(commit.transaction, self.seq)


# --- Estimates --------------------------------------------------------------------------------------------------------


OPERATOR_SECONDS = 1.0  # for the operators of one trial


class Trial:
    """One draft; `spent` says that it has had its time, and should be asked of no further events."""

    def __init__(self, draft: Prepared, registry: Registry) -> None:
        self._registry = registry
        self._before = self._seconds()
        self._matcher = Matcher(draft.schema, operators=registry)
        self._matcher.add(0, draft.bound)

    def _seconds(self) -> float:
        """Return what operators have taken so far, whoever called them."""
        return sum(each.seconds for each in list(self._registry.runner.counts.values()))

    def holds(self, event: Event) -> bool:
        """Return whether the event, or offer, satisfies the draft."""
        return bool(self._matcher.match(event))

    @property
    def spent(self) -> bool:
        return self._seconds() - self._before > OPERATOR_SECONDS


# Volume estimates for a draft subscription.


Z = 1.96  # of the normal distribution: 95% two-sided
DAY_SECONDS = 86_400.0
DEFAULT_SAMPLE = 5_000
_READ_AT_ONCE = 5_000
_MOST_BYTES = 1 << 20  # of a draft


@dataclass
class EventSample:
    """A uniform sample of the events of a stretch of time, and how many there were."""

    schema: Schema
    size: int = DEFAULT_SAMPLE
    events: list[Event] = field(default_factory=list)
    seen: int = 0
    first_us: int | None = None
    last_us: int | None = None
    through_seq: int = 0
    offers: OfferAdmission = field(default_factory=OfferAdmission)
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - a sample, not a secret

    @classmethod
    def of_store(
        cls,
        store: Store,
        size: int = DEFAULT_SAMPLE,
        *,
        most_events: int = 50_000,
        programs: Programs | None = None,
        operators: Registry | None = None,
    ) -> EventSample:
        """Return a sample of a store's newest events; offers among them may call programs and operators."""
        with store.read() as connection:
            newest = schema_history.newest(connection)
            if newest is None:
                raise TocsinError("the store has no schema yet")
        registry = Registry() if operators is None else operators
        sample = cls(newest.schema, size, offers=OfferAdmission(programs, registry))
        sample.through_seq = max(store.meta().horizon, store.meta().seq - most_events)
        sample.refresh(store)
        return sample

    def refresh(self, store: Store) -> int:
        """Take in the events that came since; return how many."""
        taken = 0
        while True:
            with store.read() as connection:
                found = read_events(connection, self.through_seq, _READ_AT_ONCE)
                documents = documents_between(connection, found[0].seq, found[-1].seq) if found else {}
            for event in found:
                self._take(event, documents.get(event.seq))
            taken += len(found)
            if len(found) < _READ_AT_ONCE:
                return taken

    def _take(self, stored: StoredEvent, offer: bytes | None) -> None:
        """Take in an event: it stays with probability size / seen (reservoir sampling, Vitter's algorithm R)."""
        self.through_seq = stored.seq
        self.first_us = stored.arrival_us if self.first_us is None else self.first_us
        self.last_us = stored.arrival_us
        self.add(None, stored.body, offer, stored.arrival_us)

    def add(
        self, event: Event | None, body: bytes = b"", offer: bytes | None = None, arrival_us: int | None = None
    ) -> None:
        """Take in an event, given as it is or as the store has it; it is read only if it is chosen."""
        self.seen += 1
        at = len(self.events) if len(self.events) < self.size else self._random.randrange(self.seen)
        if at >= self.size:
            return
        chosen = event if event is not None else admit_stored(self.schema, body, offer, self.offers)
        chosen = chosen if arrival_us is None else arrived(chosen, arrival_us)
        if at == len(self.events):
            self.events.append(chosen)
        else:
            self.events[at] = chosen

    @property
    def per_day(self) -> float:
        """Events a day, over the time that the sample covers; 0 where it covers none."""
        if self.first_us is None or self.last_us is None or self.last_us <= self.first_us:
            return 0.0
        return self.seen * DAY_SECONDS * 1e6 / (self.last_us - self.first_us)

    def estimate(self, draft: str | Subscription, registry: Registry | None = None) -> Estimate:
        """Return how much a draft would match; raises LanguageError where it is wrong.

        One that calls operators of the registry is asked of fewer events, as inquiries.py bounds it.
        """
        operators = Registry() if registry is None else registry
        prepared = prepare(draft, self.schema, most_bytes=_MOST_BYTES, registry=operators)
        trial = Trial(prepared, operators)
        matched, looked = self._count(trial)
        exact = self.seen == looked
        share = matched / max(1, looked)
        low, high = (share, share) if exact and looked else wilson(matched, looked)
        rate = self.per_day
        return Estimate(share, low, high, share * rate, low * rate, high * rate, looked, matched, exact)

    def _count(self, trial: Trial) -> tuple[int, int]:
        """Return how many events match, of how many that were looked at before the trial had its time."""
        matched = looked = 0
        # Whatever part of them is looked at must be a sample too; as they lie they are by age.
        for event in random.Random(0).sample(self.events, len(self.events)):  # noqa: S311
            if trial.spent:
                break
            matched += trial.holds(event)
            looked += 1
        return matched, looked


def wilson(matched: int, size: int, z: float = Z) -> tuple[float, float]:
    """Return the Wilson score interval of a share; (0, 1) where nothing was looked at."""
    if not size:
        return 0.0, 1.0
    share = matched / size
    spread = z * math.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    centre = share + z * z / (2 * size)
    scale = 1 + z * z / size
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
