"""One subscription of a union, outside of any index: asked of events and offers one by one, and explained.

For drafts, previews and explanations. A plain event is an offer without rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.language.explain import Explanation, Outcome, combined
from tocsin.language.syntax import Predicate, Subscription
from tocsin.schema import EVENT_TYPE, Event, Schema, Value
from tocsin.symmetric.explain import Explanation as BothSides
from tocsin.symmetric.explain import Outcome as SideOutcome
from tocsin.symmetric.explain import explain
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.offer import Offer
from tocsin.symmetric.semantics import Verdict, decide
from tocsin.symmetric.subscriber import Subscriber, bind_subscriber
from tocsin.symmetric.unions import meetings

HIDDEN = "a rule of the offer"


def is_offer(raw: object) -> bool:
    """Return whether a raw event is an offer: no attribute's value is an object, so `event` cannot be one."""
    return isinstance(raw, Mapping) and isinstance(raw.get("event"), Mapping)


def offer_of(event: Event, meeting: Meeting) -> Offer | None:
    """Return a plain event as an offer without rules; None where it is not of the union's type."""
    name = meeting.union.event
    if name not in event.types:
        return None
    if len(event.types) > 1:  # seen as one of this type
        known = meeting.event_domains
        values = {key: value for key, value in event.values.items() if key in known}
        event = Event({**values, EVENT_TYPE: (name,)})
    return Offer(None, event, (), ())


class TwoSided:
    """A subscription of a union, with its properties."""

    def __init__(self, subscriber: Subscriber, meeting: Meeting) -> None:
        self.subscriber, self.meeting = subscriber, meeting

    @classmethod
    def of(cls, subscription: Subscription, schema: Schema) -> TwoSided | None:
        """Return a subscription whose only event type is a union's, None for another; raises LanguageError."""
        types = subscription.event_types
        meeting = meetings(schema).get(types[0]) if len(types) == 1 else None
        return None if meeting is None else cls(bind_subscriber(0, subscription, meeting), meeting)

    @property
    def speaks_of_itself(self) -> bool:
        """Whether a condition is about the subscriber's own properties, so that events alone cannot answer it."""
        own = self.meeting.property_domains.keys()
        return any(not own.isdisjoint(part.names) for part in self.subscriber.parts)

    def offer(self, given: Event | Offer) -> Offer | None:
        """Return what is given as an offer; None where it is of another type."""
        if isinstance(given, Offer):
            return given if self.meeting.union.event in given.event.types else None
        return offer_of(given, self.meeting)

    def holds(self, given: Event | Offer) -> bool:
        """Return whether the two match."""
        offer = self.offer(given)
        return offer is not None and decide(offer, self.subscriber, self.meeting).matched

    def explain(self, given: Event | Offer) -> BothSides:
        """Return why the two match, or which side refuses."""
        offer = self.offer(given)
        if offer is None:
            asked = SideOutcome("subscriber", f"{EVENT_TYPE} = '{self.meeting.union.event}'", "refused")
            return BothSides(Verdict(False, ("subscriber",), None, {}), (asked,))
        return explain(offer, self.subscriber, self.meeting)

    def explain_as_one(self, given: Event | Offer, *, reveal_rules: bool = True) -> Explanation:
        """Return the same as one condition with parts, as other subscriptions are explained; rules are parts too."""
        told = self.explain(given)
        offer = self.offer(given)
        if offer is None:
            return Explanation.of(_outcome(told.outcomes[0], {}))
        row: dict[str, Any] = {**offer.row(self.meeting), **self.subscriber.properties, **told.verdict.values}
        conditions = (*self.subscriber.parts, *offer.rules)
        parts = []
        for outcome, condition in zip(told.outcomes, conditions, strict=True):
            node, values = condition.source, {name: row[name] for name in condition.names if row.get(name) is not None}
            if outcome.side == "offer" and not reveal_rules:
                parts.append(Outcome(HIDDEN, outcome.result == "held"))
            elif isinstance(node, Predicate) and self._is_of_event(node) and outcome.result != "failed":
                computed = (values[node.attribute],) if node.attribute in values else None
                actual = offer.event.values.get(node.attribute, computed)
                parts.append(Outcome(outcome_text(outcome), outcome.result == "held", node.attribute, actual))
            else:
                parts.append(_outcome(outcome, values))
        failure = told.verdict.failure
        if failure is not None and all(part.held for part in parts):  # a dynamic attribute that nobody asks about
            parts.append(Outcome("all dynamic attributes are computed", False, failure=failure))
        return Explanation.of(combined(tuple(parts), conjunction=True))

    def _is_of_event(self, node: Predicate) -> bool:
        """Return whether a predicate is about an attribute of the event by its own name, which no property has."""
        names = self.meeting.property_names
        return node.attribute in self.meeting.event_domains and node.attribute not in names


def outcome_text(told: SideOutcome) -> str:
    """Return a condition as it is told among those of both sides."""
    return told.condition if told.side == "subscriber" else f"the offer's rule {told.condition}"


def _outcome(told: SideOutcome, values: Mapping[str, Value]) -> Outcome:
    return Outcome(outcome_text(told), told.result == "held", values=dict(values) or None, failure=told.reason)
