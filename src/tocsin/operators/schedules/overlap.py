"""SubscriptionGraph: the subscription graph of Liu et al. (section 5.1), as arrays in both directions.

conjunctions -> predicates    members[starts[c] : starts[c + 1]], with their signs
predicates -> conjunctions    users[user_starts[k] : user_starts[k + 1]], with the sign that each uses

Conjunctions are numbered by their place among the candidates of a problem. The graph of a whole workload is kept
between events; that of fewer candidates is made for the event, in time proportional to them and to the predicates.

Beliefs: how likely each predicate is true and what it costs, learnt online and forgotten slowly.

Evidence is what the problem's PredicateStatistics gained since the last look, and loses half its weight every HALF_LIFE events:
where the mix drifts, the recent past counts, and what was not evaluated for long is no longer believed. A predicate with
little evidence of its own borrows from the others of its operator and from those of its argument.

One look costs O(P). It is taken at each of the first EAGER events, then at every EAGER-th.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tocsin.index.jit import kernel
from tocsin.operators.problem import Bools, Float64s, Int32s, Int64s, PredicateStatistics, SchedulingProblem, Workload


@dataclass(frozen=True)
class SubscriptionGraph:
    """Who shares what."""

    starts: Int64s  # [n + 1]
    members: Int32s
    negated: Bools
    user_starts: Int64s  # [P + 1]
    users: Int32s  # by place among the candidates
    user_negated: Bools

    @classmethod
    def of(cls, workload: Workload, candidates: Int32s | None = None) -> SubscriptionGraph:
        """Return the graph of these candidates, or of the whole workload."""
        if candidates is None:
            starts, members, negated = workload.starts, workload.members, workload.negated
        else:
            starts, members, negated = _restrict(candidates, workload.starts, workload.members, workload.negated)
        return cls(starts, members, negated, *_invert(starts, members, negated, workload.predicates))

    @property
    def conjunctions(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> Int32s:
        """[n] How many members each conjunction has."""
        return np.diff(self.starts).astype(np.int32)

    @cached_property
    def demand(self) -> Int32s:
        """[P] How many conjunctions use each predicate."""
        return np.diff(self.user_starts).astype(np.int32)

    @cached_property
    def weight(self) -> Float64s:
        """[n] What it is worth to decide each conjunction: short ones can be decided in fewer ways, so they weigh more."""
        return 1.0 / self.lengths

    @cached_property
    def worth(self) -> tuple[Float64s, Float64s]:
        """([P], [P]) The weight of the conjunctions that each predicate decides by being false, and by being true."""
        weight = np.repeat(self.weight, self.lengths)
        size = len(self.demand)
        if_false = weighted_counts(self.members, weight * ~self.negated, size)
        return if_false, weighted_counts(self.members, weight * self.negated, size)


def weighted_counts(keys: Int32s, weights: Float64s, size: int = 0) -> Float64s:
    """Return the sum of the weights of each key."""
    # NumPy's types do not say that counts with weights are floats.
    return np.bincount(keys, weights, size).astype(np.float64, copy=False)


class SubscriptionGraphs:
    """The graph of each problem of one workload."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._last: tuple[Int32s, SubscriptionGraph] | None = None

    @cached_property
    def whole(self) -> SubscriptionGraph:
        """The graph of all conjunctions."""
        return SubscriptionGraph.of(self.workload)

    def of(self, problem: SchedulingProblem) -> SubscriptionGraph:
        """Return the graph of the problem's candidates; that of the last event, where it has the same."""
        if len(problem.candidates) == self.workload.conjunctions:
            return self.whole
        last = self._last
        if last is None or not np.array_equal(last[0], problem.candidates):
            self._last = last = (problem.candidates, SubscriptionGraph.of(self.workload, problem.candidates))
        return last[1]


@kernel
def _restrict(candidates: Int32s, starts: Int64s, members: Int32s, negated: Bools) -> tuple[Int64s, Int32s, Bools]:
    """Return the members of these conjunctions alone."""
    new_starts = np.zeros(len(candidates) + 1, np.int64)
    for at in range(len(candidates)):
        new_starts[at + 1] = new_starts[at] + starts[candidates[at] + 1] - starts[candidates[at]]
    new_members, new_negated = np.empty(new_starts[-1], np.int32), np.empty(new_starts[-1], np.bool_)
    for at in range(len(candidates)):
        shift = starts[candidates[at]] - new_starts[at]
        for place in range(new_starts[at], new_starts[at + 1]):
            new_members[place], new_negated[place] = members[place + shift], negated[place + shift]
    return new_starts, new_members, new_negated


