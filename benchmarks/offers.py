"""Symmetric matching: offers with two rules and a dynamic attribute against many subscribers with five properties.

    python -m benchmarks.symmetric --sizes 100000,1000000

The matchmaker, offer by offer and in batches, against (a) the naive two-sided loop, which is the definition, (b) DuckDB over
one row per subscriber, and (c) itself without rule indexes and without cache; then the cache of program results at several
hit rates. Answers are compared before anything is timed. Raw times go to results/symmetric.jsonl; `--report` makes the plot and table of docs/symmetric.md.
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

from benchmarks.results import store, stored
from benchmarks.symmetric_duck import BATCHES, Duck
from benchmarks.symmetric_world import SCHEMA, offers, programs, subscribers
from tocsin.language.formula import FLOAT, INT
from tocsin.symmetric import Matchmaker, Program, ProgramCache, Programs, decide, load_subscribers
from tocsin.symmetric.batch import Batches
from tocsin.symmetric.load import Loader
from tocsin.symmetric.stages import Stages


def filled(size: int, **options: Any) -> Matchmaker:
    """Return a matchmaker with the subscribers."""
    matchmaker = Matchmaker(SCHEMA, programs=programs(), **options)
    encode = msgspec.json.Encoder().encode
    bad = load_subscribers(matchmaker, (encode(document) for document in subscribers(size)))
    assert not bad, bad[0]
    return matchmaker


def seconds_each(work: Callable[[Any], Any], items: list[Any]) -> list[float]:
    times = []
    for item in items:
        start = time.perf_counter()
        work(item)
        times.append(time.perf_counter() - start)
    return times


def price(age: int, years_ncd: int) -> float:
    """The program as a Python callable."""
    return 300.0 + (90 - age) * 4 if years_ncd > 7 else 500.0 + (90 - age) * 6


def callables(cache: ProgramCache) -> Programs:
    parameters = {"age": INT, "years_ncd": INT}
    return Programs([Program("auto_price", 1, parameters, FLOAT, callable=price, time_limit_seconds=60)], cache=cache)


def measure(size: int, events: int, naive_events: int, threads: int) -> None:
    """Measure everything at one size and store it."""
    asked, fresh = offers(events), offers(events, seed=3)  # the timed offers' texts were never seen before
    start = time.perf_counter()
    matchmaker = filled(size)
    load_seconds = time.perf_counter() - start
    duck = Duck(size)
    check(matchmaker, duck, asked)
    figures: dict[str, Any] = {"subscribers": size, "events": events, "load_seconds": load_seconds, "threads": threads}
    figures["naive"] = measure_naive(matchmaker, asked[:naive_events])
    figures["match"] = seconds_each(matchmaker.match, fresh)
    figures["rules_first"] = matchmaker.work.rules_first / matchmaker.work.offers
    figures["matches"] = matchmaker.work.matches / matchmaker.work.offers
    batches = [offers(events, seed=seed) for seed in range(10, 10 + BATCH_TURNS)]
    figures["match_all"] = [share(lambda one: matchmaker.match_all(one, threads=threads), one) for one in batches]
    analysed = [[matchmaker.analyse(one) for one in offers(events, seed=40 + turn)] for turn in range(BATCH_TURNS)]
    figures["match_all_analysed"] = [
        share(lambda one: matchmaker.match_all(one, threads=threads), one) for one in analysed
    ]
    figures["match_all_one_core"] = [share(matchmaker.match_all, one) for one in analysed]
    figures["match_all_formulas"] = measure_formulas(matchmaker, events, threads)
    figures["duckdb"] = seconds_each(duck.match, fresh)
    figures["duckdb_clustered"] = seconds_each(duck.match_clustered, fresh)
    for name in BATCHES:
        figures[f"duckdb_{name}"] = []
        for one in batches:
            duck.prepare(one)
            figures[f"duckdb_{name}"].append(share(lambda _, name=name: duck.match_batch(name), one))
    figures["callable"] = measure_callable(matchmaker, callables(ProgramCache()), fresh, rule_indexes=True)
    figures["unindexed"] = measure_callable(matchmaker, programs(), fresh, rule_indexes=False)
    figures["callable_bare"] = measure_callable(matchmaker, callables(ProgramCache(0, 0)), fresh, rule_indexes=False)
    store("symmetric", {"kind": "batches", **figures})
    print(size, {name: f"{1e3 * statistics.median(figures[name]):.4f} ms" for name in NAMES if figures[name]})
    print(f"load {load_seconds:.1f} s, {figures['matches']:.0f} matches an offer", flush=True)


BATCH_TURNS = 15
NAMES = (
    "match", "match_all", "match_all_analysed", "match_all_one_core", "match_all_formulas", "unindexed", "callable",
    "callable_bare", "duckdb", "duckdb_clustered", *(f"duckdb_{name}" for name in BATCHES), "naive",
)  # fmt: skip


def check(matchmaker: Matchmaker, duck: Duck, asked: list[dict[str, Any]]) -> None:
    """Build the indexes, and compare the answers."""
    wanted = []
    for at, offer in enumerate(asked):
        found = {match.id: match.values["price"] for match in matchmaker.match(offer).notifications()}
        wanted += [(at, id, price) for id, price in found.items()]
        for answer in (duck.match(offer), duck.match_clustered(offer)):
            assert found == dict(zip(answer["id"].tolist(), answer["computed"].tolist(), strict=True)), offer
    wanted.sort()
    for _ in range(10):  # by then the values of the program are kept
        together = matchmaker.match_all(asked)
    told = [(at, one.id, one.values["price"]) for at, each in enumerate(together) for one in each.notifications()]
    assert sorted(told) == wanted
    duck.prepare(asked)
    for name in BATCHES:
        answer = duck.match_batch(name)
        pairs = zip(answer["number"].tolist(), answer["id"].tolist(), answer["computed"].tolist(), strict=True)
        assert sorted(pairs) == wanted, name


def share(work: Callable[[list[Any]], Any], batch: list[Any]) -> float:
    """Return an offer's share of the seconds that a batch takes."""
    start = time.perf_counter()
    work(batch)
    return (time.perf_counter() - start) / len(batch)


