"""Coder: from the keys of a column to codes, for one segment's constants (the code space of compile/table.py).

Numbers are coded by thresholds of their own type: for integers the least integer not below each constant, for floats
the least float not below it, with a mark where it is the constant itself. So an int64 column against float constants,
and a float column against integers beyond 2^53 or decimals, are exact without leaving their type. A look-up table
takes the place of the search where integer constants lie close together.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Column
from tocsin.index.jit import kernel, lean_kernel
from tocsin.index.key_column import KeyColumn, keys_of
from tocsin.index.layout import ABSENT_CODE
from tocsin.index.patterns import PatternCoder
from tocsin.index.text_coder import TextCoder
from tocsin.schema import TextDomain, Value
from tocsin.schema.domain import is_unicode

Codes = npt.NDArray[np.int32]
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
        if column.multiple or column.derivation != "value" or not isinstance(domain, TextDomain):
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
