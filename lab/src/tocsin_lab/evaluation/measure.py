"""Measuring schedules on one workload: evaluations, and the time that ordering takes, with the answers checked.

Operators are simulated: an evaluation looks the answer up and is charged a stated cost. Total seconds per event are
the measured time of the schedule itself (preparation shared among the paper's 1000 events, the look-ups included) plus
the costs charged. Answers are compared with the definition on every event.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tocsin.operators.problem import Bools, Float64s, PredicateStatistics, Schedule, SchedulingProblem, Workload
from tocsin_lab.evaluation.workloads import PaperWorkload, Setting, matching

PAPER_EVENTS = 1_000


@dataclass(frozen=True)
class Run:
    """What one schedule did on one workload."""

    evaluations: list[float]  # per event; whole numbers but for bounds
    prepare_seconds: float
    event_seconds: list[float]  # per event, without the cost of the operators
    operator_seconds: list[float]  # per event, the costs charged

    @property
    def mean_evaluations(self) -> float:
        return float(np.mean(self.evaluations))

    @property
    def ordering_seconds(self) -> float:
        """Seconds per event that the schedule itself takes."""
        return self.prepare_seconds / PAPER_EVENTS + float(np.mean(self.event_seconds))

    @property
    def total_seconds(self) -> float:
        """Seconds per event, operators included."""
        return self.ordering_seconds + float(np.mean(self.operator_seconds))


class Simulated:
    """Operators that know the answers: notes what it is asked for."""

    def __init__(self, truth: Bools) -> None:
        self._truth: list[bool] = truth.tolist()
        self.asked: list[int] = []

    def __call__(self, predicate: int) -> bool:
        self.asked.append(predicate)
        return self._truth[predicate]

    def check(self) -> None:
        """Assert that no predicate was asked for twice."""
        assert len(set(self.asked)) == len(self.asked), "a predicate was evaluated twice for one event"

    def tell(self, statistics: PredicateStatistics, cost: Float64s) -> None:
        """Note all evaluations, as the matcher does one by one."""
        for predicate in self.asked:
            statistics.observe(predicate, self._truth[predicate], float(cost[predicate]))


def run_on(
    schedule: Schedule,
    workload: Workload,
    events: Iterable[Bools],
    statistics: PredicateStatistics,
    *,
    learn: bool = False,
) -> Run:
    """Run the schedule on operators of the declared cost; with `learn` the statistics take note of the evaluations."""
    began = time.perf_counter()
    schedule.prepare(workload, statistics)
    prepared = time.perf_counter() - began
    cost = statistics.declared_cost
    run = Run([], prepared, [], [])
    for truth in events:
        evaluate = Simulated(truth)
        problem = SchedulingProblem.whole(workload, statistics)
        began = time.perf_counter()
        held = schedule.run(problem, evaluate)
        run.event_seconds.append(time.perf_counter() - began)
        evaluate.check()
        assert np.array_equal(held, matching(workload, truth)), f"{schedule.name} gave a wrong answer"
        run.evaluations.append(len(evaluate.asked))
        run.operator_seconds.append(float(cost[evaluate.asked].sum()))
        if learn:
            evaluate.tell(statistics, cost)
    return run


def warm_up(schedule: Schedule) -> None:
    """Compile what the schedule uses, so that compiling is not measured."""
    made = PaperWorkload.of(Setting(subscriptions=200, predicates=100))
    run_on(schedule, made.workload, made.events(2), made.statistics(1.0, known=True))
