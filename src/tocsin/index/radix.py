"""Radix sort: a stable order of integers, the same on every machine.

Library sorts break ties by CPU features; a segment must have the same bytes wherever it is built.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import kernel

Order = npt.NDArray[np.int64]


@kernel
def radix_order(keys: npt.NDArray[np.uint64], order: Order) -> Order:
    """Return `order` stably sorted by keys[order]: sorted(order, key=lambda i: keys[i]).

    Eleven bits a pass; bits in which all keys agree are skipped.
    """
    n = len(order)
    current, other = order.copy(), np.empty(n, np.int64)
    ones, zeros = np.uint64(0), ~np.uint64(0)
    for i in range(n):
        ones |= keys[order[i]]
        zeros &= keys[order[i]]
    differing = ones & ~zeros
    count = np.zeros(2048, np.int64)
    for shift in range(0, 64, 11):
        if (differing >> np.uint64(shift)) & np.uint64(2047) == 0:
            continue
        count[:] = 0
        for i in range(n):
            count[np.int64((keys[current[i]] >> np.uint64(shift)) & np.uint64(2047))] += 1
        total = 0
        for digit in range(2048):
            start = total
            total += count[digit]
            count[digit] = start
        for i in range(n):
            digit = np.int64((keys[current[i]] >> np.uint64(shift)) & np.uint64(2047))
            other[count[digit]] = current[i]
            count[digit] += 1
        current, other = other, current
    return current
