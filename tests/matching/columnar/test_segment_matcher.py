"""The kernels against the plain meaning of a table, on random tables of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.index.tables import Shape, check_holds, coded, matches_of, random_events, random_table
from tocsin.index.build import Lifetimes, build_segment
from tocsin.index.layout import Section
from tocsin.index.plan import PlanCosts
from tocsin.matching.columnar.segment_matcher import SegmentMatcher

EAGER = PlanCosts(row=10.0, probe=1.0)
FILTERED = PlanCosts(row=1.0, probe=40.0, passing=1.0)  # clusters of a few dozen rows, all with filters
SHAPES = {
    "plain": Shape(generic=0.0, multiple=0.0, disjunctions=0.0),
    "everything": Shape(checks=5),
    "multiples": Shape(multiple=1.0, generic=0.4),
    "large code spaces": Shape(constants=400, columns=3, subscriptions=600),
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
@pytest.mark.parametrize("costs", [EAGER, PlanCosts(), FILTERED], ids=["clusters", "root", "filters"])
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
