"""Spark: matching Parquet events on local cores, beside the bare engine, Spark's own transport, and Spark SQL's ways.

    python -m benchmarks.spark throughput [--sizes 10000,100000,1000000] [--cores 1,2] [--events 800000]
    python -m benchmarks.spark sql        [--size 100000]
    python -m benchmarks.spark plot

Everything is measured in one run, since machines differ and are busy; answers are checked before times are taken.
Streaming latency is benchmarks/spark_latency.py's.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks import spark_sql
from benchmarks.results import FOLDER, store, stored
from tocsin.bench.workloads import Workload, market
from tocsin.pipeline.layout import Layout
from tocsin.pipeline.match_batches import MatchBatches, Output
from tocsin.pipeline.open_index import IndexReference, open_index
from tocsin.pipeline.session import session
from tocsin.pipeline.subscription_folder import read_manifest, read_schema, write_folder
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin.schema.files import dumps
from tocsin.spark import match, write_matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = 5_000
FILES = 8
LISTS_OF = 10  # lists are made of one event in ten
ALONE = 500  # events, for the Parquet writer alone
DISK_MEGABYTES = 700


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["throughput", "sql", "plot"])
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--cores", default="2")
    parser.add_argument("--events", type=int, default=800_000)
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
        write_events(folder / "events", table)
        write_events(folder / "some", table.slice(0, events // LISTS_OF))
        figures = measure(spark, folder, table, cores)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row = {"workload": "market", "subscriptions": size, "events": events, "cores": cores, **figures}
    store("spark-throughput", row)
    print(json.dumps(row), flush=True)


def write_events(folder: Path, table: pa.Table) -> None:
    """Write events as several Parquet files, so that all cores get work."""
    folder.mkdir()
    for part in range(FILES):
        first, last = (table.num_rows * at // FILES for at in (part, part + 1))
        parquet.write_table(table.slice(first, last - first), folder / f"{part}.parquet")


def measure(spark: SparkSession, folder: Path, table: pa.Table, cores: int) -> dict[str, Any]:
    """Return the rates of the bare engine, of Spark's transport alone, and of match() in its forms.

    Lists are measured over a part of the events, since each is thousands of ids long.
    """
    index = folder / "index"
    frame, some = (spark.read.parquet(str(folder / name)) for name in ("events", "some"))
    bare = bare_engine(index, table)
    started = time.perf_counter()
    total = match(frame, index, event_id="id", output="counts").groupBy().sum("matches").collect()[0][0]
    first_seconds = time.perf_counter() - started
    assert total == bare["matches"], f"{total} matches on Spark, {bare['matches']} by the engine"
    rates = {
        "transport": table.num_rows / timed(lambda: to_noop(frame.mapInArrow(_identity, frame.schema))),
        "counts": table.num_rows / timed(lambda: to_noop(match(frame, index, event_id="id", output="counts"))),
        "lists_by_worker": table.num_rows // LISTS_OF / timed(lambda: write_out(some, index, folder, "lists"), 1),
        "packed_by_worker": table.num_rows // LISTS_OF / timed(lambda: write_out(some, index, folder, "packed"), 2),
        "lists_through_jvm": table.num_rows // LISTS_OF / timed(lambda: to_noop(lists_of(some, index)), 1),
    }
    rate = bare_on_all(index, folder / "events", cores)
    matches = total / table.num_rows
    return {
        "matches_per_event": matches,
        "index_bytes": read_manifest(index).bytes,
        "first_run_seconds": first_seconds,  # workers start and map the index
        "bare_one_core_events_per_second": bare["events_per_second"],
        "bare_events_per_second": rate,  # on all cores at once
        "bare_matches_per_second": rate * matches,
        "worker_function_one_core_events_per_second": worker_function(index, table),
        "parquet_one_core_matches_per_second": parquet_alone(index, table, folder),
        "disk_one_core_bytes_per_second": disk_alone(folder),
        **{f"{name}_events_per_second": value for name, value in rates.items()},
        "counts_share_of_bare": rates["counts"] / rate,
        "counts_share_of_transport": rates["counts"] / rates["transport"],
        "lists_share_of_bare": rates["lists_by_worker"] / rate,
        "lists_matches_per_second": rates["lists_by_worker"] * matches,
        "packed_share_of_bare": rates["packed_by_worker"] / rate,
        "packed_matches_per_second": rates["packed_by_worker"] * matches,
    }


def bare_engine(index: Path, table: pa.Table) -> dict[str, Any]:
    """Return the engine's own rate in this process, on one core, batches as Spark would give them."""
    opened = open_index(IndexReference(str(index)))
    batches = table.drop_columns(["id"]).to_batches(max_chunksize=BATCH)
    opened.count_columns(batches[0], None, None)  # kernels load here
    started = time.perf_counter()
    matches = sum(int(opened.count_columns(batch, None, None).sum()) for batch in batches)
    seconds = time.perf_counter() - started
    return {"matches": matches, "events_per_second": table.num_rows / seconds}


