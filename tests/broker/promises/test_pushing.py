"""Listeners and callbacks; and when an unsubscribe ends what they hear."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.broker.market import car, open_broker, seqs_of
from tests.broker.waiting import wait_until
from tocsin.broker import BrokerSettings, Notification
from tocsin.errors import (
    StoreFailed,
)


def test_unsubscribe_acknowledged_means_nothing_more_is_delivered(place: str) -> None:
    with open_broker(place) as broker:
        mine, other = broker.subscribe_all(["car", "car"], owner="ada")
        event = broker.publish(car(1))
        with broker.listen("ada") as listener:
            first = listener.get(30)
            assert first is not None
            assert first.subscription == mine.id  # the second is at hand already
            ended = broker.unsubscribe(other)
            later = broker.publish(car(2))
            rest = [listener.get(30)]
            assert [(one.seq, one.subscription) for one in rest if one] == [(later.seq, mine.id)]
        assert seqs_of(broker, "ada") == [(event.seq, mine.id), (later.seq, mine.id)]
        assert broker.unsubscribe(other) == ended  # asking again, as after a lost answer, does no harm


def test_unsubscribe_waits_for_the_callback_at_hand_and_no_other_follows(place: str) -> None:
    with open_broker(place) as broker:
        mine = broker.subscribe("car", owner="ada")
        inside, go_on, calls = threading.Event(), threading.Event(), []

        def slow(notification: Notification) -> None:
            calls.append(notification.seq)
            inside.set()
            assert go_on.wait(30)

        broker.on_match("ada", slow)
        events = broker.publish([car(1), car(2), car(3)])
        assert inside.wait(30)
        with ThreadPoolExecutor() as pool:
            ending = pool.submit(broker.unsubscribe, mine)
            wait_until(lambda: broker.subscription(mine.id, owner="ada").ended is not None)
            assert not ending.done()
            go_on.set()
            ending.result(30)
            assert calls == [events[0].seq]
        after = len(calls)
        broker.publish(car(4))
        assert len(calls) == after


def test_listener_hears_backlog_then_live_without_gap(place: str) -> None:
    with open_broker(place, settings=BrokerSettings(poll_seconds=30)) as broker, ThreadPoolExecutor() as pool:
        broker.subscribe("car", owner="ada")
        events = broker.publish([car(1), car(2)])
        with broker.listen("ada") as listener:
            heard = pool.submit(lambda: [one.seq for _, one in zip(range(5), listener, strict=False)])
            events += [broker.publish(car(price)) for price in (3, 4, 5)]
            assert heard.result(60) == [event.seq for event in events]
        assert listener.get(1) is None


def test_callback_that_fails_is_tried_again_with_the_same_id_then_becomes_a_dead_letter(place: str) -> None:
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        seen: list[tuple[str, object]] = []
        done = threading.Event()

        def fussy(notification: Notification) -> None:
            seen.append((notification.id, notification.event["price"]))
            if notification.event["price"] == 1:
                raise ValueError("no ones")
            done.set()

        broker.on_match("ada", fussy)
        broker.publish([car(1), car(2)])
        assert done.wait(30)
        assert [price for _, price in seen] == [1, 1, 1, 2]
        assert len({id for id, _ in seen}) == 2
        (letter,) = broker.dead_letters()
        assert (letter.kind, "no ones" in letter.reason) == ("delivery", True)
        wait_until(lambda: not broker.notifications("ada").items)  # acknowledged


def test_callback_goes_on_after_the_store_failed_for_a_while(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_broker(place, settings=BrokerSettings(poll_seconds=0.01)) as broker:
        broker.subscribe("car", owner="ada")
        heard = threading.Event()
        read, failures = broker.store.read, iter(range(3))

        def failing() -> Any:
            if threading.current_thread().name.startswith("tocsin-callback") and next(failures, None) is not None:
                raise StoreFailed("the disk is away")
            return read()

        monkeypatch.setattr(broker.store, "read", failing)
        broker.on_match("ada", lambda notification: heard.set())
        broker.publish(car(1))
        assert heard.wait(30)
