"""Why an event does, or does not, satisfy a subscription.

Follows semantics.py node by node, keeping what it found: each predicate with the actual values and whether it held.
For an event that does not match, `changes` is a smallest set of predicates that would have to come out otherwise: the
near miss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from tocsin.language.bind import BoundSubscription
from tocsin.language.render import render
from tocsin.language.semantics import holds
from tocsin.language.syntax import And, Node, Not, Op, Or, Predicate
from tocsin.schema import EVENT_TYPE, Event, Value, View


@dataclass(frozen=True, slots=True)
class Outcome:
    """A node of the expression, negation moved inwards, with what came of it.

    `condition` is the text of a predicate (with its `not`), or "and" / "or" for a node with parts. `actual` are the
    event's values of the predicate's attribute: None where it is not bound.
    """

    condition: str
    held: bool
    attribute: str | None = None
    actual: tuple[Value, ...] | None = None
    parts: tuple[Outcome, ...] = ()

    def __str__(self) -> str:
        mark = "✓" if self.held else "✗"
        if self.attribute is None:
            return f"{mark} {self.condition}"
        return f"{mark} {self.condition}   ({self.attribute} {_shown_values(self.actual)})"

    def as_json(self) -> dict[str, object]:
        """Return the outcome as JSON has it."""
        if self.attribute is None:
            parts = [part.as_json() for part in self.parts]
            return {"condition": self.condition, "held": self.held, **({"parts": parts} if parts else {})}
        actual = None if self.actual is None else [_plain(value) for value in self.actual]
        return {"condition": self.condition, "held": self.held, "attribute": self.attribute, "actual": actual}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer for one subscription and one event, with its reasons."""

    matched: bool
    root: Outcome
    changes: tuple[Outcome, ...]  # what would have to come out otherwise; empty for a match

    def as_json(self) -> dict[str, object]:
        """Return the explanation as JSON has it."""
        return {
            "matched": self.matched,
            "outcome": self.root.as_json(),
            "changes": [change.as_json() for change in self.changes],
        }

    def __str__(self) -> str:
        lines = ["matches" if self.matched else "does not match"]
        lines += [f"{'  ' * depth}{outcome}" for depth, outcome in _walk(self.root, 1)]
        if self.changes:
            lines.append("to match, it would take:")
            lines += [f"  {_wish(outcome)}" for outcome in self.changes]
        return "\n".join(lines)


def explain(subscription: BoundSubscription, event: Event) -> Explanation:
    """Return whether the event satisfies the subscription, and why."""
    tree = subscription.subscription
    parts = [_outcome(tree.where, event, subscription.view, negated=False)]
    if tree.event_types:
        parts.insert(0, _type_outcome(tree.event_types, event))
    root = parts[0] if len(parts) == 1 else Outcome("and", all(part.held for part in parts), parts=tuple(parts))
    return Explanation(root.held, root, () if root.held else _changes(root))


def _type_outcome(event_types: tuple[str, ...], event: Event) -> Outcome:
    condition = render(Predicate(EVENT_TYPE, Op.IN, event_types))
    return Outcome(condition, bool(set(event_types) & set(event.types)), EVENT_TYPE, event.types)


def _outcome(node: Node, event: Event, view: View, *, negated: bool) -> Outcome:
    match node:
        case Not(part):
            return _outcome(part, event, view, negated=not negated)
        case And(parts) | Or(parts):
            outcomes = tuple(_outcome(part, event, view, negated=negated) for part in parts)
            conjunction = isinstance(node, And) != negated
            held = all(part.held for part in outcomes) if conjunction else any(part.held for part in outcomes)
            return Outcome("and" if conjunction else "or", held, parts=outcomes)
        case _:
            held = holds(node, event, view, negated=negated)
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
    if outcome.attribute is None:
        return outcome.condition
    return f"{outcome.condition}, where {outcome.attribute} {_shown_values(outcome.actual)}"


def _shown_values(values: tuple[Value, ...] | None) -> str:
    if values is None:
        return "is absent"
    shown = ", ".join(map(_shown_value, values[:5])) + (", …" if len(values) > 5 else "")
    return f"is {shown}"


def _plain(value: Value) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _shown_value(value: Value) -> str:
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
