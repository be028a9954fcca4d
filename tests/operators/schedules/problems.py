"""Random problems for schedules, and the plain definitions that they are held to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from tocsin.operators.problem import Bools, Evaluate, PredicateStatistics, SchedulingProblem, Workload


def workload_of(conjunctions: list[list[int]], predicates: int, operators: int = 1) -> Workload:
    """Return the workload of these conjunctions; ~k is the negation of predicate k."""
    flat = [member for conjunction in conjunctions for member in conjunction]
    made = Workload(
        operator=np.arange(predicates, dtype=np.int32) % operators,
        argument=np.arange(predicates, dtype=np.int32),
        starts=np.cumsum([0, *map(len, conjunctions)], dtype=np.int64),
        members=np.array([~m if m < 0 else m for m in flat], np.int32),
        negated=np.array([m < 0 for m in flat], np.bool_),
        owner=np.arange(len(conjunctions), dtype=np.int32),
    )
    made.check()
    return made


class PlainNaive:
    """The naive schedule in plain Python: members in the order in which they were written."""

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


@dataclass
class Case:
    """A problem, and the truth of each predicate."""

    problem: SchedulingProblem
    truth: Bools

    def expected(self) -> list[bool]:
        """Return which candidates hold, by the definition."""
        parts = (self.problem.workload.of(candidate) for candidate in self.problem.candidates.tolist())
        return [bool((self.truth[members] != negated).all()) for members, negated in parts]

    def recorder(self, asked: list[int]) -> Evaluate:
        """Return an evaluation that notes what it is asked for."""

        def evaluate(predicate: int) -> bool:
            asked.append(predicate)
            return bool(self.truth[predicate])

        return evaluate


@st.composite
def cases(draw: st.DrawFn, most_predicates: int = 8, signs: bool = True) -> Case:
    """Return small problems with shared members, signs, any statistics, and any candidates."""
    predicates = draw(st.integers(1, most_predicates))
    conjunction = st.lists(st.integers(0, predicates - 1), min_size=1, max_size=5, unique=True)
    signed = conjunction.flatmap(
        lambda members: st.tuples(*(st.sampled_from([m, ~m] if signs else [m]) for m in members)).map(list)
    )
    conjunctions = draw(st.lists(signed, min_size=1, max_size=12))
    workload = workload_of(conjunctions, predicates, operators=2)
    everything = list(range(len(conjunctions)))
    chosen = draw(st.one_of(st.just(everything), st.lists(st.sampled_from(everything), unique=True).map(sorted)))
    bools = st.lists(st.booleans(), min_size=predicates, max_size=predicates)
    statistics = PredicateStatistics.of(draw(_numbers(predicates, [0.0, 0.001, 1.0, 7.0])))
    statistics.evaluations += draw(_numbers(predicates, [0, 3, 1000])).astype(np.int64)
    statistics.trues += (statistics.evaluations * draw(_numbers(predicates, [0.0, 0.5, 1.0]))).astype(np.int64)
    statistics.seconds += statistics.evaluations * draw(_numbers(predicates, [0.0, 0.01, 2.0]))
    return Case(SchedulingProblem(workload, np.array(chosen, np.int32), statistics), np.array(draw(bools), np.bool_))


def _numbers(size: int, values: list[float]) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.sampled_from(values), min_size=size, max_size=size).map(lambda x: np.array(x, np.float64))
