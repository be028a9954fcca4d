"""A schema for files that come without one: from the events, and from what subscriptions mention and no event has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec

from tocsin.errors import ParseError
from tocsin.schema import Schema

SAMPLE = 20_000


def schema_of(subscriptions: Iterable[bytes], events: Iterable[bytes]) -> Schema:
    """Return a schema that fits sample events and the values in bulk subscriptions."""
    samples: list[Mapping[str, object]] = [msgspec.json.decode(line) for line in islice(events, SAMPLE) if line.strip()]
    types = [name for name in dict.fromkeys(str(sample.get("event_type", "")) for sample in samples) if name]
    for mentioned in _mentioned(subscriptions):
        samples.append({**mentioned, "event_type": types} if types else mentioned)
    return Schema.infer(samples, mandatory=False)


def _mentioned(subscriptions: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    """Return objects that bind each attribute to one value of each type that subscriptions compare it with."""
    seen: dict[tuple[str, type], Any] = {}
    for number, line in enumerate(subscriptions, 1):
        for predicate in _predicates(line, number):
            attribute, operand = predicate[0], predicate[-1]
            for value in operand if isinstance(operand, list) else [operand]:
                if len(predicate) == 3 and attribute != "event_type" and not isinstance(value, dict):
                    seen.setdefault((attribute, type(value)), value)
    return [{attribute: value} for (attribute, _), value in seen.items()]


def _predicates(line: bytes, number: int) -> list[list[Any]]:
    if not line.strip():
        return []
    try:
        document = msgspec.json.decode(line)
        if "text" in document:  # what it mentions, events have
            return []
        found: list[list[Any]] = document["predicates"]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise ParseError(
            f"line {number}: without --schema, subscriptions must be in the bulk form, or texts about what events have"
        ) from None
    return found
