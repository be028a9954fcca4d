"""What Spark users write by hand, on the same subscriptions and events as match(): three ways, and ours beside them.

exploded    one row a predicate and one an attribute of an event, joined, grouped, counted: all of n satisfied
nested      one row a subscription with its bounds as columns; a broadcast nested-loop join
access      the same, but joined by the category where a subscription has one, nested loops for the rest
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.results import store
from benchmarks.spark_world import event_table, lines_of, market_schema
from tocsin.pipeline.subscription_table import SubscriptionTable
from tocsin.spark import match
from tocsin_lab.bench.workloads import OPERATORS, Workload, market

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = {"exploded": 20, "nested": 200, "access": 2_000, "tocsin": 100_000}


def compare(spark: SparkSession, size: int, *, recording: bool = True) -> None:
    """Measure all ways; store and print."""
    folder = Path(tempfile.mkdtemp(prefix="tocsin-bench-"))
    try:
        workload = market(size, EVENTS["tocsin"])
        table = event_table(workload)
        parquet.write_table(table, folder / "events.parquet")
        SubscriptionTable(folder / "index", market_schema(workload)).upsert(lines_of(workload))
        parquet.write_table(wide_subscriptions(workload), folder / "wide.parquet")
        parquet.write_table(exploded_subscriptions(workload), folder / "predicates.parquet")
        events = spark.read.parquet(str(folder / "events.parquet"))
        wide = spark.read.parquet(str(folder / "wide.parquet")).cache()
        predicates = spark.read.parquet(str(folder / "predicates.parquet")).cache()
        wide.count()
        predicates.count()
        ways: dict[str, Callable[[DataFrame], DataFrame]] = {
            "exploded": lambda chosen: exploded(chosen, predicates),
            "nested": lambda chosen: nested(chosen, wide),
            "access": lambda chosen: access(chosen, wide),
            "tocsin": lambda chosen: match(chosen, folder / "index", event_id="id", output="counts"),
        }
        row: dict[str, Any] = {"subscriptions": size}
        right = {r.id: r.matches for r in ways["tocsin"](events.filter("id < 20")).collect()}
        for name, way in ways.items():
            found = {r.id: r.matches for r in way(events.filter("id < 20")).collect()}
            assert {k: v for k, v in found.items() if v} == {k: v for k, v in right.items() if v}, name
            chosen = events.filter(f"id < {EVENTS[name]}")
            started = time.perf_counter()
            way(chosen).write.format("noop").mode("overwrite").save()
            row[f"{name}_events_per_second"] = EVENTS[name] / (time.perf_counter() - started)
        for name in ("exploded", "nested", "access"):
            row[f"times_{name}"] = row["tocsin_events_per_second"] / row[f"{name}_events_per_second"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if recording:
        store("spark-sql", row)
    print(json.dumps(row), flush=True)


def wide_subscriptions(workload: Workload) -> pa.Table:
    """Return a row a subscription: what each attribute must equal, and its bounds; null where it is free."""
    count = len(workload.offset) - 1
    names = workload.attributes
    columns: dict[str, list[Any]] = {"subscription": list(range(count))}
    for at, name in enumerate(names):
        for part in ("eq",) if at in workload.texts else ("lo", "hi"):
            columns[f"{name}_{part}"] = [None] * count
    rows = zip(workload.attribute.tolist(), workload.operator.tolist(), workload.value.tolist(), strict=True)
    for subscription in range(count):
        for _ in range(int(workload.offset[subscription + 1] - workload.offset[subscription])):
            attribute, operator, value = next(rows)
            name, texts = names[attribute], workload.texts.get(attribute)
            part = {"=": "eq", ">=": "lo", "<=": "hi"}[OPERATORS[operator]]
            columns[f"{name}_{part}"][subscription] = value if texts is None else texts[value]
    return pa.table(columns)


def exploded_subscriptions(workload: Workload) -> pa.Table:
    """Return a row a predicate."""
    counts = [int(workload.offset[at + 1] - workload.offset[at]) for at in range(len(workload.offset) - 1)]
    owner = [at for at, count in enumerate(counts) for _ in range(count)]
    texts = [
        workload.texts[attribute][value] if attribute in workload.texts else None
        for attribute, value in zip(workload.attribute.tolist(), workload.value.tolist(), strict=True)
    ]
    return pa.table({
        "subscription": owner,
        "needed": [counts[at] for at in owner],
        "attribute": [workload.attributes[at] for at in workload.attribute.tolist()],
        "operator": [OPERATORS[at] for at in workload.operator.tolist()],
        "number": pa.array(workload.value.tolist(), pa.int64()),
        "text": pa.array(texts, pa.string()),
    })  # fmt: skip


def exploded(events: DataFrame, predicates: DataFrame) -> DataFrame:
    """Return the counts by joining predicates with attributes."""
    from pyspark.sql import functions as f

    attributes = [name for name in events.columns if name != "id"]
    texts = {name for name, kind in events.dtypes if kind == "string"}
    parts = [
        f.struct(
            f.lit(name).alias("attribute"),
            (f.col(name) if name in texts else f.lit(None).cast("string")).alias("text"),
            (f.lit(None).cast("long") if name in texts else f.col(name)).alias("number"),
        )
        for name in attributes
    ]
    long = events.select("id", f.explode(f.array(*parts)).alias("v")).select("id", "v.*")
    holds = f.expr("""
        (p.operator = '=' AND (p.text = e.text OR p.text IS NULL AND p.number = e.number))
        OR (p.operator = '>=' AND e.number >= p.number) OR (p.operator = '<=' AND e.number <= p.number)""")
    joined = long.alias("e").join(predicates.alias("p"), (f.col("e.attribute") == f.col("p.attribute")) & holds)
    satisfied = joined.groupBy("e.id", "p.subscription", "p.needed").count().filter("count = needed")
    return satisfied.groupBy("id").agg(f.count("*").alias("matches"))


def _residual(wide: DataFrame) -> str:
    conditions = []
    for column in wide.columns:
        name, _, part = column.rpartition("_")
        if part in ("eq", "lo", "hi"):
            operator = {"eq": "=", "lo": ">=", "hi": "<="}[part]
            conditions.append(f"(s.{column} IS NULL OR e.{name} {operator} s.{column})")
    return " AND ".join(conditions)


def nested(events: DataFrame, wide: DataFrame) -> DataFrame:
    """Return the counts by a broadcast nested-loop join."""
    from pyspark.sql import functions as f

    joined = f.broadcast(events.alias("e")).join(wide.alias("s"), f.expr(_residual(wide)))
    return joined.groupBy("e.id").agg(f.count("*").alias("matches"))


def access(events: DataFrame, wide: DataFrame) -> DataFrame:
    """Return the counts by a hash join on the category, and nested loops for subscriptions without one."""
    from pyspark.sql import functions as f

    residual = f.expr(_residual(wide))
    keyed, rest = wide.filter("category_eq IS NOT NULL"), wide.filter("category_eq IS NULL")
    hashed = events.alias("e").join(keyed.alias("s"), (f.col("e.category") == f.col("s.category_eq")) & residual)
    looped = f.broadcast(events.alias("e")).join(rest.alias("s"), residual)
    both = hashed.select("e.id", "s.subscription").union(looped.select("e.id", "s.subscription"))
    return both.groupBy("id").agg(f.count("*").alias("matches"))
