"""Try it: paste subscriptions and events, see what matches and why. Needs no account, stores nothing, and is bounded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.language import BoundSubscription, Explanation, bind, explain, parse
from tocsin.language.documents import decode
from tocsin.schema import Event, Schema
from tocsin.service.web.visit import Pages, Visit

pages = Pages()
MOST_LINES, MOST_BYTES = 50, 64 << 10
SUBSCRIPTIONS = """\
price < 1300 and brand in ('mini', 'cooper')
brand = 'mini' and not (colour = 'brown')
title contains 'boat' or price > 100000"""
EVENTS = """\
{"brand": "mini", "price": 1200, "colour": "red"}
{"brand": "mini", "price": 1500, "colour": "brown"}
{"title": "a sailing boat", "price": 88000}"""


@dataclass
class TryOut:
    """What came of it: for each event the subscriptions that match, and for each pair why."""

    schema: Schema | None = None
    lines: list[str] = field(default_factory=list)
    rows: list[tuple[str, list[Explanation]]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pages.get("/try", "anyone")
async def show(visit: Visit) -> Response:
    """Show the example, and what comes of it."""
    trial = await asyncio.to_thread(attempt, SUBSCRIPTIONS, EVENTS)
    return visit.page("try.html", subscriptions=SUBSCRIPTIONS, events=EVENTS, trial=trial)


@pages.post("/try", "anyone")
async def run(visit: Visit) -> Response:
    """Match what was pasted."""
    subscriptions, events = visit.text("subscriptions"), visit.text("events")
    trial = await asyncio.to_thread(attempt, subscriptions, events)
    template = "_tried.html" if visit.by_htmx else "try.html"
    return visit.page(template, subscriptions=subscriptions, events=events, trial=trial)


def attempt(subscriptions: str, events: str) -> TryOut:
    """Return what these subscriptions and events, a line each, make of each other; the schema is guessed from them."""
    trial = TryOut()
    lines = [line for line in subscriptions.splitlines() if line.strip()]
    documents = [line for line in events.splitlines() if line.strip()]
    if len(subscriptions) + len(events) > MOST_BYTES or max(len(lines), len(documents)) > MOST_LINES:
        trial.errors.append(f"here at most {MOST_LINES} lines of each, and {MOST_BYTES >> 10} KiB in all")
        return trial
    raws: list[dict[str, Any]] = []
    for number, line in enumerate(documents, 1):
        try:
            raw = decode(line)
            if not isinstance(raw, dict):
                raise TocsinError('an event is an object, such as {"price": 1200}')
            raws.append(raw)
        except TocsinError as error:
            trial.errors.append(f"event {number}: {error}")
    if not raws or trial.errors:
        if not raws:
            trial.errors.append("give at least one event")
        return trial
    try:
        schema = Schema.infer(raws)
        admitted: list[Event] = [schema.admit(raw) for raw in raws]
    except TocsinError as error:
        trial.errors.append(f"the events do not go together: {error}")
        return trial
    trial.schema = schema
    bound: list[BoundSubscription] = []
    for number, line in enumerate(lines, 1):
        try:
            bound.append(bind(parse(line), schema, text=line))
            trial.lines.append(line)
        except TocsinError as error:
            trial.errors.append(f"subscription {number}: {error}")
    trial.rows = [
        (document, [explain(one, event) for one in bound]) for document, event in zip(documents, admitted, strict=True)
    ]
    return trial
