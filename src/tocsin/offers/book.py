"""OfferBook: offers that wait for subscriptions (placeholder until the offers branch brings its own)."""

from __future__ import annotations

from tocsin.language.bind import BoundSubscription
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.offer import Offer
from tocsin.language.semantics import Verdict, decide

OfferId = str | int


class OfferBook:
    """Held offers by id."""

    def __init__(self) -> None:
        self._offers: dict[OfferId, Offer] = {}

    def add(self, id: OfferId, offer: Offer) -> None:
        self._offers[id] = offer

    def remove(self, id: OfferId) -> None:
        del self._offers[id]

    def query(
        self, subscription: BoundSubscription, operators: Operators = NO_OPERATORS
    ) -> list[tuple[OfferId, Verdict]]:
        """Return the offers that a subscription matches, with what was computed."""
        found = ((id, decide(subscription, offer, operators)) for id, offer in self._offers.items())
        return [(id, verdict) for id, verdict in found if verdict.matched]
