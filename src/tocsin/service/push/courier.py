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
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import httpcore
import structlog
from standardwebhooks.webhooks import Webhook as Signer

from tocsin.broker import Notification
from tocsin.broker.push_side import PushSide
from tocsin.errors import TocsinError
from tocsin.service.documents import notification_document, to_json
from tocsin.service.push.addresses import UnsafeAddress, VettedNetwork, check_url
from tocsin.service.push.desk import Desk, LaneDue, Outcome
from tocsin.service.settings import ServiceSettings
from tocsin.service.telemetry import Metrics
from tocsin.store.webhooks import Webhook

Circuit = Literal["closed", "open", "half-open"]
FAILURES = 5  # in a row
_PAUSE = 6  # times the first retry's delay
_LONGEST_PAUSE = 3600.0


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    opened: int = 0  # how often in a row
    until: float = 0.0
    probing: bool = False


class Breakers:
    """The breakers of all webhooks. Used within one event loop only."""

    def __init__(self, first_retry_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause, self._clock = _PAUSE * first_retry_seconds, clock
        self._breakers: dict[int, _Breaker] = {}  # of webhooks whose last attempt failed

    def state(self, webhook: int) -> Circuit:
        """Return how a webhook's circuit stands."""
        breaker = self._breakers.get(webhook)
        if breaker is None or not breaker.opened:
            return "closed"
        return "open" if self._clock() < breaker.until else "half-open"

    def start(self, webhook: int) -> bool:
        """Return whether something may be sent now; in a half-open circuit only to the first who asks."""
        state, breaker = self.state(webhook), self._breakers.get(webhook)
        if breaker is None or state == "closed":
            return True
        if state == "open" or breaker.probing:
            return False
        breaker.probing = True
        return True

    def succeeded(self, webhook: int) -> None:
        """Close a webhook's circuit."""
        self._breakers.pop(webhook, None)

    def failed(self, webhook: int) -> bool:
        """Count a failure; return whether the circuit is open by now."""
        breaker = self._breakers.setdefault(webhook, _Breaker())
        breaker.failures += 1
        if breaker.probing or (not breaker.opened and breaker.failures >= FAILURES):
            pause = min(self._pause * 2 ** min(breaker.opened, 20), _LONGEST_PAUSE)
            breaker.opened, breaker.until, breaker.probing = breaker.opened + 1, self._clock() + pause, False
        return breaker.opened > 0

    def ended(self, webhook: int) -> None:
        """Let another lane ask, where the one that did found nothing to send."""
        if (breaker := self._breakers.get(webhook)) is not None:
            breaker.probing = False

    def resting(self) -> set[int]:
        """Return the webhooks to which nothing may be sent now."""
        return {id for id, one in self._breakers.items() if self.state(id) == "open" or one.probing}

    def seconds_to_next(self, most: float) -> float:
        """Return how long until one may be asked again."""
        now = self._clock()
        waits = [one.until - now for one in self._breakers.values() if one.opened and not one.probing]
        return min([most, *(max(0.0, wait) for wait in waits if wait > 0)])

    def forget(self, webhook: int) -> None:
        """Begin anew with a webhook: its owner has mended or removed it."""
        self._breakers.pop(webhook, None)


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
    if digest:
        listed = [notification_document(one) for one in notifications[:MOST_IN_DIGEST]]
        data = {"subscription": notifications[0].subscription, "count": len(notifications), "notifications": listed}
        joined = ",".join(one.id for one in notifications)
        id = f"digest_{hashlib.sha256(joined.encode()).hexdigest()[:32]}"
    else:
        data, id = notification_document(notifications[0]), notifications[0].id
    body = to_json({"type": "tocsin.digest" if digest else "tocsin.notification", "timestamp": now, "data": data})
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

    def __init__(self, push: PushSide, settings: ServiceSettings, metrics: Metrics) -> None:
        self.desk = Desk(push, settings)
        self._settings, self._metrics = settings, metrics
        self._bell = asyncio.Event()
        self._bell.set()
        self._new: set[int] | None = None  # accounts with new notifications; None: look at all
        self.breakers = Breakers(settings.webhook_first_retry_seconds)
        self._busy: dict[tuple[int, int], asyncio.Task[None]] = {}  # by webhook and lane
        self._in_account: Counter[int] = Counter()
        self._in_webhook: Counter[int] = Counter()
        self._sending: dict[int, set[asyncio.Task[Outcome]]] = {}  # by subscription
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
                self._bell.clear()
                accounts, self._new = self._new, set()
                await asyncio.to_thread(self.desk.make_out, accounts)
                started = await self._start_due()
                wait = 0.0 if started else await asyncio.to_thread(self.desk.seconds_to_next, _LONGEST_WAIT)
                wait = self.breakers.seconds_to_next(wait)
            except TocsinError as error:  # the store may be back the next time
                log.warning("webhooks wait", error=str(error))
                self._new, wait = None, 1.0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(wait, 0.005)):
                    await self._bell.wait()

    async def _start_due(self) -> int:
        """Start delivering every lane that has something due, as far as there is room; return how many."""
        due = await asyncio.to_thread(self.desk.due, self._resting(), frozenset(self._busy))
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
        self._bell.set()

    async def _deliver(self, due: LaneDue) -> None:
        """Send what is due in one lane, in order; stop at the first failure, so that order is kept."""
        hook = due.webhook
        for items in due.messages:
            notifications = [item.notification for item in items if item.notification is not None]
            if not notifications:
                outcome = Outcome("dropped")
            else:
                outcome = await self._send(hook.url, hook.secret, notifications, digest=items[0].is_digest)
            self._metrics.deliveries.labels(outcome.kind).inc()
            down = False
            if outcome.kind == "delivered":
                self.breakers.succeeded(hook.id)
            elif outcome.kind == "failed":
                down = self.breakers.failed(hook.id)
            sent = [item.delivery for item in items]
            await _finish(asyncio.to_thread(self.desk.record, hook, sent, outcome, down=down))
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


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Wait for something to the end, also where the waiting is cancelled: a thread goes on anyway."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


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
