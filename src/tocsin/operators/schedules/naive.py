"""Naive: one conjunction after the other, each until a member fails; results are remembered (Liu et al., section 5.2).

The compiled twin of operators/naive_schedule.py, which says the same in plain Python and is tested to ask the same
questions; this one is measured. A conjunction is walked even where another one's evaluation has failed it already:
that is what the paper's schedules gain on.

Time O(d) per conjunction and event.
"""

from __future__ import annotations

import numpy as np

from tocsin.operators.problem import Bools, Evaluate, Problem, Statistics, Workload
from tocsin.operators.schedules.answers import ask, decided, no_answers
from tocsin.operators.schedules.chain_walk import next_of_walk


class Naive:
    """Members and conjunctions in the order in which they were written."""

    name = "naive"

    def prepare(self, workload: Workload, statistics: Statistics) -> None:
        """Do nothing: there is nothing to order."""

    def run(self, problem: Problem, evaluate: Evaluate) -> Bools:
        workload, answers, place = problem.workload, no_answers(problem.workload.predicates), np.zeros(1, np.int64)

        def step(_answered: int) -> int:
            return next_of_walk(
                problem.candidates, place, workload.starts, workload.members, workload.negated, answers, False
            )

        ask(step, answers, evaluate)
        return decided(problem, answers)
