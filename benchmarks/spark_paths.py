"""The forms in which events come, side by side in one run on local[2]: columns, JSON text, VARIANT, a map; and compiling.

    python -m benchmarks.spark_paths
    python -m benchmarks.spark_paths --worker      only what a worker does, in this process, without Spark

Counts of matches against 100,000 subscriptions; answers are compared first, then the best of four runs counts. Results:
benchmarks/results/spark_paths.jsonl.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

from pyspark.sql import functions

from benchmarks.results import store
from tocsin.pipeline.capacity import made_sample
from tocsin.spark import SubscriptionTable, match, session

SUBSCRIPTIONS, EVENTS, MATCHES = 100_000, 200_000, 10.0
TEXTS = 20_000
TIMES = 4


def in_a_worker() -> None:
    """Hold columns and JSON against each other, as a worker gets them: batches of 5,000 rows."""
    import pyarrow as pa

    from tocsin.pipeline.match_batches import MatchBatches, Output
    from tocsin.pipeline.open_index import IndexReference
    from tocsin.pipeline.plan import Layout
    from tocsin.schema.files import dumps

    schema, lines, events = made_sample(SUBSCRIPTIONS // 2, MATCHES)
    with tempfile.TemporaryDirectory() as folder:
        SubscriptionTable(folder, schema).replace(lines)
        names = tuple(events[0])
        batches = {
            "columns": (pa.RecordBatch.from_pylist(events), Layout(plain=names)),
            "JSON text": (
                pa.RecordBatch.from_pydict({"body": [json.dumps(each) for each in events]}),
                Layout(whole="body"),
            ),
        }
        rates, answers = {}, []
        for name, (batch, layout) in batches.items():
            function = MatchBatches(IndexReference(folder, version=1), dumps(schema, "json"), layout, Output("counts"))
            answers.append(
                [row for (found) in [list(function(iter([batch])))] for row in found[0].column("matches").to_pylist()]
            )
            seconds = []
            for _ in range(2 * TIMES):
                started = time.perf_counter()
                list(function(iter([batch])))
                seconds.append(time.perf_counter() - started)
            rates[name] = batch.num_rows / min(seconds)
        assert answers[0] == answers[1]
    for name, rate in rates.items():
        print(f"{name:12} {rate:>10,.0f} events/s in one worker, {rate / rates['columns']:.0%} of columns")
    store("spark_paths", {"worker": rates})


def main() -> None:
    if "--worker" in sys.argv:
        in_a_worker()
        return
    schema, lines, _ = made_sample(SUBSCRIPTIONS, MATCHES)
    kinds = round(SUBSCRIPTIONS / (2 * MATCHES))
    with tempfile.TemporaryDirectory() as folder, session("local[2]") as spark:
        table = SubscriptionTable(f"{folder}/table", schema)
        table.replace(lines)
        rows = spark.range(0, EVENTS, 1, 4)
        columns = {"kind": functions.col("id") % kinds, "price": functions.col("id") % 1000, "shop": functions.lit("a")}
        plain = rows.select("id", *(column.alias(name) for name, column in columns.items()))
        body = functions.to_json(functions.struct(*columns))
        forms: dict[str, tuple[Any, dict[str, Any]]] = {
            "columns": (plain, {}),
            "JSON text": (plain.select("id", body.alias("body")), {"event_json": "body"}),
            "VARIANT": (plain.select("id", functions.parse_json(body).alias("body")), {"event_json": "body"}),
        }
        answers, rates = {}, {}
        for name, (frame, options) in forms.items():
            place = f"{folder}/{name.replace(' ', '_')}"
            frame.write.parquet(place)
            counts = match(spark.read.parquet(place), table, output="counts", event_id="id", **options)
            total = counts.agg(functions.sum("matches"), functions.sum(functions.hash("id", "matches")))
            seconds = []
            for _ in range(TIMES):
                started = time.perf_counter()
                answers[name] = tuple(total.collect()[0])
                seconds.append(time.perf_counter() - started)
            rates[name] = EVENTS / min(seconds)
        assert len(set(answers.values())) == 1, answers
        for name, rate in rates.items():
            print(f"{name:12} {rate:>10,.0f} events/s, {rate / rates['columns']:.0%} of columns")
        texts = [(str(at), f"kind = {at} and price < {at % 997} or shop = 'b{at}'") for at in range(TEXTS)]
        given = spark.createDataFrame(texts, "id string, text string").repartition(2)
        given.cache().count()
        started = time.perf_counter()
        change = SubscriptionTable(f"{folder}/compiled", schema).replace(given)
        first = time.perf_counter() - started
        started = time.perf_counter()
        again = SubscriptionTable(f"{folder}/compiled", schema).replace(given)
        second = time.perf_counter() - started
        assert (change.compiled, again.compiled) == (TEXTS, 0)
        print(
            f"texts that are each of a kind of their own: {TEXTS / first:,.0f}/s on two cores; known ones {TEXTS / second:,.0f}/s"
        )
        store("spark_paths", {"rates": rates, "texts_per_second": TEXTS / first, "known_per_second": TEXTS / second,
                              "matches": json.loads(json.dumps(answers["columns"]))[0]})  # fmt: skip


if __name__ == "__main__":
    main()
