"""Probing: which blocks an event visits, by the access schemas of a segment.

The root cluster is visited by every event, so its blocks come first. Keys are compared exactly, in the hash table or by
addressing it with the key itself.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, kernel, lean_kernel
from tocsin.index.layout import (
    SCALARS,
    SCHEMA_FIELDS,
    Bytes,
    Directory,
    Scalar,
    SchemaField,
    Section,
    int32_section,
    int64_section,
    uint8_section,
    uint64_section,
)
from tocsin.matching.columnar.events import EventMatrix, Matrix
from tocsin.matching.columnar.workspace import open_workspace

Visits = npt.NDArray[np.uint64]
EVENTS_AT_ONCE = 64
SORT_BUCKETS = 4096
ABSENT_KEY = -(2**63)  # keys are less than 2**62: nothing that is added makes it one


@helper
def count_at_most(values: npt.NDArray[np.int32], start: int, count: int, limit: int) -> int:
    """Return how many of values[start : start + count] (ascending) are <= limit."""
    # Without branches on values: which half it is cannot be predicted.
    low, left = np.uint64(start), np.uint64(count)
    while left > np.uint64(1):
        half = left >> np.uint64(1)
        low += half * np.uint64(values[low + half - np.uint64(1)] <= limit)
        left -= half
    if left > np.uint64(0):
        low += np.uint64(values[low] <= limit)
    return np.int64(low) - start


@helper
def rank_all(
    values: npt.NDArray[np.int32], start: int, count: int, limits: npt.NDArray[np.int32],
    ranks: npt.NDArray[np.int32], m: int,
) -> None:  # fmt: skip
    """ranks[i] = how many of values[start : start + count] (ascending) are <= limits[i], for i < m.

    All searches take the same steps, so that they run side by side.
    """
    ranks[:m] = 0
    left = count
    while left > 1:
        half = left >> 1
        last = start + half - 1
        for i in range(np.uint64(m)):
            ranks[i] += np.int32(half) * np.int32(values[np.uint64(last + ranks[i])] <= limits[i])
        left -= half
    for i in range(np.uint64(m)):
        ranks[i] += np.int32(values[np.uint64(start + ranks[i])] <= limits[i])


@helper
def find_block(
    keys: npt.NDArray[np.uint64], blocks: npt.NDArray[np.int32], start: int, key_start: int, bits: int, key: np.uint64
) -> int:
    """Return the first block of the cluster with this key, -1 if there is none."""
    if bits < 0:
        return np.int64(blocks[start + np.int64(key)])
    mask = (np.int64(1) << bits) - 1
    h = np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))
    while True:
        block = np.int64(blocks[start + h])
        if block < 0 or keys[key_start + h] == key:
            return block
        h = (h + 1) & mask


@helper
def keys_of_events(
    record: npt.NDArray[np.int64], columns: npt.NDArray[np.int32], buckets: npt.NDArray[np.int32],
    boundaries: npt.NDArray[np.int32], slots: Matrix, tile: Matrix, m: int, own: npt.NDArray[np.int64],
) -> None:  # fmt: skip
    """own[i] = the key of event i of a tile in a schema, without its multiple column; negative where a column is absent."""
    multiple, events, limits, ranks = record[SchemaField.MULTIPLE], tile[0], tile[1], tile[2]
    own[:m] = 0
    for t in range(record[SchemaField.WIDTH]):
        if t == multiple:
            continue
        slot, radix = columns[4 * record[SchemaField.COLUMN + t] + 1], record[SchemaField.RADIX + t]
        grid = record[SchemaField.GRID + t]
        for i in range(np.uint64(m)):
            limits[i] = slots[np.uint64(events[i]), slot]
        if grid >= 0:
            rank_all(boundaries, np.int64(buckets[4 * grid + 2]), np.int64(buckets[4 * grid + 3]), limits, ranks, m)
        values = ranks if grid >= 0 else limits
        for i in range(np.uint64(m)):
            own[i] = own[i] + np.int64(values[i]) * radix if limits[i] >= 0 else ABSENT_KEY


@lean_kernel
def probe(
    buffer: Bytes, directory: Directory, matrix: EventMatrix, start: int, stop: int, order: npt.NDArray[np.int32],
    places: npt.NDArray[np.int64],
) -> int:  # fmt: skip
    """Fill visits with block << 32 | event for events start .. stop-1; return how many, -1 if they do not fit.

    Those of a block come in the `order` of events, where one is given.

    for block in root cluster: visits.extend((block, event) for event in range(start, stop))
    for schema in schemas: for event in range(start, stop):
        for block in cluster(schema, key(schema, event)): visits.append((block, event))
    """
    work, slots, offset, codes = open_workspace(places), matrix.slots, matrix.offset, matrix.codes
    tile, own, visits = work.tile, work.keys, work.visits
    schemas = int64_section(buffer, directory, Section.SCHEMAS)
    columns = int32_section(buffer, directory, Section.COLUMNS)
    buckets = int32_section(buffer, directory, Section.BUCKETS)
    boundaries = int32_section(buffer, directory, Section.BOUNDARIES)
    keys = uint64_section(buffer, directory, Section.PROBE_KEY)
    blocks = int32_section(buffer, directory, Section.PROBE_BLOCK)
    more = uint8_section(buffer, directory, Section.BLOCK_NEXT)
    events, n, room = tile[0], 0, len(visits) - (stop - start) - 1
    block = directory[SCALARS + Scalar.ROOT]
    while block >= 0:
        if n > room:
            return -1
        for i in range(np.uint64(stop - start)):
            e = np.uint64(order[i]) if len(order) else np.uint64(start) + i
            visits[np.uint64(n)] = (np.uint64(block) << np.uint64(32)) | e
            n += 1
        block = block + 1 if more[block] else np.int64(-1)
    for s in range(directory[SCALARS + Scalar.SCHEMAS]):
        record = schemas[s * SCHEMA_FIELDS : (s + 1) * SCHEMA_FIELDS]
        bits, table = record[SchemaField.BITS], record[SchemaField.START]
        key_start, multiple = record[SchemaField.KEY_START], record[SchemaField.MULTIPLE]
        for first in range(start, stop, EVENTS_AT_ONCE):
            m = min(EVENTS_AT_ONCE, stop - first)
            for i in range(np.uint64(m)):
                at = np.uint64(first - start) + i
                events[i] = order[at] if len(order) else first + np.int64(i)
            keys_of_events(record, columns, buckets, boundaries, slots, tile, m, own)
            if n > len(visits) - m - 1:
                return -1
            for i in range(np.uint64(m)):
                key, e = own[i], np.uint64(events[i])
                if key < 0:
                    continue
                if multiple < 0:
                    block = find_block(keys, blocks, table, key_start, bits, np.uint64(key))
                    visits[np.uint64(n)] = (np.uint64(block) << np.uint64(32)) | e
                    n += block >= 0
                    while block >= 0 and more[block]:
                        block += 1
                        if n > len(visits) - m - 1:
                            return -1
                        visits[n] = (np.uint64(block) << np.uint64(32)) | e
                        n += 1
                    continue
                column = columns[4 * record[SchemaField.COLUMN + multiple] + 2]
                for z in range(offset[column, e], offset[column, e + np.uint64(1)]):
                    whole = key + np.int64(codes[z]) * record[SchemaField.RADIX + multiple]
                    block = find_block(keys, blocks, table, key_start, bits, np.uint64(whole))
                    while block >= 0:
                        if n > len(visits) - m - 1:
                            return -1
                        visits[n] = (np.uint64(block) << np.uint64(32)) | e
                        n += 1
                        block = block + 1 if more[block] else -1
    return n


@kernel
def sort_events(slots: Matrix, slot: int, codes: int, start: int, stop: int, order: npt.NDArray[np.int32]) -> None:
    """order[:stop - start] = events start .. stop-1 by what they have in a slot, roughly where that has many codes."""
    shift = 0
    while (codes + 2) >> shift > SORT_BUCKETS:
        shift += 1
    count = np.zeros(SORT_BUCKETS + 1, np.int64)
    for e in range(start, stop):
        count[((slots[e, slot] + 1) >> shift) + 1] += 1
    for bucket in range(SORT_BUCKETS):
        count[bucket + 1] += count[bucket]
    for e in range(start, stop):
        bucket = (slots[e, slot] + 1) >> shift
        order[count[bucket]] = e
        count[bucket] += 1


@kernel
def group(visits: Visits, spare: Visits, sorted_already: int, n: int) -> int:
    """Sort visits[:n] by block, stably; return 0 if the result is in visits, 1 if it is in spare.

    The first `sorted_already` (those of the root cluster) come before all others as they are.
    """
    most = np.uint64(0)
    for i in range(sorted_already, n):
        most = max(most, visits[i])
    count = np.zeros(2048, np.int64)
    side, shift = 0, 32
    while shift < 64 and (most >> np.uint64(shift)) != 0:
        source, target = (visits, spare) if side == 0 else (spare, visits)
        count[:] = 0
        for i in range(sorted_already, n):
            count[np.int64((source[i] >> np.uint64(shift)) & np.uint64(2047))] += 1
        total = sorted_already
        for digit in range(2048):
            first = total
            total += count[digit]
            count[digit] = first
        for i in range(sorted_already, n):
            digit = np.int64((source[i] >> np.uint64(shift)) & np.uint64(2047))
            target[count[digit]] = source[i]
            count[digit] += 1
        side, shift = 1 - side, shift + 11
    if side == 1:
        spare[:sorted_already] = visits[:sorted_already]
    return side
