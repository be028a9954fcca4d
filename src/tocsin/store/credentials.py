"""Credentials: API tokens and sessions, secrets by which programs and browsers act for an account.

The store has their hashes only. They are a forest: what was got by a token has that token as its parent, lives no
longer than it, may do no more than it, and ends with it. What was got by the password has no parent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, Row, delete, insert, select, update

from tocsin.store.tables import credentials
from tocsin.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept of a token or session; `scopes` None: whatever its account may do."""

    id: int
    kind: str  # token, session
    account: int
    name: str
    csrf: str = field(repr=False)
    parent: int | None
    scopes: frozenset[str] | None
    created_us: int
    expires_us: int | None
    last_used_us: int | None
    address: str


def add_credential(
    transaction: Transaction,
    account: int,
    kind: str,
    hashed: bytes,
    *,
    name: str = "",
    csrf: str = "",
    parent: Credential | None = None,
    scopes: Collection[str] | None = None,
    expires_us: int | None = None,
    address: str = "",
) -> Credential:
    """Store a credential under the hash of its secret, within the bounds of its parent."""
    if parent is not None:
        ends = [one for one in (expires_us, parent.expires_us) if one is not None]
        expires_us = min(ends, default=None)
        if parent.scopes is not None:
            scopes = parent.scopes if scopes is None else parent.scopes & set(scopes)
    row = {
        "kind": kind,
        "hash": hashed,
        "account": account,
        "name": name,
        "csrf": csrf,
        "parent": None if parent is None else parent.id,
        "scopes": None if scopes is None else " ".join(sorted(scopes)),
        "created_us": transaction.now_us,
        "expires_us": expires_us,
        "address": address,
    }
    added = transaction.connection.execute(insert(credentials).values(**row).returning(*credentials.c))
    return _credential(added.one())


def find_credential(connection: Connection, kind: str, hashed: bytes, now_us: int) -> Credential | None:
    """Return the credential of that hash, unless it has expired."""
    query = select(credentials).where(credentials.c.hash == hashed, credentials.c.kind == kind)
    row = connection.execute(query).first()
    found = None if row is None else _credential(row)
    return None if found is None or (found.expires_us is not None and found.expires_us <= now_us) else found


def find_by_id(connection: Connection, id: int) -> Credential | None:
    """Return the credential of that id."""
    row = connection.execute(select(credentials).where(credentials.c.id == id)).first()
    return None if row is None else _credential(row)


def list_credentials(connection: Connection, account: int, kind: str) -> list[Credential]:
    """Return an account's tokens or sessions, the oldest first, expired ones among them."""
    query = select(credentials).where(credentials.c.account == account, credentials.c.kind == kind)
    return [_credential(row) for row in connection.execute(query.order_by(credentials.c.id))]


def use_credentials(transaction: Transaction, used: Mapping[int, int]) -> None:
    """Remember when credentials were last used: id -> time."""
    for id, at_us in used.items():
        chosen = update(credentials).where(credentials.c.id == id)
        transaction.connection.execute(chosen.values(last_used_us=at_us))


def remove_credential(transaction: Transaction, account: int, kind: str, id: int) -> int:
    """Remove one of an account's credentials with all that was got by it; return how many there were."""
    columns = credentials.c
    first = select(columns.id).where(columns.id == id, columns.account == account, columns.kind == kind)
    family = first.cte("family", recursive=True)
    family = family.union_all(select(columns.id).join(family, columns.parent == family.c.id))
    ids = list(transaction.connection.execute(select(family.c.id)).scalars())
    transaction.connection.execute(delete(credentials).where(columns.id.in_(ids)))
    return len(ids)


def remove_by_hash(transaction: Transaction, hashed: bytes) -> None:
    """Remove a session: its browser has logged out, or logs in anew."""
    chosen = (credentials.c.hash == hashed) & (credentials.c.kind == "session")
    transaction.connection.execute(delete(credentials).where(chosen))


def remove_credentials_of(transaction: Transaction, account: int, kind: str | None = None) -> int:
    """Remove all credentials of an account, or all of a kind that is nobody's parent; return how many."""
    chosen = credentials.c.account == account
    if kind is not None:
        chosen &= credentials.c.kind == kind
    return transaction.connection.execute(delete(credentials).where(chosen)).rowcount


def remove_expired_sessions(transaction: Transaction) -> int:
    """Remove the sessions that have expired; return how many. Tokens stay, for their owners to see."""
    chosen = (credentials.c.expires_us <= transaction.now_us) & (credentials.c.kind == "session")
    return transaction.connection.execute(delete(credentials).where(chosen)).rowcount


def _credential(row: Row[tuple[object, ...]]) -> Credential:
    scopes = None if row.scopes is None else frozenset(row.scopes.split())
    return Credential(
        row.id, row.kind, row.account, row.name, row.csrf, row.parent, scopes, row.created_us, row.expires_us,
        row.last_used_us, row.address,
    )  # fmt: skip
