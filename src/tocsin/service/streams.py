"""Server-sent events: an owner's notifications as they come, resumed by Last-Event-ID.

    retry: 2000

    id: <cursor>
    event: notification
    data: {"id": "…", "seq": 7, "subscription": 3, "event": {…}, …}

    : ping

A response of its own rather than Starlette's StreamingResponse: no task group and no second task a reader, which is
what thousands of idle readers cost.

WebSockets: the same notifications for pages. Messages are JSON texts.

server: {"type": "notification", …} | {"type": "lease", …} | {"type": "paused", …} | {"type": "ping", "cursor": "…"} | {"type": "problem", …}
client: {"type": "acknowledge", "cursor": "…"}

The hub: who waits, in this event loop, for whose notifications.

A reader is attached before it looks at its backlog, and reads pages from the store by cursor: so there is no gap between
backlog and live, and no queue that could overflow. A reader that has everything gets what the broker's next commit has
matched from memory, as long as nobody else has matched between; else, and where it is slow, it reads the store again.
Matches of the pipeline are looked for in the store, once for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from tocsin.broker import Broker, deliveries
from tocsin.broker.deliveries import LAST, MatchedBatch, Position
from tocsin.documents.events import Notification, NotificationPage
from tocsin.documents.subscriptions import LeaseNotice, PauseNotice
from tocsin.errors import CursorExpired, TocsinError
from tocsin.service.edge import Metrics
from tocsin.service.problems import problem_of
from tocsin.service.routing import Principal

if TYPE_CHECKING:
    from tocsin.service.service import Service

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
        self.notices: deque[LeaseNotice | PauseNotice] = (
            deque()
        )  # of leases that end soon and of what was paused, still to be told
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
            self._through = deliveries.decode_cursor(page.cursor).position.seq
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
        broker.on_lease_ending(self._noticed)
        broker.on_paused(self._noticed)

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

    def _noticed(self, notice: LeaseNotice | PauseNotice) -> None:
        """Called by the broker's sweeper, once: whoever reads now is told; `leases_ending` and the audit trail tell the others."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, notice)

    def _tell(self, notice: LeaseNotice | PauseNotice) -> None:
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


# --- Server-sent events and WebSockets --------------------------------------------------------------------------------


MEDIA_TYPE = "text/event-stream"
to_json = msgspec.json.Encoder().encode
_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_RETRY = b"retry: 2000\n\n"


def frame(notification: Notification) -> bytes:
    """Return a notification as an event. JSON has no raw line ends, so nothing in it can end the frame."""
    return b"id: %s\nevent: notification\ndata: %s\n\n" % (
        notification.cursor.encode(),
        to_json(notification),
    )


def notice_kind(notice: LeaseNotice | PauseNotice) -> str:
    """Return what a notice is about, as readers know it."""
    return "lease" if isinstance(notice, LeaseNotice) else "paused"


def notice_frame(notice: LeaseNotice | PauseNotice) -> bytes:
    """Return a notice as an event; it has no id, so that nobody resumes from it."""
    return b"event: %s\ndata: %s\n\n" % (notice_kind(notice).encode(), to_json(notice))


def problem_frame(error: TocsinError) -> bytes:
    """Return why a stream ends, for a reader whose response has begun."""
    return b"event: problem\ndata: %s\n\n" % to_json(problem_of(error))


class EventStream(Response):
    """Sends until the client goes, stalls, its credential is no longer good, or the service ends."""

    media_type = MEDIA_TYPE

    def __init__(self, service: Service, principal: Principal, cursor: str | None, consumer: str) -> None:
        super().__init__()
        self._service, self._principal = service, principal
        self._cursor, self._consumer = cursor, consumer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        hub, settings = self._service.hub, self._service.settings
        principal = self._principal
        reader = hub.attach(principal.name, principal.number, self._cursor, self._consumer)
        gone: asyncio.Future[Any] = asyncio.ensure_future(_gone(receive))
        gone.add_done_callback(lambda _: reader.woken.set())
        try:
            async with asyncio.timeout(settings.stalled_seconds) as patience:
                await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
                await send({"type": "http.response.body", "body": _RETRY, "more_body": True})
                await self._send_all(reader, gone, send, patience)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:  # left unfinished, the server breaks the connection off; the reader can resume
            self._service.metrics.stalled.inc()
        except asyncio.CancelledError:
            if reader.sending is None:  # not by the hub, which breaks off what may not be sent any more
                raise
        finally:
            gone.cancel()
            hub.detach(reader)

    async def _send_all(self, reader: Reader, gone: asyncio.Future[Any], send: Send, patience: asyncio.Timeout) -> None:
        service, settings = self._service, self._service.settings
        loop = asyncio.get_running_loop()
        while not reader.closed and not gone.done():
            patience.reschedule(None)
            if not await reader.wait(settings.ping_seconds):
                if not await service.identities.still_good(self._principal):
                    return
                body = b": ping\n\n"
            else:
                try:
                    found = await reader.page()
                except CursorExpired as error:
                    body, found = problem_frame(error), ()
                    reader.closed = True
                else:
                    body = b"".join(notice_frame(reader.notices.popleft()) for _ in range(len(reader.notices)))
                for notification in found:
                    if reader.wanted(notification):
                        patience.reschedule(loop.time() + settings.stalled_seconds)
                        reader.sending = notification.subscription
                        await send({"type": "http.response.body", "body": frame(notification), "more_body": True})
                        reader.sending = None
                        service.metrics.pushed.labels("sse").inc()
            if body:
                patience.reschedule(loop.time() + settings.stalled_seconds)
                await send({"type": "http.response.body", "body": body, "more_body": True})


