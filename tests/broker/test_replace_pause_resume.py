"""Replacing, pausing, resuming: the id stays, and the snapshot rule holds for every part of the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.market import car, open_broker
from tests.clocks import ManualClock
from tocsin.broker import Broker, BrokerSettings
from tocsin.errors import LanguageError, LeaseEnded, QuotaExceeded, UnknownSubscription, WrongTicket
from tocsin.store.seals import check


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["definition", "columnar"])
def broker(place: str, clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Broker]:
    with open_broker(place, clock, engine=request.param) as opened:
        yield opened
        assert check(opened.store) == []


def told(broker: Broker, owner: str = "ada") -> list[tuple[int, float]]:
    """Return (subscription, price) of everything that is kept for an owner."""
    return [(one.subscription, one.event["price"]) for page in broker.replay(owner) for one in page]


def test_replaced_subscription_keeps_its_id_and_asks_for_something_else_from_then_on(broker: Broker) -> None:
    mine = broker.subscribe("car where price < 5", owner="ada")
    broker.publish([car(1), car(7)])
    replaced = broker.replace(mine, "car where price > 5")
    broker.publish([car(2), car(8)])
    assert (replaced.id, replaced.lease_end) == (mine.id, mine.lease_end)
    assert replaced.seq > mine.seq
    assert told(broker) == [(mine.id, 1), (mine.id, 8)]
    view = broker.subscription(mine.id, owner="ada")
    assert (view.id, view.text, view.ended) == (mine.id, "car where price > 5", None)
    assert [one.id for one in broker.subscriptions("ada")] == [mine.id]
    assert broker.dry_run([car(9)])[0].reached[0].subscription == mine.id
    assert broker.explain(broker.notifications("ada").items[0].seq, mine.id, owner="ada").matched
    with pytest.raises(UnknownSubscription):  # its own number is nobody's business
        broker.subscription(replaced.seq, owner="ada")
    broker.renew(mine)
    broker.unsubscribe(mine)
    broker.publish(car(9))
    assert told(broker) == []


def test_replacement_is_refused_to_others_and_for_what_is_wrong_or_over(broker: Broker, clock: ManualClock) -> None:
    mine = broker.subscribe("car where price < 5", owner="ada", lease=100)
    with pytest.raises(WrongTicket):
        broker.replace(mine.id, "car", ticket="other")
    with pytest.raises(UnknownSubscription):
        broker.pause(mine.id, owner="eve")
    with pytest.raises(LanguageError):
        broker.replace(mine, "boat")
    clock.advance(100)
    with pytest.raises(LeaseEnded):
        broker.replace(mine, "car")
    with pytest.raises(LeaseEnded):
        broker.pause(mine)
    with pytest.raises(LeaseEnded):
        broker.resume(mine)


def test_paused_subscription_matches_nothing_until_it_is_resumed(broker: Broker) -> None:
    mine = broker.subscribe("car", owner="ada")
    broker.publish(car(1))
    assert broker.pause(mine).seq == broker.pause(mine).seq
    broker.publish(car(2))
    assert broker.subscription(mine.id, owner="ada").paused
    assert [one.id for one in broker.subscriptions("ada")] == [mine.id]
    renewed = broker.renew(mine, lease=7200)
    broker.resume(mine)
    broker.resume(mine)
    broker.publish(car(3))
    assert told(broker) == [(mine.id, 1), (mine.id, 3)]
    view = broker.subscription(mine.id, owner="ada")
    assert (view.paused, view.lease_end, view.generation) == (False, renewed.lease_end, 2)


def test_paused_subscription_is_unsubscribed_and_nothing_more_is_delivered(broker: Broker) -> None:
    mine = broker.subscribe("car", owner="ada")
    broker.publish(car(1))
    broker.pause(mine)
    broker.unsubscribe(mine)
    assert told(broker) == []
    assert broker.subscription(mine.id, owner="ada").ended == "unsubscribed"
    with pytest.raises(LeaseEnded, match="unsubscribed"):
        broker.resume(mine)


def test_pages_of_subscriptions_go_by_the_ids_that_owners_know(broker: Broker) -> None:
    mine = broker.subscribe_all(["car"] * 5, owner="ada")
    broker.replace(mine[1], "car where price < 5")
    broker.pause(mine[3])
    ids, after = [], 0
    while page := broker.subscriptions("ada", after=after, limit=2):
        ids += [one.id for one in page]
        after = page[-1].id
    assert ids == [one.id for one in mine]


def test_paused_subscriptions_outlive_the_retention_and_count_as_the_owners(place: str, clock: ManualClock) -> None:
    settings = BrokerSettings(retention_seconds=10, subscriptions_per_owner=2)
    with open_broker(place, clock, settings) as broker:
        lasting, brief = broker.subscribe_all(["car", "car"], owner="ada", lease=1000)
        broker.replace(brief, "car where price < 5")
        broker.pause(lasting)
        broker.pause(brief)
        with pytest.raises(QuotaExceeded):
            broker.subscribe("car", owner="ada")
        broker.renew(lasting, lease=10_000)
        for _ in range(2):
            broker.publish(car(1))
            clock.advance(900)
            broker.sweep()
        assert [one.id for one in broker.subscriptions("ada")] == [lasting.id]
        broker.resume(lasting)
        broker.publish(car(2))
        assert [price for _, price in told(broker)][-1] == 2
        with pytest.raises(UnknownSubscription):
            broker.subscription(brief.id, owner="ada")
        assert check(broker.store) == []


def test_replace_pause_and_resume_hold_for_other_brokers_and_after_a_restart(place: str, clock: ManualClock) -> None:
    with open_broker(place, clock, engine="columnar") as one, open_broker(place, clock) as two:
        replaced, paused = one.subscribe_all(["car where price < 5"] * 2, owner="ada")
        two.replace(replaced, "car where price > 5")
        two.pause(paused)
        one.publish([car(1), car(7)])
        assert told(two) == [(replaced.id, 7)]
    with open_broker(place, clock, engine="columnar") as broker:
        broker.resume(paused)
        broker.publish([car(1), car(7)])
        assert told(broker) == [(replaced.id, 7), (paused.id, 1), (replaced.id, 7)]
