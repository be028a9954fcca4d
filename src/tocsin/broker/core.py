"""The broker's core: the store, and what this process holds of it in memory, moved together.

All that writes goes through `commit()`: it waits for the store's write lock, brings memory up to what other processes
have written since, and when it is committed applies the same to memory. One that fails leaves memory as it was; where it
is unknown whether it was committed, the next one finds out, because it compares seqs.

Settings of a broker: bounds, leases, retention. Every bound refuses clearly, before anything is acknowledged.

Group commit: requests wait in one queue, and those that can share a commit do.

A commit costs an fsync, whatever is in it. So whoever is first takes along all requests of its kind that wait behind it,
and commits once for all of them. Nobody waits for company: a lone request goes at once.

Threads (`call`) run their own batch when they are first. Coroutines (`submit`) have no thread to give: a thread of the
queue runs theirs, and goes on as long as it finds only theirs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from tocsin.broker.admission import OfferAdmission
from tocsin.broker.cost_meter import CostMeter
from tocsin.broker.expressions import Prepared
from tocsin.broker.live_index import Lease, LiveIndex, Unsubscribed
from tocsin.errors import LeaseOutOfBounds, Overloaded, QuotaExceeded, SchemaError, TocsinError
from tocsin.operators.registry import Registry
from tocsin.schema import Schema
from tocsin.schema.growth import Moved
from tocsin.store import Meta, Store, Transaction, progress, schema_history, subscriptions
from tocsin.store.store import SECOND, reach, read_meta
from tocsin.store.subscriptions import LeaseRow, leases_since

DAY = 86400.0


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What a broker grants and keeps; sizes in bytes, times in seconds."""

    default_lease_seconds: float = DAY
    shortest_lease_seconds: float = 1.0
    longest_lease_seconds: float = 366 * DAY
    notice_seconds: float = 3 * DAY  # before a lease ends; at most a tenth of the lease, or four sweeps
    retention_seconds: float = 7 * DAY  # of events, notifications, dead letters and idempotency keys
    event_bytes: int = 256 << 10
    batch_events: int = 100_000  # in one publish
    expression_bytes: int = 64 << 10
    subscriptions_per_owner: int = 1_000_000
    subscription_bytes_per_owner: int = 4 << 30  # by store/subscriptions.py
    sites_per_owner: int = 100
    processor_seconds_per_owner: float | None = None  # that its subscriptions may take in an hour: see cost_meter.py
    waiting_requests: int = 20_000  # in the queue of the group commit; beyond it, Overloaded
    page: int = 1000  # notifications in one page at most
    sweep_seconds: float = 0.5
    poll_seconds: float = 1.0  # how long a listener may take to see what another process stored
    save_changes: int = 5000  # after which the index is written to disk, or 2% where that is more: a start catches up
    save_seconds: float = 60.0  # after which it is written with fewer
    reveal_subscribers: bool = False  # tell publishers which subscriptions an offer reached, not only how many
    reveal_rules: bool = False  # tell subscribers what an offer's rules say
    query_offers: int = 1000  # that a query returns at most
    callback_attempts: int = 3  # before a notification that a callback fails on becomes a dead letter

    def lease_us(self, lease: float | timedelta | None) -> int:
        """Return the length of a lease in microseconds; raises LeaseOutOfBounds."""
        if lease is None:
            seconds = self.default_lease_seconds
        else:
            seconds = lease.total_seconds() if isinstance(lease, timedelta) else float(lease)
        if not self.shortest_lease_seconds <= seconds <= self.longest_lease_seconds:  # NaN is refused too
            raise LeaseOutOfBounds(seconds, self.shortest_lease_seconds, self.longest_lease_seconds)
        return round(seconds * SECOND)


def check_name(what: str, name: str) -> None:
    """Raise QuotaExceeded unless a name is short and printable."""
    if not name or len(name) > 200 or not name.isprintable():
        raise QuotaExceeded(f"{what} is named by 1 to 200 printable characters")


# --- Group commit -----------------------------------------------------------------------------------------------------


Request = TypeVar("Request")
Answer = TypeVar("Answer")
log = logging.getLogger("tocsin.broker")
_MOST_TOGETHER = 1000


