"""Near misses: the conjunctions that one event fails by exactly one predicate.

One pass over all rows of a segment. A row's predicates are its atoms and the equalities of its cluster's key; the two
ends of a range cannot both fail unless the column is absent, so that a failed atom is a failed predicate. Checks are
taken to hold; a conjunction that no event can satisfy is in no segment, and so no near miss.
Used by explaining: who would almost have been told, and why not?

Codes in words: a predicate of a segment as a person would write it.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Column, PredicateKind
from tocsin.index.explain import block_keys
from tocsin.index.jit import kernel
from tocsin.index.layout import (
    EQ,
    FALSE_ATOM,
    GE,
    GENERIC,
    LE,
    NE,
    SCHEMA_FIELDS,
    TRUE_ATOM,
    Bytes,
    Directory,
    Scalar,
    SchemaField,
    Section,
)
from tocsin.index.open_segment import Int64s, open_segment
from tocsin.index.ranges import CHUNK, PARTS, entry_of, layer_ends, layer_of
from tocsin.language.render import render
from tocsin.language.text_patterns import predicate_of_key
from tocsin.matching.columnar.events import EventLayout, EventMatrix
from tocsin.matching.columnar.fill import code_holds
from tocsin.matching.columnar.ranged import column_of
from tocsin.schema import BooleanDomain, EnumeratedDomain, HierarchicalDomain, IpDomain, TimeDomain

if TYPE_CHECKING:
    from tocsin.index.coded_batch import CodedBatch
    from tocsin.index.segment import Segment


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A conjunction of subscription `number` that fails only this predicate (as in compile/table.py).

    `low` and `high` are codes of the column, except for sets, where both are the number of the set. A range is given
    by the end that failed. `others` are more codes of which each would do too: a list is a row for each value.
    """

    number: int
    column: int
    kind: PredicateKind
    low: int
    high: int
    others: tuple[int, ...] = ()


def near_misses(segment: Segment, batch: CodedBatch, limit: int = 100) -> list[NearMiss]:
    """Return up to `limit` conjunctions that the batch's only event fails by exactly one predicate, by row."""
    schema_of, key_of = block_keys(segment)
    events = EventLayout(segment).lay_out(batch)
    slots = np.zeros((1, segment.scalar(Scalar.SLOTS)), np.int32)
    slots[:, : events.slots.shape[1]] = events.slots
    # The slots of columns that only simple groups read are left out of the matrix; here all are read.
    for column, (_, slot, multiple, _) in enumerate(segment.section(Section.COLUMNS).reshape(-1, 4).tolist()):
        if multiple < 0:
            slots[0, slot] = batch.codes[column, 0]
    found = np.zeros((max(1, 16 * limit), 4), np.int64)
    satisfied = np.zeros(segment.scalar(Scalar.ROWS), np.bool_)
    while True:
        n = _find(
            segment.buffer, segment.directory, schema_of, key_of, events._replace(slots=slots), found, satisfied
        )  # fmt: skip
        if n < len(found):
            break
        found = np.zeros((16 * len(found), 4), np.int64)  # a list is told whole, however many rows it has
    numbers = segment.numbers_of_rows()
    listed = set(numbers[satisfied].tolist())  # of a list, the other values are no misses
    misses: dict[tuple[int, int, int], NearMiss] = {}
    for row, column, kind, value in found[:n].tolist():
        number = int(numbers[row])
        key = (number, column, -1 if kind == EQ else row)
        if kind == EQ and number in listed:
            continue
        known = misses.get(key)
        if known is not None:
            misses[key] = replace(known, others=(*known.others, value))
        elif len(misses) < limit:
            misses[key] = _describe(segment, number, column, kind, value)
    return list(misses.values())


def _describe(segment: Segment, number: int, column: int, kind: int, value: int) -> NearMiss:
    last = int(segment.section(Section.COLUMNS)[4 * column]) - 1
    if kind == GENERIC:
        column, predicate, low, high = segment.section(Section.GENERIC)[4 * value : 4 * value + 4].tolist()
        return NearMiss(number, column, PredicateKind(predicate), low, high)
    if kind in (EQ, GE, LE):
        low, high = (0 if kind == LE else value), (last if kind == GE else value)
        return NearMiss(number, column, PredicateKind.SOME_IN, low, high)
    return NearMiss(number, column, PredicateKind.NONE_IN, value, value)


