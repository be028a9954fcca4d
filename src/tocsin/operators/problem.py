"""Workload, SchedulingProblem and Schedule: which operator predicates to evaluate, and in which order (Liu et al., section 3).

The columnar engine settles the cheap predicates of an event. What is left is a SchedulingProblem: conjunctions of operator
predicates, many of them shared. A Schedule asks for one predicate after the other until every conjunction is decided.
questions.py makes the problems; schedules/ solves them.

    members of conjunction c    members[starts[c] : starts[c + 1]], predicates by number
    its signs                   negated[starts[c] : starts[c + 1]]
    its subscription            owner[c]

Predicates that unify are one predicate: p(?x, ?y) is p(?a, ?b), but not p(?x, ?x). A predicate with variables is true
where the operator finds at least one binding; whether the bindings of a conjunction agree with each other, and satisfy
its value constraints, is checked after all of its predicates held, and is no concern of a schedule. A negated member
never has variables (`not p(?x)` is checked with the bindings).

EventEvaluation: the operator predicates of one event, each evaluated at most once and remembered.

Predicates with the same inputs share one call of the operator: count(?n) and count(50) differ only in what they pick.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tocsin.operators.operator import CallPattern, Row
from tocsin.operators.registry import CallResult, Runner
from tocsin.schema import Event

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Evaluate = Callable[[int], bool]
"""evaluate(k): whether predicate k is true of the event; asked twice, it answers from memory."""


@dataclass(frozen=True)
class Workload:
    """All conjunctions with operator predicates that a matcher holds. It is replaced, never changed.

    A conjunction has at least one member and no predicate twice. Workloads of one `lineage` grow: each begins with the
    conjunctions and the predicates of those before it, under the same numbers. A schedule that is given another
    lineage knows that the numbers may mean something else.
    """

    operator: Int32s  # [P] the operator of each predicate
    argument: Int32s  # [P] the arguments of each predicate: equal numbers, equal arguments, whatever the operator
    starts: Int64s  # [C + 1]
    members: Int32s  # [starts[C]]
    negated: Bools  # [starts[C]]
    owner: Int32s  # [C] the subscription of each conjunction
    lineage: object = field(default_factory=object, compare=False, repr=False)

    @property
    def predicates(self) -> int:
        return len(self.operator)

    @property
    def conjunctions(self) -> int:
        return len(self.owner)

    def of(self, conjunction: int) -> tuple[Int32s, Bools]:
        """Return the members of a conjunction, and their signs."""
        part = slice(self.starts[conjunction], self.starts[conjunction + 1])
        return self.members[part], self.negated[part]

    @cached_property
    def popularity(self) -> Int64s:
        """[P] In how many conjunctions each predicate is."""
        return np.bincount(self.members, minlength=self.predicates).astype(np.int64)

    def check(self) -> None:
        """Assert what the class promises."""
        sizes = np.diff(self.starts)
        assert self.starts[0] == 0
        assert self.starts[-1] == len(self.members) == len(self.negated)
        assert len(self.starts) == self.conjunctions + 1
        assert (sizes > 0).all(), "a conjunction without operator predicates"
        assert len(self.argument) == self.predicates
        assert not len(self.members) or 0 <= self.members.min() <= self.members.max() < self.predicates
        conjunction = np.repeat(np.arange(self.conjunctions), sizes)
        pairs = conjunction * max(1, self.predicates) + self.members
        assert len(np.unique(pairs)) == len(pairs), "a predicate twice in a conjunction"


@dataclass(frozen=True)
class SchedulingProblem:
    """What one event leaves to be decided: the conjunctions of the workload whose cheap predicates hold."""

    workload: Workload
    candidates: Int32s  # numbers of conjunctions, ascending; all of them where there are no cheap predicates
    statistics: PredicateStatistics

    @classmethod
    def whole(cls, workload: Workload, statistics: PredicateStatistics | None = None) -> SchedulingProblem:
        """Return the problem of an event that leaves every conjunction."""
        known = statistics or PredicateStatistics.of(np.full(workload.predicates, 1.0))
        return cls(workload, np.arange(workload.conjunctions, dtype=np.int32), known)


@dataclass
class PredicateStatistics:
    """What is known of each predicate, from its declaration and from the events so far.

    `seconds` and `trues` are sums over the evaluations; the declared cost and a probability of one half weigh as much
    as `prior_weight` evaluations. A schedule may keep finer knowledge of its own.
    """

    declared_cost: Float64s  # [P] seconds
    evaluations: Int64s  # [P]
    trues: Int64s  # [P]
    seconds: Float64s  # [P]
    prior_weight: float = field(default=2.0)

    @classmethod
    def of(cls, declared_cost: Float64s) -> PredicateStatistics:
        """Return the statistics of predicates that were never evaluated."""
        size = len(declared_cost)
        return cls(declared_cost, np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.float64))

    def observe(self, predicate: int, result: bool, seconds: float) -> None:
        """Take note of one evaluation."""
        self.evaluations[predicate] += 1
        self.trues[predicate] += result
        self.seconds[predicate] += seconds

    def grow(self, declared_cost: Float64s) -> None:
        """Make room for further predicates, of these costs."""
        more = PredicateStatistics.of(declared_cost)
        self.declared_cost = np.concatenate([self.declared_cost, more.declared_cost])
        self.evaluations = np.concatenate([self.evaluations, more.evaluations])
        self.trues = np.concatenate([self.trues, more.trues])
        self.seconds = np.concatenate([self.seconds, more.seconds])

    def only(self, kept: list[int]) -> PredicateStatistics:
        """Return what is known of some of the predicates, in this order."""
        return PredicateStatistics(
            self.declared_cost[kept], self.evaluations[kept], self.trues[kept], self.seconds[kept], self.prior_weight
        )

    @property
    def probability(self) -> Float64s:
        """[P] How likely each predicate is true."""
        weight = self.prior_weight
        estimate: Float64s = (self.trues + weight / 2) / (self.evaluations + weight)
        return estimate

    @property
    def cost(self) -> Float64s:
        """[P] Seconds that an evaluation of each predicate takes."""
        weight = self.prior_weight
        estimate: Float64s = (self.seconds + weight * self.declared_cost) / (self.evaluations + weight)
        return estimate


class Schedule(Protocol):
    """An order to evaluate predicates in; it never changes the answer, only what it costs."""

    name: str

    def prepare(self, workload: Workload, statistics: PredicateStatistics) -> None:
        """Make ready for problems of this workload; called again whenever the workload is replaced."""

    def run(self, problem: SchedulingProblem, evaluate: Evaluate) -> Bools:
        """Return, for each candidate, whether all its members hold; a negated member holds where its predicate is false.

        Asks `evaluate` for whatever it needs to know, which is the cost. A conjunction that cannot hold any more, since
        one of its members does not, needs no further evaluations.
        """


Steps = Generator[int, tuple[int, bool] | None, Bools]
"""Yields a predicate to be evaluated, or -1 for none at the moment; is sent an answer, or None where there is room for more."""


@runtime_checkable
class ParallelSchedule(Schedule, Protocol):
    """A schedule that can have several evaluations in flight."""

    def steps(self, problem: SchedulingProblem) -> Steps:
        """Return what to evaluate, step by step; what it returns in the end is what `run` does."""


# EventEvaluation.


NOT_ASKED = "the operator was not asked yet"


class EventEvaluation:
    """What is known of the predicates of one event.

    Where it is `closed`, nothing is asked any more: what is not known fails, and `missing` says so.
    """

    def __init__(
        self, event: Event, patterns: list[CallPattern], runner: Runner, statistics: PredicateStatistics
    ) -> None:
        self.event, self.patterns, self.runner = event, patterns, runner
        self.statistics = statistics
        self._solutions: dict[int, tuple[Row, ...] | None] = {}
        self.failures: dict[int, str] = {}  # predicates whose operator failed, and why
        self._outcomes: dict[tuple[object, ...], CallResult] = {}
        self.closed = self.missing = False

    def reopen(self, *, closed: bool) -> None:
        """Let operators be asked from now on, or not any more."""
        self.closed, self.missing = closed, False
        self.failures = {number: why for number, why in self.failures.items() if why != NOT_ASKED}

    def evaluate(self, predicate: int) -> bool:
        """Return whether the predicate has solutions."""
        return bool(self.solutions(predicate))

    def solutions(self, predicate: int) -> tuple[Row, ...] | None:
        """Return the solutions of a predicate, or None where its operator failed."""
        if predicate not in self._solutions:
            started = time.perf_counter()
            pattern = self.patterns[predicate]
            key = pattern.input_key
            if key not in self._outcomes:
                if self.closed:
                    self.missing = True
                    self.failures[predicate] = NOT_ASKED
                    return None
                self._outcomes[key] = self.runner.run(pattern, self.event)
            self._know(predicate, self._outcomes[key], time.perf_counter() - started)
        return self._solutions[predicate]

    def learn(self, predicate: int, outcome: CallResult, seconds: float) -> None:
        """Take an outcome that came with those of other events."""
        self._outcomes[self.patterns[predicate].input_key] = outcome
        self._know(predicate, outcome, seconds)

    def knows(self, predicate: int) -> bool:
        """Return whether evaluating the predicate would call no operator."""
        return predicate in self._solutions or self.patterns[predicate].input_key in self._outcomes

    @property
    def evaluated(self) -> dict[int, tuple[Row, ...] | None]:
        """The predicates evaluated so far, with their solutions."""
        return self._solutions

    def _know(self, predicate: int, outcome: CallResult, seconds: float) -> None:
        found = None if outcome.failure is not None else self.patterns[predicate].solutions(outcome.rows)
        self._solutions[predicate] = found
        if outcome.failure is not None:
            self.failures[predicate] = outcome.failure
        self.statistics.observe(predicate, bool(found), seconds)
