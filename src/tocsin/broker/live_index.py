"""The live index: the subscriptions that events are matched against, following the store change by change.

A matcher (live_matcher.py), which knows nothing of seq and leases; the leases; and the seq up to which both follow the store.
The snapshot rule is applied here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tocsin.broker.expressions import Prepared
from tocsin.broker.live_leases import NEVER, Lease, LiveLeases
from tocsin.broker.live_matcher import LiveMatcher
from tocsin.matching.inquiry import Inquiry
from tocsin.schema import Event, Schema
from tocsin.store.notifications import Matches
from tocsin.store.subscriptions import LeaseRow


class LiveIndex:
    """The subscriptions that live, or that lived when an event still to be matched arrived."""

    def __init__(self, matcher: LiveMatcher, leases: LiveLeases | None = None, seq: int = 0) -> None:
        self.matcher = matcher
        self.leases = leases or LiveLeases()
        self.seq = seq  # what happened up to here is in
        self.failures = 0  # pairs that ended without an answer
        self.changes = 0  # since the matcher was saved
        self._ended = deque(sorted(self.leases.ended()))  # (seq, ids) that the matcher may still hold

    def __len__(self) -> int:
        return len(self.leases)

    def add(self, new: Sequence[tuple[Lease, Prepared]]) -> None:
        """Hold subscriptions, in order of their ids, greater than all before."""
        self.leases.add([lease for lease, _ in new])
        self.matcher.add([(lease.id, prepared) for lease, prepared in new])
        self.changes += len(new)
        self._wait([lease for lease, _ in new])

    def load(self, chunks: Iterable[Sequence[LeaseRow]], schema: Schema) -> None:
        """Hold stored subscriptions, in order of their ids, greater than all before; they become one segment."""
        self.matcher.load(self._loaded(chunks), schema)

    def _loaded(self, chunks: Iterable[Sequence[LeaseRow]]) -> Iterator[tuple[int, bytes]]:
        """Yield what the matcher is to hold, chunk by chunk, so that never all of it is there as objects."""
        for rows in chunks:
            leases = [lease_of(row) for row in rows]
            self.leases.add(leases)
            self.changes += len(rows)
            self._wait(leases)
            for row in rows:
                yield row.id, row.tree or b""

    def _wait(self, leases: Sequence[Lease]) -> None:
        """Remember those that are over already, until the matcher may forget them."""
        if over := [(lease.deleted, [lease.id]) for lease in leases if lease.deleted != NEVER]:
            self._ended = deque(sorted([*self._ended, *over]))

    def renew(self, id: int, end_us: int) -> None:
        """Move the end of a lease."""
        self.leases.renew(id, end_us)

    def end(self, ids: Sequence[int], seq: int) -> None:
        """Let subscriptions be over from `seq` on."""
        if ended := self.leases.end(ids, seq):
            self._ended.append((seq, ended))
            self.changes += len(ended)

    def release(self, low_water: int) -> None:
        """Let the matcher forget what was over by a seq up to which all events are matched."""
        while self._ended and self._ended[0][0] <= low_water:
            self.matcher.remove(self._ended.popleft()[1])

    def match(
        self,
        seqs: Sequence[int],
        arrivals_us: Sequence[int],
        events: Sequence[Event],
        inquiry: Inquiry | None = None,
    ) -> Matches:
        """Return the matches of events as of their seqs and arrivals; the inquiry is told what else is found out."""
        position, subscription = self.matcher.find(events, Inquiry() if inquiry is None else inquiry)
        seq = np.asarray(seqs, np.int64)[position]
        arrival = np.asarray(arrivals_us, np.int64)[position]
        keep, owner = self.leases.apply_rule(seq, arrival, subscription)
        return Matches(seq[keep], subscription[keep], owner[keep])

    def save(self) -> None:
        """Write the matcher to disk, and what it needs to go on from there."""
        self.matcher.save(self.seq, self.leases)
        self.changes = 0

    def close(self) -> None:
        """Write what is not written yet, and let go of files and threads."""
        if self.changes:
            self.save()
        self.matcher.close()


def lease_of(row: LeaseRow) -> Lease:
    """Return the lease of a row of the store."""
    return Lease(row.id, row.owner, row.start_us, row.end_us, NEVER if row.deleted_seq is None else row.deleted_seq)
