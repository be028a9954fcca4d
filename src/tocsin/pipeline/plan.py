"""The plan of a match: what the driver decides, from names, types and sizes, before anything runs.

Layout: which columns are the event, and in which form. A DataFrame may hold an event as columns (structs give dotted
names, arrays several values, maps one name per key), as one column of JSON text, VARIANT or a struct that holds the whole
event, or mixed: a text or VARIANT column `item` is read as JSON where the schema knows `item.title` and no `item`.
admission.py follows it in the workers. A column whose type can hold no value of its attribute is refused here: every
event would be invalid.

Partitioning: who gets what, with the reasons kept for explain_match.
    events    tasks take events; each worker maps all subscriptions (one copy a host, in the page cache)
    shards    subscriptions too are divided: each task takes some events and one shard of the segments, so that no
              worker maps more than its share; every event goes to every shard, and costs transport that often
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tocsin.errors import NotSupported, SchemaError, did_you_mean, nearest
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.subscription_table import read_manifest
from tocsin.schema import EVENT_TYPE, NumericDomain, Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an event is in a row.

    `plain` columns hold values as they are, `json` columns hold JSON text under their name, `whole` holds the event
    itself as JSON text (then the others are empty).
    """

    plain: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    whole: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.whole,) if self.whole is not None else (*self.plain, *self.json)


def choose_layout(
    events: DataFrame, schema: Schema, *, whole: str | None, columns: Sequence[str] | None, every: bool = False
) -> Layout:
    """Return the layout of a DataFrame; raises SchemaError where a named column is not there, or none is an attribute.

    The event is `whole`, or `columns`; else all columns that the schema knows, or really all of them with `every`.
    """
    for name in [*(columns or ()), *([whole] if whole is not None else [])]:
        if name not in events.columns:
            raise SchemaError(f"the events have no column {name!r}{did_you_mean(nearest(name, events.columns))}")
    if whole is not None:
        if (kind := events.schema[whole].dataType.typeName()) not in _WHOLE_TYPES:
            raise SchemaError(
                f"the column {whole!r} is {kind}, and holds no events: JSON text, VARIANT or a struct does"
            )
        return Layout(whole=whole)
    known = {EVENT_TYPE, *schema.attributes}
    chosen = list(columns) if columns is not None else list(events.columns)
    if columns is None and not every:
        chosen = [name for name in chosen if name in known or any(other.startswith(f"{name}.") for other in known)]
        if not chosen:
            raise SchemaError(
                f"none of the events' columns is an attribute of the schema: {', '.join(events.columns)}. "
                "If a column holds the event as JSON, name it: event_json=…"
            )
    as_json = tuple(name for name in chosen if _is_embedded(events.schema[name].dataType, name, known))
    plain = tuple(name for name in chosen if name not in as_json)
    wrong = [each for name in plain for each in _misfits(name, events.schema[name].dataType, schema)]
    if wrong:
        raise SchemaError("no event could be valid: " + "; ".join(wrong))
    return Layout(plain, as_json)


_WHOLE_TYPES = ("string", "varchar", "char", "binary", "variant", "struct", "map")
_TEXTS = ("string", "varchar", "char")
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")
_FITTING = {  # kind of domain -> types of columns that may hold its values
    "numeric": _NUMBERS,
    "text": _TEXTS,
    "enumerated": _TEXTS,
    "hierarchical": _TEXTS,
    "boolean": ("boolean",),
    "time": ("timestamp", *_TEXTS),
    "point": ("struct", "map"),
    "ip": _TEXTS,
}
_SAID = {
    "time": "a timestamp with zone, or text such as '2026-11-15T10:00:00Z'",
    "numeric": "a number",
    "boolean": "a boolean",
    "point": "a struct of lat and lon",
}


def _misfits(name: str, found: Any, schema: Schema) -> list[str]:
    """Return what is wrong with the type of a column, or with those within it."""
    kind = found.typeName()
    entry = schema.view().attributes.get(name)
    if entry is None:
        if kind != "struct":
            return []  # what the schema does not know, it says row by row
        return [each for field in found.fields for each in _misfits(f"{name}.{field.name}", field.dataType, schema)]
    if kind == "array" and not (entry.domain.kind == "point" and found.elementType.typeName() != "struct"):
        return _misfits(name, found.elementType, schema)
    allowed = _FITTING.get(entry.domain.kind)
    is_decimal = isinstance(entry.domain, NumericDomain) and entry.domain.type == "decimal"
    if allowed is None or kind in ("void", "array", *allowed) or (is_decimal and kind in _TEXTS):
        return []
    wanted = _SAID.get(entry.domain.kind, "text")
    return [f"the column {name} is {found.simpleString()}, and the attribute {name} wants {wanted}: cast it"]


