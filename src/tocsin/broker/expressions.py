"""What `subscribe` takes: a text, a document, a syntax tree, a builder's condition; and the forms that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from tocsin.compile.normalise import NormalForm, normalise
from tocsin.errors import LanguageError, TooLarge
from tocsin.language import BoundSubscription, Condition, Subscription, bind, from_json, parse, render, to_json
from tocsin.language.documents import decode, from_document
from tocsin.operators.registry import Registry
from tocsin.schema import Schema
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.subscriber import bind_subscriber
from tocsin.symmetric.two_sided import TwoSided
from tocsin.symmetric.unions import meetings

_CALL = b'{"operator":'
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

    @cached_property
    def bound(self) -> BoundSubscription:
        return bind_stored(self.tree, self.schema)

    @cached_property
    def two_sided(self) -> TwoSided | None:
        """The subscription with its properties, where it is of a union's event type; None for others."""
        return None if calls_operators(self.tree) else TwoSided.of(from_json(decode(self.tree)), self.schema)

    @cached_property
    def form(self) -> NormalForm:
        return normalise(self.bound)


def prepare(expression: Expression, schema: Schema, *, most_bytes: int, registry: Registry | None = None) -> Prepared:
    """Return the expression bound to the schema, and to operators where it calls some; raises a LanguageError."""
    text = expression if isinstance(expression, str) else None
    if text is not None and len(text) > most_bytes:
        raise TooLarge(f"an expression has at most {most_bytes} characters")
    subscription = _tree(expression)
    meeting = meetings(schema).get(subscription.event_types[0]) if len(subscription.event_types) == 1 else None
    if meeting is not None and (prepared := _two_sided(expression, subscription, schema, meeting)) is not None:
        if len(prepared.tree) > most_bytes:
            raise TooLarge(f"an expression has at most {most_bytes} bytes as JSON")
        return prepared
    bound = bind(subscription, schema, text=text)
    if bound.operators:
        bound = _bind_operators(
            text if text is not None else subscription, schema, Registry() if registry is None else registry
        )
    tree: bytes = msgspec.json.encode(to_json(bound.subscription))
    if len(tree) > most_bytes:
        raise TooLarge(f"an expression has at most {most_bytes} bytes as JSON")
    prepared = Prepared(text or "", tree, schema)
    prepared.__dict__["bound"] = bound
    if not bound.operators:
        # Normalised before anything is stored: what no engine can hold must not get into the store.
        prepared.__dict__["form"] = normalise(bound)
    return prepared


def _two_sided(expression: Expression, subscription: Subscription, schema: Schema, meeting: Meeting) -> Prepared | None:
    """Return a subscription of a union's event type, which may have properties and speak of them.

    None where it is for another engine: it calls operators. Raises LanguageError.
    """
    text = expression if isinstance(expression, str) else None
    try:
        bind_subscriber(0, subscription, meeting)
    except LanguageError as error:
        if text is not None and error.span is not None:
            error.text = text
        with suppress(LanguageError):
            if bind(subscription, schema, text=text).operators:
                return None
        raise
    prepared = Prepared(text or "", msgspec.json.encode(to_json(subscription)), schema)
    with suppress(LanguageError):  # what speaks of the event alone can be asked for as any other
        prepared.__dict__["bound"] = bind(subscription, schema)
    return prepared


def _bind_operators(expression: str | Subscription, schema: Schema, registry: Registry) -> BoundSubscription:
    """Return the subscription bound to operators too, and sure to be held by their engine."""
    from tocsin.operators.admission import admit

    bound = registry.bind(expression, schema)
    admit(bound, registry)
    return bound


def calls_operators(tree: bytes) -> bool:
    """Return whether a stored subscription calls operators.

    By its bytes, since this is asked of every subscription: what a call begins with is not found in a text, where quotes
    are escaped. Only a property of that name may look like it, so the few that have the bytes are decoded.
    """
    return _CALL in tree and _has_call(msgspec.json.decode(tree).get("where"))


def _has_call(node: Any) -> bool:
    if not isinstance(node, dict):
        return False
    if "operator" in node:
        return True
    parts = node.get("and") or node.get("or") or [node.get("not")]
    return any(map(_has_call, parts))


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
    parts = [where] if isinstance(where, list) else where.get("and")
    if parts is not None and "with" not in document and all(map(_is_plain, parts)):
        document = {"predicates": parts, "event_types": document.get("event_types")}
    document["id"] = id
    return msgspec.json.encode(document)


def _is_plain(predicate: Any) -> bool:
    return isinstance(predicate, list) and len(predicate) == 3 and isinstance(predicate[2], str | int | float)


def prepare_stored(tree: bytes, schema: Schema) -> Prepared:
    """Return a stored subscription as it is added to an engine."""
    return Prepared("", tree, schema)


def bind_stored(tree: bytes, schema: Schema, registry: Registry | None = None) -> BoundSubscription:
    """Return a stored subscription, bound to the schema as it is now, and to operators if there is a registry."""
    subscription = from_json(decode(tree))
    return bind(subscription, schema) if registry is None else registry.bind(subscription, schema)
