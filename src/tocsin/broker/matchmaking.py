"""Matchmaking: the other direction, in which a subscription asks which live offers it matches; and why a pair met.

An offer that was published with a time to live is an advertisement until that ends or it is withdrawn. The book of them
(symmetric/book.py) follows the store when somebody asks; what it finds is looked up in the store once more, so an offer
that another process has withdrawn is not told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tocsin.broker.admission import read_stored
from tocsin.broker.changes import Change
from tocsin.broker.core import Core, Turn
from tocsin.broker.settings import BrokerSettings
from tocsin.broker.times import instant
from tocsin.errors import BindError, EventRejected, UnknownNotification, UnknownOffer, UnknownSubscription
from tocsin.language import from_json, parse
from tocsin.language.documents import decode
from tocsin.schema import Event, Schema
from tocsin.store import accounts, events, notifications, offers, replacements, subscriptions
from tocsin.store.offers import StoredOffer
from tocsin.store.subscriptions import StoredSubscription
from tocsin.symmetric.book import OfferBook
from tocsin.symmetric.explain import Explanation, Outcome, explain, plain
from tocsin.symmetric.programs import Programs
from tocsin.symmetric.semantics import Verdict
from tocsin.symmetric.subscriber import Subscriber, bind_subscriber
from tocsin.symmetric.two_sided import HIDDEN, is_offer
from tocsin.symmetric.unions import meetings


@dataclass(frozen=True, slots=True)
class FoundOffer:
    """A live offer that a subscription matches, as the subscriber sees it: without its rules."""

    seq: int
    event: Mapping[str, Any]  # with the computed values
    computed: tuple[str, ...]
    ends: datetime


@dataclass(frozen=True, slots=True)
class Advertisement:
    """A live offer as its publisher sees it."""

    seq: int
    document: Mapping[str, Any]
    ends: datetime


class Matchmaking:
    """The live offers of a store, by union, and what is asked about them. Safe to share among threads."""

    def __init__(self, core: Core, take: Callable[[Change], object]) -> None:
        self._core, self._take = core, take
        self._lock = threading.Lock()
        self._schema: Schema | None = None
        self._generation = -1  # of the programs
        self._books: dict[str, OfferBook] = {}
        self._ends: dict[int, tuple[str, int]] = {}  # seq -> event type and end
        self._seq = 0
        self.unusable = 0  # offers that cannot be bound any more: their program is gone

    def query(self, subscription: str) -> list[FoundOffer]:
        """Return the live offers that a subscription, as text, matches now; raises LanguageError."""
        self._core.refresh()
        schema = self._core.schema
        subscriber = subscriber_of(subscription, schema)
        with self._lock:
            now = self._follow(schema)
            book = self._books.get(parse(subscription).event_types[0])
            found = [] if book is None else book.query(subscriber)[: self._core.settings.query_offers]
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
        values = {name: plain(value) for name, value in verdict.values.items() if value is not None}
        return FoundOffer(seq, event | values, tuple(values), instant(self._ends[seq][1]))

    def _follow(self, schema: Schema) -> int:
        """Take in the offers that are new, let go of those that ended; return the time."""
        now = self._core.store.now_us()
        generation = self.programs.generation
        if schema is not self._schema or generation != self._generation:
            self._schema, self._books, self._ends, self._seq = schema, {}, {}, 0
            self._generation = generation
        with self._core.store.read() as connection:
            for one in offers.live_offers(connection, now, after_seq=self._seq):
                self._add(one, schema)
        for seq in [seq for seq, (_, end) in self._ends.items() if end <= now]:
            name, _ = self._ends.pop(seq)
            self._books[name].remove(seq)
        return now

    def _add(self, one: StoredOffer, schema: Schema) -> None:
        self._seq = max(self._seq, one.seq)
        try:
            offer = self._core.desk.analyse(msgspec.json.decode(one.document), schema)
        except EventRejected:
            self.unusable += 1
            return
        (name,) = offer.event.types
        if name not in self._books:
            self._books[name] = OfferBook(meetings(schema)[name])
        self._books[name].add(one.seq, offer)
        self._ends[one.seq] = (name, one.ends_us)

    def of(self, publisher: str, *, after: int = 0, limit: int = 1000) -> list[Advertisement]:
        """Return a publisher's live offers."""
        now = self._core.store.now_us()
        with self._core.store.read() as connection:
            found = offers.live_offers(connection, now, after_seq=after, publisher=publisher, limit=limit)
        return [Advertisement(one.seq, msgspec.json.decode(one.document), instant(one.ends_us)) for one in found]

    def withdraw(self, seq: int, *, publisher: str) -> None:
        """Let no new subscription find an offer from now on; raises UnknownOffer, also where it is another's."""
        self._take(Withdraw(seq, publisher))

    def explain(self, seq: int, subscription: int, *, owner: str) -> Explanation:
        """Return why a stored notification of an offer, or plain event, came; raises UnknownNotification, also where it is another's."""
        return explain_stored(self._core, owner, seq, subscription)

    def explain_offer(self, document: Mapping[str, Any], subscription: int, *, owner: str) -> Explanation:
        """Return why an offer would match an owner's subscription, or which side refuses; nothing is published."""
        return explain_offer(self._core, owner, document, subscription)

    def is_offer(self, seq: int) -> bool:
        """Return whether an event has rules or dynamic attributes."""
        with self._core.store.read() as connection:
            return offers.find_offer(connection, seq) is not None

    def read(self, raw: Mapping[str, Any]) -> Event:
        """Return an event, or an offer, as publishing it would take it; raises EventRejected."""
        self._core.refresh()
        schema = self._core.schema
        return self._core.desk.admit(raw, schema) if is_offer(raw) else schema.admit(raw)

    @property
    def programs(self) -> Programs:
        """The programs that offers may call, as they are now."""
        self._core.desk.follow()
        return self._core.desk.programs


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Let no new subscription find a publisher's offer from now on. Asking again does no harm."""

    seq: int
    publisher: str

    def run(self, turn: Turn, settings: BrokerSettings) -> None:
        del settings
        found = offers.find_offer(turn.connection, self.seq)
        if found is None or found.publisher != self.publisher:
            raise UnknownOffer(self.seq)
        if found.ends_us > turn.now_us:
            offers.withdraw(turn.transaction, self.seq)


