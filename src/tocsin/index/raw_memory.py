"""Raw memory: kernels that read columns of numbers where Arrow has them, by address.

Thirty columns as thirty arrays would be thirty calls of a kernel; their addresses are one array and one call.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# ruff: noqa: ARG001 - intrinsics declare the arguments of what they generate
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc, no-redef"

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from tocsin.index.jit import lean_kernel

Int64s = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


@intrinsic
def int64_at(typing: Any, address: Any, index: Any) -> Any:
    """Return the index-th int64 from an address on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(start, [args[1]]), align=8)

    return types.int64(types.int64, types.uint64), generate


EVENTS_AT_ONCE = 1_024  # whose codes stay in the cache while all columns are coded

if config.DISABLE_JIT:

    def int64_at(address: int, index: int) -> int:
        """Return the index-th int64 from an address on."""
        return ctypes.c_int64.from_address(int(address) + 8 * int(index)).value


@lean_kernel
def code_by_tables(
    rows: Int64s, addresses: Int64s, least: Int64s, table_start: Int64s, table_length: Int64s, tables: Codes, size: int,
    codes: Codes,
) -> None:  # fmt: skip
    """codes[rows[c], e] = the code of the e-th number of column c by its table, as code_by_table in index/coder.py.

    Column c lies at addresses[c]; its table, of table_length[c] codes from tables[table_start[c]] on, starts at least[c].
    """
    for start in range(0, size, EVENTS_AT_ONCE):
        stop = min(size, start + EVENTS_AT_ONCE)
        for c in range(len(rows)):
            address, low, first = addresses[c], least[c], table_start[c]
            high = low + table_length[c] - 1
            target = codes[rows[c]]
            for e in range(np.uint64(start), np.uint64(stop)):
                value = min(max(int64_at(address, e), low), high)
                target[e] = tables[np.uint64(first + value - low)]
