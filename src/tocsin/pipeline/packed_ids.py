"""Packed lists of ids: the ids of each event as bytes, little endian, four each where all fit, else eight.

Arrow's Parquet encoder takes in tens of millions of list elements a second, and the engine finds hundreds of millions.
A binary value is copied as a whole, so that writing keeps up; `read_matches` makes lists of it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tocsin.pipeline.match_lists import MatchLists

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SUBSCRIPTIONS, ID_BYTES = "subscriptions", "id_bytes"


def pack(lists: MatchLists, width: int) -> pa.Array:
    """Return one binary value an event, in memory of its own."""
    import pyarrow as pa

    ids = lists.ids.astype(f"<i{width}")
    offset = (lists.offset * width).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(lists), [None, pa.py_buffer(offset), pa.py_buffer(ids)])


def unpack(packed: pa.Array, width: int) -> pa.Array:
    """Return the lists of a column of packed ids."""
    import pyarrow as pa

    _, offsets, data = packed.buffers()
    offset = np.frombuffer(offsets, np.int32)[packed.offset : packed.offset + len(packed) + 1]
    ids = np.frombuffer(data or b"", np.uint8)[offset[0] : offset[-1]].view(f"<i{width}").astype(np.int64)
    return pa.ListArray.from_arrays(pa.array((offset - offset[0]) // width), pa.array(ids))


def read_matches(spark: SparkSession, path: str | Path) -> DataFrame:
    """Return what write_matches wrote, one row an event with its list of subscriptions, whichever way it was written."""
    frame = spark.read.parquet(str(path))
    if ID_BYTES not in frame.columns:
        return frame
    kept = [field.simpleString().replace(":", " ", 1) for field in frame.schema if field.name not in _PACKED]
    return frame.mapInArrow(_unpack_batches, ", ".join([*kept, f"{SUBSCRIPTIONS} array<long>"]))


_PACKED = (SUBSCRIPTIONS, ID_BYTES)


def _unpack_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        if batch.num_rows:
            columns = {name: batch.column(name) for name in batch.schema.names if name not in _PACKED}
            width = int(batch.column(ID_BYTES)[0].as_py())
            yield pa.RecordBatch.from_pydict(
                {**columns, SUBSCRIPTIONS: unpack(batch.column(SUBSCRIPTIONS).cast(pa.binary()), width)}
            )
