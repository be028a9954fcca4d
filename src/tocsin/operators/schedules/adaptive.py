"""Adaptive: cheapest information first, by what was learnt, with a guarantee that does not depend on it.

The score of a predicate is the weight of the undecided conjunctions that its answer is expected to decide, per second
of cost: (chance false * weight of those that use it + chance true * weight of those that use its negation) / cost. The
chances and costs are learnt online (beliefs.py); the weights are popularity, short conjunctions counting more. This is
the greedy rule of adaptive set cover. Two things are added:

- A conjunction with one unknown member left needs it whatever else happens, so that member comes first.
- The guard. As in the proof of Algorithm 1, a set of marked conjunctions is kept whose unknown members, when they were
  marked, are disjoint: whoever decides them evaluates at least one of each. Evaluations outside of these members may
  not cost more than the members in sum do; beyond that, the members themselves are evaluated. So the evaluations are at
  most 2 d times the fewest possible, on every event, with whatever beliefs (with unequal costs times C_max / C_min);
  Sequential's bound is d. `guarded` counts how often the guard chose.

Time per event O(M + P) to begin (a copy where all conjunctions are candidates), O(M + E log P) for E evaluations:
scores only fall, so a lazy heap holds them.
"""

from __future__ import annotations

import numpy as np

from tocsin.operators.problem import Bools, Evaluate, Problem, Statistics, Workload
from tocsin.operators.schedules.adaptive_kernels import GUARDED, MARKED, begin, next_informative
from tocsin.operators.schedules.answers import ask, decided, no_answers
from tocsin.operators.schedules.beliefs import Beliefs
from tocsin.operators.schedules.overlap import Overlaps

CHEAPEST_SECONDS = 1e-9  # a declared cost of nothing would outweigh any information


class Adaptive:
    """Learns from the statistics of the problems that it is given."""

    name = "adaptive"

    def __init__(self) -> None:
        self.beliefs = Beliefs()
        self.marked = 0  # conjunctions of the last event with disjoint members: no schedule evaluates fewer predicates
        self.guarded = 0  # evaluations of the last event that the guard chose
        self._overlaps: Overlaps | None = None

    def prepare(self, workload: Workload, statistics: Statistics) -> None:
        """Make ready for a workload; what was learnt of its predicates stays where it grew out of the last one."""
        grown = self._overlaps is not None and self._overlaps.workload.lineage is workload.lineage
        self._overlaps = Overlaps(workload)
        if not grown:
            self._overlaps.whole  # noqa: B018 - made now, not at the first event
            self.beliefs.look(workload, statistics, now=True)

    def run(self, problem: Problem, evaluate: Evaluate) -> Bools:
        overlaps = self._overlaps
        if overlaps is None or overlaps.workload is not problem.workload:
            self._overlaps = overlaps = Overlaps(problem.workload)
        graph, predicates = overlaps.of(problem), problem.workload.predicates
        answers = no_answers(predicates)
        probability, cost = self.beliefs.look(problem.workload, problem.statistics)
        cost = np.maximum(cost, CHEAPEST_SECONDS)
        if_false, if_true = (each.copy() for each in graph.worth)
        undecided, left, demand = np.ones(graph.conjunctions, np.bool_), graph.lengths.copy(), graph.demand.copy()
        keys, ids = np.empty(predicates, np.float64), np.empty(predicates, np.int32)
        pressing, packed = np.empty(graph.conjunctions, np.int32), np.empty(predicates, np.int32)
        is_packed = np.zeros(predicates, np.bool_)
        counts, spent = np.zeros(6, np.int64), np.zeros(2, np.float64)
        begin(
            probability, cost, if_false, if_true, demand, left, graph.starts, graph.members, keys, ids, pressing, counts
        )

        def step(answered: int) -> int:
            return next_informative(
                answered, answers, probability, cost, graph.starts, graph.members, graph.negated, graph.weight,
                graph.user_starts, graph.users, graph.user_negated, undecided, left, demand, if_false, if_true,
                keys, ids, pressing, packed, is_packed, counts, spent,
            )  # fmt: skip

        ask(step, answers, evaluate)
        self.marked, self.guarded = int(counts[MARKED]), int(counts[GUARDED])
        return decided(problem, answers)
