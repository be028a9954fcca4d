"""Sessions: secrets by which browsers act for an account, until they expire. The store has their hashes only."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from tocsin.store.tables import sessions
from tocsin.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that has logged in; forms carry `csrf` along."""

    hashed: bytes
    account: int
    csrf: str
    created_us: int
    expires_us: int


def add_session(transaction: Transaction, account: int, hashed: bytes, csrf: str, expires_us: int) -> None:
    """Store a session under the hash of its secret."""
    row = {"hash": hashed, "account": account, "csrf": csrf, "created_us": transaction.now_us, "expires_us": expires_us}
    transaction.connection.execute(insert(sessions).values(**row))


def find_session(connection: Connection, hashed: bytes, now_us: int) -> Session | None:
    """Return the session of that hash, unless it has expired."""
    query = select(sessions).where(sessions.c.hash == hashed, sessions.c.expires_us > now_us)
    row = connection.execute(query).first()
    return None if row is None else Session(*row)


def extend_session(transaction: Transaction, hashed: bytes, expires_us: int) -> None:
    """Let a session last until another time."""
    transaction.connection.execute(update(sessions).where(sessions.c.hash == hashed).values(expires_us=expires_us))


def remove_session(transaction: Transaction, hashed: bytes) -> None:
    """Remove a session: its browser has logged out."""
    transaction.connection.execute(delete(sessions).where(sessions.c.hash == hashed))


def remove_sessions_of(transaction: Transaction, account: int) -> int:
    """Remove all sessions of an account, as when its password changes; return how many."""
    return transaction.connection.execute(delete(sessions).where(sessions.c.account == account)).rowcount


def remove_expired(transaction: Transaction) -> int:
    """Remove the sessions that have expired; return how many."""
    expired = delete(sessions).where(sessions.c.expires_us <= transaction.now_us)
    return transaction.connection.execute(expired).rowcount
