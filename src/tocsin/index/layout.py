"""Layout: the sections of a segment, in one buffer of bytes with a directory of offsets.

A kernel takes the buffer and the directory instead of thirty arrays: one signature, a cheap call, and a file that is
mapped is used as it lies. Written by index/build.py, stored by index/index_folder.py, viewed by index/segment.py and
by every kernel in matching/columnar/.

directory[2 * section] is the section's offset in bytes, directory[2 * section + 1] its length in bytes;
directory[SCALARS + scalar] holds a number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import inlined

Bytes = npt.NDArray[np.uint8]
Directory = npt.NDArray[np.int64]

ALIGNMENT = 64
# Decoding reads and writes whole vectors of 8 numbers, for a word of 64 rows.
PADDING_ROWS = 64
FOREVER = np.iinfo(np.int64).max  # of a seq or a time: what has no end
SKETCH_ROWS = 64


class Section(IntEnum):
    """The sections of a segment, in the order of the file."""

    NUMBERS = 0  # int32 per row: subscription number; ~row where the row has checks
    ATOMS = 1  # uint16, per stripe: rows x width, row-major
    STRIPE_ROW = 2  # int32 per stripe, and one past the end: its first row
    STRIPE_DATA = 3  # int32 per stripe: position of its first atom in ATOMS
    STRIPE_WIDTH = 4  # uint8 per stripe: atoms per row (at least 2)
    SKETCHES = 5  # uint16 x 2 per 64 rows of a block: atoms that all of them imply (see index/row_order.py)
    BLOCK_SKETCH = 6  # int32 per block, and one past the end: its first sketch
    BLOCK_STRIPE = 7  # int32 per block, and one past the end: its first stripe
    BLOCK_LOCAL = 8  # int32 per block, and one past the end: its first local group
    BLOCK_DENSE = 9  # int32 per block, and one past the end: position in DENSE_LIST
    BLOCK_NEXT = 10  # uint8 per block: 1 where the next block belongs to the same cluster
    LOCAL_GROUP = 11  # uint16 per local group: group number
    LOCAL_START = 12  # int32 per local group, and one past the end: position in LOCAL_VALUE
    LOCAL_VALUE = 13  # int32: codes (for GENERIC: numbers of generic predicates), ascending within a local group
    DENSE_LIST = 14  # uint16: dense groups that a block's rows use, in fill order
    GROUPS = 15  # int32 x 4 per group: column, atom kind, first atom (-1: local), atoms (dense) or 0
    SCHEMAS = 16  # int64 x 16 per access schema, see SchemaField
    PROBE_KEY = 17  # uint64: keys of the hash tables of all access schemas
    PROBE_BLOCK = 18  # int32: first block of a cluster by slot of a hash table or by key; -1 none
    BUCKETS = 19  # int32 x 4 per bucket grid: column, level, position in BOUNDARIES, boundaries
    BOUNDARIES = 20  # int32: codes at which a new bucket starts, ascending
    COLUMNS = (
        21  # int32 x 4 per column: codes, slot, position among the multiple columns (-1: unique), 1 if its slot is read
    )
    GENERIC = 22  # int32 x 4 per generic predicate: column, predicate kind, low, high (see compile/table.py)
    SET_OFFSET = 23  # int32 per set, and one past the end
    SET_LOW = 24  # int32
    SET_HIGH = 25  # int32
    CHECKED_ROW = 26  # int32, ascending: rows that have checks
    CHECKED_NUMBER = 27  # int32 per such row: subscription number
    CHECKED_OFFSET = 28  # int32 per such row, and one past the end: position in CHECKED_CHECK
    CHECKED_CHECK = 29  # int32: check numbers
    REPEATED = 30  # uint8 per 8 subscriptions: bit set where a subscription has several rows; empty if none has
    FILTERS = 31  # uint8, 192 per 32 rows of a block that has filters: see index/rows.py
    BLOCK_FILTER = 32  # int32 per block, or empty: its first 192 bytes in FILTERS, counted in such; -1 if it has none
    BLOCK_RANGES = (
        33  # int32 per block, or empty: its first chunk of ranges in bands (see index/ranges.py); -1 if it has none
    )
    RANGE_ALIVE = 34  # uint64 x 8 per chunk: bit set where the row is alive
    RANGE_CHUNK = 35  # int32 per chunk, and one past the end: its first layer
    RANGE_LAYER = (
        36  # int64 per layer: position in RANGE_BYTES, from bit 38 on its ranges, from bit 48 on its range column
    )
    RANGE_ROWS = 37  # uint64 x 8 per layer: bit set where the row has a range in the column
    RANGE_START = 38  # uint16 x 8 per layer: the entry of the first row of each 64
    RANGE_BYTES = 39  # uint8 per layer: lower bands, upper bands, and the lower bits of both ends; and 64 more
    RANGE_COLUMNS = 40  # int32 x 2 per range column: column, lower bits of its codes
    CREATED = 41  # int64 per subscription, or empty: seq of its creation
    DELETED = 42  # int64 per subscription, or empty: seq of its deletion
    LEASE_START = 43  # int64 per subscription, or empty: microseconds
    LEASE_END = 44  # int64 per subscription, or empty: microseconds
    IDS = 45  # int64 per subscription, or UTF-8 text
    ID_OFFSET = 46  # int64 per subscription and one past the end, where ids are texts
    CONSTANTS = 47  # the constants of all columns
    NAMES = 48  # UTF-8 JSON: attributes, derivations, kinds of constants, checks, properties
    PROPERTIES = 49  # property columns: see index/properties.py


class Scalar(IntEnum):
    """The numbers of a segment that are not arrays."""

    SUBSCRIPTIONS = 0
    ROWS = 1
    BLOCKS = 2
    DENSE_ATOMS = 3  # atoms 0 (false), 1 (true) and all dense atoms; local atoms of a block come after
    ROOT = 4  # first block of the root cluster, -1 if it has no row
    SCHEMAS = 5
    SLOTS = 6  # of all columns; those that are read come first
    MULTIPLES = 7
    GROUPS = 8
    IDS_ARE_TEXT = 9
    LARGEST_BLOCK = 10  # rows
    SIMPLE_GROUPS = 11  # so many groups, the first ones, are dense EQ groups of unique columns
    READ_SLOTS = 12  # int32 per event in the event matrix
    BYTE_GROUPS = 13  # so many groups, the first ones, have codes of a byte each; 0 where no block has filters
    SORT_COLUMN = 14  # by whose codes the events of a batch are sorted, so that tiles match alike; -1: none


class SchemaField(IntEnum):
    """Fields of an access schema (int64 each)."""

    WIDTH = 0  # columns in the key, 1 to 3
    COLUMN = 1  # .. 3
    GRID = 4  # .. 6: bucket grid of the column, -1 where its code is the key
    RADIX = 7  # .. 9: key = sum(value * radix)
    START = 10  # of its table in PROBE_BLOCK
    BITS = 11  # log2 of the slots of its hash table; -1: PROBE_BLOCK is addressed by the key itself
    KEY_START = 12  # of its table in PROBE_KEY
    MULTIPLE = 13  # position in the key of its multiple column, -1 none
    KEYS = 14  # number of different keys possible


SCHEMA_FIELDS = 16
SCALARS = 2 * len(Section)
DIRECTORY_LENGTH = SCALARS + 16

# Atom kinds: how a residual predicate tests the codes that an event has in a column.
EQ, NE, GE, LE, GENERIC = 0, 1, 2, 3, 4
FALSE_ATOM, TRUE_ATOM = 0, 1
ABSENT_CODE = -1


def dtype_of(section: Section) -> np.dtype[Any]:
    """Return the element type of a section."""
    found: np.dtype[Any] = np.dtype(_DTYPES.get(section, np.int32))
    return found


_DTYPES: dict[Section, Any] = {
    Section.ATOMS: np.uint16,
    Section.SKETCHES: np.uint16,
    Section.STRIPE_WIDTH: np.uint8,
    Section.BLOCK_NEXT: np.uint8,
    Section.LOCAL_GROUP: np.uint16,
    Section.DENSE_LIST: np.uint16,
    Section.SCHEMAS: np.int64,
    Section.PROBE_KEY: np.uint64,
    Section.REPEATED: np.uint8,
    Section.FILTERS: np.uint8,
    Section.RANGE_ALIVE: np.uint64,
    Section.RANGE_LAYER: np.int64,
    Section.RANGE_ROWS: np.uint64,
    Section.RANGE_START: np.uint16,
    Section.RANGE_BYTES: np.uint8,
    Section.CREATED: np.int64,
    Section.DELETED: np.int64,
    Section.LEASE_START: np.int64,
    Section.LEASE_END: np.int64,
    Section.IDS: np.uint8,
    Section.ID_OFFSET: np.int64,
    Section.CONSTANTS: np.uint8,
    Section.NAMES: np.uint8,
    Section.PROPERTIES: np.uint8,
}


def pack(sections: dict[Section, npt.NDArray[Any]], scalars: dict[Scalar, int]) -> tuple[Bytes, Directory]:
    """Return one buffer that holds all sections, each at a multiple of 64 bytes, and its directory."""
    directory = np.zeros(DIRECTORY_LENGTH, np.int64)
    position = 0
    for section in Section:
        array = sections.get(section)
        size = 0 if array is None else array.nbytes
        directory[2 * section], directory[2 * section + 1] = position, size
        position += -(-size // ALIGNMENT) * ALIGNMENT
    for scalar, value in scalars.items():
        directory[SCALARS + scalar] = value
    buffer = np.zeros(position, np.uint8)
    for section, array in sections.items():
        assert array.dtype == dtype_of(section), (section.name, array.dtype)
        start = directory[2 * section]
        buffer[start : start + array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    return buffer, directory


@inlined
def int32_section(buffer: Bytes, directory: Directory, section: int) -> npt.NDArray[np.int32]:
    """Return the section as int32, without a copy."""
    start = directory[2 * section]
    return buffer[start : start + directory[2 * section + 1]].view(np.int32)


@inlined
def int64_section(buffer: Bytes, directory: Directory, section: int) -> npt.NDArray[np.int64]:
    """Return the section as int64, without a copy."""
    start = directory[2 * section]
    return buffer[start : start + directory[2 * section + 1]].view(np.int64)


@inlined
def uint16_section(buffer: Bytes, directory: Directory, section: int) -> npt.NDArray[np.uint16]:
    """Return the section as uint16, without a copy."""
    start = directory[2 * section]
    return buffer[start : start + directory[2 * section + 1]].view(np.uint16)


@inlined
def uint8_section(buffer: Bytes, directory: Directory, section: int) -> Bytes:
    """Return the section as bytes, without a copy."""
    start = directory[2 * section]
    return buffer[start : start + directory[2 * section + 1]]


@inlined
def uint64_section(buffer: Bytes, directory: Directory, section: int) -> npt.NDArray[np.uint64]:
    """Return the section as uint64, without a copy."""
    start = directory[2 * section]
    return buffer[start : start + directory[2 * section + 1]].view(np.uint64)
