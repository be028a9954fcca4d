"""Workloads of the papers that need more than flat numbers, as JSON documents.

thesis   the evaluation of the thesis (chapter 8): a subscription belongs to one event type of the appendix A schema and
         has a predicate for each of its attributes, operator and value drawn uniformly
debs     Liu et al., section 6: subscriptions are conjunctions of 3 to 5 out of many shared predicates; an event says
         which predicates it satisfies, as the values of one multiple attribute

bench/workloads.py has the flat ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tocsin.schema import EnumeratedDomain, NumericDomain, Schema
from tocsin.schema.examples import load_example

Document = dict[str, Any]
WORDS = [f"word{number}" for number in range(150)]  # the thesis's random client knows 150 texts
HIGHEST = 2_000  # and numbers up to 2000


def thesis_subscriptions(count: int, seed: int = 0) -> Iterator[Document]:
    """Yield bulk documents over the thesis's schema."""
    pick, schema = random.Random(seed), load_example("thesis")
    for number in range(count):
        name = pick.choice(list(schema.event_types))
        predicates = [_predicate(pick, schema, entry.attribute) for entry in schema.event_type(name).attributes]
        yield {"id": number, "event_types": [name], "predicates": predicates}


def thesis_events(count: int, seed: int = 1) -> Iterator[Document]:
    """Yield events over the thesis's schema, the optional attribute included."""
    pick, schema = random.Random(seed), load_example("thesis")
    for _ in range(count):
        name = pick.choice(list(schema.event_types))
        entries = schema.event_type(name).attributes
        yield {"event_type": name, **{each.attribute: _value(pick, schema, each.attribute) for each in entries}}


def _predicate(pick: random.Random, schema: Schema, attribute: str) -> list[Any]:
    operator = pick.choice(sorted(schema.domain_of(attribute).offered))
    return [attribute, operator, _value(pick, schema, attribute)]


def _value(pick: random.Random, schema: Schema, attribute: str) -> Any:
    match schema.domain_of(attribute):
        case NumericDomain():
            return pick.randint(0, HIGHEST)
        case EnumeratedDomain(values=values):
            return pick.choice(values)
        case _:
            return pick.choice(WORDS)


def debs_subscriptions(count: int, seed: int = 0, *, predicates: int | None = None) -> Iterator[Document]:
    """Yield conjunctions of 3 to 5 predicates, half as many distinct ones as subscriptions, popularity Zipf-like."""
    pick, total = random.Random(seed), predicates or max(10, count // 2)
    for number in range(count):
        chosen = {_popular(pick, total) for _ in range(pick.randint(3, 5))}
        yield {"id": number, "predicates": [["satisfies", "contains", f"p{each}"] for each in sorted(chosen)]}


def debs_events(count: int, seed: int = 1, *, subscriptions: int, predicates: int | None = None) -> Iterator[Document]:
    """Yield events that satisfy the more popular predicates more often, about 0.2 % of the subscriptions each."""
    pick, total = random.Random(seed), predicates or max(10, subscriptions // 2)
    for _ in range(count):
        satisfied = {_popular(pick, total) for _ in range(15)}
        yield {"satisfies": [f"p{each}" for each in sorted(satisfied)]}


def _popular(pick: random.Random, total: int) -> int:
    """Return a number below total, small ones more often (Zipf with exponent about 1, by its inverse)."""
    return min(total - 1, int(total ** pick.random()) - 1)
