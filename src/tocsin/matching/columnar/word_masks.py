"""Word masks: which of 64 words have any bit set, and which have many; and asking for memory before it is needed.

As in bits.py: LLVM vector code, which any CPU runs, where Numba compiles; else a plain twin.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# ruff: noqa: ARG001 - intrinsics declare the arguments of what they generate
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc, no-redef"

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from tocsin.matching.columnar.bits import FEW, Words, data_of, pointer_to, vector

WORDS_AT_ONCE = 8  # that the masks of eight words read; a bitmap's end is followed by as many that may be read

_i4, _i8, _i32, _i64 = ir.IntType(4), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_four = vector(_i64, 4)


def _mask_of_eight(context: Any, b: Any, sig: Any, args: Any, limit: int) -> Any:
    """Generate the mask of the words among eight that have more than `limit` bits set."""
    data = data_of(context, b, sig.args[0], args[0])
    count = cgutils.get_or_insert_function(b.module, ir.FunctionType(_four, [_four]), "llvm.ctpop.v4i64")
    limits = ir.Constant(_four, [ir.Constant(_i64, limit)] * 4)
    halves = []
    for start in (0, 4):
        loaded = b.load(pointer_to(b, data, b.add(args[1], ir.Constant(_i64, start)), _four), align=8)
        more = (
            b.icmp_signed(">", b.call(count, [loaded]), limits) if limit else b.icmp_unsigned("!=", loaded, limits)
        )  # fmt: skip
        halves.append(b.zext(b.bitcast(more, _i4), _i64))
    return b.or_(halves[0], b.shl(halves[1], ir.Constant(_i64, 4)))


@intrinsic
def some_of_eight(typing: Any, words: Any, at: Any) -> Any:
    """Return a mask of eight bits: bit i is set where words[at + i] has any bit set."""
    signature = types.uint64(words, types.uint64)
    return signature, lambda context, b, sig, args: _mask_of_eight(context, b, sig, args, 0)


@intrinsic
def many_of_eight(typing: Any, words: Any, at: Any) -> Any:
    """Return a mask of eight bits: bit i is set where words[at + i] has more than FEW bits set."""
    signature = types.uint64(words, types.uint64)
    return signature, lambda context, b, sig, args: _mask_of_eight(context, b, sig, args, FEW)


@intrinsic
def prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Ask for the cache line of array[at], into the second cache; nothing waits for it, and it may lie beyond the end."""
    signature = types.void(array, types.int64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        pointer = pointer_to(b, data_of(context, b, sig.args[0], args[0]), args[1], _i8)
        kind = ir.FunctionType(ir.VoidType(), [_i8.as_pointer(), _i32, _i32, _i32])
        ask = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0")
        b.call(ask, [pointer, ir.Constant(_i32, 0), ir.Constant(_i32, 2), ir.Constant(_i32, 1)])
        return context.get_dummy_value()

    return signature, generate


if config.DISABLE_JIT:

    def some_of_eight(words: Words, at: int) -> np.uint64:
        """Return a mask of eight bits: bit i is set where words[at + i] has any bit set."""
        return np.uint64(sum(1 << i for i in range(8) if words[int(at) + i]))

    def many_of_eight(words: Words, at: int) -> np.uint64:
        """Return a mask of eight bits: bit i is set where words[at + i] has more than FEW bits set."""
        return np.uint64(sum(1 << i for i in range(8) if int(words[int(at) + i]).bit_count() > FEW))

    def prefetch(array: npt.NDArray[Any], at: int) -> None:
        """Ask for the cache line of array[at]: nothing to be done."""
