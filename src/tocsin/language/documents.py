"""A subscription as one object of a file or a request, in whichever of its forms it comes.

{"id": "s1", "text": "car where price < 1300"}
{"id": "s1", "event_types": ["car"], "where": ["price", "<", 1300]}
{"id": "s1", "event_types": ["car"], "predicates": [["price", "<", 1300]]}

The bulk predicate form: a conjunction of predicates as a flat JSON object, for many subscriptions at once.

    {"id": "s1", "event_types": ["car"], "predicates": [["price", "<", 1300], ["brand", "in", ["mini", "cooper"]]]}

Predicates, and scopes, are as in the JSON tree. This module gives the syntax tree of one such object;
compile/bulk.py loads millions of them into columns without making trees.

The JSON tree: a subscription as JSON values, for programs that write subscriptions.

    {"event_types": ["car"], "where": {"and": [["price", "<", 1300], ["brand", "in", ["mini", "cooper"]]]}}

    condition    ["price", "<", 1300]    ["price", "between", [1, 5]]    ["price", "is present"]
                 {"and": [...]}   {"or": [...]}   {"not": ...}   {"at_least": 2, "of": [...]}   true   false
                 {"some": "items", "where": condition} (also every, no)
                 {"operator": "locIn", "arguments": ["Bronx"]}   {"compare": [{"variable": "y"}, ">", 2]}
    operand      a value; for within {"amount": 5, "unit": "km", "of": value}; for in box [south, west, north, east];
                 for contains also {"words": pattern}; for like, starts with, ends with, contains text and matches also
                 {"any": ["a%", "b%"]} or {"all": […]}, with "ignoring_case": true where case does not matter
    pattern      "boolean"   {"near": ["boolean", [1, 5], "proximity"]}   {"and": [...]}   {"or": [...]}   {"not": ...}
    value        number, text, true, false, {"decimal": "0.1"}, {"time": "2026-11-15T10:00:00Z"}, {"point": [40.8, -73.9]}
    expression   a value, {"attribute": "price"}, {"variable": "y"}, {"+": [e, e]} (also - * / %), {"negative": e},
                 {"case": [{"when": condition, "then": e}], "else": e}, {"call": "name", "arguments": [e]},
                 {"duration": "2 days"}

Reading is strict, and errors name the path of what is wrong: where.and[1]. Writing is here; reading in json_reader.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from tocsin.errors import ParseError, TocsinError, shown
from tocsin.language import syntax
from tocsin.language.bind import BoundSubscription, bind
from tocsin.language.bounds import check_size
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.json_reader import JsonReader, expression_from_json, from_json, node_from_json, wrong
from tocsin.language.literals import check_literal, render_constant
from tocsin.language.parse import parse
from tocsin.language.syntax import (
    ALWAYS,
    NEVER,
    And,
    Expression,
    Literal,
    Node,
    Op,
    Predicate,
    Subscription,
    WordPattern,
)
from tocsin.schema import Schema

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
        case syntax.ScopeCondition(quantifier, array, part):
            return {quantifier.value: array, "where": _node(part)}


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
        case syntax.Polygon(corners):
            return [*head, [list(corner) for corner in corners]]
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
        case syntax.Constant(timedelta() as duration):
            return {"duration": render_constant(duration)}
        case syntax.Constant(value):
            return literal_to_json(value)  # type: ignore[arg-type]
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


# The bulk predicate form.


def from_bulk(bulk: object) -> Subscription:
    """Return the subscription that a bulk object is; its id, if it has one, is the caller's to read."""
    reader = JsonReader()
    found = reader.record(
        bulk, "", required=("predicates",), optional=("id", "event_types", "with"), what="a bulk subscription"
    )
    listed = reader.array(found["predicates"], "predicates", "predicates")
    subscription = Subscription(
        reader.event_types(found.get("event_types") or []),
        _conjunction([_predicate(reader, entry, f"predicates[{at}]") for at, entry in enumerate(listed)]),
        reader.properties(found.get("with", {})),
    )
    check_size(subscription)
    return subscription


