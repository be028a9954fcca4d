"""The JSON tree: a subscription as JSON values, for programs that write subscriptions.

    {"event_types": ["car"], "where": {"and": [["price", "<", 1300], ["brand", "in", ["mini", "cooper"]]]}}

    condition    ["price", "<", 1300]    ["price", "between", [1, 5]]    ["price", "is present"]
                 {"and": [...]}   {"or": [...]}   {"not": ...}   true   false
                 {"operator": "locIn", "arguments": ["Bronx"]}   {"compare": [{"variable": "y"}, ">", 2]}
    operand      a value; for within {"amount": 5, "unit": "km", "of": value}; for in box [south, west, north, east];
                 for contains also {"words": pattern}; for like, starts with, ends with, contains text and matches also
                 {"any": ["a%", "b%"]} or {"all": […]}, with "ignoring_case": true where case does not matter
    pattern      "boolean"   {"near": ["boolean", [1, 5], "proximity"]}   {"and": [...]}   {"or": [...]}   {"not": ...}
    value        number, text, true, false, {"decimal": "0.1"}, {"time": "2026-11-15T10:00:00Z"}, {"point": [40.8, -73.9]}
    expression   a value, {"attribute": "price"}, {"variable": "y"}, {"+": [e, e]} (also - * / %), {"negative": e},
                 {"case": [{"when": condition, "then": e}], "else": e}, {"call": "name", "arguments": [e]}

Reading is strict, and errors name the path of what is wrong: where.and[1]. Writing is here; reading in json_reader.py.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from tocsin.language import syntax
from tocsin.language.bounds import check_size
from tocsin.language.json_reader import expression_from_json, from_json, node_from_json
from tocsin.language.literals import check_literal
from tocsin.language.syntax import ALWAYS, NEVER, Expression, Literal, Node, Op, Predicate, Subscription, WordPattern

__all__ = [
    "expression_from_json",
    "expression_to_json",
    "from_json",
    "node_from_json",
    "node_to_json",
    "to_json",
]


def to_json(subscription: Subscription) -> dict[str, Any]:
    """Return the JSON tree of a subscription."""
    check_size(subscription)
    tree: dict[str, Any] = {}
    if subscription.event_types:
        tree["event_types"] = list(subscription.event_types)
    if subscription.where != ALWAYS:
        tree["where"] = _node(subscription.where)
    if subscription.properties:
        tree["with"] = {name: literal_to_json(value) for name, value in subscription.properties}
    return tree


def node_to_json(node: Node) -> Any:
    """Return the JSON tree of a condition."""
    check_size(node)
    return _node(node)


def expression_to_json(expression: Expression) -> Any:
    """Return the JSON tree of a value expression."""
    check_size(expression)
    return _expression(expression)


def literal_to_json(value: Literal) -> Any:
    """Return a value as JSON has it, tagged where JSON has no such type."""
    match check_literal(value):
        case Decimal() as number:
            return {"decimal": str(number)}
        case datetime() as instant:
            return {"time": instant.isoformat().replace("+00:00", "Z")}
        case (latitude, longitude):
            return {"point": [latitude, longitude]}
        case plain:
            return plain


def _node(node: Node) -> Any:
    match node:
        case syntax.And() if node == ALWAYS:
            return True
        case syntax.Or() if node == NEVER:
            return False
        case syntax.And(parts):
            return {"and": list(map(_node, parts))}
        case syntax.Or(parts):
            return {"or": list(map(_node, parts))}
        case syntax.Not(part):
            return {"not": _node(part)}
        case Predicate():
            return predicate_to_json(node)
        case syntax.OperatorCall(name, arguments):
            return {"operator": name, "arguments": list(map(_expression, arguments))}
        case syntax.Comparison(left, op, right):
            return {"compare": [_expression(left), op.value, _expression(right)]}


def predicate_to_json(predicate: Predicate) -> list[Any]:
    """Return [attribute, operator, operand]."""
    head = [predicate.attribute, predicate.op.value]
    match predicate.operand:
        case None:
            return head
        case syntax.Words() | syntax.WordAnd() | syntax.WordOr() | syntax.WordNot() as pattern:
            return [*head, {"words": _pattern(pattern)}]
        case syntax.TextPatterns(texts, every, ignoring_case):
            listed: dict[str, Any] = {"all" if every else "any": list(texts)}
            return [*head, {**listed, "ignoring_case": True} if ignoring_case else listed]
        case syntax.Within(amount, unit, center):
            return [*head, {"amount": literal_to_json(amount), "unit": unit, "of": literal_to_json(center)}]
        case syntax.Box(south, west, north, east):
            return [*head, [south, west, north, east]]
        case tuple() as members if predicate.op in LISTS:
            return [*head, list(map(literal_to_json, members))]
        case literal:
            return [*head, literal_to_json(literal)]  # type: ignore[arg-type]


LISTS = frozenset({Op.IN, Op.BETWEEN, Op.CONTAINS_ANY, Op.CONTAINS_ALL})


def _pattern(pattern: WordPattern) -> Any:
    match pattern:
        case syntax.Words((word,), ()):
            return word
        case syntax.Words(words, gaps):
            chain: list[Any] = [words[0]]
            for (least, most), word in zip(gaps, words[1:], strict=True):
                chain += [[least, most], word]
            return {"near": chain}
        case syntax.WordAnd(parts):
            return {"and": list(map(_pattern, parts))}
        case syntax.WordOr(parts):
            return {"or": list(map(_pattern, parts))}
        case syntax.WordNot(part):
            return {"not": _pattern(part)}


def _expression(tree: Expression) -> Any:
    match tree:
        case syntax.Constant(value):
            return literal_to_json(value)
        case syntax.AttributeValue(name):
            return {"attribute": name}
        case syntax.Variable(name):
            return {"variable": name}
        case syntax.Negative(part):
            return {"negative": _expression(part)}
        case syntax.Arithmetic(op, left, right):
            return {op: [_expression(left), _expression(right)]}
        case syntax.Call(name, arguments):
            return {"call": name, "arguments": list(map(_expression, arguments))}
        case syntax.Case(branches, otherwise):
            whens = [{"when": _node(when), "then": _expression(then)} for when, then in branches]
            return {"case": whens} if otherwise is None else {"case": whens, "else": _expression(otherwise)}
