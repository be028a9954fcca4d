"""WebSockets: the same notifications for pages. Messages are JSON texts.

server: {"type": "notification", …} | {"type": "ping", "cursor": "…"} | {"type": "problem", …}
client: {"type": "acknowledge", "cursor": "…"}
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from tocsin.errors import TocsinError
from tocsin.service.documents import notification_document, to_json
from tocsin.service.principal import Principal
from tocsin.service.problems import problem_of
from tocsin.service.push.hub import Reader

if TYPE_CHECKING:
    from tocsin.service.service import Service

_LONGEST_MESSAGE = 4096
GOING_AWAY, POLICY, TRY_AGAIN = 1001, 1008, 1013


class _Acknowledge(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="acknowledge"):
    cursor: str


async def serve(service: Service, socket: WebSocket, principal: Principal, cursor: str | None, consumer: str) -> None:
    """Send until the client goes, stalls, its credential is no longer good, or the service ends."""
    await socket.accept()
    reader = service.hub.attach(principal.name, principal.number, cursor, consumer)
    listening = asyncio.create_task(_listen(service, socket, principal, consumer))
    listening.add_done_callback(lambda _: reader.bell.set())
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
        for notification in await reader.page():
            if reader.wanted(notification):
                patience.reschedule(loop.time() + settings.stalled_seconds)
                reader.sending = notification.subscription
                document = {"type": "notification", **notification_document(notification)}
                await socket.send_text(to_json(document).decode())
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
