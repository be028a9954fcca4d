"""Webhooks for requests: what handlers and pages call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tocsin.broker.deliveries import LAST
from tocsin.service.principal import Principal
from tocsin.service.problems import Conflict, NotFound
from tocsin.service.push.addresses import check_reachable
from tocsin.service.push.courier import new_secret
from tocsin.store import Transaction, accounts, webhooks
from tocsin.store.webhooks import Delivery, Webhook

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
        added = webhooks.add_webhook(turn, principal.number, url, new_secret(), (after, LAST))
        accounts.note_action(turn, principal.actor, "webhook.added", f"webhook {added.id}", principal.number)
        return added

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

    def change(turn: Transaction) -> None:
        if not webhooks.remove_webhook(turn, principal.number, id):
            raise NotFound(f"there is no webhook {id}")
        accounts.note_action(turn, principal.actor, "webhook.removed", f"webhook {id}", principal.number)

    await _write(service, change)
    await service.courier.halt(id)


async def enable(service: Service, principal: Principal, id: int) -> Webhook:
    """Push to a webhook again; raises NotFound, UnsafeAddress."""
    hook = await find(service, principal, id)
    await check_reachable(hook.url, private=service.settings.webhook_private)
    await _write(service, lambda turn: webhooks.set_state(turn, id, "active"))
    service.courier.breakers.forget(id)
    service.courier.wake()
    return await find(service, principal, id)


async def rotate(service: Service, principal: Principal, id: int) -> Webhook:
    """Sign with a new secret from now on; raises NotFound."""
    await find(service, principal, id)

    def change(turn: Transaction) -> None:
        webhooks.set_secret(turn, id, new_secret())
        accounts.note_action(turn, principal.actor, "webhook.rotated", f"webhook {id}", principal.number)

    await _write(service, change)
    return await find(service, principal, id)


async def deliveries_of(
    service: Service, principal: Principal, id: int, after: tuple[int, int], limit: int, state: str | None
) -> list[Delivery]:
    """Return a webhook's deliveries in order; raises NotFound."""
    await find(service, principal, id)
    return await _read(service, lambda connection: webhooks.list_deliveries(connection, id, after, limit, state))


async def retry(service: Service, principal: Principal, id: int, seq: int, subscription: int) -> Delivery:
    """Try a delivery again at once; raises NotFound."""
    await find(service, principal, id)

    changed = await _change(service, id, (seq, subscription), webhooks.retry_now)
    service.courier.breakers.forget(id)
    service.courier.wake()
    return changed


async def skip(service: Service, principal: Principal, id: int, seq: int, subscription: int) -> Delivery:
    """Give up a delivery, so that what waits behind it goes on; raises NotFound, Conflict where it does not wait."""
    await find(service, principal, id)

    def give_up(turn: Transaction, one: Delivery) -> None:
        if one.state != "waiting":
            raise Conflict("this delivery waits for nothing")
        webhooks.give_up(turn, [one], "skipped by the owner")

    changed = await _change(service, id, (seq, subscription), give_up)
    service.courier.wake()
    return changed


async def replay(service: Service, principal: Principal, id: int, cursor: str | None) -> Webhook:
    """Send everything after a cursor once more, in order; None: all that is kept. Raises NotFound, CursorExpired."""
    hook = await find(service, principal, id)
    if cursor is not None:
        await asyncio.to_thread(service.broker.deliveries.check_cursor, cursor, principal.number)
    at = (
        None
        if cursor is None
        else await asyncio.to_thread(service.broker.deliveries.position_of, cursor, principal.number)
    )

    def change(turn: Transaction) -> None:
        after = (turn.start.horizon, LAST) if at is None else (at.seq, at.subscription)
        now = webhooks.find_webhook(turn.connection, principal.number, hook.id)
        if now is not None and after < (now.seq, now.subscription):
            webhooks.remove_deliveries_after(turn, id, after)
            webhooks.move(turn, id, after)

    await service.courier.halt(id)
    await _write(service, change)
    service.courier.wake()
    return await find(service, principal, id)


async def _change(
    service: Service, id: int, position: tuple[int, int], change: Callable[[Transaction, Delivery], None]
) -> Delivery:
    def run(turn: Transaction) -> Delivery:
        if (one := webhooks.find_delivery(turn.connection, id, *position)) is None:
            raise NotFound("there is no such delivery")
        change(turn, one)
        changed = webhooks.find_delivery(turn.connection, id, *position)
        assert changed is not None
        return changed

    return await _write(service, run)


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
