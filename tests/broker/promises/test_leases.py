"""Leases, on the store's clock; tickets and owners."""

from __future__ import annotations

import threading

import pytest

from tests.broker.market import car, open_broker, seqs_of
from tests.broker.waiting import wait_until
from tests.clocks import ManualClock
from tocsin.broker import Broker, BrokerSettings
from tocsin.errors import (
    LeaseEnded,
    LeaseOutOfBounds,
    StaleRenewal,
    UnknownSubscription,
    WrongTicket,
)
from tocsin.store import accounts, subscriptions

DAY = 86400.0


def test_lease_is_half_open_and_defaults_to_a_day(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        mine = broker.subscribe("car", owner="ada")
        assert (mine.lease_end - broker.now()).total_seconds() == DAY
        clock.advance(DAY - 0.000001)
        last = broker.publish(car(1))
        clock.advance(0.000001)
        broker.publish(car(2))  # not swept yet, and not matched either
        assert seqs_of(broker, "ada") == [(last.seq, mine.id)]
        assert broker.sweep() == [mine.id]
        assert broker.subscription(mine.id, owner="ada").ended == "lease ended"
        assert seqs_of(broker, "ada") == [(last.seq, mine.id)]  # what it had is still its owner's


def test_lease_outside_the_bounds_is_refused(place: str) -> None:
    with open_broker(place, settings=BrokerSettings(shortest_lease_seconds=10, longest_lease_seconds=20)) as broker:
        for lease in (9.9, 20.1, -1, float("nan"), float("inf")):
            with pytest.raises(LeaseOutOfBounds):
                broker.subscribe("car", owner="ada", lease=lease)
        broker.subscribe("car", owner="ada", lease=20)


def test_stale_renewal_is_refused(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        first = broker.subscribe("car", owner="ada", lease=100)
        second = broker.renew(first, lease=1000)
        with pytest.raises(StaleRenewal) as stale:  # a renewal that was held up on its way
            broker.renew(first, lease=10)
        assert stale.value.current == second.generation == 2
        clock.advance(999)
        assert broker.renew(second, lease=5).generation == 3


def test_a_renewal_never_shortens_a_lease(place: str) -> None:
    with open_broker(place, ManualClock()) as broker:
        first = broker.subscribe("car", owner="ada", lease=29 * 86400)
        second = broker.renew(first)  # for a day, which is the default
        assert second.lease_end == first.lease_end
        assert broker.renew(second, lease=30 * 86400).lease_end > first.lease_end


def test_ended_lease_cannot_be_renewed(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        expired = broker.subscribe("car", owner="ada", lease=10)
        dropped = broker.subscribe("car", owner="ada")
        broker.unsubscribe(dropped)
        clock.advance(10)
        for receipt in (expired, dropped):
            with pytest.raises(LeaseEnded):
                broker.renew(receipt)


@pytest.mark.parametrize("jump", [-DAY, -3600.0, 3600.0, DAY])
def test_wall_clock_that_jumps_neither_revives_nor_ends_a_lease(place: str, jump: float) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        ended = broker.subscribe("car", owner="ada", lease=10)
        lives = broker.subscribe("car", owner="ada", lease=7200)
        clock.advance(11)
        before = broker.publish(car(1))
        clock.jump(jump)
        after = broker.publish(car(2))
        with pytest.raises(LeaseEnded):
            broker.renew(ended)
        expected = [(before.seq, lives.id), (after.seq, lives.id)]
        assert seqs_of(broker, "ada") == expected
    with open_broker(place, clock) as broker:  # and not by a restart on the same boot either
        assert broker.sweep() == [ended.id]
        event = broker.publish(car(3))
        assert seqs_of(broker, "ada") == [*expected, (event.seq, lives.id)]


def test_clock_set_back_over_a_reboot_revives_nothing(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        ended = broker.subscribe("car", owner="ada", lease=10)
        clock.advance(11)
        with pytest.raises(LeaseEnded):
            broker.renew(ended)  # said, so it must stay so, though nothing else was stored
        told = broker.now()
    clock.reboot(wall_jump_seconds=-DAY)
    with open_broker(place, clock) as broker:
        assert broker.now() >= told
        broker.publish(car(1))
        assert seqs_of(broker, "ada") == []
        with pytest.raises(LeaseEnded):
            broker.renew(ended)


def test_notice_is_given_once_before_a_lease_ends(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        told: list[int] = []
        broker.on_lease_ending(lambda notice: told.append(notice.subscription))
        mine = broker.subscribe("car", owner="ada", lease=1000)
        broker.subscribe("car", owner="bob", lease=DAY)
        broker.sweep()
        assert broker.leases_ending("ada") == []
        clock.advance(900)
        broker.sweep()
        broker.sweep()
        assert told == [mine.id]
        (notice,) = broker.leases_ending("ada")
        assert (notice.subscription, notice.generation) == (mine.id, 1)
        assert broker.leases_ending("bob") == broker.leases_ending("nobody") == []


def test_notice_is_not_given_again_after_a_restart_nor_by_another_broker(place: str) -> None:
    clock = ManualClock()
    told: list[tuple[int, int]] = []

    def open_and_sweep() -> Broker:
        broker = open_broker(place, clock)
        broker.on_lease_ending(lambda notice: told.append((notice.subscription, notice.generation)))
        broker.sweep()
        return broker

    with open_and_sweep() as broker:
        mine = broker.subscribe("car", owner="ada", lease=1000)
        clock.advance(950)
        broker.sweep()
    with open_and_sweep() as broker, open_and_sweep():
        assert told == [(mine.id, 1)]
        assert len(broker.leases_ending("ada")) == 1
        broker.renew(mine, lease=1000)
        clock.advance(950)
    with open_and_sweep() as broker:  # renewed, so this is another end
        assert told == [(mine.id, 1), (mine.id, 2)]
        clock.advance(50)
        assert broker.sweep() == [mine.id]


def test_a_lease_that_renews_itself_lasts_while_its_account_lives(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        told: list[int] = []
        broker.on_lease_ending(lambda notice: told.append(notice.subscription))
        mine = broker.subscribe("car", owner="ada", lease=1000, renews=True)
        for _ in range(30):
            clock.advance(500)
            broker.sweep()
        assert broker.replace(mine.id, "car where price < 5", owner="ada").lease_end > broker.now()
        clock.advance(1000)
        broker.pause(mine.id, owner="ada")
        clock.advance(40 * DAY)
        broker.sweep()
        broker.resume(mine.id, owner="ada")
        found = broker.subscription(mine.id, owner="ada")
        assert (found.ended, found.renews, told) == (None, True, [])
        with broker.store.write() as transaction:
            number = accounts.ensure_accounts(transaction, ["ada"])["ada"]
            accounts.change_account(transaction, number, disabled_us=transaction.now_us)
        clock.advance((found.lease_end - broker.now()).total_seconds() + 1)
        broker.sweep()
        assert broker.subscription(mine.id, owner="ada").ended == "lease ended"


def test_a_renewal_for_a_term_ends_what_renews_itself(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        mine = broker.subscribe("car", owner="ada", lease=100, renews=True)
        broker.renew(mine, lease=50)
        clock.advance(101)
        assert broker.sweep() == [mine.id]


def test_background_sweeper_ends_leases_by_itself(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock, BrokerSettings(sweep_seconds=0.01), sweep=True) as broker:
        told = threading.Event()
        broker.on_lease_ending(lambda notice: told.set())
        mine = broker.subscribe("car", owner="ada", lease=100)
        clock.advance(95)
        assert told.wait(30)
        clock.advance(5)
        wait_until(lambda: broker.subscription(mine.id, owner="ada").ended is not None)


def test_ticket_is_random_stored_hashed_and_the_only_one_that_opens(place: str) -> None:
    with open_broker(place) as broker:
        mine, other = broker.subscribe_all(["car", "car"], owner="ada")
        assert mine.ticket
        assert mine.ticket != other.ticket
        with broker.store.read() as connection:
            (kept,) = subscriptions.find_subscriptions(connection, [mine.id])
        assert mine.ticket.encode() not in kept.ticket_hash
        assert len(kept.ticket_hash) == 32
        for wrong in (other.ticket, "", mine.ticket[:-1], "é\ud800"):
            with pytest.raises(WrongTicket):
                broker.unsubscribe(mine.id, ticket=wrong)
            with pytest.raises(WrongTicket):
                broker.renew(mine.id, ticket=wrong, generation=1)
        with pytest.raises(WrongTicket):  # absent looks the same
            broker.unsubscribe(999_999, ticket=mine.ticket)
        broker.unsubscribe(mine.id, ticket=mine.ticket)


def test_another_owners_subscription_looks_absent(place: str) -> None:
    with open_broker(place) as broker:
        mine = broker.subscribe("car", owner="ada")
        broker.subscribe("car", owner="eve")
        for attempt in (
            lambda: broker.subscription(mine.id, owner="eve"),
            lambda: broker.unsubscribe(mine.id, owner="eve"),
            lambda: broker.renew(mine.id, owner="eve", generation=1),
            lambda: broker.subscription(999_999, owner="eve"),
        ):
            with pytest.raises(UnknownSubscription):
                attempt()
        assert [one.owner for one in broker.subscriptions("eve")] == ["eve"]
