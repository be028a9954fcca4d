"""Offers: events with rules over the subscribers' properties, and attributes that are computed for each subscriber.

    {"event": {"event_type": "insurance", "name": "Company B", "cover": "Full"},
     "rules": ["age >= 40 and years_ncd >= 3"],
     "dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"}}

The symmetric-subscriptions paper calls an offer an advertisement. Binding one is its step Analysis: it divides the offer
into the static sub-event, the computed attributes, and the rules. An offer without the latter two is a plain event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tocsin.errors import BadValue, BindError, EventRejected, FormulaFailed, LanguageError, Violation, shown
from tocsin.language.bind import bind_condition, bind_value
from tocsin.language.formula import (
    NO_OPERATORS,
    ConditionFormula,
    Operators,
    Resolver,
    ValueFormula,
    fits,
    no_functions,
)
from tocsin.language.sides import Sides, lenient, sides_of
from tocsin.schema import EVENT_TYPE, Domain, Event, Schema, Value

_KEYS = ("id", "event", "rules", "dynamic")
EXAMPLE = 'an offer is an object such as {"event": {…}, "rules": ["age >= 40"], "dynamic": {"price": "…"}}'


@dataclass(frozen=True, slots=True)
class ComputedAttribute:
    """An attribute whose value is computed for each subscriber; the value is admitted by the attribute's domain."""

    name: str
    formula: ValueFormula
    domain: Domain

    def value(self, computed: object) -> Value | None:
        """Return a computed value as the domain has it, None for none; raises FormulaFailed where it is not in the domain."""
        if computed is None:
            return None
        try:
            return self.domain.admit(computed)
        except BadValue as error:
            raise FormulaFailed(f"{self.name}: {error}") from None


@dataclass(frozen=True, slots=True)
class Offer(Event):
    """The static sub-event, with rules and computed attributes, each of these after those that it mentions."""

    rules: tuple[ConditionFormula, ...] = ()
    computed: tuple[ComputedAttribute, ...] = ()


def is_offer(raw: object) -> bool:
    """Return whether a raw event is an offer: no attribute's value is an object, so `event` cannot be one."""
    if not isinstance(raw, dict) and not isinstance(raw, Mapping):
        return False
    inner = raw.get("event")
    return inner is not None and isinstance(inner, Mapping)  # asking an abstract class takes longer than all the rest


class OfferBinder:
    """Binds the rules and formulas of offers of some event types.

    What binds a text may be replaced by something that remembers texts (offers/analysis.py).
    """

    def __init__(self, sides: Sides, resolve: Resolver = no_functions, operators: Operators = NO_OPERATORS) -> None:
        self.sides = sides
        self.scope = replace(sides.rule_scope, resolve=resolve, operators=operators)
        self.value_scope = replace(self.scope, operators=None)

    def rule(self, text: str) -> ConditionFormula:
        """Return the condition that a rule's text says; raises LanguageError."""
        return bind_condition(text, self.scope)

    def value(self, text: str) -> ValueFormula:
        """Return the formula that a computed attribute's text says; raises LanguageError."""
        return bind_value(text, self.value_scope)

    def known(self, given: Mapping[str, Any]) -> tuple[ComputedAttribute, ...] | None:
        """Return the computed attributes that these texts were before, in order; None where that is not known."""
        del given
        return None

    def learn(self, given: Mapping[str, Any], found: tuple[ComputedAttribute, ...]) -> None:
        """Be told which computed attributes these texts are."""


def offer_sides(document: Mapping[str, Any], schema: Schema) -> Sides:
    """Return the sides of an offer's event types; raises EventRejected where no union names one of them."""
    raw = document.get("event", {})
    named = raw.get(EVENT_TYPE) if isinstance(raw, Mapping) else None
    offered = list(dict.fromkeys(union.event for union in schema.unions.values()))
    if named is None and len(offered) == 1:
        named = offered[0]
    types = [named] if isinstance(named, str) else named
    listed_types = [str(each) for each in types] if isinstance(types, list | tuple) else []
    if all(each in schema.event_types for each in listed_types) and set(listed_types) & set(offered):
        return sides_of(schema, tuple(listed_types))
    listed = ", ".join(map(repr, offered)) or "none: the schema has no union"
    message = f"an offer's event is of a type that a union names, not {shown(named)}; there are {listed}"
    raise EventRejected([Violation("unknown event type", EVENT_TYPE, message)])


def bind_offer(
    document: object,
    schema: Schema,
    resolve: Resolver = no_functions,
    operators: Operators = NO_OPERATORS,
    *,
    binder: Callable[[Sides], OfferBinder] | None = None,
) -> Offer:
    """Return the offer that a document describes; raises EventRejected with all its violations."""
    if not isinstance(document, Mapping) or not isinstance(document.get("event", {}), Mapping):
        raise EventRejected([Violation("not an object", None, EXAMPLE)])
    violations = [
        Violation("unknown attribute", str(key), f"an offer has no {shown(key)}; it has {', '.join(_KEYS)}")
        for key in document
        if key not in _KEYS
    ]
    sides = offer_sides(document, schema)
    texts = binder(sides) if binder is not None else OfferBinder(sides, resolve, operators)
    raw = document.get("event", {})
    computed = _computed(document.get("dynamic", {}), raw, texts, violations)
    rules = _rules(document.get("rules", []), texts, violations)
    values = _static(raw, {entry.name for entry in computed}, sides, violations)
    if violations or values is None:
        raise EventRejected(violations)
    return Offer(values, rules, computed)


