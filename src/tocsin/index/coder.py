"""Coder: from the keys of a column to codes, for one segment's constants (the code space of compile/table.py).

Numbers are coded by thresholds of their own type: for integers the least integer not below each constant, for floats
the least float not below it, with a mark where it is the constant itself. So an int64 column against float constants,
and a float column against integers beyond 2^53 or decimals, are exact without leaving their type. A look-up table
takes the place of the search where integer constants lie close together.

TextCoder: from texts where Arrow has them to codes, for one column's constants; no text becomes a Python object.

A constant is found by a hash of its bytes, compared exactly. What is no constant is coded by where it lies between them:
the order of UTF-8 bytes is that of code points, and so that of the texts.

IdPlaces: from the id of a subscription to its number in a segment. Made when it is first needed, by index/subscription_index.py.

Whole numbers are found among the sorted ones; texts by a hash of their bytes, compared exactly, none of them decoded.
An id may stand in a segment twice, once buried for later events and once alive again: the last one counts.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import Ids, Int64s, TextIds
from tocsin.compile.table import Column
from tocsin.index.jit import helper, kernel, lean_kernel
from tocsin.index.key_column import KeyColumn, keys_of
from tocsin.index.layout import ABSENT_CODE
from tocsin.index.patterns import PatternCoder
from tocsin.index.raw_memory import byte_at, int32_at, word_at
from tocsin.schema import TextDomain, Value
from tocsin.schema.domain import is_unicode

if TYPE_CHECKING:
    import pyarrow as pa


Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
MIXER = np.uint64(0x9E3779B97F4A7C15)


class TextCoder:
    """Codes texts by constants in ascending order."""

    def __init__(self, constants: Sequence[str]) -> None:
        self.constants = constants
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


# Coder.


_LEAST, _GREATEST = -(2**63), 2**63 - 1
_EXACT = 2**53
REMEMBERED = 100_000  # keys whose code is kept from batch to batch
LARGEST_TABLE = 1 << 21


class Coder:
    """Codes keys by the constants of one column."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.constants = column.constants
        self._known: dict[Any, int] = {}
        self.of_value: dict[Value, int] = {}  # codes of values met singly

    def code(self, keys: KeyColumn) -> Codes:
        """Return a code for each of the column's values."""
        if keys.keys is not None:
            known = self._known
            found = [known[key] if key in known else self._remember(key) for key in keys.keys]
            return np.array(found or [0], np.int32).take(keys.values)
        if keys.values.dtype.kind == "f":
            return code_floats(keys.values, *(self._decimal_floats if keys.as_written else self._floats))
        if not len(self.table):
            return code_integers(keys.values, *self._integers)
        codes = np.empty(len(keys.values), np.int32)
        code_by_table(keys.values, self.table_start, self.table, codes)
        return codes

    def code_into(self, keys: KeyColumn, codes: Codes) -> None:
        """Write the codes of a column that has at most one value for each event."""
        if keys.keys is None and keys.values.dtype == np.int64 and len(self.table):
            code_by_table(keys.values, self.table_start, self.table, codes)
        else:
            codes[:] = self.code(keys)
        if keys.present is not None:
            codes[~keys.present] = ABSENT_CODE

    @cached_property
    def texts(self) -> TextCoder | None:
        """What codes texts without a detour; None where their keys are not the texts themselves."""
        column, domain = self.column, self.column.domain
        if column.derivation != "value" or not isinstance(domain, TextDomain):
            return None
        if domain.case != "sensitive" or domain.max_length is not None or not all(map(is_unicode, self._listed)):
            return None
        return TextCoder(self._listed)

    @cached_property
    def words(self) -> TextCoder | None:
        """What codes words; None where the column is of something else."""
        if self.column.derivation != "words" or not all(map(is_unicode, self._listed)):
            return None
        return TextCoder(self._listed)

    @cached_property
    def patterns(self) -> PatternCoder | None:
        """What finds patterns; None where the column is of something else."""
        return PatternCoder(self._listed) if self.column.derivation == "patterns" else None

    def _remember(self, key: Any) -> int:
        """Return the code of a key, kept for the next batch: values come again."""
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        code = self._known[key] = self.code_of(key)
        return code

    def remember_value(self, value: Value) -> int:
        """Return the code of a canonical value of a single-valued column, kept in of_value: values come again."""
        if len(self.of_value) >= REMEMBERED:
            self.of_value.clear()
        column = self.column
        code = self.of_value[value] = self.code_of(keys_of(column.domain, column.derivation, value)[0])
        return code

    def code_of(self, key: Any) -> int:
        """Return the code of one key."""
        if self.column.derivation == "words":
            return self._words.get(key, 0)
        constants = self._listed
        place = bisect_left(constants, key)
        return 2 * place + 1 if place < len(constants) and constants[place] == key else 2 * place

    @cached_property
    def _listed(self) -> list[Any]:
        return list(self.constants.tolist())

    @cached_property
    def _words(self) -> dict[str, int]:
        # Words are asked for by equality alone: all that are not constants may share code 0, which encode.py drops.
        return {word: 2 * place + 1 for place, word in enumerate(self._listed)}

    # --- thresholds ---------------------------------------------------------------------------------------------------

    @cached_property
    def _integers(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The least integer not below each constant, ascending, and whether it is the constant."""
        if self.constants.dtype.kind == "i":
            return np.ascontiguousarray(self.constants), np.ones(len(self.constants), np.bool_)
        ceilings = [math.ceil(constant) for constant in self._listed]
        within = [max(ceiling, _LEAST) for ceiling in ceilings if ceiling <= _GREATEST]  # no int64 reaches the others
        exact = [ceiling == constant for ceiling, constant in zip(within, self._listed, strict=False)]
        return np.array(within, np.int64), np.array(exact, np.bool_)

    @cached_property
    def table(self) -> Codes:
        """The code of each integer from one below the least constant to one above the greatest; empty if too many."""
        ceilings, exact = self._integers
        if not len(ceilings) or int(ceilings[-1]) - int(ceilings[0]) + 3 > min(
            LARGEST_TABLE, 64 * len(ceilings) + 1024
        ):
            return np.zeros(0, np.int32)
        if int(ceilings[0]) == _LEAST or int(ceilings[-1]) == _GREATEST:
            return np.zeros(0, np.int32)
        span = np.arange(self.table_start, int(ceilings[-1]) + 2, dtype=np.int64)
        return code_integers(span, ceilings, exact)

    @cached_property
    def successive(self) -> bool:
        """Whether the constants are successive integers: then the code of table[i] is 2 * i - 1, but at the ends."""
        last = len(self.table) - 1
        return bool(np.array_equal(self.table, np.clip(2 * np.arange(last + 1) - 1, 0, 2 * last - 2)))

    @cached_property
    def table_start(self) -> int:
        """The integer of the table's first code."""
        return int(self._integers[0][0]) - 1

    @cached_property
    def _floats(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The least float not below each constant, and whether it is the constant."""
        constants = self.constants
        if constants.dtype.kind == "f" or _all_small(constants):
            return constants.astype(np.float64), np.ones(len(constants), np.bool_)
        return _thresholds(self._listed, lambda number: number)

    @cached_property
    def _decimal_floats(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The same for floats that stand for the decimals they are written as."""
        return _thresholds(self._listed, lambda number: Decimal(repr(number)))


def _all_small(constants: npt.NDArray[Any]) -> bool:
    return constants.dtype.kind == "i" and bool(((constants >= -_EXACT) & (constants <= _EXACT)).all())


def _thresholds(constants: Sequence[Any], meaning: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    found, exact = [], []
    for constant in constants:
        number = _nearest_float(constant)
        if math.isfinite(number) and meaning(number) < constant:
            number = math.nextafter(number, math.inf)
        found.append(number)
        exact.append(math.isfinite(number) and meaning(number) == constant)
    return np.array(found, np.float64), np.array(exact, np.bool_)


def _nearest_float(constant: Any) -> float:
    """Return the float nearest to a number; beyond all floats, the infinity above it or the least float."""
    try:
        return float(constant)
    except OverflowError:
        return math.inf if constant > 0 else -math.inf


# --- kernels ----------------------------------------------------------------------------------------------------------


@lean_kernel
def code_by_table(values: npt.NDArray[np.int64], least: int, table: Codes, codes: Codes) -> None:
    """codes[i] = table[values[i] - least], values beyond the table's ends taken as its ends."""
    greatest = np.int64(least + len(table) - 1)
    for i in range(np.uint64(len(values))):
        value = min(max(values[i], least), greatest)
        codes[i] = table[np.uint64(value - least)]  # unsigned: a signed one would be tested for being negative


@kernel
def code_integers(
    values: npt.NDArray[np.int64], thresholds: npt.NDArray[np.int64], exact: npt.NDArray[np.bool_]
) -> Codes:
    """codes[i] = 2 * (thresholds <= values[i]).sum(), less one where the last of these is the value itself."""
    codes = np.empty(len(values), np.int32)
    for i in range(len(values)):
        below = np.searchsorted(thresholds, values[i], side="right")
        equal = below > 0 and exact[below - 1] and thresholds[below - 1] == values[i]
        codes[i] = 2 * below - (1 if equal else 0)
    return codes


@kernel
def code_floats(
    values: npt.NDArray[np.float64], thresholds: npt.NDArray[np.float64], exact: npt.NDArray[np.bool_]
) -> Codes:
    """As code_integers, for floats."""
    codes = np.empty(len(values), np.int32)
    for i in range(len(values)):
        below = np.searchsorted(thresholds, values[i], side="right")
        equal = below > 0 and exact[below - 1] and thresholds[below - 1] == values[i]
        codes[i] = 2 * below - (1 if equal else 0)
    return codes


# IdPlaces.


class IdPlaces:
    """The numbers of ids."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        if isinstance(ids, TextIds):
            self._data = ids.data if len(ids.data) else np.zeros(1, np.uint8)
            self._table = fill_table(self._data.ctypes.data, ids.offset, max(4, (2 * len(ids)).bit_length()))
        elif (np.diff(ids) > 0).all():
            self._order, self._ascending = np.arange(len(ids)), ids
        else:
            self._order = np.argsort(ids, kind="stable")
            self._ascending = ids[self._order]

    def of(self, id: object) -> int | None:
        """Return the number of an id; None where it is not here."""
        if isinstance(self._ids, TextIds):
            if type(id) is not str and type(id) is not int:
                return None
            found = int(self._of_texts(TextIds.of([id]))[0])
        elif type(id) is not int or not -(2**63) <= id < 2**63:
            return None
        else:
            found = int(self._of_numbers(np.array([id], np.int64))[0])
        return None if found < 0 else found

    def of_all(self, ids: Ids) -> Int64s:
        """Return the number of each id; -1 where it is not here."""
        if isinstance(self._ids, TextIds):
            return self._of_texts(ids if isinstance(ids, TextIds) else TextIds.of(ids.tolist()))
        if not isinstance(ids, TextIds):
            return self._of_numbers(ids)
        if not ids.has_numbers:
            return np.full(len(ids), -1, np.int64)
        found = [self.of(id) for id in ids.tolist()]
        return np.array([-1 if number is None else number for number in found], np.int64)

    def _of_numbers(self, wanted: Int64s) -> Int64s:
        at = np.searchsorted(self._ascending, wanted, side="right") - 1
        found = at >= 0
        found[found] = self._ascending[at[found]] == wanted[found]
        numbers = np.full(len(wanted), -1, np.int64)
        numbers[found] = self._order[at[found]]
        return numbers

    def _of_texts(self, wanted: TextIds) -> Int64s:
        assert isinstance(self._ids, TextIds)
        data = wanted.data if len(wanted.data) else np.zeros(1, np.uint8)
        return places_of_texts(
            data.ctypes.data, wanted.offset, self._data.ctypes.data, self._ids.offset, self._table
        )  # fmt: skip


def first_repeated(ids: Ids) -> int | None:
    """Return the number of an id that stands there again later; None where all differ."""
    repeated = np.flatnonzero(IdPlaces(ids).of_all(ids) != np.arange(len(ids)))
    return int(repeated[0]) if len(repeated) else None


@kernel
def places_of_texts(
    wanted: int, wanted_offset: Int64s, data: int, offset: Int64s, table: npt.NDArray[np.int32]
) -> Int64s:
    """Return the greatest number of each wanted text among the others, -1 where it is not there.

    `wanted` and `data` are addresses of bytes; the table is one of fill_table (index/coder.py).
    """
    mask, bits = len(table) - 1, 0
    while (1 << bits) < len(table):
        bits += 1
    found = np.full(len(wanted_offset) - 1, -1, np.int64)
    for i in range(len(found)):
        text, length = wanted + wanted_offset[i], wanted_offset[i + 1] - wanted_offset[i]
        slot = np.int64(hash_of(text, length) >> np.uint64(64 - bits))
        while table[slot] >= 0:
            c = np.int64(table[slot])
            if offset[c + 1] - offset[c] == length and compare(text, length, data + offset[c], length) == 0:
                found[i] = max(found[i], c)
            slot = (slot + 1) & mask
    return found
