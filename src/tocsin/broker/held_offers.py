"""Held offers: the other direction, in which a subscription asks which live offers it matches.

An offer that was published with a time to live is an advertisement until that ends or it is withdrawn. The book of them
(offers/book.py) follows the store when somebody asks; what it finds is looked up in the store once more, so an offer
that another process has withdrawn is not told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tocsin.broker.changes import Change
from tocsin.broker.core import Core, Turn
from tocsin.broker.settings import BrokerSettings
from tocsin.broker.times import instant
from tocsin.errors import EventRejected, UnknownOffer
from tocsin.language import bind
from tocsin.language.explain import plain_values
from tocsin.language.semantics import Verdict
from tocsin.offers.book import OfferBook
from tocsin.offers.programs import Programs
from tocsin.schema import Schema
from tocsin.store import events, offers
from tocsin.store.offers import StoredOffer


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

    def of(self, publisher: str, *, after: int = 0, limit: int = 1000) -> list[Advertisement]:
        """Return a publisher's live offers."""
        now = self._core.store.now_us()
        with self._core.store.read() as connection:
            found = offers.live_offers(connection, now, after_seq=after, publisher=publisher, limit=limit)
        return [Advertisement(one.seq, msgspec.json.decode(one.document), instant(one.ends_us)) for one in found]

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

    def run(self, turn: Turn, settings: BrokerSettings) -> None:
        del settings
        found = offers.find_offer(turn.connection, self.seq)
        if found is None or found.publisher != self.publisher:
            raise UnknownOffer(self.seq)
        if found.ends_us > turn.now_us:
            offers.withdraw(turn.transaction, self.seq)
