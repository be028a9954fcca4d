"""Columns: many values of one domain, as formula_vector.py computes with them.

Numbers of int and float domains are int64 and float64, times are microseconds since 1970; everything else, and columns
with a number that these cannot hold exactly, are coded: each row has the position of its value in `members`. Boolean
columns are coded too. Nothing in a column changes.

Comparisons over columns, for formula_vector.py: exact, whatever the types.

Numbers and times are compared as arrays, constants first being moved to the nearest bound that the array's type can
hold. Everything else is compared once per distinct value or pair of values, by the definition.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.language.formula import is_numeric, numeric_type
from tocsin.language.semantics import compare, predicate_holds
from tocsin.language.syntax import Op, Predicate
from tocsin.schema import Domain, Number, TextDomain, Value
from tocsin.schema.domain import microseconds

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
EXACT = 2**53  # integers up to here are floats


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """Values of a domain; `absent[i]` says that row i has none. `members` is None where `values` are the values.

    `failed[i]` is 0, or the number of the reason (from 1, in `reasons`) why row i has no value. Where rows may have several
    values, `several` is true, and each member is the tuple of a row's values.
    """

    domain: Domain
    values: npt.NDArray[Any]
    absent: Bools
    members: tuple[Value, ...] | None = None
    failed: npt.NDArray[np.int32] | None = None
    reasons: tuple[str, ...] = ()
    several: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: npt.NDArray[Any]) -> ValueColumn:
        """Return the column of these rows (positions, or a mask)."""
        failed = None if self.failed is None else self.failed[rows]
        return replace(self, values=self.values[rows], absent=self.absent[rows], failed=failed)

    def part(self, span: slice) -> ValueColumn:
        """Return the column of some rows after one another, without copying."""
        failed = None if self.failed is None else self.failed[span]
        return replace(self, values=self.values[span], absent=self.absent[span], failed=failed)

    def value(self, row: int) -> Any:
        """Return one value, None where it is absent; as a formula computes with it."""
        if self.absent[row]:
            return None
        stored = self.values[row].item()
        if self.members is not None:
            return self.members[stored]
        return _EPOCH + timedelta(microseconds=stored) if self.domain.kind == "time" else stored

    def to_list(self) -> list[Any]:
        """Return all values, None where absent."""
        if self.members is not None:
            members = np.empty(len(self.members), object)
            members[:] = [*self.members]
            listed = members[self.values].tolist() if len(self.members) else [None] * len(self)
        elif self.domain.kind == "time":
            listed = [_EPOCH + timedelta(microseconds=stored) for stored in self.values.tolist()]
        else:
            listed = self.values.tolist()
        return [None if missing else value for value, missing in zip(listed, self.absent.tolist(), strict=True)]

    def reason(self, row: int) -> str | None:
        """Return why a row failed, None where it did not."""
        number = 0 if self.failed is None else int(self.failed[row])
        return self.reasons[number - 1] if number else None


def column_of(domain: Domain, values: Iterable[Value | None]) -> ValueColumn:
    """Return the column of canonical values, None where absent."""
    listed = list(values)
    absent = np.fromiter((value is None for value in listed), np.bool_, len(listed))
    plain = _plain(domain, listed)
    if plain is not None:
        return ValueColumn(domain, plain, absent)
    return coded_column(domain, listed, absent)


def several_column(domain: Domain, rows: Iterable[tuple[Value, ...] | None]) -> ValueColumn:
    """Return the column of rows with any number of canonical values each, None where absent."""
    listed = list(rows)
    if all(row is None or len(row) == 1 for row in listed):
        return column_of(domain, [None if row is None else row[0] for row in listed])
    absent = np.fromiter((row is None for row in listed), np.bool_, len(listed))
    return replace(coded_column(domain, listed, absent), several=True)


def constant_column(domain: Domain, value: Value | None, size: int) -> ValueColumn:
    """Return a column with one value in all rows."""
    if type(value) is int and domain.kind == "numeric" and -EXACT <= value <= EXACT:
        kind = numeric_type(domain)
        if kind != "decimal":  # the constants of most formulas
            values = np.empty(size, np.int64 if kind == "int" else np.float64)
            values.fill(value)
            return ValueColumn(domain, values, np.zeros(size, np.bool_))
    one = column_of(domain, [value])
    return ValueColumn(domain, np.full(size, one.values[0]), np.full(size, one.absent[0]), one.members)


def absent_column(domain: Domain, size: int) -> ValueColumn:
    """Return a column without values."""
    return constant_column(domain, None, size)


def coded_column(domain: Domain, listed: Sequence[Any], absent: Bools) -> ValueColumn:
    """Return a coded column; equal values of different type (1 and 1.0) share a member."""
    places: dict[Any, int] = {}
    codes = np.fromiter((0 if v is None else places.setdefault(v, len(places)) for v in listed), np.int32, len(listed))
    members = tuple(places) or ((None,) if len(listed) else ())  # a member for code 0 of absent rows
    return ValueColumn(domain, codes, absent, members)


def _plain(domain: Domain, listed: Sequence[Any]) -> npt.NDArray[Any] | None:
    """Return the values as an array of numbers; None where numbers cannot hold them."""
    if domain.kind == "time":
        return np.fromiter((0 if v is None else microseconds(v) for v in listed), np.int64, len(listed))
    if domain.kind != "duration" and (not is_numeric(domain) or numeric_type(domain) == "decimal"):
        return None
    if numeric_type(domain) == "int":
        if all(value is None or _SMALLEST <= value <= _LARGEST for value in listed):
            return np.fromiter((0 if v is None else v for v in listed), np.int64, len(listed))
        return None
    if all(value is None or isinstance(value, float) or abs(value) <= EXACT for value in listed):
        return np.fromiter((0.0 if v is None else v for v in listed), np.float64, len(listed))
    return None


def joined(parts: Sequence[ValueColumn]) -> ValueColumn:
    """Return columns of one domain, one after the other; failures are not kept."""
    absent = np.concatenate([part.absent for part in parts])
    if all(part.members is None for part in parts):
        return ValueColumn(parts[0].domain, np.concatenate([part.values for part in parts]), absent)
    if all(part.members == parts[0].members for part in parts):
        return ValueColumn(parts[0].domain, np.concatenate([part.values for part in parts]), absent, parts[0].members)
    listed = [value for part in parts for value in part.to_list()]
    return column_of(parts[0].domain, listed)


# Comparisons over columns, for formula_vector.py.


_OPERATORS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def predicate_column(predicate: Predicate, column: ValueColumn, *, negated: bool) -> Bools:
    """Return for which rows the predicate, or its negation, holds."""
    op, domain = predicate.op, predicate.domain
    assert domain is not None, "a predicate that was not bound"
    if op is Op.PRESENT or op is Op.ABSENT:
        present = ~column.absent
        found: Bools = present if (op is Op.PRESENT) != negated else ~present
        return found
    if column.members is None and (arrays := _by_array(predicate, column)) is not None:
        held: Bools = ~column.absent & (arrays != negated)
        return held
    column = coded(column)
    if op is Op.EQ and is_told_apart_by_value(domain) and not column.several:
        same = np.array([member == predicate.operand for member in column.members or ()], np.bool_)
        equal: Bools = ~column.absent & (same[column.values] != negated)
        return equal
    answers = [
        predicate_holds(predicate, _values(member, several=column.several), negated=negated)
        for member in column.members or ()
    ]
    truth = np.array(answers, np.bool_)
    return ~column.absent & truth[column.values] if len(truth) else np.zeros(len(column), np.bool_)


def _values(member: Any, *, several: bool) -> tuple[Value, ...] | None:
    return member if several or member is None else (member,)


def is_told_apart_by_value(domain: Domain) -> bool:
    """Return whether two values of the domain are equal just when Python says so; case may not matter."""
    return domain.kind in ("enumerated", "hierarchical") or (isinstance(domain, TextDomain) and domain.case != "folded")


def _by_array(predicate: Predicate, column: ValueColumn) -> Bools | None:
    """Return which numbers or times satisfy the predicate, absent or not; None for operators that arrays do not have."""
    operand: Any = predicate.operand
    key = microseconds if column.domain.kind == "time" else _same
    if predicate.op in _OPERATORS:
        return compare_constant(column.values, predicate.op, key(operand))
    if predicate.op is Op.BETWEEN:
        low, high = map(key, operand)
        return compare_constant(column.values, Op.GE, low) & compare_constant(column.values, Op.LE, high)
    if predicate.op is Op.IN and len(operand) <= 8:
        held = np.zeros(len(column), np.bool_)
        for member in operand:
            held |= compare_constant(column.values, Op.EQ, key(member))
        return held
    return None


def _same(value: Any) -> Any:
    return value


def compare_constant(values: npt.NDArray[Any], op: Op, constant: Number) -> Bools:
    """Return values op constant, exactly; the values are int64 or float64."""
    op, bound = integer_bound(op, constant) if values.dtype == np.int64 else float_bound(op, constant)
    if bound is None:
        return np.full(len(values), op is Op.NE, np.bool_)
    found: Bools = _OPERATORS[op](values, bound)
    return found


def integer_bound(op: Op, constant: Number) -> tuple[Op, int | float | None]:
    """Return an operator and a bound that int64s can be compared with; None where none is equal to the constant."""
    floor, ceiling = math.floor(constant), math.ceil(constant)
    if op is Op.EQ or op is Op.NE:
        return op, floor if floor == ceiling and _SMALLEST <= floor <= _LARGEST else None
    bound = ceiling if op in (Op.LT, Op.GE) else floor
    if bound > _LARGEST:  # everything is below
        return (Op.LE, _LARGEST) if op in (Op.LT, Op.LE) else (Op.EQ, None)
    if bound < _SMALLEST:
        return (Op.GE, _SMALLEST) if op in (Op.GT, Op.GE) else (Op.EQ, None)
    return op, bound


def float_bound(op: Op, constant: Number) -> tuple[Op, int | float | None]:
    """Return an operator and a float that floats can be compared with; None where none is equal to the constant."""
    try:
        near = float(constant)
    except OverflowError:
        near = math.inf if constant > 0 else -math.inf
    if near == constant:
        return op, near
    if op is Op.EQ or op is Op.NE:
        return op, None
    below = near if not math.isinf(near) and Decimal(near) < Decimal(constant) else math.nextafter(near, -math.inf)
    return (Op.LE if op in (Op.LT, Op.LE) else Op.GT), below


# --- two columns ------------------------------------------------------------------------------------------------------


def compare_columns(
    domain: Domain, op: Op, left: ValueColumn, right: ValueColumn, valid: Bools
) -> tuple[Bools, Bools | None]:
    """Return left op right for the valid rows, and the rows for which arrays cannot tell (None: there are none)."""
    if left.members is None and right.members is None:
        a, b = left.values, right.values
        inexact: Bools | None = None
        if a.dtype != b.dtype:
            whole = a if a.dtype == np.int64 else b
            inexact = valid & ((whole > EXACT) | (whole < -EXACT))
        return _OPERATORS[op](a, b), inexact
    rows = np.flatnonzero(valid)
    holds = np.zeros(len(valid), np.bool_)
    if len(rows):
        holds[rows] = _by_pairs(domain, op, coded(left.take(rows)), coded(right.take(rows)))
    return holds, None


def _by_pairs(domain: Domain, op: Op, left: ValueColumn, right: ValueColumn) -> Bools:
    """Return left op right, asked once for each distinct pair of values."""
    assert left.members is not None
    assert right.members is not None
    width = len(right.members)
    pairs = left.values.astype(np.int64) * width + right.values
    distinct, inverse = np.unique(pairs, return_inverse=True)
    answers = [
        compare(domain, op, left.members[pair // width], right.members[pair % width]) for pair in distinct.tolist()
    ]
    return np.array(answers, np.bool_)[inverse]


def coded(column: ValueColumn) -> ValueColumn:
    """Return the column with its distinct values as members."""
    if column.members is not None:
        return column
    distinct, codes = np.unique(column.values, return_inverse=True)
    members = ValueColumn(column.domain, distinct, np.zeros(len(distinct), np.bool_)).to_list()
    return ValueColumn(column.domain, codes.astype(np.int32), column.absent, tuple(members))
