"""What goes wrong on Spark is told: rejected rows are counted, or fail the job; stopping is no error; SQL has the function."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.broker.waiting import wait_until
from tocsin.errors import TocsinError
from tocsin.pipeline.session import _INTERRUPTED, _in_few_words, readable_errors
from tocsin.pipeline.subscription_table import SubscriptionTable
from tocsin.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = Schema.infer([{"price": 900.0, "brand": "mini"}])
WISHES = [("low", "price < 10"), ("high", "price >= 190")]


@pytest.fixture(scope="module")
def wishes(tmp_path_factory: pytest.TempPathFactory) -> SubscriptionTable:
    table = SubscriptionTable(tmp_path_factory.mktemp("wishes") / "table", SCHEMA)
    table.replace([json.dumps({"id": id, "text": text}) for id, text in WISHES])
    return table


@pytest.fixture(scope="module")
def bodies(spark: SparkSession) -> DataFrame:
    """200 events, of which every fourth is none."""
    from pyspark.sql import functions

    rows = spark.range(0, 200, 1, 1)
    good = functions.to_json(
        functions.struct(functions.col("id").cast("double").alias("price"), functions.lit("a").alias("brand"))
    )
    return rows.withColumn("body", functions.when(functions.col("id") % 4 == 3, '{"price": "dear"}').otherwise(good))


def test_rejected_rows_are_counted_by_observe_and_not_told(bodies: DataFrame, wishes: SubscriptionTable) -> None:
    from pyspark.sql import Observation

    from tocsin.spark import match

    seen = Observation("tocsin")
    matched = match(bodies, wishes, event_id="id", event_json="body", metrics=seen)
    expected = {(n, "low") for n in range(10) if n % 4 != 3} | {(n, "high") for n in range(190, 200) if n % 4 != 3}
    assert {(row.id, row.subscription) for row in matched.collect()} == expected
    assert matched.columns == ["id", "subscription"]
    assert seen.get == {"rows": len(expected), "rejected": 50}


def test_a_stream_tells_rejected_rows_in_its_progress(
    spark: SparkSession, bodies: DataFrame, wishes: SubscriptionTable, tmp_path: Path
) -> None:
    from tocsin.spark import match

    bodies.write.parquet(str(tmp_path / "events"))
    events = spark.readStream.schema(bodies.schema).parquet(str(tmp_path / "events"))
    counts = match(events, wishes, event_id="id", event_json="body", output="counts", metrics="tocsin")
    query = (
        counts.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    told = [progress["observedMetrics"] for progress in query.recentProgress if progress["numInputRows"]]
    assert [(each["tocsin_events"]["events"], each["tocsin"]["rows"], each["tocsin"]["rejected"]) for each in told] == [
        (200, 150, 50)
    ]


def test_a_share_of_rejected_rows_fails_the_job_with_examples(bodies: DataFrame, wishes: SubscriptionTable) -> None:
    from tocsin.spark import match

    options: dict[str, Any] = {"event_id": "id", "event_json": "body", "output": "counts"}
    assert match(bodies, wishes, **options, invalid_share=0.3).count() == 150
    with pytest.raises(Exception, match=r"\d+ of \d+ rows of a task are no events") as failure:
        match(bodies, wishes, **options, invalid_share=0.2).count()
    assert "'dear' is not a number" in str(failure.value) or "dear" in str(failure.value)
    assert match(bodies, wishes, **options, invalid_share=None).count() == 150


def test_plans_name_what_tocsin_does(bodies: DataFrame, wishes: SubscriptionTable) -> None:
    from tocsin.spark import match, validate

    plan = match(bodies, wishes, event_id="id", event_json="body")._jdf.queryExecution().toString()
    assert "tocsin_match(" in plan
    judged = validate(bodies, SCHEMA, event_json="body").judged
    assert "tocsin_validate(" in judged._jdf.queryExecution().toString()


def test_sql_has_matching_as_a_table_function(
    spark: SparkSession, bodies: DataFrame, wishes: SubscriptionTable
) -> None:
    from tocsin.spark import match, register_functions

    register_functions(spark)
    bodies.createOrReplaceTempView("tocsin_bodies")
    for output in ("pairs", "lists", "counts"):
        found = spark.sql(
            f"SELECT * FROM tocsin_match(TABLE(tocsin_bodies), '{wishes.place}', event_id => 'id', "
            f"event_json => 'body', output => '{output}')"
        )
        expected = match(bodies, wishes, event_id="id", event_json="body", output=output)
        assert found.schema == expected.schema
        assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))
    with pytest.raises(Exception, match="has no argument 'outptu'"):
        spark.sql(f"SELECT * FROM tocsin_match(TABLE(tocsin_bodies), '{wishes.place}', outptu => 'pairs')").collect()


def test_finding_13_a_watermark_set_before_match_is_kept(
    spark: SparkSession, wishes: SubscriptionTable, tmp_path: Path
) -> None:
    from pyspark.sql import functions

    from tocsin.spark import match

    rows = spark.range(0, 4, 1, 1).select(
        functions.timestamp_seconds(functions.col("id") * 3600).alias("at"), functions.lit(1.0).alias("price"),
        functions.lit("a").alias("brand"),
    )  # fmt: skip
    for _ in range(2):  # the watermark of the first file counts for the second
        rows.coalesce(1).write.mode("append").parquet(str(tmp_path / "events"))
    reader = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)
    events = reader.parquet(str(tmp_path / "events")).withWatermark("at", "1 minute")
    matched = match(events, wishes, keep=["at"])
    hours = matched.groupBy(functions.window("at", "1 hour"), "subscription").count()
    writer = hours.writeStream.format("memory").queryName("tocsin_hours").outputMode("append")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.recentProgress[-1]["eventTime"]["watermark"].startswith("1970-01-01T02:59")
    assert spark.table("tocsin_hours").count() > 0


# --- stopping ---------------------------------------------------------------------------------------------------------

# As StreamExecution has it, without the names at its end.
SPARKS_REGEX = (
    r"py4j.protocol.Py4JJavaError: An error occurred while calling((.|\r\n|\r|\n)*)(java.lang.InterruptedException)"
)


class JavaError:
    """An exception of Java, as Py4J shows it."""

    def __init__(self, name: str, message: str, cause: JavaError | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> JavaError:  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self._name

    def getMessage(self) -> str:  # noqa: N802
        return self._message

    def getCause(self) -> JavaError | None:  # noqa: N802
        return self._cause


def test_finding_14_errors_of_java_are_told_in_few_words() -> None:
    interrupted = JavaError(
        "org.apache.spark.SparkException", "x" * 10**6, JavaError("java.lang.InterruptedException", "")
    )
    assert re.search(SPARKS_REGEX, str(_in_few_words(interrupted)))
    assert len(str(_in_few_words(interrupted))) == len(_INTERRUPTED)
    other = _in_few_words(JavaError("java.lang.IllegalStateException", "no place left " * 10**4))
    assert str(other).startswith("java.lang.IllegalStateException: no place left")
    assert len(str(other)) < 3_000
    assert not re.search(SPARKS_REGEX, str(other))


def test_finding_14_sparks_regex_reads_long_errors_on_our_sessions(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    long = (
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.collect.\n" + "at a.b.C.d(E.scala:1)\n" * 500
    )
    execution = jvm.org.apache.spark.sql.execution.streaming.runtime.StreamExecution
    error = jvm.py4j.Py4JException(long)
    assert not execution.isInterruptionException(error, spark.sparkContext._jsc.sc())


def test_finding_14_a_query_that_is_stopped_within_a_job_ends_without_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    started = tmp_path / "started"

    def hold(batches: Any) -> Any:
        import time
        from pathlib import Path

        Path(started).touch()
        while True:
            time.sleep(0.05)
            yield from ()

    def work(rows: DataFrame, _: int) -> None:
        rows.mapInArrow(hold, "value long").collect()

    events = spark.readStream.format("rate").option("rowsPerSecond", 100).load().select("value")
    query = (
        events.writeStream.foreachBatch(readable_errors(work)).option("checkpointLocation", str(tmp_path / "c")).start()
    )
    wait_until(started.exists)
    query.stop()
    assert query.exception() is None
    with pytest.raises(TocsinError, match="a plain one"):
        readable_errors(_raise)(None, 0)  # type: ignore[arg-type]


def _raise(*_: Any) -> None:
    raise TocsinError("a plain one")
