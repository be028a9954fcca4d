"""The examples of the symmetric-subscriptions paper (section 4.1): advertisements A1 and A2, queries Q1, Q2 and Q3."""

from __future__ import annotations

from typing import Any

import pytest

from tests.offers.markets import Market
from tocsin.language import bind
from tocsin.language.semantics import decide
from tocsin.offers import OfferBook
from tocsin.schema.examples import load_example

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
def market() -> Market:
    market = Market(load_example("insurance"))
    for id, text in QUERIES.items():
        market.subscribe(id, text)
    return market


@pytest.mark.parametrize(("offer", "wanted"), [(A1, {"Q1", "Q2", "Q3"}), (A2, {"Q2"})])
def test_advertisements_match_the_queries_of_the_paper(market: Market, offer: Any, wanted: set[str]) -> None:
    (found,) = market.match(offer)
    assert found == market.defined(offer)
    assert set(found.matches) == wanted


def test_the_price_of_the_second_advertisement_is_900_for_the_second_query(market: Market) -> None:
    assert market.match(A2)[0].matches == {"Q2": {"price": 900}}


def test_who_refuses_is_told(market: Market) -> None:
    offer = market.analysis.analyse(A2)
    assert decide(market.held["Q1"], offer).refused_by == ("offer",)
    assert decide(market.held["Q3"], offer).refused_by == ("subscriber",)


def test_queries_find_the_live_advertisements(market: Market) -> None:
    book = OfferBook(market.schema)
    for id, document in (("A1", A1), ("A2", A2)):
        book.add(id, market.analysis.analyse(document))
    asked = {id: bind(text, market.schema) for id, text in QUERIES.items()}
    found = {id: [offer for offer, _ in book.query(bound)] for id, bound in asked.items()}
    assert found == {"Q1": ["A1"], "Q2": ["A1", "A2"], "Q3": ["A1"]}
    assert dict(book.query(asked["Q2"]))["A2"].computed == {"price": 900}
    book.remove("A1")
    assert book.query(asked["Q1"]) == []
