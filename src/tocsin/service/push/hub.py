"""The hub: who waits, in this event loop, for whose notifications.

A reader is attached before it looks at its backlog, and reads pages from the store by cursor whenever it is woken: so
there is no gap between backlog and live, no queue that could overflow, and what was read twice is told by its cursor.
The broker tells of matches that it stored itself; those of the pipeline are looked for in the store, once for all.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Sequence

import structlog

from tocsin.broker import Notification, Page
from tocsin.broker.push_side import PushSide
from tocsin.errors import TocsinError
from tocsin.service.telemetry import Metrics

log = structlog.get_logger("tocsin.push")
_PAGE = 200  # notifications that a reader has in hand at most


class Reader:
    """One stream of one owner: woken when there is something new, closed when the service ends."""

    def __init__(self, hub: Hub, owner: str, number: int, cursor: str | None, consumer: str) -> None:
        self._hub, self.owner, self.number = hub, owner, number
        self.cursor, self.consumer = cursor, consumer
        self.bell = asyncio.Event()
        self.bell.set()  # attached first, then the backlog is read
        self.closed = False
        self.sending: int | None = None  # the subscription whose notification is being sent
        self.task = asyncio.current_task()

    async def page(self) -> Sequence[Notification]:
        """Return what is new after the cursor, and move it; nothing, where nothing is."""
        self.bell.clear()
        page = await self._hub.read(self.owner, self.cursor, self.consumer)
        self.cursor = page.cursor
        if page.more:
            self.bell.set()
        return page.notifications

    async def wait(self, seconds: float) -> bool:
        """Return whether something may be new, after waiting for so long at most."""
        if self.bell.is_set():
            return True
        try:
            async with asyncio.timeout(seconds):
                await self.bell.wait()
        except TimeoutError:
            return False
        return True

    def wanted(self, notification: Notification) -> bool:
        """Return whether it is still to be sent: not where its subscription was ended since it was read."""
        return not self._hub.push.was_unsubscribed(notification.subscription)


class Hub:
    """All readers of a service."""

    def __init__(self, push: PushSide, metrics: Metrics, poll_seconds: float) -> None:
        self.push, self._metrics, self._poll_seconds = push, metrics, poll_seconds
        self._readers: dict[int, set[Reader]] = {}
        self._loop = asyncio.get_running_loop()
        self._polling: asyncio.Task[None] | None = None
        self._ears: list[Callable[[Sequence[int]], None]] = []
        self._reading: dict[tuple[str, str | None, str, int], asyncio.Future[Page]] = {}
        self._woken = 0  # how often anybody was
        push.on_stored(self._heard)

    def start_polling(self) -> None:
        """Look for what another process (the pipeline) stores."""
        self._polling = asyncio.create_task(self._poll(), name="tocsin-hub")

    def tell(self, ear: Callable[[Sequence[int]], None]) -> None:
        """Call a function with the owners whenever notifications were stored, in the event loop."""
        self._ears.append(ear)

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

    async def read(self, owner: str, cursor: str | None, consumer: str) -> Page:
        """Return the page after a cursor; readers that are woken together, and stand at the same place, share one look.

        Only a look that began after the last waking is shared: an older one may not have what this one is about.
        """
        place = (owner, cursor, consumer, self._woken)
        reading = self._reading.get(place)
        if reading is None:
            look = functools.partial(
                self.push.broker.notifications, owner, cursor=cursor, limit=_PAGE, consumer=consumer
            )
            reading = self._reading[place] = self._loop.run_in_executor(None, look)
            reading.add_done_callback(lambda _: self._reading.pop(place))
        return await asyncio.shield(reading)

    def count(self, number: int) -> int:
        """Return how many readers an account has."""
        return len(self._readers.get(number, ()))

    def _heard(self, owners: Sequence[int]) -> None:
        """Called by the broker, in whichever thread stored something."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, owners)

    def _wake(self, owners: Sequence[int]) -> None:
        self._woken += 1
        for owner in owners:
            for reader in self._readers.get(owner, ()):
                reader.bell.set()
        for ear in self._ears:
            ear(owners)

    async def _poll(self) -> None:
        seen: int | None = None
        while True:
            try:
                through, owners = await asyncio.to_thread(self.push.owners_stored_since, seen)
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
                reader.bell.set()
