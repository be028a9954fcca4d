"""Subscribing in two steps, with a form and the text side by side; and the subscriptions of a member."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.responses import Response

from tocsin.errors import LanguageError, LeaseOutOfBounds, TocsinError
from tocsin.language.documents import decode
from tocsin.operators.operator import is_usable
from tocsin.schema import Schema
from tocsin.service import drafts
from tocsin.service.problems import Invalid
from tocsin.service.routes import subscriptions
from tocsin.service.web.builder import MOST_ROWS, Overlap, Row, operators, rows_of, text_of, trouble_with
from tocsin.service.web.event_form import choices_of
from tocsin.service.web.examples import example_event, example_subscription
from tocsin.service.web.match_pages import STRETCHES, day_of, hits, inbox_query, near_misses
from tocsin.service.web.texts import DATE, LEASES, UNTIL_STOPPED
from tocsin.service.web.visit import Pages, Visit

pages = Pages()
_COSTS = 1000  # of the heaviest subscriptions
_PER_PAGE, _SAMPLE, _LOOKED_BACK, _LATELY, _CHARTED, _SHOWN = 50, 1000, 400, 200, 1000, 20
_RENEWED_SECONDS = 30 * 86400.0  # at a time, of what lasts until it is stopped


@pages.get("/subscribe", "member")
async def show(visit: Visit) -> Response:
    """Ask for the types; with types or a text, show the form and the text."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    types = [name for name in visit.request.query_params.getlist("type") if name in schema.event_types]
    text = visit.query("text")
    if not types and not text:
        return visit.page(
            "publish_types.html", schema=schema, action="/subscribe", title="New subscription",
            example=example_subscription(schema),
        )  # fmt: skip
    return await _form(visit, schema, await _draft(visit, schema, text or text_of(types, [], schema.view(types))))


@pages.post("/subscribe/draft", "member")
async def draft(visit: Visit) -> Response:
    """Return the other side of what was edited, and what the draft would do; for htmx."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    edited = visit.query("edited", "text")
    if edited == "text":
        found = await _draft(visit, schema, visit.text("text"))
    else:
        found = await _draft(visit, schema, _text(visit, schema), rows=_rows(visit))
    return visit.page("_draft.html", draft=found, edited=edited)


@pages.post("/subscribe", "member")
async def subscribe(visit: Visit) -> Response:
    """Subscribe; or take one side over to the other, which is how it is done without JavaScript."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    action = visit.text("action", "subscribe")
    text = _text(visit, schema) if action in ("rows", "more") else visit.text("text")
    if action != "subscribe":
        rows = _rows(visit) + [Row()] if action == "more" else None
        return await _form(visit, schema, await _draft(visit, schema, text, rows=rows))
    replaced = visit.text("replaces")
    try:
        if replaced.isdigit():
            made = await subscriptions.replace_expression(visit.service, visit.principal, int(replaced), text)
        else:
            seconds, renews = lease_of(visit)
            made = await subscriptions.subscribe(visit.service, visit.principal, text, seconds, renews=renews)
    except LanguageError:
        return await _form(visit, schema, await _draft(visit, schema, text), 422)
    except (Invalid, LeaseOutOfBounds) as error:
        return await _form(visit, schema, await _draft(visit, schema, text), 422, str(error))
    return visit.go(f"/subscriptions/{made.id}", done="replaced" if replaced.isdigit() else "subscribed")


def lease_of(visit: Visit) -> tuple[float | None, bool]:
    """Return for how many seconds the form asks, and whether the lease renews itself; raises Invalid."""
    lease = visit.text("lease", UNTIL_STOPPED)
    if lease == UNTIL_STOPPED:
        return _RENEWED_SECONDS, True
    if lease != DATE:
        return (float(lease) if lease in dict(LEASES) else None), False
    end = day_of(visit.text("until"), ends=True)
    left = 0.0 if end is None else (end - visit.service.broker.now()).total_seconds()
    if left <= 0:
        raise Invalid("give the day until which it lasts: today, or a later one")
    return left, False


