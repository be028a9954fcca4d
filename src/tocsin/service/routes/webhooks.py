"""Webhooks: addresses to which notifications are pushed, signed; and what became of each delivery.

Webhooks for requests: what handlers and pages call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from tocsin.broker.deliveries import LAST
from tocsin.documents import StoredInt
from tocsin.documents.events import (
    DeliveryKey,
    DeliveryPage,
    DeliveryView,
    NewWebhook,
    ReplayRequest,
    WebhookList,
    WebhookView,
)
from tocsin.service.addresses import check_reachable
from tocsin.service.courier import new_secret
from tocsin.service.problems import BadRequest, Conflict, NotFound
from tocsin.service.routes.events import Limit
from tocsin.service.routing import Principal, Routes, json_response, service_of
from tocsin.service.service import Service
from tocsin.store import Transaction, accounts, webhooks
from tocsin.store.store import instant
from tocsin.store.webhooks import Delivery, Webhook

if TYPE_CHECKING:
    from tocsin.service.service import Service

R = TypeVar("R")


async def add_webhook(service: Service, principal: Principal, url: str, start: str) -> Webhook:
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


async def find_webhooks(service: Service, principal: Principal) -> list[Webhook]:
    """Return the asker's webhooks."""
    return await _read(service, lambda connection: webhooks.list_webhooks(connection, principal.number))


async def find_webhook(service: Service, principal: Principal, id: int) -> Webhook:
    """Return a webhook of the asker; raises NotFound."""
    found = await _read(service, lambda connection: webhooks.find_webhook(connection, principal.number, id))
    if found is None:
        raise NotFound(f"there is no webhook {id}")
    return found


async def remove_webhook(service: Service, principal: Principal, id: int) -> None:
    """Remove a webhook and what was on its way; raises NotFound."""

    def change(turn: Transaction) -> None:
        if not webhooks.remove_webhook(turn, principal.number, id):
            raise NotFound(f"there is no webhook {id}")
        accounts.note_action(turn, principal.actor, "webhook.removed", f"webhook {id}", principal.number)

    await _write(service, change)
    await service.courier.halt(id)


async def enable_webhook(service: Service, principal: Principal, id: int) -> Webhook:
    """Push to a webhook again; raises NotFound, UnsafeAddress."""
    hook = await find_webhook(service, principal, id)
    await check_reachable(hook.url, private=service.settings.webhook_private)
    await _write(service, lambda turn: webhooks.set_state(turn, id, "active"))
    service.courier.breakers.forget(id)
    service.courier.wake()
    return await find_webhook(service, principal, id)


async def rotate_secret(service: Service, principal: Principal, id: int) -> Webhook:
    """Sign with a new secret from now on; raises NotFound."""
    await find_webhook(service, principal, id)

    def change(turn: Transaction) -> None:
        webhooks.set_secret(turn, id, new_secret())
        accounts.note_action(turn, principal.actor, "webhook.rotated", f"webhook {id}", principal.number)

    await _write(service, change)
    return await find_webhook(service, principal, id)


async def deliveries_of(
    service: Service, principal: Principal, id: int, after: tuple[int, int], limit: int, state: str | None
) -> list[Delivery]:
    """Return a webhook's deliveries in order; raises NotFound."""
    await find_webhook(service, principal, id)
    return await _read(service, lambda connection: webhooks.list_deliveries(connection, id, after, limit, state))


async def retry_delivery(service: Service, principal: Principal, id: int, seq: int, subscription: int) -> Delivery:
    """Try a delivery again at once; raises NotFound."""
    await find_webhook(service, principal, id)

    changed = await _change(service, id, (seq, subscription), webhooks.retry_now)
    service.courier.breakers.forget(id)
    service.courier.wake()
    return changed


async def skip_delivery(service: Service, principal: Principal, id: int, seq: int, subscription: int) -> Delivery:
    """Give up a delivery, so that what waits behind it goes on; raises NotFound, Conflict where it does not wait."""
    await find_webhook(service, principal, id)

    def give_up(turn: Transaction, one: Delivery) -> None:
        if one.state != "waiting":
            raise Conflict("this delivery waits for nothing")
        webhooks.give_up(turn, [one], "skipped by the owner")

    changed = await _change(service, id, (seq, subscription), give_up)
    service.courier.wake()
    return changed


async def replay_notifications(service: Service, principal: Principal, id: int, cursor: str | None) -> Webhook:
    """Send everything after a cursor once more, in order; None: all that is kept. Raises NotFound, CursorExpired."""
    hook = await find_webhook(service, principal, id)
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
    return await find_webhook(service, principal, id)


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


# --- Routes -----------------------------------------------------------------------------------------------------------


routes = Routes("webhooks")


