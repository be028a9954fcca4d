"""The book: offers that are held for subscriptions to come.

A subscription that asks which of them match is, for that moment, an index of one; the scan (scan.py) rules out most offers,
many at once: those whose static values it does not want, and those whose rules it does not satisfy. The rest is decided by
the definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tocsin.compile.normalise import normalise
from tocsin.compile.table_builder import compile_table
from tocsin.errors import DuplicateName, UnknownName
from tocsin.index.build import build_segment
from tocsin.index.tier import Tier
from tocsin.language.bind import BoundSubscription
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.offer import Offer
from tocsin.language.semantics import Verdict, decide
from tocsin.offers.scan import OfferScan
from tocsin.schema import Schema

OfferId = str | int
AT_ONCE = 4_096  # offers that are scanned together


class UnknownOffer(UnknownName):
    what = "offer"


class OfferBook:
    """Offers by id, in the order in which they came. Not safe to share among threads."""

    def __init__(self, schema: Schema, operators: Operators = NO_OPERATORS) -> None:
        self.schema, self.operators = schema, operators
        self.decided = 0  # pairs that the definition was asked about
        self._offers: dict[OfferId, Offer] = {}

    def __len__(self) -> int:
        return len(self._offers)

    def __contains__(self, id: object) -> bool:
        return id in self._offers

    def __iter__(self) -> Iterator[tuple[OfferId, Offer]]:
        return iter(list(self._offers.items()))

    def add(self, id: OfferId, offer: Offer) -> None:
        """Hold an offer; raises DuplicateName."""
        if id in self._offers:
            raise DuplicateName("offer", str(id))
        self._offers[id] = offer

    def remove(self, id: OfferId) -> None:
        """Let go of an offer; raises UnknownOffer."""
        if self._offers.pop(id, None) is None:
            raise UnknownOffer(str(id), map(str, self._offers))

    def query(self, subscription: BoundSubscription) -> list[tuple[OfferId, Verdict]]:
        """Return the offers that a subscription matches, in the order in which they came; verdicts have what is computed."""
        found: list[tuple[OfferId, Verdict]] = []
        for id in self._possible(subscription):
            self.decided += 1
            verdict = decide(subscription, self._offers[id], self.operators)
            if verdict.matched:
                found.append((id, verdict))
        return found

    def _possible(self, subscription: BoundSubscription) -> Iterator[OfferId]:
        """Yield the offers that the scan does not rule out."""
        segment = build_segment(compile_table(self.schema, [(0, normalise(subscription))]))
        scan = OfferScan(Tier("asked", segment), self.schema)
        remaining = iter(self)
        while chunk := list(islice(remaining, AT_ONCE)):
            candidates = scan.find([offer for _, offer in chunk])
            yield from (chunk[at][0] for at in dict.fromkeys(candidates.offer.tolist()))
