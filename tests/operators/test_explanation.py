"""Explanations of subscriptions that call operators agree with the definition, and show what was found."""

from __future__ import annotations

import pytest

from tests.operators.generated import World
from tocsin.language import evaluate
from tocsin.language.explain import explain
from tocsin.language.semantics import holds, situation_of
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.schema.examples import load_example

AUCTION = load_example("auction")


def item(price: int) -> Event:
    return Event({"event_type": ("item",), "price": (price,)})


@pytest.mark.parametrize("seed", range(3))
def test_an_explanation_says_what_the_definition_says(seed: int) -> None:
    world = World(100 + seed)
    matched = 0
    for _ in range(40):
        subscription, event = world.subscription(), world.event()
        told = explain(subscription, event, world.registry)
        assert told.matched == evaluate(subscription, event, world.registry)
        assert told.matched == (not told.changes)
        if told.matched:
            matched += 1
            where = subscription.subscription.where
            situation = situation_of(subscription, event, world.registry)
            for shown in told.bindings:
                assert holds(where, situation.given(shown, {})), "the values shown do not satisfy it"
    assert 0 < matched < 40


@operator(outputs={"people": int})
def people(event: Event) -> list[int]:
    return [int(str(event.values["price"][0])), 7]


@operator
def broken(event: Event) -> bool:
    raise ValueError("out of order")


REGISTRY = Registry([people, broken])


def test_calls_are_shown_with_what_they_found_and_constraints_with_their_values() -> None:
    bound = REGISTRY.bind("item where people(?p) and ?p > 50 and price < 100", AUCTION)
    assert str(explain(bound, item(60), REGISTRY)) == (
        "matches, with ?p = 60\n"
        "  ✓ and\n"
        "    ✓ event_type in ('item')   (event_type is 'item')\n"
        "    ✓ and\n"
        "      ✓ people(?p)   (found ?p = 60; ?p = 7)\n"
        "      ✓ ?p > 50   (?p = 60)\n"
        "      ✓ price < 100   (price is 60)"
    )
    miss = explain(bound, item(40), REGISTRY)
    assert [one.condition for one in miss.changes] == ["?p > 50"]
    assert miss.changes[0].as_json() == {"condition": "?p > 50", "held": False, "variables": {"p": 40}}


def test_a_failure_is_told_for_a_call_and_for_its_negation() -> None:
    for text in ("broken()", "not broken()"):
        told = explain(REGISTRY.bind(text, AUCTION), item(1), REGISTRY)
        assert not told.matched
        assert "out of order" in str(told.root.as_json()["failure"])


def test_a_subscription_without_calls_is_explained_as_ever() -> None:
    told = explain(Registry().bind("item where price < 3", AUCTION), item(2))
    assert told.matched
    assert "bindings" not in told.as_json()
