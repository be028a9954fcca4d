"""What the broker answers, as JSON documents; the same on HTTP, SSE, WebSockets and webhooks.

Reading notifications for requests: where a reader begins, and one notification by its cursor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from tocsin.broker import DeadLetterView, Notification, Page, PublishReceipt, SubscriptionReceipt, SubscriptionView
from tocsin.errors import BadCursor
from tocsin.service.principal import Principal
from tocsin.service.problems import NotFound

if TYPE_CHECKING:
    from tocsin.service.service import Service


_encoder = msgspec.json.Encoder()
to_json = _encoder.encode


def json_response(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a document as a response, without the framework's detour through its models."""
    return Response(_encoder.encode(document), status, headers, media_type="application/json")


def notification_document(notification: Notification) -> dict[str, Any]:
    """Return a notification as JSON has it."""
    return {
        "id": notification.id,
        "seq": notification.seq,
        "subscription": notification.subscription,
        "event_id": notification.event_id,
        "arrival": notification.arrival,
        "event": notification.event,
        "cursor": notification.cursor,
        "computed": notification.computed,
        "bindings": notification.bindings,
    }


def notification_json(notification: Notification) -> bytes:
    """Return a notification as JSON."""
    return _encoder.encode(notification_document(notification))


def page_document(page: Page) -> dict[str, Any]:
    """Return a page of notifications."""
    return {"items": [notification_document(one) for one in page], "cursor": page.cursor, "more": page.more}


def receipt_document(receipt: PublishReceipt) -> dict[str, Any]:
    """Return what became of an event."""
    document: dict[str, Any] = {"seq": receipt.seq, "event_id": receipt.event_id, "accepted": receipt.accepted}
    if receipt.met is not None:
        document["met"] = {"matches": receipt.met.matches, "failures": receipt.met.failures}
        if receipt.met.subscriptions is not None:
            document["met"]["subscriptions"] = receipt.met.subscriptions
    if receipt.violations:
        document["violations"] = [
            {"rule": one.rule, "attribute": one.attribute, "message": one.message} for one in receipt.violations
        ]
    return document


def subscribed_document(receipt: SubscriptionReceipt) -> dict[str, Any]:
    """Return what became of a subscription; the ticket only where there is one to show."""
    document = {
        "id": receipt.id,
        "seq": receipt.seq,
        "lease_end": receipt.lease_end,
        "generation": receipt.generation,
    }
    return document if receipt.ticket is None else document | {"ticket": receipt.ticket}


def subscription_document(view: SubscriptionView) -> dict[str, Any]:
    """Return a subscription as its owner sees it."""
    return {
        "id": view.id,
        "text": view.text,
        "seq": view.seq,
        "lease_start": view.lease_start,
        "lease_end": view.lease_end,
        "generation": view.generation,
        "ended": view.ended,
        "paused": view.paused,
    }


def dead_letter_document(letter: DeadLetterView) -> dict[str, Any]:
    """Return a dead letter; its body as text, since it may not even be JSON."""
    return {
        "seq": letter.seq,
        "kind": letter.kind,
        "reason": letter.reason,
        "violations": [
            {"rule": one.rule, "attribute": one.attribute, "message": one.message} for one in letter.violations
        ],
        "body": letter.body.decode("utf-8", "backslashreplace"),
        "at": letter.at,
    }


# Reading notifications for requests.


async def first_cursor(service: Service, principal: Principal, cursor: str | None, start: str) -> str | None:
    """Return where to begin; None: after what the consumer has acknowledged. Raises BadCursor, CursorExpired."""
    if cursor is not None:
        await asyncio.to_thread(service.push.check_cursor, cursor, principal.number)
        return cursor
    if start == "oldest":
        return await asyncio.to_thread(service.broker.oldest_cursor)
    return await asyncio.to_thread(service.push.newest_cursor) if start == "now" else None


def notification_and_text(service: Service, principal: Principal, cursor: str) -> tuple[Notification, str]:
    """Return the notification that a cursor comes from, and its subscription's text.

    Raises NotFound where it is not one of the asker's: another's looks the same as none.
    """
    try:
        position = service.push.position_of(cursor, principal.number)
    except BadCursor:
        raise NotFound("there is no notification at that cursor") from None
    before = service.push.cursor_at(position.seq, max(0, position.subscription - 1))
    page = service.broker.notifications(principal.name, cursor=before, limit=1)
    for found in page:
        if found.cursor == cursor:
            return found, service.broker.subscription(found.subscription, owner=principal.name).text
    raise NotFound("there is no notification at that cursor")
