"""Notifications: by page, as a stream, over a WebSocket; acknowledged, and explained."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, WebSocket
from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.service import documents
from tocsin.service.documents import json_response, notification_document, page_document
from tocsin.service.models.base import Consumer
from tocsin.service.models.notifications import Acknowledgement, NotificationsTold, WhyTold
from tocsin.service.principal import Someone, service_of
from tocsin.service.problems import Throttled, problem_of
from tocsin.service.push import streams
from tocsin.service.push.streams import MEDIA_TYPE, EventStream
from tocsin.service.routes.router import guarded

router = guarded("notifications")
_EXPIRED: dict[int | str, dict[str, Any]] = {
    410: {"description": "What follows the cursor is no longer kept; `oldest` is where to go on"}
}
CursorQuery = Annotated[str | None, Query(max_length=100)]
Start = Annotated[
    Literal["acknowledged", "oldest", "now"], Query(description="Where to begin where there is no cursor")
]


@router.get(
    "/v1/notifications", summary="A page of your notifications", response_model=NotificationsTold, responses=_EXPIRED
)
async def read(
    request: Request,
    principal: Someone,
    cursor: CursorQuery = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    consumer: Consumer = "default",
    start: Start = "acknowledged",
) -> Response:
    """Return notifications in order after a cursor; without one, after what the consumer has acknowledged."""
    service = service_of(request)
    first = await documents.first_cursor(service, principal, cursor, start)
    page = await asyncio.to_thread(
        service.broker.notifications, principal.name, cursor=first, limit=limit, consumer=consumer
    )
    return json_response(page_document(page))


@router.post("/v1/notifications/acknowledge", summary="Say how far you have come", status_code=204, responses=_EXPIRED)
async def acknowledge(request: Request, body: Acknowledgement, principal: Someone) -> Response:
    """Remember that a consumer has everything up to a cursor; never goes back."""
    await asyncio.to_thread(service_of(request).broker.acknowledge, principal.name, body.cursor, body.consumer)
    return Response(status_code=204)


@router.get(
    "/v1/notifications/stream",
    summary="Your notifications as they come (server-sent events)",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}, **_EXPIRED},
)
async def stream(
    request: Request,
    principal: Someone,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
    cursor: CursorQuery = None,
    consumer: Consumer = "default",
    start: Start = "acknowledged",
) -> Response:
    """Send the backlog, then what comes, without a gap; Last-Event-ID resumes after the last that was taken."""
    service = service_of(request)
    if service.hub.count(principal.number) >= service.settings.streams_per_account:
        raise Throttled(f"an account has {service.settings.streams_per_account} streams at most", 5.0)
    first = await documents.first_cursor(service, principal, last_event_id or cursor, start)
    return EventStream(service, principal, first, consumer)


@router.websocket("/v1/notifications/live")
async def live(
    socket: WebSocket,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
    consumer: Consumer = "default",
    start: Start = "acknowledged",
) -> None:
    """Send the backlog, then what comes; take acknowledgements."""
    principal = socket.scope["tocsin.principal"]
    service = service_of(socket)
    try:
        if service.hub.count(principal.number) >= service.settings.streams_per_account:
            raise Throttled("too many streams", 5.0)
        first = await documents.first_cursor(service, principal, cursor, start)
    except TocsinError as error:
        await socket.close(4000 + problem_of(error)["status"])
        return
    await streams.serve(service, socket, principal, first, consumer)


@router.get("/v1/notifications/{cursor}/why", summary="Why you were told", response_model=WhyTold, responses=_EXPIRED)
async def why(request: Request, cursor: str, principal: Someone) -> Response:
    """Return a notification, by its cursor, with the conditions of its subscription and the actual values."""
    service = service_of(request)
    found, text = await asyncio.to_thread(documents.notification_and_text, service, principal, cursor)
    explain = service.broker.explain
    told = await asyncio.to_thread(explain, found.seq, found.subscription, owner=principal.name)
    return json_response({"notification": notification_document(found), "text": text, **told.as_json()})
