"""Every schedule against the definition: exact answers, and no evaluation that cannot matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.schedules.problems import Case, PlainNaive, cases, workload_of
from tocsin.errors import NotInstalled, NotSupported
from tocsin.operators.problem import PredicateStatistics, SchedulingProblem
from tocsin.operators.schedules import Adaptive, Naive, schedule_names, schedule_of
from tocsin.operators.schedules.naive import decided, no_answers

EVERY = pytest.mark.parametrize("name", schedule_names())


@EVERY
@given(case=cases())
def test_the_schedule_never_changes_the_answer_and_evaluates_nothing_twice(name: str, case: Case) -> None:
    schedule = schedule_of(name)()
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
    schedule = schedule_of(name)()
    for case in cases:
        assert schedule.run(case.problem, case.recorder([])).tolist() == case.expected()


@EVERY
def test_a_problem_without_candidates_asks_for_nothing(name: str) -> None:
    workload = workload_of([[0, 1]], 2)
    problem = SchedulingProblem(workload, np.empty(0, np.int32), PredicateStatistics.of(np.ones(2)))
    asked: list[int] = []
    assert schedule_of(name)().run(problem, Case(problem, np.ones(2, np.bool_)).recorder(asked)).tolist() == []
    assert asked == []


@EVERY
def test_a_failing_operator_ends_the_event_with_its_error(name: str) -> None:
    def broken(_: int) -> bool:
        raise ValueError("camera is offline")

    with pytest.raises(ValueError, match=r"camera is offline"):
        schedule_of(name)().run(SchedulingProblem.whole(workload_of([[0, 1]], 2)), broken)


@given(case=cases())
def test_the_compiled_naive_schedule_asks_what_the_plain_one_asks(case: Case) -> None:
    compiled: list[int] = []
    plain: list[int] = []
    Naive().run(case.problem, case.recorder(compiled))
    PlainNaive().run(case.problem, case.recorder(plain))
    assert compiled == plain


def test_answers_that_leave_a_conjunction_open_are_refused() -> None:
    problem = SchedulingProblem.whole(workload_of([[0], [0, 1]], 2))
    answers = no_answers(2)
    answers[0] = 1
    with pytest.raises(AssertionError, match=r"left conjunction 1 undecided"):
        decided(problem, answers)


def test_the_adaptive_schedule_takes_the_cheapest_information_first() -> None:
    workload = workload_of([[0, 1], [0, 2], [1, 3]], 4)
    statistics = PredicateStatistics.of(np.array([1.0, 1.0, 0.1, 1.0]))
    case = Case(SchedulingProblem.whole(workload, statistics), np.array([False, False, False, False]))
    asked: list[int] = []
    Adaptive().run(case.problem, case.recorder(asked))
    assert asked[0] == 2  # a tenth of the cost for half of the information


def test_a_schedule_that_is_not_there_is_refused_with_the_names_of_those_that_are() -> None:
    with pytest.raises(NotSupported, match=r"did you mean adaptive.*there are: naive, adaptive"):
        schedule_of("adaptiv")


def test_a_schedule_of_another_distribution_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.plugins.installed", lambda group: {})
    with pytest.raises(NotInstalled, match=r"the schedule 'sub-order' is not installed here.*pip install tocsin-lab"):
        schedule_of("sub-order")
