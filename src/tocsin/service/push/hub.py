"""The hub: who waits, in this event loop, for whose notifications.

A reader is attached before it looks at its backlog, and reads pages from the store by cursor: so there is no gap between
backlog and live, and no queue that could overflow. A reader that has everything gets what the broker's next commit has
matched from memory, as long as nobody else has matched between; else, and where it is slow, it reads the store again.
Matches of the pipeline are looked for in the store, once for all.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from tocsin.broker import Broker, cursors
from tocsin.broker.cursors import LAST, Position
from tocsin.broker.deliveries import MatchedBatch
from tocsin.documents.events import Notification, NotificationPage
from tocsin.documents.subscriptions import LeaseNotice
from tocsin.errors import TocsinError
from tocsin.service.telemetry import Metrics

log = structlog.get_logger("tocsin.push")
_PAGE = 200  # notifications that a reader has in hand at most
_BATCHES = 64  # that wait in memory for a slow reader; beyond it, it reads the store
_ORIGINS = 1_000_000


class Reader:
    """One stream of one owner: woken when there is something new, closed when the service ends."""

    def __init__(self, hub: Hub, owner: str, number: int, cursor: str | None, consumer: str) -> None:
        self._hub, self.owner, self.number = hub, owner, number
        self.cursor, self.consumer = cursor, consumer
        self.woken = asyncio.Event()
        self.woken.set()  # attached first, then the backlog is read
        self._through: int | None = None  # has everything up to this seq; None: must read the store
        self._batches: deque[MatchedBatch] = deque()  # that came since, in order
        self.closed = False
        self.notices: deque[LeaseNotice] = deque()  # of leases that end soon, still to be told
        self.sending: int | None = None  # the subscription whose notification is being sent
        self.task = asyncio.current_task()

    def take(self, batch: MatchedBatch) -> None:
        """Keep what was matched, to be sent from memory; where something may lie between, the store is read."""
        if self._through is not None and self._through >= batch.since and len(self._batches) < _BATCHES:
            self._batches.append(batch)
        else:
            self.miss()
        self.woken.set()

    def miss(self) -> None:
        """Let the store be read: something was stored that is not at hand."""
        self._through = None
        self._batches.clear()
        self.woken.set()

    async def page(self) -> Sequence[Notification]:
        """Return what is new after the cursor, and move it; nothing, where nothing is."""
        self.woken.clear()
        if self._batches:
            found = await self._from_memory(self._batches.popleft())
            if found is not None:
                if self._batches:
                    self.woken.set()
                return found
            self.miss()
            self.woken.clear()
        return await self._from_store()

    async def _from_memory(self, batch: MatchedBatch) -> Sequence[Notification] | None:
        """Return the notifications of a batch; None where there are so many that they are read by pages."""
        after = self._through or 0
        positions = batch.positions(self.number, Position(after, LAST))
        if len(positions) > _PAGE:
            return None
        origins = await self._hub.origins_of([position.subscription for position in positions])
        if batch.through > after:
            self.cursor = batch.cursor(self.number)
            if self._through is not None:  # else something was missed while we looked
                self._through = batch.through
        return batch.describe(positions, self.number, origins)

    async def _from_store(self) -> Sequence[Notification]:
        self._through = None
        page = await self._hub.read(self.owner, self.cursor, self.consumer)
        self.cursor = page.cursor
        if page.more:
            self.woken.set()
        elif not self.woken.is_set():  # nothing was stored for it meanwhile
            self._through = cursors.decode(page.cursor).position.seq
        return page.items

    async def wait(self, seconds: float) -> bool:
        """Return whether something may be new, after waiting for so long at most."""
        if self.woken.is_set():
            return True
        try:
            async with asyncio.timeout(seconds):
                await self.woken.wait()
        except TimeoutError:
            return False
        return True

    def wanted(self, notification: Notification) -> bool:
        """Return whether it is still to be sent: not where its subscription was ended since it was read."""
        return not self._hub.deliveries.was_unsubscribed(notification.subscription)


class Hub:
    """All readers of a service."""

    def __init__(self, broker: Broker, metrics: Metrics, poll_seconds: float) -> None:
        self._broker, self._metrics, self._poll_seconds = broker, metrics, poll_seconds
        self.deliveries = broker.deliveries
        self._readers: dict[int, set[Reader]] = {}
        self._loop = asyncio.get_running_loop()
        self._polling: asyncio.Task[None] | None = None
        self._callbacks: list[Callable[[Sequence[int]], None]] = []
        self._origins: dict[int, int] = {}  # the ids by which owners know subscriptions: they never change
        self._reading: dict[tuple[str, str | None, str, int], asyncio.Future[NotificationPage]] = {}
        self._woken = 0  # how often anybody was
        self.deliveries.on_matched(self._matched)
        broker.on_lease_ending(self._ending)

    def start_polling(self) -> None:
        """Look for what another process (the pipeline) stores."""
        self._polling = asyncio.create_task(self._poll(), name="tocsin-hub")

    def on_stored(self, callback: Callable[[Sequence[int]], None]) -> None:
        """Call a function with the owners whenever notifications were stored, in the event loop."""
        self._callbacks.append(callback)

    def attach(self, owner: str, number: int, cursor: str | None, consumer: str) -> Reader:
        """Return a new reader; detach it when it ends."""
        reader = Reader(self, owner, number, cursor, consumer)
        self._readers.setdefault(number, set()).add(reader)
        self._metrics.streams.inc()
        return reader

    def detach(self, reader: Reader) -> None:
        """Let go of a reader."""
        readers = self._readers.get(reader.number, set())
        if reader in readers:
            readers.discard(reader)
            self._metrics.streams.dec()
        if not readers:
            self._readers.pop(reader.number, None)

    async def read(self, owner: str, cursor: str | None, consumer: str) -> NotificationPage:
        """Return the page after a cursor; readers that are woken together, and stand at the same place, share one look.

        Only a look that began after the last waking is shared: an older one may not have what this one is about.
        """
        place = (owner, cursor, consumer, self._woken)
        reading = self._reading.get(place)
        if reading is None:
            look = functools.partial(self._broker.notifications, owner, cursor=cursor, limit=_PAGE, consumer=consumer)
            reading = self._reading[place] = self._loop.run_in_executor(None, look)
            reading.add_done_callback(lambda _: self._reading.pop(place))
        return await asyncio.shield(reading)

    def count(self, number: int) -> int:
        """Return how many readers an account has."""
        return len(self._readers.get(number, ()))

    async def origins_of(self, ids: Sequence[int]) -> Mapping[int, int]:
        """Return id -> the id by which its owner knows a subscription; most are known from before."""
        if unknown := [id for id in ids if id not in self._origins]:
            if len(self._origins) > _ORIGINS:
                self._origins.clear()
                unknown = list(ids)
            self._origins |= await asyncio.to_thread(self.deliveries.origins_of, unknown)
        return self._origins

    def _matched(self, batch: MatchedBatch) -> None:
        """Called by the broker, in whichever thread stored something."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._push, batch)

    def _ending(self, notice: LeaseNotice) -> None:
        """Called by the broker's sweeper, once a lease: whoever reads now is told; `leases_ending` tells the others."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, notice)

    def _tell(self, notice: LeaseNotice) -> None:
        for readers in self._readers.values():
            for reader in readers:
                if reader.owner == notice.owner:
                    reader.notices.append(notice)
                    reader.woken.set()

    def _push(self, batch: MatchedBatch) -> None:
        self._woken += 1
        for owner in batch.owners:
            for reader in self._readers.get(owner, ()):
                reader.take(batch)
        self._call(batch.owners)

    def _wake(self, owners: Sequence[int]) -> None:
        self._woken += 1
        for owner in owners:
            for reader in self._readers.get(owner, ()):
                reader.miss()
        self._call(owners)

    def _call(self, owners: Sequence[int]) -> None:
        for callback in self._callbacks:
            callback(owners)

    async def _poll(self) -> None:
        seen: int | None = None
        while True:
            try:
                through, owners = await asyncio.to_thread(self.deliveries.owners_stored_since, seen)
                if through != seen:
                    seen = through
                    self._wake(owners)
            except TocsinError as error:  # the store may be back the next time
                log.warning("cannot look for new notifications", error=str(error))
            await asyncio.sleep(self._poll_seconds)

    def settle(self, subscriptions: Iterable[int]) -> None:
        """Break off readers that wait in the middle of sending something of a subscription that has ended.

        Their connections are full, so what they hold would be sent later: after the end was acknowledged.
        """
        ended = set(subscriptions)
        for readers in list(self._readers.values()):
            for reader in list(readers):
                if reader.sending in ended and reader.task is not None:
                    reader.task.cancel()

    def close(self) -> None:
        """Let all readers end, so that they come back to whoever serves next."""
        if self._polling is not None:
            self._polling.cancel()
        for readers in self._readers.values():
            for reader in readers:
                reader.closed = True
                reader.woken.set()