def subscriber_of(subscription: str, schema: Schema) -> Subscriber:
    """Return the subscriber that a text of a union's event type describes; raises LanguageError."""
    types = parse(subscription).event_types
    meeting = meetings(schema).get(types[0]) if len(types) == 1 else None
    if meeting is None:
        listed = ", ".join(meetings(schema)) or "none: the schema has no union"
        raise BindError(f"offers are of one type that a union names, such as: {listed}")
    return bind_subscriber(0, subscription, meeting)


# --- why --------------------------------------------------------------------------------------------------------------


def explain_stored(core: Core, owner: str, seq: int, subscription: int) -> Explanation:
    """Return why a stored notification of an offer, or plain event, came; raises UnknownNotification, also where it is another's.

    The values are those that were stored. What the rules say is the publisher's, and shown where settings allow it.
    """
    core.refresh()
    with core.store.read() as connection:
        number = accounts.find_account(connection, owner)
        versions = subscriptions.find_subscriptions(connection, replacements.all_ids(connection, [subscription]))
        told = [one for one in versions if one.owner == number]
        kept = next((one for one in told if notifications.is_recorded(connection, one.owner, seq, one.id)), None)
        offer = offers.find_offer(connection, seq)
        event = events.find_events(connection, [seq]).get(seq)
        values = {} if kept is None else offers.find_values(connection, kept.owner, [seq]).get((seq, kept.id), {})
    if kept is None or event is None:
        raise UnknownNotification(seq, subscription)
    document = {"event": read_stored(event.body)} if offer is None else msgspec.json.decode(offer.document)
    found = explain_pair(core, document, kept)
    verdict = Verdict(True, (), None, values or found.verdict.values)
    return shown_to_subscriber(Explanation(verdict, found.outcomes), core.settings)


def explain_pair(core: Core, document: Mapping[str, Any], kept: StoredSubscription) -> Explanation:
    """Return why an offer and a stored subscription match, or which side refuses; raises EventRejected, BindError."""
    core.desk.follow()
    offer = core.desk.analyse(document, core.schema)
    (name,) = offer.event.types
    meeting = meetings(core.schema)[name]
    return explain(offer, bind_subscriber(kept.id, from_json(decode(kept.tree)), meeting), meeting)


def shown_to_subscriber(found: Explanation, settings: BrokerSettings) -> Explanation:
    """Return an explanation without the texts of the offer's rules, unless the operator lets them be seen."""
    if settings.reveal_rules:
        return found
    return Explanation(found.verdict, tuple(map(_hidden, found.outcomes)))


def _hidden(outcome: Outcome) -> Outcome:
    return Outcome(outcome.side, HIDDEN, outcome.result) if outcome.side == "offer" else outcome


def explain_offer(core: Core, owner: str, document: Mapping[str, Any], subscription: int) -> Explanation:
    """Return why an offer would match an owner's subscription, or which side refuses."""
    core.refresh()
    with core.store.read() as connection:
        kept = subscriptions.find_current(connection, [subscription]).get(subscription)
    if kept is None or kept.owner_name != owner:
        raise UnknownSubscription(subscription)
    return shown_to_subscriber(explain_pair(core, document, kept), core.settings)
