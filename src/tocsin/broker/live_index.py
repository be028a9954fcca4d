"""The live index: the subscriptions that events are matched against, following the store change by change.

A matcher (live_matcher.py), which knows nothing of seq and leases; the leases; and the seq up to which both follow the store.
The snapshot rule is applied here.

Opening the index of a broker: from its folder where it is whole, else rebuilt from the store, which is said.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tocsin.broker.expressions import Prepared
from tocsin.broker.live_leases import NEVER, Lease, LiveLeases
from tocsin.broker.live_matcher import LiveFolder, LiveMatcher, Loaded
from tocsin.errors import FileError
from tocsin.matching.engine import Inquiry
from tocsin.offers.programs import Programs
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Schema
from tocsin.store import Store, schema_history
from tocsin.store.notifications import StoredMatches
from tocsin.store.subscriptions import LeaseRow
from tocsin.store.transaction import read_meta


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
    ) -> StoredMatches:
        """Return the matches of events as of their seqs and arrivals; the inquiry is told what else is found out."""
        arrivals = np.asarray(arrivals_us, np.int64)
        position, subscription = self.matcher.find(events, Inquiry() if inquiry is None else inquiry, arrivals)
        seq, arrival = np.asarray(seqs, np.int64)[position], arrivals[position]
        keep, owner = self.leases.apply_rule(seq, arrival, subscription)
        return StoredMatches(seq[keep], subscription[keep], owner[keep])

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


# Opening the index of a broker.


log = logging.getLogger("tocsin.broker")


def open_index(
    store: Store,
    engine: str,
    folder: str | Path | None,
    registry: Registry | None = None,
    *,
    programs: Programs | None = None,
    read_only: bool = False,
) -> LiveIndex:
    """Return a live index; it follows the store from its `seq` on, which is 0 where it must be built anew.

    With `read_only` a folder that cannot be used is left as it is: its writer may be about to replace it.
    """
    place = folder_of(store, folder) if engine == "columnar" else None
    if place is None:
        return LiveIndex(LiveMatcher(engine, operators=registry, programs=programs))
    live = LiveFolder(place, store.incarnation)
    try:
        loaded = _load(store, live)
    except FileError as error:
        log.warning("the index cannot be used and is built anew from the store: %s", error)
        if not read_only:
            live.discard()
        loaded = None
    if loaded is None:
        kept = None if read_only else live
        return LiveIndex(LiveMatcher(engine, kept, operators=registry, programs=programs))
    matcher = LiveMatcher(engine, live, loaded.index, operators=registry, programs=programs)
    return LiveIndex(matcher, loaded.leases, loaded.seq)


def folder_of(store: Store, folder: str | Path | None) -> Path | None:
    """Return the folder of a store's index: as given, else beside the file; none for a database that is no file."""
    if folder is not None:
        return Path(folder)
    return None if store.path is None else store.path.with_name(f"{store.path.name}.index")


def _load(store: Store, folder: LiveFolder) -> Loaded | None:
    """Return what is in the folder, None where nothing is; raises FileError where it is of no use."""
    manifest = folder.manifest()
    if manifest is None:
        return None
    with store.read() as connection:
        stands = read_meta(connection)
        versions = {entry.version: entry.schema for entry in schema_history.history(connection)}
    where = str(folder.path)
    if manifest.seq > stands.seq:
        raise FileError(where, f"it is as of seq {manifest.seq}, and the store is at {stands.seq}")
    if manifest.seq < stands.horizon:
        raise FileError(where, f"it is as of seq {manifest.seq}, and what ended up to {stands.horizon} is not kept")
    made_under, schema = versions.get(manifest.schema_version), versions.get(stands.schema_version)
    if made_under is None or schema is None:
        raise FileError(where, "it was made under another schema")
    return folder.load_live(made_under)  # who follows the store goes on to the schema in force, and moves what it must