def bare_on_all(index: Path, events: Path, cores: int) -> float:
    """Return the engine's own rate on so many cores at once, each in a process that matches all events."""
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        return sum(pool.map(_bare_rate, [index] * cores, [events] * cores))


def _bare_rate(index: Path, events: Path) -> float:
    table = parquet.read_table(events)
    return max(float(bare_engine(index, table)["events_per_second"]) for _ in range(2))


def disk_alone(folder: Path) -> float:
    """Return the bytes per second of writing to a file what is in the cache, on one core: ids take four each, or more."""
    chunk = bytes(1 << 20)
    started = time.perf_counter()
    with (folder / "alone.bin").open("wb", buffering=0) as file:
        for _ in range(DISK_MEGABYTES):
            file.write(chunk)
    return (DISK_MEGABYTES << 20) / (time.perf_counter() - started)


def function_of(index: Path, table: pa.Table, form: Literal["counts", "lists"]) -> MatchBatches:
    """Return what Spark's workers run."""
    layout = Layout(plain=tuple(name for name in table.column_names if name != "id"))
    schema = dumps(read_schema(index), "json")
    return MatchBatches(IndexReference(str(index)), schema, layout, Output(form, ("id",)))


def worker_function(index: Path, table: pa.Table) -> float:
    """Return the events per second of what the workers run for counts, without Spark: the engine and admission."""
    function = function_of(index, table, "counts")
    started = time.perf_counter()
    rows = sum(batch.num_rows for batch in function(iter(table.to_batches(max_chunksize=BATCH))))
    assert rows == table.num_rows
    return rows / (time.perf_counter() - started)


def parquet_alone(index: Path, table: pa.Table, folder: Path) -> float:
    """Return the matches per second of Arrow's Parquet writer by itself, on one core, as write_matches uses it."""
    lists = list(function_of(index, table, "lists")(iter(table.slice(0, ALONE).to_batches(max_chunksize=BATCH))))
    matches = sum(len(batch.column("subscriptions").values) for batch in lists)
    file = ListFile(folder / "alone.parquet")
    started = time.perf_counter()
    for batch in lists:
        file.add(batch)
    file.close()
    return matches / (time.perf_counter() - started)


def lists_of(frame: DataFrame, index: Path) -> DataFrame:
    return match(frame, index, event_id="id", output="lists")


def write_out(frame: DataFrame, index: Path, folder: Path, ids: Literal["lists", "packed"]) -> None:
    """Write matches to Parquet, where the last ones were."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    write_matches(frame, index, folder / "out", event_id="id", ids=ids)


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
        for name, style in (
            ("counts", "-o"),
            ("packed_by_worker", "-.^"),
            ("lists_by_worker", "--s"),
            ("transport", ":"),
        ):
            rates = [row.get(f"{name}_events_per_second", float("nan")) for row in found]
            axes.plot(sizes, rates, style, label=f"{name.replace('_', ' ')}, {cores} cores")
    axes.set(xscale="log", yscale="log", xlabel="subscriptions (market)", ylabel="events/s")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(FOLDER / "spark-throughput.svg")
    print(FOLDER / "spark-throughput.svg")


if __name__ == "__main__":
    main()
