"""The store's event log as a streaming source, and its matches as another.

    spark.dataSource.register(StoreEventSource)
    spark.readStream.format("tocsin_store").option("store", "tocsin.db").load()

An offset is a seq: everything up to it has been read. Because transactions commit in the order of their seqs, what the
log shows up to a seq never changes, so a replayed batch reads the same rows. Workers read their ranges of seqs from the
database themselves; nothing passes through the driver.

StoreMatchSource matches what it reads in the same process. Reading and matching as two steps would be two Python processes
for each task, with every event sent through the JVM between them. Used by log_query.py, for the store as a sink; other
sinks want a row an event (stored_matching.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType
from sqlalchemy import func, select

from tocsin.pipeline.followers import open_store
from tocsin.pipeline.stored_matching import BLOCKS, BlocksStored
from tocsin.store.events import read_events
from tocsin.store.tables import events

if TYPE_CHECKING:
    import pyarrow as pa


FORMAT = "tocsin_store"
ROWS_AT_ONCE = 5_000
FEWEST_PER_PARTITION = 1_000  # seqs: below that a second task costs more than it saves
DEFAULT_EVENTS_PER_BATCH = 20_000
MATCHED = "matched"  # start after what has been matched already

SCHEMA = StructType(
    [
        StructField("after_seq", LongType()),  # where the batch starts: the same in all its rows
        StructField("seq", LongType()),
        StructField("event_id", BinaryType()),
        StructField("schema_version", IntegerType()),
        StructField("arrival_us", LongType()),
        StructField("body", StringType()),
    ]
)


class StoreEventSource(DataSource):
    """The log of the store that the option `store` names.

    Options: `start`, a seq, or "matched" for what has not been matched yet (the default); `partitions`, the most
    tasks of a batch; `maxEventsPerBatch`.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        del schema
        return StoreEventReader(self.options)


class SeqRange(InputPartition):
    """The events in (after, through]; `batch_after` is where the whole batch starts."""

    def __init__(self, batch_after: int, after: int, through: int) -> None:
        self.batch_after, self.after, self.through = batch_after, after, through


class StoreEventReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log range by range."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._store = options["store"]
        self._start = options.get("start", MATCHED)
        self._last: int | None = None  # the seq that a query ends at, where it is to end
        self._partitions = int(options.get("partitions", "2"))
        self._most = int(options.get("maxeventsperbatch", options.get("maxEventsPerBatch", DEFAULT_EVENTS_PER_BATCH)))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._start == MATCHED:
            return {"seq": open_store(self._store).meta().matched_through}
        return {"seq": int(self._start)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the seq of the last event that the next batch may have; `start` where there is no new one."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        waiting = select(events.c.seq).where(events.c.seq > start["seq"]).order_by(events.c.seq).limit(most)
        if self._last is not None:
            waiting = waiting.where(events.c.seq <= self._last)
        with open_store(self._store).read() as connection:
            last = connection.execute(select(func.max(waiting.subquery().c.seq))).scalar()
        return start if last is None else {"seq": int(last)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = open_store(self._store).meta().seq

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        with open_store(self._store).read() as connection:
            last = connection.execute(select(func.max(events.c.seq))).scalar()
        return {"seq": int(last or 0)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = int(start["seq"]), int(end["seq"])
        count = max(1, min(self._partitions, (last - first) // FEWEST_PER_PARTITION))
        cuts = [first + (last - first) * at // count for at in range(count + 1)]
        return [SeqRange(first, low, high) for low, high in itertools.pairwise(cuts) if low < high]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SeqRange)
        after = partition.after
        while True:
            with open_store(self._store).read() as connection:
                found = read_events(connection, after, ROWS_AT_ONCE, through_seq=partition.through)
            if found:
                yield _batch(partition.batch_after, found)
                after = found[-1].seq
            if len(found) < ROWS_AT_ONCE:
                return


def _batch(batch_after: int, found: list[Any]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array([batch_after] * len(found), pa.int64()),
            pa.array([event.seq for event in found], pa.int64()),
            pa.array([event.event_id for event in found], pa.binary()),
            pa.array([event.schema_version for event in found], pa.int32()),
            pa.array([event.arrival_us for event in found], pa.int64()),
            pa.array([event.body.decode() for event in found], pa.string()),
        ],
        names=SCHEMA.names,
    )


MATCHES_FORMAT = "tocsin_store_matches"


class StoreMatchSource(StoreEventSource):
    """The matches of the log, as BlocksStored gives them. Options as the log's, and those of BlocksStored."""

    @classmethod
    def name(cls) -> str:
        return MATCHES_FORMAT

    def schema(self) -> str:  # type: ignore[override]  # Spark takes a schema as text too
        return BLOCKS

    def streamReader(self, schema: object) -> StoreMatchReader:  # noqa: N802
        del schema
        return StoreMatchReader(self.options)


class StoreMatchReader(StoreEventReader):
    """Reads the log range by range, and matches what it reads."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._match = BlocksStored(
            self._store,
            options.get("engine", "columnar"),
            options.get("index"),
            options.get("operators"),
            options.get("programs"),
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._match(super().read(partition))
