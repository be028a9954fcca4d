"""TOPSS, tables 1 and 2: matching inside a database against counting, under W4."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.errors import TocsinError
from tocsin.matching import engine_of
from tocsin_lab.databases import DATABASES
from tocsin_lab.dbms import WAYS
from tocsin_lab.experiments.experiment import Claim, Experiment, Plot, Scale, ratio
from tocsin_lab.experiments.topss_w4 import KDB, LISTS, LOAD_KDB, PAPER
from tocsin_lab.results import Results, Row
from tocsin_lab.timing import loaded, matching_milliseconds
from tocsin_lab.workloads import w4

NAME = "topss-dbms"
REFERENCES = ("counting-table", "counting-bits")
LARGEST = {  # above this a query takes many seconds, or loading many minutes
    "quick": {"duckdb": 100_000, "sqlite": 10_000, "postgresql": 10_000, "spark": 1_000},
    "full": {"duckdb": 1_000_000, "sqlite": 1_000_000, "postgresql": 1_000_000, "spark": 1_000_000},
}


def run(scale: Scale) -> Iterator[Row]:
    for database, kind in DATABASES.items():
        if (missing := kind.missing()) is not None:
            yield Row(experiment=NAME, series=database, x=0, figure="skipped", value=0, note=missing)
    for count in scale.of([200], [1_000, 10_000, 100_000], [1_000, 10_000, 100_000, 1_000_000]):
        prepared = w4(count, 5)
        for engine in REFERENCES:
            matcher = engine_of(engine)(prepared.schema)
            load = loaded(matcher, prepared)
            yield Row(experiment=NAME, series=engine, x=count, figure="loading ms", value=load * 1e3)
            time = matching_milliseconds(matcher, prepared, scale.budget())
            yield Row(experiment=NAME, series=engine, x=count, figure="matching ms", value=time)
        for database, kind in DATABASES.items():
            if kind.missing() is not None or (scale == Scale.TINY and database in ("spark", "postgresql")):
                continue
            if count > LARGEST.get(scale.value, {}).get(database, 1_000):
                continue
            for way, matcher_class in WAYS.items():
                in_database = matcher_class(prepared.schema, kind)
                load = loaded(in_database, prepared)
                series = f"{database} {way.removeprefix('dbms-')}"
                yield Row(experiment=NAME, series=series, x=count, figure="loading ms", value=load * 1e3)
                time = matching_milliseconds(in_database, prepared, scale.budget(0.3))
                yield Row(experiment=NAME, series=series, x=count, figure="matching ms", value=time)
                in_database.close()


def claims(results: Results) -> list[Claim]:
    databases = [name for name in results.series("matching ms") if name not in REFERENCES]
    if not databases:
        raise TocsinError("no database was measured")
    found = []
    for x in sorted({x for name in databases for x in results.points(name, "matching ms")}):
        measured = {
            name: results.points(name, "matching ms")[x]
            for name in databases
            if x in results.points(name, "matching ms")
        }
        best = min(measured, key=lambda name: measured[name])
        lists = results.points("counting-table", "matching ms")[x]
        paper = f"Kdb {KDB[x]:,.1f} ms, list-based {LISTS[x]:,.2f} ms" if x in KDB else "—"
        found.append(
            Claim(
                f"At {x:,.0f} subscriptions the database takes longer to match than counting",
                paper,
                f"best is {best} with {measured[best]:,.1f} ms; list-based {lists:.3f} ms, {ratio(measured[best], lists)} times faster",
                measured[best] > lists,
            )
        )
    x, _ = results.last("duckdb grouping", "matching ms")
    pair = {way: results.points(f"duckdb {way}", "matching ms")[x] for way in ("sequential", "grouping")}
    found.append(
        Claim(
            "Evaluating each distinct predicate once (grouping) is better than sequential search",
            "in words",
            f"DuckDB at {x:,.0f}: grouping {pair['grouping']:.1f} ms, sequential {pair['sequential']:.1f} ms",
            pair["grouping"] < pair["sequential"],
        )
    )
    x = max(results.common("loading ms", "duckdb grouping", "counting-table"))
    ours = {name: results.points(name, "loading ms")[x] for name in ("duckdb grouping", "counting-table")}
    found.append(
        Claim(
            "For large numbers of subscriptions the database loads faster than the lists",
            f"at 1,000,000: Kdb {LOAD_KDB[1e6]:,.0f} ms, lists 97,746 ms (re-allocated in constant steps)",
            f"at {x:,.0f}: DuckDB {ours['duckdb grouping']:,.0f} ms, lists {ours['counting-table']:,.0f} ms",
            ours["duckdb grouping"] < ours["counting-table"],
            "the paper's lists were re-allocated in constant steps, which is quadratic; ours double",
        )
    )
    return found


EXPERIMENTS = (
    Experiment(
        NAME, "Matching inside a database against counting (tables 1 and 2)", PAPER,
        "W4. One query per event, generated from its attributes and values, the generation included in the time. The "
        "paper's database was Kdb in memory; here DuckDB and SQLite in memory, PostgreSQL on a local socket with "
        "unlogged tables, Spark SQL in local mode with cached tables. Loading a database is timed from coded rows: "
        "making rows of comparisons of them, then the database's own way to load many (Arrow, executemany, COPY).",
        run, claims,
        (
            Plot("matching ms", "subscriptions", "ms per event", paper={"paper: Kdb": KDB, "paper: list-based": LISTS}),
            Plot("loading ms", "subscriptions", "ms", paper={"paper: Kdb": LOAD_KDB}),
        ),
    ),
)  # fmt: skip
