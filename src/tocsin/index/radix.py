"""Radix sort: a stable order of integers, the same on every machine; of all, or within parts.

Library sorts break ties by CPU features; a segment must have the same bytes wherever it is built.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import kernel

Order = npt.NDArray[np.int64]

# Parts of at most so many are sorted by insertion, and of at most so many by digits of eight bits: others by eleven.
FEW, SOME = 40, 4_096


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


@kernel
def sort_within(keys: npt.NDArray[np.uint64], starts: Order, order: Order) -> Order:
    """Return `order` with each part order[starts[i] : starts[i + 1]] stably sorted by its keys[order].

    Parts are sorted one by one, where they are in the cache.
    """
    order, largest = order.copy(), 0
    for part in range(len(starts) - 1):
        largest = max(largest, starts[part + 1] - starts[part])
    spare, count = np.empty(largest, np.int64), np.zeros(2048, np.int64)
    for part in range(len(starts) - 1):
        first, size = starts[part], starts[part + 1] - starts[part]
        if size <= FEW:
            for i in range(first + 1, first + size):
                position, j = order[i], i
                while j > first and keys[order[j - 1]] > keys[position]:
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = position
            continue
        ones, zeros = np.uint64(0), ~np.uint64(0)
        for i in range(first, first + size):
            ones |= keys[order[i]]
            zeros &= keys[order[i]]
        differing, bits = ones & ~zeros, np.uint64(8 if size <= SOME else 11)
        mask, shift = (np.uint64(1) << bits) - np.uint64(1), np.uint64(0)
        current, other = order[first : first + size], spare[:size]
        while shift < 64 and differing >> shift:
            if (differing >> shift) & mask == 0:
                shift += bits
                continue
            count[: mask + np.uint64(1)] = 0
            for i in range(size):
                count[(keys[current[i]] >> shift) & mask] += 1
            total = 0
            for digit in range(mask + np.uint64(1)):
                start = total
                total += count[digit]
                count[digit] = start
            for i in range(size):
                digit = (keys[current[i]] >> shift) & mask
                other[count[digit]] = current[i]
                count[digit] += 1
            current, other = other, current
            shift += bits
        order[first : first + size] = current
    return order
