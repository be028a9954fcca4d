"""Checking a segment: every invariant that kernels rely on, asserted. Called by tests and by `Segment.check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tocsin.compile.table import PredicateKind
from tocsin.index.explain import block_keys, row_predicates
from tocsin.index.layout import (
    EQ,
    FALSE_ATOM,
    GE,
    GENERIC,
    LE,
    PADDING_ROWS,
    SCHEMA_FIELDS,
    SKETCH_ROWS,
    TRUE_ATOM,
    Scalar,
    SchemaField,
    Section,
)
from tocsin.index.ranges import CHUNK, PARTS, POSITION_BITS, SIZE_BITS, SPARE_BYTES, band_shift
from tocsin.index.rows import (
    BYTE_GROUPS,
    EQUALITIES,
    FILTER_BYTES,
    FILTER_ROWS,
    MIN_WIDTH,
    SMALL_BLOCK,
    WHERE,
)

if TYPE_CHECKING:
    from tocsin.index.segment import Segment


def check_segment(segment: Segment) -> None:
    """Assert that the sections fit together, that all numbers are in range, and that order is as promised."""
    _check_extents(segment)
    _check_rows(segment)
    _check_atoms(segment)
    _check_sketches(segment)
    _check_local_groups(segment)
    _check_groups(segment)
    _check_tables(segment)
    _check_numbers(segment)
    _check_filters(segment)
    _check_ranges(segment)
    _check_properties(segment)


def _ascending(values: np.ndarray[tuple[int], np.dtype[np.int32]], strictly: bool = False) -> bool:
    steps = np.diff(values.astype(np.int64))
    return bool((steps > 0).all() if strictly else (steps >= 0).all())


def _check_extents(segment: Segment) -> None:
    end = 0
    for section in Section:
        start, size = segment.directory[2 * section], segment.directory[2 * section + 1]
        assert start == end, f"{section.name} starts at {start}, not {end}"
        assert size >= 0
        end = start + -(-size // 64) * 64
    assert end == len(segment.buffer)


def _check_rows(segment: Segment) -> None:
    rows, blocks = segment.scalar(Scalar.ROWS), segment.scalar(Scalar.BLOCKS)
    stripe_row, width = segment.section(Section.STRIPE_ROW), segment.section(Section.STRIPE_WIDTH)
    stripe_data, block_stripe = segment.section(Section.STRIPE_DATA), segment.section(Section.BLOCK_STRIPE)
    assert len(stripe_row) == len(width) + 1 == len(stripe_data) + 1
    assert stripe_row[0] == 0
    assert stripe_row[-1] == rows
    assert _ascending(stripe_row, strictly=True) or rows == 0
    block_ranges = segment.section(Section.BLOCK_RANGES)
    in_bands = (
        np.repeat(block_ranges >= 0, np.diff(block_stripe)) if len(block_ranges) else np.zeros(len(width), np.bool_)
    )
    assert ((width >= MIN_WIDTH) | (in_bands & (width == 0))).all()
    sizes = np.diff(stripe_row).astype(np.int64) * width
    assert np.array_equal(stripe_data, np.concatenate([[0], np.cumsum(sizes)])[:-1])
    assert len(segment.section(Section.ATOMS)) == sizes.sum()
    assert len(block_stripe) == blocks + 1
    assert _ascending(block_stripe, strictly=True) or blocks == 0
    assert block_stripe[-1] == len(width)
    block_rows = np.diff(stripe_row[block_stripe])
    assert (np.diff(block_stripe)[block_rows < SMALL_BLOCK] == 1).all(), "a small block is one stripe"
    assert segment.scalar(Scalar.LARGEST_BLOCK) == block_rows.max(initial=0)
    assert len(segment.section(Section.NUMBERS)) == rows + PADDING_ROWS
    more = segment.section(Section.BLOCK_NEXT)
    assert len(more) == blocks
    assert not blocks or more[-1] == 0


def _check_atoms(segment: Segment) -> None:
    """Atoms are in range for their block."""
    atoms, dense = segment.section(Section.ATOMS), segment.scalar(Scalar.DENSE_ATOMS)
    stripe_row, stripe_data = segment.section(Section.STRIPE_ROW), segment.section(Section.STRIPE_DATA)
    width, block_stripe = segment.section(Section.STRIPE_WIDTH), segment.section(Section.BLOCK_STRIPE)
    local_start, block_local = segment.section(Section.LOCAL_START), segment.section(Section.BLOCK_LOCAL)
    for block in range(segment.scalar(Scalar.BLOCKS)):
        local = local_start[block_local[block + 1]] - local_start[block_local[block]]
        for stripe in range(block_stripe[block], block_stripe[block + 1]):
            rows = stripe_row[stripe + 1] - stripe_row[stripe]
            start = stripe_data[stripe]
            part = atoms[start : start + rows * width[stripe]].reshape(rows, width[stripe])
            assert int(part.max(initial=0)) < dense + local
            assert (part[:, :-1] != 0).all(), "only the last atom of a row may be FALSE"


def _check_sketches(segment: Segment) -> None:
    """There are two atoms for each 64 rows of a block, and every one of these rows that lives implies both."""
    atoms, dense = segment.section(Section.ATOMS), segment.scalar(Scalar.DENSE_ATOMS)
    stripe_row, stripe_data = segment.section(Section.STRIPE_ROW), segment.section(Section.STRIPE_DATA)
    width, block_stripe = segment.section(Section.STRIPE_WIDTH), segment.section(Section.BLOCK_STRIPE)
    sketches, block_sketch = segment.section(Section.SKETCHES), segment.section(Section.BLOCK_SKETCH)
    groups = segment.section(Section.GROUPS).reshape(-1, 4)
    assert np.array_equal(np.diff(block_sketch), -(-np.diff(stripe_row[block_stripe]) // SKETCH_ROWS))
    assert len(sketches) == 2 * block_sketch[-1]
    assert -1 <= segment.scalar(Scalar.SORT_COLUMN) < len(segment.columns)
    dense_group = np.full(dense, -1)
    for g, (_, _, first, size) in enumerate(groups):
        dense_group[first : first + size] = g if first >= 0 else dense_group[first : first + size]
    for block in range(segment.scalar(Scalar.BLOCKS)):
        group_of = np.concatenate([dense_group, _groups_of_local_atoms(segment, block)])
        first_row = stripe_row[block_stripe[block]]
        for stripe in range(block_stripe[block], block_stripe[block + 1]):
            for row in range(stripe_row[stripe], stripe_row[stripe + 1]):
                start = stripe_data[stripe] + (row - stripe_row[stripe]) * int(width[stripe])
                own = atoms[start : start + width[stripe]].astype(np.int64)
                k = 2 * (block_sketch[block] + (row - first_row) // SKETCH_ROWS)
                for implied in sketches[k : k + 2].tolist():
                    if implied == TRUE_ATOM or own[-1:] == FALSE_ATOM:
                        continue
                    g = group_of[implied]
                    alike, kind = own[group_of[own] == g], groups[g, 1]
                    stronger = alike >= implied if kind == GE else alike <= implied if kind == LE else alike == implied
                    assert stronger.any(), f"row {row} does not imply its sketch"


def _groups_of_local_atoms(segment: Segment, block: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    first, end = segment.section(Section.BLOCK_LOCAL)[block : block + 2].tolist()
    sizes = np.diff(segment.section(Section.LOCAL_START)[first : end + 1])
    return np.repeat(segment.section(Section.LOCAL_GROUP)[first:end].astype(np.int64), sizes)


def _check_local_groups(segment: Segment) -> None:
    start, value = segment.section(Section.LOCAL_START), segment.section(Section.LOCAL_VALUE)
    group, block_local = segment.section(Section.LOCAL_GROUP), segment.section(Section.BLOCK_LOCAL)
    groups = segment.section(Section.GROUPS).reshape(-1, 4)
    assert len(start) == len(group) + 1
    assert start[-1] == len(value)
    assert block_local[-1] == len(group)
    assert (groups[group, 2] < 0).all(), "a local group is not dense"
    for i in range(len(group)):
        assert _ascending(value[start[i] : start[i + 1]], strictly=True)
    for block in range(segment.scalar(Scalar.BLOCKS)):
        assert _ascending(group[block_local[block] : block_local[block + 1]], strictly=True)


def _check_groups(segment: Segment) -> None:
    """Dense groups follow one another from atom 2 on; the simple ones come first."""
    groups = segment.section(Section.GROUPS).reshape(-1, 4)
    columns = segment.section(Section.COLUMNS).reshape(-1, 4)
    assert len(groups) == segment.scalar(Scalar.GROUPS)
    position = 2
    for i, (column, kind, first, size) in enumerate(groups):
        if i < segment.scalar(Scalar.SIMPLE_GROUPS):
            assert kind == EQ
            assert first >= 0
            assert columns[column, 2] < 0
        if first >= 0:
            assert kind != GENERIC
            assert first == position
            assert size == columns[column, 0] + 2
            position += size
    assert position == segment.scalar(Scalar.DENSE_ATOMS)
    dense, block_dense = segment.section(Section.DENSE_LIST), segment.section(Section.BLOCK_DENSE)
    assert block_dense[-1] == len(dense)
    assert (groups[dense, 2] >= 0).all()


def _check_tables(segment: Segment) -> None:
    """Every cluster but the root is found by exactly one key, and keys are in range."""
    schema_of, key_of = block_keys(segment)
    schemas = segment.section(Section.SCHEMAS).reshape(-1, SCHEMA_FIELDS)
    more = segment.section(Section.BLOCK_NEXT)
    root = segment.scalar(Scalar.ROOT)
    root_blocks = 0 if root < 0 else int(np.argmin(more)) + 1
    assert root in {0, -1}
    assert (schema_of[:root_blocks] < 0).all()
    assert (schema_of[root_blocks:] >= 0).all()
    if len(schemas):
        assert (key_of[root_blocks:] < schemas[schema_of[root_blocks:], SchemaField.KEYS].astype(np.uint64)).all()
    firsts = np.concatenate([[True], more[:-1] == 0])[root_blocks:] if len(more) else np.zeros(0, np.bool_)
    pairs = np.stack([schema_of[root_blocks:].astype(np.uint64), key_of[root_blocks:]], axis=1)[firsts]
    assert len(np.unique(pairs, axis=0)) == len(pairs)


def _check_numbers(segment: Segment) -> None:
    numbers, checked = segment.numbers_of_rows(), segment.section(Section.CHECKED_ROW)
    assert ((numbers >= 0) & (numbers < len(segment))).all()
    raw = segment.section(Section.NUMBERS)[: len(numbers)]
    assert np.array_equal(raw[checked], ~checked)
    assert (raw < 0).sum() == len(checked)
    assert _ascending(checked, strictly=True)
    repeated = segment.section(Section.REPEATED)
    several = np.bincount(numbers, minlength=len(segment)) > 1
    if len(repeated):
        bits = np.unpackbits(repeated, bitorder="little")[: len(segment)].astype(np.bool_)
        assert bits.any()
        assert not (bits & ~several).any(), "who has one row is found once"


def _check_filters(segment: Segment) -> None:
    """The filters of a block ask each row for its first equalities on byte groups; dead rows have lost their last atom."""
    filters, block_filter = segment.section(Section.FILTERS), segment.section(Section.BLOCK_FILTER)
    byte_groups = segment.scalar(Scalar.BYTE_GROUPS)
    groups = segment.section(Section.GROUPS).reshape(-1, 4)
    assert byte_groups <= min(segment.scalar(Scalar.SIMPLE_GROUPS), BYTE_GROUPS)
    assert (groups[:byte_groups, 3] <= 257).all(), "codes of byte groups fit a byte"
    assert len(block_filter) == (segment.scalar(Scalar.BLOCKS) if byte_groups else 0)
    atoms, stripe_row = segment.section(Section.ATOMS), segment.section(Section.STRIPE_ROW)
    stripe_data, width = segment.section(Section.STRIPE_DATA), segment.section(Section.STRIPE_WIDTH)
    block_stripe = segment.section(Section.BLOCK_STRIPE)
    group_of = np.repeat(np.arange(-1, byte_groups), [2, *groups[:byte_groups, 3].tolist()])
    parts = 0
    for block in np.flatnonzero(block_filter >= 0):
        assert block_filter[block] == parts
        first = stripe_row[block_stripe[block]]
        parts += -(-int(stripe_row[block_stripe[block + 1]] - first) // FILTER_ROWS)
        mine = filters[block_filter[block] * FILTER_BYTES : parts * FILTER_BYTES]
        asked = mine.reshape(-1, EQUALITIES, 2, FILTER_ROWS).transpose(0, 3, 1, 2).reshape(-1, EQUALITIES, 2)
        for stripe in range(block_stripe[block], block_stripe[block + 1]):
            for row in range(stripe_row[stripe], stripe_row[stripe + 1]):
                start = stripe_data[stripe] + (row - stripe_row[stripe]) * int(width[stripe])
                own = atoms[start : start + width[stripe]].tolist()
                told = [(int(group_of[a]), a) for a in own if 2 <= a < len(group_of)][:EQUALITIES]
                pairs = [[WHERE + g, a - int(groups[g, 2])] for g, a in told] or [[WHERE + BYTE_GROUPS, 0]]
                pairs += pairs[-1:] * (EQUALITIES - len(pairs))
                assert own[-1] == 0 or asked[row - first].tolist() == pairs, f"the filter of row {row}"
    assert len(filters) == parts * FILTER_BYTES


def _check_ranges(segment: Segment) -> None:
    """Chunks and layers follow one another, entries are counted as rows are, and ends are codes of their column."""
    block_ranges, chunk_layer = segment.section(Section.BLOCK_RANGES), segment.section(Section.RANGE_CHUNK)
    records, masks = segment.section(Section.RANGE_LAYER), segment.section(Section.RANGE_ROWS).reshape(-1, PARTS)
    starts = segment.section(Section.RANGE_START).reshape(-1, PARTS)
    alive = segment.section(Section.RANGE_ALIVE).reshape(-1, PARTS)
    range_columns = segment.section(Section.RANGE_COLUMNS).reshape(-1, 2)
    assert len(block_ranges) == (segment.scalar(Scalar.BLOCKS) if len(range_columns) else 0)
    if not len(block_ranges):
        assert not len(records)
        return
    block_row = segment.section(Section.STRIPE_ROW)[segment.section(Section.BLOCK_STRIPE)]
    chunks = position = 0
    for block in np.flatnonzero(block_ranges >= 0):
        assert block_ranges[block] == chunks
        rows = int(block_row[block + 1] - block_row[block])
        for chunk in range(chunks, chunks + -(-rows // CHUNK)):
            held = min(CHUNK, rows - CHUNK * (chunk - chunks))
            there = np.packbits(np.arange(CHUNK) < held, bitorder="little").view(np.uint64)
            assert not (alive[chunk] & ~there).any()
            assert not (masks[chunk_layer[chunk] : chunk_layer[chunk + 1]] & ~there).any()
        chunks += -(-rows // CHUNK)
    assert len(alive) == chunks == len(chunk_layer) - 1
    assert chunk_layer[-1] == len(records) == len(masks) == len(starts)
    for record, mask, start in zip(records.tolist(), masks, starts, strict=True):
        column, shift = range_columns[record >> (POSITION_BITS + SIZE_BITS)].tolist()
        size, sizes = record >> POSITION_BITS & ((1 << SIZE_BITS) - 1), np.bitwise_count(mask)
        assert record & ((1 << POSITION_BITS) - 1) == position
        assert size == sizes.sum()
        assert start.tolist() == [0, *np.cumsum(sizes)[:-1].tolist()]
        codes = int(segment.section(Section.COLUMNS)[4 * column])
        assert shift == band_shift(codes)
        position += 2 * size + (2 * shift * size + 7) // 8
    assert len(segment.section(Section.RANGE_BYTES)) == position + SPARE_BYTES
    predicates = row_predicates(segment)
    last = segment.section(Section.COLUMNS)[::4][predicates[1]] - 1
    some_in = predicates[2] == PredicateKind.SOME_IN
    assert ((predicates[3] >= 0) & (predicates[4] <= last))[some_in].all()


def _check_properties(segment: Segment) -> None:
    for name, each in segment.properties.items():
        column = each.column
        assert len(column.values) == len(column.absent) == len(segment), name
        assert column.values.dtype in (np.int64, np.float64, np.int32), name
        if column.members is not None:
            assert column.values.dtype == np.int32, name
            assert ((column.values >= 0) & (column.values < len(column.members)))[~column.absent].all(), name
