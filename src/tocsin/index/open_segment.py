"""OpenSegment: what kernels read of a segment, opened once.

A kernel takes the buffer and the directory, opens the segment, and hands it to its helpers as one argument. Sections that a
kernel does not read cost it nothing: the compiler drops them.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, no-any-return, return-value, operator"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, inlined
from tocsin.index.layout import (
    SCALARS,
    Bytes,
    Directory,
    Scalar,
    Section,
    int32_section,
    int64_section,
    uint8_section,
    uint16_section,
    uint64_section,
)

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Atoms = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint64]


class OpenSegment(NamedTuple):
    """Sections and scalars of a segment: see index/layout.py for what each of them holds."""

    atoms: Atoms
    stripe_row: Int32s
    stripe_data: Int32s
    stripe_width: Bytes
    sketches: Atoms
    block_sketch: Int32s
    block_stripe: Int32s
    block_local: Int32s
    block_dense: Int32s
    local_group: Atoms
    local_start: Int32s
    local_value: Int32s
    dense_list: Atoms
    groups: Int32s
    columns: Int32s
    schemas: Int64s
    generic: Int32s
    set_offset: Int32s
    set_low: Int32s
    set_high: Int32s
    filters: Bytes
    block_filter: Int32s
    block_ranges: Int32s
    range_alive: Words
    range_chunk: Int32s
    range_layer: Int64s
    range_rows: Words
    range_start: Atoms
    range_bytes: Bytes
    range_columns: Int32s
    dense_atoms: int
    all_groups: int
    simple_groups: int
    byte_groups: int


@inlined
def open_segment(buffer: Bytes, directory: Directory) -> OpenSegment:
    """Return the sections and scalars that kernels read, without a copy."""
    return OpenSegment(
        uint16_section(buffer, directory, Section.ATOMS),
        int32_section(buffer, directory, Section.STRIPE_ROW),
        int32_section(buffer, directory, Section.STRIPE_DATA),
        uint8_section(buffer, directory, Section.STRIPE_WIDTH),
        uint16_section(buffer, directory, Section.SKETCHES),
        int32_section(buffer, directory, Section.BLOCK_SKETCH),
        int32_section(buffer, directory, Section.BLOCK_STRIPE),
        int32_section(buffer, directory, Section.BLOCK_LOCAL),
        int32_section(buffer, directory, Section.BLOCK_DENSE),
        uint16_section(buffer, directory, Section.LOCAL_GROUP),
        int32_section(buffer, directory, Section.LOCAL_START),
        int32_section(buffer, directory, Section.LOCAL_VALUE),
        uint16_section(buffer, directory, Section.DENSE_LIST),
        int32_section(buffer, directory, Section.GROUPS),
        int32_section(buffer, directory, Section.COLUMNS),
        int64_section(buffer, directory, Section.SCHEMAS),
        int32_section(buffer, directory, Section.GENERIC),
        int32_section(buffer, directory, Section.SET_OFFSET),
        int32_section(buffer, directory, Section.SET_LOW),
        int32_section(buffer, directory, Section.SET_HIGH),
        uint8_section(buffer, directory, Section.FILTERS),
        int32_section(buffer, directory, Section.BLOCK_FILTER),
        int32_section(buffer, directory, Section.BLOCK_RANGES),
        uint64_section(buffer, directory, Section.RANGE_ALIVE),
        int32_section(buffer, directory, Section.RANGE_CHUNK),
        int64_section(buffer, directory, Section.RANGE_LAYER),
        uint64_section(buffer, directory, Section.RANGE_ROWS),
        uint16_section(buffer, directory, Section.RANGE_START),
        uint8_section(buffer, directory, Section.RANGE_BYTES),
        int32_section(buffer, directory, Section.RANGE_COLUMNS),
        directory[SCALARS + Scalar.DENSE_ATOMS],
        directory[SCALARS + Scalar.GROUPS],
        directory[SCALARS + Scalar.SIMPLE_GROUPS],
        directory[SCALARS + Scalar.BYTE_GROUPS],
    )


@helper
def group_and_value(segment: OpenSegment, block: int, atom: int) -> tuple[int, int]:
    """Return the group of an atom of a block (neither TRUE nor FALSE), and its value: a code, or a generic predicate."""
    groups, local_start = segment.groups, segment.local_start
    g = np.int64(0)
    if atom < segment.dense_atoms:
        while groups[4 * g + 2] < 0 or atom >= groups[4 * g + 2] + groups[4 * g + 3]:
            g += 1
        return g, np.int64(atom - groups[4 * g + 2] - 1)
    local = np.int64(segment.block_local[block])
    at = np.int64(local_start[local]) + atom - segment.dense_atoms
    while at >= local_start[local + 1]:
        local += 1
    return np.int64(segment.local_group[local]), np.int64(segment.local_value[at])
