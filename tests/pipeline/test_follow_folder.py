"""A stream that follows a folder of subscriptions: new versions are taken up, and a batch run again gives the same."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.pipeline.worlds import write_table
from tocsin.pipeline.subscription_table import read_manifest
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute
from tocsin.spark import match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema(
    {"number": NumericDomain(name="number")}, {"a": "number"}, {"event": EventType("event", (TypeAttribute("a"),))}
)


def subscribe(folder: Path, id: int) -> None:
    write_table(folder, [json.dumps({"id": id, "text": "a > 0"})], SCHEMA)


def wait_for_effect(folder: Path) -> None:
    """Wait until the newest version counts for the micro-batches to come."""
    while time.time_ns() // 1000 <= read_manifest(folder).effective_us:
        time.sleep(0.01)


def test_a_micro_batch_that_is_run_again_after_a_change_gives_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    subscriptions, source, out, checkpoint = (tmp_path / name for name in ("s", "in", "out", "checkpoint"))
    source.mkdir()
    subscribe(subscriptions, 1)

    def run(number: int) -> None:
        """Let one more event come, and match what is there."""
        unfinished = tmp_path / f"{number}.tmp"
        unfinished.write_text(json.dumps({"n": number, "a": 1.0}))
        unfinished.rename(source / f"{number}.json")
        again()

    def again() -> None:
        events = spark.readStream.schema("n long, a double").option("maxFilesPerTrigger", 1).json(str(source))
        writer = match(events, subscriptions, event_id="n").writeStream.format("parquet").option("path", str(out))
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    def found() -> list[tuple[int, int]]:
        return sorted((row.n, row.subscription) for row in spark.read.parquet(str(out)).collect())

    run(0)
    subscribe(subscriptions, 2)
    wait_for_effect(subscriptions)
    run(1)
    assert found() == [(0, 1), (1, 1), (1, 2)]
    subscribe(subscriptions, 3)
    wait_for_effect(subscriptions)
    # The sink and the last commit are lost; the offsets of the batch, and its time, are in Spark's log.
    for place in (checkpoint / "commits", out / "_spark_metadata"):
        for lost in (place / "1", place / ".1.crc"):
            lost.unlink(missing_ok=True)
    for lost in out.glob("*.parquet"):
        if spark.read.parquet(str(lost)).filter("n = 1").count():
            lost.unlink()
    again()
    assert found() == [(0, 1), (1, 1), (1, 2)]
    run(2)
    assert found()[3:] == [(2, 1), (2, 2), (2, 3)]
