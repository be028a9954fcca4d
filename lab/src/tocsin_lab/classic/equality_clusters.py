"""Equality clusters: rows found by the values of several equality predicates at once, by multi-attribute hashing.

The schema of a cluster is a set of columns; in it, rows with the same values on these columns form a group. An event is
looked up once in each schema whose columns it has all: O(number of schemas) look-ups, mostly of a slot that is empty.
Used by equality_preferred.py, quarantining.py (schema: all equality predicates of a row) and schema_clustering.py.

A group's values are hashed into one number, which is found by Numbering under (schema, hash, how many groups of this
hash came before); the values themselves are kept and compared, so that no two groups are taken for one another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.jit import helper, kernel
from tocsin_lab.classic.numbering import Numbering, find, hash_key
from tocsin_lab.classic.rows import SOME_IN, CodedEvent, CodedPredicate, Rows, grown

WIDEST_MASK = 62  # columns whose set fits one integer


class RowEqualities(NamedTuple):
    """The equality predicates of many rows: those of row i are offset[i] .. offset[i + 1], by column."""

    offset: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]


class SplitRows(NamedTuple):
    """Many rows with their equality predicates apart from the others."""

    with_equality: npt.NDArray[np.int64]  # row numbers
    equalities: RowEqualities  # of these rows, in this order
    without_equality: npt.NDArray[np.int64]
    other_row: npt.NDArray[np.int64]  # the row of each other predicate, ascending
    others: list[npt.NDArray[np.int64]]  # the other predicates, as columns


def split_rows(rows: Rows, chosen: range, multiple: npt.NDArray[np.bool_]) -> SplitRows:
    """Return rows that were added together, their equality predicates on single-valued columns apart."""
    counts = rows.count[chosen.start : chosen.stop]
    first = int(rows.start[chosen.start])
    part = slice(first, first + int(counts.sum()))
    column, kind, low, high = (np.asarray(field[part], np.int64) for field in rows.predicates)
    row = np.repeat(np.arange(chosen.start, chosen.stop), counts)
    equal = (kind == SOME_IN) & (low == high) & ~multiple[column]
    order = np.flatnonzero(equal)[np.lexsort((column[equal], row[equal]))]
    found, start = np.unique(row[order], return_index=True)
    offset = np.append(start, len(order)).astype(np.int64)
    rest = np.flatnonzero(~equal)
    return SplitRows(
        found,
        RowEqualities(offset, column[order], low[order]),
        np.setdiff1d(np.arange(chosen.start, chosen.stop), found),
        row[rest],
        [field[rest] for field in (column, kind, low, high)],
    )


class EqualityClusters:
    """Schemas and their groups; a group is a number that the engine hangs its rows on."""

    def __init__(self) -> None:
        self.schemas: dict[tuple[int, ...], int] = {}
        self._offset = np.zeros(1, np.int64)  # per schema, and one past the end: its columns
        self._columns = np.zeros(0, np.int64)
        self._numbering = Numbering()
        self._start = np.zeros(16, np.int64)  # per group: where its values start
        self._values = np.zeros(64, np.int64)
        self._used = 0
        self._found = np.zeros(16, np.int64)

    def group(self, equalities: list[CodedPredicate]) -> int:
        """Return the group of the rows with these equality predicates, on distinct columns."""
        ordered = sorted(equalities)
        schema = self._schema(tuple(predicate.column for predicate in ordered))
        values = np.array([predicate.low for predicate in ordered], np.int64)
        hashed, before = int(hash_values(values)), 0
        while True:
            known = len(self._numbering)
            group = self._numbering.number(schema, hashed, before)
            if group == known:
                self._keep(group, values)
                return group
            start = int(self._start[group])
            if np.array_equal(self._values[start : start + len(values)], values):
                return group
            before += 1

    def group_many(self, equalities: RowEqualities) -> npt.NDArray[np.int64]:
        """Return the group of each of many rows, as `group` does."""
        offset, columns, values = equalities
        count = len(offset) - 1
        if len(columns) and int(columns.max()) > WIDEST_MASK:
            return np.array([self._group_of(equalities, row) for row in range(count)], np.int64)
        distinct, which = np.unique(np.bitwise_or.reduceat(1 << columns, offset[:-1]), return_inverse=True)
        schemas = [
            self._schema(tuple(c for c in range(WIDEST_MASK + 1) if mask >> c & 1)) for mask in distinct.tolist()
        ]
        known = len(self._numbering)
        nothing = np.zeros(count, np.int64)
        groups = self._numbering.numbers(np.array(schemas)[which], hash_rows(offset, values), nothing, nothing)
        new, first = np.unique(groups, return_index=True)
        for group, row in zip(new[new >= known].tolist(), first[new >= known].tolist(), strict=True):
            self._keep(group, values[offset[row] : offset[row + 1]])
        for row in np.flatnonzero(differ(offset, values, groups, self._start, self._values)).tolist():
            groups[row] = self._group_of(equalities, row)  # another group has this hash
        return groups

    def _group_of(self, equalities: RowEqualities, row: int) -> int:
        at = slice(int(equalities.offset[row]), int(equalities.offset[row + 1]))
        pairs = zip(equalities.columns[at].tolist(), equalities.values[at].tolist(), strict=True)
        return self.group([CodedPredicate(column, SOME_IN, value, value) for column, value in pairs])

    def _schema(self, columns: tuple[int, ...]) -> int:
        """Return the number of a schema, new or not."""
        schema = self.schemas.setdefault(columns, len(self.schemas))
        if schema == len(self._offset) - 1:
            self._offset = np.append(self._offset, self._offset[-1] + len(columns))
            self._columns = np.append(self._columns, np.array(columns, np.int64))
        return schema

    def _keep(self, group: int, values: npt.NDArray[np.int64]) -> None:
        self._start = grown(self._start, group + 1)
        self._start[group] = self._used
        self._used += len(values)
        self._values = grown(self._values, self._used)
        self._values[self._used - len(values) : self._used] = values

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self._numbering)

    def columns_of(self, group: int) -> tuple[int, ...]:
        """Return the columns of a group's schema."""
        schema = int(self._numbering.arrays.keys[4 * group])
        return tuple(self._columns[self._offset[schema] : self._offset[schema + 1]].tolist())

    def of_event(self, event: CodedEvent) -> npt.NDArray[np.int64]:
        """Return the groups all of whose equality predicates the event satisfies."""
        self._found = grown(self._found, len(self.schemas))
        count = look_up_groups(
            self._offset, self._columns, *self._numbering.arrays[:2], self._start, self._values, *event, self._found
        )
        return self._found[:count]


