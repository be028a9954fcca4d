"""TextCoder: from texts where Arrow has them to codes, for one column's constants; no text becomes a Python object.

A constant is found by a hash of its bytes, compared exactly. What is no constant is coded by where it lies between them:
the order of UTF-8 bytes is that of code points, and so that of the texts.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, kernel, lean_kernel
from tocsin.index.raw_memory import byte_at, int32_at, word_at

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
MIXER = np.uint64(0x9E3779B97F4A7C15)


class TextCoder:
    """Codes texts by constants in ascending order."""

    def __init__(self, constants: Sequence[str]) -> None:
        encoded = [constant.encode() for constant in constants]
        self.data = np.frombuffer(b"".join(encoded) or b"\0", np.uint8).copy()
        self.offset = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=self.offset[1:])
        bits = max(4, (2 * len(encoded)).bit_length())
        self.table = fill_table(self.data.ctypes.data, self.offset, bits)

    def code_into(self, texts: pa.StringArray, codes: Codes) -> None:
        """Write the code of each text; of nulls, any."""
        _, offsets, data = texts.buffers()
        code_texts(
            offsets.address + 4 * texts.offset, 0 if data is None else data.address, self.data.ctypes.data,
            self.offset, self.table, codes,
        )  # fmt: skip


@helper
def hash_of(start: int, length: int) -> np.uint64:
    """Return a hash of the bytes at an address."""
    h, at, end = np.uint64(length) * MIXER, start, start + length
    while at + 8 <= end:
        h = (h ^ word_at(at)) * MIXER
        h ^= h >> np.uint64(32)
        at += 8
    tail = np.uint64(0)
    while at < end:
        tail = (tail << np.uint64(8)) | np.uint64(byte_at(at))
        at += 1
    h = (h ^ tail) * MIXER
    h ^= h >> np.uint64(29)
    return h * MIXER


@helper
def compare(a: int, a_length: int, b: int, b_length: int) -> int:
    """Return -1, 0 or 1, as the bytes at address a come before those at b, are the same, or come after."""
    for i in range(min(a_length, b_length)):
        x, y = byte_at(a + i), byte_at(b + i)
        if x != y:
            return -1 if x < y else 1
    return 0 if a_length == b_length else -1 if a_length < b_length else 1


@kernel
def fill_table(data: int, offset: Int64s, bits: int) -> Codes:
    """Return an open-addressing table: the position of a constant, or -1; its slots are a power of two."""
    mask = (1 << bits) - 1
    table = np.full(1 << bits, -1, np.int32)
    for c in range(len(offset) - 1):
        slot = np.int64(hash_of(data + offset[c], offset[c + 1] - offset[c]) >> np.uint64(64 - bits))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = c
    return table


@lean_kernel
def code_texts(offsets: int, texts: int, data: int, offset: Int64s, table: Codes, codes: Codes) -> None:
    """codes[i] = 2 * constants below text i, and one more where the text is a constant.

    Text i are the bytes offsets[i] .. offsets[i + 1] of those at `texts`; constant c the bytes offset[c] .. of `data`.
    """
    mask, bits, constants = len(table) - 1, 0, len(offset) - 1
    while (1 << bits) < len(table):
        bits += 1
    for i in range(np.uint64(len(codes))):
        start = np.int64(int32_at(offsets, i))
        length, text = np.int64(int32_at(offsets, i + np.uint64(1))) - start, texts + start
        slot = np.int64(hash_of(text, length) >> np.uint64(64 - bits))
        found = np.int64(table[slot])
        while found >= 0:
            if offset[found + 1] - offset[found] == length and compare(text, length, data + offset[found], length) == 0:
                break
            slot = (slot + 1) & mask
            found = np.int64(table[slot])
        if found >= 0:
            codes[i] = 2 * found + 1
            continue
        low, high = 0, constants
        while low < high:
            middle = (low + high) >> 1
            if compare(data + offset[middle], offset[middle + 1] - offset[middle], text, length) < 0:
                low = middle + 1
            else:
                high = middle
        codes[i] = 2 * low
