"""Runs: what the join found, until emission writes it out event by event.

A run of an event is one of
    bitmap   bits of rows, 64 a word       (length in words, position in `sparse` of each word's first row, in `bitmaps`)
    sparse   subscription numbers          (length, -1, position in `sparse`)
    direct   a block still to be evaluated (its rows, -2, block), where a tile would cost more than testing its rows
runs[r] = event (counted from the first of the batch), length, mark, position. The join appends runs in the order of
blocks; grouping puts those of an event side by side.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, inlined

Runs = npt.NDArray[np.int32]
SPARSE, DIRECT = -1, -2
RUN_FIELDS = 4


@inlined
def add_run(runs: Runs, n: int, event: int, length: int, mark: int, position: int) -> int:
    """Append run n; return the number of runs."""
    at = np.uint64(n)
    runs[at, 0], runs[at, 1], runs[at, 2], runs[at, 3] = event, length, mark, position
    return n + 1


@helper
def group_runs(runs: Runs, n: int, events: int, start: npt.NDArray[np.int32], grouped: Runs) -> None:
    """grouped[start[e] : start[e + 1]] = the runs of event e, of runs[:n], in their order; start has events + 2 places."""
    start[: events + 2] = 0
    for r in range(np.uint64(n)):
        start[np.uint64(runs[r, 0] + 2)] += 1
    for e in range(np.uint64(events)):
        start[e + np.uint64(2)] += start[e + np.uint64(1)]
    for r in range(np.uint64(n)):
        e = np.uint64(runs[r, 0] + 1)
        at = np.uint64(start[e])
        start[e] += 1
        grouped[at, 0], grouped[at, 1] = runs[r, 0], runs[r, 1]
        grouped[at, 2], grouped[at, 3] = runs[r, 2], runs[r, 3]
