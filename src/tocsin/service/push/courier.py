"""The courier: makes notifications out to webhooks, and delivers them, again and again until they arrive.

    make out   new notifications of accounts with webhooks become deliveries in the store, in the transaction that moves
               the webhook's position: each once, also over crashes
    deliver    what is due is sent, lane by lane: a subscription's notifications to a webhook one after the other, in the
               order of seq, so that one which fails holds back those behind it and nobody else's; the outcome is stored

A delivery whose outcome was not stored, because of a crash, is sent again with the same webhook-id: at least once.

Circuit breakers: a webhook that fails again and again is left alone for a while, then asked once whether it is back.

    closed      all its lanes are delivered
    open        after several failures in a row, whichever lane they were in: nothing is sent
    half-open   the pause is over: one lane sends one message; if that arrives, the circuit closes, else it opens for
                twice as long, an hour at most

One breaker a webhook, not one a host: a stranger who points a webhook of theirs at the same host and lets it fail must
not stop yours. They are kept in memory; a service that starts anew finds out anew.

What is sent to webhooks, signed as Standard Webhooks has it.

{"type": "tocsin.notification", "timestamp": "…", "data": {notification}}
{"type": "tocsin.digest", "timestamp": "…", "data": {"subscription": 3, "count": 2, "notifications": [{…}, {…}]}}

The header webhook-id is the same on every retry: the notification's id, or for a digest a hash of its notifications'.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hashlib
import secrets
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpcore
import msgspec
import structlog
from standardwebhooks.webhooks import Webhook as Signer

from tocsin.broker import Broker
from tocsin.documents.events import Notification
from tocsin.errors import TocsinError
from tocsin.operators.foreign import Breakers
from tocsin.service.push.addresses import UnsafeAddress, VettedNetwork, check_url
from tocsin.service.push.due import Attempt, DueDeliveries, LaneDue
from tocsin.service.settings import ServiceSettings
from tocsin.service.telemetry import Metrics
from tocsin.store.webhooks import Webhook

_PAUSE = 6  # times the first retry's delay, after five failures in a row
_LONGEST_PAUSE = 3600.0


# What is sent to webhooks, signed as Standard Webhooks has it.


SECRET_PREFIX = "whsec_"  # noqa: S105 - how Standard Webhooks writes secrets
MOST_IN_DIGEST = 500


@dataclass(frozen=True, slots=True)
class Message:
    """One request to a webhook."""

    id: str
    body: bytes
    headers: dict[str, str]


def new_secret() -> str:
    """Return a secret to sign with."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def message_of(notifications: Sequence[Notification], secret: str, now: datetime, *, digest: bool) -> Message:
    """Return what is sent for notifications of one subscription."""
    data: object
    if digest:
        listed = list(notifications[:MOST_IN_DIGEST])
        data = {"subscription": notifications[0].subscription, "count": len(notifications), "notifications": listed}
        joined = ",".join(one.id for one in notifications)
        id = f"digest_{hashlib.sha256(joined.encode()).hexdigest()[:32]}"
    else:
        data, id = notifications[0], notifications[0].id
    body = msgspec.json.encode(
        {"type": "tocsin.digest" if digest else "tocsin.notification", "timestamp": now, "data": data}
    )
    return sign(id, body, secret, now)


