"""Tables of events against a matcher, whatever made them: pandas, polars, Arrow, lists of dicts, lines of JSON.

    matcher.match_frame(frame)      # a frame of the same kind: a row for each match, with the column `subscription`

As `tocsin.spark.match` does for DataFrames of Spark. Columns are attributes, structs are dotted names, null is absent;
columns that the schema does not know are handed through. What is read piece by piece (a dataset, a reader of record
batches, an iterator) is answered piece by piece.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin import plugins
from tocsin.errors import BadValue, EventRejected, NotSupported, Violation
from tocsin.schema.foreign_values import ZONE_REMEDY, has_no_zone

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.matching.matcher import Matcher

COLUMN = "subscription"
_ROWS = 65_536  # that are matched at a time
_LONG = 1_000_000  # rows from which on a bar is shown
_LINES = 1_000  # events that come one by one are matched so many at a time
T = TypeVar("T")


def match_frame(
    matcher: Matcher, frame: Any, *, column: str = COLUMN, threads: int = 1, progress: bool | None = None
) -> Any:
    """Return the rows that match, once for each subscription, whose id is in `column`; in a frame of the same kind.

    `progress`: show a bar, on a terminal or in a notebook; by default where there are a million rows.
    """
    if isinstance(frame, Mapping):
        raise NotSupported("this is one event: matcher.match(event)")
    if isinstance(frame, str | bytes):
        raise NotSupported(
            "this is one text, of one event: matcher.match(text); of a file with a line each: match_frame(open(…))"
        )
    kind = type(frame).__module__.partition(".")[0]
    if kind in ("pandas", "polars", "pyarrow"):
        plugins.require("arrow")
        names = list(frame.collect_schema() if type(frame).__name__ == "LazyFrame" else _names(frame))
        if column in names:
            raise NotSupported(f"the frame has a column {column!r} already: name another, match_frame(…, column=…)")
        find = {"pandas": _match_pandas, "polars": _match_polars, "pyarrow": _match_arrow}[kind]
        return find(matcher, frame, column, threads, progress)
    if not isinstance(frame, Iterable):
        raise NotSupported(
            f"a {type(frame).__name__} is no table of events: give a DataFrame of pandas or polars, an Arrow table, "
            "or events as dicts or JSON, one after the other"
        )
    rows = _match_rows(matcher, frame, column)
    return list(rows) if isinstance(frame, Sequence) else rows


def decoded(line: str | bytes) -> Any:
    """Return the event that a line of JSON holds; raises EventRejected."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise EventRejected([Violation("not an object", None, f"not JSON: {error}")]) from None


def _names(frame: Any) -> Iterable[str]:
    if hasattr(frame, "columns") and not callable(frame.columns) and not hasattr(frame, "schema"):
        return map(str, frame.columns)
    schema: Any = frame.schema
    return schema.names if hasattr(schema, "names") and not callable(schema.names) else list(schema)


def _match_rows(matcher: Matcher, events: Iterable[Any], column: str) -> Iterator[dict[str, Any]]:
    left = ((row, one) for row, one in enumerate(events) if not isinstance(one, str | bytes) or one.strip())
    while chunk := list(islice(left, _LINES)):
        given, admitted = [], []
        for row, one in chunk:
            try:
                given.append(decoded(one) if isinstance(one, str | bytes) else one)
                admitted.append(matcher.admit(given[-1]))
            except EventRejected as error:
                raise EventRejected(replace(each, message=f"row {row}: {each}") for each in error.violations) from None
        for event, ids in zip(given, matcher.match_batch(admitted), strict=True):
            for id in ids:
                yield {**event, column: id}


def _match_pandas(matcher: Matcher, frame: Any, column: str, threads: int, progress: bool | None) -> Any:
    import pyarrow as pa

    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException as error:
        raise NotSupported(
            f"a column has values of several types: {error.args[-1]}; convert it, or give the rows one by one: "
            "matcher.match_frame(frame.to_dict('records'))"
        ) from None
    rows, ids = _matched(matcher, table, threads, progress)
    return frame.iloc[rows].assign(**{column: ids})


