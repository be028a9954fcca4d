"""Where offers and drivers meet: a page to try the paper's example on, without an account; it stores nothing.

Beside it, where the service's own schema has a union: members publish offers, and ask about the live ones.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.language.documents import decode
from tocsin.language.render import render
from tocsin.schema import EVENT_TYPE
from tocsin.schema.examples import load_example
from tocsin.service.ingest import Incoming
from tocsin.service.publishing import publish
from tocsin.service.web.visit import Pages, Visit
from tocsin.symmetric import Explanation, Matchmaker, Offer, Programs, Subscriber, explain

pages = Pages()
MOST_LINES, MOST_BYTES = 20, 32 << 10
OFFERS = """\
{"event": {"name": "Company A", "cover": "Basic", "price": 650}, "rules": ["age >= 25"]}
{"event": {"name": "Company B", "cover": "Full"}, "rules": ["age >= 40 and years_ncd >= 3"], \
"dynamic": {"price": "case when years_ncd > 7 then 900 else 1200 end"}}
{"event": {"name": "Company C", "cover": "Full"}, "dynamic": {"price": "300 + 2000 / years_ncd"}}"""
DRIVERS = """\
insurance where cover = 'Full' and price <= 1000 with name = 'Amy', age = 25, years_ncd = 2
insurance with name = 'Bob', age = 48, years_ncd = 8
insurance where price <= 700 with name = 'Chris', age = 42, years_ncd = 8
insurance where price <= 20 * age with name = 'Dora', age = 61, years_ncd = 0"""


@dataclass(frozen=True, slots=True)
class Side:
    """One of those who meet, as the table names it: what it asks of the other side, and what it says of itself."""

    name: str
    asks: tuple[str, ...]
    says: dict[str, str]


@dataclass
class Meetings:
    """What came of it: for each offer, what it met; and for each pair why."""

    drivers: list[Side] = field(default_factory=list)
    rows: list[tuple[Side, dict[str, Any], list[Explanation]]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pages.get("/meet", "anyone")
async def show(visit: Visit) -> Response:
    """Show the example, and what it comes to."""
    found = await asyncio.to_thread(attempt, OFFERS, DRIVERS)
    return visit.page("meet.html", offers=OFFERS, drivers=DRIVERS, met=found, **await _live(visit))


@pages.post("/meet", "anyone")
async def run(visit: Visit) -> Response:
    """Let what was pasted meet; or, in this service itself, publish an offer, or ask about the live ones."""
    offers, drivers = visit.text("offers", OFFERS), visit.text("drivers", DRIVERS)
    found = await asyncio.to_thread(attempt, offers, drivers)
    if visit.by_htmx:
        return visit.page("_met.html", met=found)
    return visit.page("meet.html", offers=offers, drivers=drivers, met=found, **await _live(visit))


async def _live(visit: Visit) -> dict[str, Any]:
    """Return what became of a member's offer, or what its question finds, where the service's schema has a union."""
    broker = visit.service.broker
    unions = list((await asyncio.to_thread(lambda: broker.schema)).unions.values())
    asked, offer = visit.text("asked"), visit.text("offer")
    context: dict[str, Any] = {"unions": unions, "asked": asked, "offer": offer, "found": None, "told": None}
    context["wrong"] = None
    if not unions or visit.principal.is_guest:
        return context
    try:
        if offer:
            incoming = Incoming([offer.encode("utf-8", "replace")], single=True, key=None)
            context["told"] = await publish(visit.service, visit.principal, incoming)
        elif asked:
            context["found"] = await asyncio.to_thread(broker.matchmaking.query, asked)
    except TocsinError as error:
        context["wrong"] = str(error)
    return context


def attempt(offers: str, drivers: str) -> Meetings:
    """Return what these offers and drivers, a line each, make of each other, by the packaged schema `insurance`."""
    met = Meetings()
    documents = [line for line in offers.splitlines() if line.strip()]
    texts = [line for line in drivers.splitlines() if line.strip()]
    if len(offers) + len(drivers) > MOST_BYTES or max(len(documents), len(texts), 1) > MOST_LINES:
        met.errors.append(f"here at most {MOST_LINES} lines of each, and {MOST_BYTES >> 10} KiB in all")
        return met
    maker = Matchmaker(load_example("insurance"), programs=Programs())
    bound = []
    for number, text in enumerate(texts, 1):
        try:
            bound.append(maker.bind_subscriber(number, text))
            maker.add(bound[-1])
            met.drivers.append(_driver(bound[-1]))
        except TocsinError as error:
            met.errors.append(f"driver {number}: {error}")
    for number, document in enumerate(documents, 1):
        try:
            offer = maker.analyse(decode(document))
            told = maker.match(offer).for_publisher()
            pairs = [explain(offer, one, maker.meeting) for one in bound]
            met.rows.append((_insurer(offer, number), told, pairs))
        except TocsinError as error:
            met.errors.append(f"offer {number}: {error}")
    return met


def _driver(subscriber: Subscriber) -> Side:
    properties = {name.split(".")[-1]: str(value) for name, value in subscriber.properties.items()}
    name = properties.pop("name", f"driver {subscriber.id}")
    return Side(name, tuple(render(part.source) for part in subscriber.parts), properties)


def _insurer(offer: Offer, number: int) -> Side:
    said = {name: ", ".join(map(str, values)) for name, values in offer.event.values.items() if name != EVENT_TYPE}
    name = said.pop("name", f"offer {number}")
    computed = {one.name: render(one.formula.source) for one in offer.dynamic}
    return Side(name, tuple(render(rule.source) for rule in offer.rules), said | computed)
