"""The examples of the paper (section 4.1): advertisements A1 and A2, queries Q1, Q2 and Q3."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.schema.examples import load_example
from tocsin.symmetric import Matchmaker, decide

A1 = {"event": {"name": "Company A", "cover": "Basic", "price": 500}}
A2 = {
    "event": {"name": "Company B", "cover": "Full"},
    "rules": ["age >= 40 and years_ncd >= 3"],
    "dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"},
}
QUERIES = {
    "Q1": "insurance with name = 'John', age = 32, years_ncd = 3",
    "Q2": "insurance with name = 'Bob', age = 48, years_ncd = 8",
    "Q3": "insurance where price <= 700 with name = 'Chris', age = 42, years_ncd = 8",
}


@pytest.fixture
def market() -> Matchmaker:
    matchmaker = Matchmaker(load_example("insurance"))
    for id, text in QUERIES.items():
        matchmaker.subscribe(id, text)
    return matchmaker


@pytest.mark.parametrize(("offer", "wanted"), [(A1, {"Q1", "Q2", "Q3"}), (A2, {"Q2"})])
def test_advertisements_match_the_queries_of_the_paper(market: Matchmaker, offer: Any, wanted: set[str]) -> None:
    assert set(market.match(offer).ids) == wanted
    assert {id for id in QUERIES if market.decide(offer, id).matched} == wanted


def test_the_price_of_the_second_advertisement_is_900_for_the_second_query(market: Matchmaker) -> None:
    (match,) = market.match(A2).notifications()
    assert (match.id, match.values) == ("Q2", {"price": 900})


def test_who_refuses_is_told(market: Matchmaker) -> None:
    assert market.decide(A2, "Q1").refused_by == ("offer",)
    assert market.decide(A2, "Q3").refused_by == ("subscriber",)


def test_queries_find_the_live_advertisements(market: Matchmaker) -> None:
    market.advertise("A1", A1)
    market.advertise("A2", A2)
    found = {id: [offer for offer, _ in market.query(text)] for id, text in QUERIES.items()}
    assert found == {"Q1": ["A1"], "Q2": ["A1", "A2"], "Q3": ["A1"]}
    assert dict(market.query(QUERIES["Q2"]))["A2"].values == {"price": 900}
    market.withdraw("A1")
    assert market.query(QUERIES["Q1"]) == []


def test_a_publisher_learns_only_how_many(market: Matchmaker) -> None:
    matched = market.match(A1)
    assert matched.for_publisher() == {"matches": 3, "failures": 0}
    assert set(matched.for_publisher(reveal=True)["subscribers"]) == {"Q1", "Q2", "Q3"}


def test_the_definition_needs_no_engine(market: Matchmaker) -> None:
    subscriber = market.bind_subscriber("Q2", QUERIES["Q2"])
    verdict = decide(market.analyse(A2), subscriber, market.meeting)
    assert (verdict.matched, verdict.values) == (True, {"price": 900})
