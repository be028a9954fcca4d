"""The short way admits what the long way admits, and nothing else."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from tests.strategies.schemas import MEMBERS, NUMBERS, TEXTS
from tests.strategies.worlds import random_event, random_schema, worlds
from tocsin.errors import EventRejected
from tocsin.schema import Event, Schema
from tocsin.schema.event import admit_thoroughly


def outcome(way: Any, raw: dict[str, Any]) -> Event | tuple[str, ...]:
    try:
        event: Event = way(raw)
    except EventRejected as error:
        return tuple(map(str, error.violations))
    return event


def assert_same(schema: Schema, raw: dict[str, Any]) -> None:
    short, long = outcome(schema.admit, raw), outcome(lambda each: admit_thoroughly(schema, each), raw)
    assert short == long
    if isinstance(short, Event) and isinstance(long, Event):
        for name, values in short.values.items():
            assert [type(value) for value in values] == [type(value) for value in long.values[name]]


@given(world=worlds())
def test_valid_events_are_admitted_alike(world: tuple[Schema, Random]) -> None:
    schema, random = world
    for _ in range(5):
        raw = random_event(random, schema)
        assert_same(schema, raw)
        flat = {name: value[0] if isinstance(value, list) else value for name, value in raw.items()}
        assert_same(schema, flat)


@pytest.mark.parametrize("seed", range(3))
def test_any_values_are_judged_alike(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    odd: list[Any] = [
        *NUMBERS,
        *TEXTS,
        *MEMBERS,
        None,
        True,
        [],
        [1, 2],
        {},
        float("nan"),
        float("inf"),
        float("-inf"),
        5.0,
    ]
    for _ in range(300):
        names = random.sample([*schema.attributes, "unknown"], 5)
        raw = {
            "event_type": random.choice([*schema.event_types, "nothing", None, 3]),
            **{n: random.choice(odd) for n in names},
        }
        assert_same(schema, raw)
