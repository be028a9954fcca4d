"""Shapes of formulas: those of many offers that differ in their constants only are computed together.

    case when years_ncd > 7 then 300 + (90 - age) * 4 else 500 end
    case when years_ncd > 7 then 320 + (90 - age) * 3 else 480 end      the same shape

In a shape each number stands as a name of its own, whose value is that of the offer; so do the attributes of the event.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace
from typing import Any, NamedTuple

from tocsin.language.formula import ValueFormula, domain_of
from tocsin.language.offer import ComputedAttribute
from tocsin.language.semantics import Row
from tocsin.language.syntax import (
    And,
    Arithmetic,
    AttributeValue,
    Call,
    Case,
    Comparison,
    Constant,
    Expression,
    Negative,
    Node,
    Not,
    OperatorCall,
    Or,
    Predicate,
)
from tocsin.schema import Domain, Value


class Shape(NamedTuple):
    """A formula without its constants; `key` is the same for formulas of one shape, `given` what the offer says.

    given[i] is the domain and the value, None where it is absent, of the name #i.
    """

    key: Hashable
    formula: ValueFormula
    given: list[tuple[Domain, Value | None]]


def shape_of(attribute: ComputedAttribute, row: Row, others: Collection[str]) -> Shape | None:
    """Return the shape of an attribute's formula for an offer of these values; None where it has none.

    `others` are the names that are no matter of the offer: properties, and what else it computes.
    """
    work, formula = _Shaping(row, others), attribute.formula
    try:
        root = work.value(formula.root)
    except _NoShape:
        return None
    names = (*(name for name in formula.names if name in others), *work.names)
    domains = tuple(domain.name for domain, _ in work.given)
    key = attribute.name, root, domains, tuple(map(id, work.functions))
    return Shape(key, ValueFormula(root, names), work.given)


class _NoShape(Exception):
    """A predicate asks about the event, whose attribute may have several values."""


class _Shaping:
    def __init__(self, row: Row, others: Collection[str]) -> None:
        self.row, self.others = row, others
        self.given: list[tuple[Domain, Value | None]] = []
        self.names: list[str] = []
        self.functions: list[Any] = []  # trees that call different versions of a program are equal

    def _given(self, domain: Domain, value: Value | None) -> AttributeValue:
        self.names.append(f"#{len(self.given)}")
        self.given.append((domain, value))
        return AttributeValue(self.names[-1], domain=domain)

    def value(self, tree: Expression) -> Expression:
        match tree:
            case Constant(value) if domain_of(tree).kind == "numeric":
                return self._given(domain_of(tree), value)
            case AttributeValue(name) if name not in self.others:
                values = self.row.get(name)
                return self._given(domain_of(tree), values[0] if values is not None and len(values) == 1 else None)
            case Negative(part):
                return Negative(self.value(part), tree.domain)
            case Arithmetic(op, left, right):
                return Arithmetic(op, self.value(left), self.value(right), tree.domain)
            case Case(branches, otherwise):
                shaped = tuple((self.node(when), self.value(then)) for when, then in branches)
                return Case(shaped, None if otherwise is None else self.value(otherwise), tree.domain)
            case Call(_, arguments, function=function):
                assert function is not None
                self.functions.append(function)
                leading, rest = arguments[: function.leading], arguments[function.leading :]
                return replace(tree, arguments=(*leading, *map(self.value, rest)))
            case _:
                return tree

    def node(self, node: Node) -> Node:
        match node:
            case And(parts) | Or(parts):
                return type(node)(tuple(map(self.node, parts)))
            case Not(part):
                return Not(self.node(part))
            case Comparison(left, op, right):
                return Comparison(self.value(left), op, self.value(right), domain=node.domain)
            case Predicate(name) if name not in self.others:
                raise _NoShape
            case OperatorCall(_, arguments, function=function):
                assert function is not None
                self.functions.append(function)
                leading, rest = arguments[: function.leading], arguments[function.leading :]
                return replace(node, arguments=(*leading, *map(self.value, rest)))
            case _:
                return node
