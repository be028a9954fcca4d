"""`tocsin pipeline`: events in, matched on Spark, notifications out; and what goes with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, load_schema, print_json, read_lines, required_schema, warn
from tocsin.cli.mapping import read_mapping
from tocsin.errors import FileError, TocsinError

if TYPE_CHECKING:
    from tocsin.pipeline.ingest import FileSource, KafkaSource
    from tocsin.pipeline.meter import Meter
    from tocsin.pipeline.run import Pipeline, PipelineSettings

app = typer.Typer(help="Run matching on Spark: batch and streaming.", no_args_is_help=True)
FILE_FORMATS = ("jsonl", "parquet", "csv", "avro")


@app.command()
def run(
    store: str = typer.Option(..., envvar="TOCSIN_STORE", help="The store: a path (SQLite) or postgresql://…"),
    checkpoint: str = typer.Option(..., help="A folder on a durable disk, where Spark keeps how far it is."),
    source: str = typer.Option("store", help="store, a folder of files, or kafka:SERVERS/TOPICS"),
    format: str = typer.Option("jsonl", help=f"Of the files: {', '.join(FILE_FORMATS)}."),
    sink: str = typer.Option("store", help="store, console, parquet:FOLDER, jsonl:FOLDER, kafka:SERVERS/TOPIC"),
    start: str = typer.Option("matched", "--from", help="Where in the log to begin: a seq, or after what is matched."),
    archive: str | None = typer.Option(None, help="A folder of Parquet that all events are archived to, by date."),
    schema: str | None = SCHEMA_OPTION,
    name: str = typer.Option("main", help="The pipeline's name; a store may have several."),
    event_id: str | None = typer.Option(None, help="The field that names an event, if it has one."),
    master: str = typer.Option("local[*]", help="Spark's master: local[n], spark://…, yarn, k8s://…"),
    partitions: int = typer.Option(2, min=1, help="The most tasks of a micro-batch."),
    events_per_batch: int = typer.Option(20_000, min=1, help="The most events of a micro-batch."),
    trigger: float = typer.Option(0.0, min=0, help="Seconds between micro-batches; 0: one after the other."),
    wait_for_schema: float = typer.Option(60.0, min=0, help="Seconds that an event of an unknown version waits."),
    until_idle: bool = typer.Option(False, "--until-idle", help="End when everything that is there is done."),
    accept_lost_checkpoint: bool = typer.Option(False, "--accept-lost-checkpoint", help="Read the source again."),
    operators: str | None = typer.Option(
        None,
        envvar="TOCSIN_OPERATORS",
        help="Operators that subscriptions may call: installed, a TOML file, module:function.",
    ),
    programs: str | None = typer.Option(
        None, envvar="TOCSIN_PROGRAMS", help="Programs that offers may call: a TOML file that all workers see."
    ),
    mapping: Path | None = typer.Option(None, help="A mapping, .toml or .json: the source has a site's documents."),
    site: str | None = typer.Option(
        None,
        help="A site of the store's: events say that they come from it; its stored mapping translates, or --mapping.",
    ),
    index: str | None = typer.Option(
        None, help="The folder of the store's index, on a disk that all workers see; by default beside a SQLite file."
    ),
    metrics_port: int | None = typer.Option(None, help="Serve Prometheus metrics on this port of this machine."),
    status_file: Path | None = typer.Option(None, help="Keep the figures in this JSON file."),
    setting: list[str] = typer.Option([], help="A Spark setting, NAME=VALUE; may be repeated."),
    json: bool = JSON_OPTION,
) -> None:
    """Match events against the store's subscriptions, until stopped (Ctrl-C, SIGTERM)."""
    from dataclasses import asdict

    from tocsin.pipeline.meter import Meter
    from tocsin.pipeline.run import Pipeline, PipelineSettings
    from tocsin.pipeline.session import session

    settings = PipelineSettings(
        store=store, checkpoint=checkpoint, name=name, source=_source(source, format, event_id), sink=_sink(sink),
        archive=archive, start=start, schema=None if schema is None else load_schema(schema), partitions=partitions,
        events_per_batch=events_per_batch, trigger_seconds=trigger, wait_for_schema_seconds=wait_for_schema,
        until_idle=until_idle, accept_lost_checkpoint=accept_lost_checkpoint, operators=operators,
        programs=programs, index=index, mapping=None if mapping is None else read_mapping(mapping),
        site=site,
    )  # fmt: skip
    meter = Meter(status_file)
    if metrics_port is not None:
        meter.serve(metrics_port)
    with session(
        master, app_name=f"tocsin {name}", streaming=True, settings=_spark_settings(setting, settings)
    ) as spark:
        pipeline = Pipeline(spark, settings, meter)
        pipeline.start()
        for note in pipeline.notes:
            warn(f"note: {note}")
        _wait(pipeline, meter, quiet=json)
    if json:
        print_json(asdict(meter.figures()))


@app.command()
def index(
    subscriptions: str = typer.Argument(..., help="Subscriptions, a JSON document a line; - for standard input."),
    folder: Path = typer.Argument(..., help="Where to write the segments; an existing folder gets a new version."),
    schema: str | None = SCHEMA_OPTION,
    replace: bool = typer.Option(False, "--replace", help="Let it hold these only, instead of adding them by id."),
    operators: str | None = typer.Option(
        None, envvar="TOCSIN_OPERATORS", help="Operators that they may call: installed, a TOML file, module:function."
    ),
    documents: bool = typer.Option(False, "--documents", help="Keep the texts too, for reasons."),
    json: bool = JSON_OPTION,
) -> None:
    """Write a folder of subscriptions for `tocsin.spark.match`. Exit code 1: some lines were bad."""
    from tocsin.operators.registry import open_registry
    from tocsin.pipeline.subscription_table import SubscriptionTable

    table = SubscriptionTable(
        folder, required_schema(schema), operators=open_registry(operators), documents=documents
    )  # fmt: skip
    bad = (table.replace if replace else table.upsert)(read_lines(subscriptions)).bad
    for line in bad:
        warn(f"{subscriptions}: {line}")
    manifest = table.manifest
    found = {"version": manifest.version, "subscriptions": manifest.subscriptions, "bytes": manifest.bytes}
    if json:
        print_json(found)
    else:
        print(
            f"{folder}: version {manifest.version}, {manifest.subscriptions:,} subscriptions, {manifest.bytes:,} bytes"
        )
    if bad:
        raise typer.Exit(1)


@app.command()
def estimate(
    expression: str = typer.Argument(..., help="The draft, such as: car where price < 1300"),
    store: str = typer.Option(..., help="The store, whose newest events are the sample."),
    sample: int = typer.Option(5_000, min=1, help="Events in the sample."),
    json: bool = JSON_OPTION,
) -> None:
    """Estimate how many events a day a draft subscription would match, with the bounds of the error."""
    from dataclasses import asdict

    from tocsin.broker.inquiries import EventSample
    from tocsin.pipeline.followers import open_store

    found = EventSample.of_store(open_store(store), sample).estimate(expression)
    if json:
        print_json(asdict(found))
    else:
        print(found)


def _source(text: str, format: str, event_id: str | None) -> FileSource | KafkaSource | None:
    from tocsin.pipeline.ingest import FileSource, KafkaSource

    if text == "store":
        return None
    if text.startswith("kafka:"):
        servers, _, topics = text.removeprefix("kafka:").rpartition("/")
        return KafkaSource(servers, topics, event_id)
    if format not in FILE_FORMATS:
        raise FileError(text, f"{format} is not a format of files; there are: {', '.join(FILE_FORMATS)}")
    return FileSource(text, format, event_id)  # type: ignore[arg-type]


def _sink(text: str) -> Any:
    from tocsin.pipeline.run import Sink

    kind, _, place = text.partition(":")
    if kind == "kafka":
        servers, _, topic = place.rpartition("/")
        place = f"{servers} {topic}"
    if kind not in ("store", "console", "parquet", "jsonl", "kafka") or (
        kind not in ("store", "console") and not place
    ):
        raise TocsinError(
            f"{text} is not a sink; write store, console, parquet:FOLDER, jsonl:FOLDER or kafka:SERVERS/TOPIC"
        )
    return Sink(kind, place)  # type: ignore[arg-type]


def _spark_settings(given: list[str], settings: PipelineSettings) -> dict[str, str]:
    from tocsin.pipeline.ingest import AVRO_PACKAGE, KAFKA_PACKAGE, FileSource, KafkaSource

    chosen = dict(pair.split("=", 1) for pair in given if "=" in pair)
    packages = []
    if isinstance(settings.source, KafkaSource) or settings.sink.kind == "kafka":
        packages.append(KAFKA_PACKAGE)
    if isinstance(settings.source, FileSource) and settings.source.format == "avro":
        packages.append(AVRO_PACKAGE)
    if packages and "spark.jars" not in chosen:
        chosen.setdefault("spark.jars.packages", ",".join(packages))
    return chosen


def _wait(pipeline: Pipeline, meter: Meter, *, quiet: bool) -> None:
    """Wait for the end; a signal asks the pipeline to stop after the batches under way."""
    import signal

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: pipeline.stop())
    if quiet or not sys.stderr.isatty():
        pipeline.wait()
        return
    from rich.console import Console
    from rich.live import Live

    from tocsin.pipeline.meter import figures_table

    title = f"tocsin pipeline {pipeline.settings.name}"
    with Live(figures_table(meter.figures(), title), console=Console(stderr=True), refresh_per_second=4) as live:
        pipeline.wait(lambda: live.update(figures_table(meter.figures(), title)))
        live.update(figures_table(meter.figures(), title))
