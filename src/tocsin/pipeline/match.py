"""match(events, subscriptions, ...): DataFrame in, DataFrame out, the same on batch and streaming DataFrames.

One mapInArrow: each batch of some thousands of rows is admitted, coded and matched as columns, against an index that
the worker process keeps open. See docs/spark.md for the tutorial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec

from tocsin.errors import NotSupported, SchemaError
from tocsin.pipeline.given_subscriptions import reference_of
from tocsin.pipeline.layout import choose_layout, transported
from tocsin.pipeline.match_batches import (
    CONJUNCTION,
    INVALID,
    MATCHES,
    REASONS,
    SHARD,
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    Form,
    Invalid,
    MatchBatches,
    Output,
)
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.partitioning import DEFAULT_WORKER_BYTES, How, Partitioning, choose_partitioning
from tocsin.pipeline.subscription_folder import read_manifest
from tocsin.schema import Schema
from tocsin.schema.files import dumps, load

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_EXPLANATION = "_tocsin_partitioning"
_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class PreparedMatch:
    """What match() has decided: the columns that go to the workers, what they run, and how work is divided."""

    events: DataFrame
    function: MatchBatches
    partitioning: Partitioning


def prepare_match(
    events: DataFrame,
    subscriptions: DataFrame | str | Path,
    *,
    schema: Schema | str | Path | None = None,
    how: How = "auto",
    output: Form = "pairs",
    event_id: str | None = None,
    keep: Sequence[str] | Literal["*"] | None = None,
    event_columns: Sequence[str] | None = None,
    event_json: str | None = None,
    seq: str | None = None,
    arrival: str | None = None,
    conjunction: bool = False,
    reasons: bool = False,
    invalid: Invalid = "drop",
    bad_subscriptions: Literal["fail", "skip"] = "fail",
    folder: str | Path | None = None,
    worker_bytes: int = DEFAULT_WORKER_BYTES,
    shard_bytes: int | None = None,
) -> PreparedMatch:
    """Return what match() runs to tell which events satisfy which subscriptions.

    Args:
        events: An event a row; batch or streaming. The event is in the columns that the schema knows, or exactly in
            `event_columns`, or in the one JSON or VARIANT column `event_json`.
        subscriptions: A DataFrame (given_subscriptions.py says of which columns), a folder of subscriptions, or a store.
        schema: A Schema or the file of one; by default that of the folder or the store.
        how: Who gets what: "events", "shards", or "auto" by size; `explain_match(df)` tells what and why.
        output: "pairs" (event, subscription), "lists" (one row an event), or "counts".
        event_id: The column that names the event; kept in the output.
        keep: Further columns to keep; "*" for all. Without `event_id` and `keep`, all are kept.
        seq, arrival: Columns (long; arrival in microseconds) that make matching as-of, where subscriptions have
            lifetimes: those of a store.
        conjunction, reasons: Columns that say which alternative held, and the whole explanation as JSON. Pairs only.
        invalid: What to do with a row that is no event by the schema: "drop" it, "keep" it with the reason in the
            column `invalid`, or "fail".
        bad_subscriptions: "fail", or "skip" those that are wrong.
        folder: Where to write the segments of a DataFrame's subscriptions: a place that all workers see. By default a
            temporary folder of this machine.
        worker_bytes: The most that a worker should map before subscriptions are sharded.
        shard_bytes: The size of a shard, by default worker_bytes.

    Raises:
        SchemaError, ParseError, FileError, NotSupported: at once, from the driver.
    """
    given = load(schema) if isinstance(schema, str | Path) else schema
    documents = conjunction or reasons
    if documents and output != "pairs":
        raise NotSupported("conjunction and reasons are of a pair: output must be 'pairs'")
    reference, known = reference_of(
        subscriptions, given, follow=events.isStreaming, folder=folder, documents=documents, bad=bad_subscriptions
    )
    layout = choose_layout(events, known, whole=event_json, columns=event_columns)
    kept = _kept(events, event_id, keep)
    partitioning = choose_partitioning(events, reference, how, worker_bytes=worker_bytes, shard_bytes=shard_bytes)
    reference = IndexReference(reference.place, reference.kind, reference.version, partitioning.shards)
    out = Output(output, kept, conjunction, reasons, invalid, _text_ids(reference))
    function = MatchBatches(reference, dumps(known, "json"), layout, out, seq, arrival, bool(partitioning.shards))
    beside = [*kept, *(name for name in (seq, arrival) if name is not None)]
    return PreparedMatch(_prepared(events, transported(events, layout), beside, partitioning), function, partitioning)


def _as_dataframe(prepare: Callable[_P, PreparedMatch]) -> Callable[_P, DataFrame]:
    """Return the function that takes the same arguments, and gives the matches themselves."""

    @wraps(prepare)
    def match(*arguments: _P.args, **options: _P.kwargs) -> DataFrame:
        prepared = prepare(*arguments, **options)
        output = prepared.function.output
        matched = prepared.events.mapInArrow(prepared.function, _output_schema(prepared.events, output))
        matched = _gathered(matched, output, prepared.partitioning)
        setattr(matched, _EXPLANATION, prepared.partitioning)
        matched.explain_match = lambda: explain_match(matched)  # type: ignore[attr-defined]
        return matched

    match.__name__ = match.__qualname__ = "match"
    return match


match = _as_dataframe(prepare_match)  # one signature for both; help(match) shows it


def explain_match(matched: DataFrame) -> str:
    """Return how a DataFrame made by match() divides its work, and why."""
    found: Partitioning | None = getattr(matched, "__dict__", {}).get(_EXPLANATION)
    if found is None:
        raise NotSupported("this DataFrame does not come from match(); ask the one that match() returned")
    return str(found)


def _kept(events: DataFrame, event_id: str | None, keep: Sequence[str] | Literal["*"] | None) -> tuple[str, ...]:
    if keep == "*" or (keep is None and event_id is None):
        return tuple(events.columns)
    chosen = [*([event_id] if event_id is not None else []), *(keep or ())]
    for name in chosen:
        if name not in events.columns:
            raise SchemaError(f"the events have no column {name!r}; they have {', '.join(events.columns)}")
    return tuple(dict.fromkeys(chosen))


def _text_ids(reference: IndexReference) -> bool:
    return False if reference.kind == "store" else read_manifest(reference.place, reference.version).text_ids


def _prepared(events: DataFrame, event: list[Column], beside: Sequence[str], partitioning: Partitioning) -> DataFrame:
    """Return the columns that go to the workers, each once, spread or sent to every shard as was decided."""
    from pyspark.sql import functions

    have = set(events.select(*event).columns)
    columns = [*event, *(events[f"`{name}`"] for name in dict.fromkeys(beside) if name not in have)]
    prepared = events.select(*columns)
    if partitioning.shards:
        count = len(partitioning.shards)
        every = functions.explode(functions.sequence(functions.lit(0), functions.lit(count - 1)))
        # By shard, so that a task, and mostly a worker, maps one shard only.
        return prepared.withColumn(SHARD, every).repartition(count, SHARD)
    return prepared.repartition(partitioning.spread_to) if partitioning.spread_to else prepared


def _output_schema(events: DataFrame, output: Output) -> StructType:
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    id_type = StringType() if output.text_ids else LongType()
    fields = [StructField(name, events.schema[name].dataType, True) for name in output.kept]
    match output.form:
        case "pairs":
            fields.append(StructField(SUBSCRIPTION, id_type, True))
        case "lists":
            fields.append(StructField(SUBSCRIPTIONS, ArrayType(id_type, False), True))
        case "counts":
            fields.append(StructField(MATCHES, LongType(), True))
    fields += [
        StructField(name, StringType(), True)
        for name, on in ((CONJUNCTION, output.conjunction), (REASONS, output.reasons))
        if on
    ]
    if output.invalid == "keep":
        fields.append(StructField(INVALID, StringType(), True))
    return StructType(fields)


def _gathered(matched: DataFrame, output: Output, partitioning: Partitioning) -> DataFrame:
    """Return one row an event where shards have given several."""
    from pyspark.sql import functions

    if len(partitioning.shards) < 2 or output.form == "pairs":
        return matched
    if matched.isStreaming:
        raise NotSupported("a stream against shards gives pairs: lists and counts would have to wait for all shards")
    keys = [f"`{name}`" for name in output.kept] + ([INVALID] if output.invalid == "keep" else [])
    if output.form == "counts":
        return matched.groupBy(*keys).agg(functions.sum(MATCHES).alias(MATCHES))
    return matched.groupBy(*keys).agg(functions.flatten(functions.collect_list(SUBSCRIPTIONS)).alias(SUBSCRIPTIONS))
