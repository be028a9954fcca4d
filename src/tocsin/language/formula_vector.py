"""Formulas over columns: what semantics.py defines, for many rows at once.

Each node becomes a few NumPy operations over all rows, beside masks of absent and failed ones. Texts and the like are
coded, so a predicate on them is computed once per distinct value. Where numbers leave what int64 and float64 hold
exactly, the row is left to the definition: `by_definition` counts such rows. Functions are called in bulk, for the rows
that need them only.

A column may have failed rows: attributes that could not be computed. A leaf that mentions one fails there, and so does a
formula, as in semantics.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.errors import FormulaFailed
from tocsin.language import formula_columns as comparing
from tocsin.language.formula import (
    ConditionFormula,
    Function,
    ValueFormula,
    domain_of,
    is_numeric,
    numeric_type,
)
from tocsin.language.formula_columns import EXACT, Bools, ValueColumn, absent_column, column_of, constant_column
from tocsin.language.semantics import (
    DIVIDED_BY_ZERO,
    TOO_LARGE,
    Row,
    Situation,
    holds,
    predicate_holds,
    returned,
    typed,
    value_of,
)
from tocsin.language.syntax import (
    And,
    Arithmetic,
    AttributeValue,
    Call,
    Case,
    Comparison,
    Constant,
    Expression,
    Leaf,
    Negative,
    Node,
    Not,
    OperatorCall,
    Or,
    Predicate,
    ScopeCondition,
    Variable,
    names_of,
)
from tocsin.schema import Domain
from tocsin.schema.domain import microseconds

Failed = npt.NDArray[np.int32] | None
_NO_ROW: Row = {}
_FIRST_TIME, _LAST_TIME = (microseconds(end.replace(tzinfo=UTC)) for end in (datetime.min, datetime.max))  # noqa: DTZ901
_FITS_INT64 = 2.0**62  # an estimate of a product below this cannot have overflowed


@dataclass(frozen=True, slots=True)
class Holding:
    """For each row whether a condition holds; a row that failed does not, and `failed` numbers its reason."""

    holds: Bools
    failed: Failed = None
    reasons: tuple[str, ...] = ()
    by_definition: int = 0

    def reason(self, row: int) -> str | None:
        """Return why a row failed, None where it did not."""
        number = 0 if self.failed is None else int(self.failed[row])
        return self.reasons[number - 1] if number else None


def compute_column(
    formula: ValueFormula, columns: Mapping[str, ValueColumn], size: int, constants: Row = _NO_ROW
) -> ValueColumn:
    """Return the formula's value for each of `size` rows; `constants` are the names with one value for all rows."""
    work = _Evaluation(columns, constants, size)
    found = work.term(formula.root, np.ones(size, np.bool_))
    return work.completed(formula, found)


def condition_column(
    formula: ConditionFormula, columns: Mapping[str, ValueColumn], size: int, constants: Row = _NO_ROW
) -> Holding:
    """Return for which of `size` rows the condition holds."""
    work = _Evaluation(columns, constants, size)
    held, failed = work.test(formula.root, np.ones(size, np.bool_), negated=False)
    return work.decided(formula, held.copy(), failed)


