"""What was matched: the inbox, live, and why each notification came; near misses; and the front page.

Webhooks and their deliveries; dead letters, which a publisher sees of their own and an admin of all, and can replay.
"""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeGuard
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response, StreamingResponse

from tocsin.broker import InboxEntry, InboxQuery, SubscriptionView
from tocsin.broker.admission import read_stored
from tocsin.broker.deliveries import Position
from tocsin.errors import EventRejected, LanguageError, TocsinError
from tocsin.language import bind, explain, parse
from tocsin.language.explain import HIDDEN_RULE, ExplainedNode, Explanation, plain_values
from tocsin.language.syntax import Predicate
from tocsin.operators.operator import StoredCalls
from tocsin.service.drafts import LogStretch
from tocsin.service.routes import events
from tocsin.service.routes import webhooks as hooks
from tocsin.service.routes.events import Incoming
from tocsin.service.web.examples import example_subscription
from tocsin.service.web.visit import Pages, Visit
from tocsin.store.events import StoredEvent
from tocsin.store.store import instant

STRETCHES = 20
_MISSES = 5
_NEAR = 1.0  # as far from its bound as the bound from zero: what is further off is no near miss
_LOOKED_BACK = 400
_SECONDS = 0.05  # after which no further event is looked at: somebody waits for the page


