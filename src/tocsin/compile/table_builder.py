"""TableBuilder: gathers conjunctions with typed keys and codes them all at once into a ConjunctionTable.

Keys cannot be coded one by one: a code is a position among all constants of its column. So predicates refer to keys
by their position in the column's list of keys, in chunks of arrays; `finish` sorts each column's keys, which gives
the codes, and replaces the references. Used by compile_table (from normal forms) and by bulk.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.atoms import Among, Bound, Checked, Conjunction, Decided, Interval
from tocsin.compile.ids import ids_of
from tocsin.compile.normalise import NormalForm, asks_operators
from tocsin.compile.properties import PropertyGatherer
from tocsin.compile.table import Check, CheckKind, Column, ConjunctionTable, Derivation, PredicateKind
from tocsin.language.documents import literal_to_json, node_to_json
from tocsin.language.syntax import Not, ScopeCondition
from tocsin.schema import EVENT_TYPE, Schema

UNBOUNDED = -1  # a reference to no key
Ends = tuple[int, int, bool, bool]  # low reference, high reference, low open, high open
_FLOAT_EXACT = 2**53


@dataclass
class ColumnKeys:
    """The keys that predicates on one column mention, in order of mention, repeats included."""

    attribute: str
    derivation: Derivation
    chunks: list[npt.NDArray[Any]] = field(default_factory=list)
    loose: list[Any] = field(default_factory=list)
    interned: dict[Any, int] = field(default_factory=dict)
    count: int = 0

    def add(self, key: Any) -> int:
        """Return the reference of one key."""
        self.loose.append(key)
        self.count += 1
        return self.count - 1

    def extend(self, keys: npt.NDArray[Any]) -> int:
        """Return the reference of the first of many keys; the others follow."""
        self._flush()
        self.chunks.append(keys)
        self.count += len(keys)
        return self.count - len(keys)

    def intern(self, keys: Iterable[Any]) -> npt.NDArray[np.int64]:
        """Return the references of keys that are mentioned often, each stored once."""
        known = self.interned
        return np.array([known[key] if key in known else self._intern(key) for key in keys], np.int64)

    def _intern(self, key: Any) -> int:
        return self.interned.setdefault(key, self.add(key))

    def _flush(self) -> None:
        if self.loose:
            self.chunks.append(key_array(self.loose))
            self.loose = []

    def sorted_constants(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Return the distinct keys, ascending, and the code of each reference."""
        self._flush()
        keys = joined_keys(self.chunks)
        constants, position = np.unique(keys, return_inverse=True)
        return constants, (2 * position + 1).astype(np.int32)


@dataclass
class Chunk:
    """A run of predicates, all of whose keys are references; -1 is no bound."""

    conjunction: npt.NDArray[np.int64]
    column: npt.NDArray[np.uint16]
    kind: npt.NDArray[np.uint8]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    low_open: npt.NDArray[np.bool_]
    high_open: npt.NDArray[np.bool_]


