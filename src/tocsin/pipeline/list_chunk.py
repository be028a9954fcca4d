"""ListChunk: the lists of one row group of a Parquet file, as a dictionary of ids and numbers that point into it.

This is a plain LIST column, which every reader knows. Arrow's encoder makes such columns element by element; here lists
are runs of levels and packed numbers (list_chunk.py), as the engine finds them. Used by match_file.py.

Parquet's headers are Thrift's compact protocol, as far as that goes: structs, lists, numbers, bytes. A struct is a dict
from a field's number to its kind and value; a list's value is the kind of its elements, and these. Whatever is read is
written again as it was, also fields that this program knows nothing of.

Kernels that write Parquet's lists of numbers: levels as runs, numbers packed into few bits.

Parquet tells where lists begin by a repetition level for each number: 0 for the first of a list, 1 for the others. A
list of any length is two runs of that. Definition levels tell empty lists (1) from numbers (2), and are mostly one run.
Numbers that point into a dictionary are packed eight at a time. Used by list_chunk.py.
"""

from __future__ import annotations

import os
import struct
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.errors import NotSupported
from tocsin.index.jit import helper, kernel, lean_kernel
from tocsin.index.raw_memory import int32_at, pack_8
from tocsin.pipeline.match_lists import Longs, MatchLists

if TYPE_CHECKING:
    import pyarrow as pa

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"


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


# --- Chunks -----------------------------------------------------------------------------------------------------------


class Kind(IntEnum):
    """What a field or an element is; a truth value is its own kind."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12


Struct = dict[int, tuple[Kind, Any]]
_WHOLE = (Kind.I16, Kind.I32, Kind.I64)


def i32(number: int) -> tuple[Kind, int]:
    return Kind.I32, number


def i64(number: int) -> tuple[Kind, int]:
    return Kind.I64, number


def binary(content: bytes) -> tuple[Kind, bytes]:
    return Kind.BINARY, content


def structure(fields: Struct) -> tuple[Kind, Struct]:
    return Kind.STRUCT, fields


def list_of(kind: Kind, elements: list[Any]) -> tuple[Kind, tuple[Kind, list[Any]]]:
    return Kind.LIST, (kind, elements)


def dump_struct(fields: Struct) -> bytes:
    """Return a struct as bytes."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


def load_struct(content: bytes) -> Struct:
    """Return the struct that the bytes begin with."""
    return _Reader(content).struct()


# --- writing ----------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """Return a number that is not negative in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(number: int) -> bytes:
    return varint(2 * number if number >= 0 else -2 * number - 1)


def _put_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field in sorted(fields):
        kind, value = fields[field]
        if field - last <= 15:
            out.append((field - last) << 4 | kind)
        else:
            out.append(kind)
            out += _zigzag(field)
        if kind not in (Kind.TRUE, Kind.FALSE):
            _put(out, kind, value)
        last = field
    out.append(0)


def _put(out: bytearray, kind: Kind, value: Any) -> None:
    if kind in _WHOLE:
        out += _zigzag(value)
    elif kind in (Kind.BYTE, Kind.TRUE, Kind.FALSE):
        out.append(value & 0xFF)
    elif kind == Kind.DOUBLE:
        out += struct.pack("<d", value)
    elif kind == Kind.BINARY:
        out += varint(len(value))
        out += value
    elif kind == Kind.STRUCT:
        _put_struct(out, value)
    elif kind in (Kind.LIST, Kind.SET):
        of, elements = value
        out += bytes([len(elements) << 4 | of]) if len(elements) < 15 else bytes([0xF0 | of]) + varint(len(elements))
        for element in elements:
            _put(out, of, element)
    else:
        raise NotSupported(f"a Thrift value of kind {kind.name}, which Parquet does not use")


