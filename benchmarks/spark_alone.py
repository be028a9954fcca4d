"""The same work without Spark: the bare engine, what workers run, and where their time goes; one core, or all at once."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.spark_world import World
from tocsin.pipeline.list_chunk import BlockFile
from tocsin.pipeline.match_batches import MatchBatches, Output, open_index
from tocsin.pipeline.match_file import MatchFile
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.plan import Layout
from tocsin.pipeline.subscription_table import read_schema
from tocsin.schema.files import dumps

BATCH = 5_000
ALONE = 500  # events, for Arrow's Parquet writer
DISK_MEGABYTES = 700
NOWHERE = Path("/dev/null")
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder in memory is the point


def alone(world: World, cores: int) -> dict[str, Any]:
    """Return all rates without Spark."""
    _, bare = bare_engine(world.index, world.table)
    counting = world.table.num_rows / best_of(lambda: count_all(world.index, world.table))
    on_all = [bare_on_all(world, cores, counting=counting) for counting in (False, True)]
    return {
        "bare_one_core_events_per_second": bare,
        "bare_events_per_second": on_all[0],  # on all cores at once
        "bare_counting_one_core_events_per_second": counting,
        "bare_counting_events_per_second": on_all[1],
        "worker_function_one_core_events_per_second": world.table.num_rows / best_of(lambda: worker_function(world)),
        "arrow_parquet_one_core_matches_per_second": arrow_alone(world),
        **{f"one_core_{name}_ns_per_id": value for name, value in where_time_goes(world).items()},
        "disk_one_core_bytes_per_second": disk_alone(world.folder),
        "memory_one_core_bytes_per_second": disk_alone(IN_MEMORY),
    }


def batches_of(table: pa.Table) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = table.drop_columns(["id"]).to_batches(max_chunksize=BATCH)
    return found


def bare_engine(index: Path, table: pa.Table) -> tuple[int, float]:
    """Return how many ids the engine finds in this process, batches as Spark would give them, and its events per second."""
    opened = open_index(IndexReference(str(index)))
    batches = batches_of(table)

    def find(batches: list[pa.RecordBatch]) -> int:
        return sum(len(lists.ids) for batch in batches for _, lists in opened.column_parts(batch, None, None))

    find(batches[:1])  # kernels load here
    started = time.perf_counter()
    matches = find(batches)
    return matches, table.num_rows / (time.perf_counter() - started)


def count_all(index: Path, table: pa.Table) -> int:
    """Return how many matches there are, counted by the engine, which finds no ids for that."""
    opened = open_index(IndexReference(str(index)))
    return sum(int(opened.count_columns(batch, None, None).sum()) for batch in batches_of(table))


def bare_on_all(world: World, cores: int, *, counting: bool) -> float:
    """Return the engine's own rate on so many cores at once, each in a process that matches all events."""
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        return sum(
            pool.map(_bare_rate, [world.index] * cores, [world.first(world.table.num_rows)] * cores, [counting] * cores)
        )


def _bare_rate(index: Path, events: Path, counting: bool) -> float:
    table = parquet.read_table(events)
    if counting:
        return float(table.num_rows / best_of(lambda: count_all(index, table)))
    return max(bare_engine(index, table)[1] for _ in range(2))


def function_of(world: World, form: Literal["counts", "lists"], *, numbered: bool = False) -> MatchBatches:
    """Return what Spark's workers run."""
    layout = Layout(plain=tuple(name for name in world.table.column_names if name != "id"))
    schema = dumps(read_schema(world.index), "json")
    reference = IndexReference(str(world.index), numbered=numbered)
    return MatchBatches(reference, schema, layout, Output(form, ("id",)))


def worker_function(world: World) -> None:
    """Run what the workers run for counts: the engine and admission."""
    function = function_of(world, "counts")
    rows = sum(batch.num_rows for batch in function(iter(world.table.to_batches(max_chunksize=BATCH))))
    assert rows == world.table.num_rows


def where_time_goes(world: World) -> dict[str, float]:
    """Return the nanoseconds an id takes on one core: to be found, to be packed, and to be written to disk and to memory."""
    batches = world.table.slice(0, world.few // 2).to_batches(max_chunksize=BATCH)
    function = function_of(world, "lists", numbered=True)

    def match_only() -> int:
        return sum(len(lists.ids) for _, parts, _ in function.rows_and_lists(iter(batches)) for lists in parts)

    def write_to(place: Path) -> None:
        file = MatchFile(place, "subscriptions")
        for kept, parts, dictionary in function.rows_and_lists(iter(batches)):
            file.add(kept, parts, dictionary)
        file.close()
        if place != NOWHERE:
            place.unlink()

    ids = match_only()
    places = {
        "match": None,
        "pack": NOWHERE,
        "disk": world.folder / "alone.parquet",
        "memory": IN_MEMORY / "alone.parquet",
    }
    times = {
        name: best_of(match_only if place is None else lambda place=place: write_to(place)) * 1e9 / ids
        for name, place in places.items()
        if place is None or place.parent.is_dir()
    }
    packed = times["pack"]
    return {name: value - {"match": 0.0, "pack": times["match"]}.get(name, packed) for name, value in times.items()}


def disk_alone(folder: Path) -> float:
    """Return the bytes per second of writing blocks to a file, on one core."""
    size = DISK_MEGABYTES << 20
    return size / best_of(lambda: use_memory(folder, size), 3)


def use_memory(folder: Path, size: int) -> None:
    """Write so many bytes to a file, and remove it: what is written next finds memory that is this machine's."""
    chunk = memoryview(bytes(4 << 20))
    file = BlockFile(folder / "alone.bin")
    while file.position < size:
        file.write(chunk)
    file.close()
    (folder / "alone.bin").unlink()


def arrow_alone(world: World) -> float:
    """Return the matches per second of Arrow's own Parquet writer on one core, at its best for such lists."""
    batches = world.table.slice(0, ALONE).to_batches(max_chunksize=BATCH)
    table = pa.Table.from_batches(list(function_of(world, "lists")(iter(batches))))
    matches = sum(len(chunk.values) for chunk in table.column("subscriptions").chunks)
    seconds = best_of(
        lambda: parquet.write_table(
            table,
            world.folder / "arrow.parquet",
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            column_encoding={"subscriptions.list.element": "DELTA_BINARY_PACKED"},
        )
    )
    return matches / seconds


def best_of(run: Callable[[], Any], times: int = 2) -> float:
    """Return the seconds of the best of some runs, after one that warms up."""
    run()
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best


def clear(folder: Path) -> Path:
    """Return the folder, removed if it was there."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder
