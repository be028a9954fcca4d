"""Linked chains: conjunctions as chains of members in one global order, and what it saves to walk one before another.

Liu et al., section 4.2. A chain holds a conjunction's members by rising cost / (chance to fail), which is rising
selectivity where all costs are equal. The order is the same for all chains, so that the links between equal members of
two chains never cross. docs/operators-evaluation.md derives the formula below.

    chains              O(M log M) for M members in all
    cost_difference     O(d)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.index.jit import helper, kernel
from tocsin.operators.problem import Bools, Float64s, Int32s, Int64s, PredicateStatistics, Workload


@dataclass(frozen=True)
class Chains:
    """The members of each conjunction in the global order.

    A literal is a predicate with a sign: 2 * predicate + negated. Only equal literals are linked: where one chain has
    p and the other `not p` the evaluation is shared, but no order of the two saves more of it.
    """

    starts: Int64s  # [C + 1]
    members: Int32s
    negated: Bools
    rank: Int32s  # [2 P] the place of each literal in the global order
    hold: Float64s  # [2 P] how likely each literal holds
    cost: Float64s  # [2 P]

    @classmethod
    def of(cls, workload: Workload, statistics: PredicateStatistics) -> Chains:
        """Return the chains by what is known of the predicates now."""
        probability = statistics.probability[: workload.predicates]
        hold = np.stack([probability, 1.0 - probability], axis=1).ravel()
        cost = np.repeat(statistics.cost[: workload.predicates], 2)
        with np.errstate(divide="ignore"):
            key = cost / (1.0 - hold)  # what a failure costs, in expectation
        rank = np.empty(len(key), np.int32)
        rank[np.argsort(key, kind="stable")] = np.arange(len(key), dtype=np.int32)
        literals = 2 * workload.members + workload.negated
        conjunction = np.repeat(np.arange(workload.conjunctions), np.diff(workload.starts))
        order = np.lexsort((rank[literals], conjunction))
        return cls(workload.starts, workload.members[order], workload.negated[order], rank, hold, cost)

    @property
    def literals(self) -> Int32s:
        """The literal of each member."""
        found: Int32s = 2 * self.members + self.negated
        return found


@helper
def cost_difference(
    first: int, second: int, starts: Int64s, literals: Int32s, rank: Int32s, hold: Float64s, cost: Float64s
) -> tuple[float, int]:
    """Return C(first before second) - C(second before first), and their first link (or -1).

    sum over links l of (1 - p_l) * S_l * (N2_l * C1_l - N1_l * C2_l), where S_l is the chance that all links above hold,
    Ni_l that the other members of chain i above the link hold, and Ci_l what evaluating these costs in expectation.
    S * N is the P of the paper, C its C'.
    """
    one, two = starts[first], starts[second]
    shared, alone_1, alone_2 = 1.0, 1.0, 1.0
    above_1, above_2, total = 0.0, 0.0, 0.0
    link = -1
    while one < starts[first + 1] and two < starts[second + 1]:
        of_1, of_2 = literals[one], literals[two]
        if of_1 == of_2:
            total += (1.0 - hold[of_1]) * shared * (alone_2 * above_1 - alone_1 * above_2)
            shared *= hold[of_1]
            if link < 0:
                link = of_1
            one += 1
            two += 1
        elif rank[of_1] < rank[of_2]:
            above_1 += alone_1 * cost[of_1]
            alone_1 *= hold[of_1]
            one += 1
        else:
            above_2 += alone_2 * cost[of_2]
            alone_2 *= hold[of_2]
            two += 1
    return total, link


@kernel
def difference_of(
    chains_starts: Int64s, literals: Int32s, rank: Int32s, hold: Float64s, cost: Float64s, first: int, second: int
) -> float:
    """Return C(first before second) - C(second before first)."""
    return cost_difference(first, second, chains_starts, literals, rank, hold, cost)[0]


@kernel
def reach(starts: Int64s, literals: Int32s, hold: Float64s, cost: Float64s) -> tuple[Float64s, Float64s]:
    """Return, per member, how likely all members above it hold (P) and what these cost in expectation (C)."""
    likely, spent = np.empty(len(literals)), np.empty(len(literals))
    for chain in range(len(starts) - 1):
        product, total = 1.0, 0.0
        for place in range(starts[chain], starts[chain + 1]):
            likely[place], spent[place] = product, total
            total += product * cost[literals[place]]
            product *= hold[literals[place]]
    return likely, spent
