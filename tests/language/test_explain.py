"""Explanations agree with the definition and name what would have to change."""

from __future__ import annotations

from random import Random

from hypothesis import given

from tests.strategies.worlds import random_event, random_subscription, worlds
from tocsin.language import bind, evaluate, explain, parse
from tocsin.schema import Schema
from tocsin.schema.examples import load_example

AUCTION = load_example("auction")
SALE = {
    "event_type": "sale",
    "item": "i1",
    "title": "old clock",
    "category": "wall clock",
    "price": 40,
    "at": "2026-01-01T00:00Z",
    "seller": {"name": "ann"},
}


@given(world=worlds())
def test_an_explanation_gives_the_answer_of_the_definition(world: tuple[Schema, Random]) -> None:
    schema, random = world
    for _ in range(5):
        bound = bind(random_subscription(random, schema), schema)
        event = schema.admit(random_event(random, schema))
        explanation = explain(bound, event)
        assert explanation.matched == evaluate(bound, event)
        assert bool(explanation.changes) == (not explanation.matched and bool(str(explanation)))
        assert str(explanation)
        assert explanation.as_json()["matched"] == explanation.matched


def explained(text: str) -> str:
    return str(explain(bind(parse(text), AUCTION), AUCTION.admit(SALE)))


def test_each_predicate_is_shown_with_the_actual_value() -> None:
    assert explained("sale where price < 50 and category kind of 'clocks'").splitlines() == [
        "matches",
        "  ✓ and",
        "    ✓ event_type in ('sale')   (event_type is 'sale')",
        "    ✓ and",
        "      ✓ price < 50   (price is 40)",
        "      ✓ category kind of 'clocks'   (category is 'wall clock')",
    ]


def test_a_near_miss_names_the_fewest_changes() -> None:
    lines = explained("price < 30 or (price < 20 and bids > 3)").splitlines()
    assert lines[lines.index("to match, it would take:") + 1 :] == ["  price < 30, where price is 40"]


def test_an_absent_attribute_is_said_to_be_absent() -> None:
    assert "bids > 3, where bids is absent" in explained("bids > 3")


def test_negation_is_shown_on_the_predicate() -> None:
    assert "not (price < 50)" in explained("not (price < 50 and bids is present)")