async def _gone(receive: Receive) -> None:
    """Return when the client has gone; before that comes the request's body, empty as it is."""
    while (await receive())["type"] != "http.disconnect":
        pass


# WebSockets.


_LONGEST_MESSAGE = 4096
GOING_AWAY, POLICY, TRY_AGAIN = 1001, 1008, 1013


class _Acknowledge(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="acknowledge"):
    cursor: str


async def serve(service: Service, socket: WebSocket, principal: Principal, cursor: str | None, consumer: str) -> None:
    """Send until the client goes, stalls, its credential is no longer good, or the service ends."""
    await socket.accept()
    reader = service.hub.attach(principal.name, principal.number, cursor, consumer)
    listening = asyncio.create_task(_listen(service, socket, principal, consumer))
    listening.add_done_callback(lambda _: reader.woken.set())
    try:
        async with asyncio.timeout(None) as patience:
            await _send_all(service, socket, principal, reader, listening, patience)
        await _end(socket, GOING_AWAY)
    except TimeoutError:
        service.metrics.stalled.inc()
        await _end(socket, TRY_AGAIN)
    except TocsinError as error:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.send_text(to_json({"type": "problem", **problem_of(error)}).decode())
        await _end(socket, POLICY)
    except WebSocketDisconnect:
        pass
    finally:
        listening.cancel()
        service.hub.detach(reader)


async def _send_all(
    service: Service, socket: WebSocket, principal: Principal, reader: Reader, listening: asyncio.Task[None],
    patience: asyncio.Timeout,
) -> None:  # fmt: skip
    settings, loop = service.settings, asyncio.get_running_loop()
    while not reader.closed:
        patience.reschedule(None)
        if listening.done():
            error = listening.exception()
            if error is not None:
                raise error
            return
        if not await reader.wait(settings.ping_seconds):
            if not await service.identities.still_good(principal):
                return
            patience.reschedule(loop.time() + settings.stalled_seconds)
            await socket.send_text(to_json({"type": "ping", "cursor": reader.cursor}).decode())
            continue
        while reader.notices:
            patience.reschedule(loop.time() + settings.stalled_seconds)
            notice = reader.notices.popleft()
            await socket.send_text(f'{{"type":"{notice_kind(notice)}",' + to_json(notice).decode()[1:])
        for notification in await reader.page():
            if reader.wanted(notification):
                patience.reschedule(loop.time() + settings.stalled_seconds)
                reader.sending = notification.subscription
                await socket.send_text('{"type":"notification",' + to_json(notification).decode()[1:])
                reader.sending = None
                service.metrics.pushed.labels("websocket").inc()


async def _listen(service: Service, socket: WebSocket, principal: Principal, consumer: str) -> None:
    """Take acknowledgements until the client goes."""
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            text = await socket.receive_text()
            try:
                if len(text) > _LONGEST_MESSAGE:
                    raise TocsinError("the message is too long")
                message = msgspec.json.decode(text, type=_Acknowledge)
            except msgspec.MsgspecError as error:
                raise BadMessage(f"not a message: {error}") from None
            await asyncio.to_thread(service.broker.acknowledge, principal.name, message.cursor, consumer)


class BadMessage(TocsinError):
    """A client sent what is no message."""


async def _end(socket: WebSocket, code: int) -> None:
    if socket.application_state is WebSocketState.CONNECTED:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(code)
