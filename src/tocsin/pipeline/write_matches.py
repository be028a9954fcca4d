"""write_matches(events, subscriptions, path, ...): lists of matches to Parquet, written by the workers themselves.

An event may match thousands of subscriptions, and sending all their ids through the JVM costs more than finding them.
So each task writes its own Parquet file (match_file.py) into a staging folder, under a name of its own, and sends Spark
only the name and the counts. The driver takes the files that Spark's successful tasks named, moves them into place, and
writes _SUCCESS last; what failed or repeated tasks left behind is removed. Readers see a plain Parquet folder.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.errors import FileError
from tocsin.pipeline.match import prepare_match
from tocsin.pipeline.match_batches import SUBSCRIPTIONS, MatchBatches
from tocsin.pipeline.match_file import MatchFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


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
        place = Path(self.staging) / name
        file = MatchFile(place, SUBSCRIPTIONS)
        try:
            for kept, parts, dictionary in self.match.rows_and_lists(batches):
                file.add(kept, parts, dictionary)
            file.close()
        except BaseException:
            file.abandon()
            place.unlink()
            raise
        if file.rows:
            counts = {"events": [file.rows], "matches": [file.matches]}
            yield pa.RecordBatch.from_pydict({"file": [name], **counts})


def write_matches(events: DataFrame, subscriptions: Any, path: str | Path, **options: Any) -> Written:
    """Write one row an event to a new folder of Parquet files: the list of subscriptions that it satisfies, what is kept.

    Options are match()'s, but for `output` and `how`. The folder must be one that all workers see.
    """
    target = Path(path)
    if target.exists():
        raise FileError(str(target), "it exists already")
    staging = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.staging")
    staging.mkdir(parents=True)
    try:
        prepared = prepare_match(events, subscriptions, output="lists", how="events", **options)
        matching = replace(prepared.function, index=replace(prepared.function.index, numbered=True))
        function = WriteMatches(matching, str(staging))
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
