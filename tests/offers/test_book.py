"""The book of held offers finds what deciding each of them would find, and decides few."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.symmetric.worlds import MARKET, Random, programs, random_offer, random_subscription
from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.symmetric import Matchmaker, OfferBook, decide
from tocsin.symmetric import book as books


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_queries_find_what_the_definition_finds_while_offers_come_and_go(random: Random) -> None:
    maker = Matchmaker(MARKET, programs=programs())
    book = OfferBook(maker.meeting)
    held = {}
    for id in range(30):
        held[id] = maker.analyse(random_offer(random))
        book.add(id, held[id])
        if random.random() < 0.25:
            gone = random.choice(list(held))
            book.remove(gone)
            del held[gone]
        if id % 10 == 9:
            asked = maker.bind_subscriber(0, random_subscription(random))
            verdicts = {key: decide(offer, asked, maker.meeting) for key, offer in held.items()}
            assert dict(book.query(asked)) == {key: verdict for key, verdict in verdicts.items() if verdict.matched}


def test_few_offers_are_decided_of_many() -> None:
    maker = Matchmaker(MARKET)
    for id in range(2000):
        maker.advertise(
            id,
            {
                "event": {"price": id % 100, "kind": "x" if id % 2 else "w"},
                "rules": [f"age between {id} and {id + 50}"],
            },
        )
    found = maker.query("offer where price <= 10 and kind = 'x' with age = 500")
    assert {id for id, _ in found} == {id for id in range(450, 501) if id % 100 <= 10 and id % 2}
    assert maker.book.decided < 60


def test_what_is_computed_cannot_rule_an_offer_out() -> None:
    maker = Matchmaker(MARKET)
    maker.advertise("cheap", {"event": {}, "dynamic": {"price": "years * 2"}, "rules": ["price < 20"]})
    maker.advertise("dear", {"event": {}, "dynamic": {"price": "years * 20"}})
    assert [id for id, _ in maker.query("offer where price <= 10 with years = 5")] == ["cheap"]


def test_rows_are_numbered_anew_and_ids_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "_FEWEST_DEAD", 5)
    maker = Matchmaker(MARKET)
    for id in range(20):
        maker.advertise(id, {"event": {"price": id}})
    for id in range(15):
        maker.withdraw(id)
    assert [id for id, _ in maker.query("offer where price >= 10")] == [15, 16, 17, 18, 19]
    with pytest.raises(DuplicateSubscription):
        maker.advertise(15, {"event": {}})
    with pytest.raises(UnknownSubscription):
        maker.withdraw(3)
