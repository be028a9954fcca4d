"""The association of predicates with subscriptions: the second stage of counting (TOPSS section 3.3).

Given the satisfied predicates, count for each row how many of its predicates are among them; a row with as many as it
has matches. Implemented by posting_lists.py, bit_matrix.py and byte_matrix.py. All keep the row's true number of
predicates, as TOPSS, in an unsigned char: a row has at most 254, and 255 marks a row number that is free.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin_lab.classic.rows import grown

MOST_PREDICATES = 254
FREE = 255
Rows32 = npt.NDArray[np.int32]


class Association(ABC):
    """Which rows contain each predicate."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self.needed = np.zeros(16, np.uint8)  # per row: its number of predicates, or FREE
        self.rows = 0  # row numbers in use are below this
        self.counted = 0  # additions, or words added, so far
        self._found = np.zeros(16, np.int32)

    def insert(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        """Associate a row with its predicates."""
        self._know(row)
        self.needed[row] = len(predicates)
        self._insert(row, predicates)

    def insert_many(self, rows: npt.NDArray[np.int64], predicates: npt.NDArray[np.int64]) -> None:
        """Associate rows[i] with predicates[i], many at once; the rows ascend, and are new."""
        self._know(int(rows[-1]))
        count = np.bincount(rows - rows[0])
        part = self.needed[rows[0] : rows[-1] + 1]
        part[count > 0] = count[count > 0]
        self._insert_many(rows, predicates)

    def remove(self, row: int, predicates: npt.NDArray[np.int64]) -> None:
        """Let go of a row."""
        self.needed[row] = FREE
        self._remove(row, predicates)

    def _know(self, row: int) -> None:
        """Make room for a row; those before it that are not here are free."""
        if row >= self.rows:
            self.needed = grown(self.needed, row + 1)
            self.needed[self.rows : row + 1] = FREE
            self.rows = row + 1

    def _output(self) -> Rows32:
        """Return the buffer for the result, large enough."""
        if len(self._found) < self.rows + 64:
            self._found = np.zeros(2 * self.rows + 64, np.int32)
        return self._found

    @abstractmethod
    def _insert(self, row: int, predicates: npt.NDArray[np.int64]) -> None: ...

    @abstractmethod
    def _insert_many(self, rows: npt.NDArray[np.int64], predicates: npt.NDArray[np.int64]) -> None: ...

    @abstractmethod
    def _remove(self, row: int, predicates: npt.NDArray[np.int64]) -> None: ...

    @abstractmethod
    def matching(self, satisfied: npt.NDArray[np.int32]) -> Rows32:
        """Return the rows all of whose predicates are satisfied."""

    @abstractmethod
    def bytes(self) -> int:
        """Return how much memory the association takes, without what only removal needs."""

    def removal_bytes(self) -> int:
        """Return what a structure that only removal needs takes, where there is one; a matrix needs none."""
        return 0
