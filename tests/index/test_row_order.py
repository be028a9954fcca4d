"""The order of rows, and sketches: rows that the same events match stand together, and 64 of them are skipped at once."""

# mypy: allow-untyped-calls

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.index.tables import NO_DOMAIN, coded
from tocsin.compile.table import Column, ConjunctionTable, PredicateKind
from tocsin.index.build import build_segment
from tocsin.index.layout import TRUE_ATOM, Scalar, Section
from tocsin.index.row_order import COORDINATE_BITS, CURVE_BITS, DIMENSIONS, LEAD_BITS, curve_tables, sort_within
from tocsin.matching.columnar.segment_matcher import SORTED_EVENTS, SegmentMatcher

SUBSCRIPTIONS, CONSTANTS = 4_000, 100
CODES = 2 * CONSTANTS + 1


def ranges_table(rng: np.random.Generator, columns: int = 2, constants: int = CONSTANTS) -> ConjunctionTable:
    """Return subscriptions that ask for at most so much, of each of the columns."""
    predicates = SUBSCRIPTIONS * columns
    return ConjunctionTable(
        columns=[Column(f"a{c}", NO_DOMAIN, False, "value", np.arange(constants)) for c in range(columns)],
        ids=np.arange(SUBSCRIPTIONS, dtype=np.int64),
        subscription=np.arange(SUBSCRIPTIONS, dtype=np.int64),
        offset=np.arange(SUBSCRIPTIONS + 1, dtype=np.int64) * columns,
        column=np.tile(np.arange(columns, dtype=np.uint16), SUBSCRIPTIONS),
        kind=np.full(predicates, PredicateKind.SOME_IN, np.uint8),
        low=np.zeros(predicates, np.int32),
        high=rng.integers(1, 2 * constants, predicates).astype(np.int32),
        set_offset=np.zeros(1, np.int64),
        set_low=np.zeros(0, np.int32),
        set_high=np.zeros(0, np.int32),
        checks=[],
    )


def test_curve_holds_every_bit_of_every_coordinate_once() -> None:
    tables = curve_tables()
    lead = [int(tables[DIMENSIONS, 1 << bit]) for bit in range(LEAD_BITS)]
    others = [[int(tables[d, 1 << bit]) for bit in range(COORDINATE_BITS)] for d in range(DIMENSIONS)]
    assert sorted(sum(others, lead)) == [1 << bit for bit in range(CURVE_BITS)]
    for bits in (lead, *others):
        assert bits == sorted(bits), "higher bits stay higher"
    assert int(tables[2, 0b10110]) == others[2][1] | others[2][2] | others[2][4]


@pytest.mark.parametrize("constants", [CONSTANTS, 3_000], ids=["dense atoms", "local atoms"])
def test_rows_are_sketched_and_skipped(constants: int) -> None:
    rng = np.random.default_rng(3)
    table = ranges_table(rng, constants=constants)
    segment = build_segment(table)
    segment.check()
    sketches = segment.section(Section.SKETCHES).reshape(-1, 2)
    assert (sketches != TRUE_ATOM).all(), "all rows have both ranges"
    assert segment.scalar(Scalar.SORT_COLUMN) in {0, 1}
    matcher = SegmentMatcher(segment)
    events: list[Any] = [[[2 * constants], [2 * constants]]] * (2 * SORTED_EVENTS)
    assert not any(len(chunk.numbers) for chunk in matcher.match(coded(table, events)))
    assert matcher.counters().tile_rows + matcher.counters().direct_rows < SUBSCRIPTIONS / 8
    assert not len(matcher.match_one(coded(table, events[:1])))
    assert matcher.counters().direct_rows < SUBSCRIPTIONS / 8
    assert matcher.count(coded(table, events)).sum() == 0


def test_neighbours_match_alike() -> None:
    """Of the words of 64 rows, an event fills few in part: by any one order of the ranges, it would nearly all."""
    rng = np.random.default_rng(5)
    table = ranges_table(rng)
    segment = build_segment(table)
    order = segment.section(Section.NUMBERS)[:SUBSCRIPTIONS]
    high = table.high.reshape(-1, 2)
    partly: dict[str, float] = {"curve": 0.0, "first range": 0.0}
    for name, rows in (("curve", order), ("first range", np.lexsort((high[:, 1], high[:, 0])))):
        for codes in rng.integers(0, CODES, (50, 2)):
            bits = (high[rows] >= codes).all(axis=1)[: SUBSCRIPTIONS // 64 * 64].reshape(-1, 64).sum(axis=1)
            partly[name] += ((bits > 0) & (bits < 64)).mean() / 50
    assert partly["curve"] < partly["first range"] / 2


@pytest.mark.parametrize("columns", [1, 2, 8])
def test_sorted_events_get_their_own_answers(columns: int) -> None:
    rng = np.random.default_rng(columns)
    table = ranges_table(rng, columns)
    segment = build_segment(table)
    segment.check()
    codes = rng.integers(0, CODES, (SORTED_EVENTS + 70, columns))
    events: list[Any] = [[[int(code)] for code in of_event] for of_event in codes]
    high = table.high.reshape(-1, columns)
    expected = [np.flatnonzero((high >= of_event).all(axis=1)).tolist() for of_event in codes]
    matcher = SegmentMatcher(segment)
    for output_numbers in (1 << 20, 3_000):
        found = []
        for chunk in matcher.match(coded(table, events), output_numbers=output_numbers):
            found += [sorted(chunk.numbers[a:b].tolist()) for a, b in zip(chunk.offset, chunk.offset[1:], strict=False)]
        assert found == expected
    assert matcher.count(coded(table, events)).tolist() == [len(numbers) for numbers in expected]


def test_positions_are_sorted_within_their_parts() -> None:
    rng = np.random.default_rng(8)
    starts = np.concatenate([[0], np.cumsum([0, 1, 2, 39, 40, 41, 900, 0, 5_000, 3])])
    for bits in (1, 20, 64):
        keys = rng.integers(0, 2**bits, starts[-1], dtype=np.uint64)
        before = np.concatenate([rng.permutation(b - a) + a for a, b in itertools.pairwise(starts)])
        parts = [before[a:b] for a, b in itertools.pairwise(starts)]
        expected = [part[np.argsort(keys[part], kind="stable")] for part in parts]
        assert sort_within(keys, starts, before).tolist() == np.concatenate(expected).tolist()
