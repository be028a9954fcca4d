"""ByteMatrix: one unsigned char per predicate and row, TOPSS's "regular" matching (5.1.2).

Space: predicates times rows, in bytes. Matching adds the byte rows of the satisfied predicates, whole vectors at a
time: satisfied predicates times rows additions, whatever the rows contain.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.association import Association, Rows32
from tocsin_lab.classic.bit_matrix import _with_shape
from tocsin_lab.classic.jit import kernel

BLOCK = 4096  # rows; their hits stay in the first cache


class ByteMatrix(Association):
    """contains[predicate, row]."""

    name: ClassVar[str] = "byte matrix"

    def __init__(self) -> None:
        super().__init__()
        self._contains = np.zeros((16, BLOCK), np.uint8)

    def _insert(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        self._make_room(row, int(predicates.max()))
        self._contains[predicates, row] = 1

    def _insert_many(self, rows: npt.NDArray[np.int64], predicates: npt.NDArray[np.int64]) -> None:
        self._make_room(int(rows[-1]), int(predicates.max()))
        self._contains[predicates, rows] = 1

    def _remove(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        self._contains[predicates, row] = 0

    def matching(self, satisfied: npt.NDArray[np.int32]) -> Rows32:
        found = self._output()
        known = satisfied[satisfied < len(self._contains)]
        self.counted += self.rows * len(known)
        count = count_bytes(self._contains, self.needed, known, self.rows, found)
        return found[:count].copy()

    def bytes(self) -> int:
        return self._contains.nbytes + self.rows

    def _make_room(self, row: int, predicate: int) -> None:
        width = -(-(row + 1) // BLOCK) * BLOCK
        if width > self._contains.shape[1]:
            width = max(width, self._contains.shape[1] * 5 // 4 // BLOCK * BLOCK)
        self._contains = _with_shape(self._contains, predicate + 1, width)


@kernel
def count_bytes(contains, needed, satisfied, rows, found):  # type: ignore[no-untyped-def]
    hits = np.zeros(BLOCK, np.uint8)
    count = 0
    for start in range(0, rows, BLOCK):
        hits[:] = 0
        for s in range(len(satisfied)):
            line = contains[satisfied[s], start : start + BLOCK]
            for i in range(BLOCK):
                hits[i] += line[i]
        for i in range(min(BLOCK, rows - start)):
            found[count] = start + i
            count += hits[i] == needed[start + i]
    return count
