"""Retention: removing what has been kept long enough, oldest first, and never what somebody still needs.

`meta.horizon` is the seq up to which things may be gone. It moves only forward, in the transaction that removes them,
so a cursor behind it is known to be too old: it is refused, and never silently read past the hole.

Lease notices: which leases notice was given of, so that it is given once, also over restarts.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from tocsin.store import deliveries, events, letters, notifications, offers, seals, subscriptions
from tocsin.store.tables import lease_notices, leases
from tocsin.store.transaction import Transaction

_AT_A_TIME = 500


def noticed(connection: Connection, ids: Sequence[int]) -> dict[int, int]:
    """Return subscription -> the generation of its lease that notice was given of."""
    found: dict[int, int] = {}
    for start in range(0, len(ids), _AT_A_TIME):
        chosen = lease_notices.c.subscription.in_(ids[start : start + _AT_A_TIME])
        found |= {row.subscription: row.generation for row in connection.execute(select(lease_notices).where(chosen))}
    return found


def add_notices(transaction: Transaction, given: Sequence[tuple[int, int]]) -> None:
    """Store that notice was given of (subscription, generation); an earlier generation of the lease is forgotten."""
    ids = [id for id, _ in given]
    for start in range(0, len(ids), _AT_A_TIME):
        chosen = lease_notices.c.subscription.in_(ids[start : start + _AT_A_TIME])
        transaction.connection.execute(delete(lease_notices).where(chosen))
    transaction.insert_rows(lease_notices, list(given))


def remove_ended(transaction: Transaction) -> None:
    """Remove the notices of leases that are over, or that are not there any more."""
    live = select(leases.c.subscription).where(
        leases.c.subscription == lease_notices.c.subscription, leases.c.deleted_seq.is_(None)
    )
    transaction.connection.execute(delete(lease_notices).where(~live.exists()))


# Retention.


STEP = 20_000  # seqs removed in one transaction: others wait no longer than that takes


def retain(transaction: Transaction, keep_from_us: int) -> bool:
    """Remove what arrived before a time and everybody is done with; return whether there is more to remove."""
    connection = transaction.connection
    old = min(events.last_before(connection, keep_from_us), letters.low_water(connection))
    if old <= transaction.start.horizon:
        return False
    first = events.read_events(connection, transaction.start.horizon, 1)
    through = min(old, (first[0].seq if first else old) + STEP)
    events.remove_through(transaction, through)
    notifications.remove_through(transaction, through)
    letters.remove_through(transaction, through)
    deliveries.remove_through(transaction, through)
    offers.remove_through(transaction, through)
    subscriptions.remove_ended(transaction, through)
    remove_ended(transaction)
    seals.remove_through(transaction, through)
    transaction.set_meta(horizon=through)
    return through < old
