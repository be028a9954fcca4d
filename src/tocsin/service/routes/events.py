"""Events: publish one or many, or ask what would happen; and what comes of them.

Notifications by page, as a stream, over a WebSocket, acknowledged and explained; dead letters: what could not be
processed, and why.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from tocsin.broker import InboxQuery
from tocsin.documents import Consumer, Instant, StoredInt
from tocsin.documents.events import (
    Acknowledgement,
    BatchReceipt,
    DeadLetterPage,
    DryRunResponse,
    InboxPage,
    InboxRead,
    NotificationExplanation,
    NotificationPage,
    PublishReceipt,
)
from tocsin.errors import TocsinError
from tocsin.service import publishing, subscribing
from tocsin.service.principal import Principal, service_of
from tocsin.service.problems import BadRequest, Forbidden, Throttled, problem_of
from tocsin.service.publishing import CLOUDEVENT, CLOUDEVENTS, NDJSON
from tocsin.service.push import streams
from tocsin.service.push.streams import MEDIA_TYPE, EventStream
from tocsin.service.routing import JSON, Routes, json_response

routes = Routes("events")
Limit = Annotated[int, Meta(ge=1, le=1000)]
ListCursor = Annotated[str, Meta(max_length=40)]
_BODY: dict[str, Any] = {
    JSON: {"type": "object", "description": "an event: attribute -> value or values, and event_type"},
    NDJSON: {"type": "string", "description": "an event a line"},
    CLOUDEVENT: {"type": "object"},
    CLOUDEVENTS: {"type": "array", "items": {"type": "object"}},
}


@routes.on(
    "POST", "/v1/events", "Publish an event, or a batch", status=201, answer=(PublishReceipt, BatchReceipt), body=_BODY,
    responses={
        200: ("A dry run: what would match; nothing was stored", DryRunResponse),
        409: "The Idempotency-Key was used with other events",
        415: "Not a media type for events",
    },
)  # fmt: skip
async def publish(
    request: Request,
    principal: Principal,
    dry_run: Annotated[bool, Meta(description="Say what would match, and store nothing")] = False,
    atomic: Annotated[
        bool, Meta(description="All of a batch or none; otherwise bad events become dead letters")
    ] = True,
    receipts: Annotated[bool, Meta(description="List a batch's receipts, not only their number")] = True,
    key: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[ -~]+$")] | None = None,
) -> object:
    """Store events and notify whom they reach; what is acknowledged is on disk."""
    service = service_of(request)
    incoming = publishing.read_events(request.headers, await request.body(), service.broker.known_schema, key)
    if dry_run:
        return json_response(await publishing.try_out(service, principal, incoming))
    return await publishing.publish(service, principal, incoming, atomic=atomic, receipts=receipts)


# --- notifications ----------------------------------------------------------------------------------------------------

notification_routes = Routes("notifications")
_EXPIRED = {410: "What follows the cursor is no longer kept; `oldest` is where to go on"}
CursorText = Annotated[str, Meta(max_length=100)]
Start = Annotated[Literal["acknowledged", "oldest", "now"], Meta(description="Where to begin where there is no cursor")]


@notification_routes.on(
    "GET", "/v1/notifications", "A page of your notifications", answer=NotificationPage, responses=_EXPIRED
)
async def read(
    request: Request,
    principal: Principal,
    cursor: CursorText | None = None,
    limit: Limit = 100,
    consumer: Consumer = "default",
    start: Start = "acknowledged",
) -> object:
    """Return notifications in order after a cursor; without one, after what the consumer has acknowledged."""
    service = service_of(request)
    first = await subscribing.first_cursor(service, principal, cursor, start)
    return await asyncio.to_thread(
        service.broker.notifications, principal.name, cursor=first, limit=limit, consumer=consumer
    )


@notification_routes.on(
    "POST", "/v1/notifications/acknowledge", "Say how far you have come", status=204, responses=_EXPIRED
)
async def acknowledge(request: Request, body: Acknowledgement, principal: Principal) -> None:
    """Remember that a consumer has everything up to a cursor; never goes back."""
    await asyncio.to_thread(service_of(request).broker.acknowledge, principal.name, body.cursor, body.consumer)


@notification_routes.on(
    "GET", "/v1/notifications/stream", "Your notifications as they come (server-sent events)",
    media={MEDIA_TYPE: {"type": "string"}}, responses=_EXPIRED,
)  # fmt: skip
async def stream(
    request: Request,
    principal: Principal,
    last_event_id: CursorText | None = None,
    cursor: CursorText | None = None,
    consumer: Consumer = "default",
    start: Start = "acknowledged",
) -> Response:
    """Send the backlog, then what comes, without a gap; Last-Event-ID resumes after the last that was taken."""
    service = service_of(request)
    if service.hub.count(principal.number) >= service.settings.streams_per_account:
        raise Throttled(f"an account has {service.settings.streams_per_account} streams at most", 5.0)
    first = await subscribing.first_cursor(service, principal, last_event_id or cursor, start)
    return EventStream(service, principal, first, consumer)


@notification_routes.websocket("/v1/notifications/live")
async def live(
    socket: WebSocket,
    principal: Principal,
    cursor: CursorText | None = None,
    consumer: Consumer = "default",
    start: Start = "acknowledged",
) -> None:
    """Send the backlog, then what comes; take acknowledgements."""
    service = service_of(socket)
    try:
        if service.hub.count(principal.number) >= service.settings.streams_per_account:
            raise Throttled("too many streams", 5.0)
        first = await subscribing.first_cursor(service, principal, cursor, start)
    except TocsinError as error:
        await socket.close(4000 + problem_of(error)["status"])
        return
    await streams.serve(service, socket, principal, first, consumer)


@notification_routes.on(
    "GET", "/v1/notifications/{cursor}/why", "Why you were notified", answer=NotificationExplanation,
    responses=_EXPIRED,
)  # fmt: skip
async def why(request: Request, cursor: str, principal: Principal) -> object:
    """Return a notification, by its cursor, with the conditions of its subscription and the actual values."""

    def look() -> NotificationExplanation:
        service = service_of(request)
        found, text = subscribing.notification_and_text(service, principal, cursor)
        explanation = service.broker.explain(found.seq, found.subscription, owner=principal.name)
        return NotificationExplanation(found, text, **explanation.as_json())  # type: ignore[arg-type]

    return await asyncio.to_thread(look)


# --- the inbox --------------------------------------------------------------------------------------------------------


@notification_routes.on("GET", "/v1/inbox", "Your matched events, newest first", answer=InboxPage)
async def read_inbox(
    request: Request,
    principal: Principal,
    before: ListCursor | None = None,
    after: ListCursor | None = None,
    limit: Limit = 50,
    subscription: list[StoredInt] | None = None,
    event_type: Annotated[str, Meta(max_length=200)] = "",
    since: Instant | None = None,
    until: Instant | None = None,
    search: Annotated[str, Meta(max_length=200)] = "",
) -> object:
    """Return one entry an event, with those of your subscriptions that it matched; `older` and `newer` lead on."""
    if before is not None and after is not None:
        raise BadRequest("a page lies before a cursor, or after one")
    query = InboxQuery(
        None if before is None else read_cursor(before), None if after is None else read_cursor(after), limit,
        subscription, event_type, since, until, search,
    )  # fmt: skip
    return await asyncio.to_thread(service_of(request).broker.inbox, principal.name, query)


@notification_routes.on("POST", "/v1/inbox/read", "Say how far you have read the inbox", status=204)
async def mark_read(request: Request, body: InboxRead, principal: Principal) -> None:
    """Remember that everything up to a seq was read; never goes back."""
    await asyncio.to_thread(service_of(request).broker.mark_inbox_read, principal.name, body.through)


# --- dead letters: a member sees their own, an admin those of all -----------------------------------------------------

dead_letter_routes = Routes("dead letters")


@dead_letter_routes.on("GET", "/v1/dead-letters", "What could not be processed", answer=DeadLetterPage)
async def read_dead_letters(
    request: Request,
    principal: Principal,
    cursor: ListCursor | None = None,
    limit: Limit = 100,
    everybody: bool = False,
) -> object:
    """Return a page of bad events that you published and deliveries that were given up, oldest first."""
    if everybody and principal.role != "admin":
        raise Forbidden("only an admin sees the dead letters of all")
    publisher = None if everybody else principal.name
    found = await asyncio.to_thread(
        service_of(request).broker.dead_letters, publisher=publisher, after=read_cursor(cursor), limit=limit
    )
    return DeadLetterPage(found, f"s{found[-1].seq}" if len(found) == limit else None)


@dead_letter_routes.on(
    "POST", "/v1/dead-letters/{seq}/replay", "Publish a bad event once more", status=201, answer=PublishReceipt
)
async def replay(request: Request, seq: StoredInt, principal: Principal) -> object:
    """Publish an event that you had published, as the schema is now; asking twice publishes it once."""
    return await asyncio.to_thread(service_of(request).broker.replay_dead_letter, seq, publisher=principal.name)


def read_cursor(cursor: str | None) -> int:
    """Return the id that a list's cursor stands for; raises BadRequest."""
    if cursor is None:
        return 0
    digits = cursor[1:]
    if cursor[:1] != "s" or not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise BadRequest("that is no cursor; use the one of the last page")
    return int(digits)
