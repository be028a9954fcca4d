"""Notifications come in one order, and again from any cursor."""

from __future__ import annotations

import pytest

from tests.broker.market import car, open_broker
from tests.clocks import ManualClock
from tocsin.broker import BrokerSettings
from tocsin.errors import (
    BadCursor,
    CursorExpired,
)
from tocsin.store import subscriptions
from tocsin.store.events import read_events
from tocsin.store.seals import check


def test_notifications_come_in_order_of_seq_and_cursors_resume_without_gap_or_repeat(place: str) -> None:
    with open_broker(place) as broker:
        ids = [receipt.id for receipt in broker.subscribe_all(["car"] * 3, owner="ada")]
        broker.subscribe("car", owner="bob")
        events = [
            *broker.publish([car(price) for price in range(4)]),
            *(broker.publish(car(price)) for price in range(3)),
        ]
        expected = [(event.seq, id) for event in events for id in ids]
        for limit in (1, 2, 5, 100):
            found, cursor, more = [], broker.oldest_cursor(), True
            while more:
                page = broker.notifications("ada", cursor=cursor, limit=limit)
                found += [(one.seq, one.subscription) for one in page]
                cursor, more = page.cursor, page.more
            assert found == expected
        middle = broker.notifications("ada", limit=4).items[-1]
        rest = broker.notifications("ada", cursor=middle.cursor)
        assert [(one.seq, one.subscription) for one in rest] == expected[4:]
        new = broker.publish(car(1))
        assert [one.seq for one in broker.notifications("ada", cursor=rest.cursor)] == [new.seq] * 3


def test_acknowledged_notifications_do_not_come_again_and_acknowledging_never_goes_back(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        broker.publish([car(1), car(2), car(3)])
        page = broker.notifications("ada", limit=2)
        broker.acknowledge("ada", page.cursor)
        broker.acknowledge("ada", page.items[0].cursor)
    with open_broker(place) as broker:
        assert [one.event["price"] for one in broker.notifications("ada")] == [3]
        assert len(broker.notifications("ada", consumer="another device")) == 3


def test_cursor_older_than_the_retention_is_refused_by_name(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock, BrokerSettings(retention_seconds=100)) as broker:
        mine = broker.subscribe("car", owner="ada")
        gone = broker.subscribe("car", owner="ada", lease=5)
        start = broker.oldest_cursor()
        broker.publish([car(1), car(2)])
        first = broker.notifications("ada", limit=1)
        broker.acknowledge("ada", first.cursor)
        clock.advance(101)
        kept = broker.publish(car(3))
        clock.advance(1)
        assert broker.sweep() == [gone.id]
        clock.advance(60)
        broker.sweep()
        for cursor in (start, first.cursor, None):  # None: from what was acknowledged
            with pytest.raises(CursorExpired) as refused:
                broker.notifications("ada", cursor=cursor)
            page = broker.notifications("ada", cursor=refused.value.oldest)
            assert [(one.seq, one.subscription) for one in page] == [(kept.seq, mine.id)]
        clock.advance(200)
        broker.publish(car(4))
        broker.sweep()
        clock.advance(200)
        last = broker.publish(car(5))
        broker.sweep()
        with broker.store.read() as connection:
            assert subscriptions.find_subscriptions(connection, [gone.id]) == []
            assert [event.seq for event in read_events(connection, 0, 10)] == [last.seq]
        assert check(broker.store) == []


def test_altered_or_foreign_cursor_is_refused(place: str) -> None:
    with open_broker(place) as broker:
        cursor = broker.oldest_cursor()
        for wrong in ("", "x", cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), cursor + "AAAA", "é", "=" * 9):
            with pytest.raises(BadCursor):
                broker.notifications("ada", cursor=wrong)
