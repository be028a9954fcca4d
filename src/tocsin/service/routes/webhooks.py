"""Webhooks: addresses to which notifications are pushed, signed; and what became of each delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Path, Query, Request
from starlette.responses import Response

from tocsin.broker.cursors import instant
from tocsin.service import hooks
from tocsin.service.documents import json_response
from tocsin.service.models.notifications import (
    DeliveriesTold,
    DeliveryNamed,
    DeliveryTold,
    NewWebhook,
    ReplayRequest,
    WebhooksTold,
    WebhookTold,
)
from tocsin.service.principal import Someone, service_of
from tocsin.service.problems import BadRequest
from tocsin.service.routes.router import guarded
from tocsin.store.deliveries import Delivery
from tocsin.store.webhooks import Webhook

if TYPE_CHECKING:
    from tocsin.service.service import Service

router = guarded("webhooks")
Id = Annotated[int, Path(ge=0, lt=2**63)]


@router.post(
    "/v1/webhooks", summary="Have notifications pushed", status_code=201, response_model=WebhookTold,
    responses={409: {"description": "The account has too many"}},
)  # fmt: skip
async def create(request: Request, body: NewWebhook, principal: Someone) -> Response:
    """Store an address. The answer has the secret that signs what is sent; it is shown once."""
    service = service_of(request)
    added = await hooks.add(service, principal, body.url, body.start)
    return json_response(_document(service, added, secret=True), 201, {"location": f"/v1/webhooks/{added.id}"})


@router.get("/v1/webhooks", summary="Your webhooks", response_model=WebhooksTold)
async def read_all(request: Request, principal: Someone) -> Response:
    """Return all of them."""
    service = service_of(request)
    return json_response({"items": [_document(service, one) for one in await hooks.find_all(service, principal)]})


@router.get("/v1/webhooks/{id}", summary="One of your webhooks", response_model=WebhookTold)
async def read(request: Request, id: Id, principal: Someone) -> Response:
    """Return it, without its secret."""
    service = service_of(request)
    return json_response(_document(service, await hooks.find(service, principal, id)))


@router.delete("/v1/webhooks/{id}", summary="Push there no more", status_code=204)
async def remove(request: Request, id: Id, principal: Someone) -> Response:
    """Remove it, with what was on its way."""
    await hooks.remove(service_of(request), principal, id)
    return Response(status_code=204)


@router.post("/v1/webhooks/{id}/enable", summary="Push there again", response_model=WebhookTold)
async def enable(request: Request, id: Id, principal: Someone) -> Response:
    """Make one active that was disabled; it goes on where it stopped."""
    service = service_of(request)
    return json_response(_document(service, await hooks.enable(service, principal, id)))


@router.post("/v1/webhooks/{id}/rotate", summary="Sign with a new secret", response_model=WebhookTold)
async def rotate(request: Request, id: Id, principal: Someone) -> Response:
    """Return the new secret, once."""
    service = service_of(request)
    return json_response(_document(service, await hooks.rotate(service, principal, id), secret=True))


@router.get("/v1/webhooks/{id}/deliveries", summary="What became of deliveries", response_model=DeliveriesTold)
async def read_deliveries(
    request: Request,
    id: Id,
    principal: Someone,
    cursor: Annotated[str | None, Query(max_length=50)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    state: Literal["waiting", "delivered", "given_up"] | None = None,
) -> Response:
    """Return a page, in order."""
    found = await hooks.deliveries_of(service_of(request), principal, id, _position(cursor), limit, state)
    following = f"{found[-1].seq}.{found[-1].subscription}" if len(found) == limit else None
    return json_response({"items": [_delivery(one) for one in found], "cursor": following})


@router.post("/v1/webhooks/{id}/deliveries/retry", summary="Try one again", response_model=DeliveryTold)
async def retry(request: Request, id: Id, body: DeliveryNamed, principal: Someone) -> Response:
    """Try a delivery again at once, as if it were new."""
    return json_response(_delivery(await hooks.retry(service_of(request), principal, id, body.seq, body.subscription)))


@router.post("/v1/webhooks/{id}/deliveries/skip", summary="Go on without one", response_model=DeliveryTold,
             responses={409: {"description": "It does not wait"}})  # fmt: skip
async def skip(request: Request, id: Id, body: DeliveryNamed, principal: Someone) -> Response:
    """Give up a delivery that fails; what waits behind it, in the same subscription, is delivered."""
    return json_response(_delivery(await hooks.skip(service_of(request), principal, id, body.seq, body.subscription)))


@router.post("/v1/webhooks/{id}/replay", summary="Send it all once more", response_model=WebhookTold,
             responses={410: {"description": "Some of it is no longer kept"}})  # fmt: skip
async def replay(request: Request, id: Id, body: ReplayRequest, principal: Someone) -> Response:
    """Deliver everything after a cursor again, in order, with the same ids; without one, all that is kept."""
    service = service_of(request)
    return json_response(_document(service, await hooks.replay(service, principal, id, body.cursor)))


def _document(service: Service, hook: Webhook, *, secret: bool = False) -> dict[str, Any]:
    document = {"id": hook.id, "url": hook.url, "state": hook.state, "reason": hook.reason,
                "circuit": service.courier.breakers.state(hook.id), "created": instant(hook.created_us)}  # fmt: skip
    return document | {"secret": hook.secret} if secret else document


def _delivery(one: Delivery) -> dict[str, Any]:
    return {"seq": one.seq, "subscription": one.subscription, "state": one.state, "attempts": one.attempts,
            "next": instant(one.next_us), "error": one.last_error}  # fmt: skip


def _position(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return (0, 0)
    seq, dot, subscription = cursor.partition(".")
    if not dot or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in (seq, subscription)):
        raise BadRequest("that is no cursor; use the one of the last page")
    return (min(int(seq), 2**63 - 1), min(int(subscription), 2**63 - 1))
