"""Delivery rules: how an owner wants a webhook to be told of one subscription, where it is not each at once."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from tocsin.documents.events import DeliveryRule
from tocsin.store.tables import delivery_rules
from tocsin.store.transaction import Transaction

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
