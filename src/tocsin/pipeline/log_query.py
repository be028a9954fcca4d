"""The query at the heart of the running pipeline: the store's log -> matches as of seq -> the store's notifications.

Every micro-batch: Spark logs its offsets (seqs); workers read their ranges of the log, bring their subscriptions up to
the last seq they read, and match; the driver stores matches and dead letters in one transaction; Spark commits. A crash
anywhere in between replays the batch (POINTS are where tests kill the driver or a worker), and the store takes only what
it has not got: the transaction that writes matches moves `matched_through` past their events, from where it stood and
only forward (store/notifications.py). So a replayed micro-batch, whether cut as before or otherwise, writes nothing; a
batch that would leave a gap is refused. Dead letters, and the values that offers computed, go into the same transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.pipeline.followers import open_store
from tocsin.pipeline.meter import BatchReport, Meter
from tocsin.pipeline.session import readable_errors
from tocsin.pipeline.store_source import StoreEventSource, StoreMatchSource
from tocsin.pipeline.stored_matching import OUTPUT, MatchStored
from tocsin.store import Store
from tocsin.store.events import NewDeadLetter, ValueBlock, add_dead_letters, add_values
from tocsin.store.notifications import Block, record_blocks
from tocsin.store.store import reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader


POINTS = (
    "pipeline.after-offsets",  # Spark has logged the batch's offsets; nothing of it is done
    "pipeline.mid-match",  # a worker has the batch's events and the subscriptions
    "pipeline.before-sink",  # the matches are in the driver, nothing is stored
    "pipeline.before-sink-commit",  # everything is written to the store, nothing is committed
    "pipeline.after-sink",  # the store has committed, Spark has not
)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a micro-batch brought that was not there."""

    events: int
    matches: int
    dead_letters: int
    through_seq: int
    cache_hits: int = 0  # of the workers' caches of program results, also for what was there
    cache_misses: int = 0


def store_batch(store: Store, rows: pa.Table) -> Stored:
    """Store the matches and dead letters of a batch of stored_matching.BLOCKS; return what was new."""
    if not rows.num_rows:
        return Stored(0, 0, 0, store.meta().matched_through)
    after_seq = min(rows.column("after_seq").to_pylist())
    seqs = np.sort(longs(rows, "seqs"))
    blocks = [block for packed in rows.column("blocks").to_pylist() for block in _read_blocks(packed)]
    letters = [letter for packed in rows.column("letters").to_pylist() for letter in _read_letters(packed)]
    values = [block for packed in rows.column("values").to_pylist() for block in _read_values(packed)]
    with store.write() as transaction:
        done = transaction.matched_through
        through = max(done, int(seqs[-1]))
        stored = record_blocks(transaction, after_seq, through, blocks)
        add_values(transaction, [block for block in values if block.seq > done])
        new = [letter for seq, letter in sorted(letters, key=lambda one: one[0]) if seq > done]
        if new:
            add_dead_letters(transaction, list(enumerate(new, transaction.draw(len(new)))))
        reach("pipeline.before-sink-commit")
    hits, misses = (sum(rows.column(name).to_pylist()) for name in ("cache_hits", "cache_misses"))
    return Stored(int((seqs > done).sum()), stored, len(new), through, hits, misses)


def longs(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """Return the numbers of a column of packed ones."""
    return np.frombuffer(b"".join(rows.column(name).to_pylist()), "<i8")


_read_blocks = msgspec.msgpack.Decoder(list[Block]).decode
_read_letters = msgspec.msgpack.Decoder(list[tuple[int, NewDeadLetter]]).decode
_read_values = msgspec.msgpack.Decoder(list[ValueBlock]).decode


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
    writer = blocks.writeStream.queryName(NAME).foreachBatch(readable_errors(_sink(query, meter)))
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
