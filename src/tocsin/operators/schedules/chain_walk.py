"""Walking conjunctions one after the other: what the naive schedule and Sub-Order have in common.

Both evaluate a conjunction's members in a given order until one fails. They differ in one point: Sub-Order skips a
conjunction that has failed already by what was evaluated for others, wherever in it the failing member is.

O(d) per step for conjunctions of d members; nothing is written, so an event starts at no cost.
"""

from __future__ import annotations

from tocsin.index.jit import lean_kernel
from tocsin.operators.problem import Bools, Int32s, Int64s
from tocsin.operators.schedules.answers import NONE, UNKNOWN, Answers, fails


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
