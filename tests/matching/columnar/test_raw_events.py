"""Raw events the short way: what admitting and matching them gives, or the same error."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.errors import EventRejected, TooLarge
from tocsin.language import bind
from tocsin.matching.matcher import Matcher
from tocsin.schema import BooleanDomain, EventType, NumericDomain, Schema, TextDomain, TypeAttribute


def outcome(matcher: Matcher, raw: Any, *, short: bool) -> Any:
    try:
        ids = matcher.match_raw(raw) if short else matcher.match_array(raw)
    except EventRejected as error:
        return str(error)
    return sorted(ids.tolist(), key=repr)


@pytest.mark.parametrize("named", [False, True], ids=["numbers", "texts"])
@pytest.mark.parametrize("seed", range(6))
def test_random_events_have_the_same_outcome_either_way(seed: int, named: bool) -> None:
    random = Random(seed)
    schema = random_schema(random)
    matcher = Matcher(schema, merge_beside=False)
    for id in range(200):
        try:
            matcher.add(f"s{id}" if named else id, bind(random_subscription(random, schema, depth=1), schema))
        except TooLarge:
            continue
    for number in range(80):
        raw = random_event(random, schema)
        assert outcome(matcher, raw, short=True) == outcome(matcher, raw, short=False)
        if number % 20 == 0:
            for matched in matcher.match(schema.admit(raw))[:1]:
                matcher.remove(matched)


VALUES: list[Any] = [
    1,
    True,
    1.0,
    1.5,
    "1",
    "one",
    None,
    [1],
    [1, 2],
    {"x": 1},
    float("nan"),
    2**70,
    -(2**63),
    0,
    -0.0,
    "\ud800",
]


def test_odd_values_have_the_same_outcome_either_way() -> None:
    entries = (TypeAttribute("n", mandatory=True), TypeAttribute("t"), TypeAttribute("b"), TypeAttribute("unasked"))
    schema = Schema(
        {"number": NumericDomain(name="number"), "text": TextDomain(name="text"), "truth": BooleanDomain(name="truth")},
        {"n": "number", "t": "text", "b": "truth", "unasked": "number"},
        {"e": EventType("e", tuple(entries)), "f": EventType("f", (TypeAttribute("n"),))},
    )
    matcher = Matcher(schema)
    for id, text in enumerate(
        ["n = 1", "e where n > 1", "t = '1'", "b = true", "n < 0 or t is absent", "f where n = 1", "e, f where n >= 0"]
    ):
        matcher.subscribe(id, text)
    for name in ("n", "t", "b", "unasked", "unknown", "event_type"):
        for _ in range(2):  # the second time by what was remembered
            for value in VALUES:
                for rest in ({"n": 1}, {"n": 1.5, "t": "1"}, {"n": 1, "event_type": "f"}, {}):
                    raw = {"event_type": "e", **rest, name: value}
                    assert outcome(matcher, raw, short=True) == outcome(matcher, raw, short=False), raw
    strange: list[Any] = [None, [], "event", {}]
    for odd in strange:
        assert outcome(matcher, odd, short=True) == outcome(matcher, odd, short=False), odd
