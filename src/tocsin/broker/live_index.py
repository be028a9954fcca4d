"""The live index: the subscriptions that events are matched against, following the store change by change.

    Engine      finds the subscriptions that events satisfy; knows nothing of seq and leases (the port)
    LiveIndex   an engine, the leases, and the seq up to which they follow the store; applies the snapshot rule

DefinitionEngine, here, asks the definition about every subscription: for tests, and for small numbers.
ColumnarEngine, in columnar_engine.py, is what brokers use, with others beside it for what it cannot do
(routing_engine.py). The pipeline uses the same segments on its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.broker.expressions import Prepared, prepare_stored
from tocsin.broker.live_leases import NEVER, Lease, LiveLeases, Longs
from tocsin.language import BoundSubscription, evaluate
from tocsin.schema import Event, Schema
from tocsin.store.notifications import Matches
from tocsin.store.subscriptions import LeaseRow

if TYPE_CHECKING:
    from tocsin.symmetric import Matched


class Engine(ABC):
    """Finds, for each event, the subscriptions that it satisfies; lifetimes left aside. Used by one thread at a time."""

    @abstractmethod
    def add(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        """Hold subscriptions; the next `find` sees them."""

    def load(self, stored: Iterable[tuple[int, bytes]], schema: Schema) -> None:
        """Hold many stored subscriptions (id, JSON tree); engines with a bulk path override it."""
        self.add([(id, prepare_stored(tree, schema)) for id, tree in stored])

    @abstractmethod
    def remove(self, ids: Sequence[int]) -> None:
        """Let go of subscriptions; those that are not held are none of its business."""

    @abstractmethod
    def clear(self) -> None:
        """Let go of everything."""

    @abstractmethod
    def find(self, events: Sequence[Event]) -> tuple[Longs, Longs]:
        """Return (position of the event, id of the subscription) of every match, each once, in any order."""

    def met(self, event: Event) -> Matched | None:
        """Return what the last `find` computed for an offer; None for an event that is none."""
        del event
        return None

    @property
    def takes_long(self) -> bool:
        """Whether finding may take long, so that `foreseen` has something to do."""
        return False

    def foreseen(self, events: Sequence[Event]) -> AbstractContextManager[None]:
        """Do now what takes long about events that are found within the block; from any thread, without the lock."""
        del events
        return nullcontext()

    @abstractmethod
    def set_schema(self, schema: Schema) -> bool:
        """Go on with an extended schema; return whether all subscriptions must be added anew."""

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Return figures about what it holds."""

    @abstractmethod
    def merge(self) -> None:
        """Bring what it holds into its best form, however long that takes."""

    @abstractmethod
    def save(self, seq: int, leases: LiveLeases, elsewhere: Sequence[int] = ()) -> None:
        """Write to disk what it holds, following the store up to `seq`; nothing, where it keeps nothing on disk.

        `elsewhere` are those of the leases' subscriptions that another engine holds.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of files and threads."""


class DefinitionEngine(Engine):
    """Evaluates every subscription for every event, by the definition of matching."""

    def __init__(self) -> None:
        self._subscriptions: dict[int, BoundSubscription] = {}

    def add(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        self._subscriptions.update((id, prepared.bound) for id, prepared in subscriptions)

    def remove(self, ids: Sequence[int]) -> None:
        for id in ids:
            self._subscriptions.pop(id, None)

    def clear(self) -> None:
        self._subscriptions.clear()

    def find(self, events: Sequence[Event]) -> tuple[Longs, Longs]:
        found = [
            (at, id)
            for at, event in enumerate(events)
            for id, bound in self._subscriptions.items()
            if evaluate(bound, event)
        ]
        pairs = np.array(found, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def set_schema(self, schema: Schema) -> bool:
        del schema  # bound subscriptions carry their views, and an extension leaves what is bound as it is
        return False

    def stats(self) -> dict[str, Any]:
        return {"engine": "definition", "subscriptions": len(self._subscriptions)}

    def merge(self) -> None:
        """Nothing to do: there is only one form."""

    def save(self, seq: int, leases: LiveLeases, elsewhere: Sequence[int] = ()) -> None:
        del seq, leases, elsewhere  # it is rebuilt from the store

    def close(self) -> None:
        self.clear()


class LiveIndex:
    """The subscriptions that live, or that lived when an event still to be matched arrived."""

    def __init__(self, engine: Engine, leases: LiveLeases | None = None, seq: int = 0) -> None:
        self.engine = engine
        self.leases = leases or LiveLeases()
        self.seq = seq  # what happened up to here is in
        self.changes = 0  # since the engine was saved
        self._ended = deque(sorted(self.leases.ended()))  # (seq, ids) that the engine may still hold

    def __len__(self) -> int:
        return len(self.leases)

    def add(self, new: Sequence[tuple[Lease, Prepared]]) -> None:
        """Hold subscriptions, in order of their ids, greater than all before."""
        self.leases.add([lease for lease, _ in new])
        self.engine.add([(lease.id, prepared) for lease, prepared in new])
        self.changes += len(new)
        self._wait([lease for lease, _ in new])

    def load(self, chunks: Iterable[Sequence[LeaseRow]], schema: Schema) -> None:
        """Hold stored subscriptions, in order of their ids, greater than all before; they become one segment."""
        self.engine.load(self._loaded(chunks), schema)

    def _loaded(self, chunks: Iterable[Sequence[LeaseRow]]) -> Iterator[tuple[int, bytes]]:
        """Yield what the engine is to hold, chunk by chunk, so that never all of it is there as objects."""
        for rows in chunks:
            leases = [lease_of(row) for row in rows]
            self.leases.add(leases)
            self.changes += len(rows)
            self._wait(leases)
            for row in rows:
                yield row.id, row.tree or b""

    def _wait(self, leases: Sequence[Lease]) -> None:
        """Remember those that are over already, until the engine may forget them."""
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
        """Let the engine forget what was over by a seq up to which all events are matched."""
        while self._ended and self._ended[0][0] <= low_water:
            self.engine.remove(self._ended.popleft()[1])

    def match(self, seqs: Sequence[int], arrivals_us: Sequence[int], events: Sequence[Event]) -> Matches:
        """Return the matches of events as of their seqs and arrivals."""
        position, subscription = self.engine.find(events)
        seq = np.asarray(seqs, np.int64)[position]
        arrival = np.asarray(arrivals_us, np.int64)[position]
        keep, owner = self.leases.apply_rule(seq, arrival, subscription)
        return Matches(seq[keep], subscription[keep], owner[keep])

    def save(self) -> None:
        """Write the engine to disk, and what it needs to go on from there."""
        self.engine.save(self.seq, self.leases)
        self.changes = 0

    def close(self) -> None:
        """Write what is not written yet, and let go of files and threads."""
        if self.changes:
            self.save()
        self.engine.close()


def lease_of(row: LeaseRow) -> Lease:
    """Return the lease of a row of the store."""
    return Lease(row.id, row.owner, row.start_us, row.end_us, NEVER if row.deleted_seq is None else row.deleted_seq)
