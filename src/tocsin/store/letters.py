"""What goes beside the log: dead letters, idempotency keys, acknowledgements, and how far other readers have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from tocsin.store.tables import acknowledgements, dead_letters, idempotency, progress
from tocsin.store.transaction import Transaction, read_meta


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that could not be processed, and why."""

    seq: int
    kind: str
    publisher: str
    reason: str
    violations: bytes
    body: bytes
    at_us: int


@dataclass(frozen=True, slots=True)
class NewDeadLetter:
    """A dead letter about to be stored; `kind` is event, match or delivery."""

    kind: str
    publisher: str
    reason: str
    violations: bytes
    body: bytes


def unmatched(seq: int, reason: str, body: bytes) -> NewDeadLetter:
    """Return the dead letter of an event that is in the log, but cannot be matched."""
    problem = ["match", None, f"event {seq}: {reason}"[:2000]]
    return NewDeadLetter("match", "", reason[:2000], msgspec.json.encode([problem]), body)


def add_dead_letters(transaction: Transaction, new: Sequence[tuple[int, NewDeadLetter]]) -> None:
    """Store dead letters under seqs that were drawn for them."""
    transaction.insert_rows(
        dead_letters,
        [
            (seq, letter.kind, letter.publisher, letter.reason, letter.violations, letter.body, transaction.now_us)
            for seq, letter in new
        ],
    )


def read_dead_letters(connection: Connection, after_seq: int, limit: int, publisher: str | None) -> list[DeadLetter]:
    """Return dead letters after a seq; of one publisher, or of all."""
    query = select(dead_letters).where(dead_letters.c.seq > after_seq).order_by(dead_letters.c.seq).limit(limit)
    if publisher is not None:
        query = query.where(dead_letters.c.publisher == publisher)
    return [DeadLetter(*row) for row in connection.execute(query)]


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


def remove_through(transaction: Transaction, seq: int) -> None:
    """Remove dead letters and idempotency keys up to a seq."""
    transaction.connection.execute(delete(dead_letters).where(dead_letters.c.seq <= seq))
    transaction.connection.execute(delete(idempotency).where(idempotency.c.seq <= seq))


def remove_of(transaction: Transaction, account: int, name: str) -> None:
    """Remove an account's dead letters, idempotency keys and acknowledgements."""
    transaction.connection.execute(delete(dead_letters).where(dead_letters.c.publisher == name))
    transaction.connection.execute(delete(idempotency).where(idempotency.c.publisher == name))
    transaction.connection.execute(delete(acknowledgements).where(acknowledgements.c.owner == account))
