"""The naive schedule: one conjunction after the other, each until a member fails; results are remembered.

The baseline of Liu et al., section 5.2. Evaluations: at most one per predicate and event.
"""

from __future__ import annotations

import numpy as np

from tocsin.operators.problem import Bools, Evaluate, PredicateStatistics, SchedulingProblem, Workload


class NaiveSchedule:
    """Members in the order in which they were written."""

    name = "naive"

    def prepare(self, workload: Workload, statistics: PredicateStatistics) -> None:
        """Do nothing: there is nothing to order."""

    def run(self, problem: SchedulingProblem, evaluate: Evaluate) -> Bools:
        known: dict[int, bool] = {}

        def is_true(predicate: int) -> bool:
            if predicate not in known:
                known[predicate] = evaluate(predicate)
            return known[predicate]

        held = np.zeros(len(problem.candidates), np.bool_)
        for at, conjunction in enumerate(problem.candidates.tolist()):
            members, negated = problem.workload.of(conjunction)
            held[at] = all(is_true(k) != no for k, no in zip(members.tolist(), negated.tolist(), strict=True))
        return held