# --- reading ----------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self) -> Struct:
        fields: Struct = {}
        last = 0
        while head := self._byte():
            kind = Kind(head & 0xF)
            last = last + (head >> 4) if head >> 4 else self._zigzag()
            fields[last] = (kind, kind == Kind.TRUE if kind in (Kind.TRUE, Kind.FALSE) else self._value(kind))
        return fields

    def _value(self, kind: Kind) -> Any:
        if kind in _WHOLE:
            return self._zigzag()
        if kind in (Kind.BYTE, Kind.TRUE, Kind.FALSE):
            return self._byte()
        if kind == Kind.DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == Kind.BINARY:
            return self._bytes(self._varint())
        if kind == Kind.STRUCT:
            return self.struct()
        if kind in (Kind.LIST, Kind.SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            of = Kind(head & 0xF)
            return of, [self._value(of) for _ in range(count)]
        raise NotSupported(f"a Thrift value of kind {kind.name}, which Parquet does not use")

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._content[self._at - count : self._at]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _zigzag(self) -> int:
        number = self._varint()
        return number >> 1 if not number & 1 else -(number >> 1) - 1


PAGE_BYTES = 2 << 20  # from which on a page of numbers is written
PAGE_LISTS = 1 << 16  # at most, in a page
PAGE_NUMBERS = 1 << 18  # packed at once, or one list

# Parquet's words.
INT64, BYTE_ARRAY = 2, 6
DATA_PAGE, DICTIONARY_PAGE = 0, 2
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
UNCOMPRESSED = 0


class BlockFile:
    """A file that is written in large blocks, without buffers between, so that bytes are copied once."""

    def __init__(self, place: Path) -> None:
        self._file = place.open("wb", buffering=0)
        self.position = 0

    def write(self, *blocks: Any) -> int:
        """Write the blocks one behind the other; return how many bytes that were."""
        waiting = [memoryview(block).cast("B") for block in blocks if len(block)]
        size = sum(len(block) for block in waiting)
        while waiting:
            written = os.writev(self._file.fileno(), waiting)
            while waiting and written >= len(waiting[0]):
                written -= len(waiting.pop(0))
            if waiting:
                waiting[0] = waiting[0][written:]
        self.position += size
        return size

    def close(self) -> None:
        self._file.close()


class IdDictionary:
    """Ids, by the numbers that stand for them in lists."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids

    @classmethod
    def of(cls, ids: npt.NDArray[Any]) -> IdDictionary:
        """Return the dictionary of whole numbers, or of texts as objects."""
        import pyarrow as pa

        return cls(pa.array(ids, pa.string() if ids.dtype == object else pa.int64()))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def physical_type(self) -> int:
        import pyarrow as pa

        return INT64 if pa.types.is_int64(self.ids.type) else BYTE_ARRAY

    @cached_property
    def width(self) -> int:
        """The bits of a number, a multiple of four: two numbers are whole bytes."""
        return max(4, -(-max(0, len(self) - 1).bit_length() // 4) * 4)

    @cached_property
    def plain(self) -> npt.NDArray[np.uint8]:
        """The ids in Parquet's plain encoding; kept, since every row group begins with it."""
        if self.physical_type == INT64:
            return np.ascontiguousarray(self.ids.to_numpy(), "<i8").view(np.uint8)
        _, offsets, data = self.ids.buffers()
        offset = np.frombuffer(offsets, np.int32)[self.ids.offset : self.ids.offset + len(self) + 1]
        out = np.empty(int(offset[-1] - offset[0]) + 4 * len(self), np.uint8)
        put_texts(offset, np.frombuffer(data or b"", np.uint8), out)
        return out

    def used_in(self, numbers: npt.NDArray[np.int32]) -> tuple[IdDictionary, npt.NDArray[np.int32]]:
        """Return a dictionary of only what the numbers name, and the numbers in it."""
        import pyarrow as pa

        used = np.zeros(len(self), np.bool_)
        used[numbers] = True
        place = (np.cumsum(used) - 1).astype(np.int32)
        return IdDictionary(self.ids.take(pa.array(np.flatnonzero(used)))), place[numbers]


class PageBuffers:
    """The memory in which pages are made, used again and again: fresh memory is slow."""

    def __init__(self) -> None:
        self.repetition = np.empty(0, np.uint8)
        self.definition = np.empty(0, np.uint8)
        self._set_numbers(np.empty(PAGE_BYTES + 4 * PAGE_NUMBERS + SPARE_BYTES, np.uint8))

    def make_room(self, used: int, more: int) -> None:
        """Make sure that the levels of a page fit, and more bytes of numbers."""
        if len(self.repetition) < LEVEL_BYTES * (PAGE_LISTS + 1):
            self.repetition, self.definition = (np.empty(LEVEL_BYTES * (PAGE_LISTS + 1), np.uint8) for _ in range(2))
        if used + more > len(self.numbers):
            larger = np.empty(used + more, np.uint8)
            larger[:used] = self.numbers[:used]
            self._set_numbers(larger)

    def _set_numbers(self, numbers: npt.NDArray[np.uint8]) -> None:
        self.numbers, self.address = numbers, numbers.ctypes.data


class ListChunk:
    """Writes the lists of a row group.

    A group with fewer numbers than the dictionary has ids gets a dictionary of its own; so numbers wait until there are
    more, or as many lists are coming as should have more; only then they go to the file, page by page.
    """

    def __init__(self, file: BlockFile, buffers: PageBuffers, dictionary: IdDictionary) -> None:
        self._file, self._buffers, self.dictionary = file, buffers, dictionary
        self.bytes = 0
        self.numbers = 0
        self._start = file.position
        self._dictionary_bytes = 0
        self._values = 0
        self._waiting: list[MatchLists] | None = []
        self._state = np.zeros(STATE, np.int64)

    def add(self, lists: MatchLists, coming: int = 0) -> None:
        """Add lists of numbers; copies what it keeps. `coming` tells how many lists there will be at least after them."""
        self.numbers += len(lists.codes)
        if self._waiting is not None and self.numbers + coming * len(lists.codes) // len(lists) > len(self.dictionary):
            self._begin()
        if self._waiting is None:
            self._encode(lists)
        else:
            self._waiting.append(MatchLists(lists.offset.copy(), lists.codes.astype(np.int32)))

    def _begin(self) -> None:
        """Write the dictionary, and what has waited for it."""
        assert self._waiting is not None
        header = {
            1: i32(DICTIONARY_PAGE),
            7: structure({1: i32(len(self.dictionary)), 2: i32(PLAIN)}),
        }
        self._dictionary_bytes = self._write_page(header, self.dictionary.plain)
        waiting, self._waiting = self._waiting, None
        for lists in waiting:
            self._encode(lists)

    def finish(self) -> Struct:
        """Write what is left; return the ColumnMetaData, but for the path in the schema."""
        if self._waiting is not None:
            self._begin_small()
        self._write_data_page()
        self.bytes = self._file.position - self._start
        return {
            1: i32(self.dictionary.physical_type),
            2: list_of(Kind.I32, [PLAIN, RLE, RLE_DICTIONARY]),
            4: i32(UNCOMPRESSED),
            5: i64(self._values),
            6: i64(self.bytes),
            7: i64(self.bytes),
            9: i64(self._start + self._dictionary_bytes),
            11: i64(self._start),
        }

    def _begin_small(self) -> None:
        assert self._waiting is not None
        numbers = np.concatenate([np.empty(0, np.int32), *(lists.codes for lists in self._waiting)])
        self.dictionary, numbers = self.dictionary.used_in(numbers)
        ends = np.cumsum([len(lists.codes) for lists in self._waiting])
        parts = np.split(numbers, ends[:-1]) if len(ends) else []
        self._waiting = [MatchLists(lists.offset, part) for lists, part in zip(self._waiting, parts, strict=True)]
        self._begin()

    # --- pages --------------------------------------------------------------------------------------------------------

    def _encode(self, lists: MatchLists) -> None:
        """Put lists into pages, which begin with a list."""
        start, size = 0, len(lists)
        while start < size:
            if self._state[LISTS] >= PAGE_LISTS or self._state[NUMBERS_END] >= PAGE_BYTES:
                self._write_data_page()
            stop = size
            if len(lists.codes) > PAGE_NUMBERS or size + self._state[LISTS] > PAGE_LISTS:
                stop = int(np.searchsorted(lists.offset, lists.offset[start] + PAGE_NUMBERS, side="right")) - 1
                stop = int(min(size, max(start + 1, stop), start + PAGE_LISTS - self._state[LISTS]))
            self._put(lists.offset[start : stop + 1], lists.codes[lists.offset[start] : lists.offset[stop]])
            start = stop

    def _put(self, offset: Longs, numbers: npt.NDArray[Any]) -> None:
        buffers, width, state = self._buffers, self.dictionary.width, self._state
        buffers.make_room(int(state[NUMBERS_END]), len(numbers) * width // 8 + SPARE_BYTES)
        own = np.ascontiguousarray(numbers, np.int32)
        put_lists(
            offset, own.ctypes.data, width, state, buffers.repetition, buffers.definition, buffers.numbers,
            buffers.address,
        )  # fmt: skip

    def _write_data_page(self) -> None:
        buffers, state = self._buffers, self._state
        if not state[LISTS]:
            return
        end_levels(state, buffers.repetition, buffers.definition)
        repetition = buffers.repetition[: state[REPETITION_END]]
        definition = buffers.definition[: state[DEFINITION_END]]
        values = int(state[VALUES])
        page = {1: i32(values), 2: i32(RLE_DICTIONARY), 3: i32(RLE), 4: i32(RLE)}
        self._write_page(
            {1: i32(DATA_PAGE), 5: structure(page)},
            len(repetition).to_bytes(4, "little"), repetition,
            len(definition).to_bytes(4, "little"), definition,
            bytes([self.dictionary.width]), buffers.numbers[: state[NUMBERS_END]],
        )  # fmt: skip
        self._values += values
        state[:] = 0

    def _write_page(self, header: Struct, *blocks: Any) -> int:
        """Write a page; return how many bytes it takes, with its header."""
        size = sum(len(block) for block in blocks)
        self.bytes += size
        return self._file.write(dump_struct({**header, 2: i32(size), 3: i32(size)}), *blocks)
