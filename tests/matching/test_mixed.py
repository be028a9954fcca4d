"""The matcher tells what the definition says, whatever meets in a condition, an event, an offer.

Worlds that mix everything (tests/strategies/mixed.py), asked in every way (against_definition.py). `make fuzz` runs more of
them. What was found there stands below, named, as small as it was.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matching.against_definition import Live
from tests.strategies.mixed import MixedWorld
from tocsin.index.subscription_index import Lifetime
from tocsin.language import bind, decide
from tocsin.matching.engine import Failure, Match
from tocsin.matching.matcher import Matcher
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Schema
from tocsin.schema.files import loads


@settings(max_examples=25)
@given(random=st.randoms(use_true_random=False))
def test_small_worlds_agree_with_the_definition(random: Random) -> None:
    live = Live(random, subscriptions=6, events=4, arrow_events=2)
    assert (difference := live.difference(singles=2)) is None, difference


@pytest.mark.parametrize("seed", range(3))
def test_a_matcher_agrees_with_the_definition_whatever_becomes_of_it(seed: int) -> None:
    live = Live(Random(seed), subscriptions=80, events=30, arrow_events=15)
    assert (difference := live.difference()) is None, difference
    before, then = live.matcher.snapshot(), set(live.live)
    live.churn()
    assert (difference := live.difference()) is None, difference
    live.add_tiers(3, 12)
    assert len(live.matcher.index.tiers()) > 3
    assert (difference := live.difference()) is None, difference
    assert (difference := live.difference(live.stored())) is None, f"saved and opened again, {difference}"
    assert (difference := live.difference(before, then)) is None, f"in a snapshot of before, {difference}"
    assert (difference := live.difference_of_explanations(60)) is None, difference
    live.matcher.index.merge(everything=True)
    assert (difference := live.difference()) is None, f"after merging, {difference}"
    assert live.matches > 100
    assert live.bindings > 10
    assert live.failures > 5


def test_mixed_worlds_are_mixed() -> None:
    world = MixedWorld(Random(5))
    bound = [world.subscription() for _ in range(150)]
    assert sum(bool(each.operators) for each in bound) > 30
    assert sum(bool(each.variables) for each in bound) > 15
    assert sum(bool(each.properties) for each in bound) > 40
    offers = [world.offer() for _ in range(60)]
    assert sum(bool(each.rules) for each in offers) > 15
    assert sum(bool(each.computed) for each in offers) > 10


# --- what was found ---------------------------------------------------------------------------------------------------

MARKET: Schema = loads(
    """
    [domains]
    number = { kind = "numeric" }
    whole = { kind = "numeric", type = "int" }
    colour = { kind = "enumerated", values = ["red", "green"] }
    [attributes]
    price = "number"
    estimate = "number"
    bids = "whole"
    colours = "colour"
    age = "whole"
    [event_types.sale]
    price = "optional"
    estimate = "optional"
    bids = "optional"
    colours = "optional multiple"
    [event_types.buyer]
    age = "optional"
    [unions.market]
    event = "sale"
    subscriber = "buyer"
    """,
    "toml",
)


@operator(outputs={"n": int})
def nothing(_event: Event) -> list[int]:
    return []


@operator(outputs={"n": int})
def broken(_event: Event) -> list[int]:
    raise OSError("out of order")


@operator(outputs={"n": int})
def hundreds(_event: Event) -> range:
    return range(400)


REGISTRY = Registry([nothing, broken, hundreds])


def agreed(text: str, *events: dict[str, object]) -> list[tuple[list[Match], list[Failure]]]:
    """Return what is found for events, in a batch and singly, which must be what the definition says."""
    matcher = Matcher(MARKET, operators=REGISTRY)
    bound = bind(text, MARKET, operators=REGISTRY)
    matcher.add("s", bound)
    admitted = [MARKET.admit({"event_type": "sale", **event}) for event in events]
    singly = [matcher.find(event) for event in admitted]
    verdicts = [decide(bound, event, REGISTRY) for event in admitted]
    assert [bool(found) for found, _ in singly] == [verdict.matched for verdict in verdicts]
    assert [[each.reason for each in failures] for _, failures in singly] == [
        [verdict.failure] if verdict.failure else [] for verdict in verdicts
    ]
    assert matcher.match_batch(admitted) == [[match.id for match in found] for found, _ in singly]
    return singly


@pytest.mark.parametrize("text", ["nothing(?z) and broken(?z)", "broken(?z) and nothing(?z)"])
def test_a_call_that_finds_nothing_wins_over_one_that_fails(text: str) -> None:
    assert agreed(text, {"price": 1}) == [([], [])]


def test_a_false_part_wins_over_too_many_combinations() -> None:
    text = "hundreds(?a) and hundreds(?b) and price < 3"
    few, many = agreed(text, {"price": 5}, {"price": 1})
    assert few == ([], [])
    assert many[1][0].reason == "its variables have more than 100,000 combinations of values"


def test_a_case_may_ask_about_an_attribute_with_several_values() -> None:
    text = "sale where case when colours contains 'red' then price else 0 end > 5"
    one, several, none = agreed(
        text,
        {"price": 6, "colours": ["red"]},
        {"price": 6, "colours": ["green", "red"]},
        {"price": 6, "colours": ["green"]},
    )
    assert (len(one[0]), len(several[0]), len(none[0])) == (1, 1, 0)


def test_a_property_that_is_not_given_is_absent_from_formulas() -> None:
    assert agreed("sale where price * 2 < age * 3", {"price": 1}) == [([], [])]
    assert len(agreed("sale where case when age > 3 then 1 else 2 end * price > 1", {"price": 1})[0][0]) == 1


def test_a_side_that_is_absent_makes_a_comparison_false_also_where_the_other_fails() -> None:
    absent, failing = agreed("sale where price < 1 / bids", {"bids": 0}, {"price": 1, "bids": 0})
    assert absent == ([], [])
    assert failing == ([], [Failure("s", "division by zero")])


def test_what_one_offer_of_a_batch_computes_another_may_give() -> None:
    matcher = Matcher(MARKET)
    matcher.subscribe("s", "sale where price * 2 < estimate")
    computing = {"event": {"event_type": "sale", "estimate": 10}, "dynamic": {"price": "20"}}
    giving = {"event": {"event_type": "sale", "price": 4}, "dynamic": {"estimate": "9"}}
    assert matcher.match_batch([computing, giving, {"event_type": "sale", "price": 1, "estimate": 3}]) == [
        [],
        ["s"],
        ["s"],
    ]


def test_what_fails_for_one_offer_of_a_batch_is_told_beside_others_that_compute_something_else() -> None:
    matcher = Matcher(MARKET)
    matcher.subscribe("s", "sale where bids < 0 and -bids <= price")
    failing = {"event": {"event_type": "sale", "price": 1}, "dynamic": {"bids": "0.5"}}
    other = {"event": {"event_type": "sale", "price": 1}, "rules": ["bids is absent"]}
    (_, failures), _ = matcher.find_batch([failing, other])
    assert failures == [Failure("s", "bids: 0.5 is not a whole number")]


def test_no_failure_is_told_of_a_subscription_that_is_not_live() -> None:
    matcher = Matcher(MARKET)
    matcher.add("s", bind("sale where price > 1 / bids", MARKET), Lifetime(created=10, deleted=20))
    plain = {"event_type": "sale", "price": 1, "bids": 0}
    offer = {"event": {"event_type": "sale", "bids": 0}, "dynamic": {"price": "1"}}
    for event in (plain, offer):
        told = [len(matcher.find(event, seq=seq)[1]) for seq in (5, 10, 15, 20, 25)]
        assert told == [0, 0, 1, 0, 0]
