"""TOPSS, tables 1 and 2: matching inside a database against counting, under W4; its memory and its updates."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.matching import Engine
from tocsin_lab.claims import Less, Statement, Where
from tocsin_lab.classic.counting import CountingMatcher
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.topss_lists import TopssLists
from tocsin_lab.classic.value_table import ValueTable
from tocsin_lab.databases import DATABASES
from tocsin_lab.dbms import WAYS, DbmsMatcher
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.experiments.topss_w4 import KDB, LISTS, LOAD_KDB, LOADING, MEMORY, PAPER, STEPPED, TIME
from tocsin_lab.prepared import Prepared
from tocsin_lab.results import Row
from tocsin_lab.rounds import Act, Bench, Notebook, Scale
from tocsin_lab.timing import Changes, filled, load, matching
from tocsin_lab.workloads import w4

NAME = "topss-dbms"
REFERENCES = ("counting-table", "counting-bits")
LARGEST = {  # above this a query takes many seconds, or loading many minutes; 0: not in this run
    Scale.TINY: {"duckdb": 1_000, "sqlite": 1_000, "postgresql": 0, "spark": 0},
    Scale.QUICK: {"duckdb": 10_000, "sqlite": 10_000, "postgresql": 10_000, "spark": 0},
    Scale.FULL: {"duckdb": 1_000_000, "sqlite": 100_000, "postgresql": 100_000, "spark": 10_000},
}
CHANGED = 5


def run(bench: Bench) -> Iterator[Row]:
    book = Notebook(NAME)
    for database, kind in DATABASES.items():
        missing = kind.missing()
        if missing is not None or not LARGEST[bench.scale][database]:
            why = missing or f"not in the {bench.scale} run"
            yield book.counted("left out", 0, database, 0, note=why)
    for count in bench.of([200], [1_000, 10_000], [1_000, 10_000, 100_000, 1_000_000]):
        prepared = w4(count, 2)
        engines: dict[str, Engine] = {name: filled(bench, name, prepared) for name in REFERENCES}
        engines[STEPPED] = load(CountingMatcher(prepared.schema, ValueTable, TopssLists), prepared)
        databases = {
            f"{database} {way.removeprefix('dbms-')}": (matcher_class, kind)
            for database, kind in DATABASES.items()
            if kind.missing() is None and count <= LARGEST[bench.scale][database]
            for way, matcher_class in WAYS.items()
        }
        for name, (matcher_class, kind) in databases.items():
            engines[name] = load(matcher_class(prepared.schema, kind), prepared)
        yield from _measure(bench, book, count, engines, prepared)
        for matcher in engines.values():
            if isinstance(matcher, DbmsMatcher):
                matcher.close()


def _measure(bench: Bench, book: Notebook, count: int, engines: dict[str, Engine], prepared: Prepared) -> Iterator[Row]:
    acts = {name: matching(matcher, prepared.events) for name, matcher in engines.items() if name != STEPPED}
    yield from book.measured(TIME, count, bench.race(acts, clock=bench.wall), 1e3 / len(prepared.events))
    loads = {name: _loading(matcher, prepared) for name, matcher in engines.items() if "spark" not in name}
    yield from book.measured(LOADING, count, bench.race(loads, clock=bench.wall), 1e3)
    changes = {}
    for name, matcher in engines.items():
        if isinstance(matcher, DbmsMatcher):
            yield book.counted(MEMORY, count, name, matcher.db.bytes() / 1e6)
        elif isinstance(matcher, CountingMatcher):
            own = matcher.associated.bytes() + matcher.associated.removal_bytes() + matcher.predicates.stage.bytes()
            yield book.counted(MEMORY, count, name, own / 1e6)
        assert isinstance(matcher, ClassicMatcher)
        if "spark" not in name:
            changes[name] = Changes(matcher, range(CHANGED)).change
    yield from book.measured("change ms", count, bench.race(changes, clock=bench.wall), 1e3 / CHANGED)


def _loading(matcher: Engine, prepared: Prepared) -> Act:
    """Return a load of everything into an engine like this one, from coded columns."""

    def act() -> None:
        if isinstance(matcher, DbmsMatcher):
            other = type(matcher)(matcher.schema, matcher.database_kind)
            other.load_table(prepared.table)
            other.db.settle()
            other.close()
        elif isinstance(matcher, CountingMatcher):
            matcher.like_this().load_table(prepared.table)

    return act


DATABASE_SERIES = ("duckdb grouping", "sqlite grouping", "postgresql grouping")

STATEMENTS = (
    *(
        Statement(
            f"The database needs more time to match than counting, whatever the number of subscriptions: {name}",
            "table 1, 5.1.3", f"at 10,000: Kdb {KDB[1e4]:,.1f} ms, list-based {LISTS[1e4]:,.2f} ms",
            (Less(TIME, "counting-table", name), Less(TIME, "counting-bits", name)),
        )
        for name in DATABASE_SERIES
    ),
    Statement(
        "Evaluating each distinct predicate once (grouping) reduces the comparisons of sequential search", "section 4.2",
        "in words (here: time)", (Less(TIME, "duckdb grouping", "duckdb sequential"), Less(TIME, "sqlite grouping", "sqlite sequential")),
    ),
    Statement(
        "For large numbers of subscriptions the database loads faster than the lists", "table 2, 5.1.3",
        f"at 1,000,000: Kdb {LOAD_KDB[1e6]:,.0f} ms, lists 97,746 ms",
        (Less(LOADING, "duckdb grouping", STEPPED, where=Where.MANY),),
    ),
    Statement(
        "Bulk loading the bit-wise structures is faster than loading the database", "table 2, 5.1.3", "at 1,000,000: 5,428 against 15,658 ms",
        (Less(LOADING, "counting-bits", "duckdb grouping"),),
    ),
    Statement(
        "The database takes more memory than the bit-wise structures", "5.1.2", "4,400 KB against 122 KB at 1,000; 1 GB against 248 MB at 5,000,000",
        (Less(MEMORY, "counting-bits", "duckdb grouping"),),
    ),
    Statement(
        "Kdb's own times", "table 1", "33,473.1 ms at 1,000,000",
        unmeasured="Kdb is not free to use; DuckDB, a columnar database in memory, stands in its place",
    ),
)  # fmt: skip


EXPERIMENTS = (
    Experiment(
        NAME, "Matching inside a database against counting (tables 1 and 2)", PAPER,
        "W4, all timed on the wall. One query per event, generated from its attributes and values, the generation included "
        "in the time. The paper's database was Kdb in memory; here DuckDB and SQLite in memory, PostgreSQL on a local socket "
        "with unlogged tables, Spark SQL in local mode with cached tables (in the full run only). Loading is timed from "
        "coded rows: making rows of comparisons of them, then the database's own way to load many (Arrow, executemany, "
        "COPY). Memory is what the database says of itself; of counting, the table, the association and what removal needs. "
        "A change is a deletion and an insertion of coded predicates.",
        run, STATEMENTS,
        (
            Plot(TIME, "subscriptions", "ms per event", paper={"paper: Kdb": KDB, "paper: list-based": LISTS}),
            Plot(LOADING, "subscriptions", "ms", paper={"paper: Kdb": LOAD_KDB}),
            Plot(MEMORY, "subscriptions", "MB", paper={"paper: Kdb": {1e3: 4.4, 5e6: 1000.0}, "paper: bit-wise": {1e3: 0.122, 5e6: 248.0}}),
            Plot("change ms", "subscriptions", "ms per change"),
        ),
    ),
)  # fmt: skip
