"""Live leases: who owns each subscription, and during what it is live, as columns in memory.

Follows the store; read by live_index.py to apply the snapshot rule to whatever an engine finds, and by the sweeper.
A subscription's id is the seq at which it was created, so ids only ever grow and the columns stay sorted by appending.

What this process has unsubscribed: a page that was read before may still name it, and must not be delivered from.

Kept until the retention is over, so in few bytes: 16 for each in arrays, and only the newest in a dictionary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max
_COLUMNS = ("id", "owner", "start_us", "end_us", "deleted")


class Lease(NamedTuple):
    """One subscription's lease; `deleted` is a seq, NEVER while it is live."""

    id: int
    owner: int
    start_us: int
    end_us: int
    deleted: int = NEVER


class LiveLeases:
    """The leases of all subscriptions that an event still to be matched may reach."""

    def __init__(self) -> None:
        self._columns = np.zeros((len(_COLUMNS), 1024), np.int64)
        self._size = 0
        self._live = 0
        self._live_of: Counter[int] = Counter()

    def __len__(self) -> int:
        """Return how many are live."""
        return self._live

    def live_of(self, owner: int) -> int:
        """Return how many live subscriptions an owner has."""
        return self._live_of[owner]

    @property
    def ids(self) -> Longs:
        return self._columns[0, : self._size]

    @property
    def _owner(self) -> Longs:
        return self._columns[1, : self._size]

    @property
    def _start_us(self) -> Longs:
        return self._columns[2, : self._size]

    @property
    def _end_us(self) -> Longs:
        return self._columns[3, : self._size]

    @property
    def _deleted(self) -> Longs:
        return self._columns[4, : self._size]

    # --- following the store ------------------------------------------------------------------------------------------

    def add(self, new: Sequence[tuple[int, ...]]) -> None:
        """Hold leases whose ids are greater than all before, in order."""
        if not new:
            return
        rows = np.array(new, np.int64).T
        if np.any(np.diff(rows[0], prepend=self.ids[-1] if self._size else 0) <= 0):
            raise ValueError("ids must grow")
        self._extend(rows)

    def _extend(self, rows: Longs) -> None:
        size = self._size + rows.shape[1]
        if size > self._columns.shape[1]:
            grown = np.zeros((len(_COLUMNS), max(size, 2 * self._columns.shape[1])), np.int64)
            grown[:, : self._size] = self._columns[:, : self._size]
            self._columns = grown
        self._columns[:, self._size : size] = rows
        self._size = size
        owners, counts = np.unique(rows[1, rows[4] == NEVER], return_counts=True)
        self._live += int(counts.sum())
        self._live_of.update(dict(zip(owners.tolist(), counts.tolist(), strict=True)))

    def has(self, ids: Sequence[int]) -> list[bool]:
        """Return which subscriptions are known."""
        wanted = np.asarray(ids, np.int64)
        at = np.searchsorted(self.ids, wanted)
        known = at < self._size
        known[known] = self.ids[at[known]] == wanted[known]
        found: list[bool] = known.tolist()
        return found

    def renew(self, id: int, end_us: int) -> None:
        """Move the end of a lease."""
        if (at := self._at(id)) is not None:
            self._end_us[at] = end_us

    def end(self, ids: Sequence[int], seq: int) -> list[int]:
        """Mark subscriptions as over from `seq` on; return those that were live."""
        ended = []
        for id in ids:
            at = self._at(id)
            if at is not None and self._deleted[at] == NEVER:
                self._deleted[at] = seq
                self._live -= 1
                self._live_of[int(self._owner[at])] -= 1
                ended.append(id)
        return ended

    def _at(self, id: int) -> int | None:
        at = int(np.searchsorted(self.ids, id))
        return at if at < self._size and self.ids[at] == id else None

    def forget(self, low_water: int) -> None:
        """Let go of subscriptions that were over by a seq up to which all events are matched."""
        keep = self._deleted > low_water
        if not keep.all():
            kept = self._columns[:, : self._size][:, keep]
            self._columns, self._size = kept, kept.shape[1]

    # --- asking -------------------------------------------------------------------------------------------------------

    def apply_rule(self, seq: Longs, arrival_us: Longs, subscription: Longs) -> tuple[npt.NDArray[np.bool_], Longs]:
        """Return which matches the snapshot rule keeps, and the owner of each.

        Event e reaches subscription s exactly when s.created < e < s.deleted and s's lease [start, end) covers e's
        arrival. This is the only place that says so.
        """
        if not self._size:
            return np.zeros(len(seq), np.bool_), np.zeros(len(seq), np.int64)
        at = self._places(subscription)
        keep = (
            (self.ids[at] == subscription)
            & (subscription < seq)
            & (seq < self._deleted[at])
            & (self._start_us[at] <= arrival_us)
            & (arrival_us < self._end_us[at])
        )
        return keep, self._owner[at]

    def _places(self, ids: Longs) -> Longs:
        """Return where subscriptions are, or would be; at most the last place.

        Where many are asked for, and ids lie close together, a table of all ids is made for it: several times as fast
        as searching for each.
        """
        first, span = int(self.ids[0]), int(self.ids[-1] - self.ids[0]) + 1
        if len(ids) < span:
            return np.minimum(np.searchsorted(self.ids, ids), self._size - 1)
        table = np.zeros(span, np.int64)
        table[self.ids - first] = np.arange(self._size)
        return table[np.clip(ids - first, 0, span - 1)]

    def due(self, now_us: int) -> list[int]:
        """Return the live subscriptions whose lease has ended."""
        found: list[int] = self.ids[(self._end_us <= now_us) & (self._deleted == NEVER)].tolist()
        return found

    def ending(self, now_us: int, notice_us: int, owner: int | None = None) -> list[tuple[int, int]]:
        """Return the live subscriptions whose lease ends within the notice, or the last tenth of it, and when it ends.

        Of one owner, or of all.
        """
        near = self._end_us - np.minimum(notice_us, (self._end_us - self._start_us) // 10) <= now_us
        chosen = near & (now_us < self._end_us) & (self._deleted == NEVER)
        if owner is not None:
            chosen &= self._owner == owner
        return list(zip(self.ids[chosen].tolist(), self._end_us[chosen].tolist(), strict=True))

    def ended(self) -> list[tuple[int, list[int]]]:
        """Return (seq, [id]) of those that are over and not forgotten yet."""
        over = self._deleted != NEVER
        pairs = zip(self._deleted[over].tolist(), self.ids[over].tolist(), strict=True)
        return [(seq, [id]) for seq, id in pairs]

    # --- on disk, beside the index ------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the columns as bytes."""
        return self._columns[:, : self._size].astype("<i8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> LiveLeases:
        """Return the leases that these bytes hold; raises ValueError."""
        leases = cls()
        leases._extend(np.frombuffer(data, "<i8").astype(np.int64).reshape(len(_COLUMNS), -1))
        return leases


# What this process has unsubscribed.


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
