"""Properties of those who subscribe, as columns: one value for each subscription of a table, or none.

A subscription's properties (`with age = 42`) come one by one from bound subscriptions, and by the thousand from the bulk
form. Gathered by TableBuilder, stored by index/properties.py, asked by the rules and formulas of offers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.language.formula_columns import EXACT, ValueColumn, absent_column, column_of
from tocsin.schema import Domain, NumericDomain, Schema, Value

_PLAIN: dict[str, set[type]] = {"int": {int}, "float": {int, float}, "decimal": set()}


@dataclass(frozen=True, slots=True)
class Property:
    """A property: what the schema calls its attribute, and its values by the number of the subscription."""

    attribute: str
    column: ValueColumn


class PropertyGatherer:
    """Gathers the properties of subscriptions, by their names in bound trees (`driver.age`)."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._loose: dict[str, dict[int, Value]] = {}  # taken in one by one: name -> number -> value
        self._chunks: dict[str, list[tuple[npt.NDArray[np.int64], ValueColumn]]] = {}

    def add(self, number: int, properties: Mapping[str, Value]) -> None:
        """Take in the properties of one subscription."""
        for name, value in properties.items():
            self._loose.setdefault(name, {})[number] = value

    def extend(self, name: str, numbers: npt.NDArray[np.int64], values: Sequence[Value]) -> None:
        """Take in a property of many subscriptions, each of which has it."""
        _, domain = self._described(name)
        self._chunks.setdefault(name, []).append((numbers, column_of(domain, values)))

    def finish(self, size: int) -> dict[str, Property]:
        """Return the columns of a table of so many subscriptions; properties that nobody has are left out."""
        for name, values in self._loose.items():
            self.extend(name, np.fromiter(values, np.int64, len(values)), list(values.values()))
        self._loose = {}
        return {name: self._finished(name, size) for name in sorted(self._chunks)}

    def _finished(self, name: str, size: int) -> Property:
        attribute, domain = self._described(name)
        chunks = self._chunks[name]
        joined = united([column for _, column in chunks])
        numbers = np.concatenate([numbers for numbers, _ in chunks])
        values, absent = np.zeros(size, joined.values.dtype), np.ones(size, np.bool_)
        values[numbers], absent[numbers] = joined.values, joined.absent
        return Property(attribute, ValueColumn(domain, values, absent, joined.members))

    def _described(self, name: str) -> tuple[str, Domain]:
        """Return the attribute that a property is of, and its domain."""
        for union in self.schema.unions.values():
            attribute = name.removeprefix(f"{union.subscriber}.")
            if attribute != name and self.schema.event_type(union.subscriber).get(attribute) is not None:
                return attribute, self.schema.domain_of(attribute)
        raise AssertionError(f"no union has the property {name}")


def united(parts: Sequence[ValueColumn]) -> ValueColumn:
    """Return columns of one domain, one after the other, their members and reasons numbered together."""
    if len(parts) == 1:
        return parts[0]
    found = _united_values(parts)
    if all(part.failed is None for part in parts):
        return found
    reasons: dict[str, int] = {}
    failed = []
    for part in parts:
        numbers = np.array([0, *(reasons.setdefault(each, len(reasons) + 1) for each in part.reasons)], np.int32)
        failed.append(np.zeros(len(part), np.int32) if part.failed is None else numbers[part.failed])
    return replace(found, failed=np.concatenate(failed), reasons=tuple(reasons))


def _united_values(parts: Sequence[ValueColumn]) -> ValueColumn:
    absent = np.concatenate([part.absent for part in parts])
    if all(part.members is None for part in parts):
        return ValueColumn(parts[0].domain, np.concatenate([part.values for part in parts]), absent)
    if any(part.members is None and not part.absent.all() for part in parts):  # numbers, some of which no array holds
        return column_of(parts[0].domain, [value for part in parts for value in part.to_list()])
    members: dict[Any, int] = {}
    codes = []
    for part in parts:
        own: tuple[Any, ...] = part.members or ()
        moved = np.array([0 if m is None else members.setdefault(m, len(members)) for m in own] or [0], np.int32)
        codes.append(moved[part.values] if part.members is not None else np.zeros(len(part), np.int32))
    return ValueColumn(parts[0].domain, np.concatenate(codes), absent, tuple(members) or (None,))  # type: ignore[arg-type]


def joined_properties(parts: Sequence[Mapping[str, Property]], sizes: Sequence[int]) -> dict[str, Property]:
    """Return the properties of several tables as those of one; a table that lacks one has no value of it."""
    found: dict[str, Property] = {}
    for name in sorted({name for part in parts for name in part}):
        known = next(part[name] for part in parts if name in part)
        columns = [
            part[name].column if name in part else absent_column(known.column.domain, size)
            for part, size in zip(parts, sizes, strict=True)
            if size
        ]
        if columns:
            found[name] = Property(known.attribute, united(columns))
    return found


def admit_list(domain: Domain, listed: Sequence[Any]) -> list[Any]:
    """Return the values as the domain admits them; raises BadValue.

    Each distinct value is admitted once; numbers within the bounds that need no other form are left as they are.
    """
    kinds = set(map(type, listed))
    if isinstance(domain, NumericDomain) and kinds <= _PLAIN[domain.type]:
        least = -EXACT if domain.minimum is None else max(-EXACT, domain.minimum)
        most = EXACT if domain.maximum is None else min(EXACT, domain.maximum)
        if not listed or (min(listed) >= least and max(listed) <= most):
            return list(listed)
    known: dict[tuple[type, Any], Any] = {}  # true is not 1
    admitted = []
    for value in listed:
        key = type(value), value
        if key not in known:
            known[key] = domain.admit(value)
        admitted.append(known[key])
    return admitted
