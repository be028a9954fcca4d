"""The adaptive schedule by its work: evaluations, against those of Liu et al. and the lower bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.operators.schedules.problems import Case, cases
from tocsin.operators.problem import SchedulingProblem
from tocsin_lab.evaluation.lower_bound import lower_bound
from tocsin_lab.evaluation.measure import Simulated, run_on
from tocsin_lab.evaluation.workloads import PaperWorkload, Setting, Truth
from tocsin_lab.schedules import SCHEDULES, Adaptive, Sequential, SubOrder

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


@given(case=cases(most_predicates=7))
def test_no_schedule_is_below_the_lower_bound(case: Case) -> None:
    workload = case.problem.workload
    bound = lower_bound(workload, case.truth, rounds=20)
    for name in SCHEDULES:
        evaluate = Simulated(case.truth)
        SCHEDULES[name]().run(SchedulingProblem.whole(workload, case.problem.statistics), evaluate)
        assert bound <= len(evaluate.asked) + 1e-6
