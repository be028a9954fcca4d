"""Bitmaps over columns, and the kernels that go through them, find exactly the rows of an interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.offers import scan_kernel as k
from tocsin.offers.requests import ordered_bits
from tocsin.offers.scan_kernel import BUCKETS, BitmapIndex


def column(kind: str, seed: int, size: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    absent = random.random(size) < random.choice([0, 0.2])
    if kind == "few":
        return random.integers(0, 5, size).astype(np.int32), absent
    if kind == "whole":
        return random.integers(-500, 500, size), absent
    values = random.normal(0, 100, size)
    values[random.random(size) < 0.1] = -0.0
    return values, absent


def scanned(index: BitmapIndex, requests: list[tuple[int, int]]) -> list[list[int]]:
    """Return the rows of each request, which is an offer of its own."""
    asked = np.array([(0, low, high) for low, high in requests], np.int64)
    facts, size = np.array([index.facts()], np.int64), len(index.values)
    empty = np.zeros((size + 63) // 64, np.uint64)
    bitmaps, checked = np.empty((len(asked), k.PLACES), np.int64), np.empty(len(asked), np.bool_)
    k.resolve(facts, asked, empty.ctypes.data, bitmaps, checked)
    blocks = -(-size // (64 * k.BLOCK))
    found, out = np.zeros((blocks, len(asked)), np.int32), np.empty(len(asked) * (size + 64 * k.BLOCK), np.int32)
    starts, state = np.arange(len(asked) + 1), np.zeros(3, np.int64)
    block = np.empty(k.BLOCK, np.uint64)
    wanted = k.ScanRequests(facts, asked, starts, bitmaps, checked, size)
    assert k.scan(wanted, 0, blocks, block, state, out, found)
    counts = found.sum(axis=0)
    places, rows = np.cumsum(counts) - counts, np.empty(counts.sum(), np.int32)
    k.collect(out, found, places, rows)
    return [part.tolist() for part in np.split(rows, np.cumsum(counts)[:-1])]


@settings(deadline=None)
@given(st.sampled_from(["few", "whole", "float"]), st.integers(0, 10**6), st.integers(1, 20_000))
def test_the_scan_finds_the_rows_of_an_interval_and_no_others(kind: str, seed: int, size: int) -> None:
    values, absent = column(kind, seed, size)
    index = BitmapIndex(values, absent)
    keys = ordered_bits(values) if kind == "float" else values.astype(np.int64)
    one, other = np.random.default_rng(seed + 1).choice(keys, 2).tolist()
    requests = [(k.LEAST, one), (one, k.MOST), (one, one), (min(one, other), max(one, other)), (1, 0)]
    for (low, high), rows in zip(requests, scanned(index, requests), strict=True):
        assert rows == np.flatnonzero(~absent & (keys >= low) & (keys <= high)).tolist()


def test_a_column_of_many_values_has_few_buckets_and_one_of_few_values_is_exact() -> None:
    nothing_absent = np.zeros(64_000, np.bool_)
    many = BitmapIndex(np.random.default_rng(1).permutation(64_000), nothing_absent)
    assert not many.exact
    assert len(many.bits) <= BUCKETS
    assert BitmapIndex(np.arange(64_000) % 100, nothing_absent).exact
