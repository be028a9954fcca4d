"""Events: publish one or many, or ask what would happen; and what comes of them.

Notifications by page, as a stream, over a WebSocket, acknowledged and explained; dead letters: what could not be
processed, and why.

Publishing for requests: rates, then the broker's queue.

Reading events from requests: JSON, NDJSON, and CloudEvents 1.0 in their structured, batched and binary forms.

A CloudEvent's data is the event. Where the data names no event type, the CloudEvent's type does: the whole of it, or
what follows its last dot (`com.example.car`). Source and id make a retry harmless, as an Idempotency-Key does.
Bodies go to the broker as bytes wherever they can: it decodes each event once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from tocsin.broker import InboxQuery
from tocsin.broker.admission import RawEvent
from tocsin.broker.sites import WhichMapping
from tocsin.documents import Consumer, Instant, StoredInt
from tocsin.documents.events import (
    Acknowledgement,
    BatchReceipt,
    DeadLetterPage,
    DryRunMatches,
    DryRunResponse,
    InboxPage,
    InboxRead,
    Notification,
    NotificationExplanation,
    NotificationPage,
    PublishReceipt,
)
from tocsin.documents.sites import SiteName
from tocsin.errors import (
    BadCursor,
    BatchRejected,
    EventRejected,
    TocsinError,
)
from tocsin.schema import EVENT_TYPE, Schema
from tocsin.service import streams
from tocsin.service.problems import (
    BadRequest,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    TooMuch,
    WrongMediaType,
    problem_of,
)
from tocsin.service.routing import JSON, Principal, Routes, json_response, service_of
from tocsin.service.streams import MEDIA_TYPE, EventStream

if TYPE_CHECKING:
    from tocsin.service.service import Service

NDJSON = "application/x-ndjson"
CLOUDEVENT, CLOUDEVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
MEDIA_TYPES = (JSON, NDJSON, "application/ndjson", "application/jsonl", CLOUDEVENT, CLOUDEVENTS)


@dataclass(frozen=True, slots=True)
class Incoming:
    """What a request publishes: one event, or a batch; with a key where it has one, or one for each event."""

    events: Sequence[RawEvent]
    single: bool
    key: str | None
    keys: Sequence[str] | None = None


class _CloudEvent(msgspec.Struct):
    """The attributes that matter; extensions are let through and not kept."""

    specversion: str
    type: str
    source: str
    id: str
    data: Any = None
    data_base64: str | None = None


def read_events(headers: Mapping[str, str], body: bytes, schema: Schema, key: str | None = None) -> Incoming:
    """Return the events of a request; raises WrongMediaType, BadRequest, Invalid."""
    kind = headers.get("content-type", JSON).split(";")[0].strip().lower()
    if "ce-specversion" in headers:
        return _binary(headers, kind, body, key, schema)
    if kind == CLOUDEVENT:
        return _cloud_events([_decode(body, _CloudEvent)], schema, key, single=True)
    if kind == CLOUDEVENTS:
        return _cloud_events(_decode(body, list[_CloudEvent]), schema, key, single=False)
    if kind in (NDJSON, "application/ndjson", "application/jsonl"):
        lines = body.split(b"\n")
        return Incoming([line for line in lines if line.strip()], single=False, key=key)
    if kind == JSON:
        if body.lstrip()[:1] == b"[":
            raise BadRequest(f"several events are sent one a line, with Content-Type: {NDJSON}")
        if not body.strip():
            raise BadRequest("the body is empty; send an event as JSON")
        return Incoming([body], single=True, key=key)
    raise WrongMediaType(f"events are sent as one of: {', '.join(MEDIA_TYPES)}")


def _decode(body: bytes, wanted: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.ValidationError as error:
        raise Invalid(f"not a CloudEvent: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


def _binary(headers: Mapping[str, str], kind: str, body: bytes, key: str | None, schema: Schema) -> Incoming:
    missing = [name for name in ("ce-type", "ce-source", "ce-id") if not headers.get(name)]
    if missing:
        raise Invalid(f"a CloudEvent in binary form has the header {missing[0]}")
    if kind != JSON and not kind.endswith("+json"):
        raise WrongMediaType("a CloudEvent's data is JSON here")
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    event = _CloudEvent(headers["ce-specversion"], headers["ce-type"], headers["ce-source"], headers["ce-id"], data)
    return _cloud_events([event], schema, key, single=True)


def _cloud_events(found: list[_CloudEvent], schema: Schema, key: str | None, *, single: bool) -> Incoming:
    """A CloudEvent is known by its source and id, alone or in whatever batch, and so in whatever request."""
    events = [_event(one, schema, single=single) for one in found]
    keys = [_key_of(one) for one in found]
    if single:
        return Incoming(events, single, key or keys[0])
    return Incoming(events, single, key, keys)


def _key_of(one: _CloudEvent) -> str:
    name = f"{len(one.source)} {one.source} {one.id}"
    return f"cloudevents {hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _event(one: _CloudEvent, schema: Schema, *, single: bool) -> RawEvent:
    if not one.specversion.startswith("1."):
        raise Invalid(f"CloudEvents of version {one.specversion[:10]!r}; send 1.0")
    if not one.id or not one.source:
        raise Invalid("a CloudEvent has an id and a source")
    if not isinstance(one.data, dict):
        if not single:
            return msgspec.json.encode(one.data)  # the broker refuses it, and the others of the batch go on
        raise Invalid("a CloudEvent's data is the event: a JSON object")
    if EVENT_TYPE in one.data:
        return one.data
    last = one.type.rpartition(".")[2]
    return {EVENT_TYPE: one.type if one.type in schema.event_types else last, **one.data}


# Publishing for requests.


@dataclass(frozen=True, slots=True)
class AsSite:
    """As which site something is published, if as one, and by which version of its mapping."""

    site: str | None = None
    site_mapping: WhichMapping = "newest"

    @property
    def options(self) -> dict[str, Any]:
        return {} if self.site is None else {"site": self.site, "site_mapping": self.site_mapping}


AS_NO_SITE = AsSite()


async def publish_incoming(
    service: Service,
    principal: Principal,
    incoming: Incoming,
    *,
    atomic: bool = True,
    receipts: bool = True,
    as_site: AsSite = AS_NO_SITE,
) -> PublishReceipt | BatchReceipt:
    """Publish and return the receipts; raises what the broker does."""
    _check(service, principal, incoming)
    key, broker, options = _own(principal, incoming.key), service.broker, as_site.options
    if incoming.single:
        found = await broker.publish_soon(
            incoming.events[0], idempotency_key=key, atomic=atomic, publisher=principal.name, **options
        )
        service.metrics.published.inc(found.accepted)
        return found
    if incoming.keys is not None:
        keys = [_own(principal, one) or "" for one in incoming.keys]
        many = await asyncio.to_thread(
            broker.publish_keyed, incoming.events, keys, principal.name, atomic=atomic, **options
        )
    else:
        events, name = list(incoming.events), principal.name
        many = await asyncio.to_thread(
            lambda: broker.publish(events, idempotency_key=key, atomic=atomic, publisher=name, **options)
        )
    accepted = sum(one.accepted for one in many)
    service.metrics.published.inc(accepted)
    first, last = (many[0].seq, many[-1].seq) if many else (None, None)
    return BatchReceipt(accepted, len(many) - accepted, first, last, tuple(many) if receipts else ())


def _own(principal: Principal, key: str | None) -> str | None:
    """Return a key as it is stored; guests have no name to keep theirs apart by, so their addresses do."""
    if key is None or not principal.is_guest:
        return key
    return f"guest {hashlib.sha256(f'{principal.address} {key}'.encode('utf-8', 'surrogatepass')).hexdigest()}"


async def try_out(
    service: Service, principal: Principal, incoming: Incoming, as_site: AsSite = AS_NO_SITE
) -> DryRunResponse:
    """Return what events would match if they were published now: which of the asker's own, and maybe how many in all.

    Whoever is told how many of others' subscriptions match can find their thresholds by bisection, and leave no trace.
    """
    _check(service, principal, incoming)
    found = await asyncio.to_thread(
        service.broker.dry_run, list(incoming.events), publisher=principal.name, **as_site.options
    )
    wrong = {at: one.violations for at, one in enumerate(found) if not one.accepted}
    if wrong:
        raise EventRejected(wrong[0]) if incoming.single else BatchRejected(wrong)
    told = service.settings.reveal_counts or principal.role == "admin"
    items = [
        DryRunMatches(
            len(one.reached) if told else None,
            [reached.subscription for reached in one.reached if reached.owner == principal.name],
        )
        for one in found
    ]
    return DryRunResponse(dry_run=True, items=items)


def _check(service: Service, principal: Principal, incoming: Incoming) -> None:
    most = service.settings.events_per_minute
    if len(incoming.events) > service.broker.settings.batch_events:
        raise TooMuch(f"a batch of {len(incoming.events)} events; {service.broker.settings.batch_events} is the most")
    allowed = principal.quotas.get("events_per_minute", most)
    standing = service.events.take(principal.name or principal.address, len(incoming.events), allowed)
    if not standing.granted:
        raise Throttled(f"{allowed} events a minute are the most", standing.again_seconds)


# --- Routes -----------------------------------------------------------------------------------------------------------


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
        403: "The site is another account's",
        404: "There is no such site, or no such version of its mapping",
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
    site: Annotated[SiteName, Meta(description="A site of the account's: the events tell that they come from it")]
    | None = None,
    mapping: Annotated[
        str,
        Meta(
            pattern="^(newest|none|[1-9][0-9]{0,8})$", description="Which version of the site's mapping translates them"
        ),
    ] = "newest",
) -> object:
    """Store events and notify whom they reach; what is acknowledged is on disk."""
    service = service_of(request)
    if site is None and mapping != "newest":
        raise BadRequest("a mapping is a site's: say site=NAME")
    which: WhichMapping = int(mapping) if mapping.isdigit() else "none" if mapping == "none" else "newest"
    as_site = AsSite(site, which)
    incoming = read_events(request.headers, await request.body(), service.broker.known_schema, key)
    if dry_run:
        return json_response(await try_out(service, principal, incoming, as_site))
    return await publish_incoming(service, principal, incoming, atomic=atomic, receipts=receipts, as_site=as_site)


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
    first = await first_cursor(service, principal, cursor, start)
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
    first = await first_cursor(service, principal, last_event_id or cursor, start)
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
        first = await first_cursor(service, principal, cursor, start)
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
        found, text = notification_and_text(service, principal, cursor)
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


async def first_cursor(service: Service, principal: Principal, cursor: str | None, start: str) -> str | None:
    """Return where to begin; None: after what the consumer has acknowledged. Raises BadCursor, CursorExpired."""
    if cursor is not None:
        await asyncio.to_thread(service.broker.deliveries.check_cursor, cursor, principal.number)
        return cursor
    if start == "oldest":
        return await asyncio.to_thread(service.broker.oldest_cursor)
    return await asyncio.to_thread(service.broker.deliveries.newest_cursor) if start == "now" else None


def notification_and_text(service: Service, principal: Principal, cursor: str) -> tuple[Notification, str]:
    """Return the notification that a cursor comes from, and its subscription's text.

    Raises NotFound where it is not one of the asker's: another's looks the same as none.
    """
    try:
        found = service.broker.deliveries.notification_at(principal.name, principal.number, cursor)
    except BadCursor:
        found = None
    if found is None:
        raise NotFound("there is no notification at that cursor")
    return found, service.broker.subscription(found.subscription, owner=principal.name).text
