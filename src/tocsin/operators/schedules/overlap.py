"""Overlap: the subscription graph of Liu et al. (section 5.1), as arrays in both directions.

conjunctions -> predicates    members[starts[c] : starts[c + 1]], with their signs
predicates -> conjunctions    users[user_starts[k] : user_starts[k + 1]], with the sign that each uses

Conjunctions are numbered by their place among the candidates of a problem. The graph of a whole workload is kept
between events; that of fewer candidates is made for the event, in time proportional to them and to the predicates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tocsin.index.jit import kernel
from tocsin.operators.problem import Bools, Float64s, Int32s, Int64s, Problem, Workload


@dataclass(frozen=True)
class Overlap:
    """Who shares what."""

    starts: Int64s  # [n + 1]
    members: Int32s
    negated: Bools
    user_starts: Int64s  # [P + 1]
    users: Int32s  # by place among the candidates
    user_negated: Bools

    @classmethod
    def of(cls, workload: Workload, candidates: Int32s | None = None) -> Overlap:
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


class Overlaps:
    """The graph of each problem of one workload."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._last: tuple[Int32s, Overlap] | None = None

    @cached_property
    def whole(self) -> Overlap:
        """The graph of all conjunctions."""
        return Overlap.of(self.workload)

    def of(self, problem: Problem) -> Overlap:
        """Return the graph of the problem's candidates; that of the last event, where it has the same."""
        if len(problem.candidates) == self.workload.conjunctions:
            return self.whole
        last = self._last
        if last is None or not np.array_equal(last[0], problem.candidates):
            self._last = last = (problem.candidates, Overlap.of(self.workload, problem.candidates))
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
