"""Naive: one conjunction after the other, each until a member fails; results are remembered (Liu et al., section 5.2).

Compiled; a test holds it to the same in plain Python. A conjunction is walked even where another one's evaluation has failed it already:
that is what the paper's schedules gain on.

Time O(d) per conjunction and event.

Walking conjunctions one after the other: what the naive schedule and Sub-Order have in common.

Both evaluate a conjunction's members in a given order until one fails. They differ in one point: Sub-Order skips a
conjunction that has failed already by what was evaluated for others, wherever in it the failing member is.

O(d) per step for conjunctions of d members; nothing is written, so an event starts at no cost.

Answers: what is known of each predicate during one event, and the loop that every compiled schedule shares.

A compiled schedule is a function that returns the next predicate to evaluate, or NONE when all is decided. It keeps its
place in arrays, so that Python is entered only for the operators themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, lean_kernel
from tocsin.operators.problem import Bools, Evaluate, Int32s, Int64s, PredicateStatistics, SchedulingProblem, Workload

Answers = npt.NDArray[np.int8]

UNKNOWN = -1  # 0 is false, 1 is true
NONE = -1


def no_answers(predicates: int) -> Answers:
    """Return the answers before the first evaluation."""
    return np.full(predicates, UNKNOWN, np.int8)


def ask(step: Callable[[int], int], answers: Answers, evaluate: Evaluate) -> None:
    """Evaluate what `step` asks for until it asks for nothing; it is given the predicate answered last."""
    predicate = step(NONE)
    while predicate != NONE:
        answers[predicate] = evaluate(predicate)
        predicate = step(predicate)


def decided(problem: SchedulingProblem, answers: Answers) -> Bools:
    """Return which candidates hold; the answers must decide each of them.

    Whatever the order was, this is the answer: a schedule cannot be wrong, it can only ask too little, which raises.
    """
    workload = problem.workload
    held = np.empty(len(problem.candidates), np.bool_)
    open_at = _decide(problem.candidates, workload.starts, workload.members, workload.negated, answers, held)
    if open_at != NONE:
        raise AssertionError(f"the schedule left conjunction {problem.candidates[open_at]} undecided")
    return held


@helper
def fails(answer: int, negated: bool) -> bool:
    """Return whether a member with this answer fails its conjunction; an unknown one does not."""
    return answer == (1 if negated else 0)


@lean_kernel
def _decide(candidates: Int32s, starts: Int64s, members: Int32s, negated: Bools, answers: Answers, held: Bools) -> int:
    """Write which candidates hold; return the place of one that is undecided, or NONE."""
    for at in range(len(candidates)):
        conjunction = candidates[at]
        failed, unknown = False, False
        for place in range(starts[conjunction], starts[conjunction + 1]):
            answer = answers[members[place]]
            if answer == UNKNOWN:
                unknown = True
            elif fails(answer, negated[place]):
                failed = True
                break
        if unknown and not failed:
            return at
        held[at] = not failed
    return NONE


# Walking conjunctions one after the other.


@lean_kernel
def next_of_walk(
    order: Int32s, place: Int64s, starts: Int64s, members: Int32s, negated: Bools, answers: Answers, eliminate: bool
) -> int:
    """Return the next predicate needed by the conjunctions in this order; `place[0]` is how far the walk has come."""
    while place[0] < len(order):
        conjunction = order[place[0]]
        needed, failed = NONE, False
        for at in range(starts[conjunction], starts[conjunction + 1]):
            answer = answers[members[at]]
            if answer == UNKNOWN:
                if needed == NONE:
                    needed = members[at]
                if not eliminate:
                    break
            elif fails(answer, negated[at]):
                failed = True
                break
        if needed != NONE and not failed:
            return needed
        place[0] += 1
    return NONE


# Naive.


class Naive:
    """Members and conjunctions in the order in which they were written."""

    name = "naive"

    def prepare(self, workload: Workload, statistics: PredicateStatistics) -> None:
        """Do nothing: there is nothing to order."""

    def run(self, problem: SchedulingProblem, evaluate: Evaluate) -> Bools:
        workload, answers, place = problem.workload, no_answers(problem.workload.predicates), np.zeros(1, np.int64)

        def step(_answered: int) -> int:
            return next_of_walk(
                problem.candidates, place, workload.starts, workload.members, workload.negated, answers, False
            )

        ask(step, answers, evaluate)
        return decided(problem, answers)
