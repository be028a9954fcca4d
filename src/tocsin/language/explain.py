"""Why an event does, or does not, satisfy a subscription.

Follows semantics.py node by node, keeping what it found: each predicate with the actual values and whether it held.
For an event that does not match, `changes` is a smallest set of predicates that would have to come out otherwise: the
near miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from tocsin.language.bind import BoundSubscription
from tocsin.language.render import render
from tocsin.language.semantics import holds
from tocsin.language.syntax import And, Node, Not, Op, Or, Predicate, Subscription
from tocsin.schema import EVENT_TYPE, Event, Value, View

_TOLD = 100  # bindings of a call that JSON tells


@dataclass(frozen=True, slots=True)
class Outcome:
    """A node of the expression, negation moved inwards, with what came of it.

    `condition` is the text of a predicate (with its `not`), or "and" / "or" for a node with parts. `actual` are the
    event's values of the predicate's attribute: None where it is not bound. Of calls and value constraints,
    `variables` are the values that their variables have here; of calls, `found` is all that the operator found, and
    `failure` why it has no answer (operators/explanation.py). Where a condition is about several names, some of them
    the subscriber's own, `values` are theirs (symmetric/two_sided.py).
    """

    condition: str
    held: bool
    attribute: str | None = None
    actual: tuple[Value, ...] | None = None
    parts: tuple[Outcome, ...] = ()
    variables: Mapping[str, Value] | None = None
    found: tuple[Mapping[str, Value], ...] | None = None
    failure: str | None = None
    values: Mapping[str, Value] | None = None

    @property
    def note(self) -> str:
        """What there is to say about it beside whether it held: the values, what was found, or why it failed."""
        if self.failure is not None:
            return f"failed: {self.failure}"
        if self.found is not None:
            more = ", …" if len(self.found) > 5 else ""
            return f"found {'; '.join(map(_shown_variables, self.found[:5])) or 'nothing'}{more}"
        if self.variables is not None:
            return _shown_variables(self.variables)
        if self.values is not None:
            return ", ".join(f"{name} is {_shown_value(value)}" for name, value in self.values.items())
        return "" if self.attribute is None else f"{self.attribute} {_shown_values(self.actual)}"

    def __str__(self) -> str:
        mark = "✓" if self.held else "✗"
        return f"{mark} {self.condition}   ({self.note})" if self.note else f"{mark} {self.condition}"

    def as_json(self) -> dict[str, object]:
        """Return the outcome as JSON has it."""
        if self.attribute is None:
            more: dict[str, object] = {"parts": [part.as_json() for part in self.parts]} if self.parts else {}
            if self.variables is not None:
                more["variables"] = _plain_variables(self.variables)
            if self.found is not None:
                more["found"] = [_plain_variables(each) for each in self.found[:_TOLD]]
            if self.failure is not None:
                more["failure"] = self.failure
            if self.values is not None:
                more["values"] = _plain_variables(self.values)
            return {"condition": self.condition, "held": self.held, **more}
        actual = None if self.actual is None else [_plain(value) for value in self.actual]
        return {"condition": self.condition, "held": self.held, "attribute": self.attribute, "actual": actual}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer for one subscription and one event, with its reasons."""

    matched: bool
    root: Outcome
    changes: tuple[Outcome, ...]  # what would have to come out otherwise; empty for a match
    variables: Mapping[str, Value] = field(default_factory=dict)  # values that satisfy it, where operators found some

    @classmethod
    def of(cls, root: Outcome, variables: Mapping[str, Value] | None = None) -> Explanation:
        """Return the explanation that an outcome is."""
        return cls(root.held, root, () if root.held else _changes(root), (variables or {}) if root.held else {})

    def as_json(self) -> dict[str, object]:
        """Return the explanation as JSON has it."""
        return {
            "matched": self.matched,
            "outcome": self.root.as_json(),
            "changes": [change.as_json() for change in self.changes],
            **({"variables": _plain_variables(self.variables)} if self.variables else {}),
        }

    def __str__(self) -> str:
        lines = ["matches" if self.matched else "does not match"]
        if self.variables:
            lines[0] += f", with {_shown_variables(self.variables)}"
        lines += [f"{'  ' * depth}{outcome}" for depth, outcome in _walk(self.root, 1)]
        if self.changes:
            lines.append("to match, it would take:")
            lines += [f"  {_wish(outcome)}" for outcome in self.changes]
        return "\n".join(lines)