class TableBuilder:
    """Gathers subscriptions; `finish` gives the table."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.columns: dict[tuple[str, Derivation], int] = {}
        self.keys: list[ColumnKeys] = []
        self.ids: list[Any] = []
        self.subscription: list[int] = []  # per conjunction
        self.chunks: list[Chunk] = []
        self.checks: dict[Check, int] = {}
        self.sets: dict[tuple[int, tuple[Ends, ...]], int] = {}  # (column, intervals) -> number
        self.properties = PropertyGatherer(schema)
        self._rows: list[tuple[int, int, int, int, int, bool, bool]] = []

    def column(self, attribute: str, derivation: Derivation = "value") -> int:
        """Return the position of a column, new or not."""
        position = self.columns.setdefault((attribute, derivation), len(self.columns))
        if position == len(self.keys):
            self.keys.append(ColumnKeys(attribute, derivation))
        return position

    def add(self, id: object, form: NormalForm) -> None:
        """Take in one subscription."""
        number = len(self.ids)
        self.ids.append(id)
        self.properties.add(number, form.properties)
        for conjunction in form.conjunctions:
            self._add_conjunction(number, conjunction)

    def _add_conjunction(self, number: int, conjunction: Conjunction) -> None:
        at = len(self.subscription)
        self.subscription.append(number)
        for atom in conjunction:
            match atom:
                case Among(attribute, derivation, intervals, negated):
                    self._add_among(at, self.column(attribute, derivation), intervals, negated=negated)
                case Bound(attribute, negated):
                    kind = PredicateKind.ABSENT if negated else PredicateKind.PRESENT
                    self._rows.append((at, self.column(attribute), kind, UNBOUNDED, UNBOUNDED, False, False))
                case Checked(predicate, negated):
                    node = Not(predicate) if negated else predicate
                    check = Check(CheckKind.PREDICATE, _json(node_to_json(node)), predicate.attribute)
                    self._add_check(at, self.column(predicate.attribute), check)
                case Decided(node, own, whole):
                    values = _json({name: literal_to_json(value) for name, value in own})  # type: ignore[arg-type]
                    inner = node.part if isinstance(node, Not) else node
                    decider = CheckKind.SCOPE if isinstance(inner, ScopeCondition) else CheckKind.FORMULA
                    if asks_operators(node):
                        decider = CheckKind.ASKED
                    check = Check(decider, _json(node_to_json(node)), own=values, whole=whole)
                    self._add_check(at, self.column(EVENT_TYPE), check)

    def _add_check(self, at: int, column: int, check: Check) -> None:
        number = self.checks.setdefault(check, len(self.checks))
        self._rows.append((at, column, PredicateKind.CHECK, number, number, False, False))

    def _add_among(self, at: int, column: int, intervals: Sequence[Interval], *, negated: bool) -> None:
        ends = [self._references(column, interval) for interval in intervals]
        if len(ends) == 1:
            kind = PredicateKind.NONE_IN if negated else PredicateKind.SOME_IN
            self._rows.append((at, column, kind, *ends[0]))
        else:
            kind = PredicateKind.NONE_OF if negated else PredicateKind.SOME_OF
            number = self.set_number(column, tuple(ends))
            self._rows.append((at, column, kind, number, number, False, False))

    def set_number(self, column: int, intervals: tuple[Ends, ...]) -> int:
        """Return the number of a set of intervals, new or not."""
        return self.sets.setdefault((column, intervals), len(self.sets))

    def _references(self, column: int, interval: Interval) -> Ends:
        keys = self.keys[column]
        low = UNBOUNDED if interval.low is None else keys.add(interval.low)
        if interval.high is None:
            return low, UNBOUNDED, interval.low_open, interval.high_open
        high = low if interval.is_point() else keys.add(interval.high)
        return low, high, interval.low_open, interval.high_open

    def flush(self) -> None:
        """Turn the predicates taken in one by one into a chunk."""
        if self._rows:
            at, column, kind, low, high, low_open, high_open = zip(*self._rows, strict=True)
            self.chunks.append(
                Chunk(
                    np.array(at, np.int64),
                    np.array(column, np.uint16),
                    np.array(kind, np.uint8),
                    np.array(low, np.int64),
                    np.array(high, np.int64),
                    np.array(low_open, np.bool_),
                    np.array(high_open, np.bool_),
                )
            )
            self._rows = []

    def finish(self) -> ConjunctionTable:
        """Return the table; identical input gives an identical table."""
        self.flush()
        columns, codes = self._coded_columns()
        return _merged(self, columns, codes)

    def _coded_columns(self) -> tuple[list[Column], list[npt.NDArray[np.int32]]]:
        view = self.schema.view()
        columns, codes = [], []
        for keys in self.keys:
            entry = view[keys.attribute]
            constants, code = keys.sorted_constants()
            multiple = entry.ever_multiple or keys.derivation in ("words", "patterns")
            columns.append(Column(entry.name, entry.domain, multiple, keys.derivation, constants))
            codes.append(code)
        return columns, codes


def compile_table(schema: Schema, forms: Iterable[tuple[object, NormalForm]]) -> ConjunctionTable:
    """Return the table of these subscriptions, (id, normal form) each."""
    builder = TableBuilder(schema)
    for id, form in forms:
        builder.add(id, form)
    return builder.finish()


def _json(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


# --- coding -----------------------------------------------------------------------------------------------------------


def _merged(
    builder: TableBuilder, columns: Sequence[Column], codes: Sequence[npt.NDArray[np.int32]]
) -> ConjunctionTable:
    """Return the table with references replaced by codes and the intervals of a conjunction's column intersected."""
    rows = _concatenated(builder.chunks)
    low, high = _coded_ends(rows, columns, codes)
    order = np.lexsort((high, low, rows.kind, rows.column, rows.conjunction))
    conjunction, column, kind = rows.conjunction[order], rows.column[order], rows.kind[order]
    low, high = low[order], high[order]
    unique = np.array([not column.multiple for column in columns] or [False])
    same = np.zeros(len(order), np.bool_)
    if len(order) > 1:
        alike = (conjunction[1:] == conjunction[:-1]) & (column[1:] == column[:-1]) & (kind[1:] == kind[:-1])
        repeated = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
        same[1:] = alike & (repeated | ((kind[1:] == PredicateKind.SOME_IN) & unique[column[1:]]))
    first = np.flatnonzero(~same)
    if len(first) < len(order):
        low, high = np.maximum.reduceat(low, first), np.minimum.reduceat(high, first)
        conjunction, column, kind = conjunction[first], column[first], kind[first]
    return _without_empty(builder, columns, codes, (conjunction, column, kind, low, high))