def _is_embedded(data_type: DataType, name: str, known: set[str]) -> bool:
    kind = data_type.typeName()
    if kind == "variant":
        return True
    return kind == "string" and name not in known and any(other.startswith(f"{name}.") for other in known)


def transported(events: DataFrame, layout: Layout) -> list[Column]:
    """Return the event's columns as they go to the workers: VARIANT as JSON text, the rest unchanged."""
    from pyspark.sql import functions

    columns = []
    for name in layout.names:
        column = events[quoted(name)]
        kind = events.schema[name].dataType.typeName()
        if kind == "variant":
            column = functions.to_json(column).alias(name)
        elif name == layout.whole and kind in ("struct", "map"):
            column = functions.to_json(column, {"timestampFormat": _MICROSECONDS}).alias(name)
        columns.append(column)
    return columns


_MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


def numbered_columns(rows: DataFrame) -> DataFrame:
    """Return the rows with numbers for names of columns: mapInArrow takes a dot in a name for a field."""
    return rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))


def quoted(name: str) -> str:
    """Return the name of a column as Spark's expressions have it, whatever its letters."""
    return "`" + name.replace("`", "``") + "`"


How = Literal["auto", "events", "shards"]
DEFAULT_WORKER_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Partitioning:
    """What was decided, and why."""

    how: str
    shards: tuple[tuple[str, ...], ...]
    spread_to: int | None  # partitions that the events are spread over first
    subscriptions: int | None
    index_bytes: int | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        size = "" if self.index_bytes is None else f", {self.index_bytes / 1e6:,.1f} MB"
        held = "as the store has them" if self.subscriptions is None else f"{self.subscriptions:,}{size}"
        lines = [f"how: {self.how}", f"subscriptions: {held}"]
        if self.shards:
            lines.append(
                f"shards: {len(self.shards)} of {', '.join(str(len(shard)) for shard in self.shards)} segments"
            )
        if self.spread_to:
            lines.append(f"events: spread over {self.spread_to} partitions")
        return "\n".join([*lines, *(f"because {reason}" for reason in self.reasons)])


def choose_partitioning(
    events: DataFrame, reference: IndexReference, how: How, *, worker_bytes: int, shard_bytes: int | None
) -> Partitioning:
    """Return how to divide the work."""
    if reference.kind == "store":
        if how == "shards":
            raise NotSupported("a store's subscriptions are not sharded: write them to a folder for that")
        return Partitioning(
            "events", (), _spread(events), None, None, ("a store is followed by every worker as a whole",)
        )
    manifest = read_manifest(reference.place, reference.version)
    fits = manifest.bytes <= worker_bytes
    chosen = how if how != "auto" else ("events" if fits or len(manifest.segments) < 2 else "shards")
    reasons = [
        f"the index has {manifest.bytes / 1e6:,.1f} MB and a worker may map {worker_bytes / 1e6:,.1f} MB"
        if how == "auto"
        else "it was asked for",
    ]
    if how == "auto" and not fits and chosen == "events":
        reasons.append("it is a single segment, which cannot be divided; write it with a smaller per_segment")
    shards: tuple[tuple[str, ...], ...] = ()
    if chosen == "shards":
        shards = divide([(entry.name, entry.bytes) for entry in manifest.segments], shard_bytes or worker_bytes)
        reasons.append(f"every event goes to {len(shards)} shards")
    spread = _spread(events) if chosen == "events" else None
    if spread:
        reasons.append("the events come in fewer partitions than there are cores")
    return Partitioning(chosen, shards, spread, manifest.subscriptions, manifest.bytes, tuple(reasons))


def divide(segments: list[tuple[str, int]], most_bytes: int) -> tuple[tuple[str, ...], ...]:
    """Return the segments in as few shards of at most so many bytes as first-fit finds, largest first."""
    shards: list[tuple[int, list[str]]] = []
    for file, size in sorted(segments, key=lambda entry: (-entry[1], entry[0])):
        at = next((at for at, (held, _) in enumerate(shards) if held + size <= most_bytes), None)
        if at is None:
            shards.append((size, [file]))
        else:
            shards[at] = (shards[at][0] + size, [*shards[at][1], file])
    return tuple(tuple(sorted(files)) for _, files in shards)


def _spread(events: DataFrame) -> int | None:
    """Return over how many partitions a batch DataFrame should be spread; None where it is well as it is.

    Only where asking costs nothing: a streaming DataFrame, and one of Spark Connect, stays as it is.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if events.isStreaming or not isinstance(events, ClassicDataFrame):
        return None
    cores = events.sparkSession.sparkContext.defaultParallelism
    partitions = events.rdd.getNumPartitions()
    return cores if 0 < partitions < cores else None