def explain(subscription: BoundSubscription, event: Event) -> Explanation:
    """Return whether the event satisfies the subscription, and why."""
    tree = subscription.subscription
    return Explanation.of(with_types(tree, event, _outcome(tree.where, event, subscription.view, negated=False)))


def with_types(tree: Subscription, event: Event, where: Outcome) -> Outcome:
    """Return the outcome of a whole subscription: of its condition, and of its event types where it names some."""
    if not tree.event_types:
        return where
    types = _type_outcome(tree.event_types, event)
    return Outcome("and", types.held and where.held, parts=(types, where))


def _type_outcome(event_types: tuple[str, ...], event: Event) -> Outcome:
    condition = render(Predicate(EVENT_TYPE, Op.IN, event_types))
    return Outcome(condition, bool(set(event_types) & set(event.types)), EVENT_TYPE, event.types)


def _outcome(node: Node, event: Event, view: View, *, negated: bool) -> Outcome:
    match node:
        case Not(part):
            return _outcome(part, event, view, negated=not negated)
        case And(parts) | Or(parts):
            outcomes = tuple(_outcome(part, event, view, negated=negated) for part in parts)
            return combined(outcomes, conjunction=isinstance(node, And) != negated)
        case _:
            return leaf_outcome(node, event, held=holds(node, event, view, negated=negated), negated=negated)


def combined(parts: tuple[Outcome, ...], *, conjunction: bool) -> Outcome:
    """Return the outcome of a node with parts."""
    held = all(part.held for part in parts) if conjunction else any(part.held for part in parts)
    return Outcome("and" if conjunction else "or", held, parts=parts)


def leaf_outcome(node: Node, event: Event, *, held: bool, negated: bool) -> Outcome:
    """Return the outcome of a node without parts, with the event's values where it is about an attribute."""
    attribute = node.attribute if isinstance(node, Predicate) else None
    actual = None if attribute is None else event.values.get(attribute)
    return Outcome(render(Not(node) if negated else node), held, attribute, actual)


def _changes(outcome: Outcome) -> tuple[Outcome, ...]:
    """Return a smallest set of predicates whose change would make the outcome hold."""
    if outcome.held:
        return ()
    if outcome.condition == "and":
        return tuple(change for part in outcome.parts for change in _changes(part))
    if outcome.condition == "or" and outcome.parts:
        return min((_changes(part) for part in outcome.parts), key=len)
    return (outcome,)


def _walk(outcome: Outcome, depth: int) -> Iterator[tuple[int, Outcome]]:
    yield depth, outcome
    for part in outcome.parts:
        yield from _walk(part, depth + 1)


def _wish(outcome: Outcome) -> str:
    return f"{outcome.condition}, where {outcome.note}" if outcome.attribute is not None else outcome.condition


def _shown_values(values: tuple[Value, ...] | None) -> str:
    if values is None:
        return "is absent"
    shown = ", ".join(map(_shown_value, values[:5])) + (", …" if len(values) > 5 else "")
    return f"is {shown}"


def _shown_variables(variables: Mapping[str, Value]) -> str:
    return ", ".join(f"?{name} = {_shown_value(value)}" for name, value in variables.items())


def _plain_variables(variables: Mapping[str, Value]) -> dict[str, object]:
    return {name: _plain(value) for name, value in variables.items()}


def _plain(value: Value) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _shown_value(value: Value) -> str:
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
