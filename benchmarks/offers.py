"""Offers with two rules and a computed attribute, against many subscriptions with five properties.

    python -m benchmarks.offers --sizes 100000,1000000

OfferScan, offer by offer and in batches, against (a) the definition, pair by pair, (b) DuckDB over one row per subscription,
in every formulation that we know, and (c) itself with a program that is a Python callable, and with a formula of its own for
each offer; then the cache of program results at several hit rates. Answers are compared before anything is timed. Raw times
go to results/offers.jsonl; `--report` makes the picture and table of docs/offers.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.offers_duck import BATCHES, Duck
from benchmarks.offers_world import SCHEMA, offers, programs, subscribers
from benchmarks.results import store, stored
from tocsin.compile.bulk import load_bulk
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.language.documents import read_lines
from tocsin.language.formula import FLOAT, INT
from tocsin.language.semantics import decide
from tocsin.offers import Analysis, Program, ProgramCache, Programs
from tocsin.offers.scan import OfferScan
from tocsin.offers.survivors import OfferCandidates

Document = dict[str, Any]
BATCH_TURNS = 15
NAMES = (
    "single", "batch", "batch_analysed", "batch_one_core", "batch_formulas", "callable", "callable_uncached",
    "duckdb", "duckdb_clustered", *(f"duckdb_{name}" for name in BATCHES), "definition",
)  # fmt: skip


class Market:
    """Subscriptions in one tier, and the programs of publishers."""

    def __init__(self, size: int) -> None:
        encode = msgspec.json.Encoder().encode
        self.lines = [encode(document) for document in subscribers(size)]
        start = time.perf_counter()
        loaded = load_bulk(self.lines, SCHEMA)
        assert not loaded.errors, loaded.errors[0]
        self.index = SubscriptionIndex(SCHEMA)
        self.index.add_table(loaded.table)
        (self.tier,) = self.index.tiers()
        self.load_seconds = time.perf_counter() - start
        self.analysis = Analysis(SCHEMA, programs())
        self.scan = OfferScan(self.tier, SCHEMA)

    def batch(self, documents: list[Document], threads: int = 1) -> OfferCandidates:
        """Return the candidates, which are the matches: no subscription has checks."""
        return self.scan.find([self.analysis.analyse(one) for one in documents], threads=threads)

    def single(self, document: Document) -> OfferCandidates:
        return self.batch([document])


def told(found: OfferCandidates) -> list[tuple[int, int, float]]:
    """Return offer, id (which is the number here) and price of each match."""
    assert not found.failure.any()
    return sorted(zip(found.offer.tolist(), found.number.tolist(), found.computed["price"].to_list(), strict=True))


def seconds_each(work: Callable[[Any], Any], items: list[Any]) -> list[float]:
    times = []
    for item in items:
        start = time.perf_counter()
        work(item)
        times.append(time.perf_counter() - start)
    return times


def share(work: Callable[[Any], Any], batch: list[Any]) -> float:
    """Return an offer's share of the seconds that a batch takes."""
    start = time.perf_counter()
    work(batch)
    return (time.perf_counter() - start) / len(batch)


def price(age: int, years_ncd: int) -> float:
    """The program as a Python callable."""
    return 300.0 + (90 - age) * 4 if years_ncd > 7 else 500.0 + (90 - age) * 6


def callables(cache: ProgramCache) -> Programs:
    parameters = {"age": INT, "years_ncd": INT}
    return Programs([Program("auto_price", 1, parameters, FLOAT, callable=price, time_limit_seconds=60)], cache=cache)


