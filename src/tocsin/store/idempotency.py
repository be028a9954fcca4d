"""Idempotency keys: what was answered to each, so that a request that is repeated is answered as before."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from tocsin.store.tables import idempotency
from tocsin.store.transaction import Transaction


def find_answer(connection: Connection, publisher: str, key: str) -> tuple[bytes, bytes] | None:
    """Return (hash of the body, receipts) of what was answered to an idempotency key."""
    query = select(idempotency.c.body_hash, idempotency.c.receipts).where(
        idempotency.c.publisher == publisher, idempotency.c.key == key
    )
    row = connection.execute(query).first()
    return (row.body_hash, row.receipts) if row else None


def add_answers(transaction: Transaction, answers: Sequence[tuple[str, str, bytes, bytes]]) -> None:
    """Store (publisher, key, hash of the body, receipts) as of this transaction."""
    transaction.insert_rows(idempotency, [(*answer, transaction.seq) for answer in answers])


def remove_through(transaction: Transaction, seq: int) -> None:
    """Remove keys up to a seq."""
    transaction.connection.execute(delete(idempotency).where(idempotency.c.seq <= seq))


def remove_of(transaction: Transaction, publisher: str) -> None:
    """Remove a publisher's keys."""
    transaction.connection.execute(delete(idempotency).where(idempotency.c.publisher == publisher))
