"""What whoever has the machine may do without an account: reset a password, make an admin. `tocsin admin`.

It works on the store, also while the service runs, which notices within two seconds.
"""

from __future__ import annotations

import secrets

from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from tocsin.service.refusals import NotFound
from tocsin.store import Store, Transaction, accounts, audit, credentials
from tocsin.store.accounts import Account
from tocsin.store.audit import Actor, Entry


def reset_password(store: Store, name: str, password: str | None = None) -> str:
    """Give an account another password, made up where none is given, and return it; its credentials end."""
    chosen = password or secrets.token_urlsafe(18)
    kept = PasswordHash((Argon2Hasher(),)).hash(chosen)
    with store.write() as turn:
        account = _find(turn, name)
        accounts.change_account(turn, account.number, password_hash=kept)
        credentials.remove_credentials_of(turn, account.number)
        audit.note(turn, Actor(), "password.reset", f"{name}; its sessions and tokens ended", account.number)
    return chosen


def make_admin(store: Store, name: str) -> bool:
    """Make an account an admin who is not disabled; return whether it was made for that, and so has no password."""
    with store.write() as turn:
        found = accounts.read_account(turn.connection, name)
        account = found or accounts.create_account(turn, name, role="admin")
        accounts.change_account(turn, account.number, role="admin", disabled_us=None)
        audit.note(turn, Actor(), "account.changed", f"{name}: role admin, enabled", account.number)
        return found is None or found.password_hash is None


def admins(store: Store) -> list[Account]:
    """Return the admins who are not disabled."""
    with store.read() as connection:
        listed = accounts.list_accounts(connection, limit=1_000_000)
    return [one for one in listed if one.role == "admin" and one.disabled_us is None]


def trail(store: Store, limit: int, name: str | None = None) -> list[Entry]:
    """Return the audit trail, the newest first; of one account, or of all."""
    with store.read() as connection:
        number = None if name is None else accounts.find_account(connection, name)
        if name is not None and number is None:
            raise NotFound(f"there is no account {name}")
        return audit.read_entries(connection, None, limit, number)


def _find(turn: Transaction, name: str) -> Account:
    account = accounts.read_account(turn.connection, name)
    if account is None or name.startswith("~"):
        raise NotFound(f"there is no account {name}")
    return account
