"""Which variables of a condition have a value where they are needed.

A call of an operator that is not negated gives its variables their values. A value constraint, and a negated call,
only ask about values: each alternative of the condition that has one of these must also have a call that is not
negated, for each of its variables. Otherwise it would ask about any value whatsoever, and is refused.

    mobPattern(?people) and ?people > 50          holds where one of the numbers found is above 50
    count(?n) and not usual(?n)                   holds where one of the numbers found is not a usual one
    mobPattern(?people) or ?people > 50           refused: in the second alternative, ?people has no value
    not mobPattern(?people)                       refused
"""

from __future__ import annotations

from tocsin.errors import BindError, Span
from tocsin.language.render import render
from tocsin.language.syntax import (
    And,
    Arithmetic,
    Call,
    Case,
    Constraint,
    Expression,
    Negative,
    Node,
    Not,
    OperatorCall,
    Or,
    Variable,
)

_NONE: frozenset[str] = frozenset()


def check_variables(where: Node) -> None:
    """Raise BindError where a variable is asked about that has no value."""
    _check(where, _NONE, negated=False)


def variables_of(node: OperatorCall | Constraint) -> dict[str, Span | None]:
    """Return the variables of a call or constraint in the order of their first appearance, with that place."""
    found: dict[str, Span | None] = {}
    parts = node.arguments if isinstance(node, OperatorCall) else (node.left, node.right)
    for part in parts:
        _collect(part, found)
    return found


def _collect(tree: Expression | Node, found: dict[str, Span | None]) -> None:
    match tree:
        case Variable(name):
            found.setdefault(name, tree.span)
        case Negative(part) | Not(part):
            _collect(part, found)
        case Arithmetic(_, left, right) | Constraint(left, _, right):
            _collect(left, found)
            _collect(right, found)
        case Call(_, parts) | OperatorCall(_, parts) | And(parts) | Or(parts):
            for part in parts:
                _collect(part, found)
        case Case(branches, otherwise):
            for when, then in branches:
                _collect(when, found)
                _collect(then, found)
            if otherwise is not None:
                _collect(otherwise, found)


def _given(node: Node, *, negated: bool) -> frozenset[str]:
    """Return the variables that have a value wherever the node, or its negation, holds."""
    match node:
        case Not(part):
            return _given(part, negated=not negated)
        case And(parts) | Or(parts):
            each = [_given(part, negated=negated) for part in parts]
            if isinstance(node, And) != negated:
                return _NONE.union(*each)
            return each[0].intersection(*each[1:]) if each else _NONE
        case OperatorCall() if not negated:
            return frozenset(variables_of(node))
        case _:
            return _NONE


def _check(node: Node, given: frozenset[str], *, negated: bool) -> None:
    match node:
        case Not(part):
            _check(part, given, negated=not negated)
        case And(parts) | Or(parts) if isinstance(node, And) != negated:
            each = [_given(part, negated=negated) for part in parts]
            for at, part in enumerate(parts):
                _check(part, given.union(*each[:at], *each[at + 1 :]), negated=negated)
        case And(parts) | Or(parts):
            for part in parts:
                _check(part, given, negated=negated)
        case Constraint():
            _refuse_missing(node, given)
        case OperatorCall() if negated:
            _refuse_missing(node, given)
        case _:
            return


def _refuse_missing(node: OperatorCall | Constraint, given: frozenset[str]) -> None:
    for name, span in variables_of(node).items():
        if name not in given:
            written = render(Not(node)) if isinstance(node, OperatorCall) else render(node)
            message = (
                f"?{name} has no value here: {written} only asks about it. In the same alternative, an operator that "
                f"is not negated must give it one, such as: f(?{name}) and {written}"
            )
            raise BindError(message, span=span or node.span)
