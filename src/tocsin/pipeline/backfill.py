"""backfill(subscriptions, archive, window): what would this have matched?

The archive is any DataFrame or Parquet folder of events with a time; `tocsin pipeline run --archive` writes one. The
matching is match()'s. `compare` does it for two whole versions of a set of subscriptions, per subscriber.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.errors import SchemaError
from tocsin.language import parse, render
from tocsin.pipeline.match import match
from tocsin.pipeline.match_batches import SUBSCRIPTION
from tocsin.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Window = tuple[datetime | None, datetime | None]
DRAFT = "draft"
TIME = "time"
BUCKET = "bucket"


@dataclass(frozen=True)
class LogBackfill:
    """What subscriptions would have matched. DataFrames are made when asked for; `matches` is behind all of them."""

    matches: DataFrame  # event_id, time, subscription, and the columns of the event that were kept

    def counts(self) -> DataFrame:
        """Return (subscription, matches, first, last) for every subscription that matched."""
        from pyspark.sql import functions

        return self.matches.groupBy(SUBSCRIPTION).agg(
            functions.count("*").alias("matches"), functions.min(TIME).alias("first"), functions.max(TIME).alias("last")
        )

    def histogram(self, bucket: str = "1 hour") -> DataFrame:
        """Return (bucket, subscription, matches) over time, in order; buckets without a match are not there."""
        from pyspark.sql import functions

        start = functions.window(TIME, bucket)["start"].alias(BUCKET)
        counted = self.matches.groupBy(start, SUBSCRIPTION).agg(functions.count("*").alias("matches"))
        return counted.orderBy(BUCKET, SUBSCRIPTION)

    def samples(self, number: int = 5) -> DataFrame:
        """Return the last matches of each subscription, so many at most."""
        from pyspark.sql import Window as Windows
        from pyspark.sql import functions

        newest = Windows.partitionBy(SUBSCRIPTION).orderBy(functions.col(TIME).desc(), functions.col("event_id"))
        ranked = self.matches.withColumn("_rank", functions.row_number().over(newest))
        return ranked.filter(functions.col("_rank") <= number).drop("_rank").orderBy(SUBSCRIPTION, TIME)


def backfill(
    subscriptions: str | DataFrame | Path,
    archive: DataFrame | str | Path,
    window: Window = (None, None),
    *,
    schema: Schema | str | Path | None = None,
    spark: SparkSession | None = None,
    time: str = "arrival",
    event_id: str = "event_id",
    **options: Any,
) -> LogBackfill:
    """Return what subscriptions would have matched in an archive between two times, the second not included.

    Args:
        subscriptions: A draft as text (its id is "draft"), or whatever match() takes.
        archive: A DataFrame, or the folder of Parquet files that the pipeline writes.
        window: From and to, on the column `time`; None leaves an end open.
        schema: As for match().
        spark: The session, where there is no DataFrame to take it from.
        time: The timestamp column of the archive.
        event_id: The column that names an event.
        options: Of match(): event_json, event_columns, keep, operators, programs, ...
    """
    events = read_archive(archive, spark, window, time)
    given = _as_given(subscriptions, events)
    if "event_json" not in options and "event_columns" not in options and "body" in events.columns:
        options["event_json"] = "body"  # an archive of the pipeline
    kept = [*options.pop("keep", ()), time]
    matched = match(events, given, schema=schema, event_id=event_id, output="pairs", keep=kept, **options)
    renamed = matched.withColumnRenamed(event_id, "event_id").withColumnRenamed(time, TIME)
    return LogBackfill(renamed)


def compare(
    before: str | DataFrame | Path,
    after: str | DataFrame | Path,
    archive: DataFrame | str | Path,
    window: Window = (None, None),
    *,
    owners: DataFrame | None = None,
    **options: Any,
) -> DataFrame:
    """Return (owner, before, after, gained, lost): the events that each of two sets would have brought a subscriber.

    Gained are those that only the second brings, lost those that only the first does.
    `owners` maps (subscription, owner); without it each subscription stands for itself. `options` are backfill's.
    """
    from pyspark.sql import functions

    def reached(subscriptions: str | DataFrame | Path, name: str) -> DataFrame:
        found = backfill(subscriptions, archive, window, **options).matches.select("event_id", SUBSCRIPTION)
        if owners is None:
            found = found.withColumnRenamed(SUBSCRIPTION, "owner")
        else:
            found = found.join(owners.select(SUBSCRIPTION, "owner"), SUBSCRIPTION).drop(SUBSCRIPTION)
        return found.distinct().withColumn(name, functions.lit(1))

    both = reached(before, "was").join(reached(after, "is"), ["owner", "event_id"], "full_outer")
    was, now = functions.col("was").isNotNull(), functions.col("is").isNotNull()
    return (
        both.groupBy("owner")
        .agg(
            functions.count_if(was).alias("before"),
            functions.count_if(now).alias("after"),
            functions.count_if(now & ~was).alias("gained"),
            functions.count_if(was & ~now).alias("lost"),
        )
        .orderBy("owner")
    )


def read_archive(archive: DataFrame | str | Path, spark: SparkSession | None, window: Window, time: str) -> DataFrame:
    """Return the events of an archive within a window; partitions by `date` outside of it are not read."""
    from pyspark.sql import SparkSession, functions

    if isinstance(archive, str | Path):
        session = spark or SparkSession.getActiveSession()
        if session is None:
            raise SchemaError("an archive's path needs a session: backfill(…, spark=spark)")
        events = session.read.parquet(str(archive))
    else:
        events = archive
    if time not in events.columns:
        raise SchemaError(f"the archive has no column {time!r}; it has {', '.join(events.columns)}")
    start, end = window
    if start is not None:
        events = events.filter(functions.col(f"`{time}`") >= functions.lit(start))
        if "date" in events.columns:
            events = events.filter(functions.col("date") >= functions.lit(start.date()))
    if end is not None:
        events = events.filter(functions.col(f"`{time}`") < functions.lit(end))
        if "date" in events.columns:
            events = events.filter(functions.col("date") <= functions.lit(end.date()))
    return events


def _as_given(subscriptions: str | DataFrame | Path, events: DataFrame) -> str | DataFrame | Path:
    """Return a draft as a DataFrame of one subscription; the rest as it is."""
    if not isinstance(subscriptions, str) or Path(subscriptions).exists() or "://" in subscriptions:
        return subscriptions
    text = render(parse(subscriptions))  # raises here, with the place, if it is wrong
    return events.sparkSession.createDataFrame([(DRAFT, text)], "id string, text string")
