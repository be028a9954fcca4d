"""The live index: the subscriptions that events are matched against, following the store change by change.

A matcher (`LiveMatcher`), which knows nothing of seq and leases; the leases; and the seq up to which both follow the store.
The snapshot rule is applied here.

Opening the index of a broker: from its folder where it is whole, else rebuilt from the store, which is said.

LiveMatcher: the one matcher of a broker, with its index on disk beside the store.

Changes are seen by the next match; merging goes on beside it. `save` writes the segments (index/index_folder.py) and
the leases as of one seq; a broker that starts loads them and catches up from there:

    manifest.json, *.segment, *.dead    the subscriptions, as index/index_folder.py has them
    1234.leases                         who owns them and for how long, as of the manifest's seq
    writer                              locked by the process that writes; others only read

Operators and programs may take long, and while one commits all others wait. So publishers let them run before their commit
(`prefetch`), and what they said is kept until the events are matched. In the commit none is asked: a publisher who lacks an
answer, because somebody has subscribed meanwhile, is sent back to get it.

A subscription whose operator is not installed here, or no longer takes its arguments, is held and fails: it matches nothing,
and matches again in a broker that has the operator.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from tocsin.broker.expressions import Prepared, bind_stored, bulk_line
from tocsin.broker.live_leases import NEVER, Lease, LiveLeases, Longs
from tocsin.errors import FileError, LanguageError, StoreDamaged, UnknownSubscription
from tocsin.index.index_folder import IndexFolder, Manifest
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.matching.engine import Inquiry
from tocsin.matching.matcher import Matcher
from tocsin.matching.naive import NaiveMatcher
from tocsin.offers.programs import ProgramMemo, Programs
from tocsin.operators.problem import EventEvaluation
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Schema
from tocsin.schema.growth import Moved, moved
from tocsin.store import Store, schema_history
from tocsin.store.notifications import StoredMatches
from tocsin.store.store import reach, read_meta
from tocsin.store.subscriptions import LeaseRow

log = logging.getLogger("tocsin.broker")
_FEW = 500  # subscriptions that are not worth a tier of their own
_TIERS = 8  # beyond so many they are merged, also where nobody matches
_SHOWN = 5  # reasons that the figures tell


class LiveMatcher:
    """The subscriptions of a store in a matcher. It has no schema, and so no subscriptions, before `set_schema`.

    `engine` is "columnar", or "definition": every subscription is asked for every event, for tests and small numbers.
    Used by one thread at a time, but for `prefetch`.
    """

    def __init__(
        self,
        engine: str = "columnar",
        folder: LiveFolder | None = None,
        index: SubscriptionIndex | None = None,
        *,
        operators: Registry | None = None,
        programs: Programs | None = None,
    ) -> None:
        self.engine, self._folder = engine, folder
        self.operators = Registry() if operators is None else operators
        self.programs = Programs() if programs is None else programs
        self._matcher: Matcher | NaiveMatcher | None = None if index is None else self._made(index.schema, index)

    def _made(self, schema: Schema, index: SubscriptionIndex | None = None) -> Matcher | NaiveMatcher:
        if self.engine == "definition":
            return NaiveMatcher(schema, self.operators, self.programs)
        return Matcher(schema, index, operators=self.operators, programs=self.programs)

    @property
    def takes_long(self) -> bool:
        """Whether `prefetch` has something to do."""
        return self._matcher is not None and self._matcher.takes_long

    @property
    def matcher(self) -> Matcher | NaiveMatcher:
        if self._matcher is None:
            raise RuntimeError("the schema must be set first")
        return self._matcher

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def add(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        """Hold subscriptions; the next `find` sees them."""
        plain = [(id, prepared.tree) for id, prepared in subscriptions if prepared.plain]
        many = len(plain) >= _FEW and isinstance(self.matcher, Matcher)
        if many:
            self._load(plain)
        for id, prepared in subscriptions:
            if not (many and prepared.plain):
                self.matcher.add(id, prepared.bound)

    def load(self, stored: Iterable[tuple[int, bytes]], schema: Schema) -> None:
        """Hold many stored subscriptions (id, JSON tree)."""
        remaining = iter(stored)
        first = list(itertools.islice(remaining, _FEW))
        if len(first) == _FEW and isinstance(self.matcher, Matcher):
            self._load(itertools.chain(first, remaining))
            return
        for id, tree in itertools.chain(first, remaining):
            try:
                bound = bind_stored(tree, schema, self.matcher.stored_operators)
            except LanguageError as error:
                raise StoreDamaged(f"the stored subscription {id} does not fit the schema: {error}") from None
            self.matcher.add(id, bound)

    def _load(self, stored: Iterable[tuple[int, bytes]]) -> None:
        """Hold subscriptions as a segment of their own, by the bulk path."""
        matcher = self.matcher
        assert isinstance(matcher, Matcher)
        bad = matcher.load(itertools.starmap(bulk_line, stored), operators=matcher.stored_operators)
        if bad:
            raise StoreDamaged(f"{len(bad)} stored subscriptions do not fit the schema; the first: {bad[0].error}")
        index = matcher.index
        if len(index.tiers()) > _TIERS:  # else matching, when it comes, starts the merge
            index.merge_in_background()

    def remove(self, ids: Sequence[int]) -> None:
        """Let go of subscriptions; those that are not held are none of its business."""
        for id in ids:
            try:
                self.matcher.remove(id)
            except UnknownSubscription:
                continue  # it was over before this matcher heard of it

    def clear(self) -> None:
        """Let go of everything."""
        if self._matcher is not None:
            self._wait()
            self._matcher = self._made(self._matcher.schema)

    def set_schema(self, schema: Schema) -> Moved | None:
        """Go on with an extended schema; return what subscriptions must be added anew for, None: all of them."""
        before = self._matcher
        if before is None:
            self._matcher = self._made(schema)
            return Moved()
        changed = moved(before.schema, schema)
        before.set_schema(schema)
        return None if isinstance(before, NaiveMatcher) else changed  # the one keeps them as they were bound

    # --- matching -----------------------------------------------------------------------------------------------------

    def find(self, events: Sequence[Event], inquiry: Inquiry, arrival: Longs) -> tuple[Longs, Longs]:
        """Return (position of the event, id of the subscription) of every match, each once, in any order."""
        return self.matcher.find_all(events, inquiry, arrival)

    def prefetch(
        self, events: Sequence[Event], known: Sequence[EventEvaluation | None], memo: ProgramMemo
    ) -> list[EventEvaluation | None]:
        """Let operators and programs run now for events that are matched later; return what operators said.

        From any thread, without a lock. What is known already is not asked again; what programs answer is in the memo.
        """
        if self._matcher is None or not events or not self.takes_long:
            return [None] * len(events)
        inquiry = Inquiry({at: each for at, each in enumerate(known) if each is not None})
        memo.closed = False
        with self.programs.remembering(memo):
            self._matcher.find_all(events, inquiry)
        return [inquiry.known(at) for at in range(len(events))]

    # --- upkeep -------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return figures about what it holds."""
        if self._matcher is None:
            return {"engine": self.engine, "subscriptions": 0}
        operators = {name: asdict(each) for name, each in self.operators.runner.counts.items()}
        missing = dict(list(self._matcher.stored_operators.missing.items())[:_SHOWN])
        common = {
            "engine": self.engine,
            "subscriptions": len(self._matcher),
            "operators": operators,
            "missing_operators": missing,
        }
        if isinstance(self._matcher, NaiveMatcher):
            return common
        found, asked = self._matcher.stats(), self._matcher.asked
        return {
            **common,
            "folder": None if self._folder is None else str(self._folder.path),
            "tiers": list(found.tiers),
            "dead": found.dead,
            "bytes": found.bytes,
            "evaluations": asked.evaluations,
            "programs": self.programs.cache.stats(),
        }

    def merge(self) -> None:
        """Merge all segments into one, however long that takes."""
        if isinstance(self._matcher, Matcher):
            self._wait()
            self._matcher.index.merge(everything=True)

    def save(self, seq: int, leases: LiveLeases) -> None:
        """Write to disk what it holds, following the store up to `seq`; nothing, where it keeps nothing on disk."""
        if self._folder is None or not isinstance(self._matcher, Matcher):
            return
        try:
            self._folder.save_as_of(self._matcher.index, seq, leases)
        except (OSError, FileError) as error:  # only a copy: the store has it all, and a start takes longer
            log.warning("the index was not saved: %s", error)

    def _wait(self) -> None:
        if isinstance(self._matcher, Matcher):
            self._matcher.index.wait_for_merging()

    def close(self) -> None:
        """Let go of files and threads."""
        self._wait()
        self.operators.runner.close()
        self.programs.foreign.close()
        if self._folder is not None:
            self._folder.close()


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder holds, as of one seq."""

    index: SubscriptionIndex
    leases: LiveLeases
    seq: int


class LiveFolder(IndexFolder):
    """The folder of a live index: segments, and the leases as of the same seq, of one incarnation of a store."""

    def __init__(self, path: Path, incarnation: str) -> None:
        super().__init__(path)
        self._incarnation = incarnation
        self._lock: IO[str] | None = None

    def load_live(self, schema: Schema) -> Loaded:
        """Return the index as it was saved; raises FileError where it is not whole or not of this store."""
        index, manifest = self.load(schema)
        return Loaded(index, self._read_leases(manifest), manifest.seq)

    def _leases_path(self, seq: int) -> Path:
        return self.path / f"{seq}.leases"

    def _read_leases(self, manifest: Manifest) -> LiveLeases:
        path = self._leases_path(manifest.seq)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            facts = msgspec.json.decode(head)
            if facts["incarnation"] != self._incarnation:
                raise FileError(str(path), "it belongs to another store")
            if facts["checksum"] != zlib.crc32(body):
                raise FileError(str(path), "its checksum does not fit")
            return LiveLeases.from_bytes(body)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileError(str(path), f"not the leases of an index: {error}") from None

    def save_as_of(self, index: SubscriptionIndex, seq: int, leases: LiveLeases) -> None:
        """Make the index durable as of seq, unless another process is the one that writes."""
        if not self.become_writer():
            return
        body = leases.to_bytes()
        facts = {"incarnation": self._incarnation, "checksum": zlib.crc32(body)}
        head = msgspec.json.encode(facts)
        unfinished = self.path / f"{seq}.leases.unfinished"
        with unfinished.open("wb") as file:
            file.write(head + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._leases_path(seq))
        self.save(index, seq)
        for path in self.path.glob("*.leases"):
            if path != self._leases_path(seq):
                path.unlink(missing_ok=True)

    def _swap(self, manifest: Manifest) -> None:
        reach("index.before-manifest")
        super()._swap(manifest)
        reach("index.after-manifest")

    def discard(self) -> None:
        """Remove the manifest, so that nobody takes what it names for an index."""
        (self.path / "manifest.json").unlink(missing_ok=True)

    def become_writer(self) -> bool:
        """Return whether this process is, from now on, the one that writes here."""
        if self._lock is not None:
            return True
        self.path.mkdir(parents=True, exist_ok=True)
        lock = (self.path / "writer").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._lock = lock
        return True

    def close(self) -> None:
        """Let another process write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


# --- The live index ---------------------------------------------------------------------------------------------------


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