@kernel
def hash_values(values):  # type: ignore[no-untyped-def]
    hashed = np.int64(0)
    for value in values:
        hashed = hash_key(hashed, value, 0, 0)
    return hashed


@kernel
def hash_rows(offset, values):  # type: ignore[no-untyped-def]
    """Return for each row what hash_values gives for its values."""
    found = np.empty(len(offset) - 1, np.int64)
    for row in range(len(found)):
        hashed = np.int64(0)
        for i in range(offset[row], offset[row + 1]):
            hashed = hash_key(hashed, values[i], 0, 0)
        found[row] = hashed
    return found


@kernel
def differ(offset, values, groups, group_start, group_values):  # type: ignore[no-untyped-def]
    """Return which rows have other values than their group."""
    found = np.zeros(len(groups), np.bool_)
    for row in range(len(groups)):
        start = group_start[groups[row]]
        for i in range(offset[row], offset[row + 1]):
            if group_values[start + i - offset[row]] != values[i]:
                found[row] = True
    return found


@helper
def same_values(start, values, columns, first, last, offset, labels):  # type: ignore[no-untyped-def]
    """Return whether the event's labels in these columns are the values from `start` on."""
    for c in range(first, last):  # noqa: SIM110 (compiled)
        if values[start + c - first] != labels[offset[columns[c]]]:
            return False
    return True


@kernel
def look_up_groups(  # type: ignore[no-untyped-def]
    schema_offset, columns, slots, keys, group_start, values, offset, labels, present, found
):
    """Write the groups of an event that has one label in each of a schema's columns."""
    count = 0
    for schema in range(len(schema_offset) - 1):
        first, last = schema_offset[schema], schema_offset[schema + 1]
        hashed, complete = np.int64(0), True
        for c in range(first, last):
            if not present[columns[c]]:
                complete = False
                break
            hashed = hash_key(hashed, labels[offset[columns[c]]], 0, 0)
        before = 0
        while complete:
            group = slots[find(slots, keys, schema, hashed, before, 0)]
            if group < 0:
                break
            if same_values(group_start[group], values, columns, first, last, offset, labels):
                found[count] = group
                count += 1
                break
            before += 1
    return count
