"""Workloads, statistics, and the naive schedule."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.operators.problem import PredicateStatistics, SchedulingProblem, Workload
from tocsin.operators.schedules import Naive


def workload(conjunctions: list[list[int]], predicates: int) -> Workload:
    """Return the workload of these conjunctions; ~k is the negation of predicate k."""
    flat = [member for conjunction in conjunctions for member in conjunction]
    return Workload(
        operator=np.zeros(predicates, np.int32),
        argument=np.arange(predicates, dtype=np.int32),
        starts=np.cumsum([0, *map(len, conjunctions)], dtype=np.int64),
        members=np.array([~m if m < 0 else m for m in flat], np.int32),
        negated=np.array([m < 0 for m in flat], np.bool_),
        owner=np.arange(len(conjunctions), dtype=np.int32),
    )


def test_the_naive_schedule_stops_at_the_first_member_that_fails_and_asks_for_nothing_twice() -> None:
    asked: list[int] = []
    truth = [True, False, True, False]

    def evaluate(k: int) -> bool:
        asked.append(k)
        return truth[k]

    given = workload([[0, 1, 2], [1, 3], [0, ~1], [2, ~0]], 4)
    given.check()
    assert Naive().run(SchedulingProblem.whole(given), evaluate).tolist() == [False, False, True, False]
    assert asked == [0, 1, 2]


def test_a_problem_of_some_candidates_is_answered_for_these() -> None:
    given = workload([[0], [1], [0, 1]], 2)
    problem = SchedulingProblem(given, np.array([1, 2], np.int32), PredicateStatistics.of(np.ones(2)))
    assert Naive().run(problem, lambda k: k == 1).tolist() == [True, False]


def test_popularity_counts_conjunctions() -> None:
    assert workload([[0, 1], [1, ~2]], 4).popularity.tolist() == [1, 2, 1, 0]


def test_check_refuses_a_predicate_twice_in_a_conjunction() -> None:
    with pytest.raises(AssertionError, match="twice"):
        workload([[0, 1, 0]], 2).check()


def test_statistics_begin_at_what_was_declared_and_follow_what_is_seen() -> None:
    statistics = PredicateStatistics.of(np.array([0.5]))
    assert statistics.probability.tolist() == [0.5]
    assert statistics.cost.tolist() == [0.5]
    for _ in range(98):
        statistics.observe(0, result=True, seconds=0.1)
    statistics.grow(np.array([2.0]))
    assert statistics.probability.tolist() == [0.99, 0.5]
    assert statistics.cost.tolist() == pytest.approx([0.108, 2.0])