def measure(size: int, events: int, naive_events: int, threads: int) -> None:
    """Measure everything at one size and store it."""
    asked, fresh = offers(events), offers(events, seed=3)  # the timed offers' texts were never seen before
    market, duck = Market(size), Duck(size)
    check(market, duck, asked)
    figures: dict[str, Any] = {"subscriptions": size, "events": events, "threads": threads}
    figures["load_seconds"] = market.load_seconds
    figures["definition"] = measure_definition(market, asked[:naive_events])
    figures["single"] = seconds_each(market.single, fresh)
    figures["matches"] = len(market.batch(fresh)) / events
    batches = [offers(events, seed=seed) for seed in range(10, 10 + BATCH_TURNS)]
    analysed = [[market.analysis.analyse(one) for one in offers(events, seed=40 + at)] for at in range(BATCH_TURNS)]
    for name in ("batch", "batch_analysed", "batch_one_core", *(f"duckdb_{name}" for name in BATCHES)):
        figures[name] = []
    for one, ready in zip(
        batches, analysed, strict=True
    ):  # by turns, so that who else uses the machine meets all alike
        figures["batch"].append(share(lambda each: market.batch(each, threads), one))
        figures["batch_analysed"].append(share(lambda each: market.scan.find(each, threads=threads), ready))
        figures["batch_one_core"].append(share(market.scan.find, ready))
        duck.prepare(one)
        for name in BATCHES:
            figures[f"duckdb_{name}"].append(share(lambda _, name=name: duck.match_batch(name), one))
    figures["batch_formulas"] = measure_formulas(market, events, threads)
    figures["duckdb"] = seconds_each(duck.match, fresh)
    figures["duckdb_clustered"] = seconds_each(duck.match_clustered, fresh)
    figures["callable"] = measure_callable(market, callables(ProgramCache()), fresh)
    figures["callable_uncached"] = measure_callable(market, callables(ProgramCache(0, 0)), fresh)
    store("offers", {"kind": "batches", **figures})
    print(size, {name: f"{1e3 * statistics.median(figures[name]):.4f} ms" for name in NAMES if figures[name]})
    best = min(statistics.median(figures[f"duckdb_{name}"]) for name in BATCHES)
    ratio = best / min(statistics.median(figures[name]) for name in ("batch_analysed", "batch_one_core"))
    print(
        f"load {market.load_seconds:.1f} s, {figures['matches']:.0f} matches an offer, {ratio:.1f} x DuckDB", flush=True
    )


def check(market: Market, duck: Duck, asked: list[Document]) -> None:
    """Build the indexes, and compare the answers."""
    wanted = []
    for at, offer in enumerate(asked):
        found = told(market.single(offer))
        wanted += [(at, id, price) for _, id, price in found]
        for answer in (duck.match(offer), duck.match_clustered(offer)):
            pairs = zip(answer["id"].tolist(), answer["computed"].tolist(), strict=True)
            assert [(0, *pair) for pair in sorted(pairs)] == found, offer
    for _ in range(10):  # by then the values of the program are kept
        assert told(market.batch(asked)) == sorted(wanted)
    duck.prepare(asked)
    for name in BATCHES:
        answer = duck.match_batch(name)
        pairs = zip(answer["number"].tolist(), answer["id"].tolist(), answer["computed"].tolist(), strict=True)
        assert sorted(pairs) == sorted(wanted), name


def measure_formulas(market: Market, events: int, threads: int) -> list[float]:
    """Return the times of analysed batches in which each offer has a formula of its own, so that no values are kept."""
    draw = random.Random(8)

    def formula() -> str:
        first, rest = draw.randrange(250, 350), draw.randrange(450, 550)
        return f"case when years_ncd > 7 then {first} + (90 - age) * 4 else {rest} + (90 - age) * 6 end"

    times = []
    for turn in range(BATCH_TURNS):
        batch = [{**one, "dynamic": {"price": formula()}} for one in offers(events, seed=70 + turn)]
        analysed = [market.analysis.analyse(one) for one in batch]
        times.append(share(lambda one: market.scan.find(one, threads=threads), analysed))
    return times


def measure_definition(market: Market, asked: list[Document]) -> list[float]:
    """Return how long the definition takes, pair by pair."""
    held = [pair for pair in read_lines(market.lines, SCHEMA) if isinstance(pair, tuple)] if asked else []
    times = []
    for document in asked:
        offer = market.analysis.analyse(document)
        start = time.perf_counter()
        matched = {id for id, bound in held if decide(bound, offer).matched}
        times.append(time.perf_counter() - start)
        assert matched == set(market.single(document).number.tolist())
    return times


