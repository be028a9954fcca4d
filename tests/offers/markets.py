"""Small markets for tests: subscriptions by id, and what becomes of an offer by OfferScan and by the definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin.compile.normalise import normalise
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.language import BoundSubscription, bind
from tocsin.language.semantics import decide
from tocsin.offers import Analysis, Programs
from tocsin.offers.scan import OfferScan
from tocsin.schema import Schema, Value


@dataclass
class Outcome:
    """Computed values by the id of who matches, and reasons by the id of who fails."""

    matches: dict[Any, dict[str, Value]] = field(default_factory=dict)
    failures: dict[Any, str] = field(default_factory=dict)


class Market:
    """Subscriptions whose rows have no checks."""

    def __init__(self, schema: Schema, programs: Programs | None = None) -> None:
        self.schema = schema
        self.programs = Programs() if programs is None else programs
        self.index = SubscriptionIndex(schema)
        self.analysis = Analysis(schema, self.programs)
        self.held: dict[Any, BoundSubscription] = {}
        self.scans: dict[str, OfferScan] = {}

    def subscribe(self, id: Any, text: str) -> None:
        self.held[id] = bind(text, self.schema)
        self.index.add(id, normalise(self.held[id]))

    def match(self, *documents: Mapping[str, Any], threads: int = 1) -> list[Outcome]:
        """Return what becomes of the offers, by the scan."""
        offers = [self.analysis.analyse(document) for document in documents]
        outcomes = [Outcome() for _ in offers]
        for tier in self.index.tiers():
            assert not tier.segment.has_checks
            scan = self.scans.setdefault(tier.name, OfferScan(tier, self.schema))
            found = scan.find(offers, threads=threads)
            ids = tier.segment.ids.tolist()
            for at, (offer, number) in enumerate(zip(found.offer.tolist(), found.number.tolist(), strict=True)):
                values = {name: column.value(at) for name, column in found.computed.items()}
                if found.failure[at]:
                    outcomes[offer].failures[ids[number]] = found.reasons[found.failure[at] - 1]
                else:
                    outcomes[offer].matches[ids[number]] = {n: v for n, v in values.items() if v is not None}
        return outcomes

    def defined(self, document: Mapping[str, Any]) -> Outcome:
        """Return what becomes of an offer, by the definition."""
        outcome, offer = Outcome(), self.analysis.analyse(document)
        for id, subscription in self.held.items():
            verdict = decide(subscription, offer)
            if verdict.matched:
                outcome.matches[id] = {name: value for name, value in verdict.computed.items() if value is not None}
            elif verdict.failure is not None:
                outcome.failures[id] = verdict.failure
        return outcome
