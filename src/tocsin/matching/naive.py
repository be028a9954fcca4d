"""The naive engine: every subscription is tested against every event, by the definition (Le Subscribe, section 3.1).

Time: subscriptions times predicates, for each event. It is the yardstick of the others, and the one to trust.
"""

from __future__ import annotations

from typing import ClassVar

from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.language import BoundSubscription, evaluate
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.matching.engine import Capabilities, Engine, SubscriptionId
from tocsin.schema import Event, Schema


class NaiveMatcher(Engine):
    """Tests each subscription in turn."""

    name: ClassVar[str] = "naive"
    capabilities: ClassVar[Capabilities] = Capabilities(decided_leaves=True)

    def __init__(self, schema: Schema, operators: Operators = NO_OPERATORS) -> None:
        super().__init__(schema)
        self.operators = operators
        self._subscriptions: dict[SubscriptionId, BoundSubscription] = {}

    def add(self, id: SubscriptionId, subscription: BoundSubscription) -> None:
        if id in self._subscriptions:
            raise DuplicateSubscription(id)
        self._subscriptions[id] = subscription

    def remove(self, id: SubscriptionId) -> None:
        if self._subscriptions.pop(id, None) is None:
            raise UnknownSubscription(id)

    def match(self, event: Event) -> list[SubscriptionId]:
        found = [id for id, subscription in self._subscriptions.items() if evaluate(subscription, event, self.operators)]
        self.work.events += 1
        self.work.matches += len(found)
        self.work.subscriptions_checked += len(self._subscriptions)
        return found

    def snapshot(self) -> NaiveMatcher:
        copy = NaiveMatcher(self.schema, self.operators)
        copy._subscriptions = dict(self._subscriptions)
        return copy

    def __len__(self) -> int:
        return len(self._subscriptions)
