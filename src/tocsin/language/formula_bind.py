"""Binding formulas: a tree checked against a scope, its types worked out.

    numbers    int with int gives int, but `/` always gives float; with a float, float; a decimal with an int, decimal
    case       the branches agree: all numbers (the widest type), all texts, or all of one kind
    compare    numbers with numbers; texts with texts, in order only within one domain; otherwise like with like

Parts made of constants alone are computed here, exactly, as everywhere in the language (fold.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from tocsin.errors import BadValue, BindError, LanguageError, Span, did_you_mean, nearest, shown
from tocsin.language import syntax
from tocsin.language.bounds import check_size
from tocsin.language.fold import fold
from tocsin.language.formula import (
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INT,
    POINT,
    TEXT,
    TIME,
    Answered,
    Choice,
    Compared,
    Computed,
    ConditionFormula,
    Every,
    Function,
    Given,
    Invoked,
    Negated,
    Opposite,
    Reference,
    Satisfies,
    Scope,
    Some,
    Term,
    Test,
    ValueFormula,
    is_numeric,
    is_text_like,
    numeric_type,
)
from tocsin.language.literals import check_literal
from tocsin.language.offers import check_offered
from tocsin.language.operands import canonical_operand
from tocsin.language.parse import parse_condition, parse_expression
from tocsin.language.render import render
from tocsin.language.syntax import Expression, Literal, Node, Op
from tocsin.schema import Domain, EnumeratedDomain, HierarchicalDomain, TextDomain, ViewAttribute

_EQUALITY = frozenset({Op.EQ, Op.NE})
T = TypeVar("T")
_WIDTH = {"int": 0, "decimal": 1, "float": 2}


def bind_value(formula: str | Expression, scope: Scope) -> ValueFormula:
    """Return the value formula of a text or tree; raises ParseError, BindError or TooLarge."""
    tree = parse_expression(formula) if isinstance(formula, str) else formula
    return _bound(formula, tree, lambda: _value_formula(tree, scope))


def bind_condition(formula: str | Node, scope: Scope) -> ConditionFormula:
    """Return the condition formula of a text or tree; raises ParseError, BindError or TooLarge."""
    tree = parse_condition(formula) if isinstance(formula, str) else formula
    return _bound(formula, tree, lambda: _condition_formula(tree, scope))


def _bound(written: object, tree: Expression | Node, work: Callable[[], T]) -> T:
    try:
        check_size(tree)
        return work()
    except LanguageError as error:
        if isinstance(written, str) and error.span is not None and error.text is None:
            error.text = written
        raise


def _value_formula(tree: Expression, scope: Scope) -> ValueFormula:
    binding = _Binding(scope)
    root = binding.term(tree)
    return ValueFormula(tree, root, tuple(binding.names))


def _condition_formula(tree: Node, scope: Scope) -> ConditionFormula:
    binding = _Binding(scope)
    root = binding.test(tree)
    return ConditionFormula(tree, root, tuple(binding.names))


def domain_of_literal(value: Literal) -> Domain:
    """Return the domain of a constant by itself."""
    match value:
        case bool():
            return BOOLEAN
        case int():
            return INT
        case float():
            return FLOAT
        case Decimal():
            return DECIMAL
        case str():
            return TEXT
        case datetime():
            return TIME
        case _:
            return POINT


class _Binding:
    """The work of binding one formula."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.names: dict[str, None] = {}

    # --- values -------------------------------------------------------------------------------------------------------

    def term(self, tree: Expression) -> Term:
        constant = self._folded(tree)
        if constant is not None:
            return constant
        match tree:
            case syntax.AttributeValue(name):
                return self._reference(name, tree.span)
            case syntax.Variable():
                return self._variable(tree)
            case syntax.Negative(part):
                bound = self._number(part, "-")
                return Negated(bound, _plain_number(bound.domain))
            case syntax.Arithmetic(op, left, right):
                first, second = self._number(left, op), self._number(right, op)
                return Computed(op, first, second, _arithmetic_domain(op, first.domain, second.domain))
            case syntax.Case():
                return self._case(tree)
            case syntax.Call():
                function, arguments = self._call(tree)
                return Invoked(function, arguments, function.returns)
            case _:
                raise AssertionError(f"a constant that does not fold: {tree}")

    def _folded(self, tree: Expression) -> Given | None:
        try:
            value = fold(tree)
        except LanguageError as error:
            raise BindError(f"{render(tree)} has no value: {error.message}", span=_place(tree)) from None
        return None if value is None else Given(check_literal(value), domain_of_literal(value))

    def _reference(self, name: str, span: Span | None) -> Reference:
        known, domain = self._domain(name, span)
        if known in self.scope.multiple:
            message = f"{name} may have several values, so it has no one value; ask about it: {name} contains …"
            raise BindError(message, span=span)
        return Reference(known, domain)

    def _domain(self, name: str, span: Span | None) -> tuple[str, Domain]:
        known = self.scope.aliases.get(name, name)
        domain = self.scope.names.get(known)
        if domain is None:
            hint = did_you_mean(nearest(name, [*self.scope.aliases, *self.scope.names]))
            raise BindError(f"there is no attribute {name!r} here{hint}", span=span)
        self.names[known] = None
        return known, domain

    def _variable(self, variable: syntax.Variable) -> Reference:
        declared = self.scope.variables
        if declared is None:
            raise BindError(f"?{variable.name} is a variable, and there are none here", span=variable.span)
        if variable.name not in declared:
            hint = did_you_mean(nearest(variable.name, declared))
            raise BindError(f"?{variable.name} has no value here{hint}", span=variable.span)
        name = f"?{variable.name}"
        self.names[name] = None
        return Reference(name, declared[variable.name])

    def _number(self, tree: Expression, op: str) -> Term:
        bound = self.term(tree)
        if not is_numeric(bound.domain):
            said = f"{render(tree)} is {_said(bound.domain)}, and `{op}` takes numbers"
            raise BindError(said, span=_place(tree))
        return bound

    def _case(self, tree: syntax.Case) -> Choice:
        branches = tuple((self.test(when), self.term(then)) for when, then in tree.branches)
        otherwise = None if tree.otherwise is None else self.term(tree.otherwise)
        results = [then for _, then in branches] + ([] if otherwise is None else [otherwise])
        domain = results[0].domain
        for result, written in zip(
            results[1:], [*(then for _, then in tree.branches[1:]), tree.otherwise], strict=False
        ):
            common = common_domain(domain, result.domain)
            if common is None:
                assert written is not None
                said = f"this branch is {_said(result.domain)}, and an earlier one is {_said(domain)}; they must agree"
                raise BindError(said, span=_place(written))
            domain = common
        return Choice(branches, otherwise, domain)

    def _call(self, call: syntax.Call | syntax.OperatorCall) -> tuple[Function, tuple[Term, ...]]:
        first = call.arguments[0].value if call.arguments and isinstance(call.arguments[0], syntax.Constant) else None
        found = self.scope.resolve(call.name, first)
        if found is None:
            which = f"{call.name}({shown(first)}, …)" if isinstance(first, str) else call.name
            raise BindError(f"there is no function {which} here", span=call.span)
        function, leading = found
        arguments = call.arguments[leading:]
        if len(arguments) != len(function.parameters):
            wanted = f"{len(function.parameters)} argument{'' if len(function.parameters) == 1 else 's'}"
            raise BindError(f"{function.name} takes {wanted}; here it has {len(arguments)}", span=call.span)
        pairs = zip(arguments, function.parameters, strict=True)
        return function, tuple(self._argument(call, written, parameter) for written, parameter in pairs)

    def _argument(self, call: syntax.Call | syntax.OperatorCall, written: Expression, parameter: Domain) -> Term:
        bound = self.term(written)
        fits = _kind(bound.domain) == _kind(parameter)
        if fits and is_numeric(parameter):
            fits = numeric_type(parameter) != "int" or numeric_type(bound.domain) == "int"
        if not fits:
            said = f"{call.name} takes {_said(parameter)} here; {render(written)} is {_said(bound.domain)}"
            raise BindError(said, span=_place(written) or call.span)
        return bound

    # --- conditions ---------------------------------------------------------------------------------------------------

    def test(self, node: Node) -> Test:
        match node:
            case syntax.And(parts):
                return Every(tuple(map(self.test, parts)))
            case syntax.Or(parts):
                return Some(tuple(map(self.test, parts)))
            case syntax.Not(part):
                return Opposite(self.test(part))
            case syntax.Predicate():
                return self._predicate(node)
            case syntax.Constraint():
                return self._compared(node)
            case syntax.OperatorCall():
                function, arguments = self._call(node)
                if function.returns.kind != "boolean":
                    said = f"{function.name} gives {_said(function.returns)}, which is no condition; compare it"
                    raise BindError(said, span=node.span)
                return Answered(function, arguments)

    def _predicate(self, predicate: syntax.Predicate) -> Satisfies:
        span = predicate.attribute_span or predicate.span
        known, domain = self._domain(predicate.attribute, span)
        multiple = known in self.scope.multiple
        attribute = ViewAttribute(predicate.attribute, domain, False, multiple=multiple, ever_multiple=multiple)
        check_offered(predicate, attribute)
        return Satisfies(
            known, replace(predicate, operand=canonical_operand(predicate, attribute)), domain, multiple=multiple
        )

    def _compared(self, constraint: syntax.Constraint) -> Compared:
        left, right = self.term(constraint.left), self.term(constraint.right)
        left, right = _adapted(left, right.domain), _adapted(right, left.domain)
        domain = comparing_domain(left.domain, right.domain)
        if domain is None:
            said = f"{_said(left.domain)} cannot be compared with {_said(right.domain)}"
            raise BindError(said, span=constraint.span)
        if constraint.op not in _EQUALITY and not _is_ordered(domain):
            said = f"{_said(left.domain)} has no order that {render(constraint)} could ask about"
            raise BindError(f"{said}; compare by = or !=", span=constraint.span)
        return Compared(left, constraint.op, right, domain)


