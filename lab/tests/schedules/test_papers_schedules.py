"""Sequential and Sub-Order do what Liu et al. write. That they give the right answers is tested with all schedules."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.operators.schedules.problems import Case, cases, workload_of
from tocsin.operators.problem import PredicateStatistics, SchedulingProblem
from tocsin_lab.schedules import Sequential, SubOrder


def algorithm_1(case: Case) -> list[int]:
    """Return what Algorithm 1 of the paper evaluates, written as the paper writes it."""
    conjunctions = {
        candidate: list(zip(*map(np.ndarray.tolist, case.problem.workload.of(candidate)), strict=True))
        for candidate in case.problem.candidates.tolist()
    }
    evaluated: list[int] = []
    undecided = dict(conjunctions)
    while undecided:
        marked = next(iter(undecided.values()))
        for predicate, _ in [member for member in marked if member[0] not in evaluated]:
            if any(predicate == k for members in undecided.values() for k, _ in members):
                evaluated.append(predicate)
                for number, members in list(undecided.items()):
                    failed = any(k in evaluated and case.truth[k] == negated for k, negated in members)
                    if failed or all(k in evaluated for k, _ in members):
                        del undecided[number]
    return evaluated


@given(case=cases())
def test_sequential_is_algorithm_1(case: Case) -> None:
    asked: list[int] = []
    Sequential().run(case.problem, case.recorder(asked))
    assert asked == algorithm_1(case)


def test_sub_order_skips_what_another_chain_has_failed() -> None:
    workload = workload_of([[0, 1], [0, 2], [3, 0]], 4)
    statistics = PredicateStatistics.of(np.ones(4))
    statistics.evaluations += 100
    statistics.trues += np.array([1, 50, 50, 50])
    asked: list[int] = []
    case = Case(SchedulingProblem.whole(workload, statistics), np.array([False, True, True, True]))
    SubOrder().run(case.problem, case.recorder(asked))
    assert asked == [0]


def test_sub_order_orders_again_when_more_is_known() -> None:
    workload = workload_of([[0, 1]], 2)
    statistics = PredicateStatistics.of(np.ones(2))
    case = Case(SchedulingProblem.whole(workload, statistics), np.array([False, False]))
    schedule = SubOrder()
    asked: list[int] = []
    schedule.run(case.problem, case.recorder(asked))
    statistics.evaluations += 10_000
    statistics.trues += np.array([9_000, 10])
    schedule.run(case.problem, case.recorder(asked))
    assert asked == [0, 1]
