"""The running pipeline: source -> validate -> match as of seq -> notifications, dead letters, metrics.

    store source, store sink     one query: log_query.py
    files or Kafka, store sink   two: ingest.py into the log, log_query.py from there
    store source, other sinks    the log's matches as rows, written by Spark's own sinks
    files or Kafka, other sinks  match() against the subscriptions as they are when a task begins
    archive                      one query more: the log into Parquet, by date

All of them are Structured Streaming queries with a checkpoint each, in one folder, which is claimed for the pipeline: the
store remembers that a pipeline of a name has run, and the folder carries an id that the store knows too. Where it is gone,
or is another's, that is said: the store's own marks (matched_through, idempotency keys) keep anything from being stored
twice, but a source from outside would be read again from its start. `tocsin pipeline run` is this module with a command
line (cli/pipeline.py).
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tocsin.errors import NotSupported, SchemaError, StoreError, TocsinError
from tocsin.language.mapping import MappingDocument
from tocsin.offers.program_files import open_programs
from tocsin.pipeline.followers import open_store, save_for_workers
from tocsin.pipeline.ingest import FileSource, KafkaSource, open_site, read_files, read_kafka, start_ingest_query
from tocsin.pipeline.log_query import LogQuery, match_log, read_log, start_log_query
from tocsin.pipeline.match import match
from tocsin.pipeline.meter import Meter
from tocsin.pipeline.stored_matching import notifications_of
from tocsin.schema import Schema
from tocsin.store import Store, schema_history
from tocsin.store.progress import read_progress, set_progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


HOLDS_NOTHING_BACK = 2**62  # as a progress: retention need not wait for a mere mark
_MARK = "tocsin.json"


class CheckpointLost(StoreError):
    """The pipeline has run before, and this checkpoint does not know of it."""

    def __init__(self, name: str, folder: str, what: str) -> None:
        self.name, self.folder = name, folder
        super().__init__(
            f"the pipeline {name!r} has run before, and its checkpoint {folder} {what}. Give it the right one; or, if it "
            "is lost, go on with --accept-lost-checkpoint: the source is then read from its start, and what the store "
            "has already is not stored again as long as its idempotency keys are kept"
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that may be used; `note` says what was noticed, if anything."""

    folder: str
    note: str | None = None


def claim_checkpoint(store: Store, name: str, folder: str, *, source_is_store: bool, accept_lost: bool) -> Checkpoint:
    """Return the checkpoint for a pipeline, marked as its own; raises CheckpointLost.

    Where the source is the store itself a lost checkpoint does no harm, since the store knows what it has matched:
    that is only noted.
    """
    with store.read() as connection:
        marks = {
            key: through for key, through in read_progress(connection).items() if key.startswith(f"pipeline:{name}:")
        }
    path = Path(folder)
    mark = _read_mark(path)
    known = {key.rsplit(":", 1)[1] for key in marks}
    note = None
    if known and mark not in known:
        what = "is empty" if mark is None else "is another pipeline's"
        if source_is_store:
            note = f"the checkpoint {folder} {what}; going on from what the store has matched"
        elif accept_lost:
            note = f"the checkpoint {folder} {what}; reading the source from its start"
        else:
            raise CheckpointLost(name, folder, what)
    if mark is None:
        mark = uuid.uuid4().hex[:12]
        path.mkdir(parents=True, exist_ok=True)
        (path / _MARK).write_text(json.dumps({"pipeline": name, "id": mark}) + "\n", encoding="utf-8")
    if mark not in known:
        with store.write() as transaction:
            set_progress(transaction, f"pipeline:{name}:{mark}", HOLDS_NOTHING_BACK)
    return Checkpoint(folder, note)


def _read_mark(path: Path) -> str | None:
    try:
        return str(json.loads((path / _MARK).read_text(encoding="utf-8"))["id"])
    except FileNotFoundError:
        return None


