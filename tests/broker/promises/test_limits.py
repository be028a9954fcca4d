"""Bad events, overload and bounds; and how short it is to use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.broker.market import SCHEMA, car, open_broker, seqs_of
from tests.broker.waiting import wait_until
from tocsin.broker import Broker, BrokerSettings
from tocsin.errors import (
    BatchRejected,
    EventRejected,
    LanguageError,
    Overloaded,
    QuotaExceeded,
)
from tocsin.store import accounts
from tocsin.store.seals import check


def test_bad_event_becomes_a_dead_letter_with_all_reasons_and_the_batch_goes_on(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        raws: list[Any] = [
            car(1),
            {"event_type": "car", "price": "x", "size": 2},
            b"{not json",
            car(2),
            b'{"event_type":"car","price":3}',
        ]
        receipts = broker.publish(raws, atomic=False, publisher="pam")
        assert [receipt.accepted for receipt in receipts] == [True, False, False, True, True]
        assert [receipt.seq for receipt in receipts] == list(range(receipts[0].seq, receipts[0].seq + 5))
        assert len(receipts[1].violations) == 2
        letters = broker.dead_letters(publisher="pam")
        assert [letter.seq for letter in letters] == [receipts[1].seq, receipts[2].seq]
        assert letters[0].violations == receipts[1].violations
        assert letters[1].body == "{not json"
        assert broker.dead_letters(publisher="quentin") == []
        assert len(seqs_of(broker, "ada")) == 3


def test_all_or_nothing_batch_stores_nothing_when_one_event_is_bad(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        with pytest.raises(BatchRejected) as refused:
            broker.publish([car(1), car("x"), {"event_type": "boat"}])  # type: ignore[arg-type]
        assert sorted(refused.value.violations) == [1, 2]
        assert seqs_of(broker, "ada") == []
        assert broker.dead_letters() == []


def test_limits_refuse_before_acknowledging(place: str) -> None:
    settings = BrokerSettings(event_bytes=200, subscriptions_per_owner=2, batch_events=3, expression_bytes=100)
    with open_broker(place, settings=settings) as broker:
        with pytest.raises(EventRejected):
            broker.publish(car(1, brand="x" * 200))
        with pytest.raises(EventRejected):
            broker.publish(b'{"event_type": "car", "price": 1, "brand": "' + b"x" * 200 + b'"}')
        with pytest.raises(QuotaExceeded):
            broker.publish([car(1)] * 4)
        broker.subscribe_all(["car", "car"], owner="ada")
        with pytest.raises(QuotaExceeded):
            broker.subscribe("car", owner="ada")
        broker.subscribe("car", owner="bob")
        broker.unsubscribe(broker.subscriptions("ada")[0].id, owner="ada")
        broker.subscribe("car", owner="ada")
        with pytest.raises(QuotaExceeded):
            broker.subscribe_all(["car"] * 2, owner="bob")
        assert len(broker.subscriptions("bob")) == 1


def test_subscription_that_no_engine_could_hold_is_refused_and_nothing_of_it_is_stored(place: str) -> None:
    clauses = " and ".join(f"(price = {number} or brand = 'b{number}')" for number in range(4000))
    with open_broker(place, engine="columnar") as broker:
        with pytest.raises(LanguageError):
            broker.subscribe(f"car where {clauses}", owner="ada")
        mine = broker.subscribe("car", owner="ada")
        event = broker.publish(car(1))
        assert seqs_of(broker, "ada") == [(event.seq, mine.id)]
        assert [view.id for view in broker.subscriptions("ada")] == [mine.id]


def test_full_line_refuses_and_those_in_it_are_served(place: str) -> None:
    with open_broker(place, settings=BrokerSettings(waiting_requests=5)) as broker:
        broker.subscribe("car", owner="ada")
        with ThreadPoolExecutor(12) as pool:
            with broker.store.write():  # somebody else's turn
                asked = [pool.submit(broker.publish, car(price)) for price in range(12)]
                wait_until(lambda: any(one.done() for one in asked))
            served = [one.result(60).seq for one in asked if one.exception(60) is None]
        assert all(isinstance(one.exception(), Overloaded) for one in asked if one.exception())
        assert 1 <= len(served) < 12
        assert [seq for seq, _ in seqs_of(broker, "ada")] == sorted(served)


def test_requests_of_many_threads_are_all_answered_and_all_matched(place: str) -> None:
    with open_broker(place) as broker, ThreadPoolExecutor(8) as pool:
        broker.subscribe("car", owner="ada")
        published = list(pool.map(lambda price: broker.publish(car(price)), range(60)))
        list(pool.map(lambda price: broker.subscribe(f"car where price < {price}", owner=f"o{price % 7}"), range(30)))
        assert [seq for seq, _ in seqs_of(broker, "ada")] == sorted(receipt.seq for receipt in published)
        assert check(broker.store) == []
        with broker.store.read() as connection:
            assert accounts.find_account(connection, "o3") is not None


def test_broker_is_used_in_ten_lines(place: str) -> None:
    with Broker.open(place, schema=SCHEMA) as broker:
        mini = broker.subscribe("car where price < 1300 and brand = 'mini'", owner="ada")
        broker.publish(car(900, brand="mini"))
        assert [one.event["price"] for one in broker.notifications("ada")] == [900]
        broker.unsubscribe(mini)