def _match_polars(matcher: Matcher, frame: Any, column: str, threads: int, progress: bool | None) -> Any:
    polars = sys.modules["polars"]
    if isinstance(frame, polars.LazyFrame):
        return _match_polars(matcher, frame.collect(), column, threads, progress).lazy()
    table = frame.to_arrow(compat_level=polars.CompatLevel.oldest())
    rows, ids = _matched(matcher, table, threads, progress)
    kind = polars.Int64 if ids.dtype != object else polars.String  # also of a column without rows
    return frame[rows].with_columns(polars.Series(column, _of_one_kind(ids), dtype=kind))


def _of_one_kind(ids: npt.NDArray[Any]) -> list[Any]:
    """Return ids as a list; raises NotSupported where some are texts and some are numbers, which no column holds."""
    found: list[Any] = ids.tolist()
    if ids.dtype == object and not all(isinstance(one, str) for one in found):
        raise NotSupported("some ids are texts and some are numbers, and a column holds either: use match_batch")
    return found


def _match_arrow(matcher: Matcher, frame: Any, column: str, threads: int, progress: bool | None) -> Any:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return _joined(frame, column, *_matched(matcher, frame, threads, progress))
    if isinstance(frame, pa.RecordBatch):
        table = pa.Table.from_batches([frame])
        found = _joined(table, column, *_matched(matcher, table, threads, progress)).combine_chunks()
        return found.to_batches()[0] if len(found) else pa.RecordBatch.from_pylist([], schema=found.schema)
    batches: Iterable[pa.RecordBatch] = frame if isinstance(frame, pa.RecordBatchReader) else frame.to_batches()
    schema = frame.schema.append(pa.field(column, pa.string() if _texts(matcher) else pa.int64()))

    def parts() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            yield from _joined(table, column, *_matched(matcher, table, threads, progress)).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, parts())


def _joined(table: pa.Table, column: str, rows: npt.NDArray[np.int64], ids: npt.NDArray[Any]) -> pa.Table:
    import pyarrow as pa

    found = pa.array(_of_one_kind(ids), pa.string() if ids.dtype == object else pa.int64())
    return table.take(pa.array(rows)).append_column(column, found)


def _matched(
    matcher: Matcher, table: pa.Table, threads: int, progress: bool | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the numbers of the rows that match, and the ids beside them; raises BadValue with the row."""
    rows, found, first = [np.zeros(0, np.int64)], [_no_ids(matcher)], 0
    shown = _shown(table.to_batches(max_chunksize=_ROWS), len(table), progress)
    for batch in shown:
        try:
            for part in matcher.match_arrow(batch, threads=threads):
                counts = part.counts()
                rows.append(np.repeat(np.arange(first + part.first, first + part.first + len(counts)), counts))
                found.append(part.ids.copy())
        except BadValue as error:
            if not has_no_zone(error.value):
                raise
            named = re.search(r"\(attribute (.+), row", error.right)
            remedy = ZONE_REMEDY.format(name=named[1] if named else "…")
            raise BadValue(error.value, error.domain, f"{error.right}; {remedy}") from None
        first += batch.num_rows
    return np.concatenate(rows), np.concatenate(found)


def _texts(matcher: Matcher) -> bool:
    """Return whether ids are texts."""
    return any(tier.segment.ids_are_text for tier in matcher.index.tiers())


def _no_ids(matcher: Matcher) -> npt.NDArray[Any]:
    return np.zeros(0, object if _texts(matcher) else np.int64)


def _shown(batches: Sequence[pa.RecordBatch], rows: int, progress: bool | None) -> Iterator[pa.RecordBatch]:
    """Yield the batches; a bar shows how far they are where somebody looks."""
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    if progress is False or (progress is None and rows < _LONG) or not watched or not plugins.is_there("rich"):
        yield from batches
        return
    from rich.console import Console
    from rich.progress import Progress

    console = None if "ipykernel" in sys.modules else Console(stderr=True)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("matching", total=rows)
        for batch in batches:
            yield batch
            bar.advance(task, batch.num_rows)
