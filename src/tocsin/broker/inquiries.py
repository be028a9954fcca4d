"""Inquiries: what an event would reach, why a notification came, and dead letters once more. Nothing here is published.

A dry run sees what the next publish would see; it writes nothing to the store, and nobody waits for it but readers of
the live index.

Held offers: the other direction, in which a subscription asks which live offers it matches.

An offer that was published with a time to live is an advertisement until that ends or it is withdrawn. The book of them
(offers/scan.py) follows the store when somebody asks; what it finds is looked up in the store once more, so an offer
that another process has withdrawn is not told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from tocsin.broker.admission import Admitted, RawEvent, admit_all, admit_stored
from tocsin.broker.changes import Change
from tocsin.broker.core import Commit, Core
from tocsin.broker.cursors import instant
from tocsin.broker.expressions import Expression, bind_expression, bind_stored
from tocsin.broker.settings import BrokerSettings
from tocsin.documents.subscriptions import FoundOffer, HeldOffer
from tocsin.errors import EventRejected, UnknownNotification, UnknownOffer, UnknownSubscription, Violation
from tocsin.language import BoundSubscription, Explanation, bind, explain
from tocsin.language.explain import plain_values
from tocsin.language.formula import Operators
from tocsin.language.offer import Offer
from tocsin.language.semantics import Verdict
from tocsin.matching.engine import Inquiry
from tocsin.offers.programs import ProgramMemo, Programs
from tocsin.offers.scan import OfferBook
from tocsin.operators.calls import StoredCalls
from tocsin.operators.problem import EventEvaluation
from tocsin.schema import Event, Schema, Value, arrived
from tocsin.schema.readings import joined_values
from tocsin.store import accounts, events, notifications, offers, replacements, subscriptions
from tocsin.store.dead_letters import DeadLetter, read_dead_letters
from tocsin.store.notifications import StoredMatches
from tocsin.store.offers import StoredOffer
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


def dry_run(core: Core, raws: Sequence[RawEvent], owner: str | None) -> list[DryRun]:
    """Return what publishing these events now would come to, without doing it; matches of one owner, or of all."""
    core.refresh()
    judged = admit_all(raws, core.schema, core.settings.event_bytes, core.offers)
    fine = [(at, item.event) for at, item in enumerate(judged) if isinstance(item, Admitted)]
    found_events = [event for _, event in fine]
    matches, first = _match_now(core, found_events)
    positions = [fine[seq - first][0] for seq in matches.seq.tolist()]
    pairs = zip(matches.subscription.tolist(), matches.owner.tolist(), strict=True)
    with core.store.read() as connection:
        names = accounts.names_of(connection, set(matches.owner.tolist()))
        origins = replacements.origins_of(connection, set(matches.subscription.tolist()))
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
        versions = subscriptions.find_subscriptions(connection, replacements.all_ids(connection, [subscription]))
        kept = next((one for one in versions if _was_told(connection, number, seq, one)), None)
        told = {} if kept is None else offers.find_values(connection, kept.owner, [seq])
        offer = offers.find_offer(connection, seq)
    if event is None or kept is None or kept.origin != subscription:
        raise UnknownNotification(seq, subscription)
    values = told.get((seq, kept.id), offers.NOTHING_BESIDE).values
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
    """Return an event, or offer, as publishing it would take it; raises EventRejected."""
    (judged,) = admit_all([raw], core.schema, core.settings.event_bytes, core.offers)
    if not isinstance(judged, Admitted):
        raise EventRejected(judged.violations)
    return judged.event


def _as_told(core: Core, body: bytes, document: bytes | None, values: dict[str, Any]) -> tuple[Event, dict[str, Value]]:
    """Return a stored event as a subscription was told it, with the values that were computed for it then; and these."""
    event = admit_stored(core.schema, body)
    computed = {name: core.schema.domain_of(name).admit(value) for name, value in values.items()}
    whole = joined_values(event.values, {name: (value,) for name, value in computed.items()})
    if document is None:
        return Event(whole), computed
    try:
        offer = core.offers.admit_stored(document, core.schema)
    except EventRejected:  # it calls a program that is gone
        return Event(whole), computed
    return Offer(whole, offer.rules), computed


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
            live = offers.are_live(connection, seqs, now)
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
            for one in offers.live_offers(connection, now, after_seq=self._seq):
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
            found = offers.live_offers(connection, now, after_seq=after, publisher=publisher, limit=limit)
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
        found = offers.find_offer(commit.connection, self.seq)
        if found is None or found.publisher != self.publisher:
            raise UnknownOffer(self.seq)
        if found.ends_us > commit.now_us:
            offers.withdraw(commit.transaction, self.seq)
