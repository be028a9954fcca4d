"""Whole columns of computed values admitted by a domain, as `Domain.admit` does for one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tocsin.errors import FormulaFailed
from tocsin.language.formula import numeric_type
from tocsin.language.formula_columns import EXACT, Bools, Column, column_of
from tocsin.language.formula_compare import compare_constant
from tocsin.language.syntax import Op
from tocsin.schema import Domain, NumericDomain, Value


def admit_column(column: Column, domain: Domain, admit: Callable[[Value], Value]) -> Column:
    """Return the column as one of the domain; `admit` admits one value, or raises FormulaFailed, which marks its row.

    Numbers that arrays hold are admitted as arrays; `admit` then only words what is wrong with the others.
    """
    plain = _plain(column, domain)
    if plain is None:
        return _one_by_one(column, domain, admit)
    admitted, wrong = plain
    wrong &= ~column.absent
    if not wrong.any():
        return admitted
    failed = np.zeros(len(column), np.int32) if column.failed is None else column.failed.copy()
    reasons = {reason: number for number, reason in enumerate(column.reasons, 1)}
    for at in np.flatnonzero(wrong).tolist():
        try:
            admit(column.value(at))
        except FormulaFailed as error:
            failed[at] = reasons.setdefault(error.reason, len(reasons) + 1)
    return replace(admitted, absent=admitted.absent | wrong, failed=failed, reasons=tuple(reasons))


def _plain(column: Column, domain: Domain) -> tuple[Column, Bools] | None:
    """Return the admitted column and the rows that are not in the domain; None where arrays cannot tell."""
    if not isinstance(domain, NumericDomain) or column.members is not None or numeric_type(domain) == "decimal":
        return None
    values = column.values
    if ((values > EXACT) | (values < -EXACT)).any():
        return None
    wrong = np.zeros(len(column), np.bool_)
    if domain.minimum is not None:
        wrong |= compare_constant(values, Op.LT, domain.minimum)
    if domain.maximum is not None:
        wrong |= compare_constant(values, Op.GT, domain.maximum)
    if domain.type == "int" and values.dtype == np.float64:
        with np.errstate(invalid="ignore"):  # of rows without a value, anything may stand there
            wrong |= values != np.floor(values)
            values = np.floor(values).astype(np.int64)
    elif domain.type == "float":
        values = values.astype(np.float64)
    return replace(column, domain=domain, values=values), wrong


def _one_by_one(column: Column, domain: Domain, admit: Callable[[Value], Value]) -> Column:
    failed = np.zeros(len(column), np.int32) if column.failed is None else column.failed.copy()
    reasons = {reason: number for number, reason in enumerate(column.reasons, 1)}
    known: dict[Value, Value | FormulaFailed] = {}
    listed = column.to_list()
    for at, value in enumerate(listed):
        if value is None:
            continue
        if value not in known:
            try:
                known[value] = admit(value)
            except FormulaFailed as error:
                known[value] = error
        found = known[value]
        if isinstance(found, FormulaFailed):
            failed[at] = reasons.setdefault(found.reason, len(reasons) + 1)
        listed[at] = None if isinstance(found, FormulaFailed) else found
    return replace(column_of(domain, listed), failed=failed, reasons=tuple(reasons))
