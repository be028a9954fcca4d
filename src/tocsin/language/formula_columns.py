"""Columns: many values of one domain, as formula_vector.py computes with them.

Numbers of int and float domains are int64 and float64, times are microseconds since 1970; everything else, and columns
with a number that these cannot hold exactly, are coded: each row has the position of its value in `members`. Boolean
columns are coded too. Nothing in a column changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.language.formula import is_numeric, numeric_type
from tocsin.schema import Domain, Value
from tocsin.schema.domain import microseconds

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
EXACT = 2**53  # integers up to here are floats


@dataclass(frozen=True, slots=True)
class Column:
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

    def take(self, rows: npt.NDArray[Any]) -> Column:
        """Return the column of these rows (positions, or a mask)."""
        failed = None if self.failed is None else self.failed[rows]
        return replace(self, values=self.values[rows], absent=self.absent[rows], failed=failed)

    def part(self, span: slice) -> Column:
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


def column_of(domain: Domain, values: Iterable[Value | None]) -> Column:
    """Return the column of canonical values, None where absent."""
    listed = list(values)
    absent = np.fromiter((value is None for value in listed), np.bool_, len(listed))
    plain = _plain(domain, listed)
    if plain is not None:
        return Column(domain, plain, absent)
    return coded_column(domain, listed, absent)


def several_column(domain: Domain, rows: Iterable[tuple[Value, ...] | None]) -> Column:
    """Return the column of rows with any number of canonical values each, None where absent."""
    listed = list(rows)
    if all(row is None or len(row) == 1 for row in listed):
        return column_of(domain, [None if row is None else row[0] for row in listed])
    absent = np.fromiter((row is None for row in listed), np.bool_, len(listed))
    return replace(coded_column(domain, listed, absent), several=True)


def constant_column(domain: Domain, value: Value | None, size: int) -> Column:
    """Return a column with one value in all rows."""
    if type(value) is int and domain.kind == "numeric" and -EXACT <= value <= EXACT:
        kind = numeric_type(domain)
        if kind != "decimal":  # the constants of most formulas
            values = np.empty(size, np.int64 if kind == "int" else np.float64)
            values.fill(value)
            return Column(domain, values, np.zeros(size, np.bool_))
    one = column_of(domain, [value])
    return Column(domain, np.full(size, one.values[0]), np.full(size, one.absent[0]), one.members)


def absent_column(domain: Domain, size: int) -> Column:
    """Return a column without values."""
    return constant_column(domain, None, size)


def coded_column(domain: Domain, listed: Sequence[Any], absent: Bools) -> Column:
    """Return a coded column; equal values of different type (1 and 1.0) share a member."""
    places: dict[Any, int] = {}
    codes = np.fromiter((0 if v is None else places.setdefault(v, len(places)) for v in listed), np.int32, len(listed))
    members = tuple(places) or ((None,) if len(listed) else ())  # a member for code 0 of absent rows
    return Column(domain, codes, absent, members)


def _plain(domain: Domain, listed: Sequence[Any]) -> npt.NDArray[Any] | None:
    """Return the values as an array of numbers; None where numbers cannot hold them."""
    if domain.kind == "time":
        return np.fromiter((0 if v is None else microseconds(v) for v in listed), np.int64, len(listed))
    if not is_numeric(domain) or numeric_type(domain) == "decimal":
        return None
    if numeric_type(domain) == "int":
        if all(value is None or _SMALLEST <= value <= _LARGEST for value in listed):
            return np.fromiter((0 if v is None else v for v in listed), np.int64, len(listed))
        return None
    if all(value is None or isinstance(value, float) or abs(value) <= EXACT for value in listed):
        return np.fromiter((0.0 if v is None else v for v in listed), np.float64, len(listed))
    return None


def joined(parts: Sequence[Column]) -> Column:
    """Return columns of one domain, one after the other; failures are not kept."""
    absent = np.concatenate([part.absent for part in parts])
    if all(part.members is None for part in parts):
        return Column(parts[0].domain, np.concatenate([part.values for part in parts]), absent)
    if all(part.members == parts[0].members for part in parts):
        return Column(parts[0].domain, np.concatenate([part.values for part in parts]), absent, parts[0].members)
    listed = [value for part in parts for value in part.to_list()]
    return column_of(parts[0].domain, listed)
