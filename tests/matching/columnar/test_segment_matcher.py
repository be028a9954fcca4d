"""The kernels against the plain meaning of a table, on random tables of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.index.tables import NO_DOMAIN, Shape, check_holds, coded, matches_of, random_events, random_table
from tocsin.compile.table import Column, ConjunctionTable, PredicateKind
from tocsin.index.build import Lifetimes, build_segment
from tocsin.index.coded_batch import CodedBatch
from tocsin.index.explain import table_of
from tocsin.index.layout import Section
from tocsin.index.plan import PlanCosts
from tocsin.matching.columnar.segment_matcher import SegmentMatcher

EAGER = PlanCosts(row=10.0, probe=1.0)
FILTERED = PlanCosts(row=1.0, probe=40.0, passing=1.0)  # clusters of a few dozen rows, all with filters
IN_BANDS = PlanCosts(ranged=1, many_codes=0, bands=0.0, passing=1.0)  # wherever there is a range
SHAPES = {
    "plain": Shape(generic=0.0, multiple=0.0, disjunctions=0.0),
    "everything": Shape(checks=5),
    "multiples": Shape(multiple=1.0, generic=0.4),
    "large code spaces": Shape(constants=400, columns=3, subscriptions=600),
    "many codes": Shape(constants=40_000, columns=6, subscriptions=1500, multiple=0.1, generic=0.1),
    "few columns": Shape(columns=2, constants=3, subscriptions=400),
    "one column": Shape(columns=1, constants=30),
    "many rows": Shape(subscriptions=3000, columns=6, generic=0.02, multiple=0.1, disjunctions=0.01),
}


def decider_of(segment: Any, first: int = 0) -> Any:
    """Return what decides the segment's rows with checks, as the tests fix it; events are counted from `first`."""
    offset, checks = segment.section(Section.CHECKED_OFFSET), segment.section(Section.CHECKED_CHECK)

    def decide(events: Any, positions: Any, _chunk: Any) -> Any:
        of = [checks[offset[position] : offset[position + 1]].tolist() for position in positions]
        return np.array(
            [all(check_holds(c, first + int(event)) for c in each) for event, each in zip(events, of, strict=True)],
            np.bool_,
        )

    return decide


def batch_answers(matcher: Any, batch: Any, **options: Any) -> Any:
    answers = {}
    for chunk in matcher.match(batch, check=decider_of(matcher.segment), **options):
        for i in range(len(chunk.offset) - 1):
            answers[chunk.first + i] = chunk.numbers[chunk.offset[i] : chunk.offset[i + 1]].tolist()
    return [sorted(answers[event]) for event in range(batch.size)]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    "costs", [EAGER, PlanCosts(), FILTERED, IN_BANDS], ids=["clusters", "root", "filters", "bands"]
)
def test_matches_are_those_that_the_table_means(shape: Any, costs: Any) -> None:
    rng = np.random.default_rng(len(str(shape)))
    table = random_table(rng, shape)
    segment = build_segment(table, costs=costs)
    segment.check()
    events = random_events(rng, table, 150 if shape.subscriptions < 1000 else 40)
    expected = [matches_of(table, codes, event) for event, codes in enumerate(events)]
    matcher = SegmentMatcher(segment)
    assert batch_answers(matcher, coded(table, events)) == expected
    if not segment.has_checks and not len(segment.repeated):
        assert matcher.count(coded(table, events)).tolist() == [len(numbers) for numbers in expected]
    for event, codes in enumerate(events[:40]):
        one = matcher.match_one(coded(table, [codes]), check=decider_of(segment, event))
        assert sorted(one.tolist()) == expected[event]


