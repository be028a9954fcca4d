"""Bitmaps over columns leave all rows of an interval, and few others."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.symmetric.bitmaps import BUCKETS, BitmapIndex, every_row, rows_of, within


def column(kind: str, seed: int, size: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    absent = random.random(size) < 0.2
    if kind == "few":
        return random.integers(0, 5, size).astype(np.int32), absent
    if kind == "whole":
        return random.integers(-500, 500, size), absent
    values = random.normal(0, 100, size)
    values[random.random(size) < 0.1] = np.inf
    return values, absent


@given(st.sampled_from(["few", "whole", "float"]), st.integers(0, 10**6), st.integers(1, 700), st.integers(0, 700))
def test_narrowing_keeps_every_row_of_the_interval(kind: str, seed: int, first: int, more: int) -> None:
    values, absent = column(kind, seed, first + more)
    index = BitmapIndex()
    index.reach(values[:first], absent[:first])
    index.reach(values, absent)  # rows that came later
    bounds = np.random.default_rng(seed + 1).choice(values, 2)
    for low, high in ((None, bounds[0]), (bounds[0], None), (min(bounds), max(bounds)), (max(bounds), min(bounds))):
        found = every_row(len(values))
        index.narrow(found, low, high)
        rows = rows_of(found)
        wanted = ~absent
        if low is not None:
            wanted &= values >= low
        if high is not None:
            wanted &= values <= high
        assert set(np.flatnonzero(wanted)) <= set(rows.tolist())
        assert within(rows, values, absent, low, high).tolist() == np.flatnonzero(wanted).tolist()


def test_few_rows_beside_the_interval_are_left() -> None:
    values = np.random.default_rng(1).permutation(64_000)
    absent = np.zeros(len(values), np.bool_)
    index = BitmapIndex()
    index.reach(values, absent)
    found = every_row(len(values))
    index.narrow(found, 10_000, 20_000)
    assert 10_001 <= len(rows_of(found)) <= 10_001 + 2.5 * len(values) / BUCKETS