SinkKind = Literal["store", "kafka", "parquet", "jsonl", "console"]
POLL_SECONDS = 0.2
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Sink:
    """Where notifications go; `place` is a folder, or "servers topic" for Kafka."""

    kind: SinkKind = "store"
    place: str = ""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """What one running pipeline is made of. `source` is None for the store's own log."""

    store: str
    checkpoint: str
    name: str = "main"
    source: FileSource | KafkaSource | None = None
    sink: Sink = Sink()
    archive: str | None = None
    schema: Schema | None = None  # for a store that has none yet
    start: str = "matched"  # of the log: a seq, or after what has been matched
    partitions: int = 2
    events_per_batch: int = 20_000
    trigger_seconds: float = 0.0
    wait_for_schema_seconds: float = 60.0
    until_idle: bool = False  # end when all that is there is done, instead of waiting for more
    accept_lost_checkpoint: bool = False
    engine: str = "columnar"
    index: str | None = None  # the folder of the store's index; by default beside the store, if that is a file
    operators: str | None = None  # those that subscriptions may call: see operators/registry.py
    programs: str | None = None  # those that offers may call: a file that all workers see
    mapping: MappingDocument | None = None  # of the site whose documents the source has
    site: str | None = None  # as which they are stored, by its stored mapping where none is given


class Pipeline:
    """The queries of one pipeline, from start to stop."""

    def __init__(self, spark: SparkSession, settings: PipelineSettings, meter: Meter | None = None) -> None:
        self._spark, self.settings = spark, settings
        self.meter = meter or Meter()
        self.notes: list[str] = []
        self._queries: list[StreamingQuery] = []
        self._stop = threading.Event()

    def start(self) -> None:
        """Start the queries; raises CheckpointLost, SchemaError, FileError, NotSupported before any runs."""
        settings = self.settings
        store = open_store(settings.store)
        open_programs(settings.programs)  # a wrong file is refused now
        translates = settings.mapping is not None or settings.site is not None
        if translates and (settings.source is None or settings.sink.kind != "store"):
            raise NotSupported(
                "a mapping translates what comes from files or Kafka into the store, and so does a site's"
            )
        prepare_store(store, settings.schema, matching=settings.sink.kind == "store")
        if settings.site is not None:
            open_site(store, settings.site)  # one that is not there is refused now
        claimed = claim_checkpoint(
            store,
            settings.name,
            settings.checkpoint,
            source_is_store=settings.source is None,
            accept_lost=settings.accept_lost_checkpoint,
        )
        if settings.engine == "columnar":
            save_for_workers(settings.store, settings.index, settings.operators)
        if claimed.note:
            self.notes.append(claimed.note)
        if settings.sink.kind == "store":
            if settings.source is not None:
                self._queries.append(self._start_ingest(self._incoming(settings.source)))
            if not (settings.until_idle and settings.source is not None):
                self._queries.append(start_log_query(self._spark, self._log_query(), self.meter))
        else:
            self._queries.append(self._start_rows())
        if settings.archive is not None:
            self._queries.append(self._start_archive(settings.archive))
        self.meter.set_state("running")

    def stop(self) -> None:
        """Ask the pipeline to stop when the batches under way are done; `wait` returns then."""
        self._stop.set()

    def wait(self, on_poll: Callable[[], None] | None = None) -> None:
        """Return when the pipeline has ended: stopped, idle where that was asked, or failed, which raises."""
        try:
            while not self._stop.is_set() and any(query.isActive for query in self._queries):
                self.check()
                if on_poll is not None:
                    on_poll()
                self._stop.wait(POLL_SECONDS)
            self.check()
            if self.settings.until_idle and self.settings.source is not None and self.settings.sink.kind == "store":
                self._match_what_came()
        except BaseException:
            self.meter.set_state("failed")
            self._end_queries()
            raise
        self.meter.set_state("stopping")
        self._end_queries()
        self.meter.set_state("stopped")

    def run(self, on_poll: Callable[[], None] | None = None) -> None:
        """Start, and wait for the end."""
        self.start()
        self.wait(on_poll)

    # --- queries ------------------------------------------------------------------------------------------------------

    def _checkpoint(self, query: str) -> str:
        return str(Path(self.settings.checkpoint) / query)

    def _log_query(self) -> LogQuery:
        settings = self.settings
        return LogQuery(
            settings.store,
            self._checkpoint("match"),
            settings.partitions,
            settings.events_per_batch,
            settings.engine,
            settings.index,
            settings.trigger_seconds,
            settings.until_idle,
            settings.start,
            settings.operators,
            self._programs,
        )

    @property
    def _programs(self) -> str | None:
        """The file of programs by its whole path: workers may have been started elsewhere."""
        return None if self.settings.programs is None else str(Path(self.settings.programs).resolve())

    def _incoming(self, source: FileSource | KafkaSource) -> DataFrame:
        if isinstance(source, FileSource):
            return read_files(self._spark, source)
        return read_kafka(self._spark, source)

    def _start_ingest(self, incoming: DataFrame) -> StreamingQuery:
        settings = self.settings
        return start_ingest_query(
            incoming,
            settings.store,
            self._checkpoint("ingest"),
            name=settings.name,
            meter=self.meter,
            wait_for_schema_seconds=settings.wait_for_schema_seconds,
            until_idle=settings.until_idle,
            operators=settings.operators,
            programs=self._programs,
            mapping=settings.mapping,
            site=settings.site,
        )

    def _match_what_came(self) -> None:
        """Match the log once more, now that everything is in it."""
        query = start_log_query(self._spark, self._log_query(), self.meter)
        self._queries.append(query)
        query.awaitTermination()

    def _start_rows(self) -> StreamingQuery:
        """Start writing notifications, or matches of events from outside, as rows."""
        settings = self.settings
        if settings.source is None:
            rows = notifications_of(match_log(self._spark, self._log_query(), with_body=True))
        else:
            incoming = self._incoming(settings.source)
            rows = match(
                incoming, settings.store, event_json="body", keep=["place", "event_id", "body"], invalid="keep",
                details=True, operators=settings.operators, programs=self._programs,
            )  # fmt: skip
        writer = (
            _to_sink(rows, settings.sink).queryName("match").option("checkpointLocation", self._checkpoint("match"))
        )
        return (writer.trigger(availableNow=True) if settings.until_idle else writer).start()

    def _start_archive(self, folder: str) -> StreamingQuery:
        from pyspark.sql import functions

        log = read_log(self._spark, self._log_query(), start="0").drop("after_seq")
        arrival = functions.timestamp_micros("arrival_us")
        rows = log.withColumn("arrival", arrival).withColumn("date", functions.to_date("arrival"))
        writer = (
            rows.withColumn("event_id", functions.lower(functions.hex("event_id")))
            .writeStream.queryName("archive")
            .format("parquet")
            .partitionBy("date")
            .option("path", folder)
            .option("checkpointLocation", self._checkpoint("archive"))
        )
        return (writer.trigger(availableNow=True) if self.settings.until_idle else writer).start()

    # --- ending -------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise PipelineFailed if a query has ended with an error."""
        for query in self._queries:
            failure = query.exception()
            if failure is not None:
                raise PipelineFailed(query.name or "a query", str(failure)) from failure

    def _end_queries(self) -> None:
        """Stop queries between two batches where that can be awaited, else within one: it is replayed then."""
        deadline = time.monotonic() + STOP_SECONDS
        for query in self._queries:
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
                time.sleep(0.01)
            query.stop()