@kernel
def _find(
    buffer: Bytes, directory: Directory, schema_of: Int64s, key_of: npt.NDArray[np.uint64], matrix: EventMatrix,
    found: npt.NDArray[np.int64], satisfied: npt.NDArray[np.bool_],
) -> int:  # fmt: skip
    """Fill found with (row, column, atom kind, value) of rows that fail exactly one predicate; return how many.

    satisfied[row] = whether the row fails none.
    """
    segment, slots = open_segment(buffer, directory), matrix.slots
    groups, columns, atoms, local_start = segment.groups, segment.columns, segment.atoms, segment.local_start
    truth = np.zeros(65_536, np.uint8)
    owner, value_of = np.zeros(65_536, np.int32), np.zeros(65_536, np.int32)
    truth[TRUE_ATOM] = 1
    for g in range(segment.all_groups):
        first = np.int64(groups[4 * g + 2])
        for v in range(groups[4 * g + 3] - 1):
            atom = first + 1 + v
            owner[atom], value_of[atom] = g, v
            truth[atom] = code_holds(segment, groups[4 * g + 1], groups[4 * g], v, matrix, 0)
    n = 0
    for block in range(len(schema_of)):
        key_failures, key_column, key_value = 0, np.int64(-1), np.int64(0)
        if schema_of[block] >= 0:
            record = segment.schemas[schema_of[block] * SCHEMA_FIELDS : (schema_of[block] + 1) * SCHEMA_FIELDS]
            rest = np.int64(key_of[block])
            for t in range(record[SchemaField.WIDTH]):
                value = rest // record[SchemaField.RADIX + t]
                rest -= value * record[SchemaField.RADIX + t]
                # A bucket of a grid is no predicate: the range itself is among the atoms.
                if record[SchemaField.GRID + t] < 0 and not code_holds(
                    segment, EQ, record[SchemaField.COLUMN + t], value, matrix, 0
                ):
                    key_failures += 1
                    key_column, key_value = record[SchemaField.COLUMN + t], value
        if key_failures > 1:
            continue
        first_value = local_start[segment.block_local[block]]
        for y in range(segment.block_local[block], segment.block_local[block + 1]):
            g = np.int64(segment.local_group[y])
            for position in range(local_start[y], local_start[y + 1]):
                atom = segment.dense_atoms + position - first_value
                owner[atom], value_of[atom] = g, segment.local_value[position]
                truth[atom] = code_holds(
                    segment,
                    groups[4 * g + 1],
                    groups[4 * g],
                    np.int64(segment.local_value[position]),
                    matrix,
                    0,
                )
        for s in range(segment.block_stripe[block], segment.block_stripe[block + 1]):
            width, at = np.int64(segment.stripe_width[s]), np.int64(segment.stripe_data[s])
            for row in range(segment.stripe_row[s], segment.stripe_row[s + 1]):
                failures, failed = key_failures, np.int64(-1)
                for z in range(at, at + width):
                    if truth[atoms[z]]:
                        continue
                    g, before = np.int64(owner[atoms[z]]), np.int64(owner[failed])
                    column, kind = groups[4 * g], groups[4 * g + 1]
                    # Where a unique column is absent, both ends of one range fail, and all values that are excluded.
                    absent = failed >= 0 and groups[4 * before] == column
                    absent = absent and columns[4 * column + 2] < 0 and slots[0, columns[4 * column + 1]] < 0
                    before_kind = groups[4 * before + 1]
                    excluded = kind == NE and before_kind == NE
                    other_end = (kind == GE or kind == LE) and before_kind == GE + LE - kind
                    failures += not (absent and (excluded or other_end))
                    failed = np.int64(atoms[z])
                at += width
                outside, alive = -1, width == 0 or atoms[at - 1] != FALSE_ATOM
                range_kind, range_value = np.int64(0), np.int64(0)
                if len(segment.block_ranges) and segment.block_ranges[block] >= 0:
                    place = np.int64(row - segment.stripe_row[segment.block_stripe[block]])
                    chunk = np.int64(segment.block_ranges[block]) + place // CHUNK
                    word = segment.range_alive[PARTS * chunk + (place % CHUNK >> 6)]
                    alive = (word >> np.uint64(place & 63)) & np.uint64(1) != 0
                    for layer in range(segment.range_chunk[chunk], segment.range_chunk[chunk + 1]):
                        entry = entry_of(segment.range_rows, segment.range_start, layer, place % CHUNK)
                        if entry < 0:
                            continue
                        k, base, size = layer_of(segment.range_layer, layer)
                        slot, shift = column_of(segment, k)
                        low, high = layer_ends(segment.range_bytes, base, size, entry, shift)
                        code = np.int64(slots[0, slot])
                        if low <= code <= high:
                            continue
                        failures += 1
                        outside = np.int64(segment.range_columns[2 * k])
                        range_kind, range_value = (GE, low) if code < low and low > 0 else (LE, high)
                        if low == high:
                            range_kind = EQ
                if failures != 1 or not alive:
                    satisfied[row] = failures == 0 and alive
                    continue
                if n == len(found):
                    return n
                found[n, 0] = row
                if outside >= 0:
                    found[n, 1], found[n, 2], found[n, 3] = outside, range_kind, range_value
                elif failed < 0:
                    found[n, 1], found[n, 2], found[n, 3] = key_column, EQ, key_value
                else:
                    g = np.int64(owner[failed])
                    found[n, 1], found[n, 2], found[n, 3] = groups[4 * g], groups[4 * g + 1], value_of[failed]
                n += 1
    return n


