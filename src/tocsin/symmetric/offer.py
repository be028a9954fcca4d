"""Offers: events with rules over the subscribers' properties, and attributes computed for each subscriber.

    {"event": {"name": "Company B", "cover": "Full"},
     "rules": ["age >= 40 and years_ncd >= 3"],
     "dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"}}

The paper calls an offer an advertisement. Binding one is its step Analysis: it divides the offer into the static
sub-event, the dynamic sub-event, and the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tocsin.errors import BadValue, BindError, EventRejected, FormulaFailed, LanguageError, Violation, shown
from tocsin.language.formula import (
    ConditionFormula,
    Resolver,
    Scope,
    ValueFormula,
    is_numeric,
    is_text_like,
    no_functions,
)
from tocsin.language.formula_bind import bind_condition, bind_value
from tocsin.language.formula_semantics import Row, compute
from tocsin.schema import EVENT_TYPE, Domain, Event, Value
from tocsin.symmetric.meeting import Meeting

OfferId = str | int
_KEYS = ("id", "event", "rules", "dynamic")


@dataclass(frozen=True, slots=True)
class DynamicAttribute:
    """An attribute whose value is computed for each subscriber; the value is admitted by the attribute's domain."""

    name: str
    formula: ValueFormula
    domain: Domain

    def value(self, row: Row) -> Value | None:
        """Return the value for one subscriber, None where there is none; raises FormulaFailed."""
        found = compute(self.formula, row)
        return None if found is None else admitted(found, self.domain, self.name)


def admitted(value: object, domain: Domain, name: str) -> Value:
    """Return a computed value as its domain has it; raises FormulaFailed where it is not in the domain."""
    try:
        return domain.admit(value)
    except BadValue as error:
        raise FormulaFailed(f"{name}: {error}") from None


@dataclass(frozen=True, slots=True)
class Offer:
    """One offer, bound to a meeting: its static sub-event, its dynamic sub-event, its rules."""

    id: OfferId | None
    event: Event
    dynamic: tuple[DynamicAttribute, ...]
    rules: tuple[ConditionFormula, ...]
    made: dict[str, Any] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )  # of it by whoever matches it

    def row(self, meeting: Meeting) -> dict[str, Any]:
        """Return the static values as formulas see them."""
        return {name: values if name in meeting.multiple else values[0] for name, values in self.event.values.items()}


class Texts(Protocol):
    """What binds the texts of an offer; analysis.py remembers them."""

    def rule(self, text: str) -> ConditionFormula:
        """Return the condition that a rule's text says; raises LanguageError."""

    def value(self, text: str) -> ValueFormula:
        """Return the formula that a dynamic attribute's text says; raises LanguageError."""

    def attribute(self, fresh: DynamicAttribute) -> DynamicAttribute:
        """Return the attribute to use."""

    def known(self, given: object, event: Mapping[str, Any]) -> tuple[DynamicAttribute, ...] | None:
        """Return the dynamic attributes that these texts were before, None where that is not known."""

    def learn(self, given: object, found: tuple[DynamicAttribute, ...]) -> None:
        """Remember which dynamic attributes these texts are."""