class PipelineFailed(TocsinError):
    """A query ended with an error; Spark's message follows."""

    def __init__(self, query: str, message: str) -> None:
        self.query = query
        super().__init__(f"the query {query} failed: {message}")


def prepare_store(store: Store, schema: Schema | None, *, matching: bool) -> None:
    """Give the store its first schema where it has none, and leave the matching of events to the pipeline."""
    with store.write() as transaction:
        if schema_history.newest(transaction.connection) is None:
            if schema is None:
                raise SchemaError("the store has no schema yet; give one: --schema FILE")
            schema_history.add_version(transaction, schema, "the first schema, by the pipeline")
        if matching and transaction.start.matching != "pipeline":
            transaction.set_meta(matching="pipeline")


def _to_sink(rows: DataFrame, sink: Sink) -> DataStreamWriter:
    from pyspark.sql import functions

    if sink.kind == "console":
        return rows.writeStream.format("console").option("truncate", "false")
    if sink.kind in ("parquet", "jsonl"):
        return rows.writeStream.format("json" if sink.kind == "jsonl" else "parquet").option("path", sink.place)
    if sink.kind != "kafka":
        raise NotSupported(f"there is no sink {sink.kind!r}; there are: store, kafka, parquet, jsonl, console")
    servers, _, topic = sink.place.partition(" ")
    key = "subscription"
    as_messages = rows.select(
        functions.col(key).cast("string").alias("key"), functions.to_json(functions.struct("*")).alias("value")
    )
    return (
        as_messages.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic.strip())
    )
