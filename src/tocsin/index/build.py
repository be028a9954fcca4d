"""Building: a ConjunctionTable becomes an immutable Segment.

Steps: statistics -> grids -> lowering to atoms -> access schemas -> clusters, cut into blocks -> rows of atom numbers
-> tables that find a block by key. Everything is ordered by radix sort, so that the same table gives the same bytes.
Neighbours: index/lowering.py, index/plan.py, index/row_sections.py, index/layout.py (what the arrays mean).
"""

# The kernels of index/rows.py are typed by Numba, not by mypy.
# mypy: allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.index import rows
from tocsin.index.layout import (
    EQ,
    GENERIC,
    SCHEMA_FIELDS,
    Scalar,
    SchemaField,
    Section,
    pack,
)
from tocsin.index.lowering import Grids, Lowered, Statistics, choose_grids, code_counts, lower, statistics_of_table
from tocsin.index.names import names_sections
from tocsin.index.plan import MAX_WIDTH, AccessColumns, Placement, PlanCosts, Schema, choose_schemas, place
from tocsin.index.row_sections import (
    ATOM_NUMBERS,
    ArrangedAtoms,
    add_rows,
    add_subscriptions,
    arrange_atoms,
    choose_ranged,
    order_by_cluster,
)
from tocsin.index.rows import BYTE_CODES, BYTE_GROUPS, Stripes, write_filters
from tocsin.index.segment import Segment

if TYPE_CHECKING:
    from tocsin.compile.table import ConjunctionTable

# A column's atoms are dense (numbered by code, the same in all blocks) up to so many codes: equalities cost nothing
# to fill, ranges cost a pass over all their codes.
DENSE_CODES = {EQ: 8192}
DENSE_CODES_OTHERWISE = 512
DENSE_ATOMS = 32_768

