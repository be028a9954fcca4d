"""A lower bound: how many evaluations not even a schedule that foresees all answers can do without.

To decide a conjunction that holds, all its members must be evaluated. To decide one that fails, at least one failing
member must be. So the failing members evaluated cover the failing conjunctions, and by duality any fractional packing is
a lower bound: numbers y >= 0 on the failing conjunctions such that those of each failing predicate sum to at most 1.

The packing is improved by multiplicative steps. Whatever y is, y / (greatest load among its failing members) is a
packing, so every round gives a valid bound, and the best is kept. O(M) a round.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.jit import kernel
from tocsin.operators.problem import Bools, Int32s, Int64s, Workload

ROUNDS = 120
SHARPNESS = 8.0  # of the mean that stands for the greatest load: a smooth one converges


def lower_bound(workload: Workload, truth: Bools, rounds: int = ROUNDS) -> float:
    """Return a number of evaluations that every schedule needs on this event."""
    return _bound(workload.starts, workload.members, workload.negated, truth, rounds)


@kernel
def _bound(starts: Int64s, members: Int32s, negated: Bools, truth: Bools, rounds: int) -> float:
    """Return the evaluations needed by conjunctions that hold, plus the best packing of those that fail."""
    count, size = len(starts) - 1, len(truth)
    failing, needed = np.zeros(count, np.bool_), np.zeros(size, np.bool_)
    for conjunction in range(count):
        for place in range(starts[conjunction], starts[conjunction + 1]):
            if truth[members[place]] == negated[place]:
                failing[conjunction] = True
        if not failing[conjunction]:
            for place in range(starts[conjunction], starts[conjunction + 1]):
                needed[members[place]] = True
    best, packing, load = 0.0, np.ones(count), np.empty(size)
    # A predicate that holds in one conjunction and fails in another, negated, is counted once: as needed.
    for _ in range(rounds):
        load[:] = 0.0
        for conjunction in range(count):
            if failing[conjunction]:
                for place in range(starts[conjunction], starts[conjunction + 1]):
                    if truth[members[place]] == negated[place]:
                        load[members[place]] += packing[conjunction]
        total = 0.0
        for conjunction in range(count):
            if failing[conjunction]:
                greatest, powers, free = 0.0, 0.0, True
                for place in range(starts[conjunction], starts[conjunction + 1]):
                    if truth[members[place]] == negated[place]:
                        greatest = max(greatest, load[members[place]])
                        free = free and not needed[members[place]]
                        powers += load[members[place]] ** SHARPNESS
                if free:
                    total += packing[conjunction] / greatest
                packing[conjunction] /= powers ** (1.0 / SHARPNESS)
        best = max(best, total)
    return float(best + needed.sum())
