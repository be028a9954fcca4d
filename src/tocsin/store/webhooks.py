"""Webhooks: addresses to which an account's notifications are pushed, and how far that has come.

A webhook's position says up to which notification deliveries were made out (webhooks.py); moving it and making them
out are one transaction, so each notification is made out once.

Delivery rules: how an owner wants a webhook to be told of one subscription, where it is not each at once.

Deliveries: notifications on their way to a webhook, tried again until they arrive or are given up.

A notification is named by its position, (seq of the event, subscription), as everywhere in the store. The deliveries
of one subscription to one webhook are a lane: they are sent in the order of seq, and the first that waits holds back
the rest. `lanes` has a row for each lane in which something waits, with the time at which its first is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.documents.events import DeliveryRule
from tocsin.store.store import Transaction
from tocsin.store.tables import deliveries, delivery_rules, lanes, webhooks


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address, and the position (seq, subscription) up to which deliveries were made out for it."""

    id: int
    account: int
    url: str
    secret: str = field(repr=False)
    state: str  # active, disabled
    reason: str | None
    created_us: int
    seq: int
    subscription: int


def add_webhook(transaction: Transaction, account: int, url: str, secret: str, after: tuple[int, int]) -> Webhook:
    """Store a webhook that is told of what comes after a position."""
    row = {"account": account, "url": url, "secret": secret, "state": "active", "created_us": transaction.now_us}
    position = {"seq": after[0], "subscription": after[1]}
    added = transaction.connection.execute(insert(webhooks).values(**row, **position).returning(*webhooks.c))
    return Webhook(*added.one())


def find_webhook(connection: Connection, account: int, id: int) -> Webhook | None:
    """Return a webhook of an account."""
    row = connection.execute(select(webhooks).where(webhooks.c.id == id, webhooks.c.account == account)).first()
    return None if row is None else Webhook(*row)


def list_webhooks(connection: Connection, account: int) -> list[Webhook]:
    """Return an account's webhooks, the oldest first."""
    query = select(webhooks).where(webhooks.c.account == account).order_by(webhooks.c.id)
    return [Webhook(*row) for row in connection.execute(query)]


def active_webhooks(connection: Connection) -> list[Webhook]:
    """Return the webhooks of all accounts that are pushed to."""
    query = select(webhooks).where(webhooks.c.state == "active").order_by(webhooks.c.id)
    return [Webhook(*row) for row in connection.execute(query)]


def webhooks_of(connection: Connection, ids: Collection[int]) -> list[Webhook]:
    """Return the webhooks with these ids."""
    return [Webhook(*row) for row in connection.execute(select(webhooks).where(webhooks.c.id.in_(sorted(ids))))]


def set_state(transaction: Transaction, id: int, state: str, reason: str | None = None) -> None:
    """Make a webhook active, or disable it and say why."""
    transaction.connection.execute(update(webhooks).where(webhooks.c.id == id).values(state=state, reason=reason))


def set_secret(transaction: Transaction, id: int, secret: str) -> None:
    """Sign with another secret from now on."""
    transaction.connection.execute(update(webhooks).where(webhooks.c.id == id).values(secret=secret))


def move(transaction: Transaction, id: int, position: tuple[int, int]) -> None:
    """Remember that deliveries were made out up to a position."""
    seq, subscription = position
    chosen = update(webhooks).where(webhooks.c.id == id)
    transaction.connection.execute(chosen.values(seq=seq, subscription=subscription))


def remove_webhook(transaction: Transaction, account: int, id: int) -> bool:
    """Remove a webhook and its deliveries; return whether the account had it."""
    if find_webhook(transaction.connection, account, id) is None:
        return False
    transaction.connection.execute(delete(lanes).where(lanes.c.webhook == id))
    transaction.connection.execute(delete(deliveries).where(deliveries.c.webhook == id))
    transaction.connection.execute(delete(webhooks).where(webhooks.c.id == id))
    return True


_AT_A_TIME = 500


def find_rules(connection: Connection, subscriptions: Sequence[int]) -> dict[int, DeliveryRule]:
    """Return the rules of subscriptions that have one."""
    found: dict[int, DeliveryRule] = {}
    for start in range(0, len(subscriptions), _AT_A_TIME):
        chosen = delivery_rules.c.subscription.in_(subscriptions[start : start + _AT_A_TIME])
        for row in connection.execute(select(delivery_rules).where(chosen)):
            found[row.subscription] = DeliveryRule(row.digest, row.most_per_hour)
    return found