def _rows(visit: Visit) -> list[Row]:
    columns = zip(visit.texts("attribute"), visit.texts("op"), visit.texts("value"), strict=False)
    return [Row(*one) for one in columns][:MOST_ROWS]


def _text(visit: Visit, schema: Schema) -> str:
    types = [name for name in visit.texts("type") if name in schema.event_types]
    return text_of(types, _rows(visit), schema.view(types))


async def _draft(visit: Visit, schema: Schema, text: str, *, rows: list[Row] | None = None) -> dict[str, Any]:
    """Return all that the page shows of a draft; `rows` where those of the form are not to be made from the text."""
    found: dict[str, Any] = {
        "text": text, "trouble": trouble_with(text, schema, visit.service.broker.operators),
        "rows": None, "types": (), "vocabulary": {}, "warnings": [],
        "estimate": None, "sample": [], "overlap": Overlap(), "never": False,
        "asks_all": False,
    }  # fmt: skip
    try:
        parts = rows_of(text) if rows is None else (tuple(visit.texts("type")), rows)
    except LanguageError:
        parts = None
    if parts is not None and all(name in schema.event_types for name in parts[0]):
        view = schema.view(parts[0])
        rows = [row for row in parts[1] if row.attribute] + [Row()]
        found |= {
            "types": parts[0],
            "asks_all": not any(row.attribute for row in rows),
            "rows": [(row, operators(view, row.attribute), _choices(view, row)) for row in rows],
        }
        found["attributes"] = [name for name in view.attributes if name != "event_type"]
    view = schema.view(found["types"])
    found["vocabulary"] = {
        name: [value for value, _ in choices_of(entry)][:500] for name, entry in view.attributes.items()
    }
    found["operators"] = [each for each in visit.service.broker.operators if each.pure and is_usable(each, view)]
    found["vocabulary"] |= {f"{each.name}(": [] for each in found["operators"]}
    if found["trouble"] is None:
        await asyncio.to_thread(_look_ahead, visit, text, found)
    return found


def _choices(view: Any, row: Row) -> list[str]:
    entry = view.attributes.get(row.attribute)
    return [] if entry is None else [value for value, _ in choices_of(entry)]


def _look_ahead(visit: Visit, text: str, found: dict[str, Any]) -> None:
    """Add what a draft that is right would do: warnings, the volume, and events of the log that it matches."""
    broker = visit.service.broker
    found["warnings"] = drafts.plan(broker, text).warnings
    form = broker.prepare(text).form
    found["never"] = form.never
    if form.never:
        return
    found["estimate"] = visit.service.samples.estimate(text, _SAMPLE)
    newest = max(0, broker.store.meta().seq - _LOOKED_BACK)
    found["sample"] = drafts.backfill(broker, text, newest, 3).items
    edited = visit.text("replaces") or visit.query("replaces")
    found["overlap"] = visit.request.app.state.overlaps.of(
        visit.principal.name, form, other_than=int(edited) if edited.isdigit() else None
    )


async def _form(
    visit: Visit, schema: Schema, draft: dict[str, Any], status: int = 200, lease_error: str = ""
) -> Response:
    replaces = visit.text("replaces") or visit.query("replaces")
    return visit.page(
        "subscribe.html", status, schema=schema, draft=draft, edited="", lease_error=lease_error,
        lease=visit.text("lease", UNTIL_STOPPED), until=visit.text("until"),
        replaces=replaces if replaces.isdigit() else "",
    )  # fmt: skip


# --- mine -------------------------------------------------------------------------------------------------------------


@pages.get("/subscriptions", "member")
async def mine(visit: Visit) -> Response:
    """List the visitor's subscriptions, with how often each was hit lately."""
    after = visit.query("after")
    start = int(after) if after.isdigit() and len(after) < 19 else 0
    broker = visit.service.broker
    found = await asyncio.to_thread(broker.subscriptions, visit.principal.name, after=start, limit=_PER_PAGE)
    lately = await asyncio.to_thread(broker.newest_matches, visit.principal.name, _LATELY)
    return visit.page(
        "subscriptions.html", subscriptions=found, hits=hits(lately), now=broker.now(),
        ending=await asyncio.to_thread(broker.leases_ending, visit.principal.name),
        following=found[-1].id if len(found) == _PER_PAGE else None,
    )  # fmt: skip


