"""Row sections: the sections of a segment that hold its rows, from the conjunctions and where they are placed.

Called by index/build.py. The atoms of the conjunctions are first put in the order of their clusters; the kernels of
index/rows.py and index/row_order.py then go through them as they lie.
"""

# The kernels are typed by Numba, not by mypy.
# mypy: allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import PredicateKind
from tocsin.index import ranges, row_order, rows
from tocsin.index.layout import GE, LE, PADDING_ROWS, Scalar, Section
from tocsin.index.row_order import radix_order, sort_within

if TYPE_CHECKING:
    from tocsin.compile.table import ConjunctionTable
    from tocsin.index.lowering import Lowered
    from tocsin.index.plan import Placement, PlanCosts

Int64s = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]
Sections = dict[Section, npt.NDArray[Any]]

ATOM_NUMBERS = 65_536
# Events are sorted by a column whose ranges sketch at least this share of all rows.
SORTED_SHARE = 0.25


class ArrangedAtoms(NamedTuple):
    """The atoms that are not replaced by the place of their conjunction; those of row r are offset[r] .. offset[r + 1].

    Rows are here in the order of their clusters.
    """

    offset: Int64s
    kind: npt.NDArray[np.uint8]
    value: npt.NDArray[np.int32]
    selectivity: npt.NDArray[np.float32]
    group: npt.NDArray[np.int32]
    number: npt.NDArray[np.uint16]  # within the block of the row; written by add_rows


@dataclass(frozen=True, slots=True)
class RangedRows:
    """Which conjunctions are stored in bands (index/ranges.py), and which of all atoms are ends of their intervals."""

    conjunction: npt.NDArray[np.bool_]
    interval: npt.NDArray[np.bool_]


def choose_ranged(
    lowered: Lowered, placement: Placement, codes: Int64s, multiple: npt.NDArray[np.bool_], costs: PlanCosts
) -> RangedRows:
    """Return the conjunctions whose rows cost less in bands: those of a cluster that saves more than its words cost."""
    of_ranges = ranges.RangeCosts(costs.ranged, costs.many_codes, costs.local, costs.interval, costs.passing)
    saved = ranges.savings(lowered.atoms, placement.replaced, lowered.never, codes, multiple, of_ranges)
    chosen = np.zeros(len(saved), np.bool_)
    candidates = np.flatnonzero(saved[placement.conjunction] > 0)
    if len(candidates):
        order = candidates[np.lexsort((placement.key[candidates], placement.schema[candidates]))]
        schema, key = placement.schema[order], placement.key[order]
        first = np.flatnonzero(np.append(True, (schema[1:] != schema[:-1]) | (key[1:] != key[:-1])))
        of_cluster = np.add.reduceat(saved[placement.conjunction[order]].astype(np.float64), first)
        atoms = np.repeat(saved > 0, np.diff(lowered.atoms.offset))
        least = costs.bands * len(np.unique(lowered.atoms.column[atoms]))
        worth = np.repeat(of_cluster >= least, np.diff(np.append(first, len(order))))
        chosen[placement.conjunction[order[worth]]] = True
        chosen[placement.conjunction[order[~worth]]] = False  # a conjunction is stored in one way, wherever it has rows
    interval = ranges.interval_atoms(lowered.atoms, placement.replaced, chosen, multiple)
    return RangedRows(chosen, interval)


