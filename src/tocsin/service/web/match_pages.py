"""What was matched: the feed of a member's notifications, live, and why each came; and the front page."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from tocsin.service import documents
from tocsin.service.web.recent import newest
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
        context["newest"] = await asyncio.to_thread(newest, visit, 5)
    context["now"] = await visit.request.app.state.history.now()
    return visit.page("home.html", **context)


@pages.get("/matches", "member")
async def matches(visit: Visit) -> Response:
    """Show notifications: from a cursor on, or the newest, and what comes while the page is open."""
    cursor = visit.query("cursor") or None
    broker = visit.service.broker
    if cursor is None:
        found = await asyncio.to_thread(newest, visit, _PER_PAGE)
        return visit.page("matches.html", matches=found, following=None, live=True)
    first = await documents.first_cursor(
        visit.service, visit.principal, None if cursor == "oldest" else cursor, "oldest"
    )
    page = await asyncio.to_thread(broker.notifications, visit.principal.name, cursor=first, limit=_PER_PAGE)
    return visit.page("matches.html", matches=list(page), following=page.cursor if page.more else None, live=False)


@pages.get("/matches/{cursor}", "member")
async def why(visit: Visit) -> Response:
    """Say why a notification came: each condition with the actual value."""
    found, text = await asyncio.to_thread(
        documents.notification_and_text, visit.service, visit.principal, visit.request.path_params["cursor"]
    )
    explain = visit.service.broker.explain
    told = await asyncio.to_thread(explain, found.seq, found.subscription, owner=visit.principal.name)
    return visit.page("why.html", match=found, text=text, told=told)
