"""Gathered: memory in which the matches of several chunks, or of several tiers, are put together.

It is used again and again, since fresh memory is slow to touch: what is in it is gone with the next use.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.matching.columnar.matches import Matches, put_beside

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
