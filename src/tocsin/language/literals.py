"""Literals: the values that can stand in an expression, and how the text form writes them.

Used by every form: documents.py and builder.py let values in through `check_literal`, convert.py reads them, render.py
writes them.

Folding: the value of an expression of constants, exact.

`price < 2 * 650` and `closes < time '…' + 2 hours` are predicates with one constant; convert.py folds them while
parsing, bind.py folds the arguments of operators. Numbers are fractions while they are worked with, so that
`1 / 3 * 3` is 1; a result that no finite decimal is equal to is rounded to 34 digits.
"""

from __future__ import annotations

import decimal
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from tocsin.errors import BadValue, ParseError, TooLarge, shown
from tocsin.language.bounds import check_string
from tocsin.language.syntax import Arithmetic, Constant, Expression, Literal, Negative
from tocsin.language.units import MICROSECONDS
from tocsin.schema import Number, TimeDomain
from tocsin.schema.domain import (
    LARGEST_DIGITS,
    LARGEST_EXPONENT,
    LARGEST_INTEGER,
    as_number,
    is_reasonable,
    parse_number,
)


def check_literal(value: object) -> Literal:
    """Return the value as an expression holds it; raises ParseError or TooLarge.

    Times become UTC and points pairs of floats.
    """
    match value:
        case bool():
            return value
        case str():
            return check_string(value)
        case int() | float() | Decimal():
            return check_number(value)
        case datetime():
            return _check_time(value)
        case (latitude, longitude) if isinstance(value, tuple):
            return check_coordinate(latitude), check_coordinate(longitude)
        case _:
            raise ParseError(f"{shown(value)} cannot stand in an expression; a value is {KINDS}")


_NUMBER_SIZE = (
    f"a number is finite and has at most {LARGEST_DIGITS} digits, and an exponent of at most {LARGEST_EXPONENT}"
)
_LONGEST_NUMBER = LARGEST_DIGITS + LARGEST_EXPONENT + 10
_TIME = TimeDomain(name="time")
KINDS = "a number, a text, true or false, a time, or a point"


def check_number(number: Number) -> Number:
    """Return the number if it is finite and of a size that can be written."""
    if isinstance(number, int):
        fits = abs(number) < LARGEST_INTEGER
    elif isinstance(number, float):
        fits = math.isfinite(number)
    else:
        fits = is_reasonable(number)
    if not fits:
        raise (TooLarge if Decimal(number).is_finite() else ParseError)(_NUMBER_SIZE)
    return number