# Codes in words.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def predicate_text(segment: Segment, miss: NearMiss) -> str:
    """Return the predicate that was missed: 'price < 1300', 'brand in {mini, audi}'."""
    column = segment.columns[miss.column]
    name = column.attribute if column.derivation == "value" else f"{column.derivation} of {column.attribute}"
    match miss.kind:
        case PredicateKind.PRESENT:
            return f"{name} is present"
        case PredicateKind.ABSENT:
            return f"{name} is absent"
        case PredicateKind.SOME_IN:
            wanted = [(miss.low, miss.high), *((code, code) for code in miss.others)]
            return " or ".join(_interval(column, name, low, high) for low, high in sorted(wanted))
        case PredicateKind.NONE_IN:
            return f"not ({_interval(column, name, miss.low, miss.high)})"
    offset = segment.section(Section.SET_OFFSET)
    ends = range(int(offset[miss.low]), int(offset[miss.low + 1]))
    lows, highs = segment.section(Section.SET_LOW), segment.section(Section.SET_HIGH)
    alternatives = " or ".join(_interval(column, name, int(lows[at]), int(highs[at])) for at in ends)
    return alternatives if miss.kind is PredicateKind.SOME_OF else f"not ({alternatives})"


def _interval(column: Column, name: str, low: int, high: int) -> str:
    """Return an interval of codes as a comparison. An odd code is a constant, an even one lies beside one."""
    if column.derivation == "patterns":
        return render(predicate_of_key(column.attribute, column.constants[low // 2 : low // 2 + 1].tolist()[0]))
    if low == high and low % 2:
        return f"{name} = {_value(column, low // 2)}"
    last = 2 * len(column.constants)
    lower = "" if low == 0 else f"{name} {'>=' if low % 2 else '>'} {_value(column, (low - 1) // 2)}"
    upper = "" if high >= last else f"{name} {'<=' if high % 2 else '<'} {_value(column, high // 2)}"
    return " and ".join(part for part in (lower, upper) if part) or f"{name} is present"


def _value(column: Column, position: int) -> str:
    """Return a constant as the value whose key it is."""
    key: Any = column.constants[position : position + 1].tolist()[0]
    match column.domain:
        case EnumeratedDomain(values=values) | HierarchicalDomain(values=values):
            return repr(values[key]) if 0 <= key < len(values) else str(key)
        case BooleanDomain():
            return "true" if key else "false"
        case IpDomain() as domain:
            return repr(domain.from_key(key))
        case TimeDomain():
            return f"time '{(_EPOCH + timedelta(microseconds=key)).isoformat()}'"
    return repr(key) if isinstance(key, str) else str(key)