def set_rule(transaction: Transaction, subscription: int, rule: DeliveryRule) -> None:
    """Store a subscription's rule in the place of the one before; the plain rule is stored as none."""
    chosen = delivery_rules.c.subscription == subscription
    transaction.connection.execute(delete(delivery_rules).where(chosen))
    if rule.is_digest or rule.most_per_hour is not None:
        row = {"subscription": subscription, "digest": rule.digest, "most_per_hour": rule.most_per_hour}
        transaction.connection.execute(insert(delivery_rules).values(**row))


def remove_rules(transaction: Transaction, subscriptions: Sequence[int]) -> None:
    """Remove the rules of subscriptions that have ended."""
    for start in range(0, len(subscriptions), _AT_A_TIME):
        chosen = delivery_rules.c.subscription.in_(subscriptions[start : start + _AT_A_TIME])
        transaction.connection.execute(delete(delivery_rules).where(chosen))


# --- Deliveries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification for one webhook. `state` is waiting, delivered or given_up."""

    webhook: int
    seq: int
    subscription: int
    state: str
    attempts: int
    next_us: int
    first_us: int
    last_error: str | None
    lane: int


@dataclass(frozen=True, slots=True)
class Lane:
    """A webhook's subscription, by the id under which its owner knows it, and when its first delivery is tried."""

    webhook: int
    lane: int
    next_us: int


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A notification to be made out to a webhook."""

    seq: int
    subscription: int
    lane: int
    due_us: int


def add_deliveries(transaction: Transaction, webhook: int, new: Sequence[NewDelivery]) -> None:
    """Make notifications out to a webhook, behind what waits in their lanes."""
    rows = [(webhook, one.seq, one.subscription, "waiting", 0, one.due_us, one.due_us, None, one.lane) for one in new]
    transaction.insert_rows(deliveries, rows)
    first: dict[int, int] = {}
    for one in new:
        first.setdefault(one.lane, one.due_us)
    if first:
        dialect = postgresql.insert if transaction.is_postgres else sqlite.insert
        values = [{"webhook": webhook, "lane": lane, "next_us": due} for lane, due in first.items()]
        transaction.connection.execute(dialect(lanes).on_conflict_do_nothing(), values)


def due_lanes(connection: Connection, now_us: int, limit: int, without: Collection[int] = ()) -> list[Lane]:
    """Return lanes of active webhooks whose first delivery should be tried by now, without those of some webhooks."""
    query = _active_lanes().where(lanes.c.next_us <= now_us, lanes.c.webhook.not_in(sorted(without)))
    return [Lane(*row) for row in connection.execute(query.order_by(lanes.c.next_us).limit(limit))]


def next_due_us(connection: Connection, after_us: int) -> int | None:
    """Return when the next lane is due that is not due yet."""
    query = _active_lanes().where(lanes.c.next_us > after_us).order_by(lanes.c.next_us).limit(1)
    row = connection.execute(query).first()
    return None if row is None else int(row.next_us)


def due_in(connection: Connection, lane: Lane, now_us: int, limit: int) -> list[Delivery]:
    """Return the deliveries of a lane that may be sent now, in order: none behind one that is not due yet."""
    query = _waiting_in(lane.webhook, lane.lane).limit(limit)
    found = (Delivery(*row) for row in connection.execute(query))
    return list(takewhile(lambda one: one.next_us <= now_us, found))


def refresh_lane(transaction: Transaction, webhook: int, lane: int) -> None:
    """Let a lane say when its first delivery is tried, or go where nothing waits in it."""
    first = transaction.connection.execute(_waiting_in(webhook, lane).limit(1)).first()
    chosen = (lanes.c.webhook == webhook) & (lanes.c.lane == lane)
    if first is None:
        transaction.connection.execute(delete(lanes).where(chosen))
    elif not transaction.connection.execute(update(lanes).where(chosen).values(next_us=first.next_us)).rowcount:
        transaction.connection.execute(insert(lanes).values(webhook=webhook, lane=lane, next_us=first.next_us))


def overdue(connection: Connection, webhook: int, before_us: int, limit: int) -> list[Delivery]:
    """Return deliveries of a webhook that wait, and were due before a time."""
    chosen = (deliveries.c.webhook == webhook) & (deliveries.c.state == "waiting") & (deliveries.c.first_us < before_us)
    query = select(deliveries).where(chosen).order_by(deliveries.c.seq).limit(limit)
    return [Delivery(*row) for row in connection.execute(query)]


def find_delivery(connection: Connection, webhook: int, seq: int, subscription: int) -> Delivery | None:
    """Return the delivery of a notification to a webhook."""
    columns = deliveries.c
    chosen = (columns.webhook == webhook) & (columns.seq == seq) & (columns.subscription == subscription)
    row = connection.execute(select(deliveries).where(chosen)).first()
    return None if row is None else Delivery(*row)


def list_deliveries(
    connection: Connection, webhook: int, after: tuple[int, int] = (0, 0), limit: int = 100, state: str | None = None
) -> list[Delivery]:
    """Return a webhook's deliveries after a position, in order; of one state, or of all."""
    columns = deliveries.c
    query = select(deliveries).where(columns.webhook == webhook, tuple_(columns.seq, columns.subscription) > after)
    if state is not None:
        query = query.where(columns.state == state)
    return [
        Delivery(*row) for row in connection.execute(query.order_by(columns.seq, columns.subscription).limit(limit))
    ]


