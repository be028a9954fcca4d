"""match(events, subscriptions, ...): DataFrame in, DataFrame out, the same on batch and streaming DataFrames.

One mapInArrow: each batch of some thousands of rows is admitted, coded and matched as columns, against an index that
the worker process keeps open. validate(events, schema) gives the good events and the dead letters with their reasons, in
one pass. See docs/spark.md for the tutorial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, ParamSpec

from tocsin.errors import NotSupported, SchemaError
from tocsin.pipeline.compile_rows import named_operators
from tocsin.pipeline.given_subscriptions import named_programs, reference_of
from tocsin.pipeline.match_batches import (
    BATCH_TIME,
    INVALID,
    MATCHES,
    ROW,
    SHARD,
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    Failures,
    Form,
    Invalid,
    MatchBatches,
    Output,
    ValidateBatches,
)
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.plan import (
    DEFAULT_WORKER_BYTES,
    How,
    Layout,
    Partitioning,
    choose_layout,
    choose_partitioning,
    numbered_columns,
    quoted,
    transported,
)
from tocsin.pipeline.remote_folder import is_on_this_host, ship
from tocsin.pipeline.subscription_table import SubscriptionTable, read_manifest
from tocsin.schema import Schema
from tocsin.schema.files import dumps, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType


_EXPLANATION = "_tocsin_partitioning"
_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class PreparedMatch:
    """What match() has decided: the columns that go to the workers, what they run, and how work is divided."""

    events: DataFrame
    function: MatchBatches
    partitioning: Partitioning
    output: Output  # of match()
    told: StructType  # what workers tell, which may be more
    metrics: str | Observation | None = None
    drops_invalid: bool = False  # after they were counted


def prepare_match(
    events: DataFrame,
    subscriptions: DataFrame | SubscriptionTable | str | Path,
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
    details: bool = False,
    failures: Failures = "drop",
    invalid: Invalid = "drop",
    invalid_share: float | None = 0.5,
    metrics: str | Observation | None = None,
    operators: str | Path | None = None,
    programs: str | Path | None = None,
    bad_subscriptions: Literal["fail", "skip"] = "fail",
    folder: str | Path | None = None,
    worker_bytes: int = DEFAULT_WORKER_BYTES,
    shard_bytes: int | None = None,
) -> PreparedMatch:
    """Return what match() runs to tell which events satisfy which subscriptions.

    Args:
        events: An event a row; batch or streaming. The event is in the columns that the schema knows, or exactly in
            `event_columns`, or in the one JSON, VARIANT or struct column `event_json`. Such a column may also hold offers:
            {"event": {…}, "rules": [text, …], "dynamic": {attribute: text}}.
        subscriptions: A DataFrame (compile_rows.py says of which columns), a SubscriptionTable or its place, or a store.
        schema: A Schema or the file of one; by default that of the table or the store.
        how: Who gets what: "events", "shards", or "auto" by size; `explain_match(df)` tells what and why.
        output: "pairs" (event, subscription), "lists" (one row an event), or "counts".
        event_id: The column that names the event; kept in the output.
        keep: Further columns to keep; "*" for all. Without `event_id` and `keep`, all are kept.
        seq, arrival: Columns (long; arrival in microseconds) that make matching as-of, where subscriptions have
            lifetimes: those of a store. `now()` in a subscription is the arrival; without that column, the
            current_timestamp() of the plan, of a stream that of the micro-batch; against a store, its clock.
        conjunction, reasons: Columns that say which alternative held, and the whole explanation as JSON. Pairs only.
        details: Columns `bindings` (the values of variables that satisfy the subscription, a JSON array of objects) and
            `computed` (what an offer computed for it, a JSON object); null where there are none. Pairs only.
        failures: What to do with a pair that has no answer, since an operator, a program or a formula failed: "drop" it,
            "keep" it with the reason in the column `failure`, or "fail". Pairs only.
        invalid: What to do with a row that is no event by the schema: "drop" it, "keep" it with the reason in the
            column `invalid`, or "fail".
        invalid_share: Where rows are dropped: of a task's rows, if they are a hundred or more, the share that may be no
            events; beyond it the job fails, with examples. None for any.
        metrics: A name, or an Observation, under which Spark observes `rows` told and rows `rejected`; with a name also
            `events`, under name_events. For listeners, and the progress of streams.
        operators: Those that subscriptions and rules may call, by name: "installed", a settings file, or
            "package.module:function" (operators/registry.py). They must be pure.
        programs: The file of those that offers may call (offers/program_files.py): one that all workers see.
        bad_subscriptions: "fail", or "skip" those that are wrong: no subscription, or one whose id is null or came before.
        folder: Where to write the segments of a DataFrame's subscriptions: a place that all workers see. It then holds
            exactly these. By default a temporary table, which Spark brings to the workers.
        worker_bytes: The most that a worker should map before subscriptions are sharded.
        shard_bytes: The size of a shard, by default worker_bytes.

    Raises:
        SchemaError, ParseError, FileError, NotSupported: at once, from the driver.
    """
    from pyspark.sql.functions import count, current_timestamp, lit

    given = load(schema) if isinstance(schema, str | Path) else schema
    documents = conjunction or reasons
    if (documents or details or failures != "drop") and output != "pairs":
        raise NotSupported("conjunction, reasons, details and failures are of a pair: output must be 'pairs'")
    reference, known = reference_of(
        subscriptions, given, follow=events.isStreaming, folder=folder, documents=documents, bad=bad_subscriptions,
        operators=operators, programs=programs,
    )  # fmt: skip
    layout = choose_layout(events, known, whole=event_json, columns=event_columns)
    counted: Invalid = "keep" if metrics is not None and invalid == "drop" else invalid
    out = Output(output, (), conjunction, reasons, counted, has_text_ids(reference), details, failures)
    out = replace(out, kept=kept_columns(events, event_id, keep, out))
    partitioning = choose_partitioning(events, reference, how, worker_bytes=worker_bytes, shard_bytes=shard_bytes)
    reference = replace(reference, shards=partitioning.shards)
    if isinstance(metrics, str):
        events = events.observe(f"{metrics}_events", count(lit(1)).alias("events"))
    rows = _prepared(events, layout, [*out.kept, *(name for name in (seq, arrival) if name is not None)])
    if reference.follow or (reference.kind == "folder" and arrival is None):
        rows = rows.withColumn(BATCH_TIME, current_timestamp())
    rows, of_workers = _divided(rows, out, partitioning)
    if reference.kind == "folder" and folder is None and not isinstance(subscriptions, SubscriptionTable | str | Path):
        reference = _reachable(events.sparkSession, reference)
    function = MatchBatches(
        reference, dumps(known, "json"), layout, of_workers, seq, arrival, bool(partitioning.shards), tuple(rows.columns),
        invalid_share=invalid_share if invalid == "drop" else None,
    )  # fmt: skip
    told = output_schema(rows, of_workers)
    dropped = counted != invalid
    return PreparedMatch(numbered_columns(rows), function, partitioning, out, told, metrics, dropped)


def _as_dataframe(prepare: Callable[_P, PreparedMatch]) -> Callable[_P, DataFrame]:
    """Return the function that takes the same arguments, and gives the matches themselves."""

    @wraps(prepare)
    def match(*arguments: _P.args, **options: _P.kwargs) -> DataFrame:
        prepared = prepare(*arguments, **options)
        matched = prepared.events.mapInArrow(prepared.function, prepared.told)
        matched = _counted(_gathered(matched, prepared.output, prepared.partitioning), prepared)
        setattr(matched, _EXPLANATION, prepared.partitioning)
        matched.explain_match = lambda: explain_match(matched)  # type: ignore[attr-defined]
        return matched

    match.__name__ = match.__qualname__ = "match"
    return match


match = _as_dataframe(prepare_match)  # one signature for both; help(match) shows it


def _counted(matched: DataFrame, prepared: PreparedMatch) -> DataFrame:
    """Return the matches, counted where that is asked for, without rows that are only there to be counted."""
    from pyspark.sql import functions

    if prepared.metrics is None:
        return matched
    told = [INVALID] if INVALID in matched.columns else []
    rejected = functions.count(INVALID) if told else functions.lit(0)
    rows = functions.count(functions.lit(1)) - rejected
    matched = matched.observe(prepared.metrics, rows.alias("rows"), rejected.alias("rejected"))
    return matched.filter(functions.col(INVALID).isNull()).drop(INVALID) if prepared.drops_invalid else matched


def explain_match(matched: DataFrame) -> str:
    """Return how a DataFrame made by match() divides its work, and why."""
    found: Partitioning | None = getattr(matched, "__dict__", {}).get(_EXPLANATION)
    if found is None:
        raise NotSupported("this DataFrame does not come from match(); ask the one that match() returned")
    return str(found)


def kept_columns(
    events: DataFrame, event_id: str | None, keep: Sequence[str] | Literal["*"] | None, output: Output
) -> tuple[str, ...]:
    """Return the columns of the events that are kept; raises SchemaError where one is not there, or its name is taken."""
    everything = keep == "*" or (keep is None and event_id is None)
    chosen = events.columns if everything else [*([event_id] if event_id is not None else []), *(keep or ())]
    for name in chosen:
        if name not in events.columns:
            raise SchemaError(f"the events have no column {name!r}; they have {', '.join(events.columns)}")
        if events.columns.count(name) > 1:
            raise SchemaError(f"the events have two columns {name!r}; rename one")
        if name in output.added():
            listed = ", ".join(output.added())
            message = f"the events have a column {name!r}, and match() adds {listed}: rename it"
            raise SchemaError(f"{message}, or name the columns to keep without it: keep=[…]")
    return tuple(dict.fromkeys(chosen))


def _reachable(spark: SparkSession, reference: IndexReference) -> IndexReference:
    """Return the reference of a temporary table as workers can follow it, who need not see this host's disk."""
    if is_on_this_host(spark):
        return reference
    return replace(reference, place=ship(spark, reference.place, read_manifest(reference.place, reference.version)))


