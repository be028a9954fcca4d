"""write_matches(events, subscriptions, path, ...): lists of matches to Parquet, written by the workers themselves.

An event may match thousands of subscriptions, and sending all their ids through the JVM costs more than finding them.
So each task writes its own Parquet file into a staging folder, under a name of its own, and sends Spark only the name
and the counts. The driver takes the files that Spark's successful tasks named, moves them into place, and writes
_SUCCESS last; what failed or repeated tasks left behind is removed. Readers see a plain Parquet folder.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.errors import FileError
from tocsin.pipeline.match import prepare_match
from tocsin.pipeline.match_batches import SUBSCRIPTIONS, MatchBatches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS_PER_GROUP = 20_000


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
        import pyarrow.parquet as parquet
        from pyarrow import compute

        name = f"part-{uuid.uuid4().hex}.parquet"
        writer, events, matches = None, 0, 0
        try:
            for batch in self.match(batches):
                if writer is None:
                    # Ids are too varied for a dictionary, and light compression costs less than the bytes it saves.
                    place = str(Path(self.staging) / name)
                    writer = parquet.ParquetWriter(place, batch.schema, compression="lz4", use_dictionary=False)
                writer.write_table(pa.Table.from_batches([batch]), row_group_size=ROWS_PER_GROUP)
                events += batch.num_rows
                matches += compute.sum(compute.list_value_length(batch.column(SUBSCRIPTIONS))).as_py() or 0
        finally:
            if writer is not None:
                writer.close()
        if writer is not None:
            yield pa.RecordBatch.from_pydict({"file": [name], "events": [events], "matches": [matches]})


def write_matches(events: DataFrame, subscriptions: Any, path: str | Path, **options: Any) -> Written:
    """Write one row an event, with the list of subscriptions that it satisfies, to a new folder of Parquet files.

    Options are match()'s, but for `output` and `how`. The folder must be one that all workers see.
    """
    target = Path(path)
    if target.exists():
        raise FileError(str(target), "it exists already")
    staging = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.staging")
    staging.mkdir(parents=True)
    try:
        prepared = prepare_match(events, subscriptions, output="lists", how="events", **options)
        function = WriteMatches(prepared.function, str(staging))
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
