"""Symmetric matching: offers with two rules and a dynamic attribute against many subscribers with five properties.

    python -m benchmarks.symmetric --sizes 100000,1000000

The matchmaker against (a) the naive two-sided loop, which is the definition, (b) DuckDB over one row per subscriber, and
(c) itself without rule indexes and without cache; then the cache of program results at several hit rates. Answers are compared before
anything is timed. Raw times go to results/symmetric.jsonl; `--report` makes the plot and table of docs/symmetric.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.results import store, stored
from tocsin.language.formula import FLOAT, INT
from tocsin.schema import EnumeratedDomain, EventType, NumericDomain, Schema, TextDomain, TypeAttribute, Union
from tocsin.symmetric import Matchmaker, Program, ProgramCache, Programs, decide, load_subscribers
from tocsin.symmetric.batch import Batches
from tocsin.symmetric.load import Loader
from tocsin.symmetric.stages import Stages

COVERS = ("Third party", "Basic", "Part", "Full")
PRICE = "case when years_ncd > 7 then 300 + (90 - age) * 4 else 500 + (90 - age) * 6 end"
_ENTRIES = {
    "insurance": ("name", "cover", "deductible", "price"),
    "driver": ("age", "years_ncd", "region", "income", "km"),
}
SCHEMA = Schema(
    {
        "text": TextDomain(name="text"),
        "cover": EnumeratedDomain(name="cover", values=COVERS),
        "int": NumericDomain(name="int", type="int"),
        "float": NumericDomain(name="float"),
    },
    {
        **{"name": "text", "cover": "cover", "deductible": "int", "price": "float"},
        **{"age": "int", "years_ncd": "int", "region": "text", "income": "float", "km": "int"},
    },
    {name: EventType(name, tuple(map(TypeAttribute, entries))) for name, entries in _ENTRIES.items()},
    unions={"auto": Union("auto", "insurance", "driver")},
)


def subscribers(size: int, seed: int = 1) -> Iterable[dict[str, Any]]:
    """Yield subscribers: three predicates on the offer, one of them on the dynamic price; five properties."""
    draw = random.Random(seed)
    for id in range(size):
        age = draw.randint(18, 89)
        yield {
            "id": id,
            "predicates": [
                ["cover", "=", draw.choice(COVERS)],
                ["deductible", "<=", draw.randrange(0, 2000, 50)],
                ["price", "<=", draw.randrange(300, 1200, 10)],
            ],
            "properties": {
                "age": age,
                "years_ncd": draw.randint(0, min(40, age - 18)),
                "region": f"r{draw.randrange(200)}",
                "income": draw.randrange(10_000, 150_000) + 0.5,
                "km": draw.randrange(40_000),
            },
        }


def offers(count: int, seed: int = 2) -> list[dict[str, Any]]:
    """Return offers with two rules, on two of the five properties; each alone leaves about 1 in 200 to 1 in 4."""
    draw = random.Random(seed)

    def rule(name: str) -> str:
        match name:
            case "age":
                return f"age between {(low := draw.randint(18, 80))} and {low + draw.randint(0, 15)}"
            case "years_ncd":
                return f"years_ncd >= {draw.randint(12, 35)}"
            case "region":
                return f"region = 'r{draw.randrange(200)}'"
            case "income":
                return f"income >= {draw.randrange(110_000, 149_000)}"
            case _:
                return f"km < {draw.randrange(200, 10_000)}"

    names = ("age", "years_ncd", "region", "income", "km")
    return [
        {
            "event": {"name": "A", "cover": draw.choice(COVERS), "deductible": draw.randrange(0, 2000, 50)},
            "rules": [rule(name) for name in draw.sample(names, 2)],
            "dynamic": {"price": "program('auto_price', age, years_ncd)"},
        }
        for _ in range(count)
    ]


def programs(**options: Any) -> Programs:
    return Programs([Program("auto_price", 1, {"age": INT, "years_ncd": INT}, FLOAT, expression=PRICE)], **options)


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


class Duck:
    """DuckDB with one row per subscriber, on all cores: the formulation that is fastest counts.

    single     a statement an offer, its rules in the text, over the table as it comes
    clustered  the same over the table in the order of cover and deductible, so that row groups are skipped
    batch      all offers as a table of intervals, joined with the subscribers in one statement; only offers whose rules
               are known intervals can be written so
    """

    def __init__(self, size: int) -> None:
        import duckdb
        import pyarrow as pa

        columns: dict[str, list[Any]] = {}
        for one in subscribers(size):
            row = {
                "id": one["id"], "cover": one["predicates"][0][2], "deductible": one["predicates"][1][2],
                "price": one["predicates"][2][2], **one["properties"],
            }  # fmt: skip
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        self.connection = duckdb.connect()
        self.connection.register("given", pa.table(columns))
        self.connection.execute("create table subs as select * from given")
        self.connection.execute("create table clustered as select * from subs order by cover, deductible")

    def match(self, offer: dict[str, Any], table: str = "subs") -> Any:
        event = offer["event"]
        where = " and ".join(f"({rule})" for rule in offer["rules"])
        return self.connection.execute(
            f"select id, computed from (select id, price, {PRICE} as computed from {table} "
            f"where cover = ? and deductible >= ? and {where}) where computed <= price",
            [event["cover"], event["deductible"]],
        ).fetchnumpy()

    def match_clustered(self, offer: dict[str, Any]) -> Any:
        return self.match(offer, "clustered")

    def match_batch(self, asked: list[dict[str, Any]]) -> Any:
        import pyarrow as pa

        self.connection.register("offers", pa.Table.from_pylist([intervals(at, one) for at, one in enumerate(asked)]))
        within = " and ".join(f"{name} between {name}_low and {name}_high" for name in ("age", "years_ncd", "km"))
        return self.connection.execute(
            f"select number, id, computed from (select number, id, s.price, {PRICE} as computed from offers o "
            "join clustered s on s.cover = o.cover and s.deductible >= o.deductible "
            f"and {within} and income >= income_low and (wanted is null or region = wanted)) where computed <= price"
        ).fetchnumpy()


def intervals(at: int, offer: dict[str, Any]) -> dict[str, Any]:
    """Return an offer as a row of intervals, for the batch join."""
    row: dict[str, Any] = {"number": at, "cover": offer["event"]["cover"], "deductible": offer["event"]["deductible"]}
    for name in ("age", "years_ncd", "km"):
        row |= {f"{name}_low": -(10**9), f"{name}_high": 10**9}
    row |= {"income_low": -1.0, "wanted": None}
    for rule in offer["rules"]:
        match rule.replace("'", "").split():
            case [name, "between", low, "and", high]:
                row |= {f"{name}_low": int(low), f"{name}_high": int(high)}
            case ["income", ">=", low]:
                row["income_low"] = float(low)
            case [name, ">=", low]:
                row[f"{name}_low"] = int(low)
            case [name, "<", high]:
                row[f"{name}_high"] = int(high) - 1
            case ["region", "=", region]:
                row["wanted"] = region
            case _:
                raise AssertionError(rule)
    return row


def price(age: int, years_ncd: int) -> float:
    """The program as a Python callable."""
    return 300.0 + (90 - age) * 4 if years_ncd > 7 else 500.0 + (90 - age) * 6


def callables(cache: ProgramCache) -> Programs:
    parameters = {"age": INT, "years_ncd": INT}
    return Programs([Program("auto_price", 1, parameters, FLOAT, callable=price, time_limit_seconds=60)], cache=cache)


def measure(size: int, events: int, naive_events: int) -> None:
    """Measure everything at one size and store it."""
    asked, fresh = offers(events), offers(events, seed=3)  # the timed offers' texts were never seen before
    start = time.perf_counter()
    matchmaker = filled(size)
    load_seconds = time.perf_counter() - start
    duck = Duck(size)
    for offer in asked:  # builds the indexes, and checks the answers
        found = {match.id: match.values["price"] for match in matchmaker.match(offer).notifications()}
        for answer in (duck.match(offer), duck.match_clustered(offer)):
            assert found == dict(zip(answer["id"].tolist(), answer["computed"].tolist(), strict=True)), offer
    joined = duck.match_batch(asked)
    assert len(joined["id"]) == sum(len(matchmaker.match(offer).ids) for offer in asked)
    figures: dict[str, Any] = {"subscribers": size, "events": events, "load_seconds": load_seconds}
    figures["naive"] = measure_naive(matchmaker, asked[:naive_events])
    figures["engine"] = seconds_each(matchmaker.match, fresh)
    figures["rules_first"] = matchmaker.work.rules_first / matchmaker.work.offers
    figures["matches"] = matchmaker.work.matches / matchmaker.work.offers
    figures["duckdb"] = seconds_each(duck.match, fresh)
    figures["duckdb_clustered"] = seconds_each(duck.match_clustered, fresh)
    start = time.perf_counter()
    duck.match_batch(fresh)
    figures["duckdb_batch"] = [(time.perf_counter() - start) / len(fresh)] * 1
    figures["callable"] = measure_callable(matchmaker, callables(ProgramCache()), fresh, rule_indexes=True)
    figures["unindexed"] = measure_callable(matchmaker, programs(), fresh, rule_indexes=False)
    figures["callable_bare"] = measure_callable(matchmaker, callables(ProgramCache(0, 0)), fresh, rule_indexes=False)
    store("symmetric", {"kind": "match", **figures})
    print(size, {name: f"{1e3 * statistics.median(figures[name]):.3f} ms" for name in NAMES if figures[name]})
    print(f"load {load_seconds:.1f} s, {figures['matches']:.0f} matches an offer", flush=True)


NAMES = (
    "engine", "unindexed", "callable", "callable_bare", "duckdb", "duckdb_clustered", "duckdb_batch", "naive"
)  # fmt: skip


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
    match = {line["subscribers"]: line for line in lines if line["kind"] == "match" and "duckdb_batch" in line}
    cache = {line["rate"]: line for line in lines if line["kind"] == "cache"}
    with mpl.rc_context({"svg.hashsalt": "tocsin", "svg.fonttype": "none", "font.size": 9}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
        for name in NAMES:
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
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    if given.report:
        report()
        return
    for size in (int(text) for text in given.sizes.split(",") if text):
        measure(size, given.events, given.naive_events if size <= 100_000 else 0)
    if given.cache:
        measure_cache()


if __name__ == "__main__":
    main()
