"""Lowering: the predicates of a ConjunctionTable as atoms, and the access candidates among them.

An atom is a test on one column: EQ v (some code is v), NE v (present, no code is v), GE v (some code >= v),
LE v (some code <= v) or GENERIC i (one of the remaining predicates, by number). A two-sided range on a unique column
is two atoms; on a multiple column it is generic, because two codes could satisfy one end each.
An access candidate is an equality that a conjunction implies: EQ on a column, or the bucket of a grid that contains
a narrow range. A list (`in`, `contains any`, alternatives on one column) is a candidate too: it implies one of several
equalities, and the conjunction gets a row under each. Excluding a few values is as many NE atoms. Read by index/plan.py (which candidates become keys) and index/build.py (the rest, as rows).

Statistics: how often an event's code in a column falls where, for the planner.

From a sample of coded events where there is one, else from the constants of the subscriptions themselves (people ask
for what there is). Wrong statistics cost speed, never correctness.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import PredicateKind
from tocsin.index.jit import kernel
from tocsin.index.layout import EQ, GE, GENERIC, LE, NE

if TYPE_CHECKING:
    from tocsin.compile.table import ConjunctionTable
    from tocsin.index.coded_batch import CodedBatch


# The kernels below take arrays only, named after what they hold; Numba, not mypy, checks their arithmetic.


SOME_IN, NONE_IN = int(PredicateKind.SOME_IN), int(PredicateKind.NONE_IN)
SOME_OF, NONE_OF = int(PredicateKind.SOME_OF), int(PredicateKind.NONE_OF)
PRESENT, ABSENT, CHECK = int(PredicateKind.PRESENT), int(PredicateKind.ABSENT), int(PredicateKind.CHECK)

GRID_LEVELS = (9, 7, 5, 3)
NARROW = 0.13
LISTED_CODES = 1_024  # that a list may have to be found by each of them
EXCLUDED_CODES = 32  # of which each is an atom of its own
MOST_ATOMS = 200  # of a row, before what excludes values is one generic atom


class Grids(NamedTuple):
    """Equi-depth bucket grids: grid g splits column[g] at boundary[start[g]:start[g + 1]], finest grids first.

    Code v lies in bucket number (count of boundaries <= v).
    """

    column: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    boundary: npt.NDArray[np.int32]


class LoweredAtoms(NamedTuple):
    """Atoms: those of conjunction i are offset[i] .. offset[i + 1]."""

    offset: npt.NDArray[np.int64]
    column: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    value: npt.NDArray[np.int32]
    selectivity: npt.NDArray[np.float32]


class AccessCandidates(NamedTuple):
    """Access candidates: those of conjunction i are offset[i] .. offset[i + 1]."""

    offset: npt.NDArray[np.int64]
    column: npt.NDArray[np.int32]  # column, or columns + grid
    value: npt.NDArray[np.int32]  # where it is a list: its predicate
    codes: npt.NDArray[np.int32]  # how many codes a list has, 1 for others
    selectivity: npt.NDArray[np.float32]
    atom: npt.NDArray[np.int64]  # the EQ or list atom that the key would replace, -1 for a bucket


@dataclass(frozen=True, slots=True)
class Lowered:
    """Atoms and access candidates of conjunctions 0 .. n-1."""

    never: npt.NDArray[np.bool_]  # per conjunction: no event can satisfy it
    atoms: LoweredAtoms
    access: AccessCandidates
    generic: npt.NDArray[np.int32]  # per generic predicate: column, kind, low, high


def choose_grids(table: ConjunctionTable, statistics: Statistics) -> Grids:
    """Return grids, also shifted by half a bucket, for the unique columns that have ranges."""
    ranges = (table.kind == SOME_IN) & (table.high > table.low)
    columns, level, parts = [], [], []
    for column in np.unique(table.column[ranges]):
        codes = 2 * len(table.columns[column].constants) + 1
        if table.columns[column].multiple or codes < 33:
            continue
        start = statistics.start[column]
        cumulative = statistics.cumulative[start : start + codes + 1]
        for bits in GRID_LEVELS:
            for shift in (0.0, 0.5):
                quantiles = (np.arange(1 - int(2 * shift), 2**bits) + shift) / 2**bits * cumulative[-1]
                boundary = np.unique(np.clip(np.searchsorted(cumulative, quantiles), 1, codes - 1))
                columns.append(column)
                level.append(bits)
                parts.append(boundary.astype(np.int32))
    start_of_grid = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=start_of_grid[1:])
    return Grids(
        np.array(columns, np.int32),
        np.array(level, np.int32),
        start_of_grid,
        np.concatenate([*parts, np.zeros(0, np.int32)]),
    )


def lower(table: ConjunctionTable, statistics: Statistics, grids: Grids) -> Lowered:
    """Return the atoms and access candidates of every conjunction."""
    codes = np.array([2 * len(column.constants) + 1 for column in table.columns], np.int32)
    multiple = np.array([column.multiple for column in table.columns], np.bool_)
    generic, generic_number = _number_generic(table, multiple)
    never, atoms, access = _lower(table.predicates, codes, multiple, generic_number, statistics, grids)
    return Lowered(never, atoms, access, generic)


def _number_generic(
    table: ConjunctionTable, multiple: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the distinct predicates that may need a generic atom, and the number of each predicate's (-1: none)."""
    kind = table.kind
    ranged = ((kind == SOME_IN) & multiple[table.column]) | (kind == NONE_IN)
    maybe = (kind == SOME_OF) | (kind == NONE_OF) | (kind == PRESENT) | (kind == ABSENT)
    chosen = np.flatnonzero(maybe | (ranged & (table.high > table.low)))
    number = np.full(len(kind), -1, np.int32)
    if not len(chosen):
        return np.zeros((0, 4), np.int32), number
    fields = np.stack([table.column[chosen].astype(np.int32), kind[chosen].astype(np.int32),
                       table.low[chosen], table.high[chosen]], axis=1)  # fmt: skip
    bare = fields[:, 1] >= SOME_OF
    fields[bare, 3] = fields[bare, 2]
    fields[fields[:, 1] >= PRESENT, 2:] = 0
    distinct, number[chosen] = np.unique(fields, axis=0, return_inverse=True)
    return np.ascontiguousarray(distinct, np.int32), number


