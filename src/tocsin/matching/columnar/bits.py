"""Bits: 64x64 transposition and vector compression for the kernels; bit counting is in index/raw_memory.py.

The transposition is plain LLVM vector code, which any CPU runs. `append_selected` needs AVX2 to be fast; without it a
portable version takes its place, chosen once, at import. Where Numba is told to compile nothing (NUMBA_DISABLE_JIT=1),
plain Python takes the place of what only a compiler can run: slow, with every bound checked, and the reference of the
tests.

Vectors of bytes: 32 rows of a filter at once, and 32 columns of bytes laid out event by event.

As in bits.py: LLVM vector code where Numba compiles and the CPU has it, else a plain twin.

Word masks: which of 64 words have any bit set, and which have many; and asking for memory before it is needed.

As in bits.py: LLVM vector code, which any CPU runs, where Numba compiles; else a plain twin.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# ruff: noqa: ARG001 - intrinsics declare the arguments of what they generate
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc, no-redef"

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from tocsin.index.jit import helper, inlined
from tocsin.index.raw_memory import ALL, ONE, count_ones, count_zeros
from tocsin.index.rows import EQUALITY_BYTES, EVENT_BYTES, FILTER_ROWS, WHERE

__all__ = ["ALL", "ONE", "count_ones", "count_zeros"]  # for those who import them from here, with the rest

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int32]

_i8, _i32, _i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
FEW = 6  # bits of a word that are better copied one by one than by vectors


def _has_avx2() -> bool:
    if config.CPU_FEATURES is not None:
        return "+avx2" in config.CPU_FEATURES
    return config.CPU_NAME is None and bool(llvm.get_host_cpu_features().get("avx2", False))


def _has_spread() -> bool:
    """Return whether the processor spreads bits in one step: those of AMD before Zen 3 take a hundred for what they have."""
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return False
    slow = llvm.get_host_cpu_name() in ("znver1", "znver2")
    return bool(llvm.get_host_cpu_features().get("bmi2", False)) and not slow


HAS_AVX2, HAS_SPREAD = _has_avx2(), _has_spread()


def vector(element: ir.Type, count: int) -> ir.VectorType:
    """Return the type of a vector of `count` elements."""
    return ir.VectorType(element, count)


def shuffle(builder: Any, x: Any, y: Any, lanes: list[int]) -> Any:
    """Return the elements of the vectors x and y at these lanes, those of y after those of x."""
    mask = ir.Constant(vector(_i32, len(lanes)), [ir.Constant(_i32, lane) for lane in lanes])
    return builder.shuffle_vector(x, y, mask)


def data_of(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Return where the elements of an array lie."""
    return cgutils.create_struct_proxy(array_type)(context, builder, array).data


def pointer_to(builder: Any, base: Any, index: Any, element: ir.Type) -> Any:
    """Return a pointer to what lies at an index, as an element of another type."""
    return builder.bitcast(builder.gep(base, [index]), element.as_pointer())