def measure_callable(market: Market, registered: Programs, asked: list[Document]) -> list[float]:
    """Return the times with other programs, an offer at a time; the first offers build what is needed."""
    analysis, scan = Analysis(SCHEMA, registered), OfferScan(market.tier, SCHEMA)

    def match(document: Document) -> OfferCandidates:
        return scan.find([analysis.analyse(document)])

    seconds_each(match, offers(10, seed=5))
    return seconds_each(match, asked)


def measure_cache(size: int = 20_000) -> None:
    """Measure an offer whose price is computed by a callable of about 20 microseconds, at several hit rates."""

    def slow(age: int, km: int) -> float:
        end = time.perf_counter() + 20e-6
        while time.perf_counter() < end:
            pass
        return age + km / 100

    market = Market(size)
    document = {
        "event": {"event_type": "insurance", "name": "A", "cover": "Full", "deductible": 500},
        "dynamic": {"price": "program('slow', age, km)"},
    }
    for rate in (0.0, 0.5, 0.9, 0.99, 1.0):
        registered = Programs(
            [Program("slow", 1, {"age": INT, "km": INT}, FLOAT, callable=slow, time_limit_seconds=60)],
            cache=ProgramCache(invocations=1_000_000),
        )
        offer = Analysis(SCHEMA, registered).analyse(document)
        market.scan.find([offer])
        times, hits, asked = [], 0, 0
        for turn in range(3):
            entry = registered.cache._entries["slow"].invocations
            keys = list(entry)
            random.Random(turn).shuffle(keys)
            for key in keys[int(rate * len(keys)) :]:
                del entry[key]
            before = registered.cache.hits, registered.cache.misses
            start = time.perf_counter()
            market.scan.find([offer])
            times.append(time.perf_counter() - start)
            hits += registered.cache.hits - before[0]
            asked += registered.cache.hits + registered.cache.misses - sum(before)
        store("offers", {"kind": "cache", "rate": rate, "hit_rate": hits / asked, "seconds": times})
        print(f"hit rate {hits / asked:.2f}: {1e3 * statistics.median(times):.1f} ms", flush=True)


def report() -> None:
    """Write the picture and print the table, from the newest stored results."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    lines = list(stored("offers"))
    match = {line["subscriptions"]: line for line in lines if line["kind"] == "batches"}
    cache = {line["rate"]: line for line in lines if line["kind"] == "cache"}
    shown = ("single", "batch", "batch_analysed", "callable_uncached", "duckdb", "duckdb_clustered", "definition")
    for line in match.values():  # the best of DuckDB's batches
        line["duckdb_batch"] = min((line[f"duckdb_{name}"] for name in BATCHES), key=statistics.median)
    with mpl.rc_context({"svg.hashsalt": "tocsin", "svg.fonttype": "none", "font.size": 9}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
        for name in (*shown, "duckdb_batch"):
            points = [(size, 1 / statistics.median(line[name])) for size, line in sorted(match.items()) if line[name]]
            if points:
                left.plot(*zip(*points, strict=True), marker="o", label=name.replace("_", ", "))
        left.set(xscale="log", yscale="log", xlabel="subscriptions", ylabel="offers a second")
        left.legend(fontsize=6)
        points = [(line["hit_rate"], 1e3 * statistics.median(line["seconds"])) for _, line in sorted(cache.items())]
        if points:
            right.plot(*zip(*points, strict=True), marker="o")
        right.set(xlabel="hit rate of the cache", ylabel="milliseconds an offer", ylim=(0, None))
        figure.tight_layout()
        path = Path(__file__).parent.parent / "docs" / "offers.svg"
        figure.savefig(path, format="svg", metadata={"Date": None})
    print("| | " + " | ".join(f"{size:,} subscriptions" for size in sorted(match)) + " |")
    for name in NAMES:
        row = [
            f"{1e3 * statistics.median(line[name]):,.3g} ms" if line[name] else "" for _, line in sorted(match.items())
        ]
        print(f"| {name} | " + " | ".join(row) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--naive-events", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2, help="of batches; DuckDB uses all cores")
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    if given.report:
        report()
        return
    for size in (int(text) for text in given.sizes.split(",") if text):
        measure(size, given.events, given.naive_events if size <= 100_000 else 0, given.threads)
    if given.cache:
        measure_cache()


if __name__ == "__main__":
    main()
