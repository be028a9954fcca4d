"""What `subscribe` takes: a text, a document, a syntax tree, a builder's condition; and the forms that are stored.

Preparing many expressions at once: plain conjunctions in the bulk form are judged as columns, not one by one.

    {"event_types": ["car"], "predicates": [["price", "<", 1300], ["brand", "=", "mini"]]}

Tens of thousands a second instead of one or two; what bulk loading takes of them (compile/bulk.py) means the same as
what is made of each. Whatever is not of this shape, or wrong, is prepared singly, which says what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from tocsin.compile.bulk import load_bulk
from tocsin.compile.normalise import NormalForm, normalise
from tocsin.errors import BindError, ExpressionsRejected, TocsinError, TooLarge
from tocsin.language import BoundSubscription, Condition, Subscription, bind, from_json, parse, render, to_json
from tocsin.language.bounds import MAX_NAME, MAX_STRING
from tocsin.language.documents import decode, from_document
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.operators.registry import Registry
from tocsin.schema import Schema

_CONJUNCTION = b'"where":{"and":['
_NOT_FLAT = (b"{", b"true", b"false")
Expression = str | Mapping[str, Any] | Subscription | Condition


@dataclass(frozen=True)
class Prepared:
    """An expression that was judged by a schema, with the forms in which it is stored.

    `text` is empty where it did not come as one: whoever wants to see it renders the tree, with `text_of`. Plain ones
    are conjunctions that bulk loading takes by its short way.
    """

    text: str
    tree: bytes
    schema: Schema
    plain: bool = False
    judged: BoundSubscription | None = field(default=None, compare=False, repr=False)

    @cached_property
    def bound(self) -> BoundSubscription:
        return self.judged if self.judged is not None else bind_stored(self.tree, self.schema)

    @classmethod
    def again(cls, text: str, tree: bytes, schema: Schema, operators: Operators) -> Prepared:
        """Return a subscription that was stored before, to be held again."""
        return cls(text, tree, schema, judged=bind_stored(tree, schema, operators))

    @cached_property
    def form(self) -> NormalForm:
        return normalise(self.bound)


def prepare(expression: Expression, schema: Schema, *, most_bytes: int, registry: Registry | None = None) -> Prepared:
    """Return the expression bound to the schema and to operators, to be stored; raises a LanguageError."""
    operators = Registry() if registry is None else registry
    bound = bind_expression(expression, schema, operators, most_bytes=most_bytes)
    for name in bound.operators:
        if not operators.get(name).pure:
            raise BindError(
                f"the operator {name} is not pure: it may answer otherwise when an event is matched again, so it cannot "
                "be part of a stored subscription"
            )
    tree: bytes = msgspec.json.encode(to_json(bound.subscription))
    if len(tree) > most_bytes:
        raise TooLarge(f"an expression has at most {most_bytes} bytes as JSON")
    prepared = Prepared(expression if isinstance(expression, str) else "", tree, schema, judged=bound)
    _ = prepared.form  # normalised before anything is stored: what no matcher can hold must not get into the store
    return prepared


def bind_expression(
    expression: Expression, schema: Schema, operators: Operators, *, most_bytes: int
) -> BoundSubscription:
    """Return an expression, in any form, bound to the schema and to operators; raises a LanguageError."""
    text = expression if isinstance(expression, str) else None
    if text is not None and len(text) > most_bytes:
        raise TooLarge(f"an expression has at most {most_bytes} characters")
    return bind(_tree(expression), schema, text=text, operators=operators)


def _tree(expression: Expression) -> Subscription:
    if isinstance(expression, str):
        return parse(expression)
    if isinstance(expression, Condition):
        return Subscription((), expression.node)
    if isinstance(expression, Mapping):
        return from_document(expression)[1]
    return expression


def text_of(text: str, tree: bytes) -> str:
    """Return a stored subscription as text: as it came, or rendered."""
    return text or render(from_json(decode(tree)))


def bulk_line(id: int, tree: bytes) -> bytes:
    """Return a stored subscription as a line that bulk loading takes, by its short way if it is a plain conjunction.

    {"event_types":["car"],"where":{"and":[["price","<",9],…]}} becomes {"id":7,"event_types":["car"],"predicates":[…]}
    by cutting the bytes, several times faster than by decoding them. Quotes within texts are escaped, so the cut is not
    found in one; and without a brace or a constant after it, what follows are predicates only.
    """
    at = tree.find(_CONJUNCTION)
    predicates = tree[at + len(_CONJUNCTION) : -1]
    if at < 0 or not tree.endswith(b"]}}") or any(part in predicates[:-1] for part in _NOT_FLAT):
        return _bulk_document(id, tree)
    return b'{"id":%d,%b"predicates":[%b' % (id, tree[1:at], predicates)


def _bulk_document(id: int, tree: bytes) -> bytes:
    """Return the same line, whatever the subscription is, by decoding it."""
    document = msgspec.json.decode(tree)
    where = document.get("where", {"and": []})
    parts = [where] if isinstance(where, list) else where.get("and") if isinstance(where, dict) else None
    if parts is not None and all(map(_is_plain, parts)):
        own = {"with": document["with"]} if "with" in document else {}
        document = {"predicates": parts, "event_types": document.get("event_types"), **own}
    document["id"] = id
    return msgspec.json.encode(document)


def _is_plain(predicate: Any) -> bool:
    return isinstance(predicate, list) and len(predicate) == 3 and isinstance(predicate[2], str | int | float)


def bind_stored(tree: bytes, schema: Schema, operators: Operators = NO_OPERATORS) -> BoundSubscription:
    """Return a stored subscription, bound to the schema as it is now, and to operators."""
    return bind(from_json(decode(tree)), schema, operators=operators)


# Preparing many expressions at once.


FEW = 50  # expressions that are prepared singly as fast
_KEYS = {"id", "event_types", "predicates"}
_COMPARISONS = {"=", "!=", "<", "<=", ">", ">="}
_MANY, _LOOKED_AT_FIRST, _MOST_WRONG = 200, 30, 100
_MOST_PREDICATES = 500  # far from where an expression is too large


def prepare_or_list(
    expressions: Sequence[Expression], schema: Schema, *, most_bytes: int, registry: Registry | None = None
) -> list[Prepared]:
    """Return expressions judged by a schema, in order; raises ExpressionsRejected with those that are wrong.

    Of many, some from everywhere are looked at first, the last among them, and a hundred that are wrong suffice: whoever
    sends much that is wrong is told soon. In all each is judged once.
    """
    wrong: dict[int, TocsinError] = {}
    prepared: dict[int, Prepared] = _plain(expressions, schema, most_bytes)
    left = [at for at in range(len(expressions)) if at not in prepared]
    first = left[:: max(1, len(left) // _LOOKED_AT_FIRST)] + left[-1:] if len(left) > _MANY else []
    for at in dict.fromkeys([*first, None, *left]):
        if at is None or len(wrong) >= _MOST_WRONG:
            if wrong:
                break
        elif at not in prepared:
            try:
                prepared[at] = prepare(expressions[at], schema, most_bytes=most_bytes, registry=registry)
            except TocsinError as error:
                wrong[at] = error
    if wrong:
        raise ExpressionsRejected(dict(sorted(wrong.items())))
    return [prepared[at] for at in range(len(expressions))]


def prepare_all(
    expressions: Sequence[Expression], schema: Schema, *, most_bytes: int, registry: Registry | None = None
) -> list[Prepared]:
    """Return expressions judged by a schema, in order; raises the LanguageError of the first that is wrong."""
    plain = _plain(expressions, schema, most_bytes)
    return [
        plain.get(at) or prepare(one, schema, most_bytes=most_bytes, registry=registry)
        for at, one in enumerate(expressions)
    ]


def _plain(expressions: Sequence[Expression], schema: Schema, most_bytes: int) -> dict[int, Prepared]:
    """Return those that are plain conjunctions, by position; none, where one of them is wrong."""
    plain: dict[int, Prepared] = {}
    if len(expressions) >= FEW:
        for at, one in enumerate(expressions):
            if (tree := plain_tree(one)) is not None and len(tree) <= most_bytes:
                plain[at] = Prepared("", tree, schema, plain=True)
        if load_bulk((bulk_line(at, one.tree) for at, one in plain.items()), schema).errors:
            plain = {}  # found again, and told, in the order of the expressions
    return plain


def plain_tree(expression: Expression) -> bytes | None:
    """Return the stored form of a plain conjunction of comparisons, None for anything else."""
    if not isinstance(expression, Mapping) or not expression.keys() <= _KEYS:
        return None
    types, predicates = expression.get("event_types"), expression.get("predicates")
    if not isinstance(types, list) or not all(type(name) is str for name in types) or not types:
        return None
    if not isinstance(predicates, list) or not 1 <= len(predicates) <= _MOST_PREDICATES:
        return None
    if not all(map(_is_comparison, predicates)):
        return None
    try:
        where = predicates[0] if len(predicates) == 1 else {"and": predicates}
        return msgspec.json.encode({"event_types": types, "where": where})
    except (OverflowError, UnicodeEncodeError):  # a number or a text that JSON cannot have
        return None


def _is_comparison(predicate: Any) -> bool:
    if not isinstance(predicate, list | tuple) or len(predicate) != 3:
        return False
    attribute, op, operand = predicate
    if type(attribute) is not str or type(op) is not str or op not in _COMPARISONS or len(attribute) > MAX_NAME:
        return False
    kind = type(operand)
    return kind is int or (kind is str and len(operand) <= MAX_STRING) or (kind is float and math.isfinite(operand))
