"""Accounts: who owns subscriptions and notifications. Numbers inside, names outside.

An account comes into being when its name is first used as an owner; without a password nobody can log in to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, Select, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.errors import AccountExists
from tocsin.store.tables import accounts
from tocsin.store.transaction import Transaction

_AT_A_TIME = 500  # names in one statement: SQLite bounds the number of parameters
_CHANGEABLE = {"role", "password_hash", "quotas", "disabled_us"}


@dataclass(frozen=True, slots=True)
class Account:
    """An account as it stands; `quotas` are bounds of its own, where they differ from everybody's."""

    number: int
    name: str
    role: str
    password_hash: str | None = field(repr=False)
    created_us: int
    disabled_us: int | None
    quotas: Mapping[str, int]


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


def names_of(connection: Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return number -> name."""
    wanted = sorted(numbers)
    found: dict[int, str] = {}
    for start in range(0, len(wanted), _AT_A_TIME):
        chosen = accounts.c.number.in_(wanted[start : start + _AT_A_TIME])
        found |= {row.number: row.name for row in connection.execute(select(accounts).where(chosen))}
    return found


def find_account(connection: Connection, name: str) -> int | None:
    """Return the number of the account of that name."""
    return find_accounts(connection, [name]).get(name)


def create_account(
    transaction: Transaction,
    name: str,
    *,
    role: str = "member",
    password_hash: str | None = None,
    quotas: Mapping[str, int] | None = None,
) -> Account:
    """Store an account; raises AccountExists."""
    if find_account(transaction.connection, name) is not None:
        raise AccountExists(name)
    row = {"name": name, "role": role, "credentials": password_hash, "created_us": transaction.now_us}
    transaction.connection.execute(insert(accounts).values(**row, quotas=_quotas_text(quotas)))
    made = read_account(transaction.connection, name)
    if made is None:
        raise AssertionError(f"account {name} was inserted")
    return made


def read_account(connection: Connection, name: str) -> Account | None:
    """Return the account of that name."""
    return _one(connection, select(accounts).where(accounts.c.name == name))


def read_account_of(connection: Connection, number: int) -> Account | None:
    """Return the account of that number."""
    return _one(connection, select(accounts).where(accounts.c.number == number))


def list_accounts(connection: Connection, after: str = "", limit: int = 100) -> list[Account]:
    """Return accounts by name, those that come after a name; not those that were deleted."""
    chosen = (accounts.c.name > after) & accounts.c.name.not_like("~%")
    query = select(accounts).where(chosen).order_by(accounts.c.name).limit(limit)
    return [_account(row) for row in connection.execute(query)]


def change_account(transaction: Transaction, number: int, **changes: Any) -> None:
    """Store another role, password_hash, quotas or disabled_us of an account."""
    if unknown := set(changes) - _CHANGEABLE:
        raise TypeError(f"an account's {', '.join(sorted(unknown))} cannot be changed")
    if "quotas" in changes:
        changes["quotas"] = _quotas_text(changes["quotas"])
    if "password_hash" in changes:
        changes["credentials"] = changes.pop("password_hash")
    transaction.connection.execute(update(accounts).where(accounts.c.number == number).values(**changes))


def has_other_admin(connection: Connection, number: int) -> bool:
    """Return whether somebody else is an admin who is not disabled."""
    chosen = (accounts.c.role == "admin") & accounts.c.disabled_us.is_(None) & (accounts.c.number != number)
    return connection.execute(select(accounts.c.number).where(chosen).limit(1)).first() is not None


def erase_account(transaction: Transaction, number: int) -> None:
    """Take from an account everything but its number, which ended subscriptions still name.

    Its name becomes free; the one it has then cannot be registered.
    """
    gone = {"name": f"~{number}", "role": "member", "credentials": None, "quotas": None}
    chosen = update(accounts).where(accounts.c.number == number)
    transaction.connection.execute(chosen.values(**gone, disabled_us=transaction.now_us))


def _one(connection: Connection, query: Select[Any]) -> Account | None:
    row = connection.execute(query).first()
    return None if row is None else _account(row)


def _account(row: Row[Any]) -> Account:
    quotas = json.loads(row.quotas) if row.quotas else {}
    return Account(row.number, row.name, row.role, row.credentials, row.created_us, row.disabled_us, quotas)


def _quotas_text(quotas: Mapping[str, int] | None) -> str | None:
    return json.dumps(dict(quotas), sort_keys=True) if quotas else None
