"""Explaining a segment: its conjunctions as a table again, and the plan of one subscription.

A row and the key of its cluster say all that a conjunction asks, so that nothing else is stored: merging
can read segments back through `table_of`, and `plan` shows people what the planner chose.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import ConjunctionTable, PredicateKind
from tocsin.index.jit import kernel
from tocsin.index.layout import (
    GE,
    GENERIC,
    LE,
    NE,
    SCHEMA_FIELDS,
    Bytes,
    Directory,
    Scalar,
    SchemaField,
    Section,
)
from tocsin.index.open_segment import group_and_value, open_segment
from tocsin.index.ranges import CHUNK, PARTS, entry_of, layer_ends, layer_of
from tocsin.schema.shown import Shown, ShownTable

if TYPE_CHECKING:
    from tocsin.index.segment import Segment

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

SOME_IN, NONE_IN, CHECK = int(PredicateKind.SOME_IN), int(PredicateKind.NONE_IN), int(PredicateKind.CHECK)


@dataclass(frozen=True, slots=True)
class ConjunctionPlan:
    """How one conjunction is found: by which columns, in a cluster of how many rows, with how many residual atoms."""

    access: tuple[str, ...]  # empty: the root cluster
    cluster_rows: int
    residual_atoms: int
    visited: float  # the share of events that are expected to visit the cluster


class ConjunctionPlans(list[ConjunctionPlan], Shown):
    """How each conjunction of a subscription is found."""

    def as_table(self) -> ShownTable:
        rows = [
            (
                ", ".join(one.access) or "(every event)",
                str(one.cluster_rows),
                str(one.residual_atoms),
                f"{one.visited:.2%}",
            )
            for one in self
        ]
        return ShownTable("How it is found", ("by", "rows beside it", "left to check", "events that come by"), rows)


def describe_schemas(segment: Segment) -> list[tuple[str, ...]]:
    """Return the columns of each access schema; a bucket grid is shown as attribute/2**level."""
    return [_describe(segment, schema) for schema in range(segment.scalar(Scalar.SCHEMAS))]


def _describe(segment: Segment, schema: int) -> tuple[str, ...]:
    record = segment.section(Section.SCHEMAS).reshape(-1, SCHEMA_FIELDS)[schema]
    buckets = segment.section(Section.BUCKETS).reshape(-1, 4)
    names = []
    for t in range(record[SchemaField.WIDTH]):
        column, grid = segment.columns[record[SchemaField.COLUMN + t]], record[SchemaField.GRID + t]
        name = column.attribute if column.derivation == "value" else f"{column.attribute} {column.derivation}"
        names.append(name if grid < 0 else f"{name}/{2 ** buckets[grid, 1]}")
    return tuple(names)


def plan_of(segment: Segment, number: int, visited: npt.NDArray[np.float64] | None = None) -> ConjunctionPlans:
    """Return the plan of each conjunction of a subscription.

    `visited` is the share of events that visit each block. Without it, events are taken to be as the subscriptions are:
    a key that one in ten rows of an access schema has is one that an event in ten has.
    """
    schema_of, _ = block_keys(segment)
    stripe_row, block_stripe = segment.section(Section.STRIPE_ROW), segment.section(Section.BLOCK_STRIPE)
    block_row = stripe_row[block_stripe]
    more = segment.section(Section.BLOCK_NEXT)
    plans = ConjunctionPlans()
    for row in segment.rows_of(number):
        block = int(np.searchsorted(block_row, row, side="right")) - 1
        first = last = block
        while first > 0 and more[first - 1]:
            first -= 1
        while more[last]:
            last += 1
        stripe = int(np.searchsorted(stripe_row, row, side="right")) - 1
        width = int(segment.section(Section.STRIPE_WIDTH)[stripe])
        at = int(segment.section(Section.STRIPE_DATA)[stripe]) + int(row - stripe_row[stripe]) * width
        residual = int((segment.section(Section.ATOMS)[at : at + width] > 1).sum()) + ranges_of_row(segment, block, row)
        access = _describe(segment, schema_of[block]) if schema_of[block] >= 0 else ()
        rows = int(block_row[last + 1] - block_row[first])
        if not access:
            share = 1.0
        elif visited is None:
            share = rows / int(np.diff(block_row)[schema_of == schema_of[block]].sum())
        else:
            share = float(visited[first])
        plans.append(ConjunctionPlan(access, rows, residual, share))
    return plans


def ranges_of_row(segment: Segment, block: int, row: int) -> int:
    """Return how many ranges in bands (index/ranges.py) a row of a block has."""
    block_ranges = segment.section(Section.BLOCK_RANGES)
    if not len(block_ranges) or block_ranges[block] < 0:
        return 0
    place = int(row - segment.section(Section.STRIPE_ROW)[segment.section(Section.BLOCK_STRIPE)[block]])
    chunk = block_ranges[block] + place // CHUNK
    first, end = segment.section(Section.RANGE_CHUNK)[chunk : chunk + 2].tolist()
    words = segment.section(Section.RANGE_ROWS).reshape(-1, PARTS)[first:end, place % CHUNK // 64]
    return int((words >> np.uint64(place % 64) & np.uint64(1)).sum())


def block_keys(segment: Segment) -> tuple[Int64s, npt.NDArray[np.uint64]]:
    """Return the access schema (-1: root) and the key of each block."""
    blocks = segment.scalar(Scalar.BLOCKS)
    schema_of, key_of = np.full(blocks, -1, np.int64), np.zeros(blocks, np.uint64)
    table, keys = segment.section(Section.PROBE_BLOCK), segment.section(Section.PROBE_KEY)
    for s, record in enumerate(segment.section(Section.SCHEMAS).reshape(-1, SCHEMA_FIELDS)):
        bits, start = record[SchemaField.BITS], record[SchemaField.START]
        size = record[SchemaField.KEYS] if bits < 0 else 1 << bits
        slots = table[start : start + size]
        used = np.flatnonzero(slots >= 0)
        schema_of[slots[used]] = s
        key_start = record[SchemaField.KEY_START]
        key_of[slots[used]] = used.astype(np.uint64) if bits < 0 else keys[key_start + used]
    for block in np.flatnonzero(segment.section(Section.BLOCK_NEXT)):
        schema_of[block + 1], key_of[block + 1] = schema_of[block], key_of[block]
    return schema_of, key_of


def row_predicates(segment: Segment) -> tuple[Int64s, npt.NDArray[np.uint16], npt.NDArray[np.uint8], Int32s, Int32s]:
    """Return what the segment's living rows ask, checks left out: row (ascending), column, kind, low and high of each."""
    return _decompile(segment.buffer, segment.directory, *block_keys(segment), segment.alive_rows())


