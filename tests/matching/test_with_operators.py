"""Subscriptions that call operators: the answer of the definition, and no operator asked twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.operators.generated import World
from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.index.index_folder import IndexFolder
from tocsin.language import BoundSubscription, evaluate
from tocsin.matching.engine import Failure
from tocsin.matching.matcher import Matcher
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.operators.schedules import schedule_names
from tocsin.schema import Event
from tocsin.schema.examples import load_example

AUCTION = load_example("auction")


def item(price: int) -> Event:
    return Event({"event_type": ("item",), "price": (price,)})


@pytest.mark.parametrize("schedule", schedule_names())
@pytest.mark.parametrize("seed", range(4))
def test_the_answer_is_that_of_the_definition_whatever_the_schedule(schedule: str, seed: int) -> None:
    world = World(seed)
    matcher = Matcher(world.schema, operators=world.registry, schedule=schedule)
    bound = {number: world.subscription() for number in range(60)}
    for number, subscription in bound.items():
        matcher.add(number, subscription)
    matched = 0
    for _ in range(12):
        event = world.event()
        expected = {number for number, subscription in bound.items() if evaluate(subscription, event, world.registry)}
        world.calls.clear()
        found = matcher.match(event)
        assert len(found) == len(set(found))
        assert set(found) == expected
        assert max(Counter(world.calls).values(), default=0) <= 1, "an operator was called twice with the same inputs"
        matched += len(found)
    assert 0 < matched < 12 * len(bound)


def test_a_batch_is_answered_like_its_events_and_so_is_a_matcher_that_changed() -> None:
    world = World(77)
    matcher = Matcher(world.schema, operators=world.registry)
    bound = {number: world.subscription() for number in range(40)}
    for number, subscription in bound.items():
        matcher.add(number, subscription)
    events = [world.event() for _ in range(5)]
    matcher.match(events[0])
    before = matcher.snapshot()
    for number in range(0, 40, 3):
        matcher.remove(number)
        del bound[number]
    matcher.add("new", world.subscription())
    assert len(before) == 40
    found = matcher.match_batch(events)
    assert [set(ids) for ids in found] == [set(matcher.match(event)) for event in events]
    for event, ids in zip(events, found, strict=True):
        expected = {number for number, each in bound.items() if evaluate(each, event, world.registry)}
        assert set(ids) - {"new"} == expected


def test_cheap_predicates_come_first_and_spare_the_operators() -> None:
    called: list[Event] = []

    @operator
    def costly(event: Event) -> bool:
        called.append(event)
        return True

    matcher = Matcher(AUCTION, operators=Registry([costly]))
    matcher.subscribe("a", "item where price < 10 and costly()")
    matcher.subscribe("b", "item where price < 10 or costly()")
    assert sorted(matcher.match(item(5))) == ["a", "b"]
    assert matcher.match(item(50)) == ["b"]
    assert len(called) == 2
    called.clear()
    matcher.remove("b")
    assert matcher.match(item(50)) == []
    assert called == []


def test_one_joint_substitution_must_satisfy_everything() -> None:
    @operator(outputs={"n": int})
    def boats(_event: Event) -> list[int]:
        return [1, 7]

    @operator(outputs={"n": int})
    def guards(_event: Event) -> list[int]:
        return [2, 3]

    @operator(outputs={"a": int, "b": int})
    def twice(_event: Event) -> list[tuple[int, int]]:
        return [(1, 2), (3, 4)]

    matcher = Matcher(AUCTION, operators=Registry([boats, guards, twice]))
    conditions = {
        "some": "boats(?y) and guards(?z) and ?y > 2 * ?z",
        "none": "boats(?y) and guards(?y)",
        "other names": "boats(?a) and guards(?b) and twice(?b, ?c) and ?c = 4",
        "repeated": "twice(?x, ?x)",
        "constant": "twice(?x, 4) and ?x = 3",
        "not among": "boats(?y) and not twice(?y, 2)",
        "all among": "guards(?y) and ?y < 3 and not twice(1, ?y)",
    }
    for name, condition in conditions.items():
        matcher.subscribe(name, condition)
    matches, failures = matcher.find(item(1))
    assert failures == []
    assert {match.id: list(match.bindings) for match in matches} == {
        "some": [{"y": 7, "z": 2}, {"y": 7, "z": 3}],
        "other names": [{"a": 1, "b": 3, "c": 4}, {"a": 7, "b": 3, "c": 4}],
        "constant": [{"x": 3}],
        "not among": [{"y": 7}],
    }


def test_a_failure_is_no_answer_under_not_either_and_is_counted() -> None:
    @operator
    def broken(_event: Event) -> bool:
        raise OSError("no such model")

    matcher = Matcher(AUCTION, operators=Registry([broken]))
    matcher.subscribe("yes", "broken()")
    matcher.subscribe("no", "not broken()")
    matcher.subscribe("either", "not broken() or price < 10")
    assert matcher.match(item(1)) == ["either"]
    assert matcher.match(item(20)) == []
    counts = matcher.operators.runner.counts["broken"]
    assert (counts.calls, counts.failures) == (2, 2)
    assert counts.last_failure == "broken raised OSError: no such model"


def test_operators_that_offer_batches_are_asked_about_many_events_at_once() -> None:
    asked: list[int] = []

    def many(events: list[Event], most: int) -> list[bool]:
        asked.append(len(events))
        return [event.values["price"][0] < most for event in events]  # type: ignore[operator]

    @operator(evaluate_batch=many)
    def below(event: Event, most: int) -> bool:
        asked.append(-1)
        return event.values["price"][0] < most  # type: ignore[operator]

    matcher = Matcher(AUCTION, operators=Registry([below]))
    matcher.subscribe("a", "below(3)")
    matcher.subscribe("b", "price < 8 and below(7)")
    found = matcher.match_batch([item(price) for price in range(10)])
    assert [len(ids) for ids in found] == [2, 2, 2, 1, 1, 1, 1, 0, 0, 0]
    assert sorted(asked) == [8, 10]
    assert matcher.operators.runner.counts["below"].batches == 2


def test_ids_are_held_once() -> None:
    matcher = Matcher(AUCTION, operators=Registry())
    matcher.subscribe("a", "price < 3")
    with pytest.raises(DuplicateSubscription):
        matcher.subscribe("a", "price < 3")
    with pytest.raises(UnknownSubscription):
        matcher.remove("b")
    assert matcher.match(item(1)) == ["a"]


def test_bindings_that_are_too_many_to_be_joined_are_a_failure() -> None:
    @operator(outputs={"n": int})
    def many(_event: Event) -> range:
        return range(200)

    matcher = Matcher(AUCTION, operators=Registry([many]))
    matcher.subscribe("hard", "many(?a) and many(?b) and many(?c) and ?a + ?b + ?c < 0")
    matcher.subscribe("easy", "many(?a) and many(?b) and ?a = 199 and ?b = 3")
    matches, failures = matcher.find(item(1))
    assert [(match.id, match.bindings) for match in matches] == [("easy", ({"a": 199, "b": 3},))]
    assert failures == [Failure("hard", "its variables have more than 100,000 combinations of values")]


@pytest.mark.parametrize("schedule", schedule_names())
def test_changes_and_events_in_any_order_are_answered_by_the_definition(schedule: str) -> None:
    world, pick = World(11), Random(11)
    matcher = Matcher(world.schema, operators=world.registry, schedule=schedule)
    held: dict[int, BoundSubscription] = {}
    for step in range(90):
        if held and pick.random() < (0.3 if step < 50 else 0.7):
            chosen = pick.choice(list(held))
            matcher.remove(chosen)
            del held[chosen]
        else:
            held[step] = world.subscription()
            matcher.add(step, held[step])
        if step % 3 == 0:
            event = world.event()
            expected = {number for number, each in held.items() if evaluate(each, event, world.registry)}
            assert set(matcher.match(event)) == expected


def test_a_subscription_whose_operator_is_gone_matches_nothing_until_it_is_back(tmp_path: Path) -> None:
    @operator(outputs={"n": int})
    def boats(_event: Event) -> list[int]:
        return [1, 7]

    matcher = Matcher(AUCTION, operators=Registry([boats]))
    matcher.subscribe("calls", "boats(?n) and ?n > 3")
    matcher.subscribe("not", "not boats(2)")
    matcher.subscribe("either", "boats(?n) and ?n > 3 or price < 10")
    IndexFolder(tmp_path).save(matcher.index, 1)
    without = Matcher(AUCTION, IndexFolder(tmp_path).load(AUCTION)[0])
    matches, failures = without.find(item(1))
    assert [match.id for match in matches] == ["either"]
    assert {failure.id for failure in failures} == {"calls", "not"}
    assert all("boats" in failure.reason for failure in failures)
    again = Matcher(AUCTION, IndexFolder(tmp_path).load(AUCTION)[0], operators=Registry([boats]))
    assert sorted(again.match(item(1))) == ["calls", "either", "not"]
