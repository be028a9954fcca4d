"""Vectors of bytes: 32 rows of a filter at once, and 32 columns of bytes laid out event by event.

As in bits.py: LLVM vector code where Numba compiles and the CPU has it, else a plain twin.
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

from tocsin.index.filters import EQUALITY_BYTES, EVENT_BYTES, FILTER_ROWS, WHERE
from tocsin.index.jit import helper
from tocsin.matching.columnar.bits import COMPILED, HAS_AVX2, data_of, pointer_to, shuffle, vector

Bytes = npt.NDArray[np.uint8]

EVENTS_TRANSPOSED = 16

_i8, _i64 = ir.IntType(8), ir.IntType(64)


def _equal(context: Any, b: Any, sig: Any, args: Any, equalities: int) -> Any:
    """Generate which of 32 rows hold for an event: see rows_equal and rows_equal_twice."""
    asked, half = vector(_i8, FILTER_ROWS), vector(_i8, EVENT_BYTES // 2)
    lookup_type = ir.FunctionType(asked, [asked, asked])
    lookup = cgutils.get_or_insert_function(b.module, lookup_type, "llvm.x86.avx2.pshuf.b")
    other_half = ir.Constant(asked, [ir.Constant(_i8, 0x80)] * FILTER_ROWS)
    filter_data, event_data = data_of(context, b, sig.args[0], args[0]), data_of(context, b, sig.args[2], args[2])

    def load(data: Any, start: Any, offset: int, kind: ir.Type) -> Any:
        return b.load(pointer_to(b, data, b.add(start, ir.Constant(_i64, offset)), kind), align=1)

    halves = [load(event_data, args[3], offset, half) for offset in (0, EVENT_BYTES // 2)]
    low, high = (shuffle(b, each, each, list(range(EVENT_BYTES // 2)) * 2) for each in halves)
    passed = None
    for start in range(0, equalities * EQUALITY_BYTES, EQUALITY_BYTES):
        where, wanted = (load(filter_data, args[1], start + offset, asked) for offset in (0, FILTER_ROWS))
        # A look-up gives 0 where the top bit is set: one of the two does.
        found = b.or_(b.call(lookup, [low, where]), b.call(lookup, [high, b.xor(where, other_half)]))
        equal = b.icmp_signed("==", found, wanted)
        passed = equal if passed is None else b.and_(passed, equal)
    return b.zext(b.bitcast(passed, ir.IntType(FILTER_ROWS)), _i64)


@intrinsic
def rows_equal_avx2(typing: Any, filters: Any, at: Any, events: Any, start: Any) -> Any:
    """As rows_equal_portable."""
    signature = types.uint64(filters, types.uint64, events, types.uint64)
    return signature, lambda context, b, sig, args: _equal(context, b, sig, args, 1)


@intrinsic
def rows_equal_twice_avx2(typing: Any, filters: Any, at: Any, events: Any, start: Any) -> Any:
    """As rows_equal_twice_portable."""
    signature = types.uint64(filters, types.uint64, events, types.uint64)
    return signature, lambda context, b, sig, args: _equal(context, b, sig, args, 2)


@intrinsic
def transpose_bytes(typing: Any, source: Any, start: Any, step: Any, target: Any, at: Any) -> Any:
    """target[at + 32 * e + c] = source[start + step * c + e], for 16 events e and 32 columns c."""
    signature = types.void(source, types.int64, types.int64, target, types.int64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        source_data, target_data = data_of(context, b, sig.args[0], args[0]), data_of(context, b, sig.args[3], args[3])
        half = vector(_i8, EVENTS_TRANSPOSED)

        def load(column: int) -> Any:
            where = b.add(args[1], b.mul(args[2], ir.Constant(_i64, column)))
            return b.load(pointer_to(b, source_data, where, half), align=1)

        # Column c beside column c + 16: what is done within each half of a vector transposes both.
        rows = [shuffle(b, load(c), load(c + 16), list(range(32))) for c in range(16)]
        low = [lane for i in range(8) for lane in (i, 32 + i)]
        high = [lane + 8 for lane in low]
        for _ in range(4):
            mixed = []
            for i in range(8):
                for lanes in (low, high):
                    mixed.append(shuffle(b, rows[i], rows[i + 8], lanes + [lane + 16 for lane in lanes]))
            rows = mixed
        for e, row in enumerate(rows):
            where = b.add(args[4], ir.Constant(_i64, EVENT_BYTES * e))
            b.store(row, pointer_to(b, target_data, where, vector(_i8, EVENT_BYTES)), align=1)
        return context.get_dummy_value()

    return signature, generate


@helper
def rows_equal_portable(filters: Bytes, at: int, events: Bytes, start: int) -> np.uint64:
    """Return as bits for which of 32 rows the equality at filters[at : at + 64] holds for the event at events[start : start + 32]."""
    passed, first, event = np.uint64(0), np.int64(at), np.int64(start) - WHERE
    for row in range(first, first + FILTER_ROWS):
        holds = events[event + np.int64(filters[row])] == filters[row + FILTER_ROWS]
        passed |= np.uint64(holds) << np.uint64(row - first)
    return passed


@helper
def rows_equal_twice_portable(filters: Bytes, at: int, events: Bytes, start: int) -> np.uint64:
    """Return as bits for which of 32 rows that equality and the next hold."""
    first = rows_equal_portable(filters, at, events, start)
    return first & rows_equal_portable(filters, np.uint64(at) + np.uint64(EQUALITY_BYTES), events, start)


if config.DISABLE_JIT:

    def transpose_bytes(source: Bytes, start: int, step: int, target: Bytes, at: int) -> None:
        """target[at + 32 * e + c] = source[start + step * c + e], for 16 events e and 32 columns c."""
        for c in range(EVENT_BYTES):
            for e in range(EVENTS_TRANSPOSED):
                target[at + EVENT_BYTES * e + c] = source[start + step * c + e]


_VECTORS = HAS_AVX2 and COMPILED
FILTERS_PAY = HAS_AVX2 or not COMPILED  # without byte shuffles, tiles are faster
rows_equal = rows_equal_avx2 if _VECTORS else rows_equal_portable
rows_equal_twice = rows_equal_twice_avx2 if _VECTORS else rows_equal_twice_portable