def _adapted(term: Term, other: Domain) -> Term:
    """Return a constant text as a value of the domain that it is compared with, where it is one."""
    if isinstance(term, Given) and isinstance(term.value, str) and is_text_like(other):
        try:
            return Given(other.admit(term.value), other)
        except BadValue:
            return term
    return term


# --- domains ----------------------------------------------------------------------------------------------------------


def _plain_number(domain: Domain) -> Domain:
    return {"int": INT, "float": FLOAT, "decimal": DECIMAL}[numeric_type(domain)]


def _arithmetic_domain(op: str, left: Domain, right: Domain) -> Domain:
    wider = max(_plain_number(left), _plain_number(right), key=lambda domain: _WIDTH[numeric_type(domain)])
    return FLOAT if op == "/" and wider == INT else wider


def common_domain(one: Domain, other: Domain) -> Domain | None:
    """Return the domain of a value that comes from one of the two; None where they are not alike."""
    if one == other:
        return one
    if is_numeric(one) and is_numeric(other):
        return max(_plain_number(one), _plain_number(other), key=lambda domain: _WIDTH[numeric_type(domain)])
    if is_text_like(one) and is_text_like(other):
        return TEXT
    return one if one.kind == other.kind else None


def comparing_domain(one: Domain, other: Domain) -> Domain | None:
    """Return the domain by whose keys values of the two are compared; None where they cannot be."""
    if is_numeric(one) and is_numeric(other):
        return FLOAT
    if is_text_like(one) and is_text_like(other):
        if one == other:
            return one
        if isinstance(one, TextDomain) and isinstance(other, TextDomain):
            return one if one.case == "folded" else other
        return _UNORDERED_TEXT
    return one if one.kind == other.kind else None


