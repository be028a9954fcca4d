"""Folding: the value of an expression of constants, exact.

`price < 2 * 650` and `closes < time '…' + 2 hours` are predicates with one constant; convert.py folds them while
parsing, bind.py folds the arguments of operators. Numbers are fractions while they are worked with, so that
`1 / 3 * 3` is 1; a result that no finite decimal is equal to is rounded to 34 digits.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from tocsin.errors import ParseError, TooLarge
from tocsin.language.literals import check_number
from tocsin.language.syntax import Arithmetic, Constant, Expression, Literal, Negative
from tocsin.language.time_units import MICROSECONDS
from tocsin.schema import Number
from tocsin.schema.domain import parse_number

_LARGEST_BITS = 4_096  # of a numerator or denominator; more is refused before it is computed with
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROUNDED = decimal.Context(prec=34)
_WIDE = decimal.Context(prec=2_000)


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time; only arithmetic knows it, no attribute has one."""

    microseconds: Fraction

    @classmethod
    def of(cls, amount: Number, unit: str) -> Duration:
        return cls(_fraction(amount) * MICROSECONDS[unit])


Operand = Literal | Fraction | Duration


def fold(expression: Expression) -> Literal | None:
    """Return the value of an expression of constants, or None where it has other parts."""
    value = _folded(expression)
    return None if value is None else literal(value)


def _folded(expression: Expression) -> Operand | None:
    match expression:
        case Constant(value):
            return value
        case Negative(part):
            inner = _folded(part)
            return None if inner is None else negate(inner)
        case Arithmetic(op, left, right):
            a, b = _folded(left), _folded(right)
            return None if a is None or b is None else compute(op, a, b)
        case _:
            return None


def literal(value: Operand) -> Literal:
    """Return the literal that a folded value is."""
    if isinstance(value, Duration):
        raise ParseError("a duration is not a value; add it to a time: time '2026-11-15T10:00Z' + 2 hours")
    return _number(value) if isinstance(value, Fraction) else value


def negate(value: Operand) -> Operand:
    match value:
        case Duration(microseconds):
            return Duration(-microseconds)
        case Decimal():
            return value.copy_negate()  # a minus sign would round to the context's precision
        case bool() | str() | datetime() | tuple():
            return compute("-", 0, value)
        case _:
            return -value


def compute(op: str, left: Operand, right: Operand) -> Operand:
    """Return left op right; raises ParseError where that has no value."""
    a, b = _widened(left), _widened(right)
    match op, a, b:
        case (("/" | "%"), _, Fraction()) if b == 0:
            raise ParseError("division by zero")
        case _, Fraction(), Fraction():
            return _bounded(_arithmetic(op, a, b))
        case "+", datetime(), Duration():
            return _shifted(a, b.microseconds)
        case "+", Duration(), datetime():
            return _shifted(b, a.microseconds)
        case "-", datetime(), Duration():
            return _shifted(a, -b.microseconds)
        case "-", datetime(), datetime():
            return Duration(Fraction((a - b) // timedelta(microseconds=1)))
        case (("+" | "-"), Duration(), Duration()):
            return Duration(_bounded(_arithmetic(op, a.microseconds, b.microseconds)))
        case (("*" | "/"), Duration(), Fraction()):
            return Duration(_bounded(_arithmetic(op, a.microseconds, b)))
        case "*", Fraction(), Duration():
            return Duration(_bounded(a * b.microseconds))
        case _:
            raise ParseError(f"cannot compute {_kind(a)} {op} {_kind(b)}")


def _widened(value: Operand) -> Operand:
    return _fraction(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value


def _fraction(number: Number) -> Fraction:
    """Return the number as written: the float 0.1 is a tenth."""
    return Fraction(Decimal(repr(number))) if isinstance(number, float) else Fraction(number)


def _arithmetic(op: str, a: Fraction, b: Fraction) -> Fraction:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b
        case _:
            return a % b


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _LARGEST_BITS:
        raise TooLarge("this number is too large")
    return value


def _number(value: Fraction) -> Number:
    """Return the number as the text form would read its digits."""
    if value.denominator == 1:
        return check_number(value.numerator)
    remaining = value.denominator
    for prime in (2, 5):
        while remaining % prime == 0:
            remaining //= prime
    context = _WIDE if remaining == 1 else _ROUNDED
    return check_number(parse_number(str(context.divide(Decimal(value.numerator), Decimal(value.denominator)))))


def _shifted(instant: datetime, microseconds: Fraction) -> datetime:
    try:
        return instant + timedelta(microseconds=round(microseconds))
    except OverflowError:
        raise ParseError("this time is not between the years 1 and 9999") from None


def _kind(value: Operand) -> str:
    match value:
        case bool():
            return "true or false"
        case str():
            return "text"
        case datetime():
            return "time"
        case Duration():
            return "duration"
        case tuple():
            return "point"
        case _:
            return "number"
