"""Leaving: an account is deleted with what is its own.

First nobody can act for it any more; then its subscriptions end, as by unsubscribing; then the rest goes, and its name
is free. What others need stays: events it published are everybody's, and ended subscriptions and stored notifications,
which nobody can read any more, go with the retention. Done again, it goes on where it stopped.

What whoever has the machine may do without an account: reset a password, make an admin. `tocsin admin`.

It works on the store, also while the service runs, which notices within two seconds.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from tocsin.service.identities import check_other_admin
from tocsin.service.problems import NotFound
from tocsin.store import Store, Transaction, accounts, events, progress, sites, webhooks
from tocsin.store.accounts import Account, Actor, Entry

if TYPE_CHECKING:
    from tocsin.service.service import Service


_AT_A_TIME = 1000


async def delete_account(service: Service, name: str, actor: Actor) -> None:
    """Delete an account; raises NotFound, Conflict where it is the only admin."""
    account = await asyncio.to_thread(_shut, service, name, actor)
    service.identities.forget()
    while ended := await asyncio.to_thread(_end_some, service, name):
        await service.settle(ended)
    for hook in await asyncio.to_thread(_erase, service, account):
        await service.courier.halt(hook)


def _shut(service: Service, name: str, actor: Actor) -> Account:
    with service.broker.store.write() as turn:
        account = accounts.read_account(turn.connection, name)
        if account is None or name.startswith("~"):
            raise NotFound(f"there is no account {name}")
        check_other_admin(turn, account)
        accounts.change_account(turn, account.number, disabled_us=turn.now_us)
        accounts.remove_credentials_of(turn, account.number)
        accounts.note_action(turn, actor, "account.deleted", name, account.number)
        return account


def _end_some(service: Service, name: str) -> list[int]:
    listed = [one.id for one in service.broker.subscriptions(name, limit=_AT_A_TIME)]
    if listed:
        service.broker.unsubscribe_all(listed, owner=name)
        with service.broker.store.write() as turn:
            webhooks.remove_rules(turn, listed)
    return listed


def _erase(service: Service, account: Account) -> list[int]:
    with service.broker.store.write() as turn:
        hooks = [hook.id for hook in webhooks.list_webhooks(turn.connection, account.number)]
        for hook in hooks:
            webhooks.remove_webhook(turn, account.number, hook)
        _remove_the_rest(turn, account)
        return hooks


def _remove_the_rest(turn: Transaction, account: Account) -> None:
    for offer in events.live_offers(turn.connection, turn.now_us, publisher=account.name):
        events.withdraw(turn, offer.seq)
    events.forget_publisher(turn, account.name)
    events.remove_dead_letters_of(turn, account.name)
    events.remove_answers_of(turn, account.name)
    progress.remove_progress_of(turn, account.number)
    sites.end_sites_of(turn, account.number)
    accounts.erase_account(turn, account.number)


# What whoever has the machine may do without an account.


def reset_password(store: Store, name: str, password: str | None = None) -> str:
    """Give an account another password, made up where none is given, and return it; its credentials end."""
    chosen = password or secrets.token_urlsafe(18)
    kept = PasswordHash((Argon2Hasher(),)).hash(chosen)
    with store.write() as turn:
        account = _find(turn, name)
        accounts.change_account(turn, account.number, password_hash=kept)
        accounts.remove_credentials_of(turn, account.number)
        accounts.note_action(turn, Actor(), "password.reset", f"{name}; its sessions and tokens ended", account.number)
    return chosen


def make_admin(store: Store, name: str) -> bool:
    """Make an account an admin who is not disabled; return whether it was made for that, and so has no password."""
    with store.write() as turn:
        found = accounts.read_account(turn.connection, name)
        account = found or accounts.create_account(turn, name, role="admin")
        accounts.change_account(turn, account.number, role="admin", disabled_us=None)
        accounts.note_action(turn, Actor(), "account.changed", f"{name}: role admin, enabled", account.number)
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
        return accounts.read_audit(connection, None, limit, number)


def _find(turn: Transaction, name: str) -> Account:
    account = accounts.read_account(turn.connection, name)
    if account is None or name.startswith("~"):
        raise NotFound(f"there is no account {name}")
    return account
