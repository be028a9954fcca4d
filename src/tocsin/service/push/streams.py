"""Server-sent events: an owner's notifications as they come, resumed by Last-Event-ID.

    retry: 2000

    id: <cursor>
    event: notification
    data: {"id": "…", "seq": 7, "subscription": 3, "event": {…}, …}

    event: lease
    data: {"subscription": 3, "lease_end": "…", …}         a lease that ends soon

    : ping

A response of its own rather than Starlette's StreamingResponse: no task group and no second task a reader, which is
what thousands of idle readers cost.

WebSockets: the same notifications for pages. Messages are JSON texts.

server: {"type": "notification", …} | {"type": "lease", …} | {"type": "ping", "cursor": "…"} | {"type": "problem", …}
client: {"type": "acknowledge", "cursor": "…"}
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from tocsin.documents.events import Notification
from tocsin.documents.subscriptions import LeaseNotice
from tocsin.errors import CursorExpired, TocsinError
from tocsin.service.principal import Principal
from tocsin.service.problems import problem_of
from tocsin.service.push.hub import Reader

if TYPE_CHECKING:
    from tocsin.service.service import Service


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


def notice_frame(notice: LeaseNotice) -> bytes:
    """Return that a lease ends soon as an event; it has no id, so that nobody resumes from it."""
    return b"event: lease\ndata: %s\n\n" % to_json(notice)


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
            await socket.send_text('{"type":"lease",' + to_json(reader.notices.popleft()).decode()[1:])
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