def ranged_table(rng: np.random.Generator, subscriptions: int, wide: float = 0.5) -> ConjunctionTable:
    """Return conjunctions of six ranges over eight columns of 3,000 constants, each of that share of the codes; a third ask more."""
    constants = np.arange(3_000)
    columns = [Column(f"a{c}", NO_DOMAIN, False, "value", constants) for c in range(8)]
    column = np.sort(np.argsort(rng.random((subscriptions, 8)), axis=1)[:, :6], axis=1)
    width = int(wide * 6_001)
    low = rng.integers(0, 6_001 - width + 1, (subscriptions, 6))
    low[::7, 0] = 0  # one-sided
    high = np.where(low == 0, width, low + width)
    high[1::7, 1] = 6_000
    kind = np.full((subscriptions, 6), PredicateKind.SOME_IN)
    kind[::3, 2] = PredicateKind.NONE_IN  # excluded: an atom of the row
    high[::3, 2] = low[::3, 2]
    high[2::9, 3] = low[2::9, 3] = rng.integers(0, 6_001, len(high[2::9, 3]))  # equal
    return ConjunctionTable(
        columns=columns, ids=np.arange(subscriptions, dtype=np.int64), subscription=np.arange(subscriptions),
        offset=np.arange(0, 6 * subscriptions + 1, 6), column=column.reshape(-1).astype(np.uint16),
        kind=kind.reshape(-1).astype(np.uint8), low=low.reshape(-1).astype(np.int32),
        high=high.reshape(-1).astype(np.int32), set_offset=np.zeros(1, np.int64), set_low=np.zeros(0, np.int32),
        set_high=np.zeros(0, np.int32), checks=[],
    )  # fmt: skip


def meant(table: ConjunctionTable, batch: CodedBatch) -> list[list[int]]:
    """Return what the table means, for columns of one code and intervals; an absent code is -1."""
    low, high, column = (each.reshape(len(table), -1) for each in (table.low, table.high, table.column))
    some = table.kind.reshape(len(table), -1) == PredicateKind.SOME_IN
    found = []
    for event in batch.codes.T:
        code = event[column]
        holds = ((low <= code) & (code <= high)) == some
        found.append(np.flatnonzero((holds & (code >= 0)).all(axis=1)).tolist())
    return found


@pytest.mark.parametrize(("wide", "events"), [(0.5, 700), (0.98, 300), (0.5, 10)], ids=["few", "dense", "one by one"])
def test_many_ranges_are_stored_in_bands_and_match_what_they_mean(wide: float, events: int) -> None:
    rng = np.random.default_rng(3)
    table = ranged_table(rng, 1_700, wide)
    segment = build_segment(table, costs=PlanCosts(passing=1.0))
    segment.check()
    in_bands = segment.section(Section.BLOCK_RANGES)
    assert (in_bands >= 0).any()
    codes = rng.integers(0, 6_001, (8, events)).astype(np.int32)
    codes[rng.random(codes.shape) < 0.02] = -1
    batch = CodedBatch(codes, {})
    matcher, expected = SegmentMatcher(segment), meant(table, batch)
    matcher.workspace.runs, matcher.workspace.bitmaps = np.zeros((70, 4), np.int32), np.zeros(70, np.uint64)
    assert batch_answers(matcher, batch) == expected
    assert matcher.count(batch).tolist() == [len(numbers) for numbers in expected]
    if events > 24:
        assert matcher.counters().tiles > 0
    for event in range(0, events, 29):
        one = CodedBatch(codes[:, event : event + 1].copy(), {})
        assert sorted(matcher.match_one(one).tolist()) == expected[event]
    segment.kill(np.arange(0, 1_700, 3))
    segment.check()
    assert batch_answers(matcher, batch) == [[s for s in numbers if s % 3] for numbers in expected]
    assert segment.living(np.arange(1_700, dtype=np.int32)).sum() == 1_700 - 567
    back = table_of(segment)
    assert len(back) == 1_700 - 567
    again = build_segment(back, costs=IN_BANDS)
    assert batch_answers(SegmentMatcher(again), batch) == [[s for s in numbers if s % 3] for numbers in expected]


def test_few_ranges_and_few_rows_stay_atoms() -> None:
    table = ranged_table(np.random.default_rng(4), 100)
    assert not len(build_segment(table).section(Section.BLOCK_RANGES))
    assert not len(
        build_segment(ranged_table(np.random.default_rng(4), 1_000), costs=PlanCosts(ranged=7)).section(
            Section.BLOCK_RANGES
        )
    )


def test_filters_take_the_place_of_tiles_where_few_events_meet_a_block() -> None:
    rng = np.random.default_rng(12)
    table = random_table(rng, Shape(subscriptions=3000, multiple=0.0, generic=0.05, columns=6, constants=4))
    events = random_events(rng, table, 60)
    matcher = SegmentMatcher(build_segment(table, costs=FILTERED))
    matcher.segment.check()
    assert batch_answers(matcher, coded(table, events)) == [matches_of(table, codes) for codes in events]
    few = matcher.counters()
    assert few.filtered_rows > 0
    # Many events in one block share a tile, though their atoms are told by bytes alone.
    matcher.reset_counters()
    assert (
        batch_answers(matcher, coded(table, events[:2] * 300))
        == [matches_of(table, codes) for codes in events[:2]] * 300
    )
    assert matcher.counters().tiles > 0