def table_of(segment: Segment, chosen: npt.NDArray[np.bool_] | None = None) -> ConjunctionTable:
    """Return the conjunctions of the segment's living rows, of the chosen ones among them, ordered by subscription.

    In the segment's code space.
    """
    schema_of, key_of = block_keys(segment)
    alive = segment.alive_rows() if chosen is None else segment.alive_rows() & chosen
    row_of, column, kind, low, high = _decompile(segment.buffer, segment.directory, schema_of, key_of, alive)
    checked = segment.section(Section.CHECKED_ROW)
    count = np.diff(segment.section(Section.CHECKED_OFFSET))
    check_row = np.repeat(checked, count)
    living = alive[check_row]
    checks = segment.section(Section.CHECKED_CHECK)[living]
    row_of = np.concatenate([row_of, check_row[living].astype(np.int64)])
    extra = np.full(len(checks), CHECK)
    kind = np.concatenate([kind, extra.astype(np.uint8)])
    column = np.concatenate([column, np.zeros(len(checks), np.uint16)])
    low, high = np.concatenate([low, checks]), np.concatenate([high, checks])
    rows = np.flatnonzero(alive)
    rows = rows[np.argsort(segment.numbers_of_rows()[rows], kind="stable")]
    position = np.zeros(len(alive), np.int64)
    position[rows] = np.arange(len(rows))
    order = np.argsort(position[row_of], kind="stable")
    offset = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.bincount(position[row_of], minlength=len(rows)), out=offset[1:])
    return ConjunctionTable(
        columns=segment.columns, ids=segment.ids, subscription=segment.numbers_of_rows()[rows].astype(np.int64),
        offset=offset, column=column[order], kind=kind[order], low=low[order], high=high[order],
        set_offset=segment.section(Section.SET_OFFSET).astype(np.int64), set_low=segment.section(Section.SET_LOW),
        set_high=segment.section(Section.SET_HIGH), checks=segment.checks, properties=segment.properties,
    )  # fmt: skip


