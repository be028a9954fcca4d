"""Random conjunction tables and coded events, and the plain meaning of both, for the tests of index and engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.compile.table import Check, CheckKind, Column, ConjunctionTable, PredicateKind
from tocsin.index.coded_batch import CodedBatch, MultipleCodes

Codes = list[int] | None


@dataclass(frozen=True)
class Shape:
    """How random tables look."""

    subscriptions: int = 200
    columns: int = 5
    constants: int = 8
    multiple: float = 0.3
    generic: float = 0.2
    checks: int = 0
    disjunctions: float = 0.1


NO_DOMAIN: Any = None  # kernels work on codes, which need no domain


def random_table(rng: np.random.Generator, shape: Shape) -> ConjunctionTable:
    """Return a table with every kind of predicate, by the shape's proportions."""
    columns = [
        Column(
            f"a{c}",
            NO_DOMAIN,
            bool(rng.random() < shape.multiple),
            "value",
            np.arange(rng.integers(1, shape.constants + 1)),
        )
        for c in range(shape.columns)
    ]
    sets: list[list[tuple[int, int]]] = []
    subscription, predicates = [], []
    for number in range(shape.subscriptions):
        for _ in range(1 + (rng.random() < shape.disjunctions) * int(rng.integers(1, 3))):
            subscription.append(number)
            predicates.append(_random_conjunction(rng, shape, columns, sets))
    flat = [p for conjunction in predicates for p in conjunction]
    offset = np.concatenate([[0], np.cumsum([len(conjunction) for conjunction in predicates])])
    intervals = [interval for s in sets for interval in s]
    return ConjunctionTable(
        columns=columns,
        ids=np.arange(shape.subscriptions, dtype=np.int64) * 7 + 3,
        subscription=np.array(subscription, np.int64),
        offset=offset.astype(np.int64),
        column=np.array([p[0] for p in flat], np.uint16),
        kind=np.array([p[1] for p in flat], np.uint8),
        low=np.array([p[2] for p in flat], np.int32),
        high=np.array([p[3] for p in flat], np.int32),
        set_offset=np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64),
        set_low=np.array([low for low, _ in intervals], np.int32),
        set_high=np.array([high for _, high in intervals], np.int32),
        checks=[Check(CheckKind.PREDICATE, f"check {i}", "a0") for i in range(shape.checks)],
    )


def _random_conjunction(
    rng: np.random.Generator, shape: Shape, columns: list[Column], sets: list[list[tuple[int, int]]]
) -> list[tuple[int, int, int, int]]:
    predicates = []
    for c in rng.choice(shape.columns, int(rng.integers(0, min(5, shape.columns + 1))), replace=False).tolist():
        last = 2 * len(columns[c].constants)
        low = int(rng.integers(0, last + 1))
        high = int(rng.integers(low, last + 1))
        if rng.random() < shape.generic:
            kind = int(rng.integers(1, 6))
            if kind in (PredicateKind.SOME_OF, PredicateKind.NONE_OF):
                starts = sorted(set(rng.integers(0, last + 1, 3).tolist()))
                ends = [*(s - 1 for s in starts[1:]), last]
                sets.append([(s, int(rng.integers(s, e + 1))) for s, e in zip(starts, ends, strict=True)])
                low = high = len(sets) - 1
            predicates.append((c, kind, low, high))
        else:
            choice = rng.integers(0, 5)
            interval = [(low, low), (low, low), (0, high), (low, last), (low, high)][choice]
            predicates.append((c, int(PredicateKind.NONE_IN if choice == 1 else PredicateKind.SOME_IN), *interval))
            if columns[c].multiple and rng.random() < 0.3:
                predicates.append((c, int(PredicateKind.SOME_IN), high, high))
    if shape.checks and rng.random() < 0.2:
        for check in rng.choice(shape.checks, min(shape.checks, int(rng.integers(1, 3))), replace=False).tolist():
            predicates.append((0, int(PredicateKind.CHECK), check, check))
    return predicates


def random_events(rng: np.random.Generator, table: ConjunctionTable, events: int) -> list[list[Codes]]:
    """Return per event and column its codes, None where the column is absent."""
    result = []
    for _ in range(events):
        codes: list[Codes] = []
        for column in table.columns:
            last = 2 * len(column.constants)
            if rng.random() < 0.15:
                codes.append(None)
            elif column.multiple:
                codes.append(rng.integers(0, last + 1, rng.integers(0, 4)).tolist())
            else:
                codes.append([int(rng.integers(0, last + 1))])
        result.append(codes)
    return result


def coded(table: ConjunctionTable, events: list[list[Codes]], **lifetimes: Any) -> CodedBatch:
    """Return the events as a coded batch."""
    codes = np.full((len(table.columns), len(events)), -1, np.int32)
    multiples = {}
    for c, column in enumerate(table.columns):
        if column.multiple:
            multiples[c] = multiple_codes([event[c] for event in events])
        else:
            codes[c] = [(event[c] or [-1])[0] for event in events]
    return CodedBatch(codes, multiples, **lifetimes)


def check_holds(check: int, event: int) -> bool:
    """Return the verdict of a check, which the tests fix like this."""
    return (check * 7 + event * 3) % 4 != 0


def predicate_holds(table: ConjunctionTable, p: int, codes: list[Codes], event: int) -> bool:
    """Return whether predicate p holds, word by word as compile/table.py says."""
    kind, low, high = PredicateKind(table.kind[p]), int(table.low[p]), int(table.high[p])
    if kind == PredicateKind.CHECK:
        return check_holds(low, event)
    mine = codes[table.column[p]]
    if kind == PredicateKind.PRESENT:
        return mine is not None
    if kind == PredicateKind.ABSENT:
        return mine is None
    if mine is None:
        return False
    if kind in (PredicateKind.SOME_IN, PredicateKind.NONE_IN):
        some = any(low <= code <= high for code in mine)
        return some if kind == PredicateKind.SOME_IN else not some
    start, stop = table.set_offset[low], table.set_offset[low + 1]
    some = any(table.set_low[s] <= code <= table.set_high[s] for s in range(start, stop) for code in mine)
    return some if kind == PredicateKind.SOME_OF else not some


def matches_of(table: ConjunctionTable, codes: list[Codes], event: int = 0) -> list[int]:
    """Return the subscriptions that an event matches, ascending."""
    found = set()
    for i in range(len(table)):
        if all(predicate_holds(table, p, codes, event) for p in range(table.offset[i], table.offset[i + 1])):
            found.add(int(table.subscription[i]))
    return sorted(found)


def multiple_codes(lists: list[list[int] | None]) -> MultipleCodes:
    """Return the codes of a multiple column from one list per event (None: absent)."""
    distinct = [sorted(set(codes or ())) for codes in lists]
    offset = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(codes) for codes in distinct], out=offset[1:])
    flat = np.array([code for codes in distinct for code in codes], np.int32)
    return MultipleCodes(offset, flat, np.array([codes is not None for codes in lists], np.bool_))