@kernel
def _lower(predicates, codes, multiple, generic_number, statistics, grids):
    """Return never, atoms and access of Lowered; the meaning of each atom is in the module's head."""
    offset, column, kind, low, high, set_offset, set_low, set_high = predicates
    cumulative_start, cumulative = statistics
    grid_column, grid_level, grid_start, boundary = grids
    n, m, columns = len(offset) - 1, len(column), len(codes)
    never = np.zeros(n, np.bool_)
    atom_offset, access_offset = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    access_column, access_value, access_codes = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.int32)
    access_selectivity, access_atom = np.empty(m, np.float32), np.empty(m, np.int64)
    a, x, most = 0, 0, 2 * m
    for j in range(m):
        if kind[j] == NONE_OF:
            most += set_offset[low[j] + 1] - set_offset[low[j]]
    atom_column, atom_kind = np.empty(most, np.int32), np.empty(most, np.uint8)
    atom_value, atom_selectivity = np.empty(most, np.int32), np.empty(most, np.float32)
    for i in range(n):
        for j in range(offset[i], offset[i + 1]):
            c, k = np.int32(column[j]), kind[j]
            if k == CHECK:
                continue
            start, last = cumulative_start[c], codes[c] - 1
            present = cumulative[start + last + 1]
            first_kind, first, second = -1, np.int32(0), np.int32(-1)
            share, listed = present, np.int64(0)
            if k == SOME_IN or k == NONE_IN:
                low_code, high_code = max(low[j], np.int32(0)), min(high[j], last)
                inside = (
                    cumulative[start + high_code + 1] - cumulative[start + low_code] if low_code <= high_code else 0.0
                )
                share = inside if k == SOME_IN else present - inside
                if k == SOME_IN:
                    if low_code > high_code:
                        never[i] = True
                    elif low_code == high_code:
                        first_kind, first = EQ, low_code
                    elif low_code == 0:
                        first_kind, first = LE, high_code
                        if high_code == last:
                            first_kind, first = GE, low_code
                    elif high_code == last:
                        first_kind, first = GE, low_code
                    elif multiple[c]:
                        first_kind, first, listed = GENERIC, generic_number[j], np.int64(high_code - low_code) + 1
                    else:
                        first_kind, first, second = GE, low_code, high_code
                elif low_code == high_code:
                    first_kind, first = NE, low_code
                elif low_code > high_code or multiple[c]:
                    first_kind, first = GENERIC, generic_number[j]
                elif low_code == 0 and high_code == last:
                    never[i] = True
                elif low_code == 0:
                    first_kind, first = GE, high_code + 1
                elif high_code == last:
                    first_kind, first = LE, low_code - 1
                else:
                    first_kind, first = GENERIC, generic_number[j]
                if first_kind == GENERIC and generic_number[j] < 0:
                    # No code lies in an empty interval: the column need only be present.
                    first_kind, first = NE, codes[c]
            elif k == PRESENT and not multiple[c]:
                first_kind, first = GE, np.int32(0)
            else:
                first_kind, first = GENERIC, generic_number[j]
                if k == SOME_OF or k == NONE_OF:
                    inside, codes_in, points = 0.0, np.int64(0), True
                    for s in range(set_offset[low[j]], set_offset[low[j] + 1]):
                        low_code, high_code = max(set_low[s], np.int32(0)), min(set_high[s], last)
                        if low_code <= high_code:
                            inside += cumulative[start + high_code + 1] - cumulative[start + low_code]
                            codes_in += np.int64(high_code - low_code) + 1
                            points = points and low_code == high_code
                    share = inside if k == SOME_OF else present - inside
                    if k == SOME_OF:
                        listed = codes_in
                    elif (
                        points
                        and not multiple[c]
                        and 0 < codes_in <= EXCLUDED_CODES
                        and a - atom_offset[i] + codes_in <= MOST_ATOMS
                    ):
                        for s in range(set_offset[low[j]], set_offset[low[j] + 1]):
                            v = set_low[s]
                            if 0 <= v <= last:
                                rest = present - cumulative[start + v + 1] + cumulative[start + v]
                                atom_column[a], atom_kind[a], atom_value[a] = c, NE, v
                                atom_selectivity[a] = min(max(rest, 1e-9), 1.0)
                                a += 1
                        continue
                elif k == ABSENT:
                    share = 1.0 - present
            if first_kind < 0:
                continue
            share = min(max(share, 1e-9), 1.0)
            atom_column[a], atom_kind[a], atom_value[a], atom_selectivity[a] = c, first_kind, first, share
            if first_kind == EQ:
                access_column[x], access_value[x], access_selectivity[x], access_atom[x] = c, first, share, a
                access_codes[x] = 1
                x += 1
            elif 1 < listed <= LISTED_CODES:
                access_column[x], access_value[x], access_selectivity[x], access_atom[x] = c, j, share, a
                access_codes[x] = listed
                x += 1
            elif k == SOME_IN and not multiple[c] and share < NARROW:
                low_code, high_code = max(low[j], np.int32(0)), min(high[j], last)
                for g in range(len(grid_column)):
                    if grid_column[g] != c:
                        continue
                    part = boundary[grid_start[g] : grid_start[g + 1]]
                    bucket = np.searchsorted(part, low_code, side="right")
                    if bucket == np.searchsorted(part, high_code, side="right"):
                        access_column[x], access_value[x] = columns + g, bucket
                        access_selectivity[x], access_atom[x] = present / (1 << grid_level[g]), -1
                        access_codes[x] = 1
                        x += 1
                        break
            a += 1
            if second >= 0:
                atom_column[a], atom_kind[a], atom_value[a], atom_selectivity[a] = c, LE, second, share
                a += 1
        atom_offset[i + 1], access_offset[i + 1] = a, x
    atoms = LoweredAtoms(
        atom_offset, atom_column[:a].copy(), atom_kind[:a].copy(), atom_value[:a].copy(), atom_selectivity[:a].copy()
    )
    access = AccessCandidates(
        access_offset, access_column[:x].copy(), access_value[:x].copy(), access_codes[:x].copy(),
        access_selectivity[:x].copy(), access_atom[:x].copy(),
    )  # fmt: skip
    return never, atoms, access


