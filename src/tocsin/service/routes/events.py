"""Events: publish one or many, or ask what would happen."""

from __future__ import annotations

from typing import Any

from fastapi import Query, Request
from starlette.responses import Response

from tocsin.service import publishing
from tocsin.service.documents import json_response
from tocsin.service.models.events import BatchTold, DryRunTold, ReceiptTold
from tocsin.service.principal import Principal, Someone, service_of
from tocsin.service.publishing import (
    CLOUDEVENT,
    CLOUDEVENTS,
    JSON,
    NDJSON,
    read_events,
)
from tocsin.service.routes.router import guarded

router = guarded("events")

_OBJECT = {"schema": {"type": "object", "description": "an event: attribute -> value or values, and event_type"}}
_TEXT = {"schema": {"type": "string", "description": "an event a line"}}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: _OBJECT,
            NDJSON: _TEXT,
            CLOUDEVENT: {"schema": {"type": "object"}},
            CLOUDEVENTS: {"schema": {"type": "array", "items": {"type": "object"}}},
        },
    },
    "parameters": [
        {"name": "Idempotency-Key", "in": "header", "required": False,
         "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}}
    ],
}  # fmt: skip


@router.post(
    "/v1/events",
    summary="Publish an event, or a batch",
    status_code=201,
    response_model=ReceiptTold | BatchTold,
    openapi_extra=_BODY,
    responses={
        200: {"description": "A dry run: what would match; nothing was stored", "model": DryRunTold},
        409: {"description": "The Idempotency-Key was used with other events"},
        415: {"description": "Not a media type for events"},
    },
)
async def publish(
    request: Request,
    principal: Someone,
    dry_run: bool = Query(False, description="Say what would match, and store nothing"),
    atomic: bool = Query(True, description="All of a batch or none; otherwise bad events become dead letters"),
    receipts: bool = Query(True, description="List a batch's receipts, not only their number"),
) -> Response:
    """Store events and notify whom they reach; what is acknowledged is on disk."""
    return await take(request, principal, dry_run=dry_run, atomic=atomic, receipts=receipts)


async def take(
    request: Request, principal: Principal, *, dry_run: bool = False, atomic: bool = True, receipts: bool = True
) -> Response:
    """Publish what a request holds, or try it out."""
    service = service_of(request)
    incoming = read_events(request.headers, await request.body(), service.push.schema_now)
    if dry_run:
        return json_response(await publishing.try_out(service, principal, incoming))
    return json_response(await publishing.publish(service, principal, incoming, atomic=atomic, receipts=receipts), 201)
