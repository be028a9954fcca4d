"""The query at the heart of the running pipeline: the store's log -> matches as of seq -> the store's notifications.

Every micro-batch: Spark logs its offsets (seqs); workers read their ranges of the log, bring their subscriptions up to
the last seq they read, and match; the driver stores matches and dead letters in one transaction; Spark commits. A crash
anywhere in between replays the batch, and the store takes only what it has not got (store_sink.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tocsin.pipeline.crash import reach
from tocsin.pipeline.match_source import StoreMatchSource
from tocsin.pipeline.meter import BatchReport, Meter
from tocsin.pipeline.store_sink import longs, store_batch
from tocsin.pipeline.store_source import StoreEventSource
from tocsin.pipeline.stored_matching import OUTPUT, MatchStored
from tocsin.pipeline.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

NAME = "match"


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What the query needs to know."""

    store: str
    checkpoint: str
    partitions: int = 2
    events_per_batch: int = 20_000
    engine: str = "columnar"
    index: str | None = None
    trigger_seconds: float = 0.0
    until_idle: bool = False  # end when everything that is there is matched
    start: str = "matched"  # where a query without a checkpoint begins: a seq, or after what has been matched
    operators: str | None = None  # those that subscriptions may call: see operators/registry.py
    programs: str | None = None  # those that offers may call: a file, see offers/program_files.py


def read_log(spark: SparkSession, query: LogQuery, *, start: str | None = None) -> DataFrame:
    """Return the log as a streaming DataFrame."""
    return _read(spark, query, StoreEventSource, start).load()


def _read(
    spark: SparkSession, query: LogQuery, source: type[StoreEventSource], start: str | None = None
) -> DataStreamReader:
    spark.dataSource.register(source)
    return (
        spark.readStream.format(source.name())
        .option("store", query.store)
        .option("start", start or query.start)
        .option("partitions", str(query.partitions))
        .option("maxEventsPerBatch", str(query.events_per_batch))
    )


def match_log(spark: SparkSession, query: LogQuery, *, with_body: bool = False) -> DataFrame:
    """Return the matches of the log's events, a row an event, as a streaming DataFrame."""
    matching = MatchStored(query.store, query.engine, query.index, with_body, query.operators, query.programs)
    return read_log(spark, query).mapInArrow(matching, OUTPUT)


def start_log_query(spark: SparkSession, query: LogQuery, meter: Meter) -> StreamingQuery:
    """Start matching the log into the store."""
    source = _read(spark, query, StoreMatchSource).option("engine", query.engine)
    given = {"index": query.index, "operators": query.operators, "programs": query.programs}
    blocks = source.options(**{name: value for name, value in given.items() if value is not None}).load()
    writer = blocks.writeStream.queryName(NAME).foreachBatch(_sink(query, meter))
    writer = writer.option("checkpointLocation", query.checkpoint)
    if query.until_idle:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(query.trigger_seconds * 1000)} milliseconds")
    return writer.start()


def _sink(query: LogQuery, meter: Meter) -> Callable[[DataFrame, int], None]:
    def store_matches(matches: DataFrame, batch: int) -> None:
        reach("pipeline.after-offsets")
        started = time.perf_counter()
        store = open_store(query.store)
        rows = matches.toArrow()
        reach("pipeline.before-sink")
        stored = store_batch(store, rows)
        reach("pipeline.after-sink")
        stands = store.meta()
        now_us = store.clock.mark(stands.mark.now_us).now_us
        arrivals = longs(rows, "arrivals_us").tolist() if stored.events else ()
        meter.record(
            BatchReport(
                NAME,
                batch,
                stored.events,
                stored.matches,
                stored.dead_letters,
                time.perf_counter() - started,
                stored.through_seq,
                lag=stands.seq - stored.through_seq,
                index_seq=stored.through_seq,
                latencies_ms=tuple((now_us - arrival) / 1000 for arrival in arrivals),
                cache_hits=stored.cache_hits,
                cache_misses=stored.cache_misses,
            )
        )

    return store_matches
