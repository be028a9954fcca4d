"""The definition of matching with operators and variables (Liu et al., section 2.1).

An event satisfies a subscription if there is one substitution, of values for variables, under which the condition
holds. Under a substitution,

  - a call of an operator holds if the operator finds the substituted values among its solutions for the event;
  - its negation holds if the operator was asked and does not find them (negation as failure);
  - a value constraint holds, or its negation does, if the formula has a value;
  - a call that failed, or took too long, does not hold for that event, and neither does its negation;
  - whatever has a variable without a value does not hold, and neither does its negation (bind.py refuses conditions
    that could never give it one);
  - everything else is as in semantics.py.

Written to be read: it tries every substitution of values that some operator found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Protocol

from tocsin.errors import FormulaFailed
from tocsin.language import semantics
from tocsin.language.bind import BoundSubscription
from tocsin.language.formula import Scope
from tocsin.language.formula_bind import bind_condition
from tocsin.language.formula_semantics import is_true
from tocsin.language.syntax import And, Constraint, Node, Not, OperatorCall, Or, Predicate
from tocsin.language.variables import variables_of
from tocsin.schema import Domain, Event, Value, View

Substitution = Mapping[str, Value]  # variable -> value


class Operators(Protocol):
    """What the definition asks of whoever runs operators (operators/registry.py does)."""

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution] | None:
        """Return every substitution of the call's variables for which it holds, or None where it failed.

        For a call without variables that is one empty substitution, or none.
        """

    def domains(self, where: Node) -> Mapping[str, Domain]:
        """Return the domain of each variable of a condition."""


def evaluate_with(operators: Operators, subscription: BoundSubscription, event: Event) -> bool:
    """Return whether the event satisfies the subscription."""
    tree = subscription.subscription
    if tree.event_types and not set(tree.event_types) & set(event.types):
        return False
    definition = Definition(operators, tree.where, subscription.view, event)
    return any(definition.holds(tree.where, given, negated=False) for given in definition.substitutions())


class Definition:
    """What the definition says of one condition and one event."""

    def __init__(self, operators: Operators, where: Node, view: View, event: Event) -> None:
        self.view, self.event = view, event
        self.calls = dict.fromkeys(_calls(where))
        self.solutions = {call: operators.solutions(call, event) for call in self.calls}
        self.scope = Scope(names={}, variables=operators.domains(where))

    def substitutions(self) -> Iterator[Substitution]:
        """Yield every choice, for each variable, of a value that some call found, or of none."""
        found = self.choices()
        for values in product(*([None, *choices] for choices in found.values())):
            yield {name: value for name, value in zip(found, values, strict=True) if value is not None}

    def choices(self) -> dict[str, list[Value]]:
        """Return for each variable the values that calls found."""
        found: dict[str, dict[Value, None]] = {}
        for call in self.calls:
            for name in variables_of(call):
                found.setdefault(name, {})
            for substitution in self.solutions[call] or ():
                for name, value in substitution.items():
                    found[name][value] = None
        return {name: list(values) for name, values in found.items()}

    def holds(self, node: Node, given: Substitution, *, negated: bool) -> bool:
        """Return whether the node, or its negation, holds under a substitution."""
        match node:
            case And(parts):
                combine = any if negated else all
                return combine(self.holds(part, given, negated=negated) for part in parts)
            case Or(parts):
                combine = all if negated else any
                return combine(self.holds(part, given, negated=negated) for part in parts)
            case Not(part):
                return self.holds(part, given, negated=not negated)
            case Predicate():
                return semantics.holds(node, self.event, self.view, negated=negated)
            case OperatorCall():
                return self._call_holds(node, given, negated=negated)
            case Constraint():
                return self._constraint_holds(node, given, negated=negated)

    def _call_holds(self, call: OperatorCall, given: Substitution, *, negated: bool) -> bool:
        solutions = self.solutions[call]
        names = variables_of(call)
        if solutions is None or not names.keys() <= given.keys():
            return False
        return ({name: given[name] for name in names} in solutions) != negated

    def _constraint_holds(self, constraint: Constraint, given: Substitution, *, negated: bool) -> bool:
        formula = bind_condition(constraint, self.scope)
        try:
            return is_true(formula.root, {f"?{name}": value for name, value in given.items()}, negated=negated)
        except FormulaFailed:
            return False


def _calls(node: Node) -> Iterator[OperatorCall]:
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _calls(part)
        case Not(part):
            yield from _calls(part)
        case OperatorCall():
            yield node
        case _:
            return
