"""Webhooks: addresses to which notifications are pushed, signed; and what became of each delivery."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

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
from tocsin.service import hooks
from tocsin.service.principal import Principal, service_of
from tocsin.service.problems import BadRequest
from tocsin.service.routes.events import Limit
from tocsin.service.routing import Routes, json_response
from tocsin.service.service import Service
from tocsin.store.store import instant
from tocsin.store.webhooks import Delivery, Webhook

routes = Routes("webhooks")


@routes.on(
    "POST", "/v1/webhooks", "Have notifications pushed", status=201, answer=WebhookView,
    responses={409: "The account has too many"},
)  # fmt: skip
async def create(request: Request, body: NewWebhook, principal: Principal) -> Response:
    """Store an address. The answer has the secret that signs what is sent; it is shown once."""
    service = service_of(request)
    added = await hooks.add(service, principal, body.url, body.start)
    return json_response(_view(service, added, secret=True), 201, {"location": f"/v1/webhooks/{added.id}"})


@routes.on("GET", "/v1/webhooks", "Your webhooks", answer=WebhookList)
async def read_all(request: Request, principal: Principal) -> object:
    """Return all of them."""
    service = service_of(request)
    return WebhookList([_view(service, one) for one in await hooks.find_all(service, principal)])


@routes.on("GET", "/v1/webhooks/{id}", "One of your webhooks", answer=WebhookView)
async def read(request: Request, id: StoredInt, principal: Principal) -> object:
    """Return it, without its secret."""
    service = service_of(request)
    return _view(service, await hooks.find(service, principal, id))


@routes.on("DELETE", "/v1/webhooks/{id}", "Push there no more", status=204)
async def remove(request: Request, id: StoredInt, principal: Principal) -> None:
    """Remove it, with what was on its way."""
    await hooks.remove(service_of(request), principal, id)


@routes.on("POST", "/v1/webhooks/{id}/enable", "Push there again", answer=WebhookView)
async def enable(request: Request, id: StoredInt, principal: Principal) -> object:
    """Make one active that was disabled; it goes on where it stopped."""
    service = service_of(request)
    return _view(service, await hooks.enable(service, principal, id))


@routes.on("POST", "/v1/webhooks/{id}/rotate", "Sign with a new secret", answer=WebhookView)
async def rotate(request: Request, id: StoredInt, principal: Principal) -> object:
    """Return the new secret, once."""
    service = service_of(request)
    return _view(service, await hooks.rotate(service, principal, id), secret=True)


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
    found = await hooks.deliveries_of(service_of(request), principal, id, _position(cursor), limit, state)
    following = f"{found[-1].seq}.{found[-1].subscription}" if len(found) == limit else None
    return DeliveryPage([_delivery(one) for one in found], following)


@routes.on("POST", "/v1/webhooks/{id}/deliveries/retry", "Try one again", answer=DeliveryView)
async def retry(request: Request, id: StoredInt, body: DeliveryKey, principal: Principal) -> object:
    """Try a delivery again at once, as if it were new."""
    return _delivery(await hooks.retry(service_of(request), principal, id, body.seq, body.subscription))


@routes.on(
    "POST", "/v1/webhooks/{id}/deliveries/skip", "Go on without one", answer=DeliveryView,
    responses={409: "It does not wait"},
)  # fmt: skip
async def skip(request: Request, id: StoredInt, body: DeliveryKey, principal: Principal) -> object:
    """Give up a delivery that fails; what waits behind it, in the same subscription, is delivered."""
    return _delivery(await hooks.skip(service_of(request), principal, id, body.seq, body.subscription))


@routes.on(
    "POST", "/v1/webhooks/{id}/replay", "Send it all once more", answer=WebhookView,
    responses={410: "Some of it is no longer kept"},
)  # fmt: skip
async def replay(request: Request, id: StoredInt, body: ReplayRequest, principal: Principal) -> object:
    """Deliver everything after a cursor again, in order, with the same ids; without one, all that is kept."""
    service = service_of(request)
    return _view(service, await hooks.replay(service, principal, id, body.cursor))


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
