"""Webhooks for requests: what handlers and pages call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tocsin.broker.cursors import LAST
from tocsin.service.principal import Principal
from tocsin.service.push.addresses import check_reachable
from tocsin.service.push.messages import new_secret
from tocsin.service.refusals import Conflict, NotFound
from tocsin.store import Transaction, deliveries, webhooks
from tocsin.store.deliveries import Delivery
from tocsin.store.webhooks import Webhook

if TYPE_CHECKING:
    from tocsin.service.service import Service

R = TypeVar("R")


async def add(service: Service, principal: Principal, url: str, start: str) -> Webhook:
    """Store a webhook; raises UnsafeAddress, Conflict where the account has too many."""
    await check_reachable(url, private=service.settings.webhook_private)

    def change(turn: Transaction) -> Webhook:
        most = service.settings.webhooks_per_account
        if len(webhooks.list_webhooks(turn.connection, principal.number)) >= most:
            raise Conflict(f"an account has {most} webhooks at most; remove one first")
        after = turn.matched_through if start == "now" else turn.start.horizon
        return webhooks.add_webhook(turn, principal.number, url, new_secret(), (after, LAST))

    added = await _write(service, change)
    service.courier.wake()
    return added


async def find_all(service: Service, principal: Principal) -> list[Webhook]:
    """Return the asker's webhooks."""
    return await _read(service, lambda connection: webhooks.list_webhooks(connection, principal.number))


async def find(service: Service, principal: Principal, id: int) -> Webhook:
    """Return a webhook of the asker; raises NotFound."""
    found = await _read(service, lambda connection: webhooks.find_webhook(connection, principal.number, id))
    if found is None:
        raise NotFound(f"there is no webhook {id}")
    return found


async def remove(service: Service, principal: Principal, id: int) -> None:
    """Remove a webhook and what was on its way; raises NotFound."""
    if not await _write(service, lambda turn: webhooks.remove_webhook(turn, principal.number, id)):
        raise NotFound(f"there is no webhook {id}")


async def enable(service: Service, principal: Principal, id: int) -> Webhook:
    """Push to a webhook again; raises NotFound, UnsafeAddress."""
    hook = await find(service, principal, id)
    await check_reachable(hook.url, private=service.settings.webhook_private)
    await _write(service, lambda turn: webhooks.set_state(turn, id, "active"))
    service.courier.wake()
    return await find(service, principal, id)


async def rotate(service: Service, principal: Principal, id: int) -> Webhook:
    """Sign with a new secret from now on; raises NotFound."""
    await find(service, principal, id)
    await _write(service, lambda turn: webhooks.set_secret(turn, id, new_secret()))
    return await find(service, principal, id)


async def deliveries_of(
    service: Service, principal: Principal, id: int, after: tuple[int, int], limit: int, state: str | None
) -> list[Delivery]:
    """Return a webhook's deliveries in order; raises NotFound."""
    await find(service, principal, id)
    return await _read(service, lambda connection: deliveries.list_deliveries(connection, id, after, limit, state))


async def retry(service: Service, principal: Principal, id: int, seq: int, subscription: int) -> Delivery:
    """Try a delivery again at once; raises NotFound."""
    await find(service, principal, id)

    def change(turn: Transaction) -> Delivery:
        listed = deliveries.list_deliveries(turn.connection, id, (seq, subscription - 1), 1)
        if not listed or (listed[0].seq, listed[0].subscription) != (seq, subscription):
            raise NotFound("there is no such delivery")
        deliveries.retry_now(turn, listed[0])
        return deliveries.list_deliveries(turn.connection, id, (seq, subscription - 1), 1)[0]

    changed = await _write(service, change)
    service.courier.wake()
    return changed


async def _write(service: Service, change: Callable[[Transaction], R]) -> R:
    def run() -> R:
        with service.broker.store.write() as turn:
            return change(turn)

    return await asyncio.to_thread(run)


async def _read(service: Service, look: Callable[[Any], R]) -> R:
    def run() -> R:
        with service.broker.store.read() as connection:
            return look(connection)

    return await asyncio.to_thread(run)
