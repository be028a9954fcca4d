"""Sub-Order: linked chains in the order that pairwise cost differences suggest (Liu et al., sections 4.2 and 4.3).

Chains are walked in a fixed order, each from its most selective member; a failing member ends its chain and every chain
linked there. linked_chains.py has the cost model, with unequal costs; chain_order.py the greedy order.

    ordering    O(M (SMALL + WINDOW) log M) for M members in all; again whenever twice as much is known as before
    event       O(M) besides the evaluations
"""

from __future__ import annotations

import numpy as np

from tocsin.operators.problem import Bools, Evaluate, Int32s, Problem, Statistics, Workload
from tocsin.operators.schedules.answers import ask, decided, no_answers
from tocsin.operators.schedules.chain_order import order_chains
from tocsin.operators.schedules.chain_walk import next_of_walk
from tocsin.operators.schedules.linked_chains import Chains

FEW_EVALUATIONS = 1_000  # before so many, what is known changes too fast to order by


class SubOrder:
    """The paper's heuristic."""

    name = "sub-order"

    def __init__(self) -> None:
        self._workload: Workload | None = None
        self._chains: Chains | None = None
        self._order = np.empty(0, np.int32)
        self._known = 0

    def prepare(self, workload: Workload, statistics: Statistics) -> None:
        """Make the chains and order them."""
        self._workload = workload
        self._chains = Chains.of(workload, statistics)
        self._order = order_chains(self._chains)
        self._known = int(statistics.evaluations.sum())

    def run(self, problem: Problem, evaluate: Evaluate) -> Bools:
        known = int(problem.statistics.evaluations.sum())
        if self._workload is not problem.workload or known > FEW_EVALUATIONS + 2 * self._known:
            self.prepare(problem.workload, problem.statistics)
        chains = self._chains
        assert chains is not None
        order, answers, place = self._order_of(problem), no_answers(problem.workload.predicates), np.zeros(1, np.int64)

        def step(_answered: int) -> int:
            return next_of_walk(order, place, chains.starts, chains.members, chains.negated, answers, True)

        ask(step, answers, evaluate)
        return decided(problem, answers)

    def _order_of(self, problem: Problem) -> Int32s:
        if len(problem.candidates) == problem.workload.conjunctions:
            return self._order
        among = np.zeros(problem.workload.conjunctions, np.bool_)
        among[problem.candidates] = True
        order: Int32s = self._order[among[self._order]]
        return order