@routes.on(
    "POST", "/v1/webhooks", "Have notifications pushed", status=201, answer=WebhookView,
    responses={409: "The account has too many"},
)  # fmt: skip
async def create(request: Request, body: NewWebhook, principal: Principal) -> Response:
    """Store an address. The answer has the secret that signs what is sent; it is shown once."""
    service = service_of(request)
    added = await add_webhook(service, principal, body.url, body.start)
    return json_response(_view(service, added, secret=True), 201, {"location": f"/v1/webhooks/{added.id}"})


@routes.on("GET", "/v1/webhooks", "Your webhooks", answer=WebhookList)
async def read_all(request: Request, principal: Principal) -> object:
    """Return all of them."""
    service = service_of(request)
    return WebhookList([_view(service, one) for one in await find_webhooks(service, principal)])


@routes.on("GET", "/v1/webhooks/{id}", "One of your webhooks", answer=WebhookView)
async def read(request: Request, id: StoredInt, principal: Principal) -> object:
    """Return it, without its secret."""
    service = service_of(request)
    return _view(service, await find_webhook(service, principal, id))


@routes.on("DELETE", "/v1/webhooks/{id}", "Push there no more", status=204)
async def remove(request: Request, id: StoredInt, principal: Principal) -> None:
    """Remove it, with what was on its way."""
    await remove_webhook(service_of(request), principal, id)


@routes.on("POST", "/v1/webhooks/{id}/enable", "Push there again", answer=WebhookView)
async def enable(request: Request, id: StoredInt, principal: Principal) -> object:
    """Make one active that was disabled; it goes on where it stopped."""
    service = service_of(request)
    return _view(service, await enable_webhook(service, principal, id))


@routes.on("POST", "/v1/webhooks/{id}/rotate", "Sign with a new secret", answer=WebhookView)
async def rotate(request: Request, id: StoredInt, principal: Principal) -> object:
    """Return the new secret, once."""
    service = service_of(request)
    return _view(service, await rotate_secret(service, principal, id), secret=True)


@routes.on("GET", "/v1/webhooks/{id}/deliveries", "What became of deliveries", answer=DeliveryPage)
async def read_deliveries(
    request: Request,
    id: StoredInt,
    principal: Principal,
    cursor: Annotated[str, Meta(max_length=50)] | None = None,
    limit: Limit = 100,
    state: Literal["waiting", "delivered", "given_up"] | None = None,
) -> object:
    """Return a page, in order."""
    found = await deliveries_of(service_of(request), principal, id, _position(cursor), limit, state)
    following = f"{found[-1].seq}.{found[-1].subscription}" if len(found) == limit else None
    return DeliveryPage([_delivery(one) for one in found], following)


@routes.on("POST", "/v1/webhooks/{id}/deliveries/retry", "Try one again", answer=DeliveryView)
async def retry(request: Request, id: StoredInt, body: DeliveryKey, principal: Principal) -> object:
    """Try a delivery again at once, as if it were new."""
    return _delivery(await retry_delivery(service_of(request), principal, id, body.seq, body.subscription))


@routes.on(
    "POST", "/v1/webhooks/{id}/deliveries/skip", "Go on without one", answer=DeliveryView,
    responses={409: "It does not wait"},
)  # fmt: skip
async def skip(request: Request, id: StoredInt, body: DeliveryKey, principal: Principal) -> object:
    """Give up a delivery that fails; what waits behind it, in the same subscription, is delivered."""
    return _delivery(await skip_delivery(service_of(request), principal, id, body.seq, body.subscription))


@routes.on(
    "POST", "/v1/webhooks/{id}/replay", "Send it all once more", answer=WebhookView,
    responses={410: "Some of it is no longer kept"},
)  # fmt: skip
async def replay(request: Request, id: StoredInt, body: ReplayRequest, principal: Principal) -> object:
    """Deliver everything after a cursor again, in order, with the same ids; without one, all that is kept."""
    service = service_of(request)
    return _view(service, await replay_notifications(service, principal, id, body.cursor))


def _view(service: Service, hook: Webhook, *, secret: bool = False) -> WebhookView:
    circuit = service.courier.breakers.state(hook.id)
    shown = hook.secret if secret else None
    return WebhookView(hook.id, hook.url, hook.state, hook.reason, circuit, instant(hook.created_us), shown)


def _delivery(one: Delivery) -> DeliveryView:
    return DeliveryView(one.seq, one.subscription, one.state, one.attempts, instant(one.next_us), one.last_error)


def _position(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return (0, 0)
    seq, dot, subscription = cursor.partition(".")
    if not dot or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in (seq, subscription)):
        raise BadRequest("that is no cursor; use the one of the last page")
    return (min(int(seq), 2**63 - 1), min(int(subscription), 2**63 - 1))
