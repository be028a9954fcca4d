"""Every predicate stage goes with every association, and counting does the work that the papers say it does."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.matching.test_every_engine import auction, check_answers, large_world
from tocsin.language import bind, parse
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute
from tocsin_lab.classic.counting import ASSOCIATIONS, STAGES, CountingMatcher
from tocsin_lab.classic.numbering import Numbering
from tocsin_lab.classic.predicate_bits import BitVectorMatcher
from tocsin_lab.classic.topss_lists import TopssLists
from tocsin_lab.timing import check, load
from tocsin_lab.workloads import w4


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


def test_numbers_are_given_again_before_new_ones_are_made() -> None:
    """TOPSS section 3: ids of predicates that left are assigned anew, so that the bit vector has no holes."""
    numbering, random, known = Numbering(), Random(3), dict[int, int]()
    for _ in range(5_000):
        key = random.randrange(300)
        if key in known and random.random() < 0.6:
            numbering.forget(known.pop(key))
        else:
            found = numbering.number(key % 7, key)
            assert known.setdefault(key, found) == found
        assert len(set(known.values())) == len(known)
    assert len(numbering) <= 300
    assert all(numbering.number(key % 7, key) == number for key, number in known.items())
    high = len(numbering)
    for number in known.values():
        numbering.forget(number)
    fresh = {numbering.number(100, key) for key in range(high)}
    assert fresh == set(range(high))


def test_a_predicate_that_left_gives_its_number_to_the_next() -> None:
    schema = auction()
    matcher = CountingMatcher(schema)
    matcher.add(1, bind(parse("a = 1 and b = 2"), schema))
    matcher.add(2, bind(parse("b = 2"), schema))
    matcher.remove(1)
    matcher.add(3, bind(parse("c = 5"), schema))
    assert len(matcher.predicates.numbering) == 2
    assert sorted(matcher.match(schema.admit({"a": 1, "b": 2, "c": 5}))) == [2, 3]


def test_the_papers_lists_remove_by_their_own_record_and_give_room_back() -> None:
    lists, random, rows = TopssLists(), Random(1), dict[int, list[int]]()
    for step in range(3_000):
        if rows and random.random() < 0.5:
            row = random.choice(list(rows))
            lists.remove(row, np.array(rows.pop(row)))
        else:
            row, predicates = step, random.sample(range(40), 3)
            rows[row] = predicates
            lists.insert(row, np.array(predicates))
    for predicate in range(40):
        assert lists.lists.of(predicate) == [row for row, found in rows.items() if predicate in found]
    assert lists.removal_bytes() < 4 * (3 * 2 * len(rows) + 1_500 + lists.rows)


def test_the_bit_vector_conveys_the_same_predicates() -> None:
    prepared = w4(200, 10)
    check(load(BitVectorMatcher(prepared.schema), prepared), prepared)
