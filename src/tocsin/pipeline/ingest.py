"""Ingest: events from outside (files, Kafka) into the store's log, each once however often it comes.

Sources are streaming DataFrames: `body` is the event as JSON text, `place` where it comes from. Kafka is read by Spark's
own connector, which is not in the PySpark package: `spark.jars.packages` brings it (KAFKA_PACKAGE).

Every event has a key made from where it comes from (topic, partition and offset; file, content and occurrence; or an
id that it carries). An event may be an offer. The key is kept as an idempotency key of the publisher `pipeline:<name>`,
in the transaction that stores the event, so a replayed batch, a lost checkpoint or a file read twice stores nothing again.
log_query.py then matches these events like all others.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from sqlalchemy import Connection, select

from tocsin.broker.admission import Admitted, OfferAdmission, PublishedOffer, Rejected, admit_all
from tocsin.broker.core import BrokerSettings
from tocsin.broker.publishing import violation_parts
from tocsin.documents.events import PublishReceipt
from tocsin.errors import EventRejected, FileError, NotSupported, SchemaError, UnknownSite, Violation
from tocsin.language.mapping import MappingDocument, SiteMapping
from tocsin.offers.program_files import ProgramsFile
from tocsin.operators.registry import open_registry
from tocsin.pipeline.followers import open_store
from tocsin.pipeline.meter import BatchReport, Meter
from tocsin.pipeline.session import readable_errors
from tocsin.schema import Schema
from tocsin.schema.sources import Provenance
from tocsin.store import Store, Transaction, schema_history, sites
from tocsin.store.events import (
    NewDeadLetter,
    StoredOffer,
    add_answers,
    add_dead_letters,
    add_events,
    add_offers,
    id_text,
    new_event_ids,
)
from tocsin.store.store import reach
from tocsin.store.tables import idempotency

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


FileFormat = Literal["jsonl", "parquet", "csv", "avro"]
# One minor version behind PySpark, whose own is not on Maven Central yet; not tried with a running broker so far.
KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
AVRO_PACKAGE = "org.apache.spark:spark-avro_2.13:4.2.0"
VERSION_HEADER = "schema-version"


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files in a folder, each read once, the oldest first."""

    folder: str
    format: FileFormat = "jsonl"
    event_id: str | None = None  # a field that names the event
    files_per_batch: int = 100


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Topics of a Kafka cluster; values are events as JSON. A header `schema-version` may say which is meant."""

    servers: str
    topics: str
    event_id: str | None = None
    starting: str = "earliest"
    events_per_batch: int = 20_000


def read_files(spark: SparkSession, source: FileSource) -> DataFrame:
    """Return the rows of files as events."""
    from pyspark.sql import functions

    reader = spark.readStream.option("maxFilesPerTrigger", source.files_per_batch)
    if source.format == "jsonl":
        rows = reader.format("text").load(source.folder).withColumnRenamed("value", "body")
        rows = rows.filter(functions.length(functions.trim("body")) > 0)
    else:
        found = (
            reader.format(source.format)
            .option("header", "true")
            .schema(_files_schema(spark, source))
            .load(source.folder)
        )
        body = functions.to_json(functions.struct(*(f"`{name}`" for name in found.columns)))
        rows = found.select(body.alias("body"), "_metadata")
    return rows.select(
        functions.col("_metadata.file_path").alias("place"),
        "body",
        _id_in_body(source.event_id).alias("event_id"),
        functions.lit(None).cast("int").alias("schema_version"),
    )


def _files_schema(spark: SparkSession, source: FileSource) -> StructType:
    """Return the schema of the files that are there; a stream must know it before it starts."""
    pattern = f"*.{source.format}"
    if "://" not in source.folder and not any(Path(source.folder).glob(pattern)):
        raise FileError(source.folder, f"put one {pattern} there first: its columns tell what the others have")
    reader = spark.read.format(source.format).option("header", "true").option("inferSchema", "true")
    return reader.load(source.folder).schema


def read_kafka(spark: SparkSession, source: KafkaSource) -> DataFrame:
    """Return the messages of topics as events."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions

    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", source.servers)
        .option("subscribe", source.topics)
        .option("startingOffsets", source.starting)
        .option("maxOffsetsPerTrigger", source.events_per_batch)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
    )
    try:
        messages = reader.load()
    except AnalysisException as error:
        if "kafka" not in str(error).lower():
            raise
        raise NotSupported(f"Spark's Kafka connector is missing: spark.jars.packages={KAFKA_PACKAGE}") from error
    version = functions.expr(
        f"try_cast(cast(filter(headers, h -> h.key = '{VERSION_HEADER}')[0].value AS string) AS int)"
    )
    return messages.select(
        functions.concat_ws("/", "topic", "partition", "offset").alias("place"),
        functions.coalesce(functions.expr("try_cast(value AS string)"), functions.lit("")).alias("body"),
        _id_in_body(source.event_id).alias("event_id"),
        version.alias("schema_version"),
    ).withColumn("event_id", functions.coalesce("event_id", "place"))


