"""A Spark application: events in, matched against a table of subscriptions, matches out; batch, or a stream.

    spark-submit match_job.py --events s3a://bucket/events --table s3://bucket/wishes --out s3a://bucket/matches
    spark-submit match_job.py --events kafka:broker:9092/events --table … --out delta:s3a://bucket/matches --checkpoint …

Sinks of a stream: parquet (a path), delta:PATH, kafka:SERVERS/TOPIC, jdbc:URL (table `matches`, keyed by event and
subscription, so that a micro-batch that is run again writes nothing twice), webhook:URL (POSTs of JSON lines; the header
idempotency-key is the same when a micro-batch is run again, so that the receiver can leave out what it has).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from tocsin.spark import match, readable_errors

POST_ROWS = 1_000


def read_events(spark: SparkSession, place: str, *, stream: bool) -> DataFrame:
    """Return events, with the columns `id` and `body`."""
    if place.startswith("kafka:"):
        servers, _, topic = place.removeprefix("kafka:").rpartition("/")
        reader = (spark.readStream if stream else spark.read).format("kafka").option("kafka.bootstrap.servers", servers)
        rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        return rows.select(
            functions.concat_ws("/", "topic", "partition", "offset").alias("id"),
            functions.col("value").cast("string").alias("body"),
        )
    if place.startswith("delta:"):
        return (spark.readStream if stream else spark.read).format("delta").load(place.removeprefix("delta:"))
    if not stream:
        return spark.read.parquet(place)
    return spark.readStream.schema(spark.read.parquet(place).schema).parquet(place)


def write_jdbc(url: str, rows: DataFrame, batch: int) -> None:
    """Add rows that are not there: they are written beside, and taken over by their key.

    CREATE TABLE matches ("id" VARCHAR(200), "subscription" VARCHAR(200), "batch" BIGINT, PRIMARY KEY ("id", "subscription"))
    """
    types = {"truncate": "true", "createTableColumnTypes": "id VARCHAR(200), subscription VARCHAR(200)"}
    texts = [functions.col(name).cast("string").alias(name) for name in ("id", "subscription")]
    rows.select(*texts, functions.lit(batch).alias("batch")).write.jdbc(url, "matches_incoming", "overwrite", types)
    java: Any = rows.sparkSession._jvm
    connection = java.java.sql.DriverManager.getConnection(url)
    try:
        connection.createStatement().executeUpdate(TAKE_OVER)
    finally:
        connection.close()


TAKE_OVER = """
INSERT INTO matches ("id", "subscription", "batch")
SELECT i."id", i."subscription", i."batch" FROM matches_incoming i WHERE NOT EXISTS
(SELECT 1 FROM matches m WHERE m."id" = i."id" AND m."subscription" = i."subscription")
"""


def post_rows(url: str, rows: DataFrame, batch: int) -> None:
    """Send rows to a webhook, from the workers, some at a time."""

    def post(part: Any) -> None:
        waiting: list[str] = []
        for row in part:
            waiting.append(json.dumps(row.asDict()))
            if len(waiting) == POST_ROWS:
                _post(url, waiting, batch)
                waiting = []
        if waiting:
            _post(url, waiting, batch)

    rows.foreachPartition(post)


def _post(url: str, lines: Sequence[str], batch: int) -> None:
    body = "\n".join(lines).encode()
    key = hashlib.blake2b(body, digest_size=16).hexdigest()
    headers = {"content-type": "application/x-ndjson", "idempotency-key": f"{batch}-{key}"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - the operator's address
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        answer.read()


def start_sink(matched: DataFrame, out: str, checkpoint: str, *, available_now: bool) -> Any:
    """Return the running query."""
    writer = matched.writeStream.option("checkpointLocation", checkpoint).queryName("tocsin")
    kind, _, place = out.partition(":")
    if kind == "jdbc":
        writer = writer.foreachBatch(readable_errors(lambda rows, batch: write_jdbc(out, rows, batch)))
    elif kind == "webhook":
        writer = writer.foreachBatch(readable_errors(lambda rows, batch: post_rows(place, rows, batch)))
    elif kind == "kafka":
        servers, _, topic = place.rpartition("/")
        messages = matched.select(
            functions.col("id").alias("key"), functions.to_json(functions.struct("*")).alias("value")
        )
        writer = messages.writeStream.option("checkpointLocation", checkpoint).format("kafka")
        writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic)
    elif kind == "delta":
        writer = writer.format("delta").option("path", place)
    else:
        writer = writer.format("parquet").option("path", out)
    return (writer.trigger(availableNow=True) if available_now else writer).start()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the application."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--checkpoint", help="makes it a stream")
    parser.add_argument("--until-idle", action="store_true")
    given = parser.parse_args(arguments)
    spark = SparkSession.builder.appName("tocsin match").getOrCreate()
    events = read_events(spark, given.events, stream=given.checkpoint is not None)
    matched = match(events, given.table, event_id="id", event_json="body", metrics="tocsin")
    if given.checkpoint is None:
        kind, _, place = given.out.partition(":")
        frame = matched.write.mode("overwrite")
        frame.format("delta").save(place) if kind == "delta" else frame.parquet(given.out)
        return
    start_sink(matched, given.out, given.checkpoint, available_now=given.until_idle).awaitTermination()


if __name__ == "__main__":
    main()
