"""The Matchmaker: offers and subscribers of a union, which come and go, and are matched in the paper's steps.

Analysis is in offer.py, the other stages in stages.py, over the subscribers of roster.py. Programs compute dynamic
attributes (programs.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.language.syntax import Subscription
from tocsin.schema import Schema
from tocsin.symmetric.analysis import Analysis
from tocsin.symmetric.batch import Batches
from tocsin.symmetric.book import OfferBook
from tocsin.symmetric.explain import Explanation, explain
from tocsin.symmetric.matched import Matched, Work
from tocsin.symmetric.meeting import meeting_of
from tocsin.symmetric.offer import Offer, OfferId
from tocsin.symmetric.programs import Programs
from tocsin.symmetric.roster import Batch, Roster
from tocsin.symmetric.semantics import Verdict, decide
from tocsin.symmetric.stages import Stages
from tocsin.symmetric.subscriber import Subscriber, SubscriberId, bind_subscriber


class Matchmaker:
    """Matches offers with subscribers, both of which come and go. Safe to share among threads."""

    def __init__(
        self, schema: Schema, union: str | None = None, *, programs: Programs | None = None, rule_indexes: bool = True
    ) -> None:
        self.meeting = meeting_of(schema, union)
        self.programs = programs or Programs()
        self.roster = Roster(self.meeting)
        self.batches = Batches(Stages(self.meeting, self.roster, rule_indexes=rule_indexes))
        self._analysis = Analysis(self.meeting, self.programs)
        self._documents: dict[OfferId, object] = {}
        self._book = OfferBook(self.meeting)
        self._bound_at = self.programs.generation
        self._lock = threading.RLock()

    @property
    def work(self) -> Work:
        """What matching has cost so far."""
        return self.batches.stages.work

    # --- subscribers --------------------------------------------------------------------------------------------------

    def subscribe(self, id: SubscriberId, subscription: str | Subscription) -> None:
        """Hold a subscriber: `insurance where price <= 700 with age = 42`; raises LanguageError."""
        with self._lock:
            self.roster.add(self.bind_subscriber(id, subscription))

    def bind_subscriber(self, id: SubscriberId, subscription: str | Subscription) -> Subscriber:
        """Return the subscriber that a text or tree describes, without holding it."""
        return bind_subscriber(id, subscription, self.meeting)

    def add(self, subscriber: Subscriber) -> None:
        """Hold a subscriber that is bound already (load.py makes many at once)."""
        with self._lock:
            self.roster.add(subscriber)

    def extend(self, batch: Batch) -> None:
        """Hold many subscribers at once (load.py)."""
        with self._lock:
            self.roster.extend(batch)

    def unsubscribe(self, id: SubscriberId) -> None:
        """Let go of a subscriber; raises UnknownSubscription."""
        with self._lock:
            self.roster.remove(id)

    def __len__(self) -> int:
        return len(self.roster)

    # --- offers -------------------------------------------------------------------------------------------------------

    def analyse(self, document: object) -> Offer:
        """Return the offer that a document describes, divided into its parts; raises EventRejected."""
        with self._lock:
            offer = self._analysis.analyse(document)
            self.batches.make_ready(offer)
            return offer

    def advertise(self, id: OfferId, document: Mapping[str, Any]) -> Matched:
        """Hold an offer for subscribers to come, and return whom it matches now."""
        with self._lock:
            if id in self._documents:
                raise DuplicateSubscription(id)
            offer = self.analyse({**document, "id": id})
            self._documents[id] = {**document, "id": id}
            self._current_book()
            if id not in self._book:
                self._book.add(id, offer)
            return self.match(offer)

    def withdraw(self, id: OfferId) -> None:
        """Let go of an offer; raises UnknownSubscription."""
        with self._lock:
            if self._documents.pop(id, None) is None:
                raise UnknownSubscription(id)
            if id in self._book:
                self._book.remove(id)

    def query(self, subscription: str | Subscriber) -> list[tuple[OfferId, Verdict]]:
        """Return the live offers that a subscription, held or not, matches now, with the computed values."""
        with self._lock:
            subscriber = self.bind_subscriber(0, subscription) if isinstance(subscription, str) else subscription
            return self._current_book().query(subscriber)

    @property
    def book(self) -> OfferBook:
        """The held offers."""
        return self._book

    def _current_book(self) -> OfferBook:
        """Return the held offers, bound to the programs of now."""
        if self._bound_at != self.programs.generation:
            self._bound_at = self.programs.generation
            self._book = OfferBook(self.meeting)
            for id, document in self._documents.items():
                self._book.add(id, self.analyse(document))
        return self._book

    # --- matching -----------------------------------------------------------------------------------------------------

    def match(self, offer: object) -> Matched:
        """Return whom an offer, as a document or analysed, matches."""
        with self._lock:
            return self.match_all([offer])[0]

    def match_all(self, offers: Iterable[object], *, threads: int = 1) -> list[Matched]:
        """Return whom each offer matches, as `match` does, many times as fast; raises EventRejected for the first bad one.

        So many threads share the subscribers among them.
        """
        with self._lock:
            analysed = [offer if isinstance(offer, Offer) else self.analyse(offer) for offer in offers]
            return self.batches.match(analysed, threads=threads)

    # --- one pair -----------------------------------------------------------------------------------------------------

    def decide(self, offer: object, id: SubscriberId) -> Verdict:
        """Return what the definition says of an offer and a held subscriber."""
        analysed = offer if isinstance(offer, Offer) else self.analyse(offer)
        return decide(analysed, self.roster.subscriber(self.roster.row_of(id)), self.meeting)

    def explain(self, offer: object, id: SubscriberId) -> Explanation:
        """Return why an offer and a held subscriber match, or which side refuses."""
        analysed = offer if isinstance(offer, Offer) else self.analyse(offer)
        return explain(analysed, self.roster.subscriber(self.roster.row_of(id)), self.meeting)

    def stats(self) -> dict[str, Any]:
        """Return the counters of the stages and of the cache."""
        return {
            "subscribers": len(self),
            "offers": len(self._documents),
            "work": asdict(self.work),
            "cache": self.programs.cache.stats(),
        }