class _Evaluation:
    """The evaluation of one formula."""

    def __init__(self, columns: Mapping[str, ValueColumn], constants: Row, size: int) -> None:
        self.columns, self.constants, self.size = columns, constants, size
        self.unsure = np.zeros(size, np.bool_)  # rows for the definition
        self.reasons: dict[str, int] = {}
        self.given: dict[str, npt.NDArray[np.int32]] = {}  # failures of columns, as numbers of reasons here
        for name, column in columns.items():
            if column.failed is not None and column.failed.any():
                self.given[name] = np.array([0, *map(self.reason, column.reasons)], np.int32)[column.failed]

    # --- rows by the definition ---------------------------------------------------------------------------------------

    def row(self, at: int) -> Situation:
        """Return one row as the definition has it."""
        row = dict(self.constants)
        for name, column in self.columns.items():
            if (value := column.value(at)) is not None:
                row[name] = value if column.several else (value,)
        failed = {
            name: FormulaFailed(self.columns[name].reason(at) or "") for name, each in self.given.items() if each[at]
        }
        return Situation(row, failed=failed)

    def mentioned(self, names: Iterable[str]) -> Failed:
        """Return the failure of the first of these names that has one; None where no row has."""
        failed: Failed = None
        for name in names if self.given else ():
            failed = _first(failed, self.given.get(name))
        return failed

    def completed(self, formula: ValueFormula, found: ValueColumn) -> ValueColumn:
        rows = np.flatnonzero(self.unsure)
        if len(rows):
            listed = found.to_list()
            failed = np.zeros(self.size, np.int32) if found.failed is None else found.failed.copy()
            for at in rows.tolist():
                listed[at], failed[at] = None, 0
                try:
                    listed[at] = value_of(formula.root, self.row(at))
                except FormulaFailed as error:
                    failed[at] = self.reason(error.reason)
            found = replace(column_of(found.domain, listed), failed=failed)
        before = self.mentioned(formula.names)
        if before is not None:
            found = replace(found, absent=found.absent | (before != 0), failed=_first(before, found.failed))
        return replace(found, reasons=tuple(self.reasons))

    def decided(self, formula: ConditionFormula, held: Bools, failed: Failed) -> Holding:
        rows = np.flatnonzero(self.unsure)
        if len(rows):
            failed = np.zeros(self.size, np.int32) if failed is None else failed.copy()
            for at in rows.tolist():
                held[at], failed[at] = False, 0
                try:
                    held[at] = holds(formula.root, self.row(at))
                except FormulaFailed as error:
                    failed[at] = self.reason(error.reason)
        return Holding(held, failed, tuple(self.reasons), len(rows))

    def reason(self, text: str) -> int:
        """Return the number of a reason."""
        return self.reasons.setdefault(text, len(self.reasons) + 1)

    # --- values -------------------------------------------------------------------------------------------------------

    def term(self, tree: Expression, active: Bools) -> ValueColumn:
        match tree:
            case Constant(value):
                return self._constant(domain_of(tree), value)
            case AttributeValue(name):
                return self._reference(name, domain_of(tree))
            case Variable(name):
                return self._reference(f"?{name}", domain_of(tree))
            case Negative(part):
                zero = constant_column(domain_of(part), 0, self.size)
                return self._computed("-", zero, self.term(part, active), domain_of(tree))
            case Arithmetic(op, left, right):
                return self._computed(op, self.term(left, active), self.term(right, active), domain_of(tree))
            case Case():
                return self._choice(tree, active)
            case Call(_, arguments, function=function):
                assert function is not None, "a call that was not bound"
                return self._invoked(function, arguments, active)

    def _constant(self, domain: Domain, value: Any) -> ValueColumn:
        try:
            constant = constant_column(domain, None if value is None else typed(value, domain), self.size)
            return self._in_array(constant, domain)
        except FormulaFailed as error:
            failed = np.full(self.size, self.reason(error.reason), np.int32)
            return replace(absent_column(domain, self.size), failed=failed)

    def _reference(self, name: str, domain: Domain) -> ValueColumn:
        column = self.columns.get(name)
        if column is None:
            values = self.constants.get(name)
            return self._constant(domain, values[0] if values is not None and len(values) == 1 else None)
        if column.several:
            column = column_of(
                domain, [row[0] if row is not None and len(row) == 1 else None for row in column.to_list()]
            )
        # Its failures are told where it is mentioned.
        return self._in_array(column if column.failed is None else replace(column, failed=None), domain)

    def _in_array(self, column: ValueColumn, domain: Domain) -> ValueColumn:
        """Return the column as it is used for this domain; rows whose numbers no array holds are left to the definition."""
        if column.members is None or not is_numeric(domain) or numeric_type(domain) == "decimal":
            return column
        self.unsure |= ~column.absent
        return replace(absent_column(domain, self.size), failed=column.failed)

    def _computed(self, op: str, left: ValueColumn, right: ValueColumn, domain: Domain) -> ValueColumn:
        absent = left.absent | right.absent
        failed = _first(left.failed, right.failed)
        if left.members is not None or right.members is not None:
            self.unsure |= ~absent
            return replace(absent_column(domain, self.size), failed=failed)
        usable = ~absent if failed is None else ~absent & (failed == 0)
        a, b = left.values, right.values
        if op in "/%":
            zero = usable & (b == 0)
            if zero.any():
                failed = _marked(failed, zero, self.reason(DIVIDED_BY_ZERO), self.size)
                usable &= ~zero
            b = np.where(b == 0, 1, b)
        if a.dtype == np.int64 and b.dtype == np.int64:
            values, inexact = _integers(op, a, b)
            self.unsure |= inexact & usable
        else:
            with np.errstate(all="ignore"):
                values = _floats(op, a.astype(np.float64), b.astype(np.float64)) + 0.0
        if domain.kind == "time":
            beyond = usable & ~self.unsure & ((values < _FIRST_TIME) | (values > _LAST_TIME))
            if beyond.any():
                failed = _marked(failed, beyond, self.reason(TOO_LARGE), self.size)
            values = np.clip(values, _FIRST_TIME, _LAST_TIME)  # those that are left to the definition, too
        if values.dtype == np.float64:
            infinite = usable & ~np.isfinite(values)
            if infinite.any():
                failed = _marked(failed, infinite, self.reason(TOO_LARGE), self.size)
        return ValueColumn(domain, values, absent if failed is None else absent | (failed != 0), failed=failed)

    def _choice(self, choice: Case, active: Bools) -> ValueColumn:
        domain = domain_of(choice)
        open_rows = active.copy()
        failed: Failed = None
        chosen: list[tuple[Bools, ValueColumn]] = []
        for when, then in choice.branches:
            held, cannot_tell = self.test(when, open_rows, negated=False)
            if cannot_tell is not None:
                failing = open_rows & (cannot_tell != 0)
                failed = _first(failed, np.where(failing, cannot_tell, 0).astype(np.int32))
                open_rows &= ~failing
            rows = open_rows & held
            open_rows &= ~held
            chosen.append((rows, self._in_array(self.term(then, rows), domain)))
        if choice.otherwise is not None:
            chosen.append((open_rows, self._in_array(self.term(choice.otherwise, open_rows), domain)))
        for rows, column in chosen:
            if column.failed is not None:
                failed = _first(failed, np.where(rows, column.failed, 0).astype(np.int32))
        return replace(merged(domain, chosen, self.size), failed=failed)

    def _invoked(self, function: Function, arguments: tuple[Expression, ...], active: Bools) -> ValueColumn:
        pairs = zip(arguments[function.leading :], function.parameters, strict=True)
        given = [self._in_array(self.term(argument, active), domain) for argument, domain in pairs]
        failed: Failed = None
        ready = active & ~self.unsure
        for column in given:
            failed = _first(failed, column.failed)
            ready &= ~column.absent
        if failed is not None:
            ready &= failed == 0
        rows = np.flatnonzero(ready)
        if not len(rows):
            return replace(absent_column(function.returns, self.size), failed=failed)
        typed_columns = [
            _as_domain(column.take(rows), domain) for column, domain in zip(given, function.parameters, strict=True)
        ]
        result = function.bulk(typed_columns) if function.bulk is not None else _one_by_one(function, typed_columns)
        if result.failed is not None and result.failed.any():
            numbers = np.array([0, *map(self.reason, result.reasons)], np.int32)
            spread = np.zeros(self.size, np.int32)
            spread[rows] = numbers[result.failed]
            failed = _first(failed, spread)
        return replace(_spread(result, rows, self.size), failed=failed)

    # --- conditions ---------------------------------------------------------------------------------------------------

    def test(self, node: Node, active: Bools, *, negated: bool) -> tuple[Bools, Failed]:
        match node:
            case And(parts):
                return self._joined(parts, active, negated=negated, conjunction=not negated)
            case Or(parts):
                return self._joined(parts, active, negated=negated, conjunction=negated)
            case Not(part):
                return self.test(part, active, negated=not negated)
        before = None if isinstance(node, Comparison) else self.mentioned(names_of(node))
        if before is None:
            return self._leaf(node, active, negated=negated)
        held, failed = self._leaf(node, active & (before == 0), negated=negated)
        return held & (before == 0), _first(before, failed)

    def _leaf(self, node: Leaf, active: Bools, *, negated: bool) -> tuple[Bools, Failed]:
        match node:
            case Predicate():
                return self._satisfies(node, negated=negated)
            case Comparison(left, op, right):
                assert node.domain is not None
                first, second = self._side(left, active), self._side(right, active)
                failed = _first(first.failed, second.failed)
                valid = active & ~first.absent & ~second.absent
                if failed is not None:
                    valid &= failed == 0
                    failed = np.where(_lacking(first) | _lacking(second), 0, failed)  # false, whatever fails
                held, inexact = comparing.compare_columns(node.domain, op, first, second, valid)
                if inexact is not None:
                    self.unsure |= inexact
                return valid & (held != negated), failed
            case ScopeCondition():
                self.unsure |= active
                return np.zeros(self.size, np.bool_), None
            case OperatorCall(_, arguments):
                assert node.function is not None, "operators are not called from formulas"
                answer = self._invoked(node.function, arguments, active)
                valid = ~answer.absent if answer.failed is None else ~answer.absent & (answer.failed == 0)
                truth = np.array([bool(member) for member in answer.members or ()], np.bool_)
                said = truth[answer.values] if len(truth) else np.zeros(self.size, np.bool_)
                return valid & (said != negated), answer.failed

    def _side(self, tree: Expression, active: Bools) -> ValueColumn:
        """Return a side of a comparison, which fails where something that it mentions did."""
        before = self.mentioned(names_of(tree))
        if before is None:
            return self.term(tree, active)
        found = self.term(tree, active & (before == 0))
        return replace(found, absent=found.absent | (before != 0), failed=_first(before, found.failed))

    def _joined(
        self, parts: tuple[Node, ...], active: Bools, *, negated: bool, conjunction: bool
    ) -> tuple[Bools, Failed]:
        failed: Failed = None
        undecided = np.ones(self.size, np.bool_)
        for part in parts:
            held, cannot_tell = self.test(part, active & undecided, negated=negated)
            deciding = ~held if conjunction else held
            if cannot_tell is not None:
                deciding &= cannot_tell == 0
                failed = _first(failed, cannot_tell)
            undecided &= ~deciding
        if failed is None:
            return undecided if conjunction else ~undecided, None
        failed = np.where(undecided, failed, 0).astype(np.int32)
        return (undecided & (failed == 0) if conjunction else ~undecided), failed

    def _satisfies(self, predicate: Predicate, *, negated: bool) -> tuple[Bools, Failed]:
        column = self.columns.get(predicate.attribute)
        if column is None:
            held = predicate_holds(predicate, self.constants.get(predicate.attribute), negated=negated)
            return np.full(self.size, held, np.bool_), None
        return comparing.predicate_column(predicate, column, negated=negated), None


