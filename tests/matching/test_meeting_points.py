"""Where leaves meet: operators, formulas, properties, rules and computed attributes in one subscription.

Each of these was lost, or let through, where plain subscriptions, subscriptions with operators and those with properties
were products of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.strategies.mixed import OFFERS
from tocsin.errors import BindError
from tocsin.matching.engine import Failure
from tocsin.matching.matcher import Matcher
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.schema.examples import load_example
from tocsin.schema.files import loads

INSURANCE = load_example("insurance")
AUCTION = loads(
    """
    [domains]
    money = { kind = "numeric" }
    [attributes]
    price = "money"
    estimate = "money"
    [event_types.sale]
    price = "optional"
    estimate = "optional"
    """,
    "toml",
)
OFFER = {
    "event": {"event_type": "insurance", "name": "Company B", "cover": "Full"},
    "rules": ["age >= 40 and years_ncd >= 3"],
    "dynamic": {"price": "900"},
}
JOHN = "name = 'John', age = 32, years_ncd = 3"
OLIVE = "name = 'Olive', age = 48, years_ncd = 8"
needs_offers = pytest.mark.skipif(not OFFERS, reason="the matcher does not match offers yet")


@operator
def fine(_event: Event) -> bool:
    return True


@operator
def broken(_event: Event) -> bool:
    raise OSError("out of order")


@operator(outputs={"people": int})
def crowd(event: Event) -> list[int]:
    return [int(str(event.values["price"][0])), 7]


REGISTRY = Registry([fine, broken, crowd])


def matcher_of(subscriptions: Iterable[str], schema: Any = INSURANCE) -> Matcher:
    """Return a matcher of subscriptions whose ids are their texts."""
    matcher = Matcher(schema, operators=REGISTRY)
    for text in subscriptions:
        matcher.subscribe(text, text)
    return matcher


def insurance(price: float) -> dict[str, Any]:
    return {"event_type": "insurance", "name": "A", "cover": "Full", "price": price}


# --- rules and computed attributes ------------------------------------------------------------------------------------


@needs_offers
@pytest.mark.parametrize("offered", [OFFER, {**OFFER, "dynamic": {}, "event": {**OFFER["event"], "price": 900}}])  # type: ignore[dict-item]
def test_a_rule_that_forbids_forbids_whatever_leaves_the_condition_has(offered: dict[str, Any]) -> None:
    allowed = [
        f"insurance where fine() with {OLIVE}",
        f"insurance with {OLIVE}",
        f"insurance where price < 901 with {OLIVE}",
    ]
    forbidden = [
        f"insurance where fine() with {JOHN}",
        "insurance where fine()",
        "insurance",
        "fine()",
        f"insurance where price < 901 with {JOHN}",
        f"insurance where fine() or price < 901 with {JOHN}",
    ]
    matcher = matcher_of([*allowed, *forbidden])
    assert sorted(matcher.match(offered)) == sorted(allowed)
    assert [sorted(ids) for ids in matcher.match_batch([offered, insurance(5), offered])][::2] == [sorted(allowed)] * 2


@needs_offers
def test_a_rule_that_forbids_wins_over_an_operator_that_fails() -> None:
    forbidden, allowed = (f"insurance where broken() with {who}" for who in (JOHN, OLIVE))
    matches, failures = matcher_of([forbidden, allowed]).find(OFFER)
    assert matches == []
    assert failures == [Failure(allowed, "broken raised OSError: out of order")]


@needs_offers
def test_a_condition_with_a_call_gets_the_computed_price() -> None:
    texts = [f"insurance where fine() and price <= {price} with {OLIVE}" for price in (1000, 900, 899)]
    matches, failures = matcher_of([*texts, f"insurance where price <= 1000 with {OLIVE}"]).find(OFFER)
    assert {match.id for match in matches} == {*texts[:2], f"insurance where price <= 1000 with {OLIVE}"}
    assert all(dict(match.computed) == {"price": 900} for match in matches)
    assert failures == []


@needs_offers
def test_a_computed_price_is_each_subscribers_own() -> None:
    offer = {**OFFER, "rules": [], "dynamic": {"price": "20 * age"}}
    texts = [f"insurance where price <= 700 and fine() with {who}" for who in (JOHN, OLIVE)]
    matches, _ = matcher_of(texts).find(offer)
    assert [(match.id, dict(match.computed)) for match in matches] == [(texts[0], {"price": 640})]


@needs_offers
def test_rules_may_call_operators() -> None:
    texts = [f"insurance with {JOHN}", f"insurance where fine() with {OLIVE}"]
    matcher = matcher_of(texts)
    assert sorted(matcher.match({**OFFER, "rules": ["fine()"]})) == sorted(texts)
    assert matcher.match({**OFFER, "rules": ["not fine() and age > 3"]}) == []
    matches, failures = matcher.find({**OFFER, "rules": ["broken() and age > 40"]})
    assert (matches, [failure.id for failure in failures]) == ([], [texts[1]])


@needs_offers
def test_why_says_that_the_rule_forbids() -> None:
    text = f"insurance where fine() with {JOHN}"
    told = matcher_of([text]).explain(text, OFFER)
    assert not told.matched
    assert [change.side for change in told.changes] == ["offer"]
    assert told.computed == {"price": 900}


# --- properties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "marked", "said"),
    [
        ("insurance where fine() with nonsense = 7", "nonsense", "a driver has no property 'nonsense'"),
        ("insurance with nonsense = 7", "nonsense", "a driver has no property 'nonsense'"),
        ("driver where age > 3 with nonsense = 'x'", "nonsense", "those who subscribe to driver have no properties"),
    ],
)
def test_a_property_that_nobody_has_is_refused_with_its_place(text: str, marked: str, said: str) -> None:
    with pytest.raises(BindError) as caught:
        matcher_of([text])
    shown, under = str(caught.value).split("\n")[:2]
    assert shown == text
    assert text[under.index("^") :].startswith(marked)
    assert said in under


# --- formulas ---------------------------------------------------------------------------------------------------------


def test_a_call_and_a_formula_over_ones_own_properties_meet_in_a_condition() -> None:
    text = f"insurance where fine() and price <= 20 * age with {JOHN}"
    matcher = matcher_of([text])
    assert matcher.match(insurance(640)) == [text]
    assert matcher.match(insurance(641)) == []
    assert matcher.match_batch([insurance(641), insurance(3)]) == [[], [text]]


def test_formulas_over_the_event_may_stand_in_a_plain_subscription() -> None:
    texts = ["price < estimate", "price * 2 < 100", "sale where price < 0.8 * estimate and fine()"]
    matcher = matcher_of(texts, AUCTION)
    events = [
        {"event_type": "sale", "price": 40, "estimate": 41},
        {"event_type": "sale", "price": 60, "estimate": 100},
        {"event_type": "sale", "price": 60},
        {"event_type": "sale", "price": 10},
        {"event_type": "sale", "estimate": 10},
    ]
    wanted = [texts[:2], [texts[0], texts[2]], [], texts[1:2], []]
    assert [sorted(found) for found in matcher.match_batch(events)] == [sorted(found) for found in wanted]
    assert [sorted(matcher.match(event)) for event in events] == [sorted(found) for found in wanted]


# --- variables --------------------------------------------------------------------------------------------------------


def test_the_values_of_variables_are_told_in_the_match() -> None:
    texts = [
        "crowd(?people) and ?people > 50",
        "crowd(?people) and ?people > price - 100",
        "crowd(?people) or price > 3",
    ]
    matches, failures = matcher_of(texts, AUCTION).find({"event_type": "sale", "price": 60})
    assert failures == []
    assert {match.id: match.bindings for match in matches} == {
        texts[0]: ({"people": 60},),
        texts[1]: ({"people": 7}, {"people": 60}),
        texts[2]: (),  # it holds without any
    }
