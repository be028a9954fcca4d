"""What this process has unsubscribed: a page that was read before may still name it, and must not be delivered from.

Kept until the retention is over, so in few bytes: 16 for each in arrays, and only the newest in a dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
NEWEST = 4096


class Unsubscribed:
    """Ids with the seqs at which they ended. One thread at a time adds and forgets; any may ask meanwhile."""

    def __init__(self) -> None:
        none = np.zeros(0, np.int64)
        self._older: tuple[Longs, Longs] = (none, none)  # ids in order, and their seqs
        self._newest: dict[int, int] = {}

    def __contains__(self, id: int) -> bool:
        if id in self._newest:
            return True
        ids, _ = self._older
        at = int(np.searchsorted(ids, id))
        return at < len(ids) and int(ids[at]) == id

    def __len__(self) -> int:
        return len(self._newest) + len(self._older[0])

    def add(self, ended: Mapping[int, int]) -> None:
        """Add ids with their seqs."""
        self._newest |= ended
        if len(self._newest) > NEWEST:
            ids = np.concatenate([self._older[0], np.fromiter(self._newest.keys(), np.int64, len(self._newest))])
            seqs = np.concatenate([self._older[1], np.fromiter(self._newest.values(), np.int64, len(self._newest))])
            order = np.argsort(ids, kind="stable")
            self._older = (ids[order], seqs[order])  # first, so that whoever asks finds each in one of the two
            self._newest = {}

    def forget_through(self, seq: int) -> None:
        """Forget those that ended up to a seq."""
        ids, seqs = self._older
        kept = seqs > seq
        if not kept.all():
            self._older = (ids[kept], seqs[kept])
        self._newest = {id: at for id, at in self._newest.items() if at > seq}
