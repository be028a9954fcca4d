"""Raw memory: kernels that read columns of numbers where Arrow has them, by address, and write numbers in few bits.

Thirty columns as thirty arrays would be thirty calls of a kernel; their addresses are one array and one call.

Words of 64 bits: which bits are set, and how many. For the kernels that go through bitmaps.

Where Numba is told to compile nothing (NUMBA_DISABLE_JIT=1), plain Python takes the place of the intrinsics.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# ruff: noqa: ARG001 - intrinsics declare the arguments of what they generate
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc, no-redef"

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from tocsin.index.jit import inlined, kernel, lean_kernel

if TYPE_CHECKING:
    import pyarrow as pa


Int64s = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
_i64 = ir.IntType(64)


@intrinsic
def int64_at(typing: Any, address: Any, index: Any) -> Any:
    """Return the index-th int64 from an address on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(start, [args[1]]), align=8)

    return types.int64(types.int64, types.uint64), generate


@intrinsic
def word_at(typing: Any, address: Any) -> Any:
    """Return the 8 bytes from an address on, which need not be a multiple of 8, as one number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)

    return types.uint64(types.int64), generate


@intrinsic
def pack_8(typing: Any, source: Any, width: Any, target: Any) -> Any:
    """Write the 8 int32 from source on in `width` bits each, a multiple of four, from target on; and up to 7 bytes more.

    Two numbers fill whole bytes. All four pairs are put together at once; each is then stored as eight bytes, of which
    the next pair overwrites what is too much.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start, bits, out = args
        four = ir.VectorType(_i64, 4)
        words = builder.load(builder.inttoptr(start, four.as_pointer()), align=4)
        shift = _splat(builder, bits)
        low = builder.and_(words, _splat(builder, ir.Constant(_i64, 0xFFFFFFFF)))
        high = builder.lshr(words, _splat(builder, ir.Constant(_i64, 32)))
        pairs = builder.or_(low, builder.shl(high, shift))
        step = builder.lshr(bits, ir.Constant(_i64, 2))
        for lane in range(4):
            pair = builder.extract_element(pairs, ir.Constant(ir.IntType(32), lane))
            builder.store(pair, builder.inttoptr(out, _i64.as_pointer()), align=1)
            out = builder.add(out, step)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _splat(builder: Any, value: Any) -> Any:
    """Return a vector of four times the value."""
    four = ir.VectorType(_i64, 4)
    one = builder.insert_element(ir.Constant(four, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), 4), [ir.Constant(ir.IntType(32), 0)] * 4)
    return builder.shuffle_vector(one, one, lanes)


@intrinsic
def int32_at(typing: Any, address: Any, index: Any) -> Any:
    """Return the index-th int32 from an address on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        return builder.load(builder.gep(start, [args[1]]), align=4)

    return types.int32(types.int64, types.uint64), generate


@intrinsic
def byte_at(typing: Any, address: Any) -> Any:
    """Return the byte at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))

    return types.uint8(types.int64), generate


