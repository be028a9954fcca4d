"""Streaming latency: from publish to stored notification, with live subscriptions changing all the while.

    python -m benchmarks.spark_latency [--subscriptions 100000] [--rate 1000] [--changes 100] [--seconds 60]

A process of its own publishes at a steady rate and changes subscriptions; the pipeline runs on local[2]; latencies are
from an event's arrival, on the store's clock, to the commit of its notifications. Beside it, in the same run, the
floor: the same trigger and sink with Spark's rate source and no matching. At the end a sample is checked as of seq.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.results import store as store_result
from benchmarks.spark_world import market_schema
from tocsin.broker import Broker
from tocsin.language import bind, evaluate, from_json
from tocsin.pipeline.meter import Meter
from tocsin.pipeline.run import Pipeline, PipelineSettings
from tocsin.pipeline.session import session, warm_workers
from tocsin.store.events import read_events
from tocsin.store.notifications import all_blocks
from tocsin.store.subscriptions import leases_since
from tocsin_lab.bench.workloads import OPERATORS, Workload, market

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICK_SECONDS = 0.1
SAMPLE = 40  # events that are checked
DRAWN = 5_000  # subscriptions that they are checked for, and all whom they reached
AT_ONCE, OWNERS = 2_000, 50


def main() -> None:
    """Measure; store and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--publish", help="internal: the store to publish to")
    options = parser.parse_args()
    if options.publish:
        publish(options)
    else:
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Run the pipeline beside a publisher."""
    folder = Path(tempfile.mkdtemp(prefix="tocsin-latency-"))
    try:
        place = str(folder / "tocsin.db")
        fill(place, options.subscriptions)
        with session("local[2]", streaming=True) as spark:
            floor = floor_ms(spark, folder)
            warm_workers(spark)
            meter = Meter(folder / "status.json")
            pipeline = Pipeline(spark, PipelineSettings(place, str(folder / "checkpoint")), meter)
            pipeline.start()
            arguments = [
                f"--{name}={getattr(options, name)}" for name in ("subscriptions", "rate", "changes", "seconds", "warm")
            ]
            command = [sys.executable, "-m", "benchmarks.spark_latency", "--publish", place, *arguments]
            publisher = subprocess.Popen(command)
            started = time.monotonic()
            while publisher.poll() is None:
                pipeline.check()
                time.sleep(0.2)
                if time.monotonic() - started < options.warm:
                    meter._latencies.clear()  # workers open the index, kernels load
            assert publisher.returncode == 0
            drain(place, pipeline)
            latencies = np.array(meter.latencies_ms())
            parts = durations_ms(spark)
            pipeline.stop()
            pipeline.wait()
        checked = check(place)
        p50, p90, p99 = np.percentile(latencies, [50, 90, 99]).tolist()
        figures: dict[str, Any] = {
            "subscriptions": options.subscriptions, "rate": options.rate, "changes": options.changes,
            "events": len(latencies), "p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "max_ms": float(latencies.max()),
            "floor_p50_ms": floor, "checked_events": checked, "batches": meter.figures().batches,
            "matches_per_event": meter.figures().matches / max(1, meter.figures().events), "batch_p50_ms": parts,
        }  # fmt: skip
        store_result("spark-latency", figures)
        print(json.dumps(figures), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def drain(place: str, pipeline: Pipeline) -> None:
    """Wait until everything published is matched."""
    from tocsin.pipeline.followers import open_store

    with open_store(place).read() as connection:
        last = read_events(connection, 0, 10_000_000)[-1].seq
    while open_store(place).meta().matched_through < last:
        pipeline.check()
        time.sleep(0.1)


def documents(workload: Workload) -> list[dict[str, Any]]:
    """Return the workload's subscriptions in the bulk form, which the broker takes in as columns."""
    found: list[dict[str, Any]] = []
    for at in range(len(workload.offset) - 1):
        predicates = []
        for row in range(int(workload.offset[at]), int(workload.offset[at + 1])):
            attribute, value = int(workload.attribute[row]), int(workload.value[row])
            texts = workload.texts.get(attribute)
            shown = value if texts is None else texts[value]
            predicates.append([workload.attributes[attribute], OPERATORS[int(workload.operator[row])], shown])
        found.append({"event_types": ["offer"], "predicates": predicates})
    return found


