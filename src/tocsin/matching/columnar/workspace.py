"""Workspace: the buffers that matching reuses from batch to batch; one per thread.

Fresh memory is slow to touch for the first time, so buffers only ever grow.

Runs: what the join found, until emission writes it out event by event.

A run of an event is one of
    bitmap   bits of rows, 64 a word       (length in words, position in `sparse` of each word's first row, in `bitmaps`)
    sparse   subscription numbers          (length, -1, position in `sparse`)
    direct   a block still to be evaluated (its rows, -2, block), where a tile would cost more than testing its rows
runs[r] = event (counted from the first of the batch), length, mark, position. The join appends runs in the order of
blocks; grouping puts those of an event side by side.

Gathered: memory in which the matches of several chunks, or of several tiers, are put together.

It is used again and again, since fresh memory is slow to touch: what is in it is gone with the next use.

A kernel takes a workspace as one array, of the address and length of each buffer: unpacking thirty arrays for a call would
take longer than some events (docs/decisions/0196-workspaces-by-address.md).
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.
# mypy: disable-error-code="arg-type, assignment, operator, return-value, no-any-return, call-arg, unreachable, var-annotated, no-untyped-call, attr-defined, call-overload, misc"

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import helper, inlined
from tocsin.index.layout import Bytes
from tocsin.index.open_segment import Atoms, Int32s, Int64s, Words
from tocsin.index.raw_memory import (
    array_at,
    int32_rows_at,
    int32s_at,
    int64s_at,
    uint8s_at,
    uint64s_at,
)
from tocsin.matching.columnar.events import EventMatrix, Matrix
from tocsin.matching.columnar.matches import Matches, put_beside
from tocsin.matching.columnar.ranged import RangedTile

Runs = npt.NDArray[np.int32]
SPARSE, DIRECT = -1, -2
RUN_FIELDS = 4


@inlined
def add_run(runs: Runs, n: int, event: int, length: int, mark: int, position: int) -> int:
    """Append run n; return the number of runs."""
    at = np.uint64(n)
    runs[at, 0], runs[at, 1], runs[at, 2], runs[at, 3] = event, length, mark, position
    return n + 1


@helper
def group_runs(runs: Runs, n: int, events: int, start: npt.NDArray[np.int32], grouped: Runs) -> None:
    """grouped[start[e] : start[e + 1]] = the runs of event e, of runs[:n], in their order; start has events + 2 places."""
    start[: events + 2] = 0
    for r in range(np.uint64(n)):
        start[np.uint64(runs[r, 0] + 2)] += 1
    for e in range(np.uint64(events)):
        start[e + np.uint64(2)] += start[e + np.uint64(1)]
    for r in range(np.uint64(n)):
        e = np.uint64(runs[r, 0] + 1)
        at = np.uint64(start[e])
        start[e] += 1
        grouped[at, 0], grouped[at, 1] = runs[r, 0], runs[r, 1]
        grouped[at, 2], grouped[at, 3] = runs[r, 2], runs[r, 3]


# Workspace.


CHUNK_ROWS = 8192
PLANES = 32
TILE_PLACES, TILE_GROUPS = 65, 32


def aligned_words(count: int) -> npt.NDArray[np.uint64]:
    """Return zeros that start at a cache line: four words at a time, none is read across two lines."""
    memory = np.zeros(count + 8, np.uint64)
    start = -memory.ctypes.data // 8 % 8
    return memory[start : start + count]


# Of what kernels read by address, in the order of open_workspace.
BUFFERS = (
    "words", "truth", "results", "pairs", "visits", "bitmaps", "sparse", "runs", "grouped", "tile", "tile_atoms",
    "ranged_events", "ranged_count", "ranged_left", "ranged_words", "ranged_results", "ranged_bands", "ranged_only",
    "bands", "planes", "totals", "keys", "run_start", "out", "offset", "counters", "needs", "one_slots", "one_simple",
)  # fmt: skip
_PLACE = {name: at for at, name in enumerate(BUFFERS)}
ONE_SLOTS, ONE_SIMPLE = _PLACE["one_slots"], _PLACE["one_simple"]


class OpenWorkspace(NamedTuple):
    """The buffers of a workspace, as kernels see them: Workspace says what each holds."""

    words: Words
    truth: Bytes
    results: Words
    pairs: Int32s
    visits: Words
    bitmaps: Words
    sparse: Int32s
    runs: Runs
    grouped: Runs
    tile: Matrix
    tile_atoms: Atoms
    ranged: RangedTile
    bands: Int32s
    planes: Words
    totals: Int64s
    keys: Int64s
    run_start: Int32s
    out: Int32s
    offset: Int64s
    counters: Int64s
    needs: Int64s


@inlined
def open_workspace(places: Int64s) -> OpenWorkspace:
    """Return the buffers of a workspace, without a copy; those that a kernel does not read cost it nothing."""
    ranged = RangedTile(
        int32s_at(places, 11), int32s_at(places, 12), uint64s_at(places, 13), uint64s_at(places, 14),
        uint64s_at(places, 15), uint8s_at(places, 16), uint8s_at(places, 17),
    )  # fmt: skip
    return OpenWorkspace(
        uint64s_at(places, 0), uint8s_at(places, 1), uint64s_at(places, 2), int32s_at(places, 3), uint64s_at(places, 4),
        uint64s_at(places, 5), int32s_at(places, 6), int32_rows_at(places, 7, RUN_FIELDS), int32_rows_at(places, 8, RUN_FIELDS),
        int32_rows_at(places, 9, TILE_PLACES), array_at(places[20], (64, TILE_GROUPS), np.uint16), ranged,
        int32s_at(places, 18), uint64s_at(places, 19), int64s_at(places, 20), int64s_at(places, 21), int32s_at(places, 22),
        int32s_at(places, 23), int64s_at(places, 24), int64s_at(places, 25), int64s_at(places, 26),
    )  # fmt: skip


@inlined
def matrix_of_one(places: Int64s, slots: int, simple: int) -> EventMatrix:
    """Return the memory of the one event that is laid out in a workspace; it has no multiple columns and no bytes."""
    return EventMatrix(
        array_at(places[2 * ONE_SLOTS], (1, slots), np.int32),
        array_at(places[2 * ONE_SIMPLE], (1, simple), np.uint16),
        array_at(places[2 * ONE_SLOTS], (1, 0), np.int64),
        int32s_at(places, ONE_SLOTS)[:0],
        uint8s_at(places, 1)[:0],
    )


class Workspace:
    """Scratch memory of one thread; see matching/columnar/join.py and emit.py for what each holds.

    `places` has the address and length of each buffer that kernels read, whichever array it is at present.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        at = _PLACE.get(name)
        if at is not None:
            self.places[2 * at], self.places[2 * at + 1] = value.ctypes.data, value.size

    def __init__(self) -> None:
        self.places = np.zeros(2 * len(BUFFERS), np.int64)
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
        self.tile = np.zeros((5, TILE_PLACES), np.int32)  # of one tile: events, limits, ranks, counts, and 0 .. 63
        self.tile_atoms = np.zeros((64, TILE_GROUPS), np.uint16)  # of its events: the atoms that they satisfy
        self.ranged_events = np.zeros(256, np.int32)  # of a tile of ranges in bands (ranged.py): see RangedTile
        self.ranged_count = np.zeros(258, np.int32)
        self.ranged_left = np.zeros(16, np.uint64)
        self.ranged_words = aligned_words(1 << 12)
        self.ranged_results = aligned_words(4 * 512)
        self.ranged_bands = np.zeros(1 << 12, np.uint8)
        self.ranged_only = np.zeros(512, np.uint8)
        self.bands = np.zeros(32, np.int32)  # of one event: its band in each range column, and its code
        self.planes = np.zeros(PLANES, np.uint64)  # of one tile, bit by bit: how many rows each event matches
        self.totals = np.zeros(CHUNK_ROWS // 64 + 1, np.int64)  # of each 64 rows of a chunk: the bits of its results
        self.keys = np.zeros(64, np.int64)  # of a few events, in one schema
        self.order = np.zeros(1 << 12, np.int32)  # events, by the column that the segment is sorted by
        self.run_start = np.zeros((1 << 12) + 2, np.int32)  # of each event
        self.out = np.zeros(1 << 16, np.int32)
        self.offset = np.zeros((1 << 12) + 1, np.int64)  # ends of the numbers of each event, or how many it matches
        self.counters = np.zeros(8, np.int64)
        self.needs = np.zeros(8, np.int64)  # what a kernel needed more of
        self.one_slots = np.zeros(64, np.int32)  # of an event by itself, beside a batch that is under way
        self.one_simple = np.zeros(64, np.uint16)
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
            shape = (max(size, 2 * len(buffer)), *buffer.shape[1:])
            setattr(self, name, aligned_words(shape[0]) if name == "ranged_words" else np.zeros(shape, buffer.dtype))


# Gathered.


SPARE = 8  # numbers beyond the end, which vectors may read
KEPT = 16  # of a thread, for its next batches


class Gathered:
    """Room for the matches of some events."""

    def __init__(self) -> None:
        self._codes: npt.NDArray[Any] = np.empty(1 << 12, np.int32)
        self._count = 0
        self._counts: list[npt.NDArray[np.int64]] = []

    def clear(self) -> None:
        self._count = 0
        self._counts = []

    def add(self, part: Matches) -> None:
        """Add the matches of the next events."""
        stop = self._count + len(part)
        self._make_room(stop, part.codes.dtype)
        self._codes[self._count : stop] = part.codes
        self._count = stop
        self._counts.append(part.counts())

    def matches(self, first: int) -> Matches:
        """Return what was added since it was cleared."""
        return Matches(first, _ends(np.concatenate([np.zeros(0, np.int64), *self._counts])), self._codes[: self._count])

    def joined(self, parts: Sequence[Matches], first: int, events: int) -> Matches:
        """Return the matches of the same events in several tiers as one, in this memory."""
        offset = _ends(np.sum([part.counts() for part in parts], axis=0) if parts else np.zeros(events, np.int64))
        self.clear()
        kind = np.result_type(np.int32, *(part.codes.dtype for part in parts))
        self._codes = self._codes if self._codes.dtype == kind else np.empty(1 << 12, kind)
        self._make_room(int(offset[-1]), kind)
        place = offset[:-1].copy()
        for part in parts:
            put_beside(part.offset, part.codes, place, self._codes)
        return Matches(first, offset, self._codes[: offset[-1]])

    def with_spare(self, count: int) -> npt.NDArray[Any]:
        """Return the first codes, and some more of whatever value."""
        return self._codes[: count + SPARE]

    def _make_room(self, count: int, kind: npt.DTypeLike) -> None:
        """Make sure that so many codes fit, of that kind or of the one there is, whichever holds both."""
        wanted = np.result_type(self._codes.dtype, kind) if self._count else np.dtype(kind)
        if len(self._codes) < count + SPARE or self._codes.dtype != wanted:
            larger = np.empty(max(count + SPARE, 2 * len(self._codes)), wanted)
            larger[: self._count] = self._codes[: self._count]
            self._codes = larger


def _ends(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offset = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offset[1:])
    return offset


_spare = threading.local()


@contextmanager
def borrowed(count: int) -> Iterator[list[Gathered]]:
    """Lend memory that nobody else uses meanwhile, also where a thread has several batches under way."""
    kept: list[Gathered] = getattr(_spare, "memory", [])
    _spare.memory = kept[count:]
    memory = kept[:count] + [Gathered() for _ in range(count - len(kept))]
    try:
        yield memory
    finally:
        _spare.memory = (memory + getattr(_spare, "memory", []))[:KEPT]