_UNORDERED_TEXT = TextDomain(name="text", operators=frozenset({"=", "!="}))


def _is_ordered(domain: Domain) -> bool:
    if isinstance(domain, EnumeratedDomain):
        return domain.order != "none"
    return isinstance(domain, HierarchicalDomain) or (
        domain.kind in ("numeric", "text", "time") and "<" in domain.offered
    )


def _kind(domain: Domain) -> str:
    return "text" if is_text_like(domain) else domain.kind


_SAID = {"text": "text", "boolean": "true or false", "time": "a time", "point": "a point"}


def _said(domain: Domain) -> str:
    if is_numeric(domain):
        return {"int": "a whole number", "float": "a number", "decimal": "a decimal number"}[numeric_type(domain)]
    return _SAID[_kind(domain)]


def _place(tree: Expression) -> Span | None:
    """Return where an expression stood: from its first part with a place to its last."""
    spans = [span for part in _parts(tree) if (span := getattr(part, "span", None)) is not None]
    return Span(min(span.start for span in spans), max(span.end for span in spans)) if spans else None


def _parts(tree: Expression) -> list[Expression]:
    match tree:
        case syntax.Negative(part):
            return _parts(part)
        case syntax.Arithmetic(_, left, right):
            return _parts(left) + _parts(right)
        case _:
            return [tree]