def test_more_matches_than_filters_expected_only_take_more_memory() -> None:
    rng = np.random.default_rng(13)
    table = random_table(rng, Shape(subscriptions=2500, multiple=0.0, generic=0.0, columns=3, constants=2))
    events = random_events(rng, table, 50)
    matcher = SegmentMatcher(build_segment(table, costs=FILTERED))
    matcher.workspace.sparse, matcher.workspace.runs = np.zeros(70, np.int32), np.zeros((70, 4), np.int32)
    assert batch_answers(matcher, coded(table, events)) == [matches_of(table, codes) for codes in events]
    assert matcher.counters().filtered_rows > 0


def test_a_full_list_of_passing_rows_is_emptied_and_gone_on_with() -> None:
    rng = np.random.default_rng(15)
    table = random_table(rng, Shape(subscriptions=900, multiple=0.0, generic=0.0, columns=2, constants=1))
    events = random_events(rng, table, 6)
    matcher = SegmentMatcher(build_segment(table, costs=PlanCosts(passing=1.0)))
    matcher.workspace.pairs = np.zeros(130, np.int32)  # 65 pairs; so few events never share a tile
    expected = [matches_of(table, codes) for codes in events]
    assert max(map(len, expected)) > 65
    assert batch_answers(matcher, coded(table, events)) == expected
    assert matcher.counters().tiles == matcher.counters().direct_rows == 0


def test_killed_rows_do_not_pass_filters() -> None:
    rng = np.random.default_rng(14)
    table = random_table(rng, Shape(subscriptions=1500, multiple=0.2, columns=4, constants=3))
    segment = build_segment(table, costs=FILTERED)
    segment.kill(np.arange(0, 1500, 2))
    segment.check()
    events = random_events(rng, table, 40)
    expected = [[s for s in matches_of(table, codes) if s % 2] for codes in events]
    matcher = SegmentMatcher(segment)
    assert batch_answers(matcher, coded(table, events)) == expected
    assert matcher.counters().filtered_rows > 0


def test_repeated_events_share_tiles_and_give_equal_answers() -> None:
    rng = np.random.default_rng(5)
    table = random_table(rng, Shape(subscriptions=500))
    events = random_events(rng, table, 3) * 70
    matcher = SegmentMatcher(build_segment(table, costs=EAGER))
    answers = batch_answers(matcher, coded(table, events))
    assert answers == [matches_of(table, codes) for codes in events[:3]] * 70
    assert matcher.counters().tiles > 0


@pytest.mark.parametrize("repeats", [1, 2, 70])
@pytest.mark.parametrize("costs", [EAGER, PlanCosts()], ids=["clusters", "root"])
def test_counts_are_those_of_the_matches(repeats: int, costs: Any) -> None:
    rng = np.random.default_rng(15)
    # Without multiple columns: whom an event may find twice is finished by number, and not counted.
    shape = Shape(subscriptions=4000, columns=5, constants=6, generic=0.02, multiple=0.0, disjunctions=0.0)
    table = random_table(rng, shape)
    segment = build_segment(table, costs=costs)
    events = random_events(rng, table, 12) * repeats
    matcher = SegmentMatcher(segment)
    expected = [len(matches_of(table, codes)) for codes in events[:12]] * repeats
    assert matcher.count(coded(table, events)).tolist() == expected
    assert sum(expected) > 0
    work = matcher.counters()
    assert work.tiles > 0
    assert work.direct_rows > 0 or costs is not EAGER
    segment.kill(np.arange(0, 4000, 3))
    left = [sum(number % 3 > 0 for number in matches_of(table, codes)) for codes in events[:12]] * repeats
    assert matcher.count(coded(table, events)).tolist() == left


