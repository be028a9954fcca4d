"""Statistics: how often an event's code in a column falls where, for the planner.

From a sample of coded events where there is one, else from the constants of the subscriptions themselves (people ask
for what there is). Wrong statistics cost speed, never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.compile.table import PredicateKind

if TYPE_CHECKING:
    from tocsin.compile.table import ConjunctionTable
    from tocsin.index.coded_batch import CodedBatch


@dataclass(frozen=True, slots=True)
class Statistics:
    """Cumulative frequencies of codes: column c has cumulative[start[c] : start[c] + codes(c) + 1].

    The frequency of codes low..high in column c is cumulative[start[c] + high + 1] - cumulative[start[c] + low];
    the last entry of a column is the fraction of events in which it is present.
    """

    start: npt.NDArray[np.int64]
    cumulative: npt.NDArray[np.float64]

    def frequency(self, column: int, low: int, high: int) -> float:
        """Return the fraction of events that have a code in low..high."""
        start = self.start[column]
        return float(self.cumulative[start + high + 1] - self.cumulative[start + low])


def code_counts(table: ConjunctionTable) -> npt.NDArray[np.int64]:
    """Return the number of codes of each column: 2 * constants + 1."""
    return np.array([2 * len(column.constants) + 1 for column in table.columns], np.int64)


def statistics_of_sample(codes: npt.NDArray[np.int64], sample: CodedBatch) -> Statistics:
    """Return the statistics of a sample of events; `codes` as of code_counts."""
    parts = []
    for column, count in enumerate(codes):
        multiple = sample.multiples.get(column)
        values = sample.codes[column] if multiple is None else multiple.codes
        histogram = np.bincount(values[values >= 0], minlength=count).astype(np.float64)
        # A value that the sample lacks is rare, not impossible.
        parts.append((histogram + 0.3 / count) / (sample.size + 0.6))
    return _cumulate(codes, parts)


def statistics_of_table(table: ConjunctionTable) -> Statistics:
    """Return statistics that take the constants of the subscriptions for a sample of the events."""
    codes = code_counts(table)
    some = (table.kind == PredicateKind.SOME_IN) | (table.kind == PredicateKind.NONE_IN)
    sets = (table.kind == PredicateKind.SOME_OF) | (table.kind == PredicateKind.NONE_OF)
    set_column, sizes = np.full(len(table.set_offset) - 1, -1, np.int64), np.diff(table.set_offset)
    set_column[table.low[sets]] = table.column[sets]
    parts = []
    for column, count in enumerate(codes):
        mine = some & (table.column == column)
        low, high = table.low[mine], table.high[mine]
        inside = np.repeat(set_column == column, sizes)
        listed = table.set_low[inside], table.set_high[inside]
        low, high = np.concatenate([low, listed[0]]), np.concatenate([high, listed[1]])
        ends = np.concatenate([low[low > 0], high[(high > low) & (high < count)]]).astype(np.int64)
        weight = np.bincount(np.minimum(ends, count - 1), minlength=count) + np.where(np.arange(count) % 2, 0.5, 0.1)
        parts.append(weight / weight.sum())
    return _cumulate(codes, parts)


def _cumulate(codes: npt.NDArray[np.int64], parts: list[npt.NDArray[np.float64]]) -> Statistics:
    start = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(codes + 1, out=start[1:])
    cumulative = np.zeros(start[-1], np.float64)
    for column, part in enumerate(parts):
        np.cumsum(part, out=cumulative[start[column] + 1 : start[column + 1]])
    return Statistics(start, cumulative)
