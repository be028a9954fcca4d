"""Workspace: the buffers that matching reuses from batch to batch; one per thread.

Fresh memory is slow to touch for the first time, so buffers only ever grow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.matching.columnar.runs import RUN_FIELDS

CHUNK_ROWS = 8192
PLANES = 32


class Workspace:
    """Scratch memory of one thread; see matching/columnar/join.py and emit.py for what each holds."""

    def __init__(self) -> None:
        self.words = np.zeros(65_536, np.uint64)  # per atom: which events of the tile satisfy it
        self.truth = np.zeros(65_536, np.uint8)  # per atom: whether the event satisfies it
        self.results = np.zeros(CHUNK_ROWS + 64, np.uint64)  # per row of a chunk: which events match it
        self.pairs = np.zeros(2 * CHUNK_ROWS + 128, np.int32)
        self.slots = np.zeros(1 << 12, np.int32)  # codes of events, event by event: see events.py
        self.simple = np.zeros(1 << 12, np.uint16)
        self.narrow = np.zeros(1 << 12, np.uint8)
        self.visits = np.zeros(1 << 14, np.uint64)
        self.spare = np.zeros(1 << 14, np.uint64)
        self.bitmaps = np.zeros(1 << 18, np.uint64)
        self.sparse = np.zeros(1 << 16, np.int32)
        self.runs = np.zeros((1 << 14, RUN_FIELDS), np.int32)
        self.grouped = np.zeros((1 << 14, RUN_FIELDS), np.int32)  # runs, by event
        self.tile = np.zeros((5, 65), np.int32)  # of one tile: events, limits, ranks, counts, and 0 .. 63
        self.tile_atoms = np.zeros((64, 32), np.uint16)  # of its events: the atoms that they satisfy
        self.planes = np.zeros(PLANES, np.uint64)  # of one tile, bit by bit: how many rows each event matches
        self.totals = np.zeros(CHUNK_ROWS // 64 + 1, np.int64)  # of each 64 rows of a chunk: the bits of its results
        self.keys = np.zeros(64, np.int64)  # of a few events, in one schema
        self.order = np.zeros(1 << 12, np.int32)  # events, by the column that the segment is sorted by
        self.run_start = np.zeros((1 << 12) + 2, np.int32)  # of each event
        self.out = np.zeros(1 << 16, np.int32)
        self.offset = np.zeros((1 << 12) + 1, np.int64)
        self.counters = np.zeros(8, np.int64)
        self.block_events = 1 << 16

    def matrix(self, name: str, rows: int, columns: int) -> npt.NDArray[Any]:
        """Return a matrix of that shape within the buffer; its contents are any."""
        self.grow(name, rows * columns)
        found: npt.NDArray[Any] = getattr(self, name)[: rows * columns].reshape(rows, columns)
        return found

    def grow(self, name: str, size: int) -> None:
        """Make the buffer hold at least `size` elements, at least doubling it; its contents are lost."""
        buffer = getattr(self, name)
        if len(buffer) < size:
            setattr(self, name, np.zeros((max(size, 2 * len(buffer)), *buffer.shape[1:]), buffer.dtype))
