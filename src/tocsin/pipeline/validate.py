"""validate(events, schema): the good events and the dead letters with their reasons, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tocsin.pipeline.given_subscriptions import named_operators, named_programs
from tocsin.pipeline.layout import choose_layout, numbered_columns, quoted, transported
from tocsin.pipeline.match_batches import INVALID, ValidateBatches
from tocsin.schema import Schema
from tocsin.schema.files import dumps, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