def mark_delivered(transaction: Transaction, sent: Sequence[Delivery]) -> None:
    """Remember that the webhook took them."""
    for one in sent:
        _change(transaction, one, state="delivered", attempts=one.attempts + 1, last_error=None)
    _refresh(transaction, sent)


def try_again(transaction: Transaction, sent: Sequence[Delivery], next_us: int, error: str) -> None:
    """Remember that an attempt failed, and when to try again."""
    for one in sent:
        _change(transaction, one, state="waiting", attempts=one.attempts + 1, next_us=next_us, last_error=error)
    _refresh(transaction, sent)


def give_up(transaction: Transaction, sent: Sequence[Delivery], error: str) -> None:
    """Remember that no more attempts are made; what waits behind them goes on."""
    for one in sent:
        _change(transaction, one, state="given_up", attempts=one.attempts + 1, last_error=error)
    _refresh(transaction, sent)


def retry_now(transaction: Transaction, one: Delivery) -> None:
    """Try a delivery again at once, as if it were new."""
    now = transaction.now_us
    _change(transaction, one, state="waiting", attempts=0, next_us=now, first_us=now)
    _refresh(transaction, [one])


def remove_deliveries_after(transaction: Transaction, webhook: int, position: tuple[int, int]) -> None:
    """Remove a webhook's deliveries after a position, so that they can be made out again."""
    columns = deliveries.c
    chosen = (columns.webhook == webhook) & (tuple_(columns.seq, columns.subscription) > position)
    transaction.connection.execute(delete(deliveries).where(chosen))
    _remove_empty_lanes(transaction)


def remove_deliveries_through(transaction: Transaction, seq: int) -> None:
    """Remove the deliveries of events up to a seq."""
    transaction.connection.execute(delete(deliveries).where(deliveries.c.seq <= seq))
    _remove_empty_lanes(transaction)


def _remove_empty_lanes(transaction: Transaction) -> None:
    columns = deliveries.c
    same = (columns.webhook == lanes.c.webhook) & (columns.lane == lanes.c.lane) & (columns.state == "waiting")
    transaction.connection.execute(delete(lanes).where(~select(columns.seq).where(same).exists()))


def _active_lanes() -> Select[Any]:
    return select(lanes).join(webhooks, webhooks.c.id == lanes.c.webhook).where(webhooks.c.state == "active")


def _waiting_in(webhook: int, lane: int) -> Select[Any]:
    columns = deliveries.c
    chosen = (columns.webhook == webhook) & (columns.lane == lane) & (columns.state == "waiting")
    return select(deliveries).where(chosen).order_by(columns.seq, columns.subscription)


def _refresh(transaction: Transaction, changed: Sequence[Delivery]) -> None:
    for webhook, lane in {(one.webhook, one.lane) for one in changed}:
        refresh_lane(transaction, webhook, lane)


def _change(transaction: Transaction, one: Delivery, **changes: Any) -> None:
    transaction.connection.execute(update(deliveries).where(_is(one)).values(**changes))


def _is(one: Delivery) -> ColumnElement[bool]:
    columns = deliveries.c
    return (columns.webhook == one.webhook) & (columns.seq == one.seq) & (columns.subscription == one.subscription)
