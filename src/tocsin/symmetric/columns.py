"""Columns that grow: the properties of subscribers by row, with an index for rules.

Rows are numbered as subscribers come. A column has two indexes, made when a rule first asks for them: bitmaps
(bitmaps.py), which are brought up to date when they are used, and the rows in the order of their values. Those are
sorted once for a large first part of the rows, the tier; rows that came later are looked at one by one, until they are
an eighth of the tier and it is made anew. Rows of subscribers that left stay until the whole is rebuilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.language.formula import Satisfies
from tocsin.language.formula_columns import EXACT, Bools, Column, column_of
from tocsin.language.formula_compare import float_bound, integer_bound, is_told_apart_by_value, predicate_column
from tocsin.language.syntax import Op
from tocsin.schema import Domain, Value
from tocsin.schema.domain import microseconds
from tocsin.symmetric.admit_column import stored_numbers
from tocsin.symmetric.bitmaps import BitmapIndex, Words, within

Rows = npt.NDArray[np.int64]
_FIRST = 1_024
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_COMPARED = frozenset({Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN})
NO_ROWS = np.zeros(0, np.int64)


class Interval(NamedTuple):
    """Stored values from low to high; None is no bound."""

    low: Any
    high: Any


NOTHING = Interval(1, 0)


class Growing:
    """An array that grows at its end."""

    def __init__(self, dtype: Any, fill: Any = 0) -> None:
        self._array = np.full(_FIRST, fill, dtype)
        self._fill = fill
        self.size = 0

    def append(self, value: Any) -> None:
        self.reach(self.size + 1)
        self._array[self.size - 1] = value

    def extend(self, values: Any) -> None:
        start = self.size
        self.reach(start + len(values))
        self._array[start : self.size] = values

    def reach(self, size: int) -> None:
        """Grow to this size; new places have the fill value."""
        if size > len(self._array):
            larger = np.full(max(size, 2 * len(self._array)), self._fill, self._array.dtype)
            larger[: len(self._array)] = self._array
            self._array = larger
        self.size = max(self.size, size)

    def keep(self, rows: npt.NDArray[Any]) -> None:
        """Let go of all places but these."""
        kept = self.array[rows]
        self._array = np.full(max(_FIRST, len(kept)), self._fill, self._array.dtype)
        self._array[: len(kept)] = kept
        self.size = len(kept)

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
        self._bitmaps = BitmapIndex()

    def append(self, value: Value | None) -> None:
        """Add the value of the next row."""
        stored = 0 if value is None else self._stored(value)
        self._values.append(stored)
        self._absent.append(value is None)

    def extend(self, values: Sequence[Any]) -> None:
        """Add the values of the next rows, admitted, None where absent."""
        numbers = None if self._coded else stored_numbers(self.domain, values)
        if self._coded:
            places = self._places
            numbers = [0 if value is None else places.setdefault(value, len(places)) for value in values]
        if numbers is None:
            for value in values:
                self.append(value)
            return
        self._values.extend(numbers)
        self._absent.extend([value is None for value in values])

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
        self._coded, self._tier, self._bitmaps = True, None, BitmapIndex()
        self._values = Growing(np.int32)
        for value in listed:
            self._values.append(0 if value is None else self._places.setdefault(value, len(self._places)))

    def keep(self, rows: Rows) -> None:
        """Let go of all rows but these, which are numbered anew."""
        self._values.keep(rows)
        self._absent.keep(rows)
        self._tier, self._bitmaps = None, BitmapIndex()

    def column(self, rows: npt.NDArray[Any] | None = None) -> Column:
        """Return the values of these rows, or of all."""
        values, absent = self._values.array, self._absent.array
        if rows is not None:
            values, absent = values[rows], absent[rows]
        return Column(self.domain, values, absent, self._all_members() if self._coded else None)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], Bools]:
        """The stored values, and which are absent."""
        return self._values.array, self._absent.array

    @property
    def is_coded(self) -> bool:
        return self._coded

    @property
    def bitmaps(self) -> BitmapIndex:
        """The bitmaps, of all rows."""
        self._bitmaps.reach(*self.arrays)
        return self._bitmaps

    @property
    def ordered(self) -> tuple[npt.NDArray[Any], int]:
        """The values in order, of all rows but the last ones, and how many those are."""
        tier = self._current_tier()
        return tier.values, self._absent.size - tier.size

    def code_of(self, value: Any) -> int:
        """Return the code of a value in a coded column, -1 where no row has it."""
        return self._places.get(value, -1)

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
        interval = self.interval(test)
        ranges = self._ranges(test) if interval is None else [self._current_tier().within(interval)]
        if ranges is None:
            return None
        assert self._tier is not None
        return sum(stop - start for start, stop in ranges) + self._absent.size - self._tier.size

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

    def interval(self, test: Satisfies) -> Interval | None:
        """Return the stored values that satisfy the predicate; None where they are no interval."""
        op, operand = test.predicate.op, test.predicate.operand
        if self._coded:
            if op is not Op.EQ or not is_told_apart_by_value(self.domain):
                return None
            code = self.code_of(operand)
            return NOTHING if code < 0 else Interval(code, code)
        if op not in _COMPARED:
            return None
        key: Any = microseconds if self.domain.kind == "time" else _same
        integers = self._values.array.dtype != np.float64
        if op is Op.BETWEEN:
            assert isinstance(operand, tuple)
            low = _interval(Op.GE, key(operand[0]), integers=integers)
            high = _interval(Op.LE, key(operand[1]), integers=integers)
            return NOTHING if NOTHING in (low, high) else Interval(low.low, high.high)
        return _interval(op, key(operand), integers=integers)

    def narrow(self, found: Words, interval: Interval) -> bool:
        """Take from a bitmap rows whose values are not in the interval; return whether these are all such rows."""
        bitmaps = self.bitmaps
        bitmaps.narrow(found, interval.low, interval.high)
        return bitmaps.exact

    def within(self, rows: Rows, interval: Interval) -> Rows:
        """Return those of the rows whose values are in the interval."""
        return within(rows, *self.arrays, interval.low, interval.high)

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


def _interval(op: Op, constant: Any, *, integers: bool) -> Interval:
    """Return the interval of array values that satisfy `value op constant`."""
    op, bound = integer_bound(op, constant) if integers else float_bound(op, constant)
    if bound is None:
        return NOTHING
    match op:
        case Op.EQ:
            return Interval(bound, bound)
        case Op.LE:
            return Interval(None, bound)
        case Op.GE:
            return Interval(bound, None)
        case Op.LT if integers:
            return Interval(None, bound - 1) if bound > _SMALLEST else NOTHING
        case Op.LT:
            return Interval(None, np.nextafter(bound, -np.inf))
        case _ if integers:
            return Interval(bound + 1, None) if bound < _LARGEST else NOTHING
        case _:
            return Interval(np.nextafter(bound, np.inf), None)


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
        return self.within(_interval(op, constant, integers=self.values.dtype != np.float64))

    def within(self, interval: Interval) -> tuple[int, int]:
        """Return where in the order the values of an interval stand."""
        number = self.values.dtype.type  # a key of another type would have the whole array converted
        low, high = interval
        start = 0 if low is None else int(self.values.searchsorted(number(low), "left"))
        stop = len(self.values) if high is None else int(self.values.searchsorted(number(high), "right"))
        return start, max(start, stop)