Sections = dict[Section, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """When each subscription is live, for as-of matching; None stands for always (see Segment)."""

    created: npt.NDArray[np.int64] | None = None
    deleted: npt.NDArray[np.int64] | None = None
    lease_start: npt.NDArray[np.int64] | None = None
    lease_end: npt.NDArray[np.int64] | None = None


def build_segment(
    table: ConjunctionTable,
    *,
    statistics: Statistics | None = None,
    lifetimes: Lifetimes | None = None,
    costs: PlanCosts | None = None,
) -> Segment:
    """Return the segment of a table, in memory."""
    statistics = statistics or statistics_of_table(table)
    grids = choose_grids(table, statistics)
    lowered = lower(table, statistics, grids)
    access = _access_columns(table, grids)
    costs = costs or PlanCosts()
    placement = place(table, lowered, access, choose_schemas(lowered, access, costs))
    codes, multiple = code_counts(table), access.multiple[: len(table.columns)]
    ranged = choose_ranged(lowered, placement, codes, multiple, costs)
    placement = replace(placement, replaced=placement.replaced | ranged.interval)  # the rest are atoms of their rows
    sections: Sections = {}
    scalars = {Scalar.SUBSCRIPTIONS: len(table.ids)}
    groups, group_of = _number_groups(lowered, placement, codes, multiple, scalars)
    sections[Section.GROUPS] = groups.reshape(-1)
    order, cluster_start = order_by_cluster(lowered, placement, scalars, ranged)
    arranged = arrange_atoms(lowered, placement, order, group_of)
    row_order = add_rows(
        sections, scalars, arranged, order, cluster_start, groups, lowered, placement, ranged, codes
    )  # fmt: skip
    add_subscriptions(sections, table, placement.conjunction[row_order], lowered.never, placement.several)
    scalars[Scalar.ROOT] = 0 if len(order) and placement.schema[order[0]] < 0 else -1
    _add_filters(sections, scalars, arranged, groups, costs.passing)
    _add_tables(sections, scalars, placement, access, len(table.columns), order, cluster_start)
    _add_columns(sections, scalars, table, grids, lowered)
    names_sections(sections, scalars, table)
    for section, values in zip(
        (Section.CREATED, Section.DELETED, Section.LEASE_START, Section.LEASE_END),
        (lifetimes.created, lifetimes.deleted, lifetimes.lease_start, lifetimes.lease_end) if lifetimes else (),
        strict=False,
    ):
        if values is not None:
            sections[section] = values.astype(np.int64)
    return Segment(*pack(sections, scalars), table.columns, table.properties)


def _access_columns(table: ConjunctionTable, grids: Grids) -> AccessColumns:
    multiple = np.array([column.multiple for column in table.columns], np.bool_)
    return AccessColumns(
        np.concatenate([code_counts(table), np.diff(grids.start) + 1]),
        np.concatenate([multiple, np.zeros(len(grids.column), np.bool_)]),
    )


def _number_groups(
    lowered: Lowered,
    placement: Placement,
    codes: npt.NDArray[np.int64],
    multiple: npt.NDArray[np.bool_],
    scalars: dict[Scalar, int],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the groups (column, kind, first atom or -1, atoms) and the group of each (column * 5 + kind)."""
    used = np.bincount(
        lowered.atoms.column[~placement.replaced] * 5 + lowered.atoms.kind[~placement.replaced],
        minlength=5 * len(codes),
    )
    group_of = np.full(5 * len(codes) + 1, -1, np.int32)
    groups: list[tuple[int, int, int, int]] = []
    dense_atoms = 2
    # Equalities first: those on unique columns that are dense are filled in one tight loop. Of these, the columns whose
    # codes fit a byte, the most used first: filters look at so many columns only.
    simple = 0
    pairs = np.flatnonzero(used)
    other = (pairs % 5 != EQ) | multiple[pairs // 5]
    narrow = ~other & (codes[pairs // 5] <= BYTE_CODES)
    for pair in pairs[np.lexsort((np.where(narrow, -used[pairs], 0), ~narrow, other))]:
        column, kind = divmod(int(pair), 5)
        atoms = int(codes[column]) + 2
        most = DENSE_CODES.get(kind, DENSE_CODES_OTHERWISE)
        dense = kind != GENERIC and atoms <= most and dense_atoms + atoms <= DENSE_ATOMS
        group_of[pair] = len(groups)
        groups.append((column, kind, dense_atoms if dense else -1, atoms if dense else 0))
        dense_atoms += atoms if dense else 0
        if dense and kind == EQ and not multiple[column] and simple == len(groups) - 1:
            simple += 1
    scalars[Scalar.SIMPLE_GROUPS] = simple
    scalars[Scalar.BYTE_GROUPS] = min(simple, int(narrow.sum()), BYTE_GROUPS)
    scalars[Scalar.DENSE_ATOMS] = dense_atoms
    scalars[Scalar.GROUPS] = len(groups)
    return np.array(groups, np.int32).reshape(-1, 4), group_of


def _add_filters(
    sections: Sections, scalars: dict[Scalar, int], atoms: ArrangedAtoms, groups: npt.NDArray[np.int32], passing: float
) -> None:
    """Add the filters of blocks that most pairs fail by two equalities; none, where these are few of all rows."""
    count = scalars[Scalar.BYTE_GROUPS]
    scalars[Scalar.BYTE_GROUPS] = 0
    sections[Section.FILTERS], sections[Section.BLOCK_FILTER] = np.zeros(0, np.uint8), np.zeros(0, np.int32)
    if not count:
        return
    share = np.ones(ATOM_NUMBERS, np.float32)
    share[atoms.number] = atoms.selectivity  # of local atoms too, which differ by block and are not asked for
    byte_group = np.repeat(np.arange(-1, count), [2, *groups[:count, 3].tolist()])
    stripes = Stripes(
        sections[Section.ATOMS], sections[Section.STRIPE_ROW], sections[Section.STRIPE_DATA],
        sections[Section.STRIPE_WIDTH], sections[Section.BLOCK_STRIPE],
    )  # fmt: skip
    filters, block_filter, kept = write_filters(
        stripes, sections[Section.BLOCK_RANGES], byte_group, groups[:count, 2].astype(np.int64), share, passing
    )
    if kept and 2 * kept >= scalars[Scalar.ROWS]:
        scalars[Scalar.BYTE_GROUPS] = count
        sections[Section.FILTERS], sections[Section.BLOCK_FILTER] = filters, block_filter


def _add_tables(
    sections: Sections, scalars: dict[Scalar, int], placement: Placement, access: AccessColumns, columns: int,
    order: npt.NDArray[np.int64], cluster_start: npt.NDArray[np.int64],
) -> None:  # fmt: skip
    """Add the tables that find the first block of a cluster: by hash, or by the key itself where keys are few."""
    first = order[cluster_start[:-1]]
    schema, key, block = placement.schema[first], placement.key[first], sections[Section.PROBE_BLOCK]
    records = np.zeros((len(placement.schemas), SCHEMA_FIELDS), np.int64)
    key_parts: list[npt.NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
    block_parts: list[npt.NDArray[np.int32]] = [np.zeros(0, np.int32)]
    start = key_start = 0
    for s, members in enumerate(placement.schemas):
        record = records[s]
        _describe_schema(record, members, access, columns)
        mine = np.flatnonzero(schema == s)
        record[SchemaField.START], record[SchemaField.KEY_START] = start, key_start
        if record[SchemaField.KEYS] <= max(4096, 6 * len(mine)):
            record[SchemaField.BITS] = -1
            slots = np.full(record[SchemaField.KEYS], -1, np.int32)
            slots[key[mine].astype(np.int64)] = block[mine]
        else:
            bits = max(4, int(np.ceil(np.log2(len(mine) * 1.5 + 1))))
            record[SchemaField.BITS] = bits
            keys, slots = rows.hash_table(key[mine], block[mine], bits)
            key_parts.append(keys)
            key_start += len(keys)
        block_parts.append(slots)
        start += len(slots)
    sections[Section.SCHEMAS] = records.reshape(-1)
    sections[Section.PROBE_KEY] = np.concatenate(key_parts)
    sections[Section.PROBE_BLOCK] = np.concatenate(block_parts)
    scalars[Scalar.SCHEMAS] = len(placement.schemas)


def _describe_schema(record: npt.NDArray[np.int64], members: Schema, access: AccessColumns, columns: int) -> None:
    record[SchemaField.WIDTH] = len(members)
    record[SchemaField.MULTIPLE] = -1
    record[SchemaField.GRID : SchemaField.GRID + MAX_WIDTH] = -1
    radix = 1
    for t in reversed(range(len(members))):
        member = members[t]
        record[SchemaField.COLUMN + t] = member
        record[SchemaField.GRID + t] = member - columns if member >= columns else -1
        record[SchemaField.RADIX + t] = radix
        radix *= int(access.values[member])
        if access.multiple[member]:
            record[SchemaField.MULTIPLE] = t
    record[SchemaField.KEYS] = radix


def _add_columns(
    sections: Sections, scalars: dict[Scalar, int], table: ConjunctionTable, grids: Grids, lowered: Lowered
) -> None:
    """Add columns, the grids that schemas use, and the generic predicates with their sets."""
    schemas = sections[Section.SCHEMAS].reshape(-1, SCHEMA_FIELDS)
    used_grids = np.unique(schemas[:, SchemaField.GRID : SchemaField.GRID + 3])
    used_grids = used_grids[used_grids >= 0]
    records, parts = [], [np.zeros(0, np.int32)]
    start = 0
    for new, grid in enumerate(used_grids):
        boundary = grids.boundary[grids.start[grid] : grids.start[grid + 1]]
        records.append((grids.column[grid], grids.level[grid], start, len(boundary)))
        parts.append(boundary)
        start += len(boundary)
        where = schemas[:, SchemaField.GRID : SchemaField.GRID + 3] == grid
        schemas[:, SchemaField.GRID : SchemaField.GRID + 3][where] = new
        schemas[:, SchemaField.COLUMN : SchemaField.COLUMN + 3][where] = grids.column[grid]
    sections[Section.BUCKETS] = np.array(records, np.int32).reshape(-1)
    sections[Section.BOUNDARIES] = np.concatenate(parts)
    columns = np.zeros((len(table.columns), 4), np.int32)
    groups = sections[Section.GROUPS].reshape(-1, 4)
    # Columns that only simple groups test are read through those: see matching/columnar/events.py.
    read = {*schemas[:, SchemaField.COLUMN : SchemaField.COLUMN + MAX_WIDTH].reshape(-1).tolist()}
    read |= {*groups[scalars[Scalar.SIMPLE_GROUPS] :, 0].tolist(), *sections[Section.RANGE_COLUMNS][::2].tolist()}
    slot = multiples = 0
    for c, column in enumerate(table.columns):
        columns[c] = 2 * len(column.constants) + 1, -1, multiples if column.multiple else -1, c in read
        multiples += column.multiple
    first = [c for c, column in enumerate(table.columns) if c in read or column.multiple]
    for c in (*first, *(c for c in range(len(table.columns)) if c not in first)):
        # A multiple column has three slots: its least code, its greatest code, and whether it is present.
        columns[c, 1], slot = slot, slot + (3 if table.columns[c].multiple else 1)
    scalars[Scalar.READ_SLOTS] = sum(3 if table.columns[c].multiple else 1 for c in first)
    sections[Section.COLUMNS] = columns.reshape(-1)
    sections[Section.GENERIC] = lowered.generic.reshape(-1)
    sections[Section.SET_OFFSET] = table.set_offset.astype(np.int32)
    sections[Section.SET_LOW] = table.set_low.astype(np.int32)
    sections[Section.SET_HIGH] = table.set_high.astype(np.int32)
    scalars[Scalar.SLOTS] = slot
    scalars[Scalar.MULTIPLES] = multiples