def _id_in_body(field: str | None) -> Column:
    from pyspark.sql import functions

    if field is None:
        return functions.lit(None).cast("string")
    return functions.get_json_object("body", "$." + field)


_KEYS_AT_A_TIME = 500
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class IncomingEvent:
    """An event from outside: its key, its JSON, and the version of the schema that its sender meant, if it says so."""

    key: str
    body: str
    schema_version: int | None = None


@dataclass(frozen=True, slots=True)
class Ingested:
    """What a batch brought."""

    events: int
    dead_letters: int
    repeated: int  # known already


def ingest(
    store: Store,
    name: str,
    incoming: Sequence[IncomingEvent],
    *,
    wait_for_schema_seconds: float = 0.0,
    settings: BrokerSettings | None = None,
    offers: OfferAdmission | None = None,
    mapping: SiteMapping | None = None,
    provenance: Provenance | None = None,
) -> Ingested:
    """Store events in the log, and what is no event in the dead letters; in one transaction.

    `offers` judges those, with its programs; without it there are none. With a mapping, what comes are a site's documents,
    and what it cannot translate are dead letters; with a provenance they are stored as a site's. An event for a version of the schema that the
    store does not have waits for it so long, then it is a dead letter.
    """
    _wait_for_schema(store, incoming, wait_for_schema_seconds)
    most_bytes = (settings or BrokerSettings()).event_bytes
    publisher = f"pipeline:{name}"
    distinct = {one.key: one for one in incoming}
    with store.write() as transaction:
        schema = _schema(transaction.connection)
        known = _known_keys(transaction, publisher, list(distinct))
        new = [one for key, one in distinct.items() if key not in known]
        items = _judge(new, schema, most_bytes, offers, mapping, provenance)
        dead = _store(transaction, publisher, schema, new, items, "" if provenance is None else provenance.site)
        reach("pipeline.before-sink-commit")
    return Ingested(len(new) - dead, dead, len(incoming) - len(new))


def compile_mapping(store: Store, mapping: MappingDocument) -> SiteMapping:
    """Return a mapping over the schema that a store has now; raises BadDefinition where it does not fit."""
    with store.read() as connection:
        return SiteMapping(mapping, _schema(connection))


def open_site(
    store: Store, name: str, mapping: MappingDocument | None = None
) -> tuple[Provenance, MappingDocument | None]:
    """Return where events of a site come from, and its stored mapping unless another is given; raises UnknownSite."""
    with store.read() as connection:
        site = sites.find_site(connection, name)
        if site is None:
            raise UnknownSite(name)
        found = None if mapping is not None else sites.find_mapping(connection, site.number)
    if found is not None:
        mapping = msgspec.json.decode(found.document, type=MappingDocument)
    return Provenance(site.name, site.owner_name, site.contact), mapping


def occurrence_keys(places: Sequence[str], bodies: Sequence[str]) -> list[str]:
    """Return a key for each row of files: the file, what the row says, and which of its like it is there.

    Row numbers would do, had Spark any; these are the same in whatever order the rows come.
    """
    seen: dict[tuple[str, str], int] = {}
    keys = []
    for place, body in zip(places, bodies, strict=True):
        count = seen[(place, body)] = seen.get((place, body), 0) + 1
        digest = hashlib.blake2b(f"{place}\0{count}\0{body}".encode("utf-8", "surrogatepass"), digest_size=16)
        keys.append(digest.hexdigest())
    return keys


def _wait_for_schema(store: Store, incoming: Sequence[IncomingEvent], seconds: float) -> None:
    wanted = max((one.schema_version or 0 for one in incoming), default=0)
    deadline = time.monotonic() + seconds
    while store.meta().schema_version < wanted and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _schema(connection: Connection) -> Schema:
    newest = schema_history.newest(connection)
    if newest is None:
        raise SchemaError("the store has no schema yet: tocsin pipeline run --schema FILE gives it one")
    return newest.schema


def _known_keys(transaction: Transaction, publisher: str, keys: list[str]) -> set[str]:
    known: set[str] = set()
    for start in range(0, len(keys), _KEYS_AT_A_TIME):
        query = select(idempotency.c.key).where(
            idempotency.c.publisher == publisher, idempotency.c.key.in_(keys[start : start + _KEYS_AT_A_TIME])
        )
        known.update(transaction.connection.execute(query).scalars())
    return known