def _lacking(column: ValueColumn) -> Bools:
    """Return which rows have no value, and did not fail to get one."""
    return column.absent if column.failed is None else column.absent & (column.failed == 0)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _integers(op: str, a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], Bools]:
    """Return a op b, and for which rows int64 (or, for `/`, float64) cannot say it exactly."""
    with np.errstate(all="ignore"):
        if op == "+":
            values = a + b
            return values, ((a ^ values) & (b ^ values)) < 0
        if op == "-":
            values = a - b
            return values, ((a ^ b) & (a ^ values)) < 0
        if op == "*":
            return a * b, np.abs(a.astype(np.float64) * b.astype(np.float64)) >= _FITS_INT64
        if op == "/":
            wide = (np.abs(a) > EXACT) | (np.abs(b) > EXACT) | (a == -(2**63)) | (b == -(2**63))
            return a / b + 0.0, wide
        return a % b, np.zeros(len(a), np.bool_)


def _floats(op: str, a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
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
            return np.mod(a, b)


# --- failures and pieces ----------------------------------------------------------------------------------------------


def _first(one: Failed, other: Failed) -> Failed:
    """Return the failures of one, and of the other where one has none."""
    if one is None or other is None:
        return other if one is None else one
    return np.where(one != 0, one, other)


def _marked(failed: Failed, rows: Bools, number: int, size: int) -> npt.NDArray[np.int32]:
    marked = np.zeros(size, np.int32) if failed is None else failed.copy()
    marked[rows] = number
    return marked


def _as_domain(column: ValueColumn, domain: Domain) -> ValueColumn:
    """Return the column as one of the domain: whole numbers become floats where it is one of floats."""
    if column.members is None and is_numeric(domain) and numeric_type(domain) == "float":
        return replace(column, domain=domain, values=column.values.astype(np.float64))
    if is_numeric(domain) and (column.members is None) != (numeric_type(domain) != "decimal"):
        return column_of(domain, [None if value is None else typed(value, domain) for value in column.to_list()])
    return replace(column, domain=domain)


def merged(domain: Domain, chosen: list[tuple[Bools, ValueColumn]], size: int) -> ValueColumn:
    """Return the column that takes each row from the part that chose it; absent where none did."""
    parts = [(rows, _as_domain(column, domain)) for rows, column in chosen]
    absent = np.ones(size, np.bool_)
    for rows, column in parts:
        absent = np.where(rows, column.absent, absent)
    if all(column.members is None for _, column in parts):
        values = np.zeros(size, parts[0][1].values.dtype)
        for rows, column in parts:
            np.copyto(values, column.values, where=rows)
        return ValueColumn(domain, values, absent)
    members: dict[Any, int] = {}
    codes = np.zeros(size, np.int32)
    for rows, column in parts:
        if column.members is None:
            column = comparing.coded(column)
        places = np.array([members.setdefault(member, len(members)) for member in column.members or ()], np.int32)
        if len(places):
            np.copyto(codes, places[column.values], where=rows)
    return ValueColumn(domain, codes, absent, tuple(members))


def _spread(column: ValueColumn, rows: npt.NDArray[np.intp], size: int) -> ValueColumn:
    """Return a column of `size` rows that has these values in these rows and is absent elsewhere."""
    values = np.zeros(size, column.values.dtype)
    absent = np.ones(size, np.bool_)
    values[rows], absent[rows] = column.values, column.absent
    members = column.members if column.members is None or column.members else (None,)
    return ValueColumn(column.domain, values, absent, members)  # type: ignore[arg-type]


def _one_by_one(function: Function, columns: list[ValueColumn]) -> ValueColumn:
    """Return the results of a function that has no bulk form."""
    size = len(columns[0]) if columns else 1
    failed = np.zeros(size, np.int32)
    reasons: dict[str, int] = {}
    results: list[Any] = []
    listed = [column.to_list() for column in columns]
    for at in range(size):
        try:
            results.append(returned(function, function.scalar(*(values[at] for values in listed))))
        except FormulaFailed as error:
            failed[at] = reasons.setdefault(error.reason, len(reasons) + 1)
            results.append(None)
    return replace(column_of(function.returns, results), failed=failed, reasons=tuple(reasons))