def measure_formulas(matchmaker: Matchmaker, events: int, threads: int) -> list[float]:
    """Return the times of analysed batches in which each offer has a formula of its own, so that no values are kept."""
    draw = random.Random(8)

    def formula() -> str:
        first, rest = draw.randrange(250, 350), draw.randrange(450, 550)
        return f"case when years_ncd > 7 then {first} + (90 - age) * 4 else {rest} + (90 - age) * 6 end"

    times = []
    for turn in range(BATCH_TURNS):
        batch = [{**one, "dynamic": {"price": formula()}} for one in offers(events, seed=70 + turn)]
        analysed = [matchmaker.analyse(one) for one in batch]
        times.append(share(lambda one: matchmaker.match_all(one, threads=threads), analysed))
    return times


def measure_naive(matchmaker: Matchmaker, asked: list[dict[str, Any]]) -> list[float]:
    """Return how long the definition takes, pair by pair."""
    held = list(matchmaker.roster) if asked else []
    times = []
    for offer in asked:
        analysed = matchmaker.analyse(offer)
        start = time.perf_counter()
        matched = {one.id for one in held if decide(analysed, one, matchmaker.meeting).matched}
        times.append(time.perf_counter() - start)
        assert matched == set(matchmaker.match(offer).ids)
    return times


def measure_callable(
    filled_one: Matchmaker, registered: Programs, asked: list[dict[str, Any]], *, rule_indexes: bool
) -> list[float]:
    """Return the times with other programs, over the subscribers that are there; the first offer builds what is needed."""
    other = Matchmaker(SCHEMA, programs=registered)
    other.roster = filled_one.roster
    other.batches = Batches(Stages(other.meeting, other.roster, rule_indexes=rule_indexes))
    for offer in offers(10, seed=5):
        other.match(offer)
    return seconds_each(other.match, asked)


def measure_cache(size: int = 20_000) -> None:
    """Measure an offer whose price is computed by a callable of about 20 microseconds, at several hit rates."""

    def slow(age: int, km: int) -> float:
        end = time.perf_counter() + 20e-6
        while time.perf_counter() < end:
            pass
        return age + km / 100

    for rate in (0.0, 0.5, 0.9, 0.99, 1.0):
        registered = Programs(
            [Program("slow", 1, {"age": INT, "km": INT}, FLOAT, callable=slow, time_limit_seconds=60)],
            cache=ProgramCache(invocations=1_000_000),
        )
        matchmaker = Matchmaker(SCHEMA, programs=registered)
        loader = Loader(matchmaker)
        for document in subscribers(size):
            matchmaker.add(loader.bind(0, document))
        offer = {
            "event": {"name": "A", "cover": "Full", "deductible": 500},
            "dynamic": {"price": "program('slow', age, km)"},
        }
        matchmaker.match(offer)
        times, hits, asked = [], 0, 0
        for turn in range(3):
            entry = registered.cache._entries["slow"].invocations
            keys = list(entry)
            random.Random(turn).shuffle(keys)
            for key in keys[int(rate * len(keys)) :]:
                del entry[key]
            before = registered.cache.hits, registered.cache.misses
            start = time.perf_counter()
            matchmaker.match(offer)
            times.append(time.perf_counter() - start)
            hits += registered.cache.hits - before[0]
            asked += registered.cache.hits + registered.cache.misses - sum(before)
        store("symmetric", {"kind": "cache", "rate": rate, "hit_rate": hits / asked, "seconds": times})
        print(f"hit rate {hits / asked:.2f}: {1e3 * statistics.median(times):.1f} ms", flush=True)


def report() -> None:
    """Write the picture and print the table, from the newest stored results."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    lines = list(stored("symmetric"))
    match = {line["subscribers"]: line for line in lines if line["kind"] == "batches"}
    cache = {line["rate"]: line for line in lines if line["kind"] == "cache"}
    shown = (
        "match",
        "match_all",
        "match_all_analysed",
        "unindexed",
        "callable_bare",
        "duckdb",
        "duckdb_clustered",
        "naive",
    )
    for line in match.values():  # the best of DuckDB's batches
        line["duckdb_batch"] = min((line[f"duckdb_{name}"] for name in BATCHES), key=statistics.median)
    with mpl.rc_context({"svg.hashsalt": "tocsin", "svg.fonttype": "none", "font.size": 9}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
        for name in (*shown, "duckdb_batch"):
            points = [(size, 1 / statistics.median(line[name])) for size, line in sorted(match.items()) if line[name]]
            if points:
                left.plot(*zip(*points, strict=True), marker="o", label=name.replace("_", ", "))
        left.set(xscale="log", yscale="log", xlabel="subscribers", ylabel="offers a second")
        left.legend(fontsize=6)
        points = [(line["hit_rate"], 1e3 * statistics.median(line["seconds"])) for _, line in sorted(cache.items())]
        if points:
            right.plot(*zip(*points, strict=True), marker="o")
        right.set(xlabel="hit rate of the cache", ylabel="milliseconds an offer", ylim=(0, None))
        figure.tight_layout()
        path = Path(__file__).parent.parent / "docs" / "symmetric.svg"
        figure.savefig(path, format="svg", metadata={"Date": None})
    print("| | " + " | ".join(f"{size:,} subscribers" for size in sorted(match)) + " |")
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
