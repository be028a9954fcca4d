"""The bulk predicate form: a conjunction of predicates as a flat JSON object, for many subscriptions at once.

    {"id": "s1", "event_types": ["car"], "predicates": [["price", "<", 1300], ["brand", "in", ["mini", "cooper"]]]}

Predicates are as in the JSON tree (json_form.py). This module gives the syntax tree of one such object;
compile/bulk.py loads millions of them into columns without making trees.
"""

from __future__ import annotations

from typing import Any

from tocsin.errors import ParseError
from tocsin.language.bounds import check_size
from tocsin.language.json_form import literal_to_json, predicate_to_json
from tocsin.language.json_reader import JsonReader, wrong
from tocsin.language.syntax import ALWAYS, And, Node, Predicate, Subscription


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


def _predicate(reader: JsonReader, entry: Any, path: str) -> Predicate:
    if not isinstance(entry, list | tuple):
        wrong(path, 'a predicate is an array such as ["price", "<", 100]')
    return reader.predicate(entry, path)


def _conjunction(predicates: list[Predicate]) -> Node:
    if not predicates:
        return ALWAYS
    return predicates[0] if len(predicates) == 1 else And(tuple(predicates))


def to_bulk(subscription: Subscription, id: str | int | None = None) -> dict[str, Any]:
    """Return the bulk form of a subscription that is a conjunction of predicates; raises ParseError for another."""
    where = subscription.where
    parts = where.parts if isinstance(where, And) else (where,)
    predicates = [part for part in parts if isinstance(part, Predicate)]
    if len(predicates) != len(parts):
        raise ParseError("the bulk form has conjunctions of predicates only; use the JSON tree")
    bulk: dict[str, Any] = {} if id is None else {"id": id}
    if subscription.event_types:
        bulk["event_types"] = list(subscription.event_types)
    bulk["predicates"] = list(map(predicate_to_json, predicates))
    if subscription.properties:
        bulk["with"] = {name: literal_to_json(value) for name, value in subscription.properties}
    return bulk
