"""Webhooks: addresses to which an account's notifications are pushed, and how far that has come.

A webhook's position says up to which notification deliveries were made out (deliveries.py); moving it and making them
out are one transaction, so each notification is made out once.

Delivery rules: how an owner wants a webhook to be told of one subscription, where it is not each at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert, select, update

from tocsin.documents.events import DeliveryRule
from tocsin.store.tables import deliveries, delivery_rules, lanes, webhooks
from tocsin.store.transaction import Transaction


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