def fill(place: str, subscriptions: int) -> None:
    """Make a store with subscriptions, and its index on disk."""
    workload = market(subscriptions, 1)
    with Broker.open(place, schema=market_schema(workload), matching="pipeline", sweep=False) as broker:
        every = documents(workload)
        for start in range(0, len(every), AT_ONCE):
            broker.subscribe_all(every[start : start + AT_ONCE], owner=f"owner-{start // AT_ONCE % OWNERS}")
        broker.save_index()


def publish(options: argparse.Namespace) -> None:
    """Publish and change subscriptions at steady rates, in this process."""
    events = market(1, 50_000, seed=5)
    others = documents(market(options.changes * (options.seconds + options.warm), 1, seed=9))
    raws = [
        {
            "event_type": "offer",
            **{
                name: (events.texts[at][value] if at in events.texts else value)
                for at, (name, value) in enumerate(zip(events.attributes, row, strict=True))
            },
        }
        for row in events.events.T.tolist()
    ]
    rng = random.Random(3)
    live = []
    with Broker.open(options.publish, sweep=False) as broker:
        started, sent, changed = time.monotonic(), 0, 0
        while (now := time.monotonic() - started) < options.seconds + options.warm:
            due = int(now * options.rate)
            if due > sent:
                broker.publish([raws[at % len(raws)] for at in range(sent, due)])
                sent = due
            wanted = int(now * options.changes)
            if wanted > changed:
                count = wanted - changed
                live += broker.subscribe_all(others[changed % len(others) :][: count // 2 + 1], owner="churn")
                if len(live) > 50:
                    gone = [live.pop(rng.randrange(len(live))) for _ in range(count - count // 2 - 1)]
                    broker.unsubscribe_all(gone, owner="churn")
                changed = wanted
            time.sleep(max(0.0, TICK_SECONDS - (time.monotonic() - started - now)))


def floor_ms(spark: SparkSession, folder: Path) -> float:
    """Return the median duration of a trigger with nothing to do but pass rows on."""

    def pass_on(rows: Any, _batch: int) -> None:
        rows.toArrow()

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
    query = rows.writeStream.foreachBatch(pass_on).option("checkpointLocation", str(folder / "floor")).start()
    while query.lastProgress is None or query.lastProgress["batchId"] < 30:
        time.sleep(0.1)
    durations = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress][10:]
    query.stop()
    return float(np.median(durations))


def durations_ms(spark: SparkSession) -> dict[str, float]:
    """Return where the time of the last micro-batches went, the median of each part."""
    (query,) = [query for query in spark.streams.active if query.name == "match"]
    times = [progress["durationMs"] for progress in query.recentProgress if progress["numInputRows"]]
    return {name: float(np.median([one.get(name, 0) for one in times])) for name in times[-1]}


def check(place: str) -> int:
    """Check the notifications of a sample of events against the definition as of their seqs; return how many."""
    from tocsin.pipeline.followers import open_store
    from tocsin.store import schema_history

    store = open_store(place)
    with store.read() as connection:
        newest = schema_history.newest(connection)
        assert newest is not None
        events = read_events(connection, 0, 10_000_000)
        chosen = random.Random(1).sample(events, min(SAMPLE, len(events)))
        leases = [row for rows in leases_since(connection, 0, 0, trees=True) for row in rows]
        found: dict[int, list[int]] = {event.seq: [] for event in chosen}
        for _, _, _, block in all_blocks(connection):
            for seq, id in zip(block.seq.tolist(), block.subscription.tolist(), strict=True):
                if seq in found:
                    found[seq].append(id)
    reached = {id for ids in found.values() for id in ids}
    drawn = {row.id for row in random.Random(2).sample(leases, min(DRAWN, len(leases)))}
    leases = [row for row in leases if row.id in reached | drawn]
    bound = {row.id: bind(from_json(json.loads(row.tree or b"")), newest.schema) for row in leases}
    for event in chosen:
        admitted = newest.schema.admit(json.loads(event.body))
        right = [
            row.id for row in leases
            if row.id < event.seq and (row.deleted_seq is None or event.seq < row.deleted_seq)
            and row.start_us <= event.arrival_us < row.end_us and evaluate(bound[row.id], admitted)
        ]  # fmt: skip
        assert sorted(found[event.seq]) == sorted(right), f"event {event.seq} differs from the definition"
    return len(chosen)


if __name__ == "__main__":
    main()
