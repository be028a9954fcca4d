"""PostingLists: for each predicate the list of the rows that contain it (TOPSS 3.3, list-based; Le Subscribe pred_subs).

Space: one number per predicate of each row. Matching: one addition per (satisfied predicate, row in its list), then one
comparison per row. Removal needs the row's predicates (rows.py keeps them) and searches their lists.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.association import Association, Rows32
from tocsin_lab.classic.jit import helper, kernel
from tocsin_lab.classic.lists import Lists
from tocsin_lab.classic.rows import grown


class PostingLists(Association):
    """A hit vector of unsigned chars, counted over lists."""

    name: ClassVar[str] = "lists"

    def __init__(self) -> None:
        super().__init__()
        self.lists = Lists()
        self._hits = np.zeros(16, np.uint8)

    def _insert(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        self.lists.append(predicates, row)

    def _insert_many(self, rows: npt.NDArray[np.int64], predicates: npt.NDArray[np.int64]) -> None:
        self.lists.extend(predicates, rows)

    def _remove(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        self.lists.remove(predicates, row)

    def matching(self, satisfied: npt.NDArray[np.int32]) -> Rows32:
        if len(satisfied):
            self.lists.reserve(int(satisfied.max()) + 1)
        self._hits = grown(self._hits, self.rows)
        found = self._output()
        arrays = self.lists.arrays
        count, additions = count_lists(
            arrays.start, arrays.length, arrays.pool, satisfied, self.needed, self._hits, self.rows, found
        )
        self.counted += additions
        return found[:count].copy()

    def bytes(self) -> int:
        return self.lists.bytes() + 2 * self.rows


@helper
def add_hits(start, length, pool, satisfied, hits):  # type: ignore[no-untyped-def]
    """Add one to each row in the list of each satisfied predicate; return how many additions that took."""
    additions = 0
    for s in range(len(satisfied)):
        first, size = start[satisfied[s]], length[satisfied[s]]
        additions += size
        rows = pool[first : first + size]
        for i in range(size):
            hits[np.uint32(rows[i])] += np.uint8(1)  # unsigned: no look at whether the index counts from the end
    return additions


@kernel
def count_lists(start, length, pool, satisfied, needed, hits, rows, found):  # type: ignore[no-untyped-def]
    """Write the rows with as many hits as they need; the hit vector is zero before and after."""
    additions = add_hits(start, length, pool, satisfied, hits)
    count = 0
    for row in range(rows):
        found[count] = row  # kept only if the next line counts it
        count += hits[row] == needed[row]
    hits[:rows] = 0
    return count, additions