def has_text_ids(reference: IndexReference) -> bool:
    """Return whether subscriptions are named by texts."""
    return False if reference.kind == "store" else read_manifest(reference.place, reference.version).text_ids


def _prepared(events: DataFrame, layout: Layout, beside: Sequence[str]) -> DataFrame:
    """Return the columns that go to the workers, each once."""
    event = transported(events, layout)
    have = set(layout.names)
    return events.select(*event, *(events[quoted(name)] for name in dict.fromkeys(beside) if name not in have))


def _divided(rows: DataFrame, output: Output, partitioning: Partitioning) -> tuple[DataFrame, Output]:
    """Return the rows spread, or sent to every shard, as was decided; and what workers tell of them."""
    from pyspark.sql import functions

    if not partitioning.shards:
        return (rows.repartition(partitioning.spread_to) if partitioning.spread_to else rows), output
    if _is_gathered(output, partitioning):  # equal events are still two: what shards found belongs to a row
        if rows.isStreaming:
            raise NotSupported(
                "a stream against shards gives pairs: lists and counts would have to wait for all shards"
            )
        rows = rows.withColumn(ROW, functions.monotonically_increasing_id())
        output = replace(output, kept=(*output.kept, ROW))
    count = len(partitioning.shards)
    every = functions.explode(functions.sequence(functions.lit(0), functions.lit(count - 1)))
    # By shard, so that a task, and mostly a worker, maps one shard only.
    return rows.withColumn(SHARD, every).repartition(count, SHARD), output


