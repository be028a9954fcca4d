"""The rows of a tier as the scan of offers goes through them: living ones, those that ask alike side by side.

A row is a conjunction of a subscription. What it asks is read back from the segment as predicates over codes (the code
space of compile/table.py). The hull of a row in a column is the interval of codes that it can accept; for most rows the
hulls say all that they ask, and the others are `loose`: they are decided after the scan.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.index.explain import row_predicates
from tocsin.index.jit import lean_kernel
from tocsin.index.layout import FALSE_ATOM, Bytes, Section
from tocsin.offers import scan_kernel as k

if TYPE_CHECKING:
    from tocsin.index.segment import Segment

UNBOUNDED = np.iinfo(np.int32).max  # the high of a row that asks nothing
_SAMPLE = 20_000


class TierRows:
    """The rows that were alive when this was made, by position: `row` in the segment, `number` of the subscription."""

    def __init__(self, segment: Segment, computed: Collection[str] = ()) -> None:
        """Read the rows; attributes that offers mostly compute are no reason to put rows side by side."""
        self.segment = segment
        self._dead = segment.dead
        rows = np.flatnonzero(segment.alive_rows()).astype(np.int32)
        row_of, column, kind, low, high = row_predicates(segment)
        offset = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.bincount(row_of, minlength=segment.section(Section.STRIPE_ROW)[-1])[rows], out=offset[1:])
        sets = [segment.section(each) for each in (Section.SET_OFFSET, Section.SET_LOW, Section.SET_HIGH)]
        self.asked = k.Asked(offset, column, kind, low, high, *sets)
        self.row = rows
        self.size = len(rows)
        self._hulls: dict[int, tuple[k.Int32s, k.Int32s]] = {}
        order = self._order({at for at, each in enumerate(segment.columns) if each.attribute in computed})
        if order is not None:
            self._reorder(order)
        self.number = segment.numbers_of_rows()[self.row]
        self.loose = self._loose()
        self.some_loose = bool(self.loose.any())

    def hull(self, column: int) -> tuple[k.Int32s, k.Int32s]:
        """Return the least and the greatest code that each row accepts in a column; ABSENT is less than all codes."""
        found = self._hulls.get(column)
        if found is None:
            found = np.full(self.size, k.ABSENT, np.int32), np.full(self.size, UNBOUNDED, np.int32)
            k.hull(self.asked, column, *found)
            self._hulls[column] = found
        return found

    def holding(self, given: k.Given, positions: k.Int32s, offers: k.Int32s) -> k.Flags:
        """Return for which pairs of a row and an offer all that the row asks is satisfied."""
        holds = np.empty(len(positions), np.bool_)
        k.decide_rows(self.asked, given, positions, offers, holds)
        return holds

    def alive(self, positions: k.Int32s) -> k.Flags | None:
        """Return which of the rows are still alive; None where all are."""
        if self.segment.dead == self._dead:
            return None
        section = self.segment.section
        holds = np.empty(len(positions), np.bool_)
        _alive(
            section(Section.ATOMS), section(Section.STRIPE_ROW), section(Section.STRIPE_DATA),
            section(Section.STRIPE_WIDTH), self.row[positions], holds,
        )  # fmt: skip
        return holds

    def _loose(self) -> k.Flags:
        """Return which rows ask something that no interval of codes says."""
        exact = np.isin(self.asked.kind, (k.SOME_IN, k.PRESENT, k.IS_ABSENT))
        several = np.array([each.multiple for each in self.segment.columns] or [False])
        # On a column of several codes, two intervals may be satisfied by different ones.
        position = np.repeat(np.arange(self.size), np.diff(self.asked.offset))
        loose = np.zeros(self.size, np.bool_)
        loose[position[~exact]] = True
        if several.any():
            chosen = np.flatnonzero(several[self.asked.column])
            pairs = position[chosen] * len(several) + self.asked.column[chosen]
            loose[position[chosen[1:][pairs[1:] == pairs[:-1]]]] = True
        return loose

    # --- the order ----------------------------------------------------------------------------------------------------

    def _order(self, left_out: Collection[int]) -> npt.NDArray[np.int64] | None:
        """Return positions in an order that puts rows with like hulls together; None where that does not pay.

        First by columns in which most rows accept one code only, those with the fewest codes first while they leave whole
        blocks, then by one more in which most rows have a bound.
        """
        blocks = self.size // (64 * k.BLOCK)
        if blocks < 2:
            return None
        single: list[tuple[int, k.Int32s]] = []
        ranged: list[k.Int32s] = []
        asking = np.bincount(self.asked.column, minlength=len(self.segment.columns))
        for column in np.flatnonzero(2 * asking > self.size).tolist():
            if column in left_out:
                continue
            lows, highs = self.hull(column)
            sample = slice(None, None, max(1, self.size // _SAMPLE))
            some_low, some_high = lows[sample], highs[sample]
            if (some_low == some_high).mean() > 0.5:
                single.append((len(np.unique(some_low)), lows))
            elif (some_high < 2 * len(self.segment.columns[column].constants)).mean() > 0.5:
                ranged.append(highs)
            elif (some_low > 0).mean() > 0.5:
                ranged.append(lows)
        keys: list[k.Int32s] = []
        combined = 1
        for distinct, lows in sorted(single, key=lambda one: one[0]):
            if combined < blocks:
                keys.append(lows)
                combined *= distinct
        if ranged and combined < blocks:
            keys.append(ranged[0])
        return np.lexsort(keys[::-1]) if keys else None

    def _reorder(self, order: npt.NDArray[np.int64]) -> None:
        start, counts = self.asked.offset[:-1][order], np.diff(self.asked.offset)[order]
        offset = np.zeros(self.size + 1, np.int64)
        np.cumsum(counts, out=offset[1:])
        moved = np.repeat(start - offset[:-1], counts) + np.arange(offset[-1])
        _, column, kind, low, high, *sets = self.asked
        self.asked = k.Asked(offset, column[moved], kind[moved], low[moved], high[moved], *sets)
        self.row = self.row[order]
        self._hulls = {}


@lean_kernel
def _alive(
    atoms: npt.NDArray[np.uint16], stripe_row: k.Int32s, stripe_data: k.Int32s, stripe_width: Bytes,
    rows: k.Int32s, alive: k.Flags,
) -> None:  # fmt: skip
    """alive[i] = whether the last atom of row rows[i] is not FALSE."""
    for i in range(len(rows)):
        low, high = 0, len(stripe_width)
        while high - low > 1:
            middle = (low + high) >> 1
            if stripe_row[middle] <= rows[i]:
                low = middle
            else:
                high = middle
        last = np.int64(stripe_data[low]) + np.int64(rows[i] - stripe_row[low] + 1) * np.int64(stripe_width[low]) - 1
        alive[i] = atoms[last] != FALSE_ATOM
