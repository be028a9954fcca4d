"""Predictions of `tocsin capacity` beside runs: figures from a small sample, then three larger sizes, in one process.

    python -m benchmarks.capacity [--spark]

With --spark the same is done through match() on local[2], one size. Results: benchmarks/results/capacity.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.results import store
from tocsin.pipeline.capacity import (
    MachineFigures,
    _batch_of,
    _loaded,
    _timed,
    engine_cost_us,
    event_cost_us,
    made_sample,
    measure_figures,
)

SIZES = (100_000, 200_000, 400_000)
SAMPLE = 50_000
MATCHES = 50.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args(arguments)
    figures = measure_figures(*made_sample(SAMPLE, MATCHES))
    print(figures)
    for size in SIZES:
        schema, lines, events = made_sample(size, MATCHES)
        batch = _batch_of(schema, events)
        matcher = _loaded(schema, lines)
        _, found, ids = _timed(matcher, batch)
        run_us, run_bytes = found / batch.num_rows * 1e6, matcher.stats().bytes
        matches = ids / batch.num_rows
        predicted_us = engine_cost_us(figures, size, matches)
        predicted_bytes = size * figures.bytes_per_subscription
        off = [predicted_us / run_us - 1, predicted_bytes / run_bytes - 1]
        print(
            f"{size:>9,} subscriptions, {matches:.1f} matches: {predicted_us:.2f} us predicted, {run_us:.2f} run "
            f"({off[0]:+.0%}); {predicted_bytes / 1e6:.1f} MB predicted, {run_bytes / 1e6:.1f} MB ({off[1]:+.0%})"
        )
        store("capacity", {"size": size, "predicted_us": predicted_us, "run_us": run_us,
                           "predicted_bytes": predicted_bytes, "run_bytes": run_bytes})  # fmt: skip
    if given.spark:
        through_spark(figures)


def through_spark(figures: MachineFigures, size: int = SAMPLE, rows: int = 400_000) -> None:
    """Hold the events per second of counts on two cores against the prediction."""
    import tempfile

    from pyspark.sql import functions

    from tocsin.spark import SubscriptionTable, match, session

    schema, lines, _ = made_sample(size, MATCHES)
    kinds = round(size / (2 * MATCHES))
    with tempfile.TemporaryDirectory() as folder, session("local[2]") as spark:
        table = SubscriptionTable(f"{folder}/table", schema)
        table.replace(lines)
        events = spark.range(0, rows, 1, 4).select(
            (functions.col("id") % kinds).alias("kind"), (functions.col("id") % 1000).alias("price"),
            functions.lit("a").alias("shop"),
        )  # fmt: skip
        events.write.parquet(f"{folder}/events")
        events = spark.read.parquet(f"{folder}/events")
        seconds = []
        for _ in range(4):
            started = time.perf_counter()
            match(events, table, output="counts", keep=["kind"]).agg(functions.sum("matches")).collect()
            seconds.append(time.perf_counter() - started)
    run = rows / min(seconds)
    predicted = 2e6 / event_cost_us(figures, size, 0.0)
    print(f"Spark, local[2], counts: {predicted:,.0f} events/s predicted, {run:,.0f} run ({predicted / run - 1:+.0%})")
    store("capacity", {"spark": True, "predicted": predicted, "run": run})


if __name__ == "__main__":
    main()
