"""Delivery rules: how an owner wants a webhook to be told of one subscription, where it is not each at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from tocsin.store.tables import delivery_rules
from tocsin.store.transaction import Transaction

_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class StoredRule:
    """One subscription's rule: a digest a period (none, hour, day), and how many an hour at most."""

    subscription: int
    digest: str
    most_per_hour: int | None


def find_rules(connection: Connection, subscriptions: Sequence[int]) -> dict[int, StoredRule]:
    """Return the rules of subscriptions that have one."""
    found: dict[int, StoredRule] = {}
    for start in range(0, len(subscriptions), _AT_A_TIME):
        chosen = delivery_rules.c.subscription.in_(subscriptions[start : start + _AT_A_TIME])
        for row in connection.execute(select(delivery_rules).where(chosen)):
            found[row.subscription] = StoredRule(*row)
    return found


def set_rule(transaction: Transaction, rule: StoredRule) -> None:
    """Store a subscription's rule in the place of the one before; the plain rule is stored as none."""
    chosen = delivery_rules.c.subscription == rule.subscription
    transaction.connection.execute(delete(delivery_rules).where(chosen))
    if rule.digest != "none" or rule.most_per_hour is not None:
        row = {"subscription": rule.subscription, "digest": rule.digest, "most_per_hour": rule.most_per_hour}
        transaction.connection.execute(insert(delivery_rules).values(**row))


def remove_rules(transaction: Transaction, subscriptions: Sequence[int]) -> None:
    """Remove the rules of subscriptions that have ended."""
    for start in range(0, len(subscriptions), _AT_A_TIME):
        chosen = delivery_rules.c.subscription.in_(subscriptions[start : start + _AT_A_TIME])
        transaction.connection.execute(delete(delivery_rules).where(chosen))
