"""Words of 64 bits: which bits are set, and how many. For the kernels that go through bitmaps.

Where Numba is told to compile nothing (NUMBA_DISABLE_JIT=1), plain Python takes the place of the intrinsics.
"""

# ruff: noqa: ARG001 - intrinsics declare the arguments of what they generate
# mypy: disable-error-code="no-redef, misc"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@intrinsic
def count_zeros(typing: Any, word: Any) -> Any:
    """Return the number of trailing zero bits of a word that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def count_ones(typing: Any, word: Any) -> Any:
    """Return the number of bits set in a word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


if getattr(config, "DISABLE_JIT", 0):

    def count_zeros(word: np.uint64) -> int:
        """Return the number of trailing zero bits of a word that is not 0."""
        bits = int(word)
        return (bits & -bits).bit_length() - 1

    def count_ones(word: np.uint64) -> int:
        """Return the number of bits set in a word."""
        return int(word).bit_count()