class _FreshTexts:
    """Binds each text anew."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def rule(self, text: str) -> ConditionFormula:
        return bind_condition(text, self.scope)

    def value(self, text: str) -> ValueFormula:
        return bind_value(text, self.scope)

    def attribute(self, fresh: DynamicAttribute) -> DynamicAttribute:
        return fresh

    def known(self, given: object, event: Mapping[str, Any]) -> None:
        """Know none."""

    def learn(self, given: object, found: tuple[DynamicAttribute, ...]) -> None:
        """Remember nothing."""


def bind_offer(
    document: object, meeting: Meeting, resolve: Resolver = no_functions, *, texts: Texts | None = None
) -> Offer:
    """Return the offer that a document describes; raises EventRejected with all its violations."""
    if texts is None:
        texts = _FreshTexts(meeting.rule_scope(resolve))
    if not isinstance(document, Mapping) or not isinstance(document.get("event", {}), Mapping):
        message = 'an offer is an object such as {"event": {…}, "rules": ["age >= 40"], "dynamic": {"price": "…"}}'
        raise EventRejected([Violation("not an object", None, message)])
    violations = [
        Violation("unknown attribute", str(key), f"an offer has no {shown(key)}; it has {', '.join(_KEYS)}")
        for key in document
        if key not in _KEYS
    ]
    given = document.get("dynamic", {})
    dynamic = texts.known(given, document.get("event", {}))
    if dynamic is None:
        before = len(violations)
        dynamic = _dynamic(given, document.get("event", {}), meeting, texts, violations)
        if len(violations) == before:
            texts.learn(given, dynamic)
    rules = _rules(document.get("rules", []), texts, violations)
    event = _static(document.get("event", {}), {entry.name for entry in dynamic}, meeting, violations)
    if violations or event is None:
        raise EventRejected(violations)
    return Offer(document.get("id"), event, dynamic, rules)


def _static(raw: Mapping[str, Any], computed: set[str], meeting: Meeting, violations: list[Violation]) -> Event | None:
    """Return the static sub-event; what is missing may be computed."""
    named = raw.get(EVENT_TYPE, meeting.union.event)
    if named not in (meeting.union.event, [meeting.union.event]):
        said = f"offers of the union {meeting.union.name!r} are of type {meeting.union.event!r}, not {shown(named)}"
        violations.append(Violation("unknown event type", EVENT_TYPE, said))
        return None
    try:
        event = meeting.lenient_schema.admit({**raw, EVENT_TYPE: meeting.union.event})
    except EventRejected as error:
        violations.extend(error.violations)
        return None
    for entry in meeting.mandatory(meeting.union.event):
        if entry.attribute not in event.values and entry.attribute not in computed:
            message = f"the mandatory attribute {entry.attribute!r} is missing, and nothing computes it"
            violations.append(Violation("missing mandatory attribute", entry.attribute, message))
    return event


def _dynamic(
    given: object, event: Mapping[str, Any], meeting: Meeting, texts: Texts, violations: list[Violation]
) -> tuple[DynamicAttribute, ...]:
    if not isinstance(given, Mapping):
        message = 'dynamic attributes are an object: {"price": "case when … end"}'
        violations.append(Violation("bad value", None, message))
        return ()
    found = []
    for name, text in given.items():
        try:
            found.append(_dynamic_attribute(name, text, event, given, meeting, texts))
        except LanguageError as error:
            violations.append(Violation("bad value", str(name), f"the dynamic attribute {name}: {error}"))
    return tuple(found)


def _dynamic_attribute(
    name: str, text: object, event: Mapping[str, Any], given: Mapping[str, Any], meeting: Meeting, texts: Texts
) -> DynamicAttribute:
    entry = meeting.event_view.attributes.get(name)
    if entry is None or name == EVENT_TYPE:
        raise BindError(f"events of type {meeting.union.event} have no attribute {name!r} that can be computed")
    if entry.multiple:
        raise BindError(f"{name} may have several values; only attributes with one value can be computed")
    if event.get(name) is not None:
        raise BindError("the event gives its value already; leave out one of the two")
    if not isinstance(text, str):
        raise BindError(f"write the formula as text; {shown(text)} is none")
    formula = texts.value(text)
    if both := sorted(set(formula.names) & set(given)):
        raise BindError(f"{both[0]} is computed too; a dynamic attribute cannot depend on another")
    if not _fits(formula.domain, entry.domain):
        raise BindError(f"the formula gives values of another kind than {name} has ({entry.domain.kind})")
    return texts.attribute(DynamicAttribute(name, formula, entry.domain))


def _fits(found: Domain, wanted: Domain) -> bool:
    if is_numeric(wanted):
        return is_numeric(found)
    return is_text_like(found) if is_text_like(wanted) else found.kind == wanted.kind


def _rules(given: object, texts: Texts, violations: list[Violation]) -> tuple[ConditionFormula, ...]:
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
