"""Accounts: who owns subscriptions and notifications. Numbers inside, names outside."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.store.tables import accounts
from tocsin.store.transaction import Transaction

_AT_A_TIME = 500  # names in one statement: SQLite bounds the number of parameters


def ensure_accounts(transaction: Transaction, names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of accounts of these names, made where they are missing."""
    wanted = sorted(set(names))
    found = find_accounts(transaction.connection, wanted)
    if missing := [name for name in wanted if name not in found]:
        insert = postgresql.insert if transaction.is_postgres else sqlite.insert
        rows = [{"name": name, "role": "member", "created_us": transaction.now_us} for name in missing]
        transaction.connection.execute(insert(accounts).on_conflict_do_nothing(), rows)
        found |= find_accounts(transaction.connection, missing)
    return found


def find_accounts(connection: Connection, names: list[str]) -> dict[str, int]:
    """Return name -> number of those that exist."""
    found: dict[str, int] = {}
    for start in range(0, len(names), _AT_A_TIME):
        query = select(accounts.c.name, accounts.c.number).where(accounts.c.name.in_(names[start : start + _AT_A_TIME]))
        found |= {row.name: row.number for row in connection.execute(query)}
    return found


def find_account(connection: Connection, name: str) -> int | None:
    """Return the number of the account of that name."""
    return find_accounts(connection, [name]).get(name)
