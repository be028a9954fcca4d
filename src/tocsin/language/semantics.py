"""The definition of matching.

Everything else in Tocsin that answers "does this event satisfy this subscription?" is an optimisation of this module
and is tested against it. It is written to be read, not to be fast.

  - An event binds each of its attributes to a non-empty set of values.
  - A predicate holds only if its attribute is bound. `!=` asks that no value equals; every other operator asks that
    some value satisfies. `is present` and `is absent` ask about binding itself.
  - `and`, `or`, `not` are those of logic, with one rule: `not` of a predicate needs the attribute bound too. So
    `not (price < 10)` needs a price. (Negation moves inwards: `not (p and q)` is `not p or not q`.)
  - A subscription that names event types asks that the event has one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.errors import NotSupported
from tocsin.language.bind import BoundSubscription
from tocsin.language.geo import METRES, distance_metres, in_box
from tocsin.language.like import is_like
from tocsin.language.syntax import And, Constraint, Node, Not, Op, OperatorCall, Or, Predicate, Within
from tocsin.language.time_units import MICROSECONDS
from tocsin.language.words import satisfies, words
from tocsin.schema import Domain, EnumeratedDomain, Event, HierarchicalDomain, TimeDomain, Value, View


def evaluate(subscription: BoundSubscription, event: Event) -> bool:
    """Return whether the event satisfies the subscription."""
    types = subscription.subscription.event_types
    if types and not set(types) & set(event.types):
        return False
    return holds(subscription.subscription.where, event, subscription.view)


def holds(node: Node, event: Event, view: View, *, negated: bool = False) -> bool:
    """Return whether the node, or its negation, holds for the event."""
    match node:
        case And(parts):
            combine = any if negated else all
            return combine(holds(part, event, view, negated=negated) for part in parts)
        case Or(parts):
            combine = all if negated else any
            return combine(holds(part, event, view, negated=negated) for part in parts)
        case Not(part):
            return holds(part, event, view, negated=not negated)
        case Predicate():
            return predicate_holds(node, event, view[node.attribute].domain, negated=negated)
        case OperatorCall(name):
            raise NotSupported(f"the operator {name} is not installed")
        case Constraint():
            raise NotSupported("value constraints need an operator that binds their variables; none is installed")


def predicate_holds(predicate: Predicate, event: Event, domain: Domain, *, negated: bool = False) -> bool:
    """Return whether the predicate, or its negation, holds for the event."""
    values = event.values.get(predicate.attribute)
    if predicate.op is Op.PRESENT or predicate.op is Op.ABSENT:
        return ((values is not None) == (predicate.op is Op.PRESENT)) != negated
    if values is None:
        return False
    if predicate.op is Op.NE:
        satisfied = not any(_equal(domain, value, predicate.operand) for value in values)
    elif predicate.op is Op.CONTAINS_ALL:  # each member, not all in the same value
        satisfied = all(any(_contains(domain, value, member) for value in values) for member in predicate.operand)  # type: ignore[union-attr]
    else:
        satisfied = any(value_satisfies(domain, predicate.op, value, predicate.operand) for value in values)
    return satisfied != negated


def value_satisfies(domain: Domain, op: Op, value: Value, operand: Any) -> bool:
    """Return whether one value satisfies an operator other than those that ask about all values of an attribute."""
    return _TESTS[op](domain, value, operand)


# --- what each operator asks of one value -----------------------------------------------------------------------------


def _equal(domain: Domain, value: Value, operand: Any) -> bool:
    return domain.key(value) == domain.key(operand)


def _less(domain: Domain, a: Value, b: Value) -> bool:
    """Return whether a < b: below in a hierarchy, by the declared order in an enumeration, else by key."""
    match domain:
        case HierarchicalDomain():
            first, last = domain.intervals[b]  # type: ignore[index]
            return first < domain.intervals[a][0] <= last  # type: ignore[index]
        case EnumeratedDomain():
            return domain.key(b) in domain.above[domain.key(a)]
        case _:
            return domain.key(a) < domain.key(b)  # type: ignore[operator]


def _less_or_equal(domain: Domain, a: Value, b: Value) -> bool:
    return _equal(domain, a, b) or _less(domain, a, b)


def _contains(domain: Domain, value: Value, operand: Any) -> bool:
    """On text: all words of the operand occur, or its word pattern is satisfied. Elsewhere: the value is the operand."""
    if domain.kind != "text":
        return _equal(domain, value, operand)
    text_words = words(value)  # type: ignore[arg-type]
    if isinstance(operand, str):
        return set(words(operand)) <= set(text_words)
    return satisfies(text_words, operand)


def _within(domain: Domain, value: Value, operand: Within) -> bool:
    if isinstance(domain, TimeDomain):
        reach = operand.amount * MICROSECONDS[operand.unit]
        return abs(domain.key(value) - domain.key(operand.center)) <= reach
    return distance_metres(value, operand.center) <= float(operand.amount) * METRES[operand.unit]  # type: ignore[arg-type]


def _starts_with(domain: Domain, value: Value, operand: Any) -> bool:
    return str(domain.key(value)).startswith(str(domain.key(operand)))


def _like(domain: Domain, value: Value, operand: Any) -> bool:
    return is_like(domain.key(value), domain.key(operand))  # type: ignore[arg-type]


_TESTS: dict[Op, Callable[[Domain, Value, Any], bool]] = {
    Op.EQ: _equal,
    Op.LT: _less,
    Op.LE: _less_or_equal,
    Op.GT: lambda domain, value, operand: _less(domain, operand, value),
    Op.GE: lambda domain, value, operand: _less_or_equal(domain, operand, value),
    Op.IN: lambda domain, value, operand: any(_equal(domain, value, member) for member in operand),
    Op.BETWEEN: lambda domain, value, operand: (
        _less_or_equal(domain, operand[0], value) and _less_or_equal(domain, value, operand[1])
    ),
    Op.CONTAINS: _contains,
    Op.CONTAINS_ANY: lambda domain, value, operand: any(_contains(domain, value, member) for member in operand),
    Op.KIND_OF: _less_or_equal,
    Op.STARTS_WITH: _starts_with,
    Op.LIKE: _like,
    Op.WITHIN: _within,
    Op.IN_BOX: lambda _, value, operand: in_box(value, operand),  # type: ignore[arg-type]
}