@pages.get("/subscriptions/{id:int}", "member")
async def one(visit: Visit) -> Response:
    """Show a subscription: its lease, what it matched, from the stored notifications, and near misses."""
    id = visit.request.path_params["id"]
    found = await subscriptions.find_subscription(visit.service, visit.principal, id)
    broker, owner = visit.service.broker, visit.principal.name
    query = replace(inbox_query(visit), subscriptions=[id], limit=_SHOWN)
    page = await asyncio.to_thread(broker.inbox, owner, query)
    times = await asyncio.to_thread(broker.match_times, owner, id, _CHARTED)
    costs = await asyncio.to_thread(broker.costs, visit.principal.number, _COSTS)
    why = await asyncio.to_thread(broker.why_paused, visit.principal.number, id) if found.paused else None
    return visit.page(
        "subscription.html", cost=sum(each.processor_us for each in costs.items if each.subscription == id), why=why,
        subscription=found, page=page, spark=over_time(times), since=times[-1] if times else None,
        misses=await asyncio.to_thread(near_misses, visit, found), now=broker.now(), most=_CHARTED,
        live=not visit.query("before") and not visit.query("after"), example=example_event(broker.schema, found.text),
    )  # fmt: skip


def over_time(times: Sequence[datetime]) -> list[int]:
    """Return how many of the last matches, newest first, fall into each of twenty stretches of time, oldest first."""
    if not times:
        return []
    length = (times[0] - times[-1]).total_seconds() or 1.0
    counts = [0] * STRETCHES
    for at in times:
        counts[min(STRETCHES - 1, int(STRETCHES * (at - times[-1]).total_seconds() / length))] += 1
    return counts


@pages.post("/subscriptions/{id:int}/renew", "member")
async def renew(visit: Visit) -> Response:
    """Renew the lease; never shortens it."""
    seconds, renews = lease_of(visit)
    id = visit.request.path_params["id"]
    await subscriptions.renew_lease(
        visit.service, visit.principal, id, ticket=None, generation=None, lease=seconds, renews=renews
    )
    return visit.go(f"/subscriptions/{id}", done="renewed")


@pages.post("/subscriptions/{id:int}/pause", "member")
async def pause(visit: Visit) -> Response:
    """Let it match nothing for a while."""
    id = visit.request.path_params["id"]
    await subscriptions.pause_subscription(visit.service, visit.principal, id)
    return visit.go(f"/subscriptions/{id}", done="paused")


@pages.post("/subscriptions/{id:int}/resume", "member")
async def resume(visit: Visit) -> Response:
    """Let it match again."""
    id = visit.request.path_params["id"]
    await subscriptions.resume_subscription(visit.service, visit.principal, id)
    return visit.go(f"/subscriptions/{id}", done="resumed")


@pages.post("/subscriptions/{id:int}/end", "member")
async def end(visit: Visit) -> Response:
    """End it; when the page comes, nothing more is sent for it."""
    id = visit.request.path_params["id"]
    await subscriptions.find_subscription(visit.service, visit.principal, id)
    if (asked := visit.confirm("end", f"/subscriptions/{id}")) is not None:
        return asked
    await subscriptions.unsubscribe(visit.service, visit.principal, id, ticket=None)
    return visit.go("/subscriptions", done="ended")


@pages.post("/subscriptions/{id:int}/explain", "member")
async def explain_event(visit: Visit) -> Response:
    """Say why a pasted event would match, or not."""
    found = await subscriptions.find_subscription(visit.service, visit.principal, visit.request.path_params["id"])
    try:
        event = decode(visit.text("event"))
        told: Any = await asyncio.to_thread(
            visit.service.broker.explain_event, event, found.id, owner=visit.principal.name
        )
        return visit.page("_explained.html", told=told, error="")
    except TocsinError as error:
        return visit.page("_explained.html", 422, told=None, error=str(error))