def sign(id: str, body: bytes, secret: str, now: datetime) -> Message:
    """Return the message with its headers."""
    signature = Signer(secret).sign(id, now, body.decode())
    headers = {
        "content-type": "application/json",
        "user-agent": "tocsin-webhooks",
        "webhook-id": id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    return Message(id, body, headers)


# The courier.


log = structlog.get_logger("tocsin.webhooks")
_AT_A_TIME = 200  # lanes being delivered
_OF_ACCOUNT, _OF_WEBHOOK = 16, 4  # of them: receivers that are slow leave room for the others
_LONGEST_WAIT = 5.0  # seconds between looks at what is due
_REDIRECT, _GONE = range(300, 400), 410


class Courier:
    """Delivers for all webhooks of a store, in one event loop."""

    def __init__(self, broker: Broker, settings: ServiceSettings, metrics: Metrics) -> None:
        self.due = DueDeliveries(broker, settings)
        self._settings, self._metrics = settings, metrics
        self._woken = asyncio.Event()
        self._woken.set()
        self._new: set[int] | None = None  # accounts with new notifications; None: look at all
        self.breakers = Breakers[int](_PAUSE * settings.webhook_first_retry_seconds, _LONGEST_PAUSE)
        self._busy: dict[tuple[int, int], asyncio.Task[None]] = {}  # by webhook and lane
        self._in_account: Counter[int] = Counter()
        self._in_webhook: Counter[int] = Counter()
        self._sending: dict[int, set[asyncio.Task[Attempt]]] = {}  # by subscription
        self._running: asyncio.Task[None] | None = None
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=_AT_A_TIME + 50, keepalive_expiry=30, retries=0,
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
        self._woken.set()

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

    async def halt(self, webhook: int) -> None:
        """Break off what is being sent to a webhook: its owner asked for something else."""
        tasks = [task for (id, _), task in self._busy.items() if id == webhook]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.breakers.forget(webhook)

    async def _run(self) -> None:
        while True:
            try:
                self._woken.clear()
                accounts, self._new = self._new, set()
                await asyncio.to_thread(self.due.make_out, accounts)
                started = await self._start_due()
                wait = 0.0 if started else await asyncio.to_thread(self.due.seconds_to_next, _LONGEST_WAIT)
                wait = self.breakers.seconds_to_next(wait)
            except TocsinError as error:  # the store may be back the next time
                log.warning("webhooks wait", error=str(error))
                self._new, wait = None, 1.0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(wait, 0.005)):
                    await self._woken.wait()

    async def _start_due(self) -> int:
        """Start delivering every lane that has something due, as far as there is room; return how many."""
        due = await asyncio.to_thread(self.due.due, self._resting(), frozenset(self._busy))
        started = 0
        for one in due:
            if self._has_room(one.webhook) and self.breakers.start(one.webhook.id):
                key = (one.lane.webhook, one.lane.lane)
                self._busy[key] = task = asyncio.create_task(self._deliver(one), name=f"tocsin-lane-{key[0]}-{key[1]}")
                self._in_account[one.webhook.account] += 1
                self._in_webhook[one.webhook.id] += 1
                task.add_done_callback(functools.partial(self._finished, key, one.webhook.account))
                started += 1
        return started

    def _has_room(self, hook: Webhook) -> bool:
        return (
            len(self._busy) < _AT_A_TIME
            and self._in_account[hook.account] < _OF_ACCOUNT
            and self._in_webhook[hook.id] < _OF_WEBHOOK
        )

    def _resting(self) -> set[int]:
        """Return the webhooks of which nothing may be started now."""
        return self.breakers.resting() | {id for id, count in self._in_webhook.items() if count >= _OF_WEBHOOK}

    def _finished(self, key: tuple[int, int], account: int, task: asyncio.Task[None]) -> None:
        del self._busy[key]
        self._in_account -= Counter({account: 1})  # which forgets those that have none
        self._in_webhook -= Counter({key[0]: 1})
        self.breakers.ended(key[0])
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("delivering failed", webhook=key[0], error=repr(error))
        self._woken.set()

    async def _deliver(self, due: LaneDue) -> None:
        """Send what is due in one lane, in order; stop at the first failure, so that order is kept."""
        hook = due.webhook
        for items in due.messages:
            notifications = [item.notification for item in items if item.notification is not None]
            if not notifications:
                outcome = Attempt("dropped")
            else:
                outcome = await self._send(hook.url, hook.secret, notifications, digest=items[0].is_digest)
            self._metrics.deliveries.labels(outcome.kind).inc()
            down = False
            if outcome.kind == "delivered":
                self.breakers.succeeded(hook.id)
            elif outcome.kind == "failed":
                down = self.breakers.failed(hook.id)
            sent = [item.delivery for item in items]
            await _finish(asyncio.to_thread(self.due.record, hook, sent, outcome, down=down))
            if outcome.kind in ("failed", "gone"):
                return

    async def _send(self, url: str, secret: str, notifications: Sequence[Notification], *, digest: bool) -> Attempt:
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
            return Attempt("dropped")  # its subscription has ended meanwhile
        finally:
            for one in subscriptions:
                self._sending[one].discard(task)
                if not self._sending[one]:
                    del self._sending[one]

    async def _post(self, url: str, message: Message) -> Attempt:
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
            return Attempt("failed", error.detail)
        except TimeoutError:
            return Attempt("failed", f"no answer within {seconds:g} seconds")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            return Attempt("failed", f"the connection failed: {type(error).__name__}")


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Wait for something to the end, also where the waiting is cancelled: a thread goes on anyway."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _outcome(status: int, headers: dict[bytes, bytes]) -> Attempt:
    if 200 <= status < 300:
        return Attempt("delivered")
    if status == _GONE:
        return Attempt("gone", "the receiver answered 410: it wants nothing more")
    if status in _REDIRECT:
        return Attempt("failed", f"the receiver answered {status}; redirects are not followed")
    asked = next((value for name, value in headers.items() if name.lower() == b"retry-after"), b"")
    seconds = float(asked) if asked.isdigit() and len(asked) < 8 else None
    return Attempt("failed", f"the receiver answered {status}", seconds)
