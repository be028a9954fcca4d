"""The symmetric paper, section 4: offers with rules and computed attributes, and the dynamic attribute cache."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from tocsin.language.formula import FLOAT, INT
from tocsin.matching.matcher import Matcher
from tocsin.offers import Program, ProgramCache, Programs
from tocsin.schema.examples import load_example
from tocsin_lab.claims import Less, Statement
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.results import Row
from tocsin_lab.rounds import Act, Bench, Notebook
from tocsin_lab.timing import WrongAnswer

CACHED, UNCACHED, EXPRESSION, STATIC = "cached program", "program without cache", "expression", "static price"
TIME, CALLS = "offer ms", "program calls per offer"
WORK = 2_000  # steps of the program's own work: some tenths of a millisecond, as of a small tariff


def price(age: int, years_ncd: int) -> float:
    """Return a price after some work, as a tariff would."""
    table = sum((age * step) % 7 for step in range(WORK)) % 3
    return float(300 + (90 - age) * 4 + table if years_ncd > 7 else 500 + (90 - age) * 6 + table)


def programs(*, cached: bool) -> Programs:
    """Return the publisher's program, with the cache or without."""
    parameters = {"age": INT, "years_ncd": INT}
    cache = ProgramCache() if cached else ProgramCache(programs=0, invocations=0)
    return Programs([Program("price", 1, parameters, FLOAT, callable=price)], cache)


def offer(dynamic: str | None) -> dict[str, Any]:
    """Return the paper's advertisement, its price computed or given."""
    event = {"name": "Company B", "cover": "Full"}
    if dynamic is None:
        return {"event": {**event, "price": 600}, "rules": ["age >= 40 and years_ncd >= 3"]}
    return {"event": event, "rules": ["age >= 40 and years_ncd >= 3"], "dynamic": {"price": dynamic}}


def subscribed(count: int, held: Programs) -> Matcher:
    """Return a matcher with drivers who ask for a price."""
    draw, matcher = Random(5), Matcher(load_example("insurance"), programs=held)
    for id in range(count):
        age = draw.randint(18, 89)
        properties = f"name = 'n{id}', age = {age}, years_ncd = {draw.randint(0, min(20, age - 18))}"
        matcher.subscribe(id, f"insurance where price <= {draw.randrange(400, 1_000, 10)} with {properties}")
    return matcher


def run(bench: Bench) -> Iterator[Row]:
    book = Notebook("symmetric-offers")
    for count in bench.of([50], [200, 1_000], [200, 1_000, 5_000]):
        called = "program('price', age, years_ncd)"
        worlds = {
            CACHED: (subscribed(count, programs(cached=True)), offer(called)),
            UNCACHED: (subscribed(count, programs(cached=False)), offer(called)),
            EXPRESSION: (subscribed(count, Programs()), offer("300 + (90 - age) * 4")),
            STATIC: (subscribed(count, Programs()), offer(None)),
        }
        acts: dict[str, Act] = {name: partial(matcher.find, document) for name, (matcher, document) in worlds.items()}
        answers = {name: sorted(int(match.id) for match in worlds[name][0].find(worlds[name][1])[0]) for name in worlds}
        if answers[CACHED] != answers[UNCACHED] or not answers[CACHED]:
            raise WrongAnswer("the cache changes the answer, or nobody matches")
        for name in (CACHED, UNCACHED):
            matcher, document = worlds[name]
            before = matcher.programs.calls
            matcher.find(document)
            yield book.counted(CALLS, count, name, matcher.programs.calls - before)
        yield from book.measured(TIME, count, bench.race(acts, clock=bench.wall), 1e3)


STATEMENTS = (
    Statement(
        "Caching program results could be a significant performance improvement", "section 4.2.2", "in words (here: half the time or less)",
        (Less(TIME, CACHED, UNCACHED, 0.5), Less(CALLS, CACHED, UNCACHED, 0.5)),
    ),
    Statement(
        "Attributes computed at runtime add to the cost of matching", "section 4", "in words",
        (Less(TIME, STATIC, UNCACHED),),
    ),
    Statement(
        "A program submitted with the event cannot take advantage of the cache", "section 4.2.2", "in words",
        unmeasured="expressions are computed for all subscribers at once and never cached, whoever submits them; the series `expression` shows their time",
    ),
    Statement(
        "B+-trees over the subscribers' properties find efficiently who satisfies the event's predicates", "section 4.2.3", "in words",
        unmeasured="properties are columns with bitmaps here (offers/scan.py), not B+-trees; the stages cannot be timed one by one without changing them",
    ),
)  # fmt: skip


EXPERIMENTS = (
    Experiment(
        "symmetric-offers", "Offers with computed attributes, and the dynamic attribute cache", "Symmetric subscriptions",
        "The paper's example: an insurance for drivers of at least 40 with three years without a claim; every driver asks for a "
        "price. The price is a registered program (some tenths of a millisecond of work for each distinct combination of age "
        "and years), with the cache or without it, an expression, or given. On the wall, since programs run in threads.",
        run, STATEMENTS, (Plot(TIME, "subscriptions", "ms per offer"), Plot(CALLS, "subscriptions", "calls", log_y=False)),
    ),
)  # fmt: skip
