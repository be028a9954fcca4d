"""Operators, properties, formulas and offers in one subscription, in the broker: on both databases, by both engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.test_offers import A2, SCHEMA, EngineName
from tocsin.broker import Broker, BrokerSettings
from tocsin.errors import BindError, EventRejected
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event

JOHN = "name = 'John', age = 32, years_ncd = 3"
OTTO = "name = 'Otto', age = 48, years_ncd = 8"


@operator
def fine(event: Event) -> bool:
    """Whether an insurance is fine: always."""
    return True


@operator(outputs={"people": int})
def insured(event: Event) -> list[int]:
    """How many people it is for: several answers."""
    return [1, 2, 60, 80]


@operator
def broken(event: Event) -> bool:
    """What nobody can tell."""
    raise ValueError("no")


@pytest.fixture(params=["definition", "columnar"])
def engine(request: pytest.FixtureRequest) -> EngineName:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def broker(place: str, engine: EngineName) -> Iterator[Broker]:
    registry = Registry([fine, insured, broken])
    settings = BrokerSettings(reveal_rules=True)
    with Broker.open(place, schema=SCHEMA, engine=engine, operators=registry, settings=settings, sweep=False) as opened:
        yield opened


def prices(broker: Broker, owner: str) -> list[Any]:
    return [one.event.get("price") for one in broker.notifications(owner)]


def test_a_rule_that_forbids_keeps_the_offer_from_who_calls_an_operator(broker: Broker) -> None:
    broker.subscribe(f"insurance where fine() with {JOHN}", owner="john")
    broker.subscribe("insurance where fine()", owner="nobody")
    broker.subscribe(f"insurance where fine() with {OTTO}", owner="otto")
    receipt = broker.publish(A2)
    assert receipt.met is not None
    assert (receipt.met.matches, receipt.met.failures) == (1, 0)
    assert [prices(broker, owner) for owner in ("john", "nobody", "otto")] == [[], [], [900.0]]


def test_an_operator_and_a_computed_price_are_asked_about_together(broker: Broker) -> None:
    broker.subscribe(f"insurance where fine() and price <= 1000 with {OTTO}", owner="otto")
    broker.subscribe(f"insurance where fine() and price <= 800 with {OTTO}", owner="mean")
    broker.subscribe(f"insurance where fine() and price <= 20 * age with {OTTO}", owner="measured")
    broker.publish(A2)
    assert [prices(broker, owner) for owner in ("otto", "mean", "measured")] == [[900.0], [], [900.0]]
    (told,) = broker.notifications("otto")
    assert told.computed == ("price",)


@pytest.mark.parametrize(
    ("text", "place_of", "said"),
    [
        ("insurance where fine() with nonsense = 7", "nonsense", "has no property 'nonsense'"),
        ("driver where age > 3 with nonsense = 'x'", "nonsense", "have no properties"),
        ("insurance where fin()", "fin()", "did you mean fine"),
        ("insurance where price < name", "price < name", "name"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(broker: Broker, text: str, place_of: str, said: str) -> None:
    with pytest.raises(BindError) as caught:
        broker.subscribe(text, owner="ada")
    assert said in str(caught.value)
    span = caught.value.span
    assert span is not None
    assert place_of.startswith(text[span.start : span.end]) or place_of in text[span.start : span.end]
    assert broker.subscriptions("ada") == []


def test_comparisons_of_attributes_need_no_properties(broker: Broker) -> None:
    broker.subscribe("insurance where price * 2 < 1400 and fine()", owner="ada")
    for price in (600, 800):
        broker.publish({"event_type": "insurance", "name": "A", "cover": "Basic", "price": price})
    assert prices(broker, "ada") == [600]


def test_why_is_told_for_a_match_by_operator_and_offer(broker: Broker) -> None:
    otto = broker.subscribe(f"insurance where fine() and price <= 1000 with {OTTO}", owner="otto")
    john = broker.subscribe(f"insurance where fine() and price <= 1000 with {JOHN}", owner="john")
    seq = broker.publish(A2).seq
    told = broker.explain(seq, otto.id, owner="otto")
    assert (told.matched, dict(told.computed)) == (True, {"price": 900.0})
    assert "✓ the offer's rule driver.age >= 40 and driver.years_ncd >= 3" in str(told)
    assert "✓ fine()" in str(told)
    missed = broker.explain_event(A2, john.id, owner="john")
    assert not missed.matched
    assert [one.side for one in missed.changes] == ["offer", None]  # and the price is 1200 for John
    assert broker.explain_draft(A2, f"insurance where broken() with {OTTO}").failure is not None


def test_the_values_of_variables_are_told(broker: Broker) -> None:
    told_of = broker.subscribe(f"insurance where insured(?people) and ?people > 50 with {OTTO}", owner="otto")
    seqs = [broker.publish(A2).seq]
    seqs.append(broker.publish({"event_type": "insurance", "name": "A", "cover": "Basic", "price": 650}).seq)
    told = list(broker.notifications("otto"))
    assert [(one.seq, one.bindings) for one in told] == [(seq, ({"people": 60}, {"people": 80})) for seq in seqs]
    assert [one.computed for one in told] == [("price",), ()]
    assert broker.explain(seqs[0], told_of.id, owner="otto").bindings == ({"people": 60}, {"people": 80})


def test_a_failing_operator_is_told_and_a_rule_that_forbids_wins_over_it(broker: Broker) -> None:
    broker.subscribe(f"insurance where broken() with {OTTO}", owner="otto")
    broker.subscribe(f"insurance where broken() with {JOHN}", owner="john")
    broker.subscribe(f"insurance where broken() or price < 1000 with {OTTO}", owner="either")
    receipt = broker.publish(A2)
    assert receipt.met is not None
    assert (receipt.met.matches, receipt.met.failures) == (1, 1)
    assert [prices(broker, owner) for owner in ("otto", "john", "either")] == [[], [], [900.0]]


def test_rules_may_call_operators(broker: Broker) -> None:
    broker.subscribe(f"insurance with {OTTO}", owner="otto")
    broker.publish({**A2, "rules": ["fine() and age > 40"]})
    broker.publish({**A2, "rules": ["not fine()"]})
    assert prices(broker, "otto") == [900.0]
    with pytest.raises(EventRejected, match="did you mean fine"):
        broker.publish({**A2, "rules": ["fin()"]})


def test_what_was_stored_matches_again_after_a_restart(place: str, engine: EngineName) -> None:
    registry = Registry([fine, insured])
    with Broker.open(place, schema=SCHEMA, engine=engine, operators=registry) as broker:
        broker.subscribe(f"insurance where fine() and price <= 20 * age with {OTTO}", owner="otto")
        broker.subscribe(f"insurance where insured(?p) and ?p < 2 and price > 10 with {OTTO}", owner="otto")
        broker.subscribe(f"insurance where fine() with {JOHN}", owner="john")
        broker.save_index(merge=True)
    with Broker.open(place, engine=engine, operators=registry) as broker:
        broker.publish(A2)
        assert [(one.event["price"], one.bindings) for one in broker.notifications("otto")] == [
            (900.0, ()),
            (900.0, ({"p": 1},)),
        ]
        assert prices(broker, "john") == []
