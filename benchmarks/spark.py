"""Spark: matching Parquet events on local cores, beside the bare engine, Spark's own transport, and Spark SQL's ways.

    python -m benchmarks.spark throughput   1M subscriptions on all cores, and where the time goes
    python -m benchmarks.spark sizes        throughput over subscriptions (--sizes 10000,100000,5000000)
    python -m benchmarks.spark batches      over the events of an Arrow batch
    python -m benchmarks.spark cores        on one core
    python -m benchmarks.spark executors    on one and on two executor processes
    python -m benchmarks.spark sql          beside what one would write in Spark SQL
    python -m benchmarks.spark report       draw the plots, and write the tables of docs/spark.md

Several parts may be named at once. --size and --events make a part smaller, and --unrecorded keeps it out of the
results, to try it. Whatever is compared is measured
in one run, since machines differ and are busy; answers are checked before times are taken. Streaming latency is
benchmarks/spark_latency.py's.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import spark_report, spark_sql
from benchmarks.results import store
from benchmarks.spark_alone import IN_MEMORY, alone, bare_on_all, best_of, clear, count_all, use_memory
from benchmarks.spark_world import World, world_of
from tocsin.pipeline.session import session
from tocsin.pipeline.subscription_table import read_manifest
from tocsin.spark import match, write_matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = min(2, os.cpu_count() or 1)
BATCHES = (100, 1_000, 5_000, 10_000, 50_000)
LIST_RUNS = 4
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # the JVM only passes rows on: cores are the workers'
JVM_SHARE = 16  # of the events of lists, one in so many goes through the JVM
Measured = tuple[str, dict[str, Any]]  # the master, and figures
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


def main() -> None:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "sql", "report"])
    parser.add_argument("--sizes", default="10000,100000,5000000")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--sql-size", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--unrecorded", action="store_true")
    options = parser.parse_args()
    recording = not options.unrecorded
    for part in options.parts:
        if part == "report":
            spark_report.report()
        elif part == "sql":
            with session(f"local[{CORES}]", settings={"spark.driver.memory": "2g"}) as spark:
                spark_sql.compare(spark, options.sql_size, recording=recording)
        else:
            sizes = map(int, options.sizes.split(",")) if part == "sizes" else [options.size]
            for size in sizes:
                with world_of(size, options.events) as world:
                    for master, figures in PARTS[part](world):
                        record(part, world, master, figures, recording=recording)


def started(master: str) -> Any:
    """Give a session that is for matching only, as docs/spark.md has it."""
    light = {f"spark.{process}.extraJavaOptions": LIGHT for process in ("driver", "executor")}
    return session(master, settings={"spark.driver.memory": "2g", **light})


def record(part: str, world: World, master: str, figures: dict[str, Any], *, recording: bool) -> None:
    """Print a measurement, and store it."""
    found = {
        "part": part, "workload": "market", "subscriptions": world.subscriptions, "events": world.table.num_rows,
        "master": master, **figures,
    }  # fmt: skip
    if recording:
        store("spark-throughput", found)
    print(json.dumps(found), flush=True)


# --- parts ------------------------------------------------------------------------------------------------------------


def throughput(world: World, cores: int = CORES) -> Iterator[Measured]:
    """Measure everything at one size."""
    master = f"local[{cores}]"
    with started(master) as spark:
        frame = all_events(spark, world)
        begun = time.perf_counter()
        total = match(frame, world.index, event_id="id", output="counts").groupBy().sum("matches").collect()[0][0]
        first_seconds = time.perf_counter() - begun
        assert total == count_all(world.index, world.table)
        some = spark.read.parquet(str(world.first(world.few // JVM_SHARE)))
        figures: dict[str, Any] = {
            "cores": cores,
            "matches_per_event": total / world.table.num_rows,
            "index_bytes": read_manifest(world.index).bytes,
            "first_run_seconds": first_seconds,  # workers start and map the index
            **briefly(spark, world, LIST_RUNS),
            **lists_written(spark, world, "lists_in_memory", IN_MEMORY, LIST_RUNS),
            "transport_events_per_second": world.table.num_rows / best_of(lambda: transport(frame)),
            "lists_through_jvm_events_per_second": world.few // JVM_SHARE / best_of(lambda: lists(some, world), 1),
        }
    bare = alone(world, cores)
    rate, counted = bare["bare_events_per_second"], figures["counts_events_per_second"]
    shares = {
        "counts_share_of_bare": counted / rate,
        "counts_share_of_bare_counting": counted / bare["bare_counting_events_per_second"],
        "counts_share_of_transport": counted / figures["transport_events_per_second"],
        "lists_share_of_bare": figures["lists_events_per_second"] / rate,
        "lists_in_memory_share_of_bare": figures["lists_in_memory_events_per_second"] / rate,
    }
    yield master, {**figures, **bare, **shares}


def sizes(world: World, cores: int = CORES) -> Iterator[Measured]:
    """Measure counts and lists at another size, beside the bare engine."""
    master = f"local[{cores}]"
    with started(master) as spark:
        figures = {"cores": cores, **briefly(spark, world)}
    rate = bare_on_all(world, cores, counting=False)
    shares = {
        "bare_events_per_second": rate,
        "counts_share_of_bare": figures["counts_events_per_second"] / rate,
        "lists_share_of_bare": figures["lists_events_per_second"] / rate,
    }
    yield master, {**figures, **shares}


def cores(world: World) -> Iterator[Measured]:
    """Measure counts and lists on one core."""
    yield from sizes(world, 1)


def batches(world: World) -> Iterator[Measured]:
    """Measure counts and lists with Arrow batches of several sizes."""
    master = f"local[{CORES}]"
    with started(master) as spark:
        for rows in BATCHES:
            spark.conf.set(ROWS_PER_BATCH, str(rows))
            yield master, {"rows_per_batch": rows, **briefly(spark, world)}


def executors(world: World) -> Iterator[Measured]:
    """Measure counts and lists on real executor processes, with a core each."""
    for count in (1, 2):
        master = f"local-cluster[{count},1,1024]"
        with started(master) as spark:
            yield master, {"executors": count, **briefly(spark, world)}


PARTS: dict[str, Callable[[World], Iterator[Measured]]] = {
    "throughput": throughput, "sizes": sizes, "batches": batches, "cores": cores, "executors": executors,
}  # fmt: skip


# --- what is timed ----------------------------------------------------------------------------------------------------


def all_events(spark: SparkSession, world: World) -> DataFrame:
    return spark.read.parquet(str(world.first(world.table.num_rows)))


def briefly(spark: SparkSession, world: World, runs: int = 2) -> dict[str, Any]:
    """Return the rates of counts, and of lists that workers write to disk."""
    frame = all_events(spark, world)
    rate = world.table.num_rows / best_of(lambda: counts(frame, world), runs)
    return {"counts_events_per_second": rate, **lists_written(spark, world, "lists", world.folder, runs)}


def lists_written(spark: SparkSession, world: World, name: str, place: Path, runs: int) -> dict[str, Any]:
    """Return the rate of writing lists: the best of some runs; the first one is apart, and finds no memory prepared.

    Hosts of virtual machines take back memory that is free for some seconds, and touching it again is ten times as slow
    as writing. So before each other run as much memory as its files take is used and freed.
    """
    frame, out = spark.read.parquet(str(world.first(world.few))), place / f"tocsin-bench-out-{os.getpid()}"
    seconds, matches, size = [], 0, 0
    try:
        for _ in range(1 + runs):
            clear(out)
            use_memory(place, size)
            begun = time.perf_counter()
            matches = write_matches(frame, world.index, out, event_id="id").matches
            seconds.append(time.perf_counter() - begun)
            size = sum(file.stat().st_size for file in out.iterdir())
    finally:
        clear(out)
    assert matches == count_all(world.index, world.table.slice(0, world.few))
    best = min(seconds[1:])
    return {
        f"{name}_events": world.few,
        f"{name}_seconds": seconds,
        f"{name}_events_per_second": world.few / best,
        f"{name}_matches_per_second": matches / best,
        f"{name}_bytes_per_id": size / matches,
    }


def counts(frame: DataFrame, world: World) -> None:
    to_noop(match(frame, world.index, event_id="id", output="counts"))


def lists(frame: DataFrame, world: World) -> None:
    to_noop(match(frame, world.index, event_id="id", output="lists"))


def transport(frame: DataFrame) -> None:
    to_noop(frame.mapInArrow(_identity, frame.schema))


def to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _identity(batches: Any) -> Any:
    yield from batches


if __name__ == "__main__":
    main()
