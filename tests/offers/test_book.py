"""The book of held offers finds what deciding each of them would find, and decides few."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.offers.worlds import MARKET, Random, programs, random_offer, random_subscription
from tocsin.errors import DuplicateName, EventRejected, LanguageError, UnknownOffer
from tocsin.language import bind
from tocsin.language.semantics import decide
from tocsin.offers import Analysis, OfferBook


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False))
def test_queries_find_what_the_definition_finds_while_offers_come_and_go(random: Random) -> None:
    analysis, book, held = Analysis(MARKET, programs()), OfferBook(MARKET), {}
    for id in range(30):
        try:
            held[id] = analysis.analyse(random_offer(random))
        except EventRejected:
            continue
        book.add(id, held[id])
        if random.random() < 0.25:
            gone = random.choice(list(held))
            book.remove(gone)
            del held[gone]
        if id % 10 == 9:
            try:
                asked = bind(random_subscription(random), MARKET)
                found = dict(book.query(asked))
            except LanguageError:
                continue
            verdicts = {key: decide(asked, offer) for key, offer in held.items()}
            assert found == {key: verdict for key, verdict in verdicts.items() if verdict.matched}


def test_few_offers_are_decided_of_many() -> None:
    analysis, book = Analysis(MARKET), OfferBook(MARKET)
    for id in range(2000):
        event = {"price": id % 100, "kind": "x" if id % 2 else "w"}
        book.add(id, analysis.analyse({"event": event, "rules": [f"age between {id} and {id + 50}"]}))
    found = book.query(bind("offer where price <= 10 and kind = 'x' with age = 500", MARKET))
    assert {id for id, _ in found} == {id for id in range(450, 501) if id % 100 <= 10 and id % 2}
    assert book.decided == len(found)


def test_what_is_computed_is_decided_for_who_asks() -> None:
    analysis, book = Analysis(MARKET), OfferBook(MARKET)
    book.add("cheap", analysis.analyse({"event": {}, "dynamic": {"price": "years * 2"}, "rules": ["price < 20"]}))
    book.add("dear", analysis.analyse({"event": {}, "dynamic": {"price": "years * 20"}}))
    assert [id for id, _ in book.query(bind("offer where price <= 10 with years = 5", MARKET))] == ["cheap"]


def test_ids_are_held_once() -> None:
    book, offer = OfferBook(MARKET), Analysis(MARKET).analyse({"event": {}})
    book.add(1, offer)
    with pytest.raises(DuplicateName):
        book.add(1, offer)
    with pytest.raises(UnknownOffer, match="there is no offer 3"):
        book.remove(3)
    assert (len(book), 1 in book, list(book)) == (1, True, [(1, offer)])