@kernel
def _invert(starts: Int64s, members: Int32s, negated: Bools, predicates: int) -> tuple[Int64s, Int32s, Bools]:
    """Return the conjunctions of each predicate, ascending (a counting sort)."""
    user_starts = np.zeros(predicates + 1, np.int64)
    for predicate in members:
        user_starts[predicate + 1] += 1
    for predicate in range(predicates):
        user_starts[predicate + 1] += user_starts[predicate]
    users, user_negated = np.empty(len(members), np.int32), np.empty(len(members), np.bool_)
    filled = user_starts[:-1].copy()
    for conjunction in range(len(starts) - 1):
        for place in range(starts[conjunction], starts[conjunction + 1]):
            at = filled[members[place]]
            users[at], user_negated[at] = conjunction, negated[place]
            filled[members[place]] += 1
    return user_starts, users, user_negated


# Beliefs.


HALF_LIFE = 200
EAGER = 16
BORROWED = 2.0  # evaluations that the operator's and the argument's evidence weigh together
GROUP_LIMIT = 20.0  # evaluations beyond which a group's evidence counts no more


class Beliefs:
    """Estimates per predicate, kept across events and across workloads that replace one another."""

    def __init__(self) -> None:
        self._estimates: tuple[Float64s, Float64s] = (np.empty(0), np.empty(0))  # probability, cost
        self._evidence: Float64s = np.zeros((3, 0))  # evaluations, trues, seconds; with less and less weight
        self._seen: Float64s = np.zeros((3, 0))  # what the statistics said at the last look
        self._events = 0
        self._looked = 0

    @property
    def probability(self) -> Float64s:
        """[P] How likely each predicate is true."""
        return self._estimates[0]

    @property
    def cost(self) -> Float64s:
        """[P] Seconds that an evaluation of each predicate takes."""
        return self._estimates[1]

    def look(
        self, workload: Workload, statistics: PredicateStatistics, *, now: bool = False
    ) -> tuple[Float64s, Float64s]:
        """Count an event; return probability and cost of each predicate of the workload.

        They are brought up to date if it is time to, if told to, or if there are many new predicates; a few are taken
        for what they declare until then.
        """
        self._events += 1
        estimates = self._estimates  # read once: another thread may look for another workload
        known, size = len(estimates[0]), workload.predicates
        if now or self._events <= EAGER or self._events % EAGER == 0 or not known <= size <= known + known // EAGER:
            self._estimates = estimates = self._learn(workload, statistics)
        elif size > known:
            declared = statistics.declared_cost[known:size]
            halves: Float64s = np.full(size - known, 0.5)
            estimates = (np.concatenate([estimates[0], halves]), np.concatenate([estimates[1], declared]))
            self._estimates = estimates
        return estimates

    def _learn(self, workload: Workload, statistics: PredicateStatistics) -> tuple[Float64s, Float64s]:
        size = workload.predicates
        sums = (statistics.evaluations, statistics.trues, statistics.seconds)
        said: Float64s = np.stack([each[:size].astype(np.float64) for each in sums])
        evidence, seen = _widened(self._evidence, size), _widened(self._seen, size)
        if (said[0] < seen[0]).any():  # other statistics than before: nothing of the old is known to be true
            evidence, seen = np.zeros_like(said), np.zeros_like(said)
        evidence = evidence * 0.5 ** ((self._events - self._looked) / HALF_LIFE) + np.maximum(0.0, said - seen)
        evidence[1] = np.minimum(evidence[1], evidence[0])  # statistics may be another matcher's than at the last look
        self._evidence, self._seen, self._looked = evidence, said, self._events
        evaluations, trues, seconds = evidence
        declared = statistics.declared_cost[:size]
        groups = [_capped(key, evidence, declared) for key in (workload.operator, workload.argument)]
        group_evaluations = sum((each[0] for each in groups), np.ones(size))  # one evaluation, true by half
        group_trues = sum((each[1] for each in groups), np.full(size, 0.5))
        # Costs borrow as a factor on what was declared: operators differ more in cost than their arguments do.
        factor = sum((each[2] for each in groups), np.ones(size)) / group_evaluations
        probability: Float64s = (trues + BORROWED * group_trues / group_evaluations) / (evaluations + BORROWED)
        cost: Float64s = (seconds + BORROWED * declared * factor) / (evaluations + BORROWED)
        return probability, cost


def _widened(known: Float64s, size: int) -> Float64s:
    """Return the array with room for predicates that are new, or without those that are gone."""
    wide = np.zeros((len(known), size))
    shared = min(size, known.shape[1])
    wide[:, :shared] = known[:, :shared]
    return wide


def _capped(key: Int32s, evidence: Float64s, declared: Float64s) -> tuple[Float64s, Float64s, Float64s]:
    """Return for each predicate its group's evaluations, trues, and cost over declared cost, at most GROUP_LIMIT of them."""
    evaluations, trues, seconds = (weighted_counts(key, each) for each in evidence)
    expected = weighted_counts(key, evidence[0] * declared)
    share = np.minimum(1.0, GROUP_LIMIT / np.maximum(evaluations, 1e-300))
    factor = np.where(expected > 0.0, seconds / np.where(expected > 0.0, expected, 1.0), 1.0)
    counted = evaluations * share
    return counted[key], (trues * share)[key], (factor * counted)[key]
