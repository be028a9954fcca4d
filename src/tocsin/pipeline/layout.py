"""Layout: which columns of a DataFrame are the event, and in which form they come.

A DataFrame may hold an event as columns (structs give dotted names, arrays several values, maps one name per key), as
one column of JSON text or VARIANT that holds the whole event, or mixed: a text or VARIANT column `item` is read as JSON
where the schema knows `item.title` and no `item`. Decided once, by the driver, from names and types; raw_rows.py and
admission.py follow it in the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tocsin.errors import SchemaError, did_you_mean, nearest
from tocsin.schema import EVENT_TYPE, Schema

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
    return Layout(tuple(name for name in chosen if name not in as_json), as_json)


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
        column = events[_quoted(name)]
        if events.schema[name].dataType.typeName() == "variant":
            column = functions.to_json(column).alias(name)
        columns.append(column)
    return columns


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
