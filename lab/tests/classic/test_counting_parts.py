"""Every predicate stage goes with every association, and counting does the work that the papers say it does."""

from __future__ import annotations

import pytest

from tests.matching.test_every_engine import auction, check_answers, large_world
from tocsin.language import bind, parse
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute
from tocsin_lab.classic.counting import ASSOCIATIONS, STAGES, CountingMatcher


@pytest.mark.parametrize("association", ASSOCIATIONS)
@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_with_each_association_agrees_with_the_definition(stage: str, association: str) -> None:
    schema, subscriptions, events, right = large_world(1)
    matcher = CountingMatcher(schema, STAGES[stage], ASSOCIATIONS[association])
    check_answers(matcher, subscriptions, events, right)
    for id in range(0, len(subscriptions), 2):
        matcher.remove(id)
    for event, found in zip(events[:20], right, strict=False):
        assert sorted(matcher.match(event)) == sorted(id for id in found if id % 2)
    for id in range(0, len(subscriptions), 2):
        matcher.add(id, subscriptions[id])
    for event, found in zip(events[:20], right, strict=False):
        assert sorted(matcher.match(event)) == sorted(found)


def test_each_distinct_predicate_is_stored_once_and_leaves_with_its_last_subscription() -> None:
    schema = auction()
    matcher = CountingMatcher(schema)
    for id in range(10):
        matcher.add(id, bind(parse(f"a > 6 and b = {id % 2}"), schema))
    assert matcher.predicates.live == 3
    for id in range(0, 10, 2):
        matcher.remove(id)
    assert matcher.predicates.live == 2


def test_additions_are_those_of_satisfied_predicates_alone() -> None:
    schema = auction()
    matcher = CountingMatcher(schema)
    for id in range(10):
        matcher.add(id, bind(parse(f"a > 6 and b = {id % 2}"), schema))
    matcher.match(schema.admit({"a": 7, "b": 0}))
    assert matcher.work.details == {"predicates satisfied": 2, "additions": 10 + 5}


@pytest.mark.parametrize("stage", STAGES)
def test_inference_finds_all_predicates_that_one_value_satisfies(stage: str) -> None:
    """TOPSS 3.2: if a > 7 is true, so is every a > v with v <= 7; of the != predicates all but one hold."""
    schema = Schema(
        {"digit": NumericDomain(name="digit", type="int", minimum=1, maximum=10)},
        {"a": "digit"},
        {"e": EventType("e", (TypeAttribute("a"),))},
    )
    matcher = CountingMatcher(schema, STAGES[stage])
    for operator in ("=", "!=", "<", ">"):
        for value in range(1, 11):
            matcher.add(f"{operator}{value}", bind(parse(f"a {operator} {value}"), schema))
    found = set(matcher.match(schema.admit({"a": 7})))
    assert found == {
        "=7",
        *(f"!={value}" for value in range(1, 11) if value != 7),
        *(f"<{value}" for value in range(8, 11)),
        *(f">{value}" for value in range(1, 7)),
    }