class Pending(Generic[Request, Answer]):
    """A request in the queue. Whoever runs it sets its answer or its error."""

    __slots__ = ("answer", "done", "error", "future", "request", "woken")

    def __init__(self, request: Request, future: asyncio.Future[Answer] | None = None) -> None:
        self.request = request
        self.future = future  # of a coroutine that waits for it
        self.answer: Answer | None = None
        self.error: TocsinError | None = None
        self.done = False
        self.woken: threading.Lock | None = None  # of a thread that waits: released when it is done, or the first

    def result(self) -> Answer:
        """Return the answer, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]

    def resolve(self) -> None:
        """Give the coroutine its answer; called in its loop."""
        if self.future is None or self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)  # type: ignore[arg-type]


Run = Callable[[Sequence[Pending[Any, Any]]], None]


class GroupCommit:
    """The queue in front of the store. The first in it is the one that is run, or will be next."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._queue: deque[tuple[Run, Pending[Any, Any]]] = deque()
        self._guard = threading.Lock()  # of the queue, and of whether somebody runs
        self._busy = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tocsin-commit")  # started when it is needed

    def close(self) -> None:
        """Wait for what coroutines have submitted."""
        self._thread.shutdown()

    def call(self, run: Callable[[Sequence[Pending[Request, Answer]]], None], request: Request) -> Answer:
        """Return what `run` answers to the request; raises Overloaded where the queue is full.

        Requests with the same `run` that stand one behind the other are run together.
        """
        pending: Pending[Request, Answer] = Pending(request)
        pending.woken = threading.Lock()
        pending.woken.acquire()
        if not self._is_first(run, pending):
            pending.woken.acquire()  # by whoever did it for us, or was before us
        if not pending.done:
            try:
                self._run_first()
            finally:
                self._pass_on()
        return pending.result()

    def submit(
        self, run: Callable[[Sequence[Pending[Request, Answer]]], None], request: Request
    ) -> asyncio.Future[Answer]:
        """Return a future of the running event loop for what `run` answers; as `call`."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._is_first(run, Pending(request, future)):
            self._thread.submit(self._run_submitted)
        return future

    def _is_first(self, run: Run, pending: Pending[Any, Any]) -> bool:
        """Put a request into the queue; return whether nobody is at the store, so that it is run now."""
        with self._guard:
            if len(self._queue) >= self._most_waiting:
                raise Overloaded(f"{len(self._queue)} requests wait for the store already; try again later")
            self._queue.append((run, pending))
            first = not self._busy
            self._busy = True
        return first

    def _run_first(self) -> None:
        run, together = self._next()
        try:
            run(together)
        except TocsinError as error:
            for pending in together:
                pending.error = pending.error or error
        except BaseException as error:
            wrapped = TocsinError(f"the commit was broken off: {error!r}")
            for pending in together:
                pending.error = pending.error or wrapped
            raise
        finally:
            _wake(together)

    def _next(self) -> tuple[Run, list[Pending[Any, Any]]]:
        with self._guard:
            run, first = self._queue.popleft()
            together = [first]
            while self._queue and self._queue[0][0] == run and len(together) < _MOST_TOGETHER:
                together.append(self._queue.popleft()[1])
        return run, together

    def _pass_on(self) -> None:
        """Let the first in the queue be run, by its thread or by ours."""
        with self._guard:
            first = self._queue[0][1] if self._queue else None
            self._busy = first is not None
        if first is None:
            return
        if first.woken is not None:
            first.woken.release()
        else:
            self._thread.submit(self._run_submitted)

    def _run_submitted(self) -> None:
        """Run what coroutines wait for, until a thread is first or nobody is."""
        while True:
            try:
                self._run_first()
            except Exception:  # those who wait have it as their error
                log.exception("a commit was broken off")
            with self._guard:
                if self._queue and self._queue[0][1].woken is None:
                    continue
            self._pass_on()
            return


def _wake(together: Sequence[Pending[Any, Any]]) -> None:
    """Tell those who wait that their requests are done; a loop is told once of all its own."""
    loops: dict[asyncio.AbstractEventLoop, list[Pending[Any, Any]]] = {}
    for pending in together:
        pending.done = True
        if pending.woken is not None:
            pending.woken.release()
        elif pending.future is not None:
            loops.setdefault(pending.future.get_loop(), []).append(pending)
    for loop, mine in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(together: Sequence[Pending[Any, Any]]) -> None:
    for pending in together:
        pending.resolve()


# --- The core ---------------------------------------------------------------------------------------------------------


Effect = Callable[[LiveIndex], None]


class Commit:
    """One commit: its transaction, the state it starts from, and what memory must do once it is on disk."""

    def __init__(self, transaction: Transaction, core: Core, schema: Schema | None) -> None:
        self.transaction = transaction
        self.live, self.registry, self.meter = core.live, core.registry, core.meter
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
        self.meter = CostMeter()
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
                commit = Commit(transaction, self, self._schema)
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
