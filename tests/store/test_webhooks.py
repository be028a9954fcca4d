"""Webhooks and the deliveries that are made out to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import Connection

from tests.clocks import ManualClock
from tocsin.store import Store, Transaction, accounts, webhooks
from tocsin.store.webhooks import Delivery, NewDelivery


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(place: str, clock: ManualClock) -> Iterator[Store]:
    opened = Store.open(place, machine=clock)
    yield opened
    opened.close()


def make_out(transaction: Transaction, webhook: int, positions: Sequence[tuple[int, int]]) -> None:
    new = [NewDelivery(seq, subscription, subscription, transaction.now_us) for seq, subscription in positions]
    webhooks.add_deliveries(transaction, webhook, new)


def new_webhook(store: Store, name: str = "ada") -> webhooks.Webhook:
    with store.write() as transaction:
        number = accounts.ensure_accounts(transaction, [name])[name]
        return webhooks.add_webhook(transaction, number, "https://example.org/hook", "secret", (5, 0))


def due(store: Store) -> list[Delivery]:
    now = store.now_us()
    with store.read() as connection:
        found = webhooks.due_lanes(connection, now, 10)
        return [one for lane in found for one in webhooks.due_in(connection, lane, now, 10)]


def test_webhook_belongs_to_its_account_and_shows_no_secret(store: Store) -> None:
    ours, theirs = new_webhook(store), new_webhook(store, "bob")
    assert "secret" not in repr(ours)
    with store.write() as transaction:
        webhooks.move(transaction, ours.id, (9, 2))
        webhooks.set_state(transaction, ours.id, "disabled", "410 Gone")
        webhooks.set_secret(transaction, ours.id, "another")
    with store.write() as transaction:
        connection = transaction.connection
        found = webhooks.find_webhook(connection, ours.account, ours.id)
        assert found is not None
        assert (found.state, found.reason, found.secret) == ("disabled", "410 Gone", "another")
        assert (found.seq, found.subscription) == (9, 2)
        assert webhooks.find_webhook(connection, theirs.account, ours.id) is None
        assert webhooks.list_webhooks(connection, ours.account) == [found]
        assert webhooks.active_webhooks(connection) == [theirs]
        assert not webhooks.remove_webhook(transaction, theirs.account, ours.id)
        make_out(transaction, ours.id, [(6, 1)])
        assert webhooks.remove_webhook(transaction, ours.account, ours.id)
        assert webhooks.list_deliveries(connection, ours.id) == []


def test_delivery_is_tried_again_until_it_arrives_or_is_given_up(store: Store, clock: ManualClock) -> None:
    hook = new_webhook(store).id
    with store.write() as transaction:
        make_out(transaction, hook, [(6, 1), (6, 2), (7, 1)])
    first, third, second = due(store)
    with store.write() as transaction:
        webhooks.mark_delivered(transaction, [first])
        webhooks.try_again(transaction, [second], transaction.now_us + 2_000_000, "503")
        webhooks.give_up(transaction, [third], "410")
    assert due(store) == []
    with store.read() as connection:
        assert webhooks.next_due_us(connection, store.now_us()) == store.now_us() + 2_000_000
    clock.advance(2)
    assert [(one.seq, one.subscription, one.attempts, one.last_error) for one in due(store)] == [(6, 2, 1, "503")]
    with store.read() as connection:
        found = webhooks.list_deliveries(connection, hook)
        assert [one.state for one in found] == ["delivered", "waiting", "given_up"]
        assert webhooks.list_deliveries(connection, hook, after=(6, 1), limit=1) == found[1:2]
        assert webhooks.list_deliveries(connection, hook, state="given_up") == found[2:]
    with store.write() as transaction:
        webhooks.retry_now(transaction, found[2])
        webhooks.remove_deliveries_through(transaction, 6)
    assert [(one.seq, one.attempts) for one in due(store)] == [(7, 0)]


def test_deliveries_made_out_and_position_moved_are_one_transaction(store: Store) -> None:
    hook = new_webhook(store)

    def fail_between() -> None:
        with store.write() as transaction:
            make_out(transaction, hook.id, [(6, 1)])
            webhooks.move(transaction, hook.id, (6 // 0, 1))

    with pytest.raises(ZeroDivisionError):
        fail_between()
    assert due(store) == []


def test_first_of_a_lane_holds_back_the_rest_and_no_other_lane(store: Store, clock: ManualClock) -> None:
    hook = new_webhook(store).id
    with store.write() as transaction:
        make_out(transaction, hook, [(6, 1), (6, 2), (7, 1), (8, 2)])
    first = due(store)[0]
    assert (first.seq, first.lane) == (6, 1)
    with store.write() as transaction:
        webhooks.try_again(transaction, [first], transaction.now_us + 1_000_000, "500")
    assert [(one.seq, one.lane) for one in due(store)] == [(6, 2), (8, 2)]
    clock.advance(1)
    assert [(one.seq, one.lane) for one in due(store) if one.lane == 1] == [(6, 1), (7, 1)]
    with store.write() as transaction:
        webhooks.set_state(transaction, hook, "disabled", "410")
    assert due(store) == []
    with store.read() as connection:
        assert webhooks.next_due_us(connection, 0) is None


def test_deliveries_after_a_position_are_removed_to_be_made_out_again(store: Store) -> None:
    hook = new_webhook(store).id
    with store.write() as transaction:
        make_out(transaction, hook, [(6, 1), (6, 2), (7, 1)])
        webhooks.mark_delivered(transaction, due_of(transaction.connection, hook, 6, 1))
        webhooks.remove_deliveries_after(transaction, hook, (6, 1))
    assert due(store) == []
    with store.write() as transaction:
        make_out(transaction, hook, [(6, 2), (7, 1)])
    assert [(one.seq, one.subscription) for one in due(store)] == [(6, 2), (7, 1)]


def due_of(connection: Connection, hook: int, seq: int, subscription: int) -> list[Delivery]:
    found = webhooks.find_delivery(connection, hook, seq, subscription)
    assert found is not None
    return [found]
