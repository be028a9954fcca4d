"""The definition of formulas: what one means for one row of values.

Everything that computes formulas faster (formula_vector.py) is tested against this module. A row maps names to values;
a name that it does not have, or has as None, is absent.

Values
  - An absent value makes absent whatever is computed from it. A case takes the first branch whose condition holds; with
    none, and no else, it is absent.
  - Numbers are of their declared type: of an int domain exact integers, of a float domain floats (the nearest, for a
    value that is none), of a decimal domain decimals, computed exactly and then rounded to 34 digits. int / int is the
    nearest float. `%` has the sign of its right side. Comparisons are exact, whatever the types.
  - A formula *fails* where a number is divided by zero, where a result is not finite or has more than 400 digits, and
    where a function says so or returns what is not in its domain.

Conditions
  - As for subscriptions (semantics.py): what compares an absent value does not hold, and neither does its negation.
  - A failing part fails a conjunction, unless another part is false, and a disjunction, unless another part holds:
    `years > 0 and price / years < 10` never fails, in whichever order it is written.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tocsin.errors import BadValue, FormulaFailed, shown
from tocsin.language.formula import (
    Answered,
    Choice,
    Compared,
    Computed,
    ConditionFormula,
    Every,
    Function,
    Given,
    Invoked,
    Negated,
    Opposite,
    Reference,
    Satisfies,
    Some,
    Term,
    Test,
    ValueFormula,
    is_numeric,
    numeric_type,
)
from tocsin.language.semantics import predicate_holds, value_satisfies
from tocsin.language.syntax import Op, Predicate
from tocsin.schema import Domain, Event, Number, Value
from tocsin.schema.domain import LARGEST_INTEGER, is_reasonable

Row = Mapping[str, Any]  # name -> value, or a tuple of values where the name may have several; None or missing: absent

DIVIDED_BY_ZERO = "division by zero"
TOO_LARGE = "the result is too large"
_ROUNDED = decimal.Context(prec=34)


def compute(formula: ValueFormula, row: Row) -> Value | None:
    """Return the formula's value for the row, None where it is absent; raises FormulaFailed."""
    return value_of(formula.root, row)


def condition_holds(formula: ConditionFormula, row: Row) -> bool:
    """Return whether the condition holds for the row; raises FormulaFailed."""
    return is_true(formula.root, row)


# --- values -----------------------------------------------------------------------------------------------------------


def value_of(term: Term, row: Row) -> Value | None:
    """Return a term's value."""
    match term:
        case Given(value, domain):
            return typed(value, domain)
        case Reference(name, domain):
            known = row.get(name)
            return None if known is None else typed(known, domain)
        case Negated(part, domain):
            inner = value_of(part, row)
            return None if inner is None else arithmetic("-", 0, inner, domain)
        case Computed(op, left, right, domain):
            a, b = value_of(left, row), value_of(right, row)
            return None if a is None or b is None else arithmetic(op, a, b, domain)
        case Choice(branches, otherwise, domain):
            chosen = next((then for when, then in branches if is_true(when, row)), otherwise)
            found = None if chosen is None else value_of(chosen, row)
            return None if found is None else typed(found, domain)
        case Invoked(function, arguments):
            return invoke(function, [value_of(argument, row) for argument in arguments])


def typed(value: Any, domain: Domain) -> Value:
    """Return the value in the form in which formulas compute with values of the domain."""
    if is_numeric(domain) and numeric_type(domain) == "float" and not isinstance(value, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise FormulaFailed(TOO_LARGE)
        return number
    return value  # type: ignore[no-any-return]


def arithmetic(op: str, left: Any, right: Any, domain: Domain) -> Number:
    """Return left op right, a number of this numeric domain; raises FormulaFailed."""
    if op in "/%" and right == 0:
        raise FormulaFailed(DIVIDED_BY_ZERO)
    kind = numeric_type(domain)
    if kind == "decimal":
        return _rounded(_exact(op, Fraction(left), Fraction(right)))
    try:
        if kind == "float" and not (isinstance(left, int) and isinstance(right, int)):
            left, right = typed(left, domain), typed(right, domain)
        result: Number = _exact(op, left, right)
    except OverflowError:
        raise FormulaFailed(TOO_LARGE) from None
    if isinstance(result, float):
        fits = math.isfinite(result)
        result += 0.0  # no negative zero
    else:
        fits = abs(result) < LARGEST_INTEGER
    if not fits:
        raise FormulaFailed(TOO_LARGE)
    return result


def _exact(op: str, left: Any, right: Any) -> Any:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case _:
            return left % right


def _rounded(value: Fraction) -> Number:
    result = _ROUNDED.divide(Decimal(value.numerator), Decimal(value.denominator))
    if not is_reasonable(result):
        raise FormulaFailed(TOO_LARGE)
    return result


def invoke(function: Function, arguments: list[Value | None]) -> Value | None:
    """Return what the function says, None where an argument is absent; raises FormulaFailed."""
    given = [
        typed(value, domain) for value, domain in zip(arguments, function.parameters, strict=True) if value is not None
    ]
    if len(given) < len(arguments):
        return None
    return returned(function, function.scalar(*given))


def returned(function: Function, value: object) -> Value | None:
    """Return a function's result as a value of its domain; raises FormulaFailed where it is none."""
    if value is None:
        return None
    try:
        return typed(function.returns.admit(value), function.returns)
    except BadValue as error:
        raise FormulaFailed(f"{function.name} returned {shown(value)}, which is not {error.right}") from None


# --- conditions -------------------------------------------------------------------------------------------------------


def is_true(test: Test, row: Row, *, negated: bool = False) -> bool:
    """Return whether the condition, or its negation, holds."""
    match test:
        case Every(parts):
            return _joined(parts, row, negated=negated, conjunction=not negated)
        case Some(parts):
            return _joined(parts, row, negated=negated, conjunction=negated)
        case Opposite(part):
            return is_true(part, row, negated=not negated)
        case Satisfies(name, predicate, domain, multiple):
            return satisfies(predicate, row.get(name), domain, multiple=multiple, negated=negated)
        case Compared(left, op, right, domain):
            a, b = value_of(left, row), value_of(right, row)
            return a is not None and b is not None and compare(domain, op, a, b) != negated
        case Answered(function, arguments):
            answer = invoke(function, [value_of(argument, row) for argument in arguments])
            return answer is not None and bool(answer) != negated


def _joined(parts: tuple[Test, ...], row: Row, *, negated: bool, conjunction: bool) -> bool:
    """Return the conjunction or disjunction of the parts; a part that decides wins over one that fails."""
    failure: FormulaFailed | None = None
    for part in parts:
        try:
            if is_true(part, row, negated=negated) != conjunction:
                return not conjunction
        except FormulaFailed as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return conjunction


def satisfies(predicate: Predicate, value: Any, domain: Domain, *, multiple: bool, negated: bool) -> bool:
    """Return whether the value of a name, None where absent, satisfies a predicate or its negation."""
    values = None if value is None else value if multiple else (value,)
    event = Event({} if values is None else {predicate.attribute: values})
    return predicate_holds(predicate, event, domain, negated=negated)


def compare(domain: Domain, op: Op, left: Value, right: Value) -> bool:
    """Return whether left op right."""
    if op is Op.NE:
        return not value_satisfies(domain, Op.EQ, left, right)
    return value_satisfies(domain, op, left, right)
