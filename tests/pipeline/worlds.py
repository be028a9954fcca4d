"""Random worlds as the pipeline sees them: subscriptions as documents, events as JSON, and what the definition says."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.errors import TocsinError
from tocsin.language import BoundSubscription, bind, evaluate, render, to_json
from tocsin.language.documents import BadLine
from tocsin.pipeline.subscription_table import Bad, SubscriptionTable
from tocsin.schema import Schema


def bound_subscriptions(rng: random.Random, schema: Schema, count: int) -> list[BoundSubscription]:
    """Return subscriptions that bind, and that a store takes."""
    found: list[BoundSubscription] = []
    while len(found) < count:
        try:
            found.append(bind(random_subscription(rng, schema), schema))
        except TocsinError:
            continue
    return found


def document(id: str | int, bound: BoundSubscription) -> str:
    """Return a subscription as a line of JSON: as a tree, or as text where the tree says nothing ("true")."""
    tree = to_json(bound.subscription)
    form = tree if "where" in tree or "event_types" in tree else {"text": render(bound.subscription)}
    text: str = msgspec.json.encode({"id": id, **form}).decode()
    return text


def event_text(rng: random.Random, schema: Schema) -> str:
    """Return an admissible event as JSON; values that JSON has no form for are left out by drawing again."""
    while True:
        text = json.dumps(random_event(rng, schema), default=_plain)
        try:
            schema.admit(msgspec.json.decode(text))
        except TocsinError:
            continue
        return text


def _plain(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def expected_pairs(
    subscriptions: dict[Any, BoundSubscription], events: dict[Any, str], schema: Schema
) -> set[tuple[Any, Any]]:
    """Return the (event, subscription) pairs that match, by the definition; an event that is none matches nothing."""
    pairs = set()
    for event_id, text in events.items():
        try:
            event = schema.admit(msgspec.json.decode(text))
        except TocsinError:
            continue
        pairs |= {(event_id, id) for id, bound in subscriptions.items() if evaluate(bound, event)}
    return pairs


def write_table(
    path: Path, lines: Iterable[bytes | str], schema: Schema, *, mode: str = "upsert", bad: Bad = "skip", **options: Any
) -> list[BadLine]:
    """Write lines to the table at a path; return those that are no subscriptions."""
    table = SubscriptionTable(path, schema, **options)
    return (table.replace if mode == "replace" else table.upsert)(lines, bad=bad).bad


__all__ = ["bound_subscriptions", "document", "event_text", "expected_pairs", "random_schema", "write_table"]
