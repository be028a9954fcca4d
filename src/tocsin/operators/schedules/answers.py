"""Answers: what is known of each predicate during one event, and the loop that every compiled schedule shares.

A compiled schedule is a function that returns the next predicate to evaluate, or NONE when all is decided. It keeps its
place in arrays, so that Python is entered only for the operators themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, lean_kernel
from tocsin.operators.problem import Bools, Evaluate, Int32s, Int64s, Problem

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


def decided(problem: Problem, answers: Answers) -> Bools:
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
