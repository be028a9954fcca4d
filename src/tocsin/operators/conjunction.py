"""Conjunction: one alternative, compiled; and whether the bindings found for an event satisfy it jointly.

Its predicates without variables, and that those with variables have solutions at all, is the schedule's affair
(problem.py). What is left is here: one substitution must satisfy all calls, none of the negated ones, and all value
constraints (Liu et al., section 2.2). operator_matcher.py asks `joint` once all members held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from tocsin.errors import FormulaFailed
from tocsin.language.formula import ConditionFormula, Scope
from tocsin.language.formula_bind import bind_condition
from tocsin.language.formula_semantics import is_true
from tocsin.language.syntax import OperatorCall
from tocsin.language.variables import variables_of
from tocsin.operators.alternatives import Alternative
from tocsin.operators.calls import unify
from tocsin.operators.operator import Operator, Row
from tocsin.operators.predicates import Predicates
from tocsin.schema import Domain, Value

MAX_TRIED = 100_000  # substitutions of one conjunction and event; see GivenUp
Substitution = dict[str, Value]
Solutions = Callable[[int], tuple[Row, ...] | None]  # of a predicate, by number; None where it failed


class GivenUp(Exception):
    """The bindings of a conjunction are too many to be tried; the conjunction has no answer for that event."""


@dataclass(frozen=True, slots=True)
class Member:
    """A predicate in a conjunction: its number, its sign, and the names that its slots have here."""

    predicate: int
    negated: bool
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conjunction:
    """The members that a schedule decides, and what joins their bindings."""

    members: tuple[tuple[int, bool], ...]  # for the schedule: (predicate, negated), no predicate twice
    finders: tuple[Member, ...]  # calls with variables; one predicate may occur under different names
    excluders: tuple[Member, ...]  # negated calls with variables
    constraints: tuple[tuple[ConditionFormula, bool, frozenset[str]], ...]  # formula, negated, its variables

    @property
    def is_decided_by_members(self) -> bool:
        return not self.finders and not self.constraints

    def numbers(self) -> set[int]:
        """Return the predicates that it may ask about."""
        return {number for number, _ in self.members} | {member.predicate for member in self.excluders}

    def renumbered(self, numbers: Mapping[int, int]) -> Conjunction:
        """Return the same with other numbers of its predicates."""

        def changed(members: tuple[Member, ...]) -> tuple[Member, ...]:
            return tuple(replace(member, predicate=numbers[member.predicate]) for member in members)

        signs = tuple((numbers[predicate], negated) for predicate, negated in self.members)
        return replace(self, members=signs, finders=changed(self.finders), excluders=changed(self.excluders))

    def joint(self, solutions: Solutions) -> Substitution | None:
        """Return a substitution that satisfies everything, or None; raises GivenUp after MAX_TRIED.

        All members are known to hold.
        Excluders are asked only for substitutions that satisfy all else, so that they are evaluated late or never.
        """
        if not self._constraints_hold({}, None):
            return None
        for found in self._joined(solutions, 0, {}, count(1)):
            if all(self._excludes_not(member, found, solutions) for member in self.excluders):
                return found
        return None

    def _joined(
        self, solutions: Solutions, at: int, given: Substitution, tried: Iterator[int]
    ) -> Iterator[Substitution]:
        """Yield the substitutions that extend `given` by solutions of the finders from `at` on."""
        if at == len(self.finders):
            yield given
            return
        finder = self.finders[at]
        for row in solutions(finder.predicate) or ():
            if next(tried) > MAX_TRIED:
                raise GivenUp
            extended = _extended(given, finder.variables, row)
            if extended is not None and self._constraints_hold(extended, given):
                yield from self._joined(solutions, at + 1, extended, tried)

    def _constraints_hold(self, given: Substitution, before: Substitution | None) -> bool:
        """Return whether the constraints hold that could not be asked about before."""
        return all(
            _constraint_holds(formula, negated, given)
            for formula, negated, names in self.constraints
            if names <= given.keys() and (before is None or not names <= before.keys())
        )

    @staticmethod
    def _excludes_not(member: Member, given: Substitution, solutions: Solutions) -> bool:
        rows = solutions(member.predicate)
        return rows is not None and tuple(given[name] for name in member.variables) not in rows


def _extended(given: Substitution, names: tuple[str, ...], row: Row) -> Substitution | None:
    """Return the substitution with the row's values too, or None where they contradict."""
    extended = dict(given)
    for name, value in zip(names, row, strict=True):
        if extended.setdefault(name, value) != value:
            return None
    return extended


def _constraint_holds(formula: ConditionFormula, negated: bool, given: Substitution) -> bool:
    try:
        return is_true(formula.root, {f"?{name}": value for name, value in given.items()}, negated=negated)
    except FormulaFailed:
        return False


def compile_conjunction(
    alternative: Alternative,
    find: Callable[[str], Operator],
    predicates: Predicates,
    domains: Mapping[str, Domain],
) -> Conjunction | None:
    """Return the compiled alternative, or None where it can never hold: p and not p."""
    signs: dict[int, bool] = {}
    finders: list[Member] = []
    excluders: list[Member] = []
    constraints: list[tuple[ConditionFormula, bool, frozenset[str]]] = []
    scope = Scope(names={}, variables=domains)
    for asked in alternative.asked:
        node = asked.node
        if not isinstance(node, OperatorCall):
            constraints.append((bind_condition(node, scope), asked.negated, frozenset(variables_of(node))))
            continue
        pattern, names = unify(node, find(node.name))
        member = Member(predicates.number(pattern), asked.negated, names)
        if names and asked.negated:
            excluders.append(member)
            continue
        if signs.setdefault(member.predicate, asked.negated) != asked.negated:
            return None
        if names:
            finders.append(member)
    return Conjunction(tuple(signs.items()), tuple(finders), tuple(excluders), tuple(constraints))
