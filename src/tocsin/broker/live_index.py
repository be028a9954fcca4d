"""The live index: the subscriptions that events are matched against, following the store change by change.

A matcher (`LiveMatcher`), which knows nothing of seq and leases; the leases; and the seq up to which both follow the store.
The snapshot rule is applied here.

LiveMatcher: the one matcher of a broker, with its index on disk beside the store. Where kernels are not compiled yet, the
definition answers for the first subscriptions (matching/young.py); then there is no index to save or merge.

Changes are seen by the next match; merging goes on beside it. `save` writes the segments and the leases as of one seq
(live_folder.py).

Operators and programs may take long, and while one commits all others wait. So publishers let them run before their commit
(`prefetch`), and what they said is kept until the events are matched. In the commit none is asked: a publisher who lacks an
answer, because somebody has subscribed meanwhile, is sent back to get it.

A subscription whose operator is not installed here, or no longer takes its arguments, is held and fails: it matches nothing,
and matches again in a broker that has the operator.

Live leases: who owns each subscription, and during what it is live, as columns in memory.

Follows the store; read by live_index.py to apply the snapshot rule to whatever an engine finds, and by the sweeper.
A subscription's id is the seq at which it was created, so ids only ever grow and the columns stay sorted by appending.

What this process has unsubscribed: a page that was read before may still name it, and must not be delivered from.

Kept until the retention is over, so in few bytes: 16 for each in arrays, and only the newest in a dictionary.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.broker.expressions import Prepared, bind_stored, bulk_line
from tocsin.errors import FileError, LanguageError, StoreDamaged, UnknownSubscription
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.matching import young
from tocsin.matching.engine import Inquiry, NaiveMatcher
from tocsin.matching.matcher import Matcher
from tocsin.offers.programs import ProgramMemo, Programs
from tocsin.operators.problem import EventEvaluation
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Schema
from tocsin.schema.growth import Moved, moved
from tocsin.store.notifications import StoredMatches
from tocsin.store.subscriptions import LeaseRow

if TYPE_CHECKING:
    from tocsin.broker.live_folder import LiveFolder

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

    def ids_of(self, owner: int) -> set[int]:
        """Return the live subscriptions of an owner."""
        return set(self.ids[(self._owner == owner) & (self._deleted == NEVER)].tolist())

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

    def ending(self, now_us: int, notice_us: int, least_us: int, owner: int | None = None) -> list[tuple[int, int]]:
        """Return the live subscriptions whose lease ends within the notice, or the last tenth of it, and when it ends.

        That tenth is taken to be `least_us` at least, so that who looks every so often does not miss it. Of one owner, or of all.
        """
        tenth = np.maximum((self._end_us - self._start_us) // 10, least_us)
        near = self._end_us - np.minimum(notice_us, tenth) <= now_us
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


# --- The matcher, and the index ---------------------------------------------------------------------------------------


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
    def needs_kernels(self) -> bool:
        """Whether a match takes kernels; else the definition answers."""
        return isinstance(self._matcher, Matcher) and self._matcher.needs_kernels

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
        many = len(plain) >= self._few and isinstance(self.matcher, Matcher)
        if many:
            self._load(plain)
        for id, prepared in subscriptions:
            if not (many and prepared.plain):
                self.matcher.add(id, prepared.bound)

    def load(self, stored: Iterable[tuple[int, bytes]], schema: Schema) -> None:
        """Hold many stored subscriptions (id, JSON tree)."""
        remaining = iter(stored)
        few = self._few
        first = list(itertools.islice(remaining, few))
        if len(first) == few and isinstance(self.matcher, Matcher):
            self._load(itertools.chain(first, remaining))
            return
        for id, tree in itertools.chain(first, remaining):
            try:
                bound = bind_stored(tree, schema, self.matcher.stored_operators)
            except LanguageError as error:
                raise StoreDamaged(f"the stored subscription {id} does not fit the schema: {error}") from None
            self.matcher.add(id, bound)

    @property
    def _few(self) -> int:
        """How many subscriptions at once become a tier of their own; the definition takes them one by one."""
        return _FEW if self.needs_kernels else young.MOST_YOUNG + 1

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
        if isinstance(before, Matcher) and not before.needs_kernels:
            self._matcher = self._made(schema)
            return None
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
        if isinstance(self._matcher, Matcher) and self.needs_kernels:
            self._wait()
            self._matcher.index.merge(everything=True)

    def save(self, seq: int, leases: LiveLeases) -> None:
        """Write to disk what it holds, following the store up to `seq`; nothing, where it keeps nothing on disk."""
        if self._folder is None or not isinstance(self._matcher, Matcher) or not self.needs_kernels:
            return  # few subscriptions are read from the store as fast
        try:
            self._folder.save_as_of(self._matcher.index, seq, leases)
        except (OSError, FileError) as error:  # only a copy: the store has it all, and a start takes longer
            log.warning("the index was not saved: %s", error)

    def _wait(self) -> None:
        if isinstance(self._matcher, Matcher) and self.needs_kernels:
            self._matcher.index.wait_for_merging()

    def close(self) -> None:
        """Let go of files and threads."""
        self._wait()
        self.operators.runner.close()
        self.programs.foreign.close()
        if self._folder is not None:
            self._folder.close()


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
