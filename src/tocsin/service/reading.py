"""Reading notifications for requests: where a reader begins, and one notification by its cursor."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tocsin.broker import Notification
from tocsin.errors import BadCursor
from tocsin.service.principal import Principal
from tocsin.service.refusals import NotFound

if TYPE_CHECKING:
    from tocsin.service.service import Service


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
