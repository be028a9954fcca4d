"""Accounts: who owns subscriptions and notifications. Numbers inside, names outside.

An account comes into being when its name is first used as an owner; without a password nobody can log in to it.

Credentials: API tokens and sessions, secrets by which programs and browsers act for an account.

The store has their hashes only. They are a forest: what was got by a token has that token as its parent, lives no
longer than it, may do no more than it, and ends with it. What was got by the password has no parent.

The audit trail: who did what with accounts, credentials, webhooks and the schema; written where it is done.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.errors import AccountExists
from tocsin.store.store import Transaction
from tocsin.store.tables import accounts, audit, credentials

_AT_A_TIME = 500  # names in one statement: SQLite bounds the number of parameters
_CHANGEABLE = {"role", "password_hash", "quotas", "disabled_us"}


@dataclass(frozen=True, slots=True)
class Account:
    """An account as it stands; `quotas` are bounds of its own, where they differ from everybody's."""

    number: int
    name: str
    role: str  # member, publisher (who may extend the schema), admin
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
    row = {**_role(role), "name": name, "credentials": password_hash, "created_us": transaction.now_us}
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


def own_quotas(connection: Connection) -> dict[int, Mapping[str, int]]:
    """Return the quotas of the accounts that have some of their own."""
    query = select(accounts.c.number, accounts.c.quotas).where(accounts.c.quotas.is_not(None))
    return {number: json.loads(quotas) for number, quotas in connection.execute(query)}


def change_account(transaction: Transaction, number: int, **changes: Any) -> None:
    """Store another role, password_hash, quotas or disabled_us of an account."""
    if unknown := set(changes) - _CHANGEABLE:
        raise TypeError(f"an account's {', '.join(sorted(unknown))} cannot be changed")
    if "quotas" in changes:
        changes["quotas"] = _quotas_text(changes["quotas"])
    if "password_hash" in changes:
        changes["credentials"] = changes.pop("password_hash")
    if "role" in changes:
        changes |= _role(changes["role"])
    transaction.connection.execute(update(accounts).where(accounts.c.number == number).values(**changes))


def has_other_admin(connection: Connection, number: int) -> bool:
    """Return whether somebody else is an admin who is not disabled."""
    chosen = (accounts.c.role == "admin") & accounts.c.disabled_us.is_(None) & (accounts.c.number != number)
    return connection.execute(select(accounts.c.number).where(chosen).limit(1)).first() is not None


def erase_account(transaction: Transaction, number: int) -> None:
    """Take from an account everything but its number, which ended subscriptions still name.

    Its name becomes free; the one it has then cannot be registered.
    """
    gone = {"name": f"~{number}", **_role("member"), "credentials": None, "quotas": None}
    chosen = update(accounts).where(accounts.c.number == number)
    transaction.connection.execute(chosen.values(**gone, disabled_us=transaction.now_us))


def _one(connection: Connection, query: Select[Any]) -> Account | None:
    row = connection.execute(query).first()
    return None if row is None else _account(row)


def _account(row: Row[Any]) -> Account:
    quotas = json.loads(row.quotas) if row.quotas else {}
    role = "publisher" if row.role == "member" and row.extends_schema else row.role
    return Account(row.number, row.name, role, row.credentials, row.created_us, row.disabled_us, quotas)


def _role(role: str) -> dict[str, Any]:
    """Return a role as it is stored: a publisher is a member who extends the schema."""
    return {"role": "member" if role == "publisher" else role, "extends_schema": int(role == "publisher")}


def _quotas_text(quotas: Mapping[str, int] | None) -> str | None:
    return json.dumps(dict(quotas), sort_keys=True) if quotas else None


# --- Credentials ------------------------------------------------------------------------------------------------------


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


# --- The audit trail --------------------------------------------------------------------------------------------------


OPERATOR = "(operator)"  # whoever has the machine


@dataclass(frozen=True, slots=True)
class Actor:
    """Whose doing it is: an account, by which credential and from where; the operator has none."""

    account: int | None = None
    who: str = OPERATOR
    credential: int | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the trail; `concerns` is the account that it was done to."""

    id: int
    at_us: int
    account: int | None
    who: str
    credential: int | None
    address: str
    action: str
    subject: str
    concerns: int | None


def note_action(transaction: Transaction, actor: Actor, action: str, subject: str, concerns: int | None = None) -> None:
    """Write a line, in the transaction that does what it says."""
    note_actions(transaction, actor, action, [subject], concerns)


def note_actions(
    transaction: Transaction, actor: Actor, action: str, subjects: Sequence[str], concerns: int | None = None
) -> None:
    """Write a line for each subject."""
    row = {
        "at_us": transaction.now_us,
        "account": actor.account,
        "who": actor.who,
        "credential": actor.credential,
        "address": actor.address,
        "action": action,
        "concerns": concerns,
    }
    if subjects:
        transaction.connection.execute(insert(audit), [row | {"subject": one[:500]} for one in subjects])


def read_audit(connection: Connection, before: int | None, limit: int, account: int | None = None) -> list[Entry]:
    """Return lines, the newest first; with an account, what it did and what was done to it."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(audit.c.id < before)
    if account is not None:
        query = query.where(or_(audit.c.account == account, audit.c.concerns == account))
    return [Entry(*row) for row in connection.execute(query)]


def last_action(connection: Connection, action: str, subject: str, concerns: int) -> str | None:
    """Return what the newest line of an action says of a subject, which the line begins with."""
    query = select(audit.c.subject).where(audit.c.concerns == concerns, audit.c.action == action)
    query = query.where(audit.c.subject.startswith(subject, autoescape=True)).order_by(audit.c.id.desc()).limit(1)
    found = connection.execute(query).scalar()
    return None if found is None else found.removeprefix(subject)


def remove_audit_before(transaction: Transaction, time_us: int) -> int:
    """Remove lines that are older than a time; return how many."""
    return transaction.connection.execute(delete(audit).where(audit.c.at_us < time_us)).rowcount
