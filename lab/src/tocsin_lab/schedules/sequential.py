"""Sequential: Algorithm 1 of Liu et al. (section 4.1), which costs at most d times the optimum.

Marks any undecided conjunction and evaluates each of its unknown members that some undecided conjunction still uses:
also after the marked one is decided, which is what the proof needs. The marked conjunctions have disjoint unknown
members, and whoever decides them evaluates at least one of each. With unequal costs the bound is d * C_max / C_min
(section 4.3); the order stays.

Time O(sum of d) per event: each conjunction is decided once, which releases its d members.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.jit import lean_kernel
from tocsin.operators.problem import Bools, Evaluate, Int32s, Int64s, PredicateStatistics, SchedulingProblem, Workload
from tocsin.operators.schedules.naive import (
    NONE,
    UNKNOWN,
    Answers,
    ask,
    decided,
    fails,
    no_answers,
)
from tocsin.operators.schedules.overlap import SubscriptionGraphs


class Sequential:
    """Conjunctions and members in the order in which they were written; the paper allows any."""

    name = "sequential"

    def __init__(self) -> None:
        self._overlaps: SubscriptionGraphs | None = None

    def prepare(self, workload: Workload, statistics: PredicateStatistics) -> None:
        """Invert the workload: predicates to conjunctions."""
        del statistics  # any order will do
        self._overlaps = SubscriptionGraphs(workload)

    def run(self, problem: SchedulingProblem, evaluate: Evaluate) -> Bools:
        overlaps = self._overlaps
        if overlaps is None or overlaps.workload is not problem.workload:
            self._overlaps = overlaps = SubscriptionGraphs(problem.workload)
        graph, answers = overlaps.of(problem), no_answers(problem.workload.predicates)
        place = np.zeros(2, np.int64)
        undecided, left, demand = np.ones(graph.conjunctions, np.bool_), graph.lengths.copy(), graph.demand.copy()

        def step(answered: int) -> int:
            return _next(
                answered, place, graph.starts, graph.members, graph.user_starts, graph.users, graph.user_negated,
                answers, undecided, left, demand,
            )  # fmt: skip

        ask(step, answers, evaluate)
        return decided(problem, answers)


@lean_kernel
def _next(
    answered: int,
    place: Int64s,  # [the marked conjunction, how many of its members were considered]
    starts: Int64s,
    members: Int32s,
    user_starts: Int64s,
    users: Int32s,
    user_negated: Bools,
    answers: Answers,
    undecided: Bools,
    left: Int32s,  # [n] members without an answer, while undecided
    demand: Int32s,  # [P] undecided conjunctions that use each predicate
) -> int:
    """Take note of what was answered; return the next predicate, or NONE when all are decided."""
    if answered != NONE:
        for at in range(user_starts[answered], user_starts[answered + 1]):
            conjunction = users[at]
            if undecided[conjunction]:
                left[conjunction] -= 1
                if left[conjunction] == 0 or fails(answers[answered], user_negated[at]):
                    undecided[conjunction] = False
                    for member in range(starts[conjunction], starts[conjunction + 1]):
                        demand[members[member]] -= 1
    while place[0] < len(undecided):
        marked = place[0]
        if place[1] > 0 or undecided[marked]:
            for member in range(starts[marked] + place[1], starts[marked + 1]):
                place[1] += 1
                if answers[members[member]] == UNKNOWN and demand[members[member]] > 0:
                    return int(members[member])
        place[0] += 1
        place[1] = 0
    return NONE
