"""Progress: how far consumers have acknowledged their notifications, and how far other readers of the log have come.

Retention: removing what has been kept long enough, oldest first, and never what somebody still needs.

`meta.horizon` is the seq up to which things may be gone. It moves only forward, in the transaction that removes them,
so a cursor behind it is known to be too old: it is refused, and never silently read past the hole.

Lease notices: which leases notice was given of, so that it is given once, also over restarts.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, select, update

from tocsin.store import events, notifications, seals, subscriptions, webhooks
from tocsin.store.store import Transaction, read_meta
from tocsin.store.tables import acknowledgements, lease_notices, leases, progress


def read_acknowledged(connection: Connection, owner: int, consumer: str) -> tuple[int, int] | None:
    """Return the (seq, subscription) up to which a consumer has acknowledged."""
    query = select(acknowledgements.c.seq, acknowledgements.c.subscription).where(
        acknowledgements.c.owner == owner, acknowledgements.c.consumer == consumer
    )
    row = connection.execute(query).first()
    return (row.seq, row.subscription) if row else None


def acknowledge(transaction: Transaction, owner: int, consumer: str, seq: int, subscription: int) -> None:
    """Store how far a consumer has read; it never goes back."""
    before = read_acknowledged(transaction.connection, owner, consumer)
    new = {"seq": seq, "subscription": subscription, "at_us": transaction.now_us}
    if before is None:
        statement = insert(acknowledgements).values(owner=owner, consumer=consumer, **new)
        transaction.connection.execute(statement)
    elif before < (seq, subscription):
        chosen = (acknowledgements.c.owner == owner) & (acknowledgements.c.consumer == consumer)
        transaction.connection.execute(update(acknowledgements).where(chosen).values(**new))


def set_progress(transaction: Transaction, name: str, through_seq: int) -> None:
    """Store how far a reader of the log has come; it holds back retention. It never goes back."""
    query = select(progress.c.through_seq).where(progress.c.name == name)
    before = transaction.connection.execute(query).scalar()
    new = {"through_seq": through_seq, "at_us": transaction.now_us}
    if before is None:
        transaction.connection.execute(insert(progress).values(name=name, **new))
    elif before < through_seq:
        transaction.connection.execute(update(progress).where(progress.c.name == name).values(**new))


def read_progress(connection: Connection) -> dict[str, int]:
    """Return how far each reader of the log has come."""
    return {row.name: row.through_seq for row in connection.execute(select(progress))}


def low_water(connection: Connection) -> int:
    """Return the seq up to which everybody is done with the log; tombstones and events after it must stay."""
    slowest = connection.execute(select(func.min(progress.c.through_seq))).scalar()
    matched = read_meta(connection).matched_through
    return matched if slowest is None else min(matched, slowest)


def remove_progress_of(transaction: Transaction, owner: int) -> None:
    """Remove an account's acknowledgements."""
    transaction.connection.execute(delete(acknowledgements).where(acknowledgements.c.owner == owner))


# --- Retention --------------------------------------------------------------------------------------------------------


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
    old = min(events.last_before(connection, keep_from_us), low_water(connection))
    if old <= transaction.start.horizon:
        return False
    first = events.read_events(connection, transaction.start.horizon, 1)
    through = min(old, (first[0].seq if first else old) + STEP)
    events.remove_events_through(transaction, through)
    notifications.remove_through(transaction, through)
    events.remove_dead_letters_through(transaction, through)
    events.remove_answers_through(transaction, through)
    webhooks.remove_deliveries_through(transaction, through)
    events.remove_offers_through(transaction, through)
    subscriptions.remove_ended(transaction, through)
    remove_ended(transaction)
    seals.remove_through(transaction, through)
    transaction.set_meta(horizon=through)
    return through < old
