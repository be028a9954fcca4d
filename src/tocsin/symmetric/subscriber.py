"""Subscribers: a standing question, and properties that say who asks.

    insurance where price <= 700 with name = 'Chris', age = 42, years_ncd = 8

The condition is kept as its conjuncts, each a formula over the event's attributes and the subscriber's own properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tocsin.errors import BadValue, BindError, LanguageError, did_you_mean, nearest
from tocsin.language import parse
from tocsin.language.formula import ConditionFormula, Scope
from tocsin.language.formula_bind import bind_condition
from tocsin.language.render import render
from tocsin.language.syntax import And, Node, Subscription
from tocsin.schema import Value
from tocsin.symmetric.meeting import Meeting

SubscriberId = str | int


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One subscription with its properties, bound to a meeting.

    `properties` go by their names in formulas (`driver.age`). All of `parts` must hold.
    """

    id: SubscriberId
    parts: tuple[ConditionFormula, ...]
    properties: Mapping[str, Value]


def bind_subscriber(
    id: SubscriberId, subscription: str | Subscription, meeting: Meeting, scope: Scope | None = None
) -> Subscriber:
    """Return the subscriber that a text or tree describes; raises LanguageError."""
    tree = parse(subscription) if isinstance(subscription, str) else subscription
    try:
        _check_types(tree, meeting)
        scope = scope or meeting.subscription_scope()
        parts = tuple(bind_condition(part, scope) for part in conjuncts(tree.where))
        return Subscriber(id, parts, properties_of(dict(tree.properties), meeting))
    except LanguageError as error:
        if isinstance(subscription, str) and error.span is not None:
            error.text = subscription
        raise


def _check_types(tree: Subscription, meeting: Meeting) -> None:
    wrong = [name for name in tree.event_types if name != meeting.union.event]
    if wrong:
        span = tree.event_type_spans[0] if tree.event_type_spans else None
        said = f"offers of the union {meeting.union.name!r} are of type {meeting.union.event!r}, not {wrong[0]!r}"
        raise BindError(said, span=span)


def conjuncts(node: Node) -> Iterator[Node]:
    """Yield the parts of a conjunction; the node itself where it is none."""
    if isinstance(node, And):
        for part in node.parts:
            yield from conjuncts(part)
    else:
        yield node


def properties_of(given: Mapping[str, object], meeting: Meeting) -> dict[str, Value]:
    """Return the properties by their names in formulas, each admitted by its domain; raises BindError."""
    names, type_name = meeting.property_names, meeting.union.subscriber
    found: dict[str, Value] = {}
    for name, raw in given.items():
        if name not in names:
            raise BindError(f"a {type_name} has no property {name!r}{did_you_mean(nearest(name, names))}")
        try:
            found[names[name]] = meeting.property_domains[names[name]].admit(raw)
        except BadValue as error:
            raise BindError(f"the property {name}: {error}") from None
    missing = [entry.attribute for entry in meeting.mandatory(type_name) if names[entry.attribute] not in found]
    if missing and found:  # who says nothing of itself is no such record, and satisfies no rule about one
        raise BindError(f"every {type_name} has the property {missing[0]!r}; add: with {missing[0]} = …")
    return found


def subscriber_text(subscriber: Subscriber, meeting: Meeting) -> str:
    """Return the text of a subscriber's question, without its properties."""
    condition = " and ".join(f"({render(part.source)})" for part in subscriber.parts) or "true"
    return f"{meeting.union.event} where {condition}"
