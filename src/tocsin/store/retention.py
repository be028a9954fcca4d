"""Retention: removing what has been kept long enough, oldest first, and never what somebody still needs.

`meta.horizon` is the seq up to which things may be gone. It moves only forward, in the transaction that removes them,
so a cursor behind it is known to be too old: it is refused, and never silently read past the hole.
"""

from __future__ import annotations

from tocsin.store import deliveries, events, lease_notices, letters, notifications, offers, seals, subscriptions
from tocsin.store.transaction import Transaction

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
    lease_notices.remove_ended(transaction)
    seals.remove_through(transaction, through)
    transaction.set_meta(horizon=through)
    return through < old
