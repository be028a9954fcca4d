"""Sub-Order: linked chains in the order that pairwise cost differences suggest (Liu et al., sections 4.2 and 4.3).

Chains are walked in a fixed order, each from its most selective member; a failing member ends its chain and every chain
linked there. linked_chains.py has the cost model, with unequal costs; chain_order.py the greedy order.

    ordering    O(M (SMALL + WINDOW) log M) for M members in all; again whenever twice as much is known as before, or a
                quarter of the chains are new; until then new ones are walked last
    event       O(M) besides the evaluations
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tocsin.operators.problem import Bools, Evaluate, Int32s, PredicateStatistics, SchedulingProblem, Workload
from tocsin.operators.schedules.naive import ask, decided, next_of_walk, no_answers
from tocsin_lab.schedules.chain_order import order_chains
from tocsin_lab.schedules.linked_chains import Chains

FEW_EVALUATIONS = 1_000  # before so many, what is known changes too fast to order by


class SubOrder:
    """The paper's heuristic."""

    name = "sub-order"

    def __init__(self) -> None:
        self._ordered: _Ordered | None = None

    def prepare(self, workload: Workload, statistics: PredicateStatistics) -> None:
        """Make the chains and order them; where the workload only grew a little, the new ones come last."""
        self._ordered = self._made(workload, statistics)

    def _made(self, workload: Workload, statistics: PredicateStatistics) -> _Ordered:
        before = self._ordered
        if before is None or before.workload.lineage is not workload.lineage:
            return _Ordered.of(workload, statistics)
        new, known = workload.conjunctions - before.conjunctions, int(statistics.evaluations.sum())
        if 4 * new > workload.conjunctions or known > FEW_EVALUATIONS + 2 * before.known:
            return _Ordered.of(workload, statistics)
        return before.extended(workload) if workload.conjunctions > len(before.order) else before

    def run(self, problem: SchedulingProblem, evaluate: Evaluate) -> Bools:
        self._ordered = ordered = self._made(problem.workload, problem.statistics)
        chains, order = ordered.chains, ordered.among(problem.candidates)
        answers, place = no_answers(problem.workload.predicates), np.zeros(1, np.int64)

        def step(_answered: int) -> int:
            return next_of_walk(order, place, chains.starts, chains.members, chains.negated, answers, True)

        ask(step, answers, evaluate)
        return decided(problem, answers)


@dataclass(frozen=True)
class _Ordered:
    """The chains of a workload and their order, by what was known after so many evaluations.

    Of the workload's chains the first `conjunctions` were ordered; those after them are new.
    """

    workload: Workload
    chains: Chains
    order: Int32s
    known: int
    conjunctions: int

    @classmethod
    def of(cls, workload: Workload, statistics: PredicateStatistics) -> _Ordered:
        chains = Chains.of(workload, statistics)
        known = int(statistics.evaluations.sum())
        return cls(workload, chains, order_chains(chains), known, workload.conjunctions)

    def extended(self, workload: Workload) -> _Ordered:
        """Return the same for a workload that grew out of this one, with the new chains last."""
        first = int(self.workload.starts[-1])
        order = np.arange(len(self.order), workload.conjunctions, dtype=np.int32)
        chains = replace(
            self.chains,
            starts=workload.starts,
            members=np.concatenate([self.chains.members, workload.members[first:]]),
            negated=np.concatenate([self.chains.negated, workload.negated[first:]]),
        )
        return replace(self, workload=workload, chains=chains, order=np.concatenate([self.order, order]))

    def among(self, candidates: Int32s) -> Int32s:
        """Return the candidates in order."""
        if len(candidates) == len(self.order):
            return self.order
        chosen = np.zeros(self.workload.conjunctions, np.bool_)
        chosen[candidates] = True
        order: Int32s = self.order[chosen[self.order]]
        return order
