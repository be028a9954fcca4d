"""Columns that grow: the properties of subscribers by row, with an index for rules.

Rows are numbered as subscribers come. A column's index is sorted once for a large first part of the rows, its tier;
rows that came later are looked at one by one, until they are an eighth of the tier and it is made anew. Rows of
subscribers that left stay until the whole is rebuilt.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.language.formula import Satisfies
from tocsin.language.formula_columns import EXACT, Bools, Column, column_of
from tocsin.language.formula_compare import float_bound, integer_bound, is_told_apart_by_value, predicate_column
from tocsin.language.syntax import Op
from tocsin.schema import Domain, Value
from tocsin.schema.domain import microseconds

Rows = npt.NDArray[np.int64]
_FIRST = 1_024
_COMPARED = frozenset({Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN})
NO_ROWS = np.zeros(0, np.int64)


class Growing:
    """An array that grows at its end."""

    def __init__(self, dtype: Any, fill: Any = 0) -> None:
        self._array = np.full(_FIRST, fill, dtype)
        self._fill = fill
        self.size = 0

    def append(self, value: Any) -> None:
        self.reach(self.size + 1)
        self._array[self.size - 1] = value

    def reach(self, size: int) -> None:
        """Grow to this size; new places have the fill value."""
        if size > len(self._array):
            larger = np.full(max(size, 2 * len(self._array)), self._fill, self._array.dtype)
            larger[: len(self._array)] = self._array
            self._array = larger
        self.size = max(self.size, size)

    @property
    def array(self) -> npt.NDArray[Any]:
        """The values of now; a view, which later growth does not reach."""
        return self._array[: self.size]


class PropertyColumn:
    """One property of all subscribers."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        empty = column_of(domain, [None])
        self._coded = empty.members is not None
        self._values = Growing(np.int32 if self._coded else empty.values.dtype)
        self._absent = Growing(np.bool_, True)
        self._places: dict[Any, int] = {}
        self._members: tuple[Any, ...] = ()
        self._tier: _Tier | None = None

    def append(self, value: Value | None) -> None:
        """Add the value of the next row."""
        stored = 0 if value is None else self._stored(value)
        self._values.append(stored)
        self._absent.append(value is None)

    def _stored(self, value: Any) -> Any:
        if not self._coded:
            if self.domain.kind == "time":
                return microseconds(value)
            if isinstance(value, float) or -EXACT <= value <= EXACT or column_of(self.domain, [value]).members is None:
                return value
            self._code_all()  # a number that no array holds
        return self._places.setdefault(value, len(self._places))

    def _code_all(self) -> None:
        listed = Column(self.domain, self._values.array, self._absent.array).to_list()
        self._coded, self._tier = True, None
        self._values = Growing(np.int32)
        for value in listed:
            self._values.append(0 if value is None else self._places.setdefault(value, len(self._places)))

    def column(self, rows: npt.NDArray[Any] | None = None) -> Column:
        """Return the values of these rows, or of all."""
        values, absent = self._values.array, self._absent.array
        if rows is not None:
            values, absent = values[rows], absent[rows]
        return Column(self.domain, values, absent, self._all_members() if self._coded else None)

    def value_at(self, row: int) -> Any:
        """Return the value of one row, None where it is absent."""
        return self.column(np.array([row])).value(0)

    def _all_members(self) -> tuple[Any, ...]:
        if len(self._members) != len(self._places):
            self._members = tuple(self._places)
        return self._members or (None,)

    # --- the index ----------------------------------------------------------------------------------------------------

    def count(self, test: Satisfies) -> int | None:
        """Return about how many rows satisfy the predicate; None where the index cannot say."""
        ranges = self._ranges(test)
        if ranges is None:
            return None
        return sum(stop - start for start, stop in ranges) + len(self._tail())

    def rows(self, test: Satisfies) -> Rows:
        """Return the rows that satisfy the predicate."""
        ranges = self._ranges(test)
        assert ranges is not None
        assert self._tier is not None
        parts = [self._tier.order[start:stop] for start, stop in ranges]
        tail = self._tail()
        if len(tail):
            parts.append(tail[predicate_column(test, self.column(tail), negated=False)])
        return np.concatenate(parts) if parts else NO_ROWS

    def _tail(self) -> Rows:
        assert self._tier is not None
        return np.arange(self._tier.size, self._absent.size)

    def _ranges(self, test: Satisfies) -> list[tuple[int, int]] | None:
        tier = self._current_tier()
        if self._coded and test.predicate.op is Op.EQ and is_told_apart_by_value(self.domain):
            code = self._places.get(test.predicate.operand)
            return [] if code is None else [tier.range(Op.EQ, code)]
        if self._coded:
            members = Column(
                self.domain, np.arange(len(self._places), dtype=np.int32), np.zeros(len(self._places), np.bool_),
                self._all_members(),
            )  # fmt: skip
            if test.predicate.op in (Op.PRESENT, Op.ABSENT):
                return None
            held = np.flatnonzero(predicate_column(test, members, negated=False)).tolist()
            return [tier.range(Op.EQ, code) for code in held]
        operand: Any = test.predicate.operand
        if test.predicate.op not in _COMPARED:
            return None
        key = microseconds if self.domain.kind == "time" else _same
        if test.predicate.op is Op.BETWEEN:
            low, high = tier.range(Op.GE, key(operand[0])), tier.range(Op.LE, key(operand[1]))
            return [(low[0], max(low[0], high[1]))]
        return [tier.range(test.predicate.op, key(operand))]

    def _current_tier(self) -> _Tier:
        tier = self._tier
        size = self._absent.size
        if tier is None or size - tier.size > max(_FIRST, tier.size // 8):
            tier = self._tier = _Tier(self._values.array, self._absent.array)
        return tier


def _same(value: Any) -> Any:
    return value


class _Tier:
    """The rows that have a value, ordered by it."""

    def __init__(self, values: npt.NDArray[Any], absent: Bools) -> None:
        self.size = len(values)
        present = np.flatnonzero(~absent)
        by_value = np.argsort(values[present], kind="stable")
        self.order: Rows = present[by_value]
        self.values = values[self.order]

    def range(self, op: Op, constant: Any) -> tuple[int, int]:
        """Return where in the order the values stand that satisfy `value op constant`."""
        integers = self.values.dtype != np.float64
        op, bound = integer_bound(op, constant) if integers else float_bound(op, constant)
        if bound is None:
            return 0, 0
        left = int(np.searchsorted(self.values, bound, "left"))
        right = int(np.searchsorted(self.values, bound, "right"))
        size = len(self.values)
        return {Op.EQ: (left, right), Op.LT: (0, left), Op.LE: (0, right), Op.GT: (right, size), Op.GE: (left, size)}[
            op
        ]
