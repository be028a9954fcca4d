"""The shared suite: what every engine must do. An engine is plugged in by its name in tocsin.matching.

Answers are compared with the definition (language/semantics.py), never with another engine. What an engine does not
support, by its capabilities, it must refuse with NotSupported; what it declares, it must take (`add` below).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.worlds import random_event, random_schema, random_subscription, worlds
from tocsin.errors import DuplicateSubscription, NotSupported, TooLarge, UnknownSubscription
from tocsin.language import BoundSubscription, bind, evaluate, parse
from tocsin.language.syntax import And, Node, Not, Op, Or, Predicate, Subscription, TextPatterns
from tocsin.matching import Capabilities, Engine, engine_names, engine_of
from tocsin.schema import Event, EventType, NumericDomain, Schema, TypeAttribute

COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})

# The papers' engines share each random world: drawing it costs more than they do.
ENGINES = engine_names()
CLASSIC = tuple(name for name in ENGINES if engine_of(name).__module__.startswith("tocsin_lab.classic"))
GROUPS = {**{name: (name,) for name in ENGINES if name not in CLASSIC}, "classic": CLASSIC}

each_engine = pytest.mark.parametrize("engine", ENGINES)
each_group = pytest.mark.parametrize("engines", GROUPS.values(), ids=GROUPS)

Answers = list[set[int]]


# --- random worlds ----------------------------------------------------------------------------------------------------


def subscriptions_over(schema: Schema, random: Random, count: int, depth: int = 3) -> list[BoundSubscription]:
    """Return random subscriptions; every other one is a plain conjunction of comparisons, which all engines take."""
    trees = [
        random_subscription(random, schema, depth=depth)
        if number % 2
        else plain_subscription(schema, random, number % 3 + 1)
        for number in range(count)
    ]
    return [bind(tree, schema) for tree in trees]


def plain_subscription(schema: Schema, random: Random, most: int) -> Subscription:
    """Return a conjunction of comparisons, of single-valued attributes where there are any."""
    view = schema.view()
    single = frozenset(name for name, entry in view.attributes.items() if not entry.ever_multiple)
    drawn = [random_subscription(random, schema, depth=0, operators=COMPARISONS).where for _ in range(4 * most)]
    parts = [part for part in drawn if isinstance(part, Predicate) and part.attribute in single]
    return Subscription((), And(tuple((parts or drawn)[:most])))


def events_over(schema: Schema, random: Random, count: int) -> list[Event]:
    return [schema.admit(random_event(random, schema)) for _ in range(count)]


def answers(subscriptions: Sequence[BoundSubscription], events: Sequence[Event]) -> Answers:
    """Return, by the definition, which subscriptions each event satisfies."""
    return [{id for id, bound in enumerate(subscriptions) if evaluate(bound, event)} for event in events]


def is_declared(capabilities: Capabilities, bound: BoundSubscription) -> bool:
    """Return whether the subscription uses only what the capabilities declare."""

    def uses(node: Node) -> Iterator[bool]:
        match node:
            case And(parts):
                yield from (used for part in parts for used in uses(part))
            case Or(parts):
                yield capabilities.disjunction
                yield from (used for part in parts for used in uses(part))
            case Not(part):
                yield capabilities.negation
                yield from uses(part)
            case Predicate(attribute, op, operand):
                yield op in capabilities.operators
                yield capabilities.several_patterns or not isinstance(operand, TextPatterns)
                yield capabilities.multiple_attributes or not bound.view[attribute].ever_multiple

    return all(uses(bound.subscription.where))


def add(matcher: Engine, id: int | str, bound: BoundSubscription) -> bool:
    """Return whether the engine took the subscription; it must if it declares what that needs, and else refuse it."""
    if not is_declared(matcher.capabilities, bound):
        size = len(matcher)
        with pytest.raises(NotSupported):
            matcher.add(id, bound)
        assert len(matcher) == size
        return False
    try:
        matcher.add(id, bound)
    except TooLarge:
        return False
    return True


def filled(matcher: Engine, subscriptions: Sequence[BoundSubscription]) -> set[int]:
    """Return the numbers of the subscriptions that the engine took."""
    return {id for id, bound in enumerate(subscriptions) if add(matcher, id, bound)}


@given(world=worlds())
@each_group
def test_matches_are_those_of_the_definition(engines: tuple[str, ...], world: tuple[Schema, Random]) -> None:
    schema, random = world
    subscriptions, events = subscriptions_over(schema, random, 12), events_over(schema, random, 8)
    right = answers(subscriptions, events)
    for engine in engines:
        check_answers(engine_of(engine)(schema), subscriptions, events, right)


def check_answers(
    matcher: Engine, subscriptions: Sequence[BoundSubscription], events: Sequence[Event], right: Answers
) -> int:
    """Fill the matcher, compare single and batch answers with the right ones; return how many matches there were."""
    taken = filled(matcher, subscriptions)
    wanted = [sorted(found & taken) for found in right]
    assert [sorted(matcher.match(event)) for event in events] == wanted
    assert [sorted(found) for found in matcher.match_batch(events)] == wanted
    return sum(map(len, wanted))


@cache
def large_world(seed: int) -> tuple[Schema, list[BoundSubscription], list[Event], Answers]:
    random = Random(seed)
    schema = random_schema(random)
    subscriptions, events = subscriptions_over(schema, random, 150), events_over(schema, random, 60)
    return schema, subscriptions, events, answers(subscriptions, events)


@pytest.mark.parametrize("seed", range(4))
@each_engine
def test_a_large_random_world_agrees_with_the_definition(engine: str, seed: int) -> None:
    schema, subscriptions, events, right = large_world(seed)
    matches = check_answers(engine_of(engine)(schema), subscriptions, events, right)
    assert matches > 100, "the engine was tested on next to nothing"


@given(world=worlds(), script=st.lists(st.tuples(st.sampled_from("aaarmm"), st.integers(0, 15)), max_size=25))
@each_group
def test_adding_and_removing_is_visible_to_the_next_match(
    engines: tuple[str, ...], world: tuple[Schema, Random], script: list[tuple[str, int]]
) -> None:
    schema, random = world
    matchers = [engine_of(engine)(schema) for engine in engines]
    live: list[dict[int, BoundSubscription]] = [{} for _ in engines]
    for at, (step, id) in enumerate(script):
        [bound] = (
            subscriptions_over(schema, random, 1) if at % 2 else subscriptions_over(schema, random, 2, depth=1)[1:]
        )
        event = schema.admit(random_event(random, schema))
        for matcher, held in zip(matchers, live, strict=True):
            if step == "a" and id not in held:
                if add(matcher, id, bound):
                    held[id] = bound
            elif step == "r" and id in held:
                matcher.remove(id)
                del held[id]
            else:
                assert sorted(matcher.match(event)) == sorted(
                    id for id, found in held.items() if evaluate(found, event)
                )
    assert [len(matcher) for matcher in matchers] == [len(held) for held in live]


@given(world=worlds())
@each_group
def test_a_snapshot_does_not_see_later_changes(engines: tuple[str, ...], world: tuple[Schema, Random]) -> None:
    schema, random = world
    subscriptions, events = subscriptions_over(schema, random, 6), events_over(schema, random, 1)
    late = bind(plain_subscription(schema, random, 1), schema)
    [right] = answers(subscriptions, events)
    for engine in engines:
        matcher = engine_of(engine)(schema)
        taken = filled(matcher, subscriptions)
        snapshot = matcher.snapshot()
        for id in sorted(taken)[::2]:
            matcher.remove(id)
        add(matcher, "late", late)
        assert sorted(snapshot.match(events[0])) == sorted(right & taken)
        assert len(snapshot) == len(taken)


# --- by hand ----------------------------------------------------------------------------------------------------------


def auction() -> Schema:
    return Schema(
        {"number": NumericDomain(name="number")},
        dict.fromkeys("abcde", "number"),
        {"e": EventType("e", tuple(TypeAttribute(name, mandatory=False) for name in "abcde"))},
    )


@each_engine
def test_the_snapshot_scenario_of_thesis_7_5(engine: str) -> None:
    """Three subscriptions and an event that satisfies p3 and p5 only: nobody is notified; more values change that."""
    schema = auction()
    matcher = engine_of(engine)(schema)
    for id, text in {"s1": "a > 6 and b = 6 and c < 12", "s2": "a > 6 and d = 7", "s3": "d = 7 and e < 3"}.items():
        matcher.add(id, bind(parse(text), schema))
    assert matcher.match(schema.admit({"c": 8, "e": 0, "d": 9})) == []
    assert matcher.match(schema.admit({"c": 8, "e": 0, "d": 7})) == ["s3"]
    assert sorted(matcher.match(schema.admit({"a": 7, "b": 6, "c": 8, "d": 7, "e": 0}))) == ["s1", "s2", "s3"]


@each_engine
def test_price_entailments_of_thesis_4_1(engine: str) -> None:
    """`price <= 10` entails `price <= 20`; `price = 10` excludes `price = 20`."""
    schema = auction()
    matcher = engine_of(engine)(schema)
    for id, text in {"le10": "a <= 10", "le20": "a <= 20", "eq10": "a = 10", "eq20": "a = 20"}.items():
        matcher.add(id, bind(parse(text), schema))
    assert sorted(matcher.match(schema.admit({"a": 10}))) == ["eq10", "le10", "le20"]
    assert sorted(matcher.match(schema.admit({"a": 15}))) == ["le20"]
    assert sorted(matcher.match(schema.admit({"a": 20}))) == ["eq20", "le20"]


@each_engine
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


@each_engine
def test_empty_matchers_and_empty_batches_have_empty_answers(engine: str) -> None:
    schema = auction()
    matcher = engine_of(engine)(schema)
    assert matcher.match(schema.admit({"a": 1})) == []
    assert matcher.match_batch([]) == []
    matcher.add("s", bind(parse("a = 1"), schema))
    assert matcher.match_batch([]) == []


@each_engine
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


@each_engine
def test_a_subscription_with_several_conjunctions_is_reported_once(engine: str) -> None:
    schema = auction()
    matcher = engine_of(engine)(schema)
    if not add(matcher, "s", bind(parse("a > 1 or b > 1 or c > 1"), schema)):
        return
    event = schema.admit({"a": 2, "b": 2, "c": 2})
    assert matcher.match(event) == ["s"]
    assert matcher.match_batch([event, event]) == [["s"], ["s"]]


@each_engine
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
