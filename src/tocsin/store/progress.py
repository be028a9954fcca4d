"""Progress: how far consumers have acknowledged their notifications, and how far other readers of the log have come."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, insert, select, update

from tocsin.store.tables import acknowledgements, progress
from tocsin.store.transaction import Transaction, read_meta


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


def remove_of(transaction: Transaction, owner: int) -> None:
    """Remove an account's acknowledgements."""
    transaction.connection.execute(delete(acknowledgements).where(acknowledgements.c.owner == owner))
