"""write_matches(events, subscriptions, path, ...): lists of matches to Parquet, written by the workers themselves.

An event may match thousands of subscriptions, and sending all their ids through the JVM costs more than finding them.
So each task writes its own Parquet file into a staging folder, under a name of its own, and sends Spark only the name
and the counts. The driver takes the files that Spark's successful tasks named, moves them into place, and writes
_SUCCESS last; what failed or repeated tasks left behind is removed. Readers see a plain Parquet folder.

Parquet's encoder is then the limit, since it handles list elements one by one; `ids="packed"` writes each event's ids as
one binary value (packed_ids.py), several times as fast.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tocsin.errors import FileError, NotSupported
from tocsin.pipeline.match import prepare_match
from tocsin.pipeline.match_batches import SUBSCRIPTIONS, MatchBatches
from tocsin.pipeline.open_index import open_index
from tocsin.pipeline.packed_ids import ID_BYTES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as parquet
    from pyspark.sql import DataFrame

IDS_PER_GROUP = 4_000_000
PAGE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    path: str
    files: int
    events: int
    matches: int


@dataclass(frozen=True, slots=True)
class WriteMatches:
    """Writes the matches of a task's batches to one file; yields its name and counts."""

    match: MatchBatches
    staging: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        name = f"part-{uuid.uuid4().hex}.parquet"
        file, events, matches, waiting = ListFile(Path(self.staging) / name), 0, 0, 0
        try:
            for batch in self._batches(batches):
                found = _matches_in(batch)
                events, matches, waiting = events + batch.num_rows, matches + found, waiting + found
                file.add(batch)
                if waiting >= IDS_PER_GROUP:
                    file.write_group()
                    waiting = 0
        finally:
            file.close()
        if events:
            yield pa.RecordBatch.from_pydict({"file": [name], "events": [events], "matches": [matches]})

    def _batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if not self.match.output.packed:
            yield from self.match(batches)
            return
        for batch in self.match(batches):
            width = 4 if open_index(self.match.index).small_ids else 8
            yield batch.append_column(ID_BYTES, pa.array(np.full(batch.num_rows, width, np.int8)))


def _matches_in(batch: pa.RecordBatch) -> int:
    """Return how many ids there are in a batch."""
    import pyarrow as pa
    from pyarrow import compute

    lists = batch.column(SUBSCRIPTIONS)
    if pa.types.is_binary(lists.type):
        size = compute.sum(compute.binary_length(lists)).as_py() or 0
        return size // int(batch.column(ID_BYTES)[0].as_py()) if size else 0
    return compute.sum(compute.list_value_length(lists)).as_py() or 0


class ListFile:
    """A Parquet file, written a row group at a time.

    Ids that ascend are written as their differences, in one byte or two each: less to write than light compression
    leaves, and in half the time. They are too varied for a dictionary, and nobody asks for the least or greatest.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._writer: parquet.ParquetWriter | None = None
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def write_group(self) -> None:
        import pyarrow as pa

        if self._batches:
            self._opened(self._batches[0].schema).write_table(pa.Table.from_batches(self._batches))
            self._batches = []

    def _opened(self, schema: pa.Schema) -> parquet.ParquetWriter:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        if self._writer is None:
            kind = schema.field(SUBSCRIPTIONS).type
            packed = pa.types.is_binary(kind)
            numbers = not packed and pa.types.is_integer(kind.value_type)
            differences = {f"{SUBSCRIPTIONS}.list.element": "DELTA_BINARY_PACKED"} if numbers else None
            self._writer = parquet.ParquetWriter(
                str(self._place), schema, compression="none" if numbers or packed else "lz4", use_dictionary=False,
                write_statistics=False, column_encoding=differences, data_page_size=PAGE_BYTES if packed else None,
            )  # fmt: skip
        return self._writer

    def close(self) -> None:
        self.write_group()
        if self._writer is not None:
            self._writer.close()


def write_matches(
    events: DataFrame,
    subscriptions: Any,
    path: str | Path,
    *,
    ids: Literal["lists", "packed"] = "lists",
    **options: Any,
) -> Written:
    """Write one row an event, with the list of subscriptions that it satisfies, to a new folder of Parquet files.

    `ids` are lists, which everybody reads, or packed into one binary value an event, which is several times as fast to
    write; `read_matches` reads both. Options are match()'s, but for `output` and `how`. The folder must be one that all
    workers see.
    """
    target = Path(path)
    if target.exists():
        raise FileError(str(target), "it exists already")
    staging = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.staging")
    staging.mkdir(parents=True)
    try:
        prepared = prepare_match(events, subscriptions, output="lists", how="events", **options)
        matching = prepared.function
        if ids == "packed" and matching.output.text_ids:
            raise NotSupported("only ids that are whole numbers can be packed; these are texts: write lists")
        packed = replace(matching, output=replace(matching.output, packed=ids == "packed"))
        function = WriteMatches(packed, str(staging))
        found = prepared.events.mapInArrow(function, "file string, events long, matches long").collect()
        for row in found:
            (staging / row.file).rename(staging / f"committed-{row.file}")
        for left in staging.glob("part-*"):
            left.unlink()
        for committed in staging.iterdir():
            committed.rename(staging / committed.name.removeprefix("committed-"))
        (staging / "_SUCCESS").touch()
        staging.rename(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return Written(str(target), len(found), sum(row.events for row in found), sum(row.matches for row in found))