def hits(matches: Sequence[Position]) -> Mapping[int, list[int]]:
    """Return, for each subscription, how many of these fall into each of twenty stretches of seqs, oldest first."""
    if not matches:
        return {}
    seqs = [one.seq for one in matches]
    first, length = min(seqs), max(seqs) - min(seqs) + 1
    found: dict[int, list[int]] = {}
    for one in matches:
        counts = found.setdefault(one.subscription, [0] * STRETCHES)
        counts[STRETCHES * (one.seq - first) // length] += 1
    return found


def near_misses(visit: Visit, found: SubscriptionView) -> list[dict[str, Any]]:
    """Return the newest events that failed by one condition, the nearest first, each with why and how near it was."""
    broker = visit.service.broker
    operators, reveal_rules = StoredCalls(broker.operators), visit.service.settings.reveal_rules
    bound = bind(found.text, broker.schema, operators=operators)
    types = frozenset(bound.subscription.event_types)
    stretch = LogStretch(broker, max(0, broker.store.meta().seq - _LOOKED_BACK), _LOOKED_BACK)
    ends = time.monotonic() + _SECONDS
    misses: list[tuple[float, int, dict[str, Any]]] = []
    for stored in reversed(stretch.stored):
        if misses and time.monotonic() > ends:
            break
        event = stretch.read(stored)
        if types and types.isdisjoint(event.types):
            continue  # of another kind: neither a match nor near one
        told = explain(bound, event, operators, reveal_rules=reveal_rules)
        if len(told.changes) == 1 and told.changes[0].condition != HIDDEN_RULE:
            distance = distance_of(told.changes[0])
            if distance <= _NEAR:
                misses.append((distance, -stored.seq, _entry(stored, told)))
    return [{**entry, "distance": distance} for distance, _, entry in sorted(misses, key=lambda one: one[:2])[:_MISSES]]


def distance_of(change: ExplainedNode) -> float:
    """Return how far an event was from a condition: of numbers the way to the bound, in bounds; of others 1."""
    try:
        predicate = parse(change.condition).where
    except LanguageError:
        return _NEAR
    operand = predicate.operand if isinstance(predicate, Predicate) else None
    bounds = [one for one in (operand if isinstance(operand, tuple) else (operand,)) if _is_number(one)]
    actual = [one for one in change.actual or () if _is_number(one)]
    if not bounds or not actual:
        return _NEAR
    return min(abs(float(value) - float(bound)) / (abs(float(bound)) or 1.0) for value in actual for bound in bounds)


def _is_number(value: object) -> TypeGuard[int | float | Decimal]:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _entry(stored: StoredEvent, told: Explanation) -> dict[str, Any]:
    computed = {name: value for name, value in plain_values(told.computed).items() if value is not None}
    event = read_stored(stored.body) | computed
    return {"seq": stored.seq, "event": event, "at": instant(stored.arrival_us), "told": told}


pages = Pages()
_PER_PAGE, _EXPORTED, _MOST_EXPORTED = 50, 500, 100_000


@pages.get("/", "anyone")
async def home(visit: Visit) -> Response:
    """Lead a guest in; show a member what is new, and which subscriptions end soon."""
    broker = visit.service.broker
    schema = await asyncio.to_thread(lambda: broker.schema)
    shown = not visit.principal.is_guest or visit.service.settings.guests != "none"
    context: dict[str, Any] = {"schema": schema if shown else None, "example": example_subscription(schema)}
    if not visit.principal.is_guest:
        context["live"] = await asyncio.to_thread(broker.live_of, visit.principal.number)
        context["page"] = await asyncio.to_thread(broker.inbox, visit.principal.name, InboxQuery(limit=5))
        context["ending"] = await asyncio.to_thread(broker.leases_ending, visit.principal.name)
    context["now"] = await visit.request.app.state.history.now()
    return visit.page("home.html", **context)


@pages.get("/inbox", "member")
async def inbox(visit: Visit) -> Response:
    """Show matched events, newest first, by what is asked for, and what comes while the page is open."""
    broker = visit.service.broker
    page = await asyncio.to_thread(broker.inbox, visit.principal.name, inbox_query(visit))
    asked = {name: visit.query(name) for name in ("subscription", "type", "since", "until", "search")}
    kept = urlencode({name: value for name, value in asked.items() if value})
    return visit.page(
        "inbox.html", page=page, asked=asked, kept=kept, types=list(broker.schema.event_types),
        live=not visit.query("before") and not visit.query("after") and not asked["until"],
        ending=await asyncio.to_thread(broker.leases_ending, visit.principal.name),
    )  # fmt: skip


@pages.get("/inbox/newer", "member")
async def newer(visit: Visit) -> Response:
    """Return the entries after a seq, for a page that is open; nothing where nothing came."""
    page = await asyncio.to_thread(visit.service.broker.inbox, visit.principal.name, inbox_query(visit))
    return visit.page("_entries.html", entries=page.items, new=True) if page.items else Response(status_code=204)


@pages.get("/inbox/export", "member")
async def export(visit: Visit) -> Response:
    """Send the entries that are asked for, newest first, as JSON a line or as CSV."""
    as_csv = visit.query("format") == "csv"
    kind, name = ("text/csv", "inbox.csv") if as_csv else ("application/x-ndjson", "inbox.jsonl")
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_exported(visit, as_csv=as_csv), 200, headers, media_type=kind)


async def _exported(visit: Visit, *, as_csv: bool) -> AsyncIterator[bytes]:
    broker, query, left = visit.service.broker, inbox_query(visit), _MOST_EXPORTED
    if as_csv:
        yield b"seq,arrival,subscriptions,event\r\n"
    while left > 0:
        page = await asyncio.to_thread(broker.inbox, visit.principal.name, replace(query, limit=min(left, _EXPORTED)))
        for one in page.items:
            yield _csv_line(one) if as_csv else msgspec.json.encode(one) + b"\n"
        left -= len(page.items)
        if page.older is None:
            return
        query = replace(query, before=int(page.older[1:]), after=None)


def _csv_line(one: InboxEntry) -> bytes:
    """Return an entry as a line; no cell begins with what a spreadsheet takes for a formula."""
    line = io.StringIO()
    told = " ".join(str(match.subscription) for match in one.matches)
    csv.writer(line).writerow([one.seq, one.arrival.isoformat(), told, msgspec.json.encode(one.event).decode()])
    return line.getvalue().encode()


@pages.post("/inbox/read", "member")
async def mark_read(visit: Visit) -> Response:
    """Mark everything up to a seq as read."""
    through = visit.text("through")
    if _is_id(through):
        await asyncio.to_thread(visit.service.broker.mark_inbox_read, visit.principal.name, int(through))
    return visit.go("/inbox", done="read")


