"""Parquet files of lists, written by our own encoder: read by Arrow, DuckDB and Spark as what was written."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.worlds import write_table
from tocsin.pipeline import list_chunk, match_file
from tocsin.pipeline.list_chunk import IdDictionary
from tocsin.pipeline.match_batches import MatchBatches, Output, open_index
from tocsin.pipeline.match_file import MatchFile, WriteMatches
from tocsin.pipeline.match_lists import MatchLists
from tocsin.pipeline.open_index import FolderIndex, IndexReference
from tocsin.pipeline.plan import Layout
from tocsin.pipeline.subscription_table import SubscriptionTable
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute
from tocsin.schema.files import dumps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema(
    {"number": NumericDomain(name="number", type="int")},
    {"a": "number"},
    {"e": EventType("e", (TypeAttribute("a", mandatory=False),))},
)


class SmallLimits:
    """Limits of pages and row groups, small for as long as a test needs many of them."""

    def __init__(self, page_lists: int, group_rows: int) -> None:
        self._wanted = ((list_chunk, "PAGE_LISTS", page_lists), (match_file, "GROUP_ROWS", group_rows))
        self._usual = [getattr(module, name) for module, name, _ in self._wanted]

    def __enter__(self) -> None:
        for module, name, value in self._wanted:
            setattr(module, name, value)

    def __exit__(self, *_exception: object) -> None:
        for (module, name, _), value in zip(self._wanted, self._usual, strict=True):
            setattr(module, name, value)


def write(
    place: Path, batches: Sequence[Sequence[Sequence[int]]], ids: Sequence[Any], *, numbered: bool = True
) -> None:
    """Write batches of lists of places in `ids`; the column n counts the rows."""
    every: npt.NDArray[Any] = np.empty(len(ids), object if ids and isinstance(ids[0], str) else np.int64)
    every[:] = ids
    dictionary = IdDictionary.of(every)
    file, row = MatchFile(place, "subscriptions"), 0
    for batch in batches:
        lists = MatchLists.of(batch, text=False)
        found = lists.ids.astype(np.int32) if numbered else every[lists.ids]
        kept = pa.RecordBatch.from_pydict({"n": pa.array(range(row, row + len(batch)), pa.int64())})
        file.add(kept, [MatchLists(lists.offset, found)], dictionary if numbered else None)
        row += len(batch)
    file.close()


def named(batches: Sequence[Sequence[Sequence[int]]], ids: Sequence[Any]) -> list[list[Any]]:
    return [[ids[number] for number in one] for batch in batches for one in batch]


def by_duckdb(place: Path) -> list[list[Any]]:
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT subscriptions FROM '{place}' ORDER BY n").fetchall()
    return [list(row[0]) for row in rows]


some_ids = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40, unique=True),
    st.lists(st.text(max_size=8), min_size=1, max_size=40, unique=True),
    st.integers(1, 5000).map(lambda count: list(range(2**40, 2**40 + count))),
)


@given(st.data())
def test_any_lists_are_read_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    ids = data.draw(some_ids)
    one = st.lists(st.integers(0, len(ids) - 1), max_size=30)
    batches = data.draw(st.lists(st.lists(one, min_size=1, max_size=20), min_size=1, max_size=4))
    place = tmp_path_factory.mktemp("any") / "lists.parquet"
    with SmallLimits(data.draw(st.sampled_from([1, 3, 1 << 16])), data.draw(st.sampled_from([1, 7, 1 << 20]))):
        write(place, batches, ids, numbered=data.draw(st.booleans()))
    table = parquet.read_table(place)
    assert table.column("subscriptions").to_pylist() == named(batches, ids)
    assert table.column("n").to_pylist() == list(range(table.num_rows))
    assert by_duckdb(place) == named(batches, ids)


@pytest.mark.parametrize("subscriptions", [1, 2, 16, 17, 300, 70_000, 1_100_000])
def test_long_lists_and_every_width_of_numbers(tmp_path: Path, subscriptions: int) -> None:
    rng = np.random.default_rng(subscriptions)
    long = [rng.integers(0, subscriptions, size).tolist() for size in (300_000, 1, 0, 200_000, 8, 9)]
    batches = [[[0]], long, [[subscriptions - 1] * 3, []]]
    ids = range(10**12, 10**12 + subscriptions)
    write(tmp_path / "lists.parquet", batches, ids)
    assert parquet.read_table(tmp_path / "lists.parquet").column("subscriptions").to_pylist() == named(batches, ids)
    assert by_duckdb(tmp_path / "lists.parquet") == named(batches, ids)


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    batches = [[[1, 2], [], [0]], [[2] * 100]]
    for name in ("one", "two"):
        write(tmp_path / name, batches, ["x", "y", "z"])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_other_columns_are_what_arrow_makes_of_them(tmp_path: Path) -> None:
    at = datetime(2026, 11, 16, 8, tzinfo=UTC)
    kept = pa.RecordBatch.from_pydict({
        "id": pa.array([1, None, 3], pa.int32()),
        "text": ["a", None, "ä"],
        "at": pa.array([at, None, at], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.25"), None, Decimal("0.01")], pa.decimal128(10, 2)),
        "many": [[1.5], None, []],
        "item": [{"title": "x", "tags": {"k": 1}}, None, {"title": None, "tags": {}}],
        "raw": pa.array([b"\x00", None, b""], pa.binary()),
    })  # fmt: skip
    lists = MatchLists.of([[0, 1], [], [1]], text=False)
    file = MatchFile(tmp_path / "all.parquet", "subscriptions")
    for _ in range(2):
        file.add(kept, [lists], IdDictionary.of(np.array([7, 9])))
    file.close()
    table = parquet.read_table(tmp_path / "all.parquet")
    assert table.column_names == ["subscriptions", *kept.schema.names]
    right = pa.Table.from_batches([kept, kept])
    assert table.drop_columns(["subscriptions"]).equals(right)
    assert table.column("subscriptions").to_pylist() == [[7, 9], [], [9]] * 2
    assert (file.rows, file.matches) == (6, 6)


def test_a_footer_is_written_as_it_was_read() -> None:
    sink = pa.BufferOutputStream()
    columns = {f"c{at}": [[{"x": at, "y": "text", "z": [at / 2]}]] for at in range(20)}
    parquet.write_table(pa.table(columns), sink, sorting_columns=[parquet.SortingColumn(0)], write_page_index=True)
    content = sink.getvalue().to_pybytes()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    assert list_chunk.dump_struct(list_chunk.load_struct(footer)) == footer


# --- under a task -----------------------------------------------------------------------------------------------------


def folder_of(path: Path, texts: dict[Any, str], per_segment: int = 4) -> Path:
    lines = [f'{{"id": {id!r}, "text": "{text}"}}'.replace("'", '"') for id, text in texts.items()]
    assert not write_table(path, lines, SCHEMA, per_segment=per_segment)
    return path


def task(folder: Path, staging: Path, output: Output) -> WriteMatches:
    reference = IndexReference(str(folder), numbered=True)
    return WriteMatches(MatchBatches(reference, dumps(SCHEMA, "json"), Layout(plain=("a",)), output), str(staging))


def events_of(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": np.arange(count), "a": np.arange(count) % 20})


@pytest.mark.parametrize("text", [False, True])
def test_numbers_of_several_segments_name_the_ids(tmp_path: Path, text: bool) -> None:
    ids: list[Any] = [f"s{at}" if text else 2**33 + 3 * at for at in range(11)]
    folder = folder_of(tmp_path / "index", {id: f"a > {at} or a = 0" for at, id in enumerate(ids)})
    SubscriptionTable(folder).delete([ids[2], ids[9]])
    plain, numbered = FolderIndex(folder), FolderIndex(folder, numbered=True)
    plain.refresh(None)
    numbered.refresh(None)
    columns = events_of(40).select(["a"])
    found = plain.match_columns(columns, None, None)
    numbers = numbered.match_columns(columns, None, None)
    assert plain.dictionary is None
    assert numbered.dictionary is not None
    assert numbers.offset.tolist() == found.offset.tolist()
    named = numbered.dictionary.ids.take(pa.array(numbers.ids)).to_pylist()
    for start, stop in pairwise(found.offset.tolist()):  # the order within a list is nobody's
        assert sorted(named[start:stop]) == sorted(found.ids[start:stop].tolist())
    assert set(found.ids.tolist()) == set(ids) - {ids[2], ids[9]}


@pytest.mark.parametrize("invalid", ["drop", "keep"])
def test_a_task_writes_rows_that_are_events(tmp_path: Path, invalid: Any) -> None:
    folder = folder_of(tmp_path / "index", {at: f"a >= {at}" for at in range(6)})
    batch = pa.RecordBatch.from_pydict({"id": [0, 1, 2], "a": [3.0, 0.5, 1.0]})
    nothing = [batch.slice(0, 0)] if invalid == "keep" else [batch.slice(1, 1), batch.slice(0, 0)]
    function = task(folder, tmp_path, Output("lists", ("id",), invalid=invalid))
    assert not list(function(iter(nothing)))
    written = list(function(iter([*nothing, batch, *nothing, batch])))
    (row,) = written[0].to_pylist()
    rows = parquet.read_table(tmp_path / row["file"]).to_pylist()
    right = [(0, {0, 1, 2, 3}), (2, {0, 1})] if invalid == "drop" else [(0, {0, 1, 2, 3}), (1, set()), (2, {0, 1})]
    assert [(found["id"], set(found["subscriptions"])) for found in rows] == right * 2
    assert (row["events"], row["matches"]) == (2 * len(right), 12)
    if invalid == "keep":
        assert [found["invalid"] is None for found in rows] == [True, False, True] * 2


def test_a_change_of_subscriptions_begins_a_row_group(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "index", {1: "a > 5"})

    def batches() -> Iterator[pa.RecordBatch]:
        yield events_of(20)
        folder_of(folder, {2: "a > 5"})
        yield events_of(20)

    (written,) = task(folder, tmp_path, Output("lists", ("id",)))(batches())
    file = parquet.ParquetFile(tmp_path / written.to_pylist()[0]["file"])
    found = [set(one) for one in file.read().column("subscriptions").to_pylist()]
    assert file.metadata.num_row_groups == 2
    assert [found[10], found[30], found[0]] == [{1}, {1, 2}, set()]
    open_index(IndexReference(str(folder)))  # the index without numbers is another


def test_what_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "index", {1: "a > 5"})
    (tmp_path / "staging").mkdir()

    def broken() -> Iterator[pa.RecordBatch]:
        yield events_of(20)
        raise RuntimeError("the source is gone")

    function = task(folder, tmp_path / "staging", Output("lists", ("id",)))
    with pytest.raises(RuntimeError, match="the source is gone"):
        list(function(broken()))

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(OSError, match="No space left"):
        list(function(iter([events_of(20)])))
    assert not list((tmp_path / "staging").iterdir())


def test_writes_that_stop_short_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(file: int, blocks: Sequence[memoryview]) -> int:
        return os.write(file, blocks[0][:7])

    batches = [[[1, 2] * 50, [], [0]]]
    write(tmp_path / "whole", batches, ["x", "y", "z"])
    monkeypatch.setattr(os, "writev", some)
    write(tmp_path / "pieces", batches, ["x", "y", "z"])
    assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()


# --- read by Spark ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectorised", ["true", "false"])
@pytest.mark.parametrize("text", [False, True])
def test_spark_reads_each_row_once(spark: "SparkSession", tmp_path: Path, text: bool, vectorised: str) -> None:
    rng = np.random.default_rng(3)
    batches = [[rng.integers(0, 900, size).tolist() for size in rng.integers(0, 60, 50)] for _ in range(12)]
    batches += [[[]] * 50, [[5] * 70_000]]
    ids: list[Any] = [f"é{at}" if text else 2**41 + at for at in range(900)]
    with SmallLimits(20, 90):
        write(tmp_path / "lists.parquet", batches, ids)
    assert parquet.read_metadata(tmp_path / "lists.parquet").num_row_groups > 5
    settings = {
        "spark.sql.parquet.enableVectorizedReader": vectorised,
        "spark.sql.files.maxPartitionBytes": "20000",  # so that tasks share the file's row groups
        "spark.sql.files.openCostInBytes": "0",
    }
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        frame = spark.read.parquet(str(tmp_path / "lists.parquet"))
        assert frame.rdd.getNumPartitions() > 2
        rows = sorted(frame.collect(), key=lambda row: row.n)
        assert [row.subscriptions for row in rows] == named(batches, ids)
        assert frame.schema["subscriptions"].dataType.simpleString() == ("array<string>" if text else "array<bigint>")
    finally:
        for name, usual in before.items():
            if usual is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, usual)
