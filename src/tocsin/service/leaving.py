"""Leaving: an account is deleted with what is its own.

First nobody can act for it any more; then its subscriptions end, as by unsubscribing; then the rest goes, and its name
is free. What others need stays: events it published are everybody's, and ended subscriptions and stored notifications,
which nobody can read any more, go with the retention. Done again, it goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tocsin.service.identities import check_other_admin
from tocsin.service.refusals import NotFound
from tocsin.store import Transaction, accounts, audit, credentials, delivery_rules, letters, offers, webhooks
from tocsin.store.accounts import Account
from tocsin.store.audit import Actor

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
        credentials.remove_credentials_of(turn, account.number)
        audit.note(turn, actor, "account.deleted", name, account.number)
        return account


def _end_some(service: Service, name: str) -> list[int]:
    listed = [one.id for one in service.broker.subscriptions(name, limit=_AT_A_TIME)]
    if listed:
        service.broker.unsubscribe_all(listed, owner=name)
        with service.broker.store.write() as turn:
            delivery_rules.remove_rules(turn, listed)
    return listed


def _erase(service: Service, account: Account) -> list[int]:
    with service.broker.store.write() as turn:
        hooks = [hook.id for hook in webhooks.list_webhooks(turn.connection, account.number)]
        for hook in hooks:
            webhooks.remove_webhook(turn, account.number, hook)
        _remove_the_rest(turn, account)
        return hooks


def _remove_the_rest(turn: Transaction, account: Account) -> None:
    for offer in offers.live_offers(turn.connection, turn.now_us, publisher=account.name):
        offers.withdraw(turn, offer.seq)
    offers.forget_publisher(turn, account.name)
    letters.remove_of(turn, account.number, account.name)
    accounts.erase_account(turn, account.number)
