"""API tokens: secrets by which programs act for an account. The store has their hashes only."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from tocsin.store.tables import api_tokens
from tocsin.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ApiToken:
    """What is kept of a token."""

    id: int
    account: int
    name: str
    created_us: int
    expires_us: int | None
    last_used_us: int | None


_COLUMNS = (
    api_tokens.c.id,
    api_tokens.c.account,
    api_tokens.c.name,
    api_tokens.c.created_us,
    api_tokens.c.expires_us,
    api_tokens.c.last_used_us,
)


def add_token(transaction: Transaction, account: int, hashed: bytes, name: str, expires_us: int | None) -> int:
    """Store a token under its hash; return its id."""
    row = {"hash": hashed, "account": account, "name": name, "created_us": transaction.now_us, "expires_us": expires_us}
    added = transaction.connection.execute(insert(api_tokens).values(**row).returning(api_tokens.c.id))
    return int(added.scalar_one())


def find_token(connection: Connection, hashed: bytes, now_us: int) -> ApiToken | None:
    """Return the token of that hash, unless it has expired."""
    row = connection.execute(select(*_COLUMNS).where(api_tokens.c.hash == hashed)).first()
    found = None if row is None else ApiToken(*row)
    return None if found is None or (found.expires_us is not None and found.expires_us <= now_us) else found


def list_tokens(connection: Connection, account: int) -> list[ApiToken]:
    """Return an account's tokens, the oldest first, expired ones among them."""
    query = select(*_COLUMNS).where(api_tokens.c.account == account).order_by(api_tokens.c.id)
    return [ApiToken(*row) for row in connection.execute(query)]


def use_token(transaction: Transaction, id: int) -> None:
    """Remember that a token was used now."""
    chosen = update(api_tokens).where(api_tokens.c.id == id)
    transaction.connection.execute(chosen.values(last_used_us=transaction.now_us))


def remove_token(transaction: Transaction, account: int, id: int) -> bool:
    """Remove a token; return whether the account had it."""
    chosen = (api_tokens.c.id == id) & (api_tokens.c.account == account)
    return transaction.connection.execute(delete(api_tokens).where(chosen)).rowcount == 1
