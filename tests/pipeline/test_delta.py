"""Finding 8: Delta as source and sink, batch and stream, for real: in the environment of `make earlierspark`.

Delta's newest release does not run on the newest Spark, so these run where delta-spark is installed, with an earlier one
(tools/earlier_spark.lock). Its jars come from Maven Central by name, and are kept in ~/.cache/tocsin/jars.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("delta", reason="delta-spark is in the environment of `make earlierspark`")

from tests.pipeline.test_kafka import fetch
from tocsin.pipeline.session import session
from tocsin.pipeline.subscription_table import SubscriptionTable
from tocsin.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow
SCHEMA = Schema.infer([{"price": 900.0, "brand": "mini"}])
WISHES = [("low", "price < 10"), ("high", "price >= 30")]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give a session that has Delta, at the version of the package."""
    import pyspark

    spark, delta = ".".join(pyspark.__version__.split(".")[:2]), version("delta-spark")
    found = fetch("io.delta", f"delta-spark_{spark}_2.13", delta).split(":")
    jars = [jar for jar in found if "scala-library" not in jar]
    settings = {
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("lake")),
        "spark.driver.memory": "1g",
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    }
    with session("local[2]", streaming=True, settings=settings) as spark_session:
        yield spark_session


def events_of(lake: SparkSession, first: int, count: int) -> DataFrame:
    rows = [(n, json.dumps({"price": float(n), "brand": "a"})) for n in range(first, first + count)]
    return lake.createDataFrame(rows, "id long, body string")


def pairs(rows: DataFrame) -> list[tuple[int, str]]:
    return sorted((row.id, row.subscription) for row in rows.collect())


def expected(*numbers: int) -> list[tuple[int, str]]:
    return sorted([(n, "low") for n in numbers if n < 10] + [(n, "high") for n in numbers if n >= 30])


def test_finding_8_delta_is_source_and_sink_of_batches_and_of_subscriptions(lake: SparkSession, tmp_path: Path) -> None:
    from tocsin.spark import match

    place = {name: str(tmp_path / name) for name in ("events", "wishes", "matches")}
    events_of(lake, 0, 40).write.format("delta").save(place["events"])
    lake.createDataFrame(WISHES, "id string, text string").write.format("delta").save(place["wishes"])
    table = SubscriptionTable(tmp_path / "table", SCHEMA)
    assert table.replace(lake.read.format("delta").load(place["wishes"])).compiled == 2
    events = lake.read.format("delta").load(place["events"])
    match(events, table, event_id="id", event_json="body").write.format("delta").save(place["matches"])
    assert pairs(lake.read.format("delta").load(place["matches"])) == expected(*range(40))


def test_finding_8_a_stream_from_delta_to_delta_has_each_match_once_after_a_replay(
    lake: SparkSession, tmp_path: Path
) -> None:
    from tocsin.spark import match

    events, matches, checkpoint = (str(tmp_path / name) for name in ("events", "matches", "checkpoint"))
    table = SubscriptionTable(tmp_path / "table", SCHEMA)
    table.replace([json.dumps({"id": id, "text": text}) for id, text in WISHES])

    def run() -> None:
        matched = match(
            lake.readStream.format("delta").load(events), table.place, schema=SCHEMA, event_id="id", event_json="body"
        )
        writer = matched.writeStream.format("delta").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(matches).awaitTermination()

    events_of(lake, 0, 20).write.format("delta").save(events)
    run()
    events_of(lake, 20, 20).write.format("delta").mode("append").save(events)
    run()
    table.replace([json.dumps({"id": "all", "text": "price >= 0"})])  # between the batch and its replay
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    run()
    assert pairs(lake.read.format("delta").load(matches)) == expected(*range(40))
