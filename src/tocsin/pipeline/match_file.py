"""write_matches(events, subscriptions, path, ...): lists of matches to Parquet, written by the workers themselves.

An event may match thousands of subscriptions, and sending all their ids through the JVM costs more than finding them.
So each task writes its own Parquet file into a staging folder, under a name of its own, and sends Spark only the name and
the counts. The driver takes the files that Spark's successful tasks named, moves them into place, and writes _SUCCESS
last; what failed or repeated tasks left behind is removed. Readers see a plain Parquet folder.

A MatchFile has a row an event: its list (list_chunk.py), and what is kept of it. Everything but the lists, the schema
included, is what Arrow writes: each row group is given to it with empty lists, and what it makes of the other columns is
copied into this file, with the places put right. The list is the first column, since it is written first, and Spark takes
a row group to begin with its first column.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin import __version__
from tocsin.errors import FileError, NotSupported
from tocsin.pipeline.list_chunk import (
    BlockFile,
    IdDictionary,
    Kind,
    ListChunk,
    PageBuffers,
    Struct,
    binary,
    dump_struct,
    i64,
    list_of,
    load_struct,
    structure,
)
from tocsin.pipeline.match import prepare_match
from tocsin.pipeline.match_batches import SUBSCRIPTIONS, MatchBatches
from tocsin.pipeline.match_lists import MatchLists

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


MAGIC = b"PAR1"
GROUP_BYTES = 128 << 20  # of lists, from which on a row group ends
GROUP_DICTIONARIES = 4  # but not before it is so many times as large as its dictionary
GROUP_ROWS = 1 << 20
GROUP_KEPT_BYTES = 64 << 20  # of other columns, which wait in memory
GROUP_IDS = 1 << 22  # that wait in memory, where they come without numbers

# Fields of Parquet's structs.
SCHEMA, NUM_ROWS, ROW_GROUPS, CREATED_BY = 2, 3, 4, 6  # FileMetaData
COLUMNS, TOTAL_BYTE_SIZE, GROUP_NUM_ROWS, FILE_OFFSET, TOTAL_COMPRESSED_SIZE, ORDINAL = 1, 2, 3, 5, 6, 7  # RowGroup
CHUNK_FILE_OFFSET, META_DATA = 2, 3  # ColumnChunk
PATH, UNCOMPRESSED_SIZE, COMPRESSED_SIZE, DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET = 3, 6, 7, 9, 11  # ColumnMetaData


_spare: list[PageBuffers] = []  # of files that are closed, in this process: the next task's file takes them


class MatchFile:
    """Writes rows; `close` completes the file, which is none before."""

    def __init__(self, place: Path, lists: str) -> None:
        self._file = BlockFile(place)
        self._name = lists
        self._buffers = _spare.pop() if _spare else PageBuffers()
        self._groups: list[Struct] = []
        self.rows = self.matches = 0
        self._footer: Struct = {}
        self._group: _RowGroup | None = None

    def add(self, kept: pa.RecordBatch, parts: Iterable[MatchLists], dictionary: IdDictionary | None) -> None:
        """Add rows: what is kept of them, and their lists, in stretches, the arrays of which may be used again.

        Lists hold numbers in the dictionary, or ids where there is none.
        """
        if self._group is not None and self._group.dictionary is not dictionary:
            self._end_group()
        row = taken = 0
        for lists in filter(len, parts):
            if self._group is None:
                if not self._file.position:
                    self._file.write(MAGIC)
                self._group = _RowGroup(self._file, self._buffers, dictionary)
            row += len(lists)
            self._group.add(lists, kept.num_rows - row)
            self.matches += len(lists.codes)
            if self._group.is_full:
                self._group.keep(kept.slice(taken, row - taken))
                self._end_group()
                taken = row
        if self._group is not None:
            self._group.keep(kept.slice(taken))
        self.rows += row

    def close(self) -> None:
        """End the file: with a footer, if it has rows."""
        self._end_group()
        if self._groups:
            footer = dump_struct({
                **self._footer,
                NUM_ROWS: i64(self.rows),
                ROW_GROUPS: list_of(Kind.STRUCT, self._groups),
                CREATED_BY: binary(f"tocsin version {__version__}".encode()),
            })  # fmt: skip
            self._file.write(footer, len(footer).to_bytes(4, "little"), MAGIC)
        self._file.close()
        _spare.append(self._buffers)

    def abandon(self) -> None:
        """Leave the file as it is: nobody takes it for a Parquet file."""
        self._file.close()

    def _end_group(self) -> None:
        if self._group is None:
            return
        group, self._group = self._group, None
        metadata = group.finish()
        others = _written_by_arrow(group.kept_with_empty_lists(self._name))
        self._footer = others.footer
        own, *kept = others.columns
        path = own[META_DATA][1][PATH]
        columns: list[Struct] = [{CHUNK_FILE_OFFSET: i64(0), META_DATA: structure({**metadata, PATH: path})}]
        columns += [self._copied(column, others.content) for column in kept]
        self._groups.append({
            COLUMNS: list_of(Kind.STRUCT, columns),
            TOTAL_BYTE_SIZE: i64(sum(column[META_DATA][1][UNCOMPRESSED_SIZE][1] for column in columns)),
            GROUP_NUM_ROWS: i64(group.rows),
            FILE_OFFSET: i64(group.start),
            TOTAL_COMPRESSED_SIZE: i64(self._file.position - group.start),
            ORDINAL: (Kind.I16, len(self._groups)),
        })  # fmt: skip

    def _copied(self, column: Struct, content: memoryview) -> Struct:
        """Write a column chunk of another file; return its metadata for this one."""
        metadata: Struct = column[META_DATA][1]
        places = [field for field in (DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET) if field in metadata]
        first = min(metadata[field][1] for field in places)
        moved = self._file.position - first
        self._file.write(content[first : first + metadata[COMPRESSED_SIZE][1]])
        here = {field: i64(metadata[field][1] + moved) for field in places}
        return {CHUNK_FILE_OFFSET: i64(0), META_DATA: structure({**metadata, **here})}


class _RowGroup:
    """The row group that is being written."""

    def __init__(self, file: BlockFile, buffers: PageBuffers, dictionary: IdDictionary | None) -> None:
        self.dictionary = dictionary
        self.start = file.position
        self._file, self._buffers = file, buffers
        self._chunk = None if dictionary is None else ListChunk(file, buffers, dictionary)
        self._enough_bytes = max(GROUP_BYTES, GROUP_DICTIONARIES * 8 * len(dictionary or ()))
        self._unnumbered: list[MatchLists] = []
        self._ids = 0
        self._kept: list[pa.RecordBatch] = []
        self.rows, self._kept_bytes = 0, 0

    def keep(self, kept: pa.RecordBatch) -> None:
        """Add what is kept of rows."""
        self._kept.append(kept)
        self._kept_bytes += kept.nbytes

    def add(self, lists: MatchLists, coming: int) -> None:
        """Add the lists of rows, after which there are so many more in any case."""
        self.rows += len(lists)
        if self._chunk is not None:
            self._chunk.add(lists, coming)
        else:
            self._ids += len(lists.codes)
            self._unnumbered.append(MatchLists(lists.offset.copy(), lists.codes.copy(), lists.dictionary))

    @property
    def is_full(self) -> bool:
        if self.rows >= GROUP_ROWS or self._kept_bytes >= GROUP_KEPT_BYTES:
            return True
        if self._chunk is None:
            return self._ids >= GROUP_IDS
        return self._chunk.bytes >= self._enough_bytes

    def finish(self) -> Struct:
        """Write what is left of the lists; return their ColumnMetaData."""
        if self._chunk is None:
            self._chunk = self._numbered()
        return self._chunk.finish()

    def _numbered(self) -> ListChunk:
        """Return the chunk of lists that have ids, for which a dictionary is made now."""
        import pyarrow as pa

        ids = pa.concat_arrays([lists.id_array() for lists in self._unnumbered]).dictionary_encode()
        chunk = ListChunk(self._file, self._buffers, IdDictionary(ids.dictionary))
        numbers, at = ids.indices.to_numpy(), 0
        for lists in self._unnumbered:
            chunk.add(MatchLists(lists.offset, numbers[at : at + len(lists.codes)]))
            at += len(lists.codes)
        return chunk

    def kept_with_empty_lists(self, name: str) -> pa.Table:
        """Return what is kept, behind a column of as many empty lists."""
        import pyarrow as pa

        assert self._chunk is not None
        of = pa.list_(pa.field("element", self._chunk.dictionary.ids.type, nullable=False))
        offset = pa.array(np.zeros(self.rows + 1, np.int32))
        empty = pa.ListArray.from_arrays(offset, pa.array([], of.value_type), type=of)
        kept = pa.Table.from_batches(self._kept)
        return pa.table({name: empty, **{each: kept.column(each) for each in kept.column_names}})


class _WrittenByArrow:
    """A Parquet file in memory, with one row group."""

    def __init__(self, content: Any) -> None:
        self.content = memoryview(content)
        size = int.from_bytes(self.content[-8:-4], "little")
        self.footer = load_struct(bytes(self.content[-8 - size : -8]))
        (group,) = self.footer[ROW_GROUPS][1][1]
        self.columns: list[Struct] = group[COLUMNS][1][1]


def _written_by_arrow(table: pa.Table) -> _WrittenByArrow:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, row_group_size=max(1, table.num_rows))
    return _WrittenByArrow(sink.getvalue())


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
        if options.get("metrics") is not None:
            raise NotSupported("write_matches tells its figures itself: metrics is of match()")
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
