"""Spark: matching Parquet events on local cores, beside the bare engine, Spark's own transport, and Spark SQL's ways.

    python -m benchmarks.spark throughput [--sizes 10000,100000,1000000] [--cores 1,2] [--events 200000]
    python -m benchmarks.spark sql        [--size 100000]
    python -m benchmarks.spark plot

Everything is measured in one run, since machines differ and are busy; answers are checked before times are taken.
Streaming latency is benchmarks/spark_latency.py's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks import spark_sql
from benchmarks.results import FOLDER, store, stored
from tocsin.bench.workloads import Workload, market
from tocsin.pipeline.open_index import IndexReference, open_index
from tocsin.pipeline.session import session
from tocsin.pipeline.subscription_folder import read_manifest, write_folder
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin.spark import match, write_matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = 5_000


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["throughput", "sql", "plot"])
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--cores", default="2")
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    if options.part == "plot":
        plot()
        return
    for cores in map(int, options.cores.split(",")):
        with session(f"local[{cores}]", settings={"spark.driver.memory": "2g"}) as spark:
            if options.part == "sql":
                spark_sql.compare(spark, options.size)
            else:
                for size in map(int, options.sizes.split(",")):
                    throughput(spark, cores, size, options.events)


def market_schema(workload: Workload) -> Schema:
    """Return the schema of the marketplace."""
    attributes = {name: "text" if at in workload.texts else "whole" for at, name in enumerate(workload.attributes)}
    domains = {"text": TextDomain(name="text"), "whole": NumericDomain(name="whole", type="int")}
    entries = tuple(TypeAttribute(name, mandatory=False) for name in attributes)
    return Schema(domains, attributes, {"offer": EventType("offer", entries)})


def event_table(workload: Workload) -> pa.Table:
    """Return the events as columns, with an id."""
    columns: dict[str, Any] = {"id": pa.array(range(workload.events.shape[1]), pa.int64())}
    for at, name in enumerate(workload.attributes):
        texts = workload.texts.get(at)
        values = workload.events[at]
        columns[name] = pa.array(values) if texts is None else pa.array([texts[value] for value in values.tolist()])
    return pa.table(columns)


def throughput(spark: SparkSession, cores: int, size: int, events: int) -> None:
    """Measure one size on a session; store and print."""
    folder = Path(tempfile.mkdtemp(prefix="tocsin-bench-"))
    try:
        workload = market(size, events)
        schema = market_schema(workload)
        workload.write_subscriptions(folder / "subscriptions.jsonl")
        with (folder / "subscriptions.jsonl").open("rb") as lines:
            bad = write_folder(folder / "index", lines, schema)
        assert not bad
        table = event_table(workload)
        for part in range(8):  # several files, so that all cores get work
            rows = table.slice(part * events // 8, events // 8)
            (folder / "events").mkdir(exist_ok=True)
            parquet.write_table(rows, folder / "events" / f"{part}.parquet")
        frame = spark.read.parquet(str(folder / "events"))
        figures = measure(frame, folder, table, cores)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row = {"workload": "market", "subscriptions": size, "events": events, "cores": cores, **figures}
    store("spark-throughput", row)
    print(json.dumps(row), flush=True)


def measure(frame: DataFrame, folder: Path, table: pa.Table, cores: int) -> dict[str, Any]:
    """Return the rates of the bare engine, of Spark's transport alone, and of match() in its forms."""
    index = folder / "index"
    bare = bare_engine(index, table)
    counts = match(frame, index, event_id="id", output="counts")
    total = counts.groupBy().sum("matches").collect()[0][0]
    assert total == bare["matches"], f"{total} matches on Spark, {bare['matches']} by the engine"
    seconds = {
        "transport": timed(lambda: to_noop(frame.mapInArrow(_identity, frame.schema))),
        "counts": timed(lambda: to_noop(match(frame, index, event_id="id", output="counts"))),
        "lists_by_worker": timed(lambda: write_out(frame, index, folder)),
        "lists_through_jvm": timed(lambda: to_noop(match(frame, index, event_id="id", output="lists"))),
    }
    events = table.num_rows
    again = bare_engine(index, table)
    bare_rate = max(bare["events_per_second"], again["events_per_second"])
    rates = {f"{name}_events_per_second": events / value for name, value in seconds.items()}
    return {
        "matches_per_event": total / events,
        "index_bytes": read_manifest(index).bytes,
        "bare_one_core_events_per_second": bare_rate,
        **rates,
        "counts_share_of_bare": rates["counts_events_per_second"] / (bare_rate * cores),
        "lists_share_of_bare": rates["lists_by_worker_events_per_second"] / (bare_rate * cores),
    }


def bare_engine(index: Path, table: pa.Table) -> dict[str, Any]:
    """Return the engine's own rate in this process, on one core, batches as Spark would give them."""
    opened = open_index(IndexReference(str(index)))
    batches = table.drop_columns(["id"]).to_batches(max_chunksize=BATCH)
    opened.match_columns(batches[0], None, None)  # kernels load here
    started = time.perf_counter()
    matches = sum(len(opened.match_columns(batch, None, None).ids) for batch in batches)
    seconds = time.perf_counter() - started
    return {"matches": matches, "events_per_second": table.num_rows / seconds}


def write_out(frame: DataFrame, index: Path, folder: Path) -> None:
    """Write lists to Parquet, and remove them."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    write_matches(frame, index, folder / "out", event_id="id")


def to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def timed(run: Callable[[], None], times: int = 2) -> float:
    """Return the best of some runs, after one that warms up."""
    run()
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best


def _identity(batches: Any) -> Any:
    yield from batches


def plot() -> None:
    """Draw throughput over subscriptions from the stored results, the newest of each size and number of cores."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = {(row["cores"], row["subscriptions"]): row for row in stored("spark-throughput")}
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for cores in sorted({cores for cores, _ in rows}):
        found = [row for (at, _), row in sorted(rows.items()) if at == cores]
        sizes = [row["subscriptions"] for row in found]
        for name, style in (("counts", "-o"), ("lists_by_worker", "--s"), ("transport", ":")):
            rates = [row[f"{name}_events_per_second"] for row in found]
            axes.plot(sizes, rates, style, label=f"{name.replace('_', ' ')}, {cores} cores")
    axes.set(xscale="log", yscale="log", xlabel="subscriptions (market)", ylabel="events/s")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(FOLDER / "spark-throughput.svg")
    print(FOLDER / "spark-throughput.svg")


if __name__ == "__main__":
    main()
