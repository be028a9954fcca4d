"""What `subscribe` takes: a text, a document, a syntax tree, a builder's condition; and the forms that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from tocsin.compile.normalise import NormalForm, normalise
from tocsin.errors import BindError, TooLarge
from tocsin.language import BoundSubscription, Condition, Subscription, bind, from_json, parse, render, to_json
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
