"""tocsin_match: match() as a table function of SQL.

    register_functions(spark)
    SELECT * FROM tocsin_match(TABLE(events), '/tables/wishes', event_id => 'id', output => 'lists')

The table of subscriptions is named, as match() takes it; its version is chosen when the query is analysed. Rows go through
Python one by one: for volume use match(), whose rows are columns all the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from tocsin.errors import NotSupported
from tocsin.pipeline.given_subscriptions import reference_of
from tocsin.pipeline.match import has_text_ids, kept_columns, output_schema
from tocsin.pipeline.match_batches import MatchBatches, Output
from tocsin.pipeline.plan import choose_layout
from tocsin.schema.files import dumps, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "tocsin_match"
OPTIONS = ("output", "event_id", "event_json", "invalid", "schema", "operators", "programs")
ROWS_AT_ONCE = 5_000


@dataclass(frozen=True)
class _Table:
    """The rows of SQL's table, as far as a plan asks for them."""

    schema: StructType

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)


def _plan(rows: StructType, place: str, options: dict[str, Any]) -> tuple[MatchBatches, StructType]:
    """Return what a worker runs, and the columns that come out."""
    events: Any = _Table(rows)
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise NotSupported(f"{NAME} has no argument {unknown[0]!r}; it has {', '.join(OPTIONS)}")
    if variants := [field.name for field in rows.fields if field.dataType.typeName() == "variant"]:
        raise NotSupported(f"the column {variants[0]!r} is VARIANT: give {NAME} its text, to_json({variants[0]})")
    schema = None if options.get("schema") is None else load(options["schema"])
    named: dict[str, Any] = {name: options.get(name) for name in ("operators", "programs")}
    reference, known = reference_of(place, schema, follow=False, **named)
    layout = choose_layout(events, known, whole=options.get("event_json"), columns=None)
    output = Output(
        options.get("output", "pairs"), invalid=options.get("invalid", "drop"), text_ids=has_text_ids(reference)
    )
    output = replace(output, kept=kept_columns(events, options.get("event_id"), None, output))
    return MatchBatches(reference, dumps(known, "json"), layout, output), output_schema(events, output)


@dataclass
class AnalysedQuery(AnalyzeResult):
    """What Spark keeps of a query that calls the function, and hands to the workers."""

    function: MatchBatches | None = None
    rows: StructType | None = None


class MatchFunction:
    """The function, as Spark runs it: rows wait until they are a batch."""

    @staticmethod
    def analyze(events: AnalyzeArgument, subscriptions: AnalyzeArgument, **options: AnalyzeArgument) -> AnalysedQuery:
        """Return the columns of the answer; called by Spark for each query."""
        rows = events.dataType
        if not events.isTable or not isinstance(rows, StructType) or subscriptions.value is None:
            raise NotSupported(f"it is {NAME}(TABLE(events), 'place of the subscriptions')")
        given = {name: argument.value for name, argument in options.items()}
        function, columns = _plan(rows, str(subscriptions.value), given)
        return AnalysedQuery(columns, function=function, rows=rows)

    def __init__(self, analysed: AnalysedQuery) -> None:
        self._analysed = analysed
        self._rows: list[Any] = []

    def eval(self, events: Any, subscriptions: str, **options: Any) -> Iterator[tuple[Any, ...]]:
        """Take a row; yield what the rows so far match, now and then."""
        del subscriptions, options  # the query has them
        self._rows.append(events)
        if len(self._rows) >= ROWS_AT_ONCE:
            yield from self.terminate()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Yield what the last rows match."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        assert self._analysed.function is not None
        assert self._analysed.rows is not None
        rows, self._rows = [row.asDict(recursive=True) for row in self._rows], []
        batch = pa.RecordBatch.from_pylist(rows, to_arrow_schema(self._analysed.rows, timezone="UTC"))
        for found in self._analysed.function(iter([batch])):
            yield from zip(*(column.to_pylist() for column in found.columns), strict=True)


def register_functions(spark: SparkSession) -> None:
    """Let a session's SQL have tocsin_match."""
    from pyspark.sql.functions import udtf

    spark.udtf.register(NAME, cast("Any", udtf(MatchFunction)))