def _predicate(reader: JsonReader, entry: Any, path: str) -> Node:
    if isinstance(entry, Mapping) and entry.keys() & set(syntax.Quantifier):
        return reader.node(entry, path)
    if not isinstance(entry, list | tuple):
        wrong(path, 'a predicate is an array such as ["price", "<", 100]')
    return reader.predicate(entry, path)


def _conjunction(predicates: list[Node]) -> Node:
    if not predicates:
        return ALWAYS
    return predicates[0] if len(predicates) == 1 else And(tuple(predicates))


def to_bulk(subscription: Subscription, id: str | int | None = None) -> dict[str, Any]:
    """Return the bulk form of a subscription that is a conjunction of predicates; raises ParseError for another."""
    where = subscription.where
    parts = where.parts if isinstance(where, And) else (where,)
    predicates = [part for part in parts if isinstance(part, Predicate | syntax.ScopeCondition)]
    if len(predicates) != len(parts):
        raise ParseError("the bulk form has conjunctions of predicates and scopes only; use the JSON tree")
    bulk: dict[str, Any] = {} if id is None else {"id": id}
    if subscription.event_types:
        bulk["event_types"] = list(subscription.event_types)
    bulk["predicates"] = list(map(_node, predicates))
    if subscription.properties:
        bulk["with"] = {name: literal_to_json(value) for name, value in subscription.properties}
    return bulk


# A subscription as one object of a file or a request, in whichever of its forms it comes.


SHAPES = '"text" (an expression), "where" (a JSON tree) or "predicates" (the bulk form)'


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no subscription, and why."""

    line: int  # counted from 1
    id: str | int | None
    error: TocsinError

    def __str__(self) -> str:
        name = "" if self.id is None else f" ({self.id})"
        return f"line {self.line}{name}: {self.error}"


def read_lines(
    lines: Iterable[bytes | str], schema: Schema, operators: Operators = NO_OPERATORS
) -> Iterator[tuple[str | int, BoundSubscription] | BadLine]:
    """Yield the subscription of each line, a document each, with its id, else its line number; blank lines are none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        id = None
        try:
            document = decode(line)
            id = document.get("id") if isinstance(document, Mapping) else None
            id, tree = from_document(document)
            yield (number if id is None else id), bind(tree, schema, operators=operators)
        except TocsinError as error:
            yield BadLine(number, id, error)


def decode(line: bytes | str) -> Any:
    """Return the JSON value of a line."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError) as error:  # msgspec says nothing of its own about bad UTF-8
        raise ParseError(f"not JSON: {error}") from None


def from_document(document: Any) -> tuple[str | int | None, Subscription]:
    """Return the id, if it has one, and the subscription."""
    if not isinstance(document, Mapping):
        raise ParseError(f"a subscription is an object with {SHAPES}, not {type(document).__name__}")
    id = document.get("id")
    if "id" in document and (not isinstance(id, str | int) or isinstance(id, bool)):
        raise ParseError(f"id: a subscription's id is a text or a whole number, not {shown(id)}")
    given = [key for key in ("text", "where", "predicates") if key in document]
    if len(given) != 1 and not ("event_types" in document and not given):
        raise ParseError(f"a subscription has exactly one of {SHAPES}")
    if given == ["text"]:
        return id, _from_text(document)
    if given == ["predicates"]:
        return id, from_bulk(document)
    return id, from_json({key: value for key, value in document.items() if key != "id"})


def _from_text(document: Mapping[str, Any]) -> Subscription:
    if unknown := sorted(set(document) - {"id", "text"}):
        raise ParseError(f'{unknown[0]}: not known beside "text"; event types and `with` are part of the expression')
    if not isinstance(document["text"], str):
        raise ParseError("text: the expression is a text")
    return parse(document["text"])