@pages.get("/inbox/{cursor}", "member")
async def why(visit: Visit) -> Response:
    """Say why a notification came: each condition with the actual value."""
    found, text = await asyncio.to_thread(
        events.notification_and_text, visit.service, visit.principal, visit.request.path_params["cursor"]
    )
    explain = visit.service.broker.explain
    told = await asyncio.to_thread(explain, found.seq, found.subscription, owner=visit.principal.name)
    return visit.page("why.html", match=found, text=text, told=told)


def inbox_query(visit: Visit) -> InboxQuery:
    """Return what the address asks the inbox for; what cannot be read as such asks for nothing."""
    before, after = (visit.query(name).removeprefix("s") for name in ("before", "after"))
    subscription = visit.query("subscription")
    return InboxQuery(
        before=int(before) if _is_id(before) else None,
        after=int(after) if _is_id(after) else None,
        limit=_PER_PAGE,
        subscriptions=[int(subscription)] if _is_id(subscription) else None,
        event_type=visit.query("type"),
        since=day_of(visit.query("since")),
        until=day_of(visit.query("until"), ends=True),
        search=visit.query("search").strip(),
    )


def day_of(text: str, *, ends: bool = False) -> datetime | None:
    """Return when a day begins, or ends, in UTC; None where it is none."""
    try:
        day = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
    except ValueError:
        return None
    return day + timedelta(days=1) if ends else day


@pages.get("/webhooks", "member")
async def webhooks(visit: Visit) -> Response:
    """Show the visitor's webhooks."""
    return await _webhooks(visit)


async def _webhooks(visit: Visit, secret: str = "", error: str = "", status: int = 200) -> Response:
    found = await hooks.find_webhooks(visit.service, visit.principal)
    return visit.page("webhooks.html", status, webhooks=found, secret=secret, error=error, instant=instant)


@pages.post("/webhooks", "member")
async def add_webhook(visit: Visit) -> Response:
    """Add one, and show its secret once."""
    try:
        made = await hooks.add_webhook(visit.service, visit.principal, visit.text("url").strip(), "now")
    except TocsinError as error:
        return await _webhooks(visit, error=str(error), status=422)
    return await _webhooks(visit, secret=made.secret)


@pages.get("/webhooks/{id:int}", "member")
async def deliveries(visit: Visit) -> Response:
    """Show what was sent to a webhook, and what became of it."""
    id = visit.request.path_params["id"]
    hook = await hooks.find_webhook(visit.service, visit.principal, id)
    seq, _, subscription = visit.query("after").partition(".")
    after = (int(seq), int(subscription)) if _is_id(seq) and _is_id(subscription) else (0, 0)
    found = await hooks.deliveries_of(visit.service, visit.principal, id, after, _PER_PAGE, None)
    following = f"{found[-1].seq}.{found[-1].subscription}" if len(found) == _PER_PAGE else None
    return visit.page("webhook.html", webhook=hook, deliveries=found, following=following, instant=instant)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


@pages.post("/webhooks/{id:int}/remove", "member")
async def remove_webhook(visit: Visit) -> Response:
    """Remove one."""
    if (asked := visit.confirm("remove", "/webhooks")) is not None:
        return asked
    await hooks.remove_webhook(visit.service, visit.principal, visit.request.path_params["id"])
    return visit.go("/webhooks", done="removed")


@pages.post("/webhooks/{id:int}/enable", "member")
async def enable_webhook(visit: Visit) -> Response:
    """Let one that was disabled try again."""
    await hooks.enable_webhook(visit.service, visit.principal, visit.request.path_params["id"])
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
        after=int(after) if _is_id(after) else 0,
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
        await events.publish_incoming(visit.service, visit.principal, incoming)
    except EventRejected as error:
        return await _dead_letters(visit, str(error), 422)
    return visit.go("/dead-letters", done="published")