def _without_empty(
    builder: TableBuilder,
    columns: Sequence[Column],
    codes: Sequence[npt.NDArray[np.int32]],
    rows: tuple[npt.NDArray[Any], ...],
) -> ConjunctionTable:
    """Return the table without the conjunctions that can never hold because an intersection is empty."""
    conjunction, column, kind, low, high = rows
    subscription = np.array(builder.subscription, np.int64)
    alive = np.ones(len(subscription), np.bool_)
    alive[conjunction[(kind == PredicateKind.SOME_IN) & (low > high)]] = False
    if not alive.all():
        kept = alive[conjunction]
        renumbered = np.cumsum(alive) - 1
        conjunction, column, kind = renumbered[conjunction[kept]], column[kept], kind[kept]
        low, high, subscription = low[kept], high[kept], subscription[alive]
    offset = np.zeros(len(subscription) + 1, np.int64)
    np.cumsum(np.bincount(conjunction, minlength=len(subscription)), out=offset[1:])
    return ConjunctionTable(
        columns,
        ids_of(builder.ids),
        subscription,
        offset,
        column.astype(np.uint16),
        kind,
        low,
        high,
        *_coded_sets(builder.sets, columns, codes),
        list(builder.checks),
        builder.properties.finish(len(builder.ids)),
    )


def _concatenated(chunks: Sequence[Chunk]) -> Chunk:
    empty = Chunk(*(np.zeros(0, dtype) for dtype in (np.int64, np.uint16, np.uint8, np.int64, np.int64, bool, bool)))
    names = Chunk.__dataclass_fields__
    return Chunk(*(np.concatenate([getattr(chunk, name) for chunk in (empty, *chunks)]) for name in names))


def _coded_ends(
    rows: Chunk, columns: Sequence[Column], codes: Sequence[npt.NDArray[np.int32]]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return first and last code of each predicate with an interval; set and check numbers stay."""
    low, high = rows.low.astype(np.int32), rows.high.astype(np.int32)
    interval = rows.kind <= PredicateKind.NONE_IN
    for position, (column, code) in enumerate(zip(columns, codes, strict=True)):
        at = np.flatnonzero(interval & (rows.column == position))
        low[at] = _low_code(code, rows.low[at], rows.low_open[at])
        high[at] = _high_code(code, rows.high[at], rows.high_open[at], 2 * len(column.constants))
    plain = (rows.kind == PredicateKind.PRESENT) | (rows.kind == PredicateKind.ABSENT)
    low[plain] = high[plain] = 0
    return low, high


def _low_code(
    code: npt.NDArray[np.int32], reference: npt.NDArray[np.int64], is_open: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int32]:
    padded = np.append(code, np.int32(0))  # reference -1: no bound
    return padded[reference] + (is_open & (reference >= 0)).astype(np.int32)


def _high_code(
    code: npt.NDArray[np.int32], reference: npt.NDArray[np.int64], is_open: npt.NDArray[np.bool_], last: int
) -> npt.NDArray[np.int32]:
    padded = np.append(code, np.int32(last))
    return padded[reference] - (is_open & (reference >= 0)).astype(np.int32)


def _coded_sets(
    sets: Iterable[tuple[int, tuple[Ends, ...]]],
    columns: Sequence[Column],
    codes: Sequence[npt.NDArray[np.int32]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the sets' offsets and the first and last codes of their intervals, ascending."""
    offset, coded = [0], []
    for column, intervals in sets:
        code, last = codes[column], 2 * len(columns[column].constants)
        coded += sorted(
            (0 if low < 0 else int(code[low]) + low_open, last if high < 0 else int(code[high]) - high_open)
            for low, high, low_open, high_open in intervals
        )
        offset.append(len(coded))
    low_high = np.array(coded, np.int32).reshape(-1, 2)
    return np.array(offset, np.int64), low_high[:, 0].copy(), low_high[:, 1].copy()


# --- arrays of keys ---------------------------------------------------------------------------------------------------


def key_array(keys: Sequence[Any]) -> npt.NDArray[Any]:
    """Return keys as int64 or float64 where that is exact for all of them, else as objects."""
    kinds = set(map(type, keys))
    if kinds == {int} and all(-(2**63) <= key < 2**63 for key in keys):
        return np.array(keys, np.int64)
    if kinds == {float} or (kinds == {int, float} and all(-_FLOAT_EXACT <= key <= _FLOAT_EXACT for key in keys)):
        return np.array(keys, np.float64)
    array = np.empty(len(keys), object)
    array[:] = keys
    return array


def joined_keys(chunks: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the chunks as one array in which keys compare exactly."""
    if not chunks:
        return np.zeros(0, np.int64)
    kinds = {chunk.dtype.kind for chunk in chunks}
    if len(kinds) == 1:
        return np.concatenate(chunks)
    if kinds == {"i", "f"} and all(_fits_float(chunk) for chunk in chunks):
        return np.concatenate([chunk.astype(np.float64) for chunk in chunks])
    return np.concatenate([chunk.astype(object) for chunk in chunks])


def _fits_float(chunk: npt.NDArray[Any]) -> bool:
    return chunk.dtype.kind == "f" or bool(((chunk >= -_FLOAT_EXACT) & (chunk <= _FLOAT_EXACT)).all())