def _judge(
    new: Sequence[IncomingEvent],
    schema: Schema,
    most_bytes: int,
    offers: OfferAdmission | None,
    mapping: SiteMapping | None,
    provenance: Provenance | None,
) -> list[Admitted | Rejected]:
    items = admit_all([one.body for one in new], schema, most_bytes, offers, mapping, provenance)
    for at, one in enumerate(new):
        if one.schema_version is not None and one.schema_version > schema.version:
            why = f"it was made for version {one.schema_version} of the schema; the store has {schema.version}"
            items[at] = Rejected((Violation("unknown schema version", None, why),), one.body.encode())
    return items


def _store(
    transaction: Transaction,
    publisher: str,
    schema: Schema,
    new: Sequence[IncomingEvent],
    items: list[Admitted | Rejected],
    site: str,
) -> int:
    """Store the items, their keys with them; return how many are dead letters."""
    if not new:
        return 0
    if transaction.start.matching == "inline":
        raise SchemaError("the store's broker matches events itself; the pipeline must be asked to (matching=pipeline)")
    first = transaction.draw(len(new))
    good, dead, answers = [], [], []
    offers: list[StoredOffer] = []
    ids = new_event_ids(len(new), transaction.now_us)
    for at, (one, item, id) in enumerate(zip(new, items, ids, strict=True)):
        if isinstance(item, Admitted):
            good.append((first + at, id, item.body))
            if isinstance(item.event, PublishedOffer):
                ends_us = transaction.now_us + item.event.ttl_us
                offers.append(StoredOffer(first + at, publisher, ends_us, item.event.document))
            receipt = PublishReceipt(first + at, id_text(id), accepted=True)
        else:
            dead.append((first + at, _letter(publisher, item, site)))
            receipt = PublishReceipt(first + at, None, accepted=False, violations=item.violations)
        answers.append((publisher, one.key, hashlib.sha256(one.body.encode()).digest(), msgspec.json.encode([receipt])))
    add_events(transaction, schema.version, good)
    add_offers(transaction, offers)
    add_dead_letters(transaction, dead)
    add_answers(transaction, answers)
    return len(dead)


def _letter(publisher: str, item: Rejected, site: str) -> NewDeadLetter:
    reason = str(EventRejected(item.violations))[:2000]
    violations = msgspec.json.encode([list(violation_parts(one)) for one in item.violations[:100]])
    return NewDeadLetter("event", publisher, reason, violations, item.body, site)


INGEST = "ingest"


def start_ingest_query(
    incoming: DataFrame,
    store: str,
    checkpoint: str,
    *,
    name: str,
    meter: Meter,
    wait_for_schema_seconds: float = 0.0,
    until_idle: bool = False,
    operators: str | None = None,
    programs: str | None = None,
    mapping: MappingDocument | None = None,
    site: str | None = None,
) -> StreamingQuery:
    """Start storing what a source of ingest.py brings; offers among it may call operators, and programs of a file."""
    offers = OfferAdmission(ProgramsFile(programs), open_registry(operators))
    provenance = None
    if site is not None:
        provenance, mapping = open_site(open_store(store), site, mapping)
    compiled = None if mapping is None else compile_mapping(open_store(store), mapping)

    def store_events(rows: DataFrame, batch: int) -> None:
        reach("pipeline.after-offsets")
        started = time.perf_counter()
        events = incoming_of(rows.toArrow())
        reach("pipeline.before-sink")
        done = ingest(
            open_store(store),
            name,
            events,
            wait_for_schema_seconds=wait_for_schema_seconds,
            offers=offers,
            mapping=compiled,
            provenance=provenance,
        )
        reach("pipeline.after-sink")
        meter.record(BatchReport(INGEST, batch, 0, 0, done.dead_letters, time.perf_counter() - started))

    writer = incoming.writeStream.queryName(INGEST).foreachBatch(readable_errors(store_events))
    writer = writer.option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if until_idle else writer).start()


def incoming_of(rows: pa.Table) -> list[IncomingEvent]:
    """Return rows of ingest.py as events with their keys, in the order of these."""
    places, bodies, ids, versions = (
        rows.column(name).to_pylist() for name in ("place", "body", "event_id", "schema_version")
    )
    derived = occurrence_keys(places, bodies)
    keys = [key if id is None else f"id:{id}"[:200] for id, key in zip(ids, derived, strict=True)]
    return [IncomingEvent(*row) for row in zip(keys, bodies, versions, strict=True)]
