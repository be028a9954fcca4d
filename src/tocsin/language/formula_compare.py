"""Comparisons over columns, for formula_vector.py: exact, whatever the types.

Numbers and times are compared as arrays, constants first being moved to the nearest bound that the array's type can
hold. Everything else is compared once per distinct value or pair of values, by the definition.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.language.formula_columns import EXACT, Bools, Column
from tocsin.language.semantics import compare, predicate_holds
from tocsin.language.syntax import Op, Predicate
from tocsin.schema import Domain, Number, TextDomain, Value
from tocsin.schema.domain import microseconds

_OPERATORS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def predicate_column(predicate: Predicate, column: Column, *, negated: bool) -> Bools:
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


def _by_array(predicate: Predicate, column: Column) -> Bools | None:
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


def compare_columns(domain: Domain, op: Op, left: Column, right: Column, valid: Bools) -> tuple[Bools, Bools | None]:
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


def _by_pairs(domain: Domain, op: Op, left: Column, right: Column) -> Bools:
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


def coded(column: Column) -> Column:
    """Return the column with its distinct values as members."""
    if column.members is not None:
        return column
    distinct, codes = np.unique(column.values, return_inverse=True)
    members = Column(column.domain, distinct, np.zeros(len(distinct), np.bool_)).to_list()
    return Column(column.domain, codes.astype(np.int32), column.absent, tuple(members))
