"""The adaptive schedule by its work: evaluations, against the others, whatever it believes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.schedules.problems import Case, cases, workload_of
from tocsin.operators.evaluation.lower_bound import lower_bound
from tocsin.operators.evaluation.measure import Simulated, run_on
from tocsin.operators.evaluation.workloads import PaperWorkload, Setting, Truth
from tocsin.operators.problem import Problem, Statistics
from tocsin.operators.schedules import SCHEDULES, Adaptive, Sequential, SubOrder
from tocsin.operators.schedules.beliefs import HALF_LIFE, Beliefs

SETTINGS = [
    Setting(subscriptions=2_000, predicates=1_000),
    Setting(subscriptions=2_000, predicates=4_000),
    Setting(subscriptions=2_000, predicates=1_000, zipf=0.8),
    Setting(subscriptions=2_000, predicates=1_000, zipf=1.0),
    Setting(subscriptions=2_000, predicates=1_000, zipf=1.2),
    Setting(subscriptions=2_000, predicates=500, zipf=1.0, longest=11),
    Setting(subscriptions=1_000, predicates=100, shortest=1, longest=2, match_ratio=0.1),
    Setting(subscriptions=1_000, predicates=300, match_ratio=0.5),
]


@pytest.mark.parametrize("truth", ["spread", "equal", "popular"])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_it_needs_fewer_evaluations_than_sequential_and_sub_order(setting: Setting, truth: Truth) -> None:
    made = PaperWorkload.of(setting.with_truth(truth))
    events = made.events(5)
    found = {
        schedule.name: run_on(schedule, made.workload, events, made.statistics(1.0, known=True)).mean_evaluations
        for schedule in (Sequential(), SubOrder(), Adaptive())
    }
    assert found["adaptive"] <= found["sequential"]
    assert found["adaptive"] <= found["sub-order"]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_it_learns_from_nothing_what_the_others_are_told(setting: Setting) -> None:
    made = PaperWorkload.of(setting)
    events = made.events(30)
    learning = run_on(Adaptive(), made.workload, events, made.statistics(1.0, known=False), learn=True)
    told = run_on(SubOrder(), made.workload, events[-5:], made.statistics(1.0, known=True))
    sequential = run_on(Sequential(), made.workload, events, made.statistics(1.0, known=True))
    assert np.mean(learning.evaluations[-5:]) <= told.mean_evaluations
    assert learning.mean_evaluations <= 1.05 * sequential.mean_evaluations


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_wrong_beliefs_cost_at_most_a_small_factor(setting: Setting) -> None:
    made = PaperWorkload.of(setting)
    wrong = made.statistics(1.0, known=True)
    wrong.trues[:] = wrong.evaluations - wrong.trues
    events = made.events(3)
    adaptive = run_on(Adaptive(), made.workload, events, wrong)
    sequential = run_on(Sequential(), made.workload, events, wrong)
    assert adaptive.mean_evaluations <= 1.5 * sequential.mean_evaluations


@given(case=cases())
def test_the_guard_bounds_the_evaluations_by_twice_d_times_the_fewest(case: Case) -> None:
    case.problem.statistics.declared_cost[:] = 1.0
    case.problem.statistics.seconds[:] = case.problem.statistics.evaluations
    adaptive = Adaptive()
    asked: list[int] = []
    adaptive.run(case.problem, case.recorder(asked))
    longest = max((len(case.problem.workload.of(each)[0]) for each in case.problem.candidates), default=0)
    assert len(asked) <= 2 * longest * adaptive.marked
    for name in SCHEDULES:
        others: list[int] = []
        SCHEDULES[name]().run(case.problem, case.recorder(others))
        assert adaptive.marked <= len(others)


def test_the_guard_speaks_where_every_popular_predicate_disappoints() -> None:
    # Thirty hubs, believed false, are true; the two members that each conjunction needs are the same for all.
    hubs, needed = 30, [30, 31]
    workload = workload_of([[hub, *needed] for hub in range(hubs) for _ in range(1)], 32)
    statistics = Statistics.of(np.ones(32))
    statistics.evaluations += 1_000
    statistics.seconds += 1_000.0
    statistics.trues[needed] = 999
    case = Case(Problem.whole(workload, statistics), np.array([True] * hubs + [False, False]))
    adaptive = Adaptive()
    asked: list[int] = []
    assert adaptive.run(case.problem, case.recorder(asked)).tolist() == case.expected()
    assert adaptive.guarded > 0
    assert len(asked) <= 2 * 3 * adaptive.marked


def test_a_member_that_is_needed_in_any_case_comes_first() -> None:
    workload = workload_of([[0], [1, 2], [1, 3], [1, 4]], 5)
    asked: list[int] = []
    case = Case(Problem.whole(workload), np.zeros(5, np.bool_))
    Adaptive().run(case.problem, case.recorder(asked))
    assert asked == [0, 1]


@given(case=cases(most_predicates=7))
def test_no_schedule_is_below_the_lower_bound(case: Case) -> None:
    workload = case.problem.workload
    bound = lower_bound(workload, case.truth, rounds=20)
    for name in SCHEDULES:
        evaluate = Simulated(case.truth)
        SCHEDULES[name]().run(Problem.whole(workload, case.problem.statistics), evaluate)
        assert bound <= len(evaluate.asked) + 1e-6


def observed(beliefs: Beliefs, statistics: Statistics, predicate: int, result: bool, events: int) -> None:
    workload = workload_of([[k] for k in range(6)], 6, operators=2)
    for _ in range(events):
        statistics.observe(predicate, result, 0.5)
        beliefs.look(workload, statistics)


def test_beliefs_follow_a_drift() -> None:
    beliefs, statistics = Beliefs(), Statistics.of(np.ones(6))
    observed(beliefs, statistics, 0, True, 2 * HALF_LIFE)
    assert beliefs.probability[0] > 0.95
    observed(beliefs, statistics, 0, False, 2 * HALF_LIFE)
    assert beliefs.probability[0] < 0.3
    assert statistics.probability[0] == pytest.approx(0.5)


def test_predicates_borrow_from_their_operator() -> None:
    beliefs, statistics = Beliefs(), Statistics.of(np.ones(6))
    observed(beliefs, statistics, 0, True, 10)
    assert beliefs.probability[2] > 0.8  # of the same operator, never evaluated
    assert beliefs.probability[1] == pytest.approx(0.5)  # of another one
    assert beliefs.cost[2] == pytest.approx(0.55, abs=0.05)
    assert beliefs.cost[1] == pytest.approx(1.0)


@given(st.integers(0, 5), st.booleans())
def test_beliefs_start_again_with_other_statistics(predicate: int, result: bool) -> None:
    beliefs = Beliefs()
    observed(beliefs, Statistics.of(np.ones(6)), predicate, result, 12)
    fresh = Statistics.of(np.ones(6))
    beliefs.look(workload_of([[k] for k in range(6)], 6, operators=2), fresh, now=True)
    assert beliefs.probability == pytest.approx(np.full(6, 0.5))
