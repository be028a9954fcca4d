"""The adaptive schedule by its work, whatever it believes; lab/tests/schedules compares it with the papers'."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.schedules.problems import Case, cases, workload_of
from tocsin.operators.problem import PredicateStatistics, SchedulingProblem
from tocsin.operators.schedules import Adaptive, schedule_names, schedule_of
from tocsin.operators.schedules.overlap import HALF_LIFE, Beliefs


@given(case=cases())
def test_the_guard_bounds_the_evaluations_by_twice_d_times_the_fewest(case: Case) -> None:
    case.problem.statistics.declared_cost[:] = 1.0
    case.problem.statistics.seconds[:] = case.problem.statistics.evaluations
    adaptive = Adaptive()
    asked: list[int] = []
    adaptive.run(case.problem, case.recorder(asked))
    longest = max((len(case.problem.workload.of(each)[0]) for each in case.problem.candidates), default=0)
    assert len(asked) <= 2 * longest * adaptive.marked
    for name in schedule_names():
        others: list[int] = []
        schedule_of(name)().run(case.problem, case.recorder(others))
        assert adaptive.marked <= len(others)


def test_the_guard_speaks_where_every_popular_predicate_disappoints() -> None:
    # Thirty hubs, believed false, are true; the two members that each conjunction needs are the same for all.
    hubs, needed = 30, [30, 31]
    workload = workload_of([[hub, *needed] for hub in range(hubs) for _ in range(1)], 32)
    statistics = PredicateStatistics.of(np.ones(32))
    statistics.evaluations += 1_000
    statistics.seconds += 1_000.0
    statistics.trues[needed] = 999
    case = Case(SchedulingProblem.whole(workload, statistics), np.array([True] * hubs + [False, False]))
    adaptive = Adaptive()
    asked: list[int] = []
    assert adaptive.run(case.problem, case.recorder(asked)).tolist() == case.expected()
    assert adaptive.guarded > 0
    assert len(asked) <= 2 * 3 * adaptive.marked


def test_a_member_that_is_needed_in_any_case_comes_first() -> None:
    workload = workload_of([[0], [1, 2], [1, 3], [1, 4]], 5)
    asked: list[int] = []
    case = Case(SchedulingProblem.whole(workload), np.zeros(5, np.bool_))
    Adaptive().run(case.problem, case.recorder(asked))
    assert asked == [0, 1]


def observed(beliefs: Beliefs, statistics: PredicateStatistics, predicate: int, result: bool, events: int) -> None:
    workload = workload_of([[k] for k in range(6)], 6, operators=2)
    for _ in range(events):
        statistics.observe(predicate, result, 0.5)
        beliefs.look(workload, statistics)


def test_beliefs_follow_a_drift() -> None:
    beliefs, statistics = Beliefs(), PredicateStatistics.of(np.ones(6))
    observed(beliefs, statistics, 0, True, 2 * HALF_LIFE)
    assert beliefs.probability[0] > 0.95
    observed(beliefs, statistics, 0, False, 2 * HALF_LIFE)
    assert beliefs.probability[0] < 0.3
    assert statistics.probability[0] == pytest.approx(0.5)


def test_predicates_borrow_from_their_operator() -> None:
    beliefs, statistics = Beliefs(), PredicateStatistics.of(np.ones(6))
    observed(beliefs, statistics, 0, True, 10)
    assert beliefs.probability[2] > 0.8  # of the same operator, never evaluated
    assert beliefs.probability[1] == pytest.approx(0.5)  # of another one
    assert beliefs.cost[2] == pytest.approx(0.55, abs=0.05)
    assert beliefs.cost[1] == pytest.approx(1.0)


@given(st.integers(0, 5), st.booleans())
def test_beliefs_start_again_with_other_statistics(predicate: int, result: bool) -> None:
    beliefs = Beliefs()
    observed(beliefs, PredicateStatistics.of(np.ones(6)), predicate, result, 12)
    fresh = PredicateStatistics.of(np.ones(6))
    beliefs.look(workload_of([[k] for k in range(6)], 6, operators=2), fresh, now=True)
    assert beliefs.probability == pytest.approx(np.full(6, 0.5))
