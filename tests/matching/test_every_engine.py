"""The shared suite: what every engine must do. An engine is plugged in by its name in tocsin.matching.

Answers are compared with the definition (language/semantics.py), never with another engine. What an engine does not
support, by its capabilities, it must refuse with NotSupported.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.worlds import random_event, random_schema, random_subscription, worlds
from tocsin.errors import DuplicateSubscription, NotSupported, TooLarge, UnknownSubscription
from tocsin.language import BoundSubscription, bind, evaluate, parse
from tocsin.matching import ENGINES, Matcher, engine_of
from tocsin.schema import Event, EventType, NumericDomain, Schema, TypeAttribute

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def expected(subscriptions: dict[int, BoundSubscription], event: Event) -> list[int]:
    return sorted(id for id, subscription in subscriptions.items() if evaluate(subscription, event))


def filled(engine: str, schema: Schema, random: Random, count: int) -> tuple[Matcher, dict[int, BoundSubscription]]:
    """Return the engine with random subscriptions, and those that it took."""
    matcher = engine_of(engine)(schema)
    taken: dict[int, BoundSubscription] = {}
    for id in range(count):
        bound = bind(random_subscription(random, schema), schema)
        try:
            matcher.add(id, bound)
        except (NotSupported, TooLarge):
            continue
        taken[id] = bound
    return matcher, taken


def events_over(schema: Schema, random: Random, count: int) -> list[Event]:
    return [schema.admit(random_event(random, schema)) for _ in range(count)]


@given(world=worlds())
def test_matches_are_those_of_the_definition(engine: str, world: tuple[Schema, Random]) -> None:
    schema, random = world
    matcher, taken = filled(engine, schema, random, 12)
    for event in events_over(schema, random, 8):
        assert sorted(matcher.match(event)) == expected(taken, event)


@given(world=worlds())
def test_a_batch_matches_as_its_events_do_one_by_one(engine: str, world: tuple[Schema, Random]) -> None:
    schema, random = world
    matcher, taken = filled(engine, schema, random, 12)
    events = events_over(schema, random, 10)
    assert [sorted(found) for found in matcher.match_batch(events)] == [expected(taken, event) for event in events]


@pytest.mark.parametrize("seed", range(4))
def test_a_large_random_world_agrees_with_the_definition(engine: str, seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    matcher, taken = filled(engine, schema, random, 150)
    events = events_over(schema, random, 80)
    assert [sorted(found) for found in matcher.match_batch(events)] == [expected(taken, event) for event in events]
    assert [sorted(matcher.match(event)) for event in events] == [expected(taken, event) for event in events]


@given(world=worlds(), script=st.lists(st.tuples(st.sampled_from("aaarmm"), st.integers(0, 15)), max_size=25))
def test_adding_and_removing_is_visible_to_the_next_match(
    engine: str, world: tuple[Schema, Random], script: list[tuple[str, int]]
) -> None:
    schema, random = world
    matcher = engine_of(engine)(schema)
    live: dict[int, BoundSubscription] = {}
    for step, id in script:
        if step == "a" and id not in live:
            bound = bind(random_subscription(random, schema, depth=1), schema)
            matcher.add(id, bound)
            live[id] = bound
        elif step == "r" and id in live:
            matcher.remove(id)
            del live[id]
        else:
            event = schema.admit(random_event(random, schema))
            assert sorted(matcher.match(event)) == expected(live, event)
    assert len(matcher) == len(live)


@given(world=worlds())
def test_a_snapshot_does_not_see_later_changes(engine: str, world: tuple[Schema, Random]) -> None:
    schema, random = world
    matcher, taken = filled(engine, schema, random, 6)
    snapshot = matcher.snapshot()
    for id in list(taken)[::2]:
        matcher.remove(id)
    matcher.add("late", bind(random_subscription(random, schema, depth=0), schema))
    event = schema.admit(random_event(random, schema))
    assert sorted(snapshot.match(event)) == expected(taken, event)
    assert len(snapshot) == len(taken)


def auction() -> Schema:
    return Schema(
        {"number": NumericDomain(name="number")},
        dict.fromkeys("abcde", "number"),
        {"e": EventType("e", tuple(TypeAttribute(name, mandatory=False) for name in "abcde"))},
    )


def test_the_snapshot_scenario_of_thesis_7_5(engine: str) -> None:
    """Three subscriptions and an event that satisfies p3 and p5 only: nobody is notified; more values change that."""
    schema = auction()
    matcher = engine_of(engine)(schema)
    for id, text in {"s1": "a > 6 and b = 6 and c < 12", "s2": "a > 6 and d = 7", "s3": "d = 7 and e < 3"}.items():
        matcher.add(id, bind(parse(text), schema))
    assert matcher.match(schema.admit({"c": 8, "e": 0, "d": 9})) == []
    assert matcher.match(schema.admit({"c": 8, "e": 0, "d": 7})) == ["s3"]
    assert sorted(matcher.match(schema.admit({"a": 7, "b": 6, "c": 8, "d": 7, "e": 0}))) == ["s1", "s2", "s3"]


def test_price_entailments_of_thesis_4_1(engine: str) -> None:
    """`price <= 10` entails `price <= 20`; `price = 10` excludes `price = 20`."""
    schema = auction()
    matcher = engine_of(engine)(schema)
    for id, text in {"le10": "a <= 10", "le20": "a <= 20", "eq10": "a = 10", "eq20": "a = 20"}.items():
        matcher.add(id, bind(parse(text), schema))
    assert sorted(matcher.match(schema.admit({"a": 10}))) == ["eq10", "le10", "le20"]
    assert sorted(matcher.match(schema.admit({"a": 15}))) == ["le20"]
    assert sorted(matcher.match(schema.admit({"a": 20}))) == ["eq20", "le20"]


def test_an_id_is_held_once_and_removed_once(engine: str) -> None:
    schema = auction()
    matcher = engine_of(engine)(schema)
    bound = bind(parse("a = 1"), schema)
    matcher.add("s", bound)
    with pytest.raises(DuplicateSubscription):
        matcher.add("s", bound)
    matcher.remove("s")
    with pytest.raises(UnknownSubscription):
        matcher.remove("s")
    matcher.add("s", bound)
    assert matcher.match(schema.admit({"a": 1})) == ["s"]


def test_empty_matchers_and_empty_batches_have_empty_answers(engine: str) -> None:
    schema = auction()
    matcher = engine_of(engine)(schema)
    assert matcher.match(schema.admit({"a": 1})) == []
    assert matcher.match_batch([]) == []
    matcher.add("s", bind(parse("a = 1"), schema))
    assert matcher.match_batch([]) == []


def test_integers_beyond_2_to_the_53rd_compare_exactly(engine: str) -> None:
    schema = auction()
    matcher = engine_of(engine)(schema)
    big = 2**53 + 1
    for id, text in {"eq": f"a = {big}", "lt": f"a < {big}", "huge": f"a > {10**30}", "half": "a < 0.5"}.items():
        matcher.add(id, bind(parse(text), schema))

    def found(value: Any) -> list[Any]:
        return sorted(matcher.match(schema.admit({"a": value})))

    assert found(2**53) == ["lt"]
    assert found(float(2**53)) == ["lt"]
    assert found(big) == ["eq"]
    assert found(10**30 + 1) == ["huge"]
    assert found(0.25) == ["half", "lt"]


def test_a_subscription_with_several_conjunctions_is_reported_once(engine: str) -> None:
    schema = auction()
    matcher = engine_of(engine)(schema)
    matcher.add("s", bind(parse("a > 1 or b > 1 or c > 1"), schema))
    event = schema.admit({"a": 2, "b": 2, "c": 2})
    assert matcher.match(event) == ["s"]
    assert matcher.match_batch([event, event]) == [["s"], ["s"]]


def test_loading_lines_takes_every_form_and_reports_the_bad_ones(engine: str) -> None:
    schema = auction()
    matcher = engine_of(engine)(schema)
    bad = matcher.load(
        [
            b'{"id": "bulk", "predicates": [["a", "<", 3], ["b", "=", 1]]}',
            b'{"id": "tree", "where": ["a", "<", 3]}',
            b'{"id": "text", "text": "e where a < 3"}',
            b"",
            b'{"id": "wrong", "predicates": [["z", "<", 3]]}',
            b"no json",
        ]
    )
    assert [(line.line, line.id) for line in bad] == [(5, "wrong"), (6, None)]
    assert sorted(matcher.match(schema.admit({"a": 1, "b": 1}))) == ["bulk", "text", "tree"]
