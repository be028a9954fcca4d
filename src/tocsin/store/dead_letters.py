"""Dead letters: what could not be processed, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, delete, select

from tocsin.store.tables import dead_letters
from tocsin.store.transaction import Transaction


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


def remove_through(transaction: Transaction, seq: int) -> None:
    """Remove dead letters up to a seq."""
    transaction.connection.execute(delete(dead_letters).where(dead_letters.c.seq <= seq))


def remove_of(transaction: Transaction, publisher: str) -> None:
    """Remove a publisher's dead letters."""
    transaction.connection.execute(delete(dead_letters).where(dead_letters.c.publisher == publisher))