def order_by_cluster(
    lowered: Lowered, placement: Placement, scalars: dict[Scalar, int], ranged: RangedRows
) -> tuple[Int64s, Int64s]:
    """Return the placed rows ordered by cluster (root first), and where each cluster starts (and the end).

    Clusters that may have to be cut are ordered by their most selective atoms too, so that a part has few atoms of its own.
    Rows in bands come last in their cluster.
    """
    order = radix_order(placement.key, np.flatnonzero(~lowered.never[placement.conjunction]))
    order = radix_order((placement.schema + 1).astype(np.uint64), order)
    schema, key = placement.schema[order], placement.key[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (schema[1:] != schema[:-1]) | (key[1:] != key[:-1])
    start = np.append(np.flatnonzero(new), len(order))
    atoms_before = np.concatenate([[0], np.cumsum(np.diff(lowered.atoms.offset)[placement.conjunction[order]])])
    large = np.flatnonzero(np.diff(atoms_before[start]) > _local_limit(scalars))
    if len(large):
        lead = rows.lead_keys(lowered.atoms, placement.replaced)[placement.conjunction]
        for cluster in large.tolist():
            part = slice(start[cluster], start[cluster + 1])
            order[part] = radix_order(lead, order[part])
    if ranged.conjunction.any():
        order = order[np.lexsort((ranged.conjunction[placement.conjunction[order]], np.cumsum(new)))]
    return order, start


def _local_limit(scalars: dict[Scalar, int]) -> int:
    return ATOM_NUMBERS - scalars[Scalar.DENSE_ATOMS] - 2


def arrange_atoms(
    lowered: Lowered, placement: Placement, order: Int64s, group_of: npt.NDArray[np.int32]
) -> ArrangedAtoms:
    """Return the atoms of the placed rows in that order; group_of has the group of each column * 5 + kind."""
    most = len(lowered.atoms.kind) if len(order) == len(lowered.never) else -1
    offset, column, kind, value, selectivity = rows.arrange(
        placement.conjunction[order], most, lowered.atoms, placement.replaced
    )
    group = group_of[column * 5 + kind]
    return ArrangedAtoms(offset, kind, value, selectivity, group, np.zeros(len(kind), np.uint16))


def add_rows(
    sections: Sections, scalars: dict[Scalar, int], atoms: ArrangedAtoms, order: Int64s, cluster_start: Int64s,
    groups: Groups, lowered: Lowered, placement: Placement, ranged: RangedRows, codes: Int64s,
) -> Int64s:  # fmt: skip
    """Add the rows and their sketches; return the place of each row among those placed."""
    is_local = (groups[:, 2] < 0)[atoms.group] if len(groups) else np.zeros(0, np.bool_)
    conjunction = placement.conjunction[order]
    in_bands = ranged.conjunction[conjunction]
    block_start, block_next = rows.cut_blocks(cluster_start, atoms.offset, is_local, _local_limit(scalars), in_bands)
    block_ranged, range_columns = in_bands[block_start[:-1]], _range_columns(lowered, ranged)
    _number_atoms(sections, scalars, atoms, block_start, is_local, groups)
    rank = np.full(len(codes), len(codes), np.int64)
    rank[range_columns] = np.arange(len(range_columns))
    column_key = ranges.column_keys(
        conjunction, in_bands, lowered.atoms.offset, lowered.atoms.column, ranged.interval, rank
    )  # fmt: skip
    widths, keys, second, row_atoms, row_offset = row_order.row_keys(
        block_start, block_ranged, column_key, atoms, _dimensions(atoms, len(groups)), row_order.curve_tables()
    )
    sorted_rows = sort_within(keys, block_start, sort_within(second, block_start, np.arange(len(keys))))
    built = rows.write_rows(sorted_rows, block_start, widths, row_atoms, row_offset, atoms, is_local, len(groups))
    written, stripe_row, stripe_data, stripe_width, block_stripe, dense_list, block_dense = built
    sketches, block_sketch, sketched = row_order.sketch_rows(sorted_rows, block_start, atoms, len(groups))
    sections |= {
        Section.ATOMS: written, Section.STRIPE_ROW: stripe_row, Section.STRIPE_DATA: stripe_data,
        Section.STRIPE_WIDTH: stripe_width, Section.SKETCHES: sketches, Section.BLOCK_SKETCH: block_sketch,
        Section.BLOCK_STRIPE: block_stripe, Section.BLOCK_DENSE: block_dense, Section.BLOCK_NEXT: block_next,
        Section.DENSE_LIST: dense_list,
    }  # fmt: skip
    _add_ranges(sections, conjunction[sorted_rows], block_start, block_ranged, lowered, ranged, range_columns, codes)
    scalars[Scalar.SORT_COLUMN] = _sort_column(groups, sketched, len(order))
    scalars[Scalar.ROWS] = len(order)
    scalars[Scalar.BLOCKS] = len(block_start) - 1
    scalars[Scalar.LARGEST_BLOCK] = int(np.diff(block_start).max(initial=0))
    sections[Section.PROBE_BLOCK] = np.searchsorted(block_start, cluster_start[:-1]).astype(np.int32)
    return order[sorted_rows]


def _range_columns(lowered: Lowered, ranged: RangedRows) -> npt.NDArray[np.int32]:
    """Return the columns that have ranges in bands, the most used first."""
    used = np.bincount(lowered.atoms.column[ranged.interval], minlength=1)
    order = np.argsort(-used, kind="stable")
    return order[used[order] > 0].astype(np.int32)


def _add_ranges(
    sections: Sections, conjunction: Int64s, block_start: Int64s, block_ranged: npt.NDArray[np.bool_], lowered: Lowered,
    ranged: RangedRows, range_columns: npt.NDArray[np.int32], codes: Int64s,
) -> None:  # fmt: skip
    """Add the ranges in bands; where no block has any, all of their sections are empty."""
    shifts = np.array([ranges.band_shift(int(codes[column])) for column in range_columns], np.int64)
    sections[Section.RANGE_COLUMNS] = np.stack([range_columns, shifts], axis=1).astype(np.int32).reshape(-1)
    if not len(range_columns):
        sections[Section.BLOCK_RANGES] = range_columns
        return
    number_of = np.full(len(codes), -1, np.int64)
    number_of[range_columns] = np.arange(len(range_columns))
    written = ranges.write_ranges(
        conjunction, block_start, block_ranged, lowered.atoms, ranged.interval, number_of, shifts, codes
    )
    kinds = (
        Section.BLOCK_RANGES, Section.RANGE_ALIVE, Section.RANGE_CHUNK, Section.RANGE_LAYER, Section.RANGE_ROWS,
        Section.RANGE_START, Section.RANGE_BYTES,
    )  # fmt: skip
    sections.update(zip(kinds, written, strict=True))


def _number_atoms(
    sections: Sections, scalars: dict[Scalar, int], atoms: ArrangedAtoms, block_start: Int64s,
    is_local: npt.NDArray[np.bool_], groups: Groups,
) -> None:  # fmt: skip
    """Write the number of each atom within its block, and add the local groups."""
    use_atom, use_block, use_start = rows.local_uses(block_start, atoms.offset, is_local)
    value_key = (atoms.group[use_atom].astype(np.uint64) << np.uint64(32)) | atoms.value[use_atom].astype(np.uint64)
    number, local_group, local_start, local_value, block_local = rows.number_local(
        sort_within(value_key, use_start, np.arange(len(value_key))),
        use_block,
        value_key,
        len(block_start) - 1,
        scalars[Scalar.DENSE_ATOMS],
    )
    if len(groups):
        atoms.number[:] = (groups[atoms.group, 2] + 1 + atoms.value).astype(np.uint16)
    atoms.number[use_atom] = number
    sections |= {
        Section.BLOCK_LOCAL: block_local, Section.LOCAL_GROUP: local_group, Section.LOCAL_START: local_start,
        Section.LOCAL_VALUE: local_value,
    }  # fmt: skip


def _dimensions(atoms: ArrangedAtoms, groups: int) -> Int64s:
    """Return which coordinate each group is in the order of rows: the groups of ranges that rows fail by most often."""
    ranges = np.flatnonzero((atoms.kind == GE) | (atoms.kind == LE))
    failing = np.bincount(atoms.group[ranges], 1 - atoms.selectivity[ranges], groups + 1)
    best = np.argsort(-failing, kind="stable")[: row_order.DIMENSIONS]
    dimension = np.full(groups + 1, -1, np.int64)
    dimension[best] = np.arange(len(best))
    dimension[failing == 0] = -1
    return dimension


def _sort_column(groups: Groups, sketched: Int64s, rows: int) -> int:
    """Return the column whose ranges sketch most rows; -1 where these are few."""
    ranges = np.flatnonzero((groups[:, 1] == GE) | (groups[:, 1] == LE))
    of_column = np.bincount(groups[ranges, 0], sketched[ranges], 1)
    best = int(np.argmax(of_column))
    return best if of_column[best] >= SORTED_SHARE * rows > 0 else -1


def add_subscriptions(
    sections: Sections,
    table: ConjunctionTable,
    conjunction: Int64s,
    never: npt.NDArray[np.bool_],
    several: npt.NDArray[np.bool_],
) -> None:
    """Add the subscription of each row, the checks of rows that have any, and which subscriptions events may find twice.

    `several` says which conjunctions they may, by lists of values.
    """
    numbers = np.zeros(len(conjunction) + PADDING_ROWS, np.int32)
    numbers[: len(conjunction)] = table.subscription[conjunction]
    checks = np.flatnonzero(table.kind == PredicateKind.CHECK)
    check_conjunction = np.searchsorted(table.offset, checks, side="right") - 1
    checked = np.zeros(len(table), np.bool_)
    checked[check_conjunction] = True
    row = np.flatnonzero(checked[conjunction])
    count = np.bincount(check_conjunction, minlength=len(table))[conjunction[row]]
    start = np.searchsorted(check_conjunction, conjunction[row])
    offset = np.zeros(len(row) + 1, np.int32)
    np.cumsum(count, out=offset[1:])
    position = np.arange(offset[-1]) - np.repeat(offset[:-1], count) + np.repeat(start, count)
    sections[Section.CHECKED_ROW] = row.astype(np.int32)
    sections[Section.CHECKED_NUMBER] = numbers[row]
    sections[Section.CHECKED_OFFSET] = offset
    sections[Section.CHECKED_CHECK] = table.low[checks[position]].astype(np.int32)
    numbers[row] = ~row.astype(np.int32)
    sections[Section.NUMBERS] = numbers
    multiple = np.array([column.multiple for column in table.columns], np.bool_)
    overlapping = rows.overlapping(table.subscription, len(table.ids), table.predicates, multiple, never)
    overlapping[table.subscription[several & ~never]] = True
    sections[Section.REPEATED] = np.packbits(
        overlapping[: len(overlapping) if overlapping.any() else 0], bitorder="little"
    )
