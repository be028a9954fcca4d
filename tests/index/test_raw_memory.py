"""Columns of integers are coded where Arrow has them, as they would be one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.compile import Column
from tocsin.index.coder import Coder
from tocsin.index.encode import EventColumns, Int64Fields, SegmentEncoder
from tocsin.index.raw_memory import EVENTS_AT_ONCE
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute

NUMBER = NumericDomain(name="n")
GREATEST = 2**63 - 1


class Columns:
    """A stand-in for a segment: columns whose constants lie close together, close to zero and far from it."""

    def __init__(self) -> None:
        constants = {"near": [1, 2, 3, 7], "far": [10**12, 10**12 + 5], "low": [-(2**63) + 2, -(2**63) + 3]}
        self.columns = [Column(name, NUMBER, False, "value", np.array(given)) for name, given in constants.items()]


def schema() -> Schema:
    names = [column.attribute for column in Columns().columns]
    entries = tuple(TypeAttribute(name, mandatory=False) for name in names)
    return Schema({"n": NUMBER}, dict.fromkeys(names, "n"), {"e": EventType("e", entries)})


def values(count: int, seed: int = 0) -> dict[str, pa.Array]:
    rng = np.random.default_rng(seed)
    edges = np.array([-GREATEST - 1, GREATEST, 0, 1, 3, 7, 8, 10**12 - 1, 10**12, 10**12 + 5, -GREATEST, -GREATEST + 1])
    return {column.attribute: pa.array(rng.choice(edges, count)) for column in Columns().columns}


def codes(batch: pa.RecordBatch) -> list[list[int]]:
    found: list[list[int]] = SegmentEncoder(Columns()).encode(EventColumns(batch, schema())).codes.tolist()
    return found


def expected(batch: pa.RecordBatch) -> list[list[int]]:
    """Return what coding each value by itself gives."""
    return [
        [-1 if value is None else Coder(column).code_of(value) for value in batch.column(column.attribute).to_pylist()]
        for column in Columns().columns
    ]


def test_columns_are_coded_where_they_lie_as_each_value_alone() -> None:
    for count in (1, 300, EVENTS_AT_ONCE, EVENTS_AT_ONCE + 1):
        batch = pa.RecordBatch.from_pydict(values(count))
        assert codes(batch) == expected(batch)


def test_slices_of_a_batch_start_where_they_say() -> None:
    batch = pa.RecordBatch.from_pydict(values(500)).slice(123, 200)
    assert codes(batch) == expected(batch)


def test_columns_with_nulls_or_of_other_types_take_the_other_path() -> None:
    columns = values(300)
    columns["near"] = pa.array([None if row % 3 else row % 11 for row in range(300)], pa.int64())
    columns["far"] = pa.array([row % 11 for row in range(300)], pa.int8())
    batch = pa.RecordBatch.from_pydict(columns)
    source = EventColumns(batch, schema())
    addresses = source.addresses(Int64Fields(["near", "far", "low", "unknown"]))
    assert addresses is not None
    assert (addresses != 0).tolist() == [False, False, True, False]
    assert codes(batch) == expected(batch)
