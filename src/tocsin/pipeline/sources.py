"""Sources from outside: files and Kafka as streaming DataFrames of (key, body, schema_version).

`body` is the event as JSON text; `place` is where it comes from, from which its key is made (ingest.py) unless it
carries an id of its own. Kafka is read by Spark's own connector, which is not in the PySpark package:
`spark.jars.packages` brings it (KAFKA_PACKAGE).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tocsin.errors import FileError, NotSupported

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
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
            reader.format(source.format).option("header", "true").schema(_schema_of(spark, source)).load(source.folder)
        )
        body = functions.to_json(functions.struct(*(f"`{name}`" for name in found.columns)))
        rows = found.select(body.alias("body"), "_metadata")
    return rows.select(
        functions.col("_metadata.file_path").alias("place"),
        "body",
        _event_id(source.event_id).alias("event_id"),
        functions.lit(None).cast("int").alias("schema_version"),
    )


def _schema_of(spark: SparkSession, source: FileSource) -> StructType:
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
        _event_id(source.event_id).alias("event_id"),
        version.alias("schema_version"),
    ).withColumn("event_id", functions.coalesce("event_id", "place"))


def _event_id(field: str | None) -> Column:
    from pyspark.sql import functions

    if field is None:
        return functions.lit(None).cast("string")
    return functions.get_json_object("body", "$." + field)