@intrinsic
def array_at(typing: Any, address: Any, shape: Any, kind: Any) -> Any:
    """Return the array of that shape and kind of numbers at an address, which others keep: no reference is counted.

    Numba's own carray is compiled as a function that returns an array, which kernels that count no references refuse.
    """
    array = types.Array(kind.dtype, shape.count, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = make_array(array)(context, builder)
        lengths = cgutils.unpack_tuple(builder, args[1])
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        strides = [size]
        for length in reversed(lengths[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        data = builder.inttoptr(args[0], made.data.type)
        populate_array(made, data, lengths, strides, size, None)
        return made._getvalue()

    return array(types.int64, types.UniTuple(types.intp, shape.count), kind), generate


EVENTS_AT_ONCE = 1_024  # whose codes stay in the cache while all columns are coded

if config.DISABLE_JIT:

    def int64_at(address: int, index: int) -> int:
        """Return the index-th int64 from an address on."""
        return ctypes.c_int64.from_address(int(address) + 8 * int(index)).value

    def word_at(address: int) -> np.uint64:
        """Return the 8 bytes from an address on as one number."""
        return np.uint64(ctypes.c_uint64.from_address(int(address)).value)

    def pack_8(source: int, width: int, target: int) -> None:
        """Write 8 int32 in `width` bits each."""
        for pair in range(4):
            low, high = (int(int32_at(source, 2 * pair + z)) for z in range(2))
            ctypes.c_uint64.from_address(int(target) + pair * int(width) // 4).value = low | high << int(width)

    def int32_at(address: int, index: int) -> int:
        """Return the index-th int32 from an address on."""
        return ctypes.c_int32.from_address(int(address) + 4 * int(index)).value

    def byte_at(address: int) -> np.uint8:
        """Return the byte at an address."""
        return np.uint8(ctypes.c_uint8.from_address(int(address)).value)

    def array_at(address: int, shape: tuple[int, ...], kind: type[np.generic]) -> npt.NDArray[Any]:
        """Return the array of that shape and kind of numbers at an address."""
        count = int(np.prod(shape)) * np.dtype(kind).itemsize
        memory = (ctypes.c_char * count).from_address(int(address))
        return np.frombuffer(memory, kind).reshape(shape) if count else np.zeros(shape, kind)


# Arrays of a directory: places[2 * k] is the address of array k, places[2 * k + 1] how many numbers it has.


@inlined
def uint8s_at(places: Int64s, k: int) -> npt.NDArray[np.uint8]:
    """Return array k of a directory."""
    return array_at(places[2 * k], (places[2 * k + 1],), np.uint8)


@inlined
def int32s_at(places: Int64s, k: int) -> npt.NDArray[np.int32]:
    """Return array k of a directory."""
    return array_at(places[2 * k], (places[2 * k + 1],), np.int32)


@inlined
def int64s_at(places: Int64s, k: int) -> npt.NDArray[np.int64]:
    """Return array k of a directory."""
    return array_at(places[2 * k], (places[2 * k + 1],), np.int64)


@inlined
def uint64s_at(places: Int64s, k: int) -> npt.NDArray[np.uint64]:
    """Return array k of a directory."""
    return array_at(places[2 * k], (places[2 * k + 1],), np.uint64)


@inlined
def int32_rows_at(places: Int64s, k: int, columns: int) -> npt.NDArray[np.int32]:
    """Return array k of a directory in rows of so many numbers."""
    return array_at(places[2 * k], (places[2 * k + 1] // columns, columns), np.int32)


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


# Fields of an ArrowArray, in the C data interface of Arrow; each takes 8 bytes.
NULL_COUNT, OFFSET, BUFFERS, CHILDREN = 1, 2, 5, 6


@lean_kernel
def int64_columns(array: int, positions: Int64s, addresses: Int64s) -> None:
    """addresses[i] = where the numbers of child positions[i] of an ArrowArray lie; 0 where it has nulls, or is none."""
    children = int64_at(array, np.uint64(CHILDREN))
    for i in range(len(positions)):
        addresses[i] = 0
        if positions[i] < 0:
            continue
        child = int64_at(children, np.uint64(positions[i]))
        buffers = int64_at(child, np.uint64(BUFFERS))
        if int64_at(child, np.uint64(NULL_COUNT)) == 0 or int64_at(buffers, np.uint64(0)) == 0:
            addresses[i] = int64_at(buffers, np.uint64(1)) + 8 * int64_at(child, np.uint64(OFFSET))


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def addresses_of(batch: pa.RecordBatch, positions: Int64s) -> Int64s:
    """Return where the numbers of these columns of int64 lie; 0 where a column has nulls, or the position is negative."""
    _, array = batch.__arrow_c_array__()  # all columns in one call: asking each for its buffers takes a microsecond
    addresses = np.empty(len(positions), np.int64)
    int64_columns(_pointer_of(array, b"arrow_array"), positions, addresses)
    return addresses


# Words of 64 bits.


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


@kernel
def ascii_texts(offsets: int, texts: int, count: int) -> npt.NDArray[np.bool_]:
    """Return which texts have bytes below 128 only; text i are the bytes offsets[i] .. of those at `texts`."""
    plain = np.ones(count, np.bool_)
    for i in range(np.uint64(count)):
        found = np.uint8(0)
        for at in range(texts + int32_at(offsets, i), texts + int32_at(offsets, i + np.uint64(1))):
            found |= byte_at(at)
        plain[i] = found < 128
    return plain
