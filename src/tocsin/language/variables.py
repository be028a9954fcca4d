"""Which variables of a condition have a value where they are needed, and where a variable is local.

A call of an operator gives its variables their values, within its branch: the conjunction that it is part of. Value
constraints, and calls under `not`, ask about values that another call of the same branch gives. Under `not`, a variable
that has no value outside is local: `not (mobPattern(?p) and ?p > 50)` says that no number found is above 50.

    mobPattern(?people) and ?people > 50          holds where one of the numbers found is above 50
    count(?n) and not usual(?n)                   holds where one of the numbers found is not a usual one
    not mobPattern(?people)                       holds where no number is found
    mobPattern(?people) or ?people > 50           refused: in the second alternative, ?people has no value
    count(?n) or not usual(?n)                    refused: is ?n the one that is counted?
"""

from __future__ import annotations

from tocsin.errors import BindError, Span
from tocsin.language.render import render
from tocsin.language.syntax import (
    And,
    Arithmetic,
    Call,
    Case,
    Comparison,
    Expression,
    Negative,
    Node,
    Not,
    OperatorCall,
    Or,
    Predicate,
    Variable,
)

_NONE: frozenset[str] = frozenset()


def check_variables(where: Node, given: frozenset[str] = _NONE) -> None:
    """Raise BindError where a variable is asked about that has no value; `given` are those that have one anyway."""
    everywhere = {name: span for call in _calls(where) for name, span in variables_of(call).items()}
    _check(where, given, everywhere)


def variables_of(tree: Node | Expression) -> dict[str, Span | None]:
    """Return the variables of a condition or expression in the order of their first appearance, with that place."""
    found: dict[str, Span | None] = {}
    _collect(tree, found)
    return found


def _collect(tree: Expression | Node, found: dict[str, Span | None]) -> None:
    match tree:
        case Variable(name):
            found.setdefault(name, tree.span)
        case Negative(part) | Not(part):
            _collect(part, found)
        case Arithmetic(_, left, right) | Comparison(left, _, right):
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


def bound_in(node: Node) -> frozenset[str]:
    """Return the variables that calls of a condition give values to, outside of any `not` within it."""
    match node:
        case And(parts) | Or(parts):
            return _NONE.union(*map(bound_in, parts))
        case OperatorCall() if node.function is None:
            return frozenset(variables_of(node))
        case _:
            return _NONE


def _calls(node: Node) -> list[OperatorCall]:
    """Return the calls of operators outside of any `not`."""
    match node:
        case And(parts) | Or(parts):
            return [call for part in parts for call in _calls(part)]
        case OperatorCall() if node.function is None:
            return [node]
        case _:
            return []


def _given(node: Node) -> frozenset[str]:
    """Return the variables that have a value wherever the node holds."""
    match node:
        case And(parts):
            return _NONE.union(*map(_given, parts))
        case Or(parts):
            each = list(map(_given, parts))
            return each[0].intersection(*each[1:]) if each else _NONE
        case OperatorCall() if node.function is None:
            return frozenset(variables_of(node))
        case _:
            return _NONE


def _check(node: Node, given: frozenset[str], elsewhere: dict[str, Span | None]) -> None:
    match node:
        case Not(part):
            for name, span in variables_of(part).items():
                if name not in given and name in elsewhere:
                    message = (
                        f"?{name} has a value in another alternative only; under `not` it would be another one. "
                        "Give it a name of its own there"
                    )
                    raise BindError(message, span=span)
            within = {name: span for call in _calls(part) for name, span in variables_of(call).items()}
            _check(part, given, {name: span for name, span in within.items() if name not in given})
        case And(parts):
            each = list(map(_given, parts))
            for at, part in enumerate(parts):
                _check(part, given.union(*each[:at], *each[at + 1 :]), elsewhere)
        case Or(parts):
            for part in parts:
                _check(part, given, elsewhere)
        case Comparison():
            _refuse_missing(node, given)
        case OperatorCall() if node.function is not None:
            _refuse_missing(node, given)
        case Predicate() | OperatorCall():
            return


def _refuse_missing(node: OperatorCall | Comparison, given: frozenset[str]) -> None:
    for name, span in variables_of(node).items():
        if name not in given:
            written = render(node)
            message = (
                f"?{name} has no value here: {written} only asks about it. In the same alternative, an operator must give "
                f"it one, such as: f(?{name}) and {written}"
            )
            raise BindError(message, span=span or node.span)
