"""The naive engine: every subscription is tested against every event, by the definition (Le Subscribe, section 3.1).

Time: subscriptions times predicates, for each event. It is the yardstick of the others, and the one to trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.language import BoundSubscription
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.formula_columns import column_of
from tocsin.language.offer import Offer
from tocsin.language.semantics import decide
from tocsin.matching.engine import Capabilities, Engine, Failure, Inquiry, Match, SubscriptionId
from tocsin.matching.offering import OfferMatches
from tocsin.offers.programs import Programs
from tocsin.operators.calls import StoredCalls
from tocsin.schema import Event, Schema, arrived

Int64s = npt.NDArray[np.int64]


class NaiveMatcher(Engine):
    """Tests each subscription in turn."""

    name: ClassVar[str] = "naive"
    capabilities: ClassVar[Capabilities] = Capabilities(decided_leaves=True)

    def __init__(self, schema: Schema, operators: Operators = NO_OPERATORS, programs: Programs | None = None) -> None:
        super().__init__(schema)
        self.operators, self.stored_operators = operators, StoredCalls(operators)
        self.programs = Programs() if programs is None else programs
        self._subscriptions: dict[SubscriptionId, BoundSubscription] = {}

    def add(self, id: SubscriptionId, subscription: BoundSubscription) -> None:
        if id in self._subscriptions:
            raise DuplicateSubscription(id)
        self._subscriptions[id] = subscription

    def remove(self, id: SubscriptionId) -> None:
        if self._subscriptions.pop(id, None) is None:
            raise UnknownSubscription(id)

    def set_schema(self, schema: Schema) -> None:
        """Go on with an extension of the schema; subscriptions are bound anew by who added them."""
        self.schema = schema
        self._subscriptions = {}

    def match(self, event: Event) -> list[SubscriptionId]:
        return [found.id for found in self.find(event)[0]]

    def find(self, event: Event) -> tuple[list[Match], list[Failure]]:
        """Return the matches of an event, with the values of variables and what is computed; and what failed."""
        matches, failures = [], []
        event = arrived(event)
        for id, subscription in self.held():
            verdict = decide(subscription, event, self.stored_operators)
            if verdict.matched:
                matches.append(Match(id, verdict.bindings, verdict.computed))
            elif verdict.failure is not None:
                failures.append(Failure(id, verdict.failure))
        self.work.events += 1
        self.work.matches += len(matches)
        self.work.subscriptions_checked += len(self._subscriptions)
        return matches, failures

    def held(self) -> list[tuple[SubscriptionId, BoundSubscription]]:
        """Return the subscriptions of this moment."""
        return list(self._subscriptions.items())

    def subscription(self, id: SubscriptionId) -> BoundSubscription:
        """Return a subscription; raises UnknownSubscription."""
        if id not in self._subscriptions:
            raise UnknownSubscription(id)
        return self._subscriptions[id]

    def find_batch(self, events: Sequence[Event]) -> list[tuple[list[Match], list[Failure]]]:
        return [self.find(event) for event in events]

    @property
    def takes_long(self) -> bool:
        """Whether there is anything to prefetch: what it finds out is not kept."""
        return False

    def find_all(
        self, events: Sequence[Event], inquiry: Inquiry, arrival: Int64s | None = None
    ) -> tuple[Int64s, Int64s]:
        """Return (position of the event, id) of every match, of subscriptions whose ids are numbers."""
        positions, ids = [], []
        for at, event in enumerate(events):
            matches, failures = self.find(event if arrival is None else arrived(event, int(arrival[at])))
            for found in matches:
                positions.append(at)
                ids.append(found.id)
                if found.bindings:
                    inquiry.bindings[at, found.id] = found.bindings
            if isinstance(event, Offer) and event.computed:
                inquiry.offers[at] = _offer_matches(event, matches)
            inquiry.failures.update(((at, failed.id), failed.reason) for failed in failures)
        return np.array(positions, np.int64), np.array(ids, np.int64)

    def snapshot(self) -> NaiveMatcher:
        copy = NaiveMatcher(self.schema, self.operators, self.programs)
        copy._subscriptions = dict(self._subscriptions)
        return copy

    def __len__(self) -> int:
        return len(self._subscriptions)


def _offer_matches(offer: Offer, matches: Sequence[Match]) -> OfferMatches:
    columns = {
        each.name: column_of(each.domain, [found.computed[each.name] for found in matches]) for each in offer.computed
    }
    return OfferMatches(np.array([found.id for found in matches], np.int64), columns)
