"""TopssLists: list-based counting with all that TOPSS's section 3.3 says of its own, for the figures that depend on it.

The lists are re-allocated by a constant amount. A second structure records for each subscription its predicates, "so that
for a given subscription all predicate lists can be updated" on deletion: `removal_bytes` is what it takes. How large the
constant is the paper does not say; here it is 16 entries.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.association import FREE
from tocsin_lab.classic.lists import Lists
from tocsin_lab.classic.posting_lists import PostingLists
from tocsin_lab.classic.rows import grown

STEP = 16


class TopssLists(PostingLists):
    """Posting lists in constant steps, and the predicates of each row."""

    name: ClassVar[str] = "lists in constant steps"

    def __init__(self) -> None:
        super().__init__()
        self.lists = Lists(STEP)
        self._first = np.zeros(16, np.int32)  # per row: where its predicates begin; how many, `needed` says
        self._predicates = np.zeros(64, np.int32)
        self._used = 0
        self._gone = 0  # predicates of rows that have left

    def _insert(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        super()._insert(row, predicates)
        self._record(np.array([row]), predicates, np.zeros(1, np.int64))

    def _insert_many(self, rows: npt.NDArray[np.int64], predicates: npt.NDArray[np.int64]) -> None:
        super()._insert_many(rows, predicates)
        begins = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        self._record(rows[begins], predicates, begins)

    def _record(
        self, rows: npt.NDArray[np.int64], predicates: npt.NDArray[np.int64], begins: npt.NDArray[np.int64]
    ) -> None:
        self._first = grown(self._first, int(rows[-1]) + 1)
        self._predicates = grown(self._predicates, self._used + len(predicates))
        self._predicates[self._used : self._used + len(predicates)] = predicates
        self._first[rows] = self._used + begins
        self._used += len(predicates)

    def _remove(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        first = int(self._first[row])
        self.lists.remove(self._predicates[first : first + len(predicates)].astype(np.int64), row)
        self._gone += len(predicates)
        if self._gone > 1024 and 2 * self._gone > self._used:
            self._compact()

    def _compact(self) -> None:
        """Give back the places of rows that have left."""
        rows = np.flatnonzero(self.needed[: self.rows] != FREE)
        counts = self.needed[rows].astype(np.int64)
        begins = np.concatenate([[0], np.cumsum(counts)])
        kept = np.repeat(self._first[rows] - begins[:-1], counts) + np.arange(begins[-1])
        self._predicates = self._predicates[kept]
        self._first[rows] = begins[:-1]
        self._used, self._gone = int(begins[-1]), 0

    def removal_bytes(self) -> int:
        return 4 * (self._used + self.rows)
