"""Measuring schedules on one workload: evaluations, and the time that ordering takes, with the answers checked.

Operators are simulated: an evaluation looks the answer up and is charged a stated cost. Total seconds per event are
the measured time of the schedule itself (preparation shared among the paper's 1000 events, the look-ups included) plus
cost * evaluations. Answers are compared with the definition on every event.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tocsin.operators.evaluation.workloads import PaperWorkload, Setting, matching
from tocsin.operators.problem import Bools, Problem, Schedule, Statistics, Workload

PAPER_EVENTS = 1_000


@dataclass(frozen=True)
class Run:
    """What one schedule did on one workload."""

    evaluations: list[int]  # per event
    prepare_seconds: float
    event_seconds: list[float]  # per event, without the cost of the operators

    @property
    def mean_evaluations(self) -> float:
        return float(np.mean(self.evaluations))

    @property
    def ordering_seconds(self) -> float:
        """Seconds per event that the schedule itself takes."""
        return self.prepare_seconds / PAPER_EVENTS + float(np.mean(self.event_seconds))

    def total_seconds(self, cost_seconds: float) -> float:
        """Seconds per event with operators of this cost."""
        return self.ordering_seconds + cost_seconds * self.mean_evaluations


class Simulated:
    """Operators that know the answers: counts evaluations, and refuses to be asked twice."""

    def __init__(self, truth: Bools, statistics: Statistics | None = None, cost_seconds: float = 0.0) -> None:
        self._truth = truth.tolist()
        self._statistics, self._cost = statistics, cost_seconds
        self.asked: list[int] = []

    def __call__(self, predicate: int) -> bool:
        self.asked.append(predicate)
        answer: bool = self._truth[predicate]
        if self._statistics is not None:
            self._statistics.observe(predicate, answer, self._cost)
        return answer

    def check(self) -> None:
        """Assert that no predicate was asked for twice."""
        assert len(set(self.asked)) == len(self.asked), "a predicate was evaluated twice for one event"


def run_on(
    schedule: Schedule,
    workload: Workload,
    events: Iterable[Bools],
    statistics: Statistics,
    *,
    learn_cost: float | None = None,
) -> Run:
    """Run the schedule; with `learn_cost` the evaluations are noted in the statistics, at that many seconds each."""
    began = time.perf_counter()
    schedule.prepare(workload, statistics)
    prepared = time.perf_counter() - began
    counts, seconds = [], []
    for truth in events:
        evaluate = Simulated(truth, None if learn_cost is None else statistics, learn_cost or 0.0)
        began = time.perf_counter()
        held = schedule.run(Problem.whole(workload, statistics), evaluate)
        seconds.append(time.perf_counter() - began)
        evaluate.check()
        assert np.array_equal(held, matching(workload, truth)), f"{schedule.name} gave a wrong answer"
        counts.append(len(evaluate.asked))
    return Run(counts, prepared, seconds)


def warm_up(schedule: Schedule) -> None:
    """Compile what the schedule uses, so that compiling is not measured."""
    made = PaperWorkload.of(Setting(subscriptions=200, predicates=100))
    run_on(schedule, made.workload, made.events(2), made.statistics(1.0, known=True))