def _static(
    raw: Mapping[str, Any], computed: set[str], sides: Sides, violations: list[Violation]
) -> Mapping[str, tuple[Value, ...]] | None:
    """Return the values of the static sub-event; what is missing may be computed."""
    types = sides.event_types
    given = {**raw, EVENT_TYPE: types[0] if len(types) == 1 else list(types)}
    try:
        event = lenient(sides.schema, sides.event_types).admit(given)
    except EventRejected as error:
        violations.extend(error.violations)
        return None
    for name in sides.view.mandatory:
        if name not in event.values and name not in computed:
            message = f"the mandatory attribute {name!r} is missing, and nothing computes it"
            violations.append(Violation("missing mandatory attribute", name, message))
    return event.values


def _computed(
    given: object, raw: Mapping[str, Any], texts: OfferBinder, violations: list[Violation]
) -> tuple[ComputedAttribute, ...]:
    if not isinstance(given, Mapping):
        message = 'computed attributes are an object: {"price": "case when … end"}'
        violations.append(Violation("bad value", None, message))
        return ()
    known = texts.known(given)
    if known is not None and raw.keys().isdisjoint(given):
        return known
    found: dict[str, ComputedAttribute] = {}
    before = len(violations)
    for name, text in given.items():
        try:
            found[name] = _computed_attribute(name, text, raw, texts)
        except LanguageError as error:
            violations.append(Violation("bad value", str(name), f"the computed attribute {name}: {error}"))
    ordered = _in_order(found, violations)
    if len(violations) == before:
        texts.learn(given, ordered)
    return ordered


def _computed_attribute(name: str, text: object, raw: Mapping[str, Any], texts: OfferBinder) -> ComputedAttribute:
    view = texts.sides.view
    entry = view.attributes.get(name)
    if entry is None or name == EVENT_TYPE:
        types = ", ".join(texts.sides.event_types)
        raise BindError(f"events of type {types} have no attribute {name!r} that can be computed")
    if entry.multiple:
        raise BindError(f"{name} may have several values; only attributes with one value can be computed")
    if entry.domain.kind == "object" or any(
        name.startswith(f"{each}.") for each in texts.sides.schema.object_attributes
    ):
        raise BindError(f"{name} is of an array of objects, whose elements are given, not computed")
    if raw.get(name) is not None:
        raise BindError("the event gives its value already; leave out one of the two")
    if not isinstance(text, str):
        raise BindError(f"write the formula as text; {shown(text)} is none")
    formula = texts.value(text)
    if not fits(formula.domain, entry.domain):
        raise BindError(f"the formula gives values of another kind than {name} has ({entry.domain.kind})")
    return ComputedAttribute(name, formula, entry.domain)


def _in_order(found: Mapping[str, ComputedAttribute], violations: list[Violation]) -> tuple[ComputedAttribute, ...]:
    """Return the attributes, each after those that it mentions; a cycle is a violation."""
    ordered: dict[str, ComputedAttribute] = {}
    waiting = dict(found)
    while waiting:
        ready = [name for name, each in waiting.items() if not waiting.keys() & set(each.formula.names)]
        if not ready:
            cycle = _cycle(waiting)
            message = (
                f"the computed attribute {cycle[0]} depends on itself: {' needs '.join(cycle)}. Leave one of them out"
            )
            violations.append(Violation("bad value", cycle[0], message))
            return ()
        for name in ready:
            ordered[name] = waiting.pop(name)
    return tuple(ordered.values())


def _cycle(waiting: Mapping[str, ComputedAttribute]) -> list[str]:
    """Return names of which each needs the next, and the last is the first."""
    name = next(iter(waiting))
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(each for each in waiting[name].formula.names if each in waiting)
    return [*path[path.index(name) :], name]


def _rules(given: object, texts: OfferBinder, violations: list[Violation]) -> tuple[ConditionFormula, ...]:
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, Sequence) or not all(isinstance(text, str) for text in listed):
        violations.append(Violation("bad value", None, 'rules are a list of texts: ["age >= 40"]'))
        return ()
    found = []
    for number, text in enumerate(listed, 1):
        try:
            found.append(texts.rule(text))
        except LanguageError as error:
            violations.append(Violation("bad value", None, f"rule {number}: {error}"))
    return tuple(found)


def needs_scan(event: Event) -> bool:
    """Return whether an event is more than its values: it has rules, or computes attributes."""
    return isinstance(event, Offer) and bool(event.rules or event.computed)
