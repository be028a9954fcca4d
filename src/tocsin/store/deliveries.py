"""Deliveries: notifications on their way to a webhook, tried again until they arrive or are given up.

A notification is named by its position, (seq of the event, subscription), as everywhere in the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, tuple_, update

from tocsin.store.tables import deliveries
from tocsin.store.transaction import Transaction


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


def add_deliveries(transaction: Transaction, webhook: int, positions: Sequence[tuple[int, int]]) -> None:
    """Make notifications out to a webhook, due at once."""
    add_deliveries_at(transaction, webhook, [(*position, transaction.now_us) for position in positions])


def add_deliveries_at(transaction: Transaction, webhook: int, due: Sequence[tuple[int, int, int]]) -> None:
    """Make notifications out to a webhook: (seq, subscription, when it is due)."""
    now = transaction.now_us
    rows = [(webhook, seq, subscription, "waiting", 0, at, now, None) for seq, subscription, at in due]
    transaction.insert_rows(deliveries, rows)


def due_deliveries(connection: Connection, now_us: int, limit: int) -> list[Delivery]:
    """Return the deliveries that should be tried by now, those that have waited longest first."""
    chosen = (deliveries.c.state == "waiting") & (deliveries.c.next_us <= now_us)
    query = select(deliveries).where(chosen).order_by(deliveries.c.next_us).limit(limit)
    return [Delivery(*row) for row in connection.execute(query)]


def next_due_us(connection: Connection) -> int | None:
    """Return when the next delivery is due."""
    query = select(deliveries.c.next_us).where(deliveries.c.state == "waiting").order_by(deliveries.c.next_us).limit(1)
    due: int | None = connection.execute(query).scalar()
    return due


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


def mark_delivered(transaction: Transaction, one: Delivery) -> None:
    """Remember that the webhook took it."""
    _change(transaction, one, state="delivered", attempts=one.attempts + 1, last_error=None)


def try_again(transaction: Transaction, one: Delivery, next_us: int, error: str) -> None:
    """Remember that an attempt failed, and when to try again."""
    _change(transaction, one, state="waiting", attempts=one.attempts + 1, next_us=next_us, last_error=error)


def give_up(transaction: Transaction, one: Delivery, error: str) -> None:
    """Remember that no more attempts are made."""
    _change(transaction, one, state="given_up", attempts=one.attempts + 1, last_error=error)


def retry_now(transaction: Transaction, one: Delivery) -> None:
    """Try a delivery again at once, as if it were new."""
    _change(transaction, one, state="waiting", attempts=0, next_us=transaction.now_us, first_us=transaction.now_us)


def remove_through(transaction: Transaction, seq: int) -> None:
    """Remove the deliveries of events up to a seq."""
    transaction.connection.execute(delete(deliveries).where(deliveries.c.seq <= seq))


def _change(transaction: Transaction, one: Delivery, **changes: Any) -> None:
    transaction.connection.execute(update(deliveries).where(_is(one)).values(**changes))


def _is(one: Delivery) -> ColumnElement[bool]:
    columns = deliveries.c
    return (columns.webhook == one.webhook) & (columns.seq == one.seq) & (columns.subscription == one.subscription)
