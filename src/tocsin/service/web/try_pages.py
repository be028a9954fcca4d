"""Pages to try things on; they store nothing, and are bounded.

/try        paste subscriptions and events, see what matches and why; needs no account
/offers     the paper's example, without an account; where the schema has offers, members ask about the live ones
/help       the language in short, by the attributes of the schema in force
/operators  which subscriptions may call, how, and a form to try one on an event
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.language import BoundSubscription, Explanation, bind, explain, parse, render
from tocsin.language.documents import decode
from tocsin.language.offer import Offer
from tocsin.language.semantics import Verdict, decide
from tocsin.language.syntax import And
from tocsin.offers.analysis import Analysis
from tocsin.schema import EVENT_TYPE, Event, Schema
from tocsin.schema.examples import load_example
from tocsin.service.problems import Invalid, Throttled
from tocsin.service.routes.events import Incoming, publish_incoming
from tocsin.service.web.builder import operators
from tocsin.service.web.examples import example_lines, example_subscription
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
async def show_try(visit: Visit) -> Response:
    """Show an example, of the schema in force where the visitor may see it, and what comes of it."""
    lines = None
    if not visit.principal.is_guest or visit.service.settings.guests != "none":
        lines = example_lines(await asyncio.to_thread(lambda: visit.service.broker.schema))
    subscriptions, events = lines or (SUBSCRIPTIONS, EVENTS)
    trial = await asyncio.to_thread(attempt, subscriptions, events)
    return visit.page("try.html", subscriptions=subscriptions, events=events, trial=trial)


@pages.post("/try", "anyone")
async def run_try(visit: Visit) -> Response:
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
            trial.errors.append(f"event {number}:\n{error}")
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
            trial.errors.append(f"subscription {number}:\n{error}")  # a place is shown under its own line
    trial.rows = [
        (document, [explain(one, event) for one in bound]) for document, event in zip(documents, admitted, strict=True)
    ]
    return trial


MOST_OFFERS, MOST_OFFER_BYTES = 20, 32 << 10
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
async def show_offers(visit: Visit) -> Response:
    """Show the example, and what it comes to."""
    found = await asyncio.to_thread(try_offers, OFFERS, DRIVERS)
    return visit.page("offers.html", offers=OFFERS, drivers=DRIVERS, offered=found, **await _live(visit))


@pages.post("/offers", "anyone")
async def run_offers(visit: Visit) -> Response:
    """Match what was pasted; or, in this service itself, publish an offer, or ask about the live ones."""
    offers, drivers = visit.text("offers", OFFERS), visit.text("drivers", DRIVERS)
    found = await asyncio.to_thread(try_offers, offers, drivers)
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
            context["told"] = await publish_incoming(visit.service, visit.principal, incoming)
        elif asked:
            context["found"] = await asyncio.to_thread(broker.held_offers.query, asked)
    except TocsinError as error:
        context["wrong"] = str(error)
    return context


def try_offers(offers: str, drivers: str) -> Offered:
    """Return what these offers and drivers, a line each, make of each other, by the packaged schema `insurance`."""
    found = Offered()
    documents = [line for line in offers.splitlines() if line.strip()]
    texts = [line for line in drivers.splitlines() if line.strip()]
    if len(offers) + len(drivers) > MOST_OFFER_BYTES or max(len(documents), len(texts), 1) > MOST_OFFERS:
        found.errors.append(f"here at most {MOST_OFFERS} lines of each, and {MOST_OFFER_BYTES >> 10} KiB in all")
        return found
    schema = load_example("insurance")
    analysis = Analysis(schema)
    bound: list[BoundSubscription] = []
    for number, text in enumerate(texts, 1):
        try:
            bound.append(bind(text, schema))
            found.drivers.append(_driver(bound[-1], number))
        except TocsinError as error:
            found.errors.append(f"driver {number}:\n{error}")
    for number, document in enumerate(documents, 1):
        try:
            offer = analysis.analyse(decode(document))
            pairs = [Pair(decide(one, offer), explain(one, offer)) for one in bound]
            found.rows.append(OfferRow(_insurer(offer, number), pairs))
        except TocsinError as error:
            found.errors.append(f"offer {number}:\n{error}")
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


@pages.get("/help", "guest")
async def show_help(visit: Visit) -> Response:
    """Show what can be asked of each kind of attribute, with an example of the schema in force."""
    schema = await asyncio.to_thread(lambda: visit.service.broker.schema)
    view = schema.view(())
    kinds: dict[tuple[str, bool], list[str]] = {}
    for name, attribute in view.attributes.items():
        if name != EVENT_TYPE and attribute.domain.kind != "object":
            kinds.setdefault((attribute.domain.kind, attribute.multiple), []).append(name)
    rows = [(kind, multiple, names, operators(view, names[0])) for (kind, multiple), names in sorted(kinds.items())]
    return visit.page("help.html", rows=rows, example=example_subscription(schema))


MOST_TEXT, MOST_EVENT = 4 << 10, 256 << 10
_trials = asyncio.Semaphore(2)  # operators may take long, in threads that others need too


@pages.get("/operators", "guest")
async def show_operators(visit: Visit) -> Response:
    """List the operators."""
    return _page(visit, {"text": "", "event": ""})


@pages.post("/operators", "member")
async def try_operator(visit: Visit) -> Response:
    """Say what a subscription makes of an event, with what each operator found; nothing is stored."""
    given = {"text": visit.text("text"), "event": visit.text("event")}
    try:
        return _page(visit, given, told=await _explain(visit, **given))
    except TocsinError as error:
        return _page(visit, given, error=str(error), status=422)


def _page(visit: Visit, given: dict[str, str], *, status: int = 200, **more: Any) -> Response:
    listed = sorted(visit.service.broker.operators, key=lambda each: each.name)
    context = {"operators": listed, "given": given, "told": None, "error": "", **more}
    return visit.page("_explained.html" if visit.by_htmx else "operators.html", status, **context)


async def _explain(visit: Visit, text: str, event: str) -> Explanation:
    """Return the explanation; at most a few are made at a time."""
    if len(text) > MOST_TEXT or len(event) > MOST_EVENT:
        raise Invalid(f"here at most {MOST_TEXT >> 10} KiB of text, and {MOST_EVENT >> 10} KiB of an event")
    if _trials.locked():
        raise Throttled("others are trying operators just now; try again in a moment", 1.0)
    async with _trials:
        return await asyncio.to_thread(visit.service.broker.explain_draft, decode(event), text)
