"""The courier: makes notifications out to webhooks, and delivers them, again and again until they arrive.

    make out   new notifications of accounts with webhooks become deliveries in the store, in the transaction that moves
               the webhook's position: each once, also over crashes
    deliver    what is due is sent, in order for each webhook, many webhooks at a time; the outcome is stored

A delivery whose outcome was not stored, because of a crash, is sent again with the same webhook-id: at least once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby

import httpcore
import structlog

from tocsin.broker import Notification
from tocsin.broker.push_side import PushSide
from tocsin.errors import TocsinError
from tocsin.service.metrics import Metrics
from tocsin.service.push.addresses import UnsafeAddress, VettedNetwork, check_url
from tocsin.service.push.desk import Desk, Due, Outcome
from tocsin.service.push.messages import Message, message_of
from tocsin.service.settings import ServiceSettings

log = structlog.get_logger("tocsin.webhooks")
_AT_A_TIME = 50  # webhooks being delivered to
_LONGEST_WAIT = 5.0  # seconds between looks at what is due
_REDIRECT, _GONE = range(300, 400), 410


class Courier:
    """Delivers for all webhooks of a store, in one event loop."""

    def __init__(self, push: PushSide, settings: ServiceSettings, metrics: Metrics) -> None:
        self.desk = Desk(push, settings)
        self._settings, self._metrics = settings, metrics
        self._bell = asyncio.Event()
        self._bell.set()
        self._new: set[int] | None = None  # accounts with new notifications; None: look at all
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._sending: dict[int, set[asyncio.Task[Outcome]]] = {}  # by subscription
        self._running: asyncio.Task[None] | None = None
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=2 * _AT_A_TIME, keepalive_expiry=30, retries=0,
            network_backend=VettedNetwork(private=settings.webhook_private),
        )  # fmt: skip

    def start(self) -> None:
        """Deliver in the background."""
        self._running = asyncio.create_task(self._run(), name="tocsin-courier")

    def wake(self, owners: Iterable[int] | None = None) -> None:
        """Look again: there is something new for these accounts, or (None) something changed at all."""
        if owners is None:
            self._new = None
        elif self._new is not None:
            self._new.update(owners)
        self._bell.set()

    async def close(self) -> None:
        """Stop; what is on its way is broken off, and is sent again after the next start."""
        tasks = [task for task in (self._running, *self._busy.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._pool.aclose()

    async def settle(self, subscriptions: Iterable[int]) -> None:
        """Break off what is being sent for subscriptions that have ended; when this returns, nothing more is."""
        tasks = [task for one in subscriptions for task in self._sending.get(one, ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                self._bell.clear()
                accounts, self._new = self._new, set()
                await asyncio.to_thread(self.desk.make_out, accounts)
                started = await self._start_due()
                wait = 0.0 if started else await asyncio.to_thread(self.desk.seconds_to_next, _LONGEST_WAIT)
            except TocsinError as error:  # the store may be back the next time
                log.warning("webhooks wait", error=str(error))
                self._new, wait = None, 1.0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(wait, 0.005)):
                    await self._bell.wait()

    async def _start_due(self) -> int:
        """Start delivering to every webhook that has something due and is not being delivered to."""
        due = await asyncio.to_thread(self.desk.due, frozenset(self._busy))
        started = 0
        for one in due:
            if len(self._busy) < _AT_A_TIME and one.webhook.id not in self._busy:
                task = asyncio.create_task(self._deliver(one), name=f"tocsin-webhook-{one.webhook.id}")
                self._busy[one.webhook.id] = task
                task.add_done_callback(functools.partial(self._finished, one.webhook.id))
                started += 1
        return started

    def _finished(self, webhook: int, task: asyncio.Task[None]) -> None:
        del self._busy[webhook]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("delivering failed", webhook=webhook, error=repr(error))
        self._bell.set()

    async def _deliver(self, due: Due) -> None:
        """Send what is due for one webhook, in order; stop at the first failure, so that order is kept."""
        for (_, is_digest), group in groupby(due.items, key=lambda item: (item.group, item.is_digest)):
            items = list(group)
            notifications = [item.notification for item in items if item.notification is not None]
            if not notifications:
                outcome = Outcome("dropped")
            else:
                outcome = await self._send(due.webhook.url, due.webhook.secret, notifications, digest=is_digest)
            self._metrics.deliveries.labels(outcome.kind).inc()
            await asyncio.to_thread(self.desk.record, due.webhook, [item.delivery for item in items], outcome)
            if outcome.kind in ("failed", "gone"):
                return

    async def _send(self, url: str, secret: str, notifications: Sequence[Notification], *, digest: bool) -> Outcome:
        message = message_of(notifications, secret, datetime.now(UTC), digest=digest)
        task = asyncio.create_task(self._post(url, message))
        subscriptions = {one.subscription for one in notifications}
        for one in subscriptions:
            self._sending.setdefault(one, set()).add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not task.cancelled() or (current := asyncio.current_task()) is None or current.cancelling():
                raise
            return Outcome("dropped")  # its subscription has ended meanwhile
        finally:
            for one in subscriptions:
                self._sending[one].discard(task)
                if not self._sending[one]:
                    del self._sending[one]

    async def _post(self, url: str, message: Message) -> Outcome:
        """Make one attempt. Redirects are not followed: they could lead inwards."""
        seconds = self._settings.webhook_seconds
        try:
            check_url(url, private=self._settings.webhook_private)
            async with asyncio.timeout(seconds):
                async with self._pool.stream(
                    "POST", url, headers=[*message.headers.items(), ("content-length", str(len(message.body)))],
                    content=message.body,
                ) as response:  # fmt: skip
                    return _outcome(response.status, dict(response.headers))
        except UnsafeAddress as error:
            return Outcome("failed", error.detail)
        except TimeoutError:
            return Outcome("failed", f"no answer within {seconds:g} seconds")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            return Outcome("failed", f"the connection failed: {type(error).__name__}")


def _outcome(status: int, headers: dict[bytes, bytes]) -> Outcome:
    if 200 <= status < 300:
        return Outcome("delivered")
    if status == _GONE:
        return Outcome("gone", "the receiver answered 410: it wants nothing more")
    if status in _REDIRECT:
        return Outcome("failed", f"the receiver answered {status}; redirects are not followed")
    asked = next((value for name, value in headers.items() if name.lower() == b"retry-after"), b"")
    seconds = float(asked) if asked.isdigit() and len(asked) < 8 else None
    return Outcome("failed", f"the receiver answered {status}", seconds)
