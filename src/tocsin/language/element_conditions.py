"""Scopes compiled: what semantics.py says of a scope, as functions that are made once and asked for many events.

A condition becomes one function of a row; predicates on numbers and texts compare directly, all else asks the definition.
Where a scope mentions nothing outside of its array, an element is the row that is asked about.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tocsin.errors import FormulaFailed
from tocsin.language.semantics import Row, Situation, holds, predicate_holds
from tocsin.language.syntax import And, Node, Not, Op, Or, Predicate, Quantifier, ScopeCondition, names_of
from tocsin.schema import NumericDomain, TextDomain
from tocsin.schema.readings import read, reading_of

ElementTest = Callable[[Situation], bool]  # raises FormulaFailed
_RowTest = Callable[[Row], bool]  # the same
_ORDER: dict[Op, Callable[[Any, Any], bool]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def compiled(scope: Node) -> ElementTest:
    """Return the function that tells whether a bound scope, or its negation, holds."""
    test = _test(scope, negated=False)

    def ask(situation: Situation) -> bool:
        situation.check(scope)
        return test(situation.row)

    return ask


def _test(node: Node, *, negated: bool) -> _RowTest:
    match node:
        case Not(part):
            return _test(part, negated=not negated)
        case And(parts) | Or(parts):
            each = [_test(part, negated=negated) for part in parts]
            return _joined(each, conjunction=isinstance(node, And) != negated)
        case ScopeCondition():
            return _scope(node, negated=negated)
        case Predicate():
            return _predicate(node, negated=negated)
        case _:
            return lambda row: holds(node, Situation(row), negated=negated)


def _joined(parts: Sequence[_RowTest], *, conjunction: bool) -> _RowTest:
    def test(row: Row) -> bool:
        failure: FormulaFailed | None = None
        for part in parts:
            try:
                if part(row) != conjunction:
                    return not conjunction
            except FormulaFailed as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return conjunction

    return test


def _scope(scope: ScopeCondition, *, negated: bool) -> _RowTest:
    array, part = scope.array, _test(scope.part, negated=False)
    every = scope.quantifier is Quantifier.EVERY
    turned = (scope.quantifier is Quantifier.NO) != negated
    mentioned = dict.fromkeys(names_of(scope.part))
    outside = [name for name in mentioned if not name.startswith(f"{array}.")]
    readings = [(name, *read_as) for name in mentioned if name not in outside and (read_as := reading_of(name))]

    def test(row: Row) -> bool:
        elements: Any = row.get(array)
        if elements is None:
            return False
        given = {name: row[name] for name in outside if name in row} if outside else None
        failure: FormulaFailed | None = None
        for element in elements:
            own = {**given, **element} if given else element
            for name, base, kind in readings:
                if base in element and (found := read(element[base], kind)) is not None:
                    own = {**own, name: found}
            try:
                if part(own) != every:
                    return every == turned  # every: one does not, else: one does
            except FormulaFailed as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return every != turned

    return test


def _predicate(predicate: Predicate, *, negated: bool) -> _RowTest:
    name, domain, operand = predicate.attribute, predicate.domain, predicate.operand
    plain = isinstance(domain, NumericDomain) or (isinstance(domain, TextDomain) and domain.case == "sensitive")
    if plain and not negated and predicate.op is Op.EQ:
        return lambda row: operand in row.get(name, ())
    if plain and not negated and predicate.op in _ORDER:
        satisfies = _ORDER[predicate.op]
        return lambda row: any(satisfies(value, operand) for value in row.get(name, ()))
    asked = partial(predicate_holds, predicate, negated=negated)
    return lambda row: asked(row.get(name))