def test_counting_while_a_batch_is_under_way_leaves_it_alone() -> None:
    rng = np.random.default_rng(16)
    table = random_table(rng, Shape(subscriptions=500, disjunctions=0.0, multiple=0.0))
    batch = coded(table, random_events(rng, table, 100))
    matcher = SegmentMatcher(build_segment(table))
    whole = batch_answers(matcher, batch)
    matcher.workspace.out = np.zeros(600, np.int32)
    found: list[list[int]] = []
    for chunk in matcher.match(batch, output_numbers=600):
        assert matcher.count(batch).tolist() == [len(numbers) for numbers in whole]
        found += [sorted(chunk.numbers[a:b].tolist()) for a, b in zip(chunk.offset, chunk.offset[1:], strict=False)]
    assert found == whole


def test_small_output_chunks_change_nothing() -> None:
    rng = np.random.default_rng(6)
    table = random_table(rng, Shape(subscriptions=500, disjunctions=0.0, multiple=0.0))
    batch = coded(table, random_events(rng, table, 100))
    matcher = SegmentMatcher(build_segment(table))
    whole = batch_answers(matcher, batch)
    chunked = SegmentMatcher(matcher.segment)
    chunked.workspace.out = np.zeros(600, np.int32)
    assert batch_answers(chunked, batch, output_numbers=600) == whole
    assert len(list(chunked.match(batch, output_numbers=600))) > 5


def test_lifetimes_are_compared_event_by_event() -> None:
    rng = np.random.default_rng(7)
    table = random_table(rng, Shape(subscriptions=300))
    n = len(table.ids)
    created, deleted = rng.integers(0, 50, n), rng.integers(30, 100, n)
    lease_start, lease_end = rng.integers(0, 50, n), rng.integers(30, 100, n)
    segment = build_segment(table, lifetimes=Lifetimes(created, deleted, lease_start, lease_end))
    events = random_events(rng, table, 80)
    seq, arrival = rng.integers(0, 100, 80), rng.integers(0, 100, 80)
    expected = [
        [
            s
            for s in matches_of(table, codes)
            if created[s] < seq[e] < deleted[s] and lease_start[s] <= arrival[e] < lease_end[s]
        ]
        for e, codes in enumerate(events)
    ]
    assert batch_answers(SegmentMatcher(segment), coded(table, events, seq=seq, arrival=arrival)) == expected


def test_killed_subscriptions_match_nothing() -> None:
    rng = np.random.default_rng(8)
    table = random_table(rng, Shape(subscriptions=400, checks=3))
    segment = build_segment(table, costs=EAGER)
    dead = set(rng.choice(400, 150, replace=False).tolist())
    segment.kill(np.array(sorted(dead)))
    segment.check()
    events = random_events(rng, table, 60)
    expected = [[s for s in matches_of(table, codes, e) if s not in dead] for e, codes in enumerate(events)]
    assert batch_answers(SegmentMatcher(segment), coded(table, events)) == expected


def test_an_empty_batch_and_an_empty_table_match_nothing() -> None:
    rng = np.random.default_rng(9)
    table = random_table(rng, Shape(subscriptions=20))
    assert batch_answers(SegmentMatcher(build_segment(table)), coded(table, [])) == []
    nothing = random_table(rng, Shape(subscriptions=0))
    segment = build_segment(nothing)
    segment.check()
    assert batch_answers(SegmentMatcher(segment), coded(nothing, random_events(rng, nothing, 3))) == [[], [], []]


def test_clusters_save_work() -> None:
    rng = np.random.default_rng(10)
    table = random_table(rng, Shape(subscriptions=2000, generic=0.0, multiple=0.0, columns=4, constants=40))
    batch = coded(table, random_events(rng, table, 200))
    planned, unplanned = SegmentMatcher(build_segment(table, costs=EAGER)), SegmentMatcher(build_segment(table))
    batch_answers(planned, batch)
    batch_answers(unplanned, batch)
    work, more = planned.counters(), unplanned.counters()
    assert 64 * work.tile_rows + work.direct_rows < 64 * more.tile_rows + more.direct_rows


def test_each_row_with_checks_is_decided_once_per_event() -> None:
    rng = np.random.default_rng(11)
    table = random_table(rng, Shape(subscriptions=400, checks=4))
    batch = coded(table, random_events(rng, table, 50))
    asked: list[tuple[int, int]] = []

    segment = build_segment(table)

    def decide(events: Any, positions: Any, chunk: Any) -> Any:
        asked.extend(zip(positions.tolist(), events.tolist(), strict=True))
        return decider_of(segment)(events, positions, chunk)

    for _ in SegmentMatcher(segment).match(batch, check=decide):
        pass
    assert asked
    assert len(asked) == len(set(asked))
