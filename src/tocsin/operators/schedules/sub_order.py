"""Sub-Order: linked chains in the order that pairwise cost differences suggest (Liu et al., sections 4.2 and 4.3).

Chains are walked in a fixed order, each from its most selective member; a failing member ends its chain and every chain
linked there. linked_chains.py has the cost model, with unequal costs; chain_order.py the greedy order.

    ordering    O(M (SMALL + WINDOW) log M) for M members in all; again whenever twice as much is known as before
    event       O(M) besides the evaluations
"""

from __future__ import annotations

from dataclasses import dataclass

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
        self._ordered: _Ordered | None = None

    def prepare(self, workload: Workload, statistics: Statistics) -> None:
        """Make the chains and order them."""
        self._ordered = _Ordered.of(workload, statistics)

    def run(self, problem: Problem, evaluate: Evaluate) -> Bools:
        ordered, known = self._ordered, int(problem.statistics.evaluations.sum())
        if ordered is None or ordered.workload is not problem.workload or known > FEW_EVALUATIONS + 2 * ordered.known:
            self._ordered = ordered = _Ordered.of(problem.workload, problem.statistics)
        chains, order = ordered.chains, ordered.among(problem.candidates)
        answers, place = no_answers(problem.workload.predicates), np.zeros(1, np.int64)

        def step(_answered: int) -> int:
            return next_of_walk(order, place, chains.starts, chains.members, chains.negated, answers, True)

        ask(step, answers, evaluate)
        return decided(problem, answers)


@dataclass(frozen=True)
class _Ordered:
    """The chains of a workload and their order, by what was known after so many evaluations."""

    workload: Workload
    chains: Chains
    order: Int32s
    known: int

    @classmethod
    def of(cls, workload: Workload, statistics: Statistics) -> _Ordered:
        chains = Chains.of(workload, statistics)
        return cls(workload, chains, order_chains(chains), int(statistics.evaluations.sum()))

    def among(self, candidates: Int32s) -> Int32s:
        """Return the candidates in order."""
        if len(candidates) == self.workload.conjunctions:
            return self.order
        chosen = np.zeros(self.workload.conjunctions, np.bool_)
        chosen[candidates] = True
        order: Int32s = self.order[chosen[self.order]]
        return order
