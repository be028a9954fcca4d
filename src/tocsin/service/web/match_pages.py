"""What was matched: the feed of a member's notifications, live, and why each came; and the front page."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from tocsin.service import reading
from tocsin.service.web.visit import Pages, Visit

pages = Pages()
_PER_PAGE = 50


@pages.get("/", "anyone")
async def home(visit: Visit) -> Response:
    """Lead a guest in; show a member what is new."""
    broker = visit.service.broker
    schema = await asyncio.to_thread(lambda: broker.schema)
    context: dict[str, Any] = {"schema": schema, "newest": [], "live": 0}
    if not visit.principal.is_guest:
        context["live"] = await asyncio.to_thread(visit.service.push.live_of, visit.principal.number)
        context["newest"] = (await asyncio.to_thread(_newest, visit, 5))[::-1]
    return visit.page("home.html", **context)


def _newest(visit: Visit, count: int) -> list[Any]:
    """Return the last notifications of the visitor among those of the newest events."""
    push = visit.service.push
    seq = visit.service.broker.store.meta().seq
    found: list[Any] = []
    for reach in (200, 5_000, 200_000):
        cursor = push.cursor_at(max(0, seq - reach))
        found = list(visit.service.broker.notifications(visit.principal.name, cursor=cursor, limit=1000))
        if len(found) >= count or seq <= reach:
            break
    return found[-count:]


@pages.get("/matches", "member")
async def matches(visit: Visit) -> Response:
    """Show notifications: from a cursor on, or the newest, and what comes while the page is open."""
    cursor = visit.query("cursor") or None
    broker = visit.service.broker
    if cursor is None:
        found = (await asyncio.to_thread(_newest, visit, _PER_PAGE))[::-1]
        return visit.page("matches.html", matches=found, following=None, live=True)
    first = await reading.first_cursor(visit.service, None if cursor == "oldest" else cursor, "oldest")
    page = await asyncio.to_thread(broker.notifications, visit.principal.name, cursor=first, limit=_PER_PAGE)
    return visit.page("matches.html", matches=list(page), following=page.cursor if page.more else None, live=False)


@pages.get("/matches/{cursor}", "member")
async def why(visit: Visit) -> Response:
    """Say why a notification came: each condition with the actual value."""
    found, text = await asyncio.to_thread(
        reading.notification_and_text, visit.service, visit.principal, visit.request.path_params["cursor"]
    )
    schema, operators = visit.service.broker.schema, visit.service.broker.operators
    told = await asyncio.to_thread(operators.explain, operators.bind(text, schema), schema.admit(found.event))
    return visit.page("why.html", match=found, text=text, told=told)
