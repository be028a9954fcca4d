"""Merging tables: the conjunctions of several tables as one, without those of subscriptions that left.

Codes are places among a table's constants, so merging means one sorted list of constants per column and new codes. An
odd code (a constant) keeps its constant. An even code stands for the gap between two constants, and a gap may be cut
in two by constants of the other tables: as the low end of an interval it starts above the constant before it, as the
high end it ends below the constant after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import joined_ids, kept_ids
from tocsin.compile.properties import Property, joined_properties
from tocsin.compile.table import Check, Column, ConjunctionTable, Derivation, PredicateKind
from tocsin.compile.table_builder import joined_keys

Codes = npt.NDArray[np.int32]


def merge_tables(tables: Sequence[ConjunctionTable], kept: Sequence[npt.NDArray[np.bool_]]) -> ConjunctionTable:
    """Return one table with the kept subscriptions (kept[t][number] of table t), in the order of the tables."""
    columns, places = _merge_columns(tables)
    checks: dict[Check, int] = {}
    parts, sets_before = [], 0
    for table, keep, place in zip(tables, kept, places, strict=True):
        parts.append(_recoded(_selected(table, keep), columns, place, checks, sets_before))
        sets_before += len(table.set_offset) - 1
    return _concatenated(columns, parts, list(checks))


# --- columns ----------------------------------------------------------------------------------------------------------


def _merge_columns(tables: Sequence[ConjunctionTable]) -> tuple[list[Column], list[npt.NDArray[np.int64]]]:
    """Return the columns of all tables with their constants united, and where each table's columns went."""
    position: dict[tuple[str, Derivation], int] = {}
    gathered: list[list[Column]] = []
    places = []
    for table in tables:
        place = []
        for column in table.columns:
            at = position.setdefault((column.attribute, column.derivation), len(position))
            if at == len(gathered):
                gathered.append([])
            gathered[at].append(column)
            place.append(at)
        places.append(np.array(place, np.int64))
    return [_united(columns) for columns in gathered], places


def _united(columns: list[Column]) -> Column:
    constants = columns[0].constants
    if len(columns) > 1:
        constants = np.unique(joined_keys([column.constants for column in columns if len(column.constants)]))
    return replace(columns[0], constants=constants, multiple=any(column.multiple for column in columns))


# --- one table --------------------------------------------------------------------------------------------------------


def _selected(table: ConjunctionTable, keep: npt.NDArray[np.bool_]) -> ConjunctionTable:
    """Return the table without the subscriptions that are not kept; their numbers close up."""
    if keep.all():
        return table
    rows = keep[table.subscription]
    predicates = np.repeat(rows, np.diff(table.offset))
    offset = np.zeros(int(rows.sum()) + 1, np.int64)
    np.cumsum(np.diff(table.offset)[rows], out=offset[1:])
    return replace(
        table,
        ids=kept_ids(table.ids, keep),
        subscription=(np.cumsum(keep) - 1)[table.subscription[rows]],
        offset=offset,
        column=table.column[predicates],
        kind=table.kind[predicates],
        low=table.low[predicates],
        high=table.high[predicates],
        properties={name: Property(each.attribute, each.column.take(keep)) for name, each in table.properties.items()},
    )


@dataclass(frozen=True, slots=True)
class _CodeMap:
    """Old code -> new code, for low and for high ends of intervals."""

    low: Codes
    high: Codes


def _code_map(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> _CodeMap:
    place = 2 * np.searchsorted(new, old).astype(np.int32) + 1  # the new code of each old constant
    low, high = np.zeros(2 * len(old) + 1, np.int32), np.full(2 * len(old) + 1, 2 * len(new), np.int32)
    low[1::2] = high[1::2] = place
    low[2::2] = place + 1
    high[:-1:2] = place - 1
    return _CodeMap(low, high)


def _recoded(
    table: ConjunctionTable,
    columns: Sequence[Column],
    place: npt.NDArray[np.int64],
    checks: dict[Check, int],
    sets_before: int,
) -> ConjunctionTable:
    """Return the table in the merged columns' codes, with sets and checks numbered after those of earlier tables."""
    low, high = table.low.copy(), table.high.copy()
    set_low, set_high = table.set_low.copy(), table.set_high.copy()
    set_of_column = _columns_of_sets(table)
    set_sizes = np.diff(table.set_offset)
    for position, column in enumerate(table.columns):
        codes = _code_map(column.constants, columns[place[position]].constants)
        at = (table.column == position) & (table.kind <= PredicateKind.NONE_IN)
        low[at], high[at] = codes.low[low[at]], codes.high[high[at]]
        inside = np.repeat(set_of_column == position, set_sizes)
        set_low[inside], set_high[inside] = codes.low[set_low[inside]], codes.high[set_high[inside]]
    of_set = (table.kind == PredicateKind.SOME_OF) | (table.kind == PredicateKind.NONE_OF)
    numbers = np.array([checks.setdefault(check, len(checks)) for check in table.checks] or [0], np.int32)
    of_check = table.kind == PredicateKind.CHECK
    for ends in (low, high):
        ends[of_set] += sets_before
        ends[of_check] = numbers[ends[of_check]]
    moved = place[table.column].astype(np.uint16) if len(table.column) else table.column
    return replace(table, column=moved, low=low, high=high, set_low=set_low, set_high=set_high)


def _columns_of_sets(table: ConjunctionTable) -> npt.NDArray[np.int64]:
    """Return the column that each set belongs to; -1 where no predicate uses it any more."""
    found = np.full(len(table.set_offset) - 1, -1, np.int64)
    used = (table.kind == PredicateKind.SOME_OF) | (table.kind == PredicateKind.NONE_OF)
    found[table.low[used]] = table.column[used]
    return found


def _concatenated(
    columns: Sequence[Column], parts: Sequence[ConjunctionTable], checks: Sequence[Check]
) -> ConjunctionTable:
    def joined(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    def stacked(name: str, counts: Sequence[int]) -> npt.NDArray[Any]:
        before = np.cumsum([0, *counts[:-1]])
        return np.concatenate([getattr(part, name) + start for part, start in zip(parts, before, strict=True)])

    def offsets(name: str) -> npt.NDArray[np.int64]:
        counts = np.concatenate([np.diff(getattr(part, name)) for part in parts])
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    return ConjunctionTable(
        columns,
        joined_ids([part.ids for part in parts]),
        stacked("subscription", [len(part.ids) for part in parts]),
        offsets("offset"),
        joined("column"),
        joined("kind"),
        joined("low"),
        joined("high"),
        offsets("set_offset"),
        joined("set_low"),
        joined("set_high"),
        checks,
        joined_properties([part.properties for part in parts], [len(part.ids) for part in parts]),
    )
