"""Why an event does, or does not, satisfy a subscription that calls operators.

Each call is shown with what the operator found, or why it failed; each value constraint with the values of its
variables. For a match these are values that satisfy everything, as the matcher finds them; for a miss, those with which
the fewest conditions would have to come out otherwise. Operators are run again, each once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from tocsin.language import BoundSubscription, Explanation, explain, semantics
from tocsin.language.explain import Outcome, combined, leaf_outcome, with_types
from tocsin.language.operator_semantics import Definition, Operators, Substitution
from tocsin.language.syntax import And, Comparison, Node, Not, OperatorCall, Or
from tocsin.language.variables import variables_of
from tocsin.operators import runner
from tocsin.operators.alternatives import Alternative, alternatives
from tocsin.operators.binding import variable_domains
from tocsin.operators.calls import Pattern, unify
from tocsin.operators.conjunction import GivenUp, compile_conjunction
from tocsin.operators.operator import Row
from tocsin.operators.predicates import Predicates
from tocsin.operators.registry import Registry
from tocsin.schema import Domain, Event, Value

_TRIED = 1_000  # substitutions among which the nearest miss is looked for


def explain_with(registry: Registry, subscription: BoundSubscription, event: Event) -> Explanation:
    """Return whether the event satisfies a subscription bound by the registry, and why."""
    tree = subscription.subscription
    if not _asks(tree.where):
        return explain(subscription, event)
    asked = _Remembered(registry)
    definition = Definition(asked, tree.where, subscription.view, event)
    found = _satisfying(asked, subscription, event)
    if found is not None:
        return Explanation.of(with_types(tree, event, _outcome(tree.where, definition, asked, found)), found)
    tried = (
        Explanation.of(with_types(tree, event, _outcome(tree.where, definition, asked, given)))
        for given in islice(_choices(definition), _TRIED)
    )
    return min(tried, key=lambda told: len(told.changes))


def _asks(node: Node) -> bool:
    """Return whether there are calls or value constraints in a condition."""
    match node:
        case And(parts) | Or(parts):
            return any(map(_asks, parts))
        case Not(part):
            return _asks(part)
        case _:
            return isinstance(node, OperatorCall | Comparison)


class _Remembered(Operators):
    """A registry's operators, each asked once about one event."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._outcomes: dict[tuple[object, ...], runner.Outcome] = {}

    def _run(self, pattern: Pattern, event: Event) -> runner.Outcome:
        if pattern.input_key not in self._outcomes:
            self._outcomes[pattern.input_key] = self.registry.runner.run(pattern, event)
        return self._outcomes[pattern.input_key]

    def rows(self, pattern: Pattern, event: Event) -> tuple[Row, ...] | None:
        """Return the solutions of a predicate, or None where its operator failed."""
        outcome = self._run(pattern, event)
        return None if outcome.failure is not None else pattern.solutions(outcome.rows)

    def failure(self, call: OperatorCall, event: Event) -> str | None:
        """Return why a call has no answer."""
        return self._run(unify(call, self.registry.get(call.name))[0], event).failure

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution] | None:
        pattern, names = unify(call, self.registry.get(call.name))
        rows = self.rows(pattern, event)
        return None if rows is None else [dict(zip(names, row, strict=True)) for row in rows]

    def domains(self, where: Node) -> Mapping[str, Domain]:
        return self.registry.domains(where)


def _satisfying(asked: _Remembered, subscription: BoundSubscription, event: Event) -> Substitution | None:
    """Return values that satisfy the subscription, as the matcher finds them; None where there are none."""
    tree = subscription.subscription
    if tree.event_types and not set(tree.event_types) & set(event.types):
        return None
    domains = variable_domains(tree.where, asked.registry.get)
    for alternative in alternatives(tree.where):
        if semantics.holds(alternative.cheap, event, subscription.view, negated=False):
            found = _joint(asked, alternative, domains, event)
            if found is not None:
                return found
    return None


def _joint(
    asked: _Remembered, alternative: Alternative, domains: Mapping[str, Domain], event: Event
) -> Substitution | None:
    predicates = Predicates()
    conjunction = compile_conjunction(alternative, asked.registry.get, predicates, domains)
    if conjunction is None:
        return None
    for number, negated in conjunction.members:
        rows = asked.rows(predicates.patterns[number], event)
        if rows is None or bool(rows) == negated:
            return None
    try:
        return conjunction.joint(lambda number: asked.rows(predicates.patterns[number], event))
    except GivenUp:
        return None


def _choices(definition: Definition) -> Iterator[Substitution]:
    """Yield choices of a value for every variable that has one; where none has, the empty choice."""
    choices = {name: values for name, values in definition.choices().items() if values}
    for values in product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def _outcome(
    node: Node, definition: Definition, asked: _Remembered, given: Substitution, *, negated: bool = False
) -> Outcome:
    match node:
        case Not(part):
            return _outcome(part, definition, asked, given, negated=not negated)
        case And(parts) | Or(parts):
            outcomes = tuple(_outcome(part, definition, asked, given, negated=negated) for part in parts)
            return combined(outcomes, conjunction=isinstance(node, And) != negated)
        case _:
            held = definition.holds(node, given, negated=negated)
            plain = leaf_outcome(node, definition.event, held=held, negated=negated)
            return _with_values(plain, node, definition, asked, given)


def _with_values(
    outcome: Outcome, node: Node, definition: Definition, asked: _Remembered, given: Substitution
) -> Outcome:
    """Return the outcome with what is to be said of a call or a constraint."""
    if not isinstance(node, OperatorCall | Comparison):
        return outcome
    names = variables_of(node)
    values: dict[str, Value] = {name: given[name] for name in names if name in given}
    if isinstance(node, Comparison):
        return Outcome(outcome.condition, outcome.held, variables=values)
    failure = asked.failure(node, definition.event)
    solutions = definition.solutions[node]
    found = None if not names or solutions is None else tuple(solutions)
    return Outcome(outcome.condition, outcome.held, variables=values or None, found=found, failure=failure)
