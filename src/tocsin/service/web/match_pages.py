"""What was matched: the feed of a member's notifications, live, and why each came; and the front page.

The front page says what happened lately: a member's newest notifications, and what a subscription makes of the newest events.

Webhooks and their deliveries; dead letters, which a publisher sees of their own and an admin of all, and can replay.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from tocsin.broker import Notification, SubscriptionView
from tocsin.broker.admission import read_stored
from tocsin.errors import EventRejected, TocsinError
from tocsin.language import bind, evaluate, explain
from tocsin.language.explain import HIDDEN_RULE, Explanation, plain_values
from tocsin.operators.calls import StoredCalls
from tocsin.service import hooks, publishing, subscribing
from tocsin.service.drafts import LogStretch
from tocsin.service.publishing import Incoming
from tocsin.service.web.visit import Pages, Visit
from tocsin.store.events import StoredEvent
from tocsin.store.store import instant

_REACHES = (50, 500, 5_000, 50_000)  # how many seqs to look back, further where that gave too little
_MOST = 1000
STRETCHES = 20
_SHOWN_MATCHES, _SHOWN_MISSES = 20, 5
_SECONDS = 1.0  # after which no further event is looked at: operators may take long


def newest(visit: Visit, count: int) -> list[Notification]:
    """Return the visitor's last notifications, newest first; those of the last 50,000 seqs at most."""
    broker = visit.service.broker
    seq = broker.store.meta().seq
    found: list[Notification] = []
    for reach in _REACHES:
        cursor = broker.deliveries.cursor_at(max(0, seq - reach))
        found = list(broker.notifications(visit.principal.name, cursor=cursor, limit=_MOST))
        if len(found) >= count or seq <= reach:
            break
    return found[-count:][::-1]


def hits(notifications: list[Notification]) -> Mapping[int, list[int]]:
    """Return, for each subscription, how many of these fall into each of twenty stretches of seqs, oldest first."""
    if not notifications:
        return {}
    seqs = [one.seq for one in notifications]
    first, length = min(seqs), max(seqs) - min(seqs) + 1
    found: dict[int, list[int]] = {}
    for one in notifications:
        counts = found.setdefault(one.subscription, [0] * STRETCHES)
        counts[STRETCHES * (one.seq - first) // length] += 1
    return found


@dataclass
class Lately:
    """What a subscription made of the newest events, newest first; `seqs` are those of all matches."""

    shown: list[dict[str, Any]] = field(default_factory=list)
    misses: list[dict[str, Any]] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)


def recent_pairs(visit: Visit, found: SubscriptionView, looked_back: int) -> Lately:
    """Return the newest events and offers that a subscription matches, and those that failed by one condition, each with why."""
    broker = visit.service.broker
    operators, reveal_rules = StoredCalls(broker.operators), visit.service.settings.reveal_rules
    bound = bind(found.text, broker.schema, operators=operators)
    types = frozenset(bound.subscription.event_types)
    stretch = LogStretch(broker, max(0, broker.store.meta().seq - looked_back), looked_back)
    ends = time.monotonic() + _SECONDS
    lately = Lately()
    for stored in reversed(stretch.stored):
        if time.monotonic() > ends:
            break
        event = stretch.read(stored)
        if types and types.isdisjoint(event.types):
            continue  # of another kind: neither a match nor near one
        if len(lately.shown) >= _SHOWN_MATCHES and len(lately.misses) >= _SHOWN_MISSES:
            if stored.seq > found.seq and evaluate(bound, event, operators):  # far cheaper than an explanation
                lately.seqs.append(stored.seq)
            continue
        told = explain(bound, event, operators, reveal_rules=reveal_rules)
        if told.matched and stored.seq > found.seq:
            lately.seqs.append(stored.seq)
            if len(lately.shown) < _SHOWN_MATCHES:
                lately.shown.append(_entry(stored, told))
        elif _is_near_miss(told) and len(lately.misses) < _SHOWN_MISSES:
            lately.misses.append(_entry(stored, told))
    return lately


def _is_near_miss(told: Explanation) -> bool:
    """Return whether one condition is all that was missing, and one that may be shown."""
    return len(told.changes) == 1 and told.changes[0].condition != HIDDEN_RULE


def _entry(stored: StoredEvent, told: Explanation) -> dict[str, Any]:
    computed = {name: value for name, value in plain_values(told.computed).items() if value is not None}
    event = read_stored(stored.body) | computed
    return {"seq": stored.seq, "event": event, "at": instant(stored.arrival_us), "told": told}


pages = Pages()
_PER_PAGE = 50


@pages.get("/", "anyone")
async def home(visit: Visit) -> Response:
    """Lead a guest in; show a member what is new."""
    broker = visit.service.broker
    schema = await asyncio.to_thread(lambda: broker.schema)
    context: dict[str, Any] = {"schema": schema, "newest": [], "live": 0}
    if not visit.principal.is_guest:
        context["live"] = await asyncio.to_thread(broker.live_of, visit.principal.number)
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
    first = await subscribing.first_cursor(
        visit.service, visit.principal, None if cursor == "oldest" else cursor, "oldest"
    )
    page = await asyncio.to_thread(broker.notifications, visit.principal.name, cursor=first, limit=_PER_PAGE)
    return visit.page("matches.html", matches=list(page), following=page.cursor if page.more else None, live=False)


@pages.get("/matches/{cursor}", "member")
async def why(visit: Visit) -> Response:
    """Say why a notification came: each condition with the actual value."""
    found, text = await asyncio.to_thread(
        subscribing.notification_and_text, visit.service, visit.principal, visit.request.path_params["cursor"]
    )
    explain = visit.service.broker.explain
    told = await asyncio.to_thread(explain, found.seq, found.subscription, owner=visit.principal.name)
    return visit.page("why.html", match=found, text=text, told=told)


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
