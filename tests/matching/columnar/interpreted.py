"""The kernels as plain Python and NumPy, on small tables: what compilation is held to.

    NUMBA_DISABLE_JIT=1 python -m tests.matching.columnar.interpreted

Interpreted, every index is checked and every NumPy scalar keeps its type. The answers are compared with the plain
meaning of the table, and printed as a checksum: the compiled kernels must print the same (test_interpreted.py). Coding
of events, building, probing, the join, emission, counting, single events, near misses, killing rows and reading a
segment back all run.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa

from tests.index.tables import Shape, coded, matches_of, random_events, random_table
from tocsin.compile.table import Column
from tocsin.index.build import build_segment
from tocsin.index.encode import EventColumns, SegmentEncoder
from tocsin.index.explain import table_of
from tocsin.index.plan import PlanCosts
from tocsin.matching.columnar.near_misses import near_misses
from tocsin.matching.columnar.segment_matcher import SegmentMatcher
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute

SHAPES = (
    Shape(subscriptions=60, generic=0.0, multiple=0.0, disjunctions=0.0),
    Shape(subscriptions=60),
    Shape(subscriptions=80, constants=200, columns=2),
    Shape(subscriptions=90, columns=1, constants=2),
)
FILTERED = (
    Shape(subscriptions=70, columns=3, constants=2, multiple=0.0, generic=0.0),  # told by bytes alone
    Shape(subscriptions=70, columns=6, constants=140, multiple=0.2),
)
RANGED = (
    Shape(subscriptions=60, columns=3, constants=900, multiple=0.0, generic=0.0, disjunctions=0.0),
    Shape(subscriptions=80, columns=5, constants=600),
)
IN_BANDS = PlanCosts(row=0.001, ranged=1, many_codes=0, bands=0.0, passing=1.0)  # wherever there is a range
COSTS = (PlanCosts(row=10.0, probe=1.0), PlanCosts())


def run_kernels() -> list[object]:
    """Return everything that the kernels answered."""
    answers: list[object] = [code_columns()]
    for seed, shape in enumerate(SHAPES):
        for costs in COSTS:
            answers.append(run_shape(np.random.default_rng(seed), shape, costs))
    for shape in FILTERED:
        answers.append(run_shape(np.random.default_rng(9), shape, PlanCosts(passing=1.0)))
    for shape in RANGED:
        answers.append(run_shape(np.random.default_rng(5), shape, IN_BANDS))
    return answers


def run_shape(rng: np.random.Generator, shape: Shape, costs: PlanCosts) -> list[object]:
    """Match random events with a random table, compare with its meaning; return the answers."""
    table = random_table(rng, shape)
    segment = build_segment(table, costs=costs)
    segment.check()
    events = random_events(rng, table, 20) * 2
    batch = coded(table, events)
    matcher = SegmentMatcher(segment)
    found: list[list[int]] = []
    for chunk in matcher.match(batch):
        for i in range(len(chunk.offset) - 1):
            found.append(sorted(chunk.numbers[chunk.offset[i] : chunk.offset[i + 1]].tolist()))
    assert found == [matches_of(table, codes) for codes in events], shape
    answers: list[object] = [found]
    if not len(segment.repeated):
        assert matcher.count(batch).tolist() == [len(numbers) for numbers in found], shape
    for codes, expected in zip(events[:5], found[:5], strict=True):
        one = coded(table, [codes])
        assert sorted(matcher.match_one(one).tolist()) == expected, shape
        answers.append([(miss.number, miss.column, int(miss.kind)) for miss in near_misses(segment, one, 50)])
    back = table_of(segment)
    answers.append([each.tolist() for each in (back.subscription, back.column, back.kind, back.low, back.high)])
    segment.kill(np.arange(0, shape.subscriptions, 2))
    left = [sorted(matcher.match_one(coded(table, [codes])).tolist()) for codes in events[:5]]
    assert left == [[number for number in numbers if number % 2] for numbers in found[:5]], shape
    return answers


def code_columns() -> list[list[int]]:
    """Return the codes of columns of integers and floats, with a look-up table and without."""
    number = NumericDomain(name="n")
    constants = {"near": np.arange(5), "far": np.array([-(10**15), 0, 10**15])}
    columns = [Column(name, number, False, "value", given) for name, given in constants.items()]
    entries = tuple(TypeAttribute(name, mandatory=False) for name in constants)
    schema = Schema({"n": number}, dict.fromkeys(constants, "n"), {"e": EventType("e", entries)})

    class Columns:
        """What encoding reads of a segment."""

        def __init__(self) -> None:
            self.columns = columns

    found = []
    for values in ([-(2**63), -1, 0, 3, 4, 5, 2**63 - 1], [-1e300, -0.5, 0.0, 0.5, 4.0, 5.0, 1e15]):
        batch = pa.RecordBatch.from_pydict({"near": values, "far": values})
        codes = SegmentEncoder(Columns()).encode(EventColumns(batch, schema)).codes
        for row, column in zip(codes.tolist(), columns, strict=True):
            below = [sum(constant <= value for constant in column.constants.tolist()) for value in values]
            exact = [value in column.constants.tolist() for value in values]
            assert row == [2 * count - equal for count, equal in zip(below, exact, strict=True)], column.attribute
            found.append(row)
    return found


if __name__ == "__main__":
    print(zlib.crc32(repr(run_kernels()).encode()))  # noqa: T201