def _is_gathered(output: Output, partitioning: Partitioning) -> bool:
    return len(partitioning.shards) > 1 and output.form != "pairs"


def output_schema(events: DataFrame, output: Output) -> StructType:
    """Return the columns that workers tell."""
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    id_type = StringType() if output.text_ids else LongType()
    found = {SUBSCRIPTION: id_type, SUBSCRIPTIONS: ArrayType(id_type, False), MATCHES: LongType()}
    # With what a column is known for, such as a watermark.
    known = {name: events.schema[name] for name in output.kept}
    kept = [StructField(name, field.dataType, True, field.metadata) for name, field in known.items()]
    return StructType([*kept, *(StructField(name, found.get(name, StringType()), True) for name in output.added())])


def _gathered(matched: DataFrame, output: Output, partitioning: Partitioning) -> DataFrame:
    """Return one row an event where shards have given several."""
    from pyspark.sql import functions

    if not _is_gathered(output, partitioning):
        return matched
    found, *beside = output.added()
    together = functions.sum(found) if found == MATCHES else functions.flatten(functions.collect_list(found))
    kept = [functions.first(quoted(name)).alias(name) for name in output.kept]
    told = [functions.max(name).alias(name) for name in beside]  # by one shard at most
    return matched.groupBy(ROW).agg(*kept, together.alias(found), *told).drop(ROW)


class Validated(NamedTuple):
    """The rows that are events, the rows that are not (with `invalid`, why), and both in one DataFrame.

    `good` and `dead_letters` are filters over `judged`. Write `judged` once and filter what was written, or cache it,
    where the events should be read once only; on a stream, `judged` feeds one foreachBatch that does so.
    """

    good: DataFrame
    dead_letters: DataFrame
    judged: DataFrame


def validate(
    events: DataFrame,
    schema: Schema | str | Path,
    *,
    event_columns: Sequence[str] | None = None,
    event_json: str | None = None,
    operators: str | Path | None = None,
    programs: str | Path | None = None,
) -> Validated:
    """Return the rows that the schema admits, and the others with the reason in the column `invalid`.

    Offers may call operators and programs, which go by name, as match() has it.

    Every column is of the event, and a column that the schema does not know makes events invalid that bind it, unless
    `event_columns` or `event_json` say which are.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    known = load(schema) if isinstance(schema, str | Path) else schema
    layout = choose_layout(events, known, whole=event_json, columns=event_columns, every=True)
    have = dict(zip(layout.names, transported(events, layout), strict=True))
    renamed = {name for name in layout.names if events.schema[name].dataType.typeName() == "variant"}
    prepared = events.select(*(have.get(name, events[quoted(name)]) for name in events.columns))
    kept = tuple(events.columns)
    fields = [StructField(name, prepared.schema[name].dataType, True) for name in kept]
    out = StructType([*fields, StructField(INVALID, StringType(), True)])
    judged = numbered_columns(prepared).mapInArrow(
        ValidateBatches(dumps(known, "json"), layout, kept, named_operators(operators), named_programs(programs)), out
    )
    for name in renamed:  # VARIANT went to the workers as JSON text
        judged = judged.withColumn(name, functions.parse_json(quoted(name)))
    is_dead = functions.col(INVALID).isNotNull()
    return Validated(judged.filter(~is_dead).drop(INVALID), judged.filter(is_dead), judged)
