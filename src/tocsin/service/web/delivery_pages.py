"""Webhooks and their deliveries; dead letters, which a publisher sees of their own and an admin of all, and can replay."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from tocsin.broker.cursors import instant
from tocsin.errors import EventRejected, TocsinError
from tocsin.service import hooks, publishing
from tocsin.service.publishing import Incoming
from tocsin.service.web.visit import Pages, Visit

pages = Pages()
_PER_PAGE = 50


@pages.get("/webhooks", "member")
async def webhooks(visit: Visit) -> Response:
    """Show the visitor's webhooks."""
    return await _webhooks(visit)


async def _webhooks(visit: Visit, secret: str = "", error: str = "", status: int = 200) -> Response:
    found = await hooks.find_all(visit.service, visit.principal)
    return visit.page("webhooks.html", status, webhooks=found, secret=secret, error=error, instant=instant)


@pages.post("/webhooks", "member")
async def add_webhook(visit: Visit) -> Response:
    """Add one, and show its secret once."""
    try:
        made = await hooks.add(visit.service, visit.principal, visit.text("url").strip(), "now")
    except TocsinError as error:
        return await _webhooks(visit, error=str(error), status=422)
    return await _webhooks(visit, secret=made.secret)


@pages.get("/webhooks/{id:int}", "member")
async def deliveries(visit: Visit) -> Response:
    """Show what was sent to a webhook, and what became of it."""
    id = visit.request.path_params["id"]
    hook = await hooks.find(visit.service, visit.principal, id)
    seq, _, subscription = visit.query("after").partition(".")
    after = (int(seq), int(subscription)) if _is_number(seq) and _is_number(subscription) else (0, 0)
    found = await hooks.deliveries_of(visit.service, visit.principal, id, after, _PER_PAGE, None)
    following = f"{found[-1].seq}.{found[-1].subscription}" if len(found) == _PER_PAGE else None
    return visit.page("webhook.html", webhook=hook, deliveries=found, following=following, instant=instant)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


@pages.post("/webhooks/{id:int}/remove", "member")
async def remove_webhook(visit: Visit) -> Response:
    """Remove one."""
    await hooks.remove(visit.service, visit.principal, visit.request.path_params["id"])
    return visit.go("/webhooks", done="removed")


@pages.post("/webhooks/{id:int}/enable", "member")
async def enable_webhook(visit: Visit) -> Response:
    """Let one that was disabled try again."""
    await hooks.enable(visit.service, visit.principal, visit.request.path_params["id"])
    return visit.go("/webhooks", done="enabled")


@pages.get("/dead-letters", "member")
async def dead_letters(visit: Visit) -> Response:
    """Show what could not be processed, and why."""
    return await _dead_letters(visit)


async def _dead_letters(visit: Visit, error: str = "", status: int = 200) -> Response:
    after = visit.query("after")
    found = await asyncio.to_thread(
        visit.service.broker.dead_letters,
        publisher=None if visit.principal.role == "admin" else visit.principal.name,
        after=int(after) if _is_number(after) else 0,
        limit=_PER_PAGE,
    )
    following = found[-1].seq if len(found) == _PER_PAGE else None
    edited = {visit.text("seq"): visit.text("body")} if error else {}
    return visit.page("dead_letters.html", status, letters=found, following=following, error=error, edited=edited)


@pages.post("/dead-letters/replay", "member")
async def replay(visit: Visit) -> Response:
    """Publish a dead letter again, mended."""
    incoming = Incoming([visit.text("body").encode()], single=True, key=None)
    try:
        await publishing.publish(visit.service, visit.principal, incoming)
    except EventRejected as error:
        return await _dead_letters(visit, str(error), 422)
    return visit.go("/dead-letters", done="published")