def _check_time(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ParseError(f"a time needs its zone, such as datetime(…, tzinfo=UTC); {instant.isoformat()} has none")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ParseError(f"{instant.isoformat()} is not between the years 1 and 9999 in UTC") from None


def check_coordinate(raw: object) -> float:
    """Return a latitude or longitude as a float; its range is the domain's business."""
    if isinstance(raw, int | float | Decimal) and not isinstance(raw, bool):
        try:
            number = float(raw)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number + 0.0  # no negative zero
    raise ParseError(f"a point is a pair of numbers, such as (40.85, -73.88); {shown(raw)} is not one of them")


# --- reading ----------------------------------------------------------------------------------------------------------


def read_literal(token: str) -> Literal:
    """Return the value of a token: 'text', digits, decimal '0.1' or time '2026-11-15T10:00Z'."""
    if token.startswith("'"):
        return read_string(token)
    return _read_time(token) if token[0] in "tT" else read_number(token)


def read_string(token: str) -> str:
    return check_string(token[1:-1].replace("''", "'"))


def read_number(token: str) -> Number:
    tagged = token.endswith("'")
    decimal = read_decimal(token[token.index("'") + 1 : -1] if tagged else token)
    return decimal if tagged else check_number(as_number(decimal))


def read_decimal(digits: str) -> Decimal:
    """Return the decimal that a text is."""
    if len(digits) > _LONGEST_NUMBER:
        raise TooLarge(_NUMBER_SIZE)
    try:
        decimal = Decimal(digits)
    except InvalidOperation:
        raise ParseError(f"{shown(digits)} is not a number") from None
    check_number(decimal)
    return decimal


def read_interval(token: str) -> Duration:
    """Return the length of time that `interval '1 day 2 hours'` is."""
    written = token[token.index("'") + 1 : -1]
    parts = _INTERVAL.findall(written)
    if not parts or _INTERVAL.sub("", written).strip() or any(unit.lower() not in _INTERVAL_UNITS for _, unit in parts):
        listed = ", ".join(MICROSECONDS)
        raise ParseError(f"{shown(written)} is no length of time; one is written like interval '2 days', in {listed}")
    each = (Duration.of(read_number(amount), _INTERVAL_UNITS[unit.lower()]) for amount, unit in parts)
    return Duration(sum((one.microseconds for one in each), Fraction(0)))


def _read_time(token: str) -> datetime:
    try:
        return _TIME.admit(token[token.index("'") + 1 : -1].replace("''", "'"))
    except BadValue as error:
        raise ParseError(str(error)) from None


# --- writing ----------------------------------------------------------------------------------------------------------


def render_literal(value: Literal) -> str:
    """Return the text of a literal, such that parsing gives an equal one."""
    match check_literal(value):
        case bool():
            return "true" if value else "false"
        case str() as text:
            return render_string(text)
        case int() | float() | Decimal() as number:
            return render_number(number)
        case datetime() as instant:
            return f"time '{instant.isoformat().replace('+00:00', 'Z')}'"
        case (latitude, longitude):
            return f"({render_number(latitude)}, {render_number(longitude)})"


def render_constant(value: Literal | timedelta) -> str:
    """Return the text of a constant of a formula: of a literal, or of a duration in the largest unit that it is whole in."""
    if not isinstance(value, timedelta):
        return render_literal(value)
    whole = value // _MICROSECOND
    unit = next((each for each in reversed(MICROSECONDS) if whole and whole % MICROSECONDS[each] == 0), "seconds")
    return f"{render_number(_number(Fraction(whole, MICROSECONDS[unit])))} {unit}"


def render_string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def render_number(number: Number) -> str:
    """Return the digits; `decimal '0.1'` for a decimal that plain digits would make a float of another value."""
    check_number(number)
    if isinstance(number, int):
        return str(number)
    if isinstance(number, float):
        # An integral float above 2**53 has a short form that names another integer, so all its digits are written.
        return repr(number) if parse_number(repr(number)) == number else str(int(number))
    plain = str(number)
    return plain if as_number(number) == number else f"decimal '{plain}'"


# Folding.


_MICROSECOND = timedelta(microseconds=1)
_INTERVAL = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s+([A-Za-z]+)(?=\s|$)")
_INTERVAL_UNITS = {name: unit for unit in MICROSECONDS for name in (unit, unit[:-1])}
_LARGEST_BITS = 4_096  # of a numerator or denominator; more is refused before it is computed with
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


def fold(expression: Expression) -> Literal | timedelta | None:
    """Return the value of an expression of constants, or None where it has other parts."""
    value = _folded(expression)
    return None if value is None else constant(value)


def _folded(expression: Expression) -> Operand | None:
    match expression:
        case Constant(value):
            return Duration(Fraction(value // _MICROSECOND)) if isinstance(value, timedelta) else value
        case Negative(part):
            inner = _folded(part)
            return None if inner is None else negate(inner)
        case Arithmetic(op, left, right):
            a, b = _folded(left), _folded(right)
            return None if a is None or b is None else compute(op, a, b)
        case _:
            return None


def constant(value: Operand) -> Literal | timedelta:
    """Return what a folded value is in a formula."""
    if not isinstance(value, Duration):
        return literal(value)
    try:
        return timedelta(microseconds=round(value.microseconds))
    except OverflowError:
        raise TooLarge("this length of time is too large") from None


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
            return Duration(Fraction((a - b) // _MICROSECOND))
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
