"""Offers: a page to try the paper's example on, without an account; it stores nothing.

Beside it, where the service's own schema has offers: members publish some, and ask about the live ones.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.language import BoundSubscription, Explanation, bind, explain, render
from tocsin.language.documents import decode
from tocsin.language.offer import Offer
from tocsin.language.semantics import Verdict, decide
from tocsin.language.syntax import And
from tocsin.offers.analysis import Analysis
from tocsin.schema import EVENT_TYPE
from tocsin.schema.examples import load_example
from tocsin.service.publishing import Incoming, publish
from tocsin.service.web.visit import Pages, Visit

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
    """An offer or a driver as the table names it: what it asks of the other side, and what it says of itself."""

    name: str
    asks: tuple[str, ...]
    says: dict[str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """What an offer and a driver come to, and why."""

    verdict: Verdict
    told: Explanation


@dataclass(frozen=True, slots=True)
class OfferRow:
    """An offer, and what comes of it with each driver."""

    offer: Side
    pairs: list[Pair]

    @property
    def matches(self) -> int:
        return sum(pair.verdict.matched for pair in self.pairs)

    @property
    def failures(self) -> int:
        return sum(pair.verdict.failure is not None for pair in self.pairs)


@dataclass
class Offered:
    """What came of it: a row for each offer, a column for each driver."""

    drivers: list[Side] = field(default_factory=list)
    rows: list[OfferRow] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pages.get("/offers", "anyone")
async def show(visit: Visit) -> Response:
    """Show the example, and what it comes to."""
    found = await asyncio.to_thread(attempt, OFFERS, DRIVERS)
    return visit.page("offers.html", offers=OFFERS, drivers=DRIVERS, offered=found, **await _live(visit))


@pages.post("/offers", "anyone")
async def run(visit: Visit) -> Response:
    """Match what was pasted; or, in this service itself, publish an offer, or ask about the live ones."""
    offers, drivers = visit.text("offers", OFFERS), visit.text("drivers", DRIVERS)
    found = await asyncio.to_thread(attempt, offers, drivers)
    if visit.by_htmx:
        return visit.page("_offered.html", offered=found)
    return visit.page("offers.html", offers=offers, drivers=drivers, offered=found, **await _live(visit))


async def _live(visit: Visit) -> dict[str, Any]:
    """Return what became of a member's offer, or what its question finds, where the service's schema has offers."""
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
            context["found"] = await asyncio.to_thread(broker.held_offers.query, asked)
    except TocsinError as error:
        context["wrong"] = str(error)
    return context


def attempt(offers: str, drivers: str) -> Offered:
    """Return what these offers and drivers, a line each, make of each other, by the packaged schema `insurance`."""
    found = Offered()
    documents = [line for line in offers.splitlines() if line.strip()]
    texts = [line for line in drivers.splitlines() if line.strip()]
    if len(offers) + len(drivers) > MOST_BYTES or max(len(documents), len(texts), 1) > MOST_LINES:
        found.errors.append(f"here at most {MOST_LINES} lines of each, and {MOST_BYTES >> 10} KiB in all")
        return found
    schema = load_example("insurance")
    analysis = Analysis(schema)
    bound: list[BoundSubscription] = []
    for number, text in enumerate(texts, 1):
        try:
            bound.append(bind(text, schema))
            found.drivers.append(_driver(bound[-1], number))
        except TocsinError as error:
            found.errors.append(f"driver {number}: {error}")
    for number, document in enumerate(documents, 1):
        try:
            offer = analysis.analyse(decode(document))
            pairs = [Pair(decide(one, offer), explain(one, offer)) for one in bound]
            found.rows.append(OfferRow(_insurer(offer, number), pairs))
        except TocsinError as error:
            found.errors.append(f"offer {number}: {error}")
    return found


def _driver(bound: BoundSubscription, number: int) -> Side:
    says = {name.split(".")[-1]: str(value) for name, value in bound.properties.items()}
    name = says.pop("name", f"driver {number}")
    where = bound.subscription.where
    return Side(name, () if where == And(()) else (render(where),), says)


def _insurer(offer: Offer, number: int) -> Side:
    said = {name: ", ".join(map(str, values)) for name, values in offer.values.items() if name != EVENT_TYPE}
    name = said.pop("name", f"offer {number}")
    computed = {one.name: render(one.formula.root) for one in offer.computed}
    return Side(name, tuple(render(rule.root) for rule in offer.rules), said | computed)
