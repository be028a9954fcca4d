"""The broker's core: the store, and what this process holds of it in memory, moved together.

All that writes goes through `commit()`: it waits for the store's write lock, brings memory up to what other processes
have written since, and when it is committed applies the same to memory. One that fails leaves memory as it was; where it
is unknown whether it was committed, the next one finds out, because it compares seqs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from tocsin.broker.admission import OfferAdmission
from tocsin.broker.expressions import Prepared
from tocsin.broker.live_index import LiveIndex
from tocsin.broker.live_leases import Lease, Unsubscribed
from tocsin.broker.settings import BrokerSettings
from tocsin.errors import SchemaError
from tocsin.operators.registry import Registry
from tocsin.schema import Schema
from tocsin.schema.growth import Moved
from tocsin.store import Meta, Store, Transaction, progress, schema_history, subscriptions
from tocsin.store.store import reach, read_meta
from tocsin.store.subscriptions import LeaseRow, leases_since

Effect = Callable[[LiveIndex], None]


class Commit:
    """One commit: its transaction, the state it starts from, and what memory must do once it is on disk."""

    def __init__(self, transaction: Transaction, live: LiveIndex, schema: Schema | None, registry: Registry) -> None:
        self.transaction = transaction
        self.live = live
        self.registry = registry
        self._schema = schema
        self.effects: list[Effect] = []
        self.added: dict[int, int] = {}  # owner -> subscriptions added in this commit
        self.unsubscribed: dict[int, int] = {}  # id -> seq

    @property
    def connection(self) -> Connection:
        return self.transaction.connection

    @property
    def now_us(self) -> int:
        return self.transaction.now_us

    @property
    def schema(self) -> Schema:
        if self._schema is None:
            raise SchemaError("the store has no schema yet; open the broker with schema=…")
        return self._schema

    @property
    def has_schema(self) -> bool:
        return self._schema is not None

    def set_schema(self, schema: Schema) -> None:
        """Let what follows, in this commit and after it, be judged by another version."""
        self._schema = schema

    def add(self, new: list[tuple[Lease, Prepared]]) -> None:
        """Let memory hold new subscriptions."""
        for lease, _ in new:
            self.added[lease.owner] = self.added.get(lease.owner, 0) + 1
        self.effects.append(lambda live: live.add(new))

    def renew(self, id: int, end_us: int) -> None:
        """Let memory move the end of a lease."""
        self.effects.append(lambda live: live.renew(id, end_us))

    def end(self, ids: list[int], seq: int) -> None:
        """Let memory end subscriptions."""
        self.effects.append(lambda live: live.end(ids, seq))

    def unsubscribe(self, ids: list[int], seq: int, earlier: list[int]) -> None:
        """Let memory end subscriptions whose owner wants nothing more delivered for them, nor for earlier ones."""
        self.end(ids, seq)
        self.unsubscribed |= dict.fromkeys((*ids, *earlier), seq)

    def count_of(self, owner: int) -> int:
        """Return how many subscriptions an owner has, paused ones too."""
        paused = subscriptions.count_paused(self.connection, owner)
        return self.live.leases.live_of(owner) + self.added.get(owner, 0) + paused


class Core:
    """The store, the live index and the schema in force. `lock` is held by whoever uses or changes the live index."""

    def __init__(
        self,
        store: Store,
        live: LiveIndex,
        settings: BrokerSettings,
        registry: Registry | None = None,
        offers: OfferAdmission | None = None,
    ) -> None:
        self.store = store
        self.live = live
        self.settings = settings
        self.registry = Registry() if registry is None else registry  # the operators that subscriptions may call
        self.offers = OfferAdmission() if offers is None else offers  # judges offers
        self.matches_inline = True  # as of the last commit or refresh
        self.matched_through = -1  # as this process left it, and since which seq nobody else has moved it
        self.matched_since = 0
        self.lock = threading.RLock()
        self._schema: Schema | None = None
        self._unsubscribed = Unsubscribed()

    @property
    def schema(self) -> Schema:
        """The schema in force, as far as this process knows."""
        if self._schema is None:
            raise SchemaError("the store has no schema yet; open the broker with schema=…")
        return self._schema

    @contextmanager
    def commit(self) -> Iterator[Commit]:
        """Give the store to write to; when the block ends it is committed, and memory follows."""
        with self.lock:
            with self.store.write() as transaction:
                if self._is_behind(transaction.start):
                    self._follow(transaction.connection, transaction.start)
                self.matches_inline = transaction.start.matching == "inline"
                commit = Commit(transaction, self.live, self._schema, self.registry)
                yield commit
            self._apply(commit)
        reach("broker.after-apply")

    def _apply(self, commit: Commit) -> None:
        if commit.has_schema and commit.schema is not self._schema:
            self._set_schema(commit.schema)
        self._unsubscribed.add(commit.unsubscribed)
        for effect in commit.effects:
            effect(self.live)
        self.live.seq = commit.transaction.seq
        self.live.release(self._matched_through(commit.transaction))

    def was_unsubscribed(self, id: int) -> bool:
        """Return whether this process has unsubscribed it: a page that was read before may still name it."""
        return id in self._unsubscribed

    def forget(self) -> None:
        """Let go of what was over by a seq up to which all events are matched."""
        stands = self.store.meta()
        with self.lock:
            self.live.leases.forget(stands.matched_through)
            self._unsubscribed.forget_through(stands.horizon)

    @staticmethod
    def _matched_through(transaction: Transaction) -> int:
        """Return the seq before which nothing ended is needed: with inline matching no event is ever waiting."""
        return transaction.seq if transaction.start.matching == "inline" else transaction.matched_through

    def refresh(self) -> None:
        """Bring memory up to what other processes have written."""
        with self.lock, self.store.read() as connection:
            stands = read_meta(connection)
            self.matches_inline = stands.matching == "inline"
            if self._is_behind(stands):
                self._follow(connection, stands)

    def _is_behind(self, stands: Meta) -> bool:
        known = 0 if self._schema is None else self._schema.version
        return stands.seq != self.live.seq or stands.schema_version != known

    def _follow(self, connection: Connection, stands: Meta) -> None:
        """Take over what was written after `live.seq`."""
        if self._schema is None or stands.schema_version != self._schema.version:
            newest = schema_history.newest(connection)
            if newest is not None:
                self._set_schema(newest.schema, connection)
        low_water = stands.seq if stands.matching == "inline" else stands.matched_through
        changed = leases_since(connection, self.live.seq, low_water, trees=True)
        if self.live.seq == 0:
            self.live.load(changed, self.schema)
        else:
            self.live.load(map(self._take_over, changed), self.schema)
        self.live.seq = stands.seq
        self.live.release(low_water)

    def _take_over(self, rows: list[LeaseRow]) -> list[LeaseRow]:
        """Follow the changes of those that are known; return the others."""
        new = []
        for row, known in zip(rows, self.live.leases.has([row.id for row in rows]), strict=True):
            if not known:
                new.append(row)
                continue
            self.live.renew(row.id, row.end_us)
            if row.deleted_seq is not None:
                self.live.end([row.id], row.deleted_seq)
        return new

    def _set_schema(self, schema: Schema, connection: Connection | None = None) -> None:
        self._schema = schema
        moved = self.live.matcher.set_schema(schema)
        if moved is None or moved:
            self.reindex(connection, moved)

    def reindex(self, connection: Connection | None = None, moved: Moved | None = None) -> None:
        """Give the matcher subscriptions anew, from the store: all, or those that something moved concerns."""
        if connection is None:
            with self.lock, self.store.read() as connection:
                self.reindex(connection, moved)
            return
        if moved is None:
            self.live.matcher.clear()
            self.live.matcher.load(self._held(connection), self.schema)
            return
        anew = [(id, tree) for id, tree in self._held(connection) if moved.concerns(tree)]
        self.live.changes += len(anew)
        self.live.matcher.remove([id for id, _ in anew])
        self.live.matcher.load(anew, self.schema)

    def _held(self, connection: Connection) -> Iterator[tuple[int, bytes]]:
        """Yield (id, JSON tree) of the subscriptions that are held."""
        for rows in leases_since(connection, 0, progress.low_water(connection), trees=True):
            for row, known in zip(rows, self.live.leases.has([row.id for row in rows]), strict=True):
                if known:
                    yield row.id, row.tree or b""