# Statistics.


class Statistics(NamedTuple):
    """Cumulative frequencies of codes: column c has cumulative[start[c] : start[c] + codes(c) + 1].

    The frequency of codes low..high in column c is cumulative[start[c] + high + 1] - cumulative[start[c] + low];
    the last entry of a column is the fraction of events in which it is present.
    """

    start: npt.NDArray[np.int64]
    cumulative: npt.NDArray[np.float64]


def code_counts(table: ConjunctionTable) -> npt.NDArray[np.int64]:
    """Return the number of codes of each column: 2 * constants + 1."""
    return np.array([2 * len(column.constants) + 1 for column in table.columns], np.int64)


def statistics_of_sample(codes: npt.NDArray[np.int64], sample: CodedBatch) -> Statistics:
    """Return the statistics of a sample of events; `codes` as of code_counts."""
    parts = []
    for column, count in enumerate(codes):
        multiple = sample.multiples.get(column)
        values = sample.codes[column] if multiple is None else multiple.codes
        histogram = np.bincount(values[values >= 0], minlength=count).astype(np.float64)
        # A value that the sample lacks is rare, not impossible.
        parts.append((histogram + 0.3 / count) / (sample.size + 0.6))
    return _cumulate(codes, parts)


def statistics_of_table(table: ConjunctionTable) -> Statistics:
    """Return statistics that take the constants of the subscriptions for a sample of the events."""
    codes = code_counts(table)
    some = (table.kind == PredicateKind.SOME_IN) | (table.kind == PredicateKind.NONE_IN)
    sets = (table.kind == PredicateKind.SOME_OF) | (table.kind == PredicateKind.NONE_OF)
    set_column, sizes = np.full(len(table.set_offset) - 1, -1, np.int64), np.diff(table.set_offset)
    set_column[table.low[sets]] = table.column[sets]
    parts = []
    for column, count in enumerate(codes):
        mine = some & (table.column == column)
        low, high = table.low[mine], table.high[mine]
        inside = np.repeat(set_column == column, sizes)
        listed = table.set_low[inside], table.set_high[inside]
        low, high = np.concatenate([low, listed[0]]), np.concatenate([high, listed[1]])
        ends = np.concatenate([low[low > 0], high[(high > low) & (high < count)]]).astype(np.int64)
        weight = np.bincount(np.minimum(ends, count - 1), minlength=count) + np.where(np.arange(count) % 2, 0.5, 0.1)
        parts.append(weight / weight.sum())
    return _cumulate(codes, parts)


def _cumulate(codes: npt.NDArray[np.int64], parts: list[npt.NDArray[np.float64]]) -> Statistics:
    start = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(codes + 1, out=start[1:])
    cumulative = np.zeros(start[-1], np.float64)
    for column, part in enumerate(parts):
        np.cumsum(part, out=cumulative[start[column] + 1 : start[column + 1]])
    return Statistics(start, cumulative)
