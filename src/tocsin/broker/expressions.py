"""What `subscribe` takes: a text, a document, a syntax tree, a builder's condition; and the forms that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tocsin.compile.normalise import NormalForm, normalise
from tocsin.errors import NotSupported, TooLarge
from tocsin.language import BoundSubscription, Condition, Subscription, bind, from_json, parse, render, to_json
from tocsin.language.documents import decode, from_document
from tocsin.schema import Schema

Expression = str | Mapping[str, Any] | Subscription | Condition


@dataclass(frozen=True, slots=True)
class Prepared:
    """An expression, bound and normalised, with the forms in which it is stored."""

    bound: BoundSubscription
    form: NormalForm
    text: str
    tree: bytes


def prepare(expression: Expression, schema: Schema, *, most_bytes: int) -> Prepared:
    """Return the expression bound to the schema; raises a LanguageError."""
    text = expression if isinstance(expression, str) else None
    if text is not None and len(text) > most_bytes:
        raise TooLarge(f"an expression has at most {most_bytes} characters")
    subscription = _tree(expression)
    bound = bind(subscription, schema, text=text)
    if bound.operators:
        raise NotSupported(f"the operator {bound.operators[0]} is not installed")
    tree: bytes = msgspec.json.encode(to_json(bound.subscription))
    if len(tree) > most_bytes:
        raise TooLarge(f"an expression has at most {most_bytes} bytes as JSON")
    # Normalised before anything is stored: what no engine can hold must not get into the store.
    return Prepared(bound, normalise(bound), text or render(bound.subscription), tree)


def _tree(expression: Expression) -> Subscription:
    if isinstance(expression, str):
        return parse(expression)
    if isinstance(expression, Condition):
        return Subscription((), expression.node)
    if isinstance(expression, Mapping):
        return from_document(expression)[1]
    return expression


def bulk_document(id: int, tree: bytes) -> bytes:
    """Return a stored subscription as a document that bulk loading takes, by its short way if it is a plain conjunction."""
    document = msgspec.json.decode(tree)
    where = document.get("where", {"and": []})
    parts = [where] if isinstance(where, list) else where.get("and")
    if parts is not None and "with" not in document and all(map(_is_plain, parts)):
        document = {"predicates": parts, "event_types": document.get("event_types")}
    document["id"] = id
    return msgspec.json.encode(document)


def _is_plain(predicate: Any) -> bool:
    return isinstance(predicate, list) and len(predicate) == 3 and isinstance(predicate[2], str | int | float)


def prepare_stored(tree: bytes, schema: Schema) -> Prepared:
    """Return a stored subscription as it is added to an engine."""
    bound = bind_stored(tree, schema)
    return Prepared(bound, normalise(bound), "", tree)


def bind_stored(tree: bytes, schema: Schema) -> BoundSubscription:
    """Return a stored subscription, bound to the schema as it is now."""
    return bind(from_json(decode(tree)), schema)
