"""Kernels that write Parquet's lists of numbers: levels as runs, numbers packed into few bits.

Parquet tells where lists begin by a repetition level for each number: 0 for the first of a list, 1 for the others. A
list of any length is two runs of that. Definition levels tell empty lists (1) from numbers (2), and are mostly one run.
Numbers that point into a dictionary are packed eight at a time. Used by list_chunk.py.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, kernel, lean_kernel
from tocsin.index.raw_memory import int32_at, pack_8

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

EMPTY, PRESENT = 1, 2  # definition levels
LEVEL_BYTES = 16  # that the levels of a list may take, of either kind
SPARE_BYTES = 64  # that pack() may write beyond its end, and for its headers

# What put_lists() remembers of a page from one call to the next.
REPETITION_END, ZEROS, DEFINITION_END, LEVEL, COUNT, VALUES, NUMBERS_END, LISTS = 0, 1, 2, 3, 4, 5, 6, 7
STATE = 8


@helper
def put_varint(out: Bytes, p: int, number: int) -> int:
    """Write a number in groups of seven bits; return the new end."""
    while number > 0x7F:
        out[p] = np.uint8(number & 0x7F | 0x80)
        number >>= 7
        p += 1
    out[p] = np.uint8(number)
    return p + 1


@helper
def put_run(out: Bytes, p: int, level: int, count: int) -> int:
    """Write that a level comes `count` times; return the new end."""
    p = put_varint(out, p, count << 1)
    out[p] = np.uint8(level)
    return p + 1


@helper
def put_levels(offset: Int64s, state: Int64s, repetition: Bytes, definition: Bytes) -> None:
    """Write the levels of lists of offset[i + 1] - offset[i] numbers; runs that may go on wait in the state."""
    p, zeros, q = state[REPETITION_END], state[ZEROS], state[DEFINITION_END]
    level, count = state[LEVEL], state[COUNT]
    for e in range(len(offset) - 1):
        n = offset[e + 1] - offset[e]
        if n > 1:
            p = put_run(repetition, p, 0, zeros + 1)
            p = put_run(repetition, p, 1, n - 1)
            zeros = np.int64(0)
        else:
            zeros += 1
        now = PRESENT if n > 0 else EMPTY
        if now != level:
            if count > 0:
                q = put_run(definition, q, level, count)
            level, count = np.int64(now), np.int64(0)
        count += max(n, 1)
        state[VALUES] += max(n, 1)
    state[REPETITION_END], state[ZEROS], state[DEFINITION_END] = p, zeros, q
    state[LEVEL], state[COUNT] = level, count


@helper
def pack(numbers: int, count: int, width: int, out: Bytes, address: int, p: int) -> int:
    """Write `count` numbers (int32, from an address on) in `width` bits each, a multiple of four; return the new end.

    `out` lies at `address`. What is left of eights follows number by number.
    """
    eights = count >> 3
    if eights:
        p = put_varint(out, p, eights << 1 | 1)
        for i in range(eights):
            pack_8(np.int64(numbers) + 32 * i, width, np.int64(address) + p + i * width)
        p += eights * width
    for i in range(eights << 3, count):
        p = put_varint(out, p, 1 << 1)
        number = np.int64(int32_at(numbers, np.uint64(i)))
        for _ in range((width + 7) >> 3):
            out[p] = np.uint8(number & 0xFF)
            number >>= 8
            p += 1
    return p


@lean_kernel
def put_lists(
    offset: Int64s, numbers: int, width: int, state: Int64s, repetition: Bytes, definition: Bytes, out: Bytes,
    address: int,
) -> None:  # fmt: skip
    """Write lists: their levels, and their numbers (int32, from an address on, that of the first list) into out."""
    put_levels(offset, state, repetition, definition)
    count = offset[len(offset) - 1] - offset[0]
    state[NUMBERS_END] = pack(numbers, count, width, out, address, state[NUMBERS_END])
    state[LISTS] += len(offset) - 1


@lean_kernel
def end_levels(state: Int64s, repetition: Bytes, definition: Bytes) -> None:
    """Write the runs that wait."""
    if state[ZEROS]:
        state[REPETITION_END] = put_run(repetition, state[REPETITION_END], 0, state[ZEROS])
    if state[COUNT]:
        state[DEFINITION_END] = put_run(definition, state[DEFINITION_END], state[LEVEL], state[COUNT])


@kernel
def put_texts(offset: Int32s, data: Bytes, out: Bytes) -> None:
    """Write texts, data[offset[i] : offset[i + 1]] each, one behind the other, each behind its length in four bytes."""
    p = 0
    for i in range(len(offset) - 1):
        length = np.int64(offset[i + 1]) - np.int64(offset[i])
        for z in range(4):
            out[p + z] = np.uint8(length >> (8 * z) & 0xFF)
        p += 4
        for z in range(length):
            out[p + z] = data[offset[i] + z]
        p += length