@intrinsic
def zeros_below(typing: Any, word: Any) -> Any:
    """Return the number of trailing zero bits of a word; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def transpose(typing: Any, source: Any, start: Any, target: Any, at: Any, stride: Any) -> Any:
    """Write 64 words: bit r of target[at + e * stride] = bit e of source[start + r], for e, r in 0..63."""
    signature = types.void(source, types.int64, target, types.int64, types.int64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        source_data = data_of(context, b, sig.args[0], args[0])
        target_data = data_of(context, b, sig.args[2], args[2])
        halves = b.bitcast(b.gep(target_data, [args[3]]), _i32.as_pointer())
        step = b.shl(args[4], ir.Constant(_i64, 1))
        zero = ir.Constant(vector(_i8, 32), [ir.Constant(_i8, 0)] * 32)
        for half in (0, 1):
            rows = []
            for i in range(8):
                where = b.add(args[1], ir.Constant(_i64, 32 * half + 4 * i))
                loaded = b.load(pointer_to(b, source_data, where, vector(_i8, 32)), align=8)
                gathered = shuffle(b, loaded, loaded, [8 * k + j for j in range(8) for k in range(4)])
                rows.append(b.bitcast(gathered, vector(_i32, 8)))
            for byte, column in enumerate(_transpose_8x8(b, rows)):
                lanes = b.bitcast(column, vector(_i8, 32))
                for bit in range(7, -1, -1):
                    mask = b.bitcast(b.icmp_signed("<", lanes, zero), _i32)
                    index = b.add(b.mul(step, ir.Constant(_i64, 8 * byte + bit)), ir.Constant(_i64, half))
                    b.store(mask, b.gep(halves, [index]))
                    if bit:
                        lanes = b.add(lanes, lanes)
        return context.get_dummy_value()

    return signature, generate


def _transpose_8x8(b: Any, rows: list[Any]) -> list[Any]:
    """Return the 8 columns of 8 vectors of 8 dwords."""
    pairs, quads = [], []
    for i in range(0, 8, 2):
        pairs.append(shuffle(b, rows[i], rows[i + 1], [0, 8, 1, 9, 4, 12, 5, 13]))
        pairs.append(shuffle(b, rows[i], rows[i + 1], [2, 10, 3, 11, 6, 14, 7, 15]))
    for i in (0, 4):
        for j in (0, 1):
            quads.append(shuffle(b, pairs[i + j], pairs[i + j + 2], [0, 1, 8, 9, 4, 5, 12, 13]))
            quads.append(shuffle(b, pairs[i + j], pairs[i + j + 2], [2, 3, 10, 11, 6, 7, 14, 15]))
    low = [shuffle(b, quads[i], quads[i + 4], [0, 1, 2, 3, 8, 9, 10, 11]) for i in range(4)]
    high = [shuffle(b, quads[i], quads[i + 4], [4, 5, 6, 7, 12, 13, 14, 15]) for i in range(4)]
    return low + high


@intrinsic
def copy_8(typing: Any, source: Any, start: Any, target: Any, at: Any) -> Any:
    """target[at : at + 8] = source[start : start + 8], for int32."""
    signature = types.void(source, types.int64, target, types.int64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        eight = vector(_i32, 8)
        loaded = b.load(pointer_to(b, data_of(context, b, sig.args[0], args[0]), args[1], eight), align=4)
        b.store(loaded, pointer_to(b, data_of(context, b, sig.args[2], args[2]), args[3], eight), align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _permute_8(typing: Any, source: Any, start: Any, lanes: Any, byte: Any, target: Any, at: Any) -> Any:
    """target[at + i] = source[start + lanes[8 * byte + i]] for i in 0..7, for int32."""
    signature = types.void(source, types.int64, lanes, types.int64, target, types.int64)

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        eight = vector(_i32, 8)
        source_data, lane_data = data_of(context, b, sig.args[0], args[0]), data_of(context, b, sig.args[2], args[2])
        loaded = b.load(pointer_to(b, source_data, args[1], eight), align=4)
        where = b.shl(args[3], ir.Constant(_i64, 3))
        mask = b.load(pointer_to(b, lane_data, where, eight), align=4)
        permute_type = ir.FunctionType(eight, [eight, eight])
        permute = cgutils.get_or_insert_function(b.module, permute_type, "llvm.x86.avx2.permd")
        target_pointer = pointer_to(b, data_of(context, b, sig.args[4], args[4]), args[5], eight)
        b.store(b.call(permute, [loaded, mask]), target_pointer, align=4)
        return context.get_dummy_value()

    return signature, generate


def _selected_lanes() -> Numbers:
    """Return for each byte the positions of its set bits, padded with 0 to 8."""
    lanes = np.zeros((256, 8), np.int32)
    for byte in range(256):
        positions = [bit for bit in range(8) if byte >> bit & 1]
        lanes[byte, : len(positions)] = positions
    return lanes.reshape(-1)


_LANES = _selected_lanes()


if config.DISABLE_JIT:

    def transpose(source: Words, start: int, target: Words, at: int, stride: int) -> None:
        """Write 64 words: bit r of target[at + e * stride] = bit e of source[start + r], for e, r in 0..63."""
        bits = np.unpackbits(source[start : start + 64].view(np.uint8), bitorder="little").reshape(64, 64)
        words = np.packbits(bits.T.copy(), axis=1, bitorder="little").view(np.uint64).reshape(-1)
        for e in range(64):
            target[at + e * stride] = words[e]

    def copy_8(source: Numbers, start: int, target: Numbers, at: int) -> None:
        """target[at : at + 8] = source[start : start + 8], for int32."""
        for z in range(8):
            target[at + z] = source[start + z]


@inlined
def append_selected_portable(word: np.uint64, numbers: Numbers, row: int, out: Numbers, p: int) -> int:
    """Append numbers[row + bit] for each bit set in the word; return the new end."""
    while word:
        out[np.uint64(p)] = numbers[np.uint64(row + count_zeros(word))]
        p += 1
        word &= word - ONE
    return p


@inlined
def append_few_unrolled(word: np.uint64, numbers: Numbers, row: int, out: Numbers, p: int) -> int:
    """As append_selected_portable, for a word with at most FEW bits set; writes up to FEW numbers beyond the end.

    How many bits are set cannot be predicted, so that FEW numbers are always copied: a mistaken branch costs more. Where
    the bits are at an end, that is the number after the last of the 64.
    """
    end, first, count = np.uint64(p), np.uint64(row), count_ones(word)
    for z in range(np.uint64(FEW)):
        out[end + z] = numbers[first + zeros_below(word)]
        word &= word - ONE
    return p + count


@inlined
def append_many_avx2(word: np.uint64, numbers: Numbers, row: int, out: Numbers, p: int) -> int:
    """As append_selected_portable, for a word with many bits set; writes up to 8 numbers beyond the end."""
    for z in range(8):
        byte = np.int64((word >> np.uint64(8 * z)) & np.uint64(255))
        _permute_8(numbers, row + 8 * z, _LANES, byte, out, p)
        p += count_ones(np.uint64(byte))
    return p


@inlined
def append_selected_avx2(word: np.uint64, numbers: Numbers, row: int, out: Numbers, p: int) -> int:
    """As append_selected_portable; writes up to 8 numbers beyond the end."""
    if word == ALL:
        for z in range(8):
            copy_8(numbers, row + 8 * z, out, p + 8 * z)
        return p + 64
    if count_ones(word) <= FEW:
        return append_few_unrolled(word, numbers, row, out, p)
    return append_many_avx2(word, numbers, row, out, p)


@helper
def spread_portable(bits: np.uint64, mask: np.uint64) -> np.uint64:
    """Return a word that has the lowest bits at the places that are set in the mask, in their order, and 0 elsewhere."""
    found = np.uint64(0)
    while mask:
        place = mask & (~mask + ONE)
        found |= place * (bits & ONE)
        bits >>= ONE
        mask ^= place
    return found


@intrinsic
def spread_at_once(typing: Any, bits: Any, mask: Any) -> Any:
    """As spread_portable, by one instruction."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_i64, [_i64, _i64])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.bmi.pdep.64"), args)

    return types.uint64(types.uint64, types.uint64), generate


COMPILED = not config.DISABLE_JIT
spread = spread_at_once if HAS_SPREAD and COMPILED else spread_portable
append_few = append_few_unrolled if COMPILED else append_selected_portable
append_many = append_many_avx2 if HAS_AVX2 and COMPILED else append_selected_portable
append_selected = append_selected_avx2 if HAS_AVX2 and COMPILED else append_selected_portable


# Vectors of bytes.


Bytes = npt.NDArray[np.uint8]

EVENTS_TRANSPOSED = 16


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


# Word masks.


WORDS_AT_ONCE = 8  # that the masks of eight words read; a bitmap's end is followed by as many that may be read

_i4 = ir.IntType(4)
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
