"""Webhooks: addresses to which notifications are pushed, signed; and what became of each delivery."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from starlette.responses import Response

from tocsin.broker.times import instant
from tocsin.service import hooks
from tocsin.service.documents import json_response
from tocsin.service.models.notifications import (
    DeliveriesTold,
    DeliveryTold,
    NewWebhook,
    RetryRequest,
    WebhooksTold,
    WebhookTold,
)
from tocsin.service.principal import Someone, service_of
from tocsin.service.refusals import BadRequest
from tocsin.service.routes.router import guarded
from tocsin.store.deliveries import Delivery
from tocsin.store.webhooks import Webhook

router = guarded("webhooks")
Id = Annotated[int, Path(ge=0, lt=2**63)]


@router.post(
    "/v1/webhooks", summary="Have notifications pushed", status_code=201, response_model=WebhookTold,
    responses={409: {"description": "The account has too many"}},
)  # fmt: skip
async def create(request: Request, body: NewWebhook, principal: Someone) -> Response:
    """Store an address. The answer has the secret that signs what is sent; it is shown once."""
    added = await hooks.add(service_of(request), principal, body.url, body.start)
    return json_response(_document(added, secret=True), 201, {"location": f"/v1/webhooks/{added.id}"})


@router.get("/v1/webhooks", summary="Your webhooks", response_model=WebhooksTold)
async def read_all(request: Request, principal: Someone) -> Response:
    """Return all of them."""
    return json_response({"items": [_document(one) for one in await hooks.find_all(service_of(request), principal)]})


@router.get("/v1/webhooks/{id}", summary="One of your webhooks", response_model=WebhookTold)
async def read(request: Request, id: Id, principal: Someone) -> Response:
    """Return it, without its secret."""
    return json_response(_document(await hooks.find(service_of(request), principal, id)))


@router.delete("/v1/webhooks/{id}", summary="Push there no more", status_code=204)
async def remove(request: Request, id: Id, principal: Someone) -> Response:
    """Remove it, with what was on its way."""
    await hooks.remove(service_of(request), principal, id)
    return Response(status_code=204)


@router.post("/v1/webhooks/{id}/enable", summary="Push there again", response_model=WebhookTold)
async def enable(request: Request, id: Id, principal: Someone) -> Response:
    """Make one active that was disabled; it goes on where it stopped."""
    return json_response(_document(await hooks.enable(service_of(request), principal, id)))


@router.post("/v1/webhooks/{id}/rotate", summary="Sign with a new secret", response_model=WebhookTold)
async def rotate(request: Request, id: Id, principal: Someone) -> Response:
    """Return the new secret, once."""
    return json_response(_document(await hooks.rotate(service_of(request), principal, id), secret=True))


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
async def retry(request: Request, id: Id, body: RetryRequest, principal: Someone) -> Response:
    """Try a delivery again at once, as if it were new."""
    return json_response(_delivery(await hooks.retry(service_of(request), principal, id, body.seq, body.subscription)))


def _document(hook: Webhook, *, secret: bool = False) -> dict[str, Any]:
    document = {"id": hook.id, "url": hook.url, "state": hook.state, "reason": hook.reason,
                "created": instant(hook.created_us)}  # fmt: skip
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
