"""Near misses against the plain meaning of a table."""

from __future__ import annotations

import numpy as np
import pytest

from tests.index.tables import Shape, coded, predicate_holds, random_events, random_table
from tocsin.compile.table import ConjunctionTable, PredicateKind
from tocsin.index.build import build_segment
from tocsin.index.plan import PlanCosts
from tocsin.matching.columnar.near_misses import near_misses


def _never(table: ConjunctionTable, p: int) -> bool:
    """Return whether no event can satisfy a predicate: it excludes every code of a unique column."""
    column = table.columns[table.column[p]]
    whole = table.low[p] == 0 and table.high[p] == 2 * len(column.constants)
    return bool(table.kind[p] == PredicateKind.NONE_IN and whole and not column.multiple)


@pytest.mark.parametrize("probe", [1.0, 1e9], ids=["clusters", "root"])
@pytest.mark.parametrize("seed", range(3))
def test_near_misses_fail_exactly_one_predicate(seed: int, probe: float) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng, Shape(subscriptions=300, disjunctions=0.0))
    segment = build_segment(table, costs=PlanCosts(row=10.0, probe=probe))
    for codes in random_events(rng, table, 15):
        expected = set()
        for i in range(len(table)):
            failed = [p for p in range(table.offset[i], table.offset[i + 1]) if not predicate_holds(table, p, codes, 0)]
            if len(failed) == 1 and not _never(table, failed[0]):
                expected.add((int(table.subscription[i]), int(table.column[failed[0]])))
        found = near_misses(segment, coded(table, [codes]), limit=1000)
        assert {(miss.number, miss.column) for miss in found} == expected
        assert all(isinstance(miss.kind, PredicateKind) for miss in found)


def test_the_dead_are_no_near_misses() -> None:
    rng = np.random.default_rng(4)
    table = random_table(rng, Shape(subscriptions=100))
    segment = build_segment(table)
    segment.kill(np.arange(100))
    assert near_misses(segment, coded(table, random_events(rng, table, 1))) == []
