"""Every schedule against the definition: exact answers, and no evaluation that cannot matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.schedules.problems import Case, cases, workload_of
from tocsin.operators.naive_schedule import NaiveSchedule
from tocsin.operators.problem import Problem, Statistics
from tocsin.operators.schedules import SCHEDULES, Adaptive, Naive, Sequential, SubOrder
from tocsin.operators.schedules.answers import decided, no_answers

EVERY = pytest.mark.parametrize("name", SCHEDULES)


@EVERY
@given(case=cases())
def test_the_schedule_never_changes_the_answer_and_evaluates_nothing_twice(name: str, case: Case) -> None:
    schedule = SCHEDULES[name]()
    asked: list[int] = []
    schedule.prepare(case.problem.workload, case.problem.statistics)
    held = schedule.run(case.problem, case.recorder(asked))
    assert held.dtype == np.bool_
    assert held.tolist() == case.expected()
    assert len(asked) == len(set(asked))
    used = {int(k) for candidate in case.problem.candidates for k in case.problem.workload.of(candidate)[0]}
    assert set(asked) <= used


@EVERY
@given(cases=st.lists(cases(), min_size=2, max_size=4))
def test_a_schedule_may_go_from_one_workload_to_the_next(name: str, cases: list[Case]) -> None:
    schedule = SCHEDULES[name]()
    for case in cases:
        assert schedule.run(case.problem, case.recorder([])).tolist() == case.expected()


@EVERY
def test_a_problem_without_candidates_asks_for_nothing(name: str) -> None:
    workload = workload_of([[0, 1]], 2)
    problem = Problem(workload, np.empty(0, np.int32), Statistics.of(np.ones(2)))
    asked: list[int] = []
    assert SCHEDULES[name]().run(problem, Case(problem, np.ones(2, np.bool_)).recorder(asked)).tolist() == []
    assert asked == []


@EVERY
def test_a_failing_operator_ends_the_event_with_its_error(name: str) -> None:
    def broken(_: int) -> bool:
        raise ValueError("camera is offline")

    with pytest.raises(ValueError, match="camera is offline"):
        SCHEDULES[name]().run(Problem.whole(workload_of([[0, 1]], 2)), broken)


@given(case=cases())
def test_the_compiled_naive_schedule_asks_what_the_plain_one_asks(case: Case) -> None:
    compiled: list[int] = []
    plain: list[int] = []
    Naive().run(case.problem, case.recorder(compiled))
    NaiveSchedule().run(case.problem, case.recorder(plain))
    assert compiled == plain


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
    statistics = Statistics.of(np.ones(4))
    statistics.evaluations += 100
    statistics.trues += np.array([1, 50, 50, 50])
    asked: list[int] = []
    case = Case(Problem.whole(workload, statistics), np.array([False, True, True, True]))
    SubOrder().run(case.problem, case.recorder(asked))
    assert asked == [0]


def test_sub_order_orders_again_when_more_is_known() -> None:
    workload = workload_of([[0, 1]], 2)
    statistics = Statistics.of(np.ones(2))
    case = Case(Problem.whole(workload, statistics), np.array([False, False]))
    schedule = SubOrder()
    asked: list[int] = []
    schedule.run(case.problem, case.recorder(asked))
    statistics.evaluations += 10_000
    statistics.trues += np.array([9_000, 10])
    schedule.run(case.problem, case.recorder(asked))
    assert asked == [0, 1]


def test_answers_that_leave_a_conjunction_open_are_refused() -> None:
    problem = Problem.whole(workload_of([[0], [0, 1]], 2))
    answers = no_answers(2)
    answers[0] = 1
    with pytest.raises(AssertionError, match="left conjunction 1 undecided"):
        decided(problem, answers)


def test_the_adaptive_schedule_takes_the_cheapest_information_first() -> None:
    workload = workload_of([[0, 1], [0, 2], [1, 3]], 4)
    statistics = Statistics.of(np.array([1.0, 1.0, 0.1, 1.0]))
    case = Case(Problem.whole(workload, statistics), np.array([False, False, False, False]))
    asked: list[int] = []
    Adaptive().run(case.problem, case.recorder(asked))
    assert asked[0] == 2  # a tenth of the cost for half of the information