@kernel
def _decompile(
    buffer: Bytes, directory: Directory, schema_of: Int64s, key_of: npt.NDArray[np.uint64],
    alive: npt.NDArray[np.bool_],
) -> tuple[Int64s, npt.NDArray[np.uint16], npt.NDArray[np.uint8], Int32s, Int32s]:  # fmt: skip
    """Return the predicates of all living rows: row, column, kind, low, high; GE and LE of a row become one range."""
    segment = open_segment(buffer, directory)
    groups, columns, atoms, stripe_row, generic = (
        segment.groups,
        segment.columns,
        segment.atoms,
        segment.stripe_row,
        segment.generic,
    )
    room = len(atoms) + 3 * len(alive)
    for layer in range(len(segment.range_layer)):
        _, _, size = layer_of(segment.range_layer, layer)
        room += size
    row_of, column_of = np.empty(room, np.int64), np.empty(room, np.uint16)
    kind_of, low_of, high_of = np.empty(room, np.uint8), np.empty(room, np.int32), np.empty(room, np.int32)
    p = 0
    for b in range(len(schema_of)):
        for s in range(segment.block_stripe[b], segment.block_stripe[b + 1]):
            width = np.int64(segment.stripe_width[s])
            for r in range(stripe_row[s], stripe_row[s + 1]):
                if not alive[r]:
                    continue
                begin = p
                if schema_of[b] >= 0:
                    record = segment.schemas[schema_of[b] * SCHEMA_FIELDS : (schema_of[b] + 1) * SCHEMA_FIELDS]
                    rest = np.int64(key_of[b])
                    for t in range(record[SchemaField.WIDTH]):
                        value = rest // record[SchemaField.RADIX + t]
                        rest -= value * record[SchemaField.RADIX + t]
                        if record[SchemaField.GRID + t] < 0:
                            row_of[p], column_of[p], kind_of[p] = r, record[SchemaField.COLUMN + t], SOME_IN
                            low_of[p], high_of[p] = value, value
                            p += 1
                at = np.int64(segment.stripe_data[s]) + np.int64(r - stripe_row[s]) * width
                for z in range(at, at + width):
                    atom = np.int64(atoms[z])
                    if atom < 2:
                        continue
                    g, value = group_and_value(segment, b, atom)
                    c, kind = groups[4 * g], groups[4 * g + 1]
                    last = columns[4 * c] - 1
                    low, high, predicate = value, value, SOME_IN
                    if kind == NE:
                        predicate = NONE_IN
                    elif kind == GE:
                        high = np.int64(last)
                    elif kind == LE:
                        low = np.int64(0)
                    elif kind == GENERIC:
                        predicate = np.int64(generic[4 * value + 1])
                        low, high = np.int64(generic[4 * value + 2]), np.int64(generic[4 * value + 3])
                    merged = False
                    if (kind == GE or kind == LE) and columns[4 * c + 2] < 0:
                        for q in range(begin, p):
                            if column_of[q] == c and kind_of[q] == SOME_IN:
                                low_of[q], high_of[q] = max(low_of[q], low), min(high_of[q], high)
                                merged = True
                    if not merged:
                        row_of[p], column_of[p], kind_of[p], low_of[p], high_of[p] = r, c, predicate, low, high
                        p += 1
                if len(segment.block_ranges) == 0 or segment.block_ranges[b] < 0:
                    continue
                place = np.int64(r - stripe_row[segment.block_stripe[b]])
                chunk = np.int64(segment.block_ranges[b]) + place // CHUNK
                for layer in range(segment.range_chunk[chunk], segment.range_chunk[chunk + 1]):
                    entry = entry_of(segment.range_rows, segment.range_start, layer, place % CHUNK)
                    if entry >= 0:
                        k, base, size = layer_of(segment.range_layer, layer)
                        low, high = layer_ends(
                            segment.range_bytes, base, size, entry, np.int64(segment.range_columns[2 * k + 1])
                        )
                        row_of[p], column_of[p], kind_of[p] = r, segment.range_columns[2 * k], SOME_IN
                        low_of[p], high_of[p] = low, high
                        p += 1
    return row_of[:p].copy(), column_of[:p].copy(), kind_of[:p].copy(), low_of[:p].copy(), high_of[:p].copy()
