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

Due deliveries: what is due in which lane, and what became of it, in the store. Runs in threads.

When a delivery is tried: at once, at the end of its digest's period, as its rate allows, and again after a failure.

Retries follow the schedule that Standard Webhooks recommends, each stretched or shortened by up to a fifth so that
those which failed together do not come back together: nine retries over about three days, then the dead letter.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hashlib
import secrets
from collections import Counter
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal

import httpcore
import msgspec
import structlog
from sqlalchemy import Connection
from standardwebhooks.webhooks import Webhook as Signer

from tocsin.broker import Broker, deliveries
from tocsin.documents.events import DeliveryRule, Notification
from tocsin.errors import CursorExpired, TocsinError
from tocsin.operators.foreign import Breakers
from tocsin.service.addresses import UnsafeAddress, VettedNetwork, check_url
from tocsin.service.edge import Metrics
from tocsin.service.settings import ServiceSettings
from tocsin.store import Transaction, accounts, events, webhooks
from tocsin.store.events import NewDeadLetter
from tocsin.store.store import SECOND
from tocsin.store.webhooks import Delivery, Lane, NewDelivery, Webhook

HOUR_US = 3600 * SECOND
PERIOD_US: dict[str, int] = {"hour": HOUR_US, "day": 24 * HOUR_US}
RETRY_SECONDS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)  # 75 hours together
JITTER = 0.2
LEAST_PATIENCE_SECONDS = 60.0


def first_try_us(rule: DeliveryRule, now_us: int, slot_us: int) -> int:
    """Return when a new notification is to be delivered; `slot_us` is when the rate allows the next."""
    if rule.is_digest:
        period = PERIOD_US[rule.digest]
        return (now_us // period + 1) * period
    return max(now_us, slot_us)


def spacing_us(rule: DeliveryRule) -> int:
    """Return how far apart deliveries are at least."""
    return 0 if rule.most_per_hour is None else HOUR_US // rule.most_per_hour


def patience_us(first_retry_seconds: float) -> int:
    """Return for how long a delivery is tried at most, counted from when it was due."""
    seconds = sum(RETRY_SECONDS) * (1 + JITTER) * first_retry_seconds / RETRY_SECONDS[0]
    return round(max(seconds, LEAST_PATIENCE_SECONDS) * SECOND)


def retry_us(
    attempts: int,
    now_us: int,
    first_retry_seconds: float,
    asked_seconds: float | None = None,
    due_us: int | None = None,
) -> int | None:
    """Return when to try again after so many failed attempts; None: give up.

    `asked_seconds` is what the receiver's Retry-After says: not earlier than that, but at most a day. `due_us` is when
    it was due: one that was held back by another for all of the time gets one attempt.
    """
    if attempts > len(RETRY_SECONDS):
        return None
    if attempts == 1 and due_us is not None and now_us - due_us > patience_us(first_retry_seconds):
        return None
    seconds = RETRY_SECONDS[attempts - 1] * first_retry_seconds / RETRY_SECONDS[0]
    spread = 1 + JITTER * (2 * secrets.SystemRandom().random() - 1)
    seconds = max(seconds * spread, min(asked_seconds or 0.0, 86_400.0))
    return now_us + round(seconds * SECOND)


# What is due.


_PAGE = 500
_DUE = 1000
_LANES = 200  # looked at together
_IN_ROW = 50  # deliveries of one lane, before others have their turn
_IN_DIGEST = 20_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of an attempt; `again_seconds` is what the receiver asked to wait."""

    kind: Literal["delivered", "failed", "gone", "dropped"]
    error: str = ""
    again_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DueItem:
    """A delivery with its notification: None where its subscription was ended since."""

    delivery: Delivery
    notification: Notification | None
    is_digest: bool


@dataclass(frozen=True, slots=True)
class LaneDue:
    """What is due in one lane, message by message, in the order in which they are sent."""

    webhook: Webhook
    lane: Lane
    messages: Sequence[Sequence[DueItem]]


class DueDeliveries:
    """Reads and writes deliveries."""

    def __init__(self, broker: Broker, settings: ServiceSettings) -> None:
        self._broker, self._settings = broker, settings
        self._slots: dict[int, int] = {}  # subscription -> when its rate allows the next
        self.accounts: frozenset[int] = frozenset()  # that had an active webhook when this looked last

    def make_out(self, chosen: Iterable[int] | None) -> int:
        """Make out the new notifications of accounts (None: of all) to their webhooks; return how many.

        Those of an account that has a webhook since the last look, perhaps by another process, are made out as well.
        """
        wanted = None if chosen is None else set(chosen)
        with self._broker.store.read() as connection:
            active = webhooks.active_webhooks(connection)
            found = [
                (hook, owner.name)
                for hook in active
                if (wanted is None or hook.account in wanted or hook.account not in self.accounts)
                and (owner := accounts.read_account_of(connection, hook.account)) is not None
            ]
        self.accounts = frozenset(hook.account for hook in active)
        return sum(self._make_out_one(hook, name) for hook, name in found)

    def _make_out_one(self, hook: Webhook, owner: str) -> int:
        made, position = 0, (hook.seq, hook.subscription)
        while True:
            try:
                page = self._broker.notifications(
                    owner, cursor=self._broker.deliveries.cursor_at(*position), limit=_PAGE
                )
            except CursorExpired as error:  # nothing that is still kept is left out
                page = self._broker.notifications(owner, cursor=error.oldest, limit=_PAGE)
            if not page.items:
                return made
            self._add(hook, page.items, position)
            made, position = made + len(page), _position(page.items[-1])
            if not page.more:
                return made

    def _add(self, hook: Webhook, found: Sequence[Notification], position: tuple[int, int]) -> None:
        with self._broker.store.write() as turn:
            now = webhooks.find_webhook(turn.connection, hook.account, hook.id)
            if now is None or (now.seq, now.subscription) != position:
                return  # removed meanwhile, or another process was faster
            rules = self._rules(turn.connection, {one.subscription for one in found})
            rows = []
            for one in found:
                rule = rules[one.subscription]
                due = first_try_us(rule, turn.now_us, self._slots.get(one.subscription, 0))
                if (apart := spacing_us(rule)) and not rule.is_digest:
                    self._slots[one.subscription] = due + apart
                rows.append(NewDelivery(*_position(one), one.subscription, due))
            webhooks.add_deliveries(turn, hook.id, rows)
            webhooks.move(turn, hook.id, _position(found[-1]))

    @staticmethod
    def _rules(connection: Connection, subscriptions: Iterable[int]) -> dict[int, DeliveryRule]:
        kept = webhooks.find_rules(connection, sorted(subscriptions))
        return {one: kept.get(one, DeliveryRule()) for one in subscriptions}

    def due(self, resting: Collection[int], busy: Collection[tuple[int, int]]) -> list[LaneDue]:
        """Return what is due, lane by lane, without webhooks that rest and lanes that are being delivered."""
        now_us = self._broker.store.now_us()
        with self._broker.store.read() as connection:
            found = webhooks.due_lanes(connection, now_us, _LANES + len(busy), resting)
            chosen = [one for one in found if (one.webhook, one.lane) not in busy]
            hooks = {hook.id: hook for hook in webhooks.webhooks_of(connection, {one.webhook for one in chosen})}
            rules = self._rules(connection, {one.lane for one in chosen})
            waiting = [
                (
                    one,
                    webhooks.due_in(connection, one, now_us, _IN_DIGEST if rules[one.lane].is_digest else _IN_ROW),
                )
                for one in chosen
            ]
        self._refresh_empty([lane for lane, each in waiting if not each])
        return [
            LaneDue(
                hooks[lane.webhook],
                lane,
                self._messages(hooks[lane.webhook].account, each, digest=rules[lane.lane].is_digest),
            )
            for lane, each in waiting
            if each and lane.webhook in hooks
        ]

    def _refresh_empty(self, lanes: Sequence[Lane]) -> None:
        """What was first in a lane may have been removed, because it was too old."""
        if lanes:
            with self._broker.store.write() as turn:
                for one in lanes:
                    webhooks.refresh_lane(turn, one.webhook, one.lane)

    def _messages(self, owner: int, waiting: Sequence[Delivery], *, digest: bool) -> list[list[DueItem]]:
        """Return what is sent together: the deliveries of a digest that were due together, so that a retry is the same."""
        found = self._broker.deliveries.at(owner, [(one.seq, one.subscription) for one in waiting])
        items = [DueItem(one, found.get((one.seq, one.subscription)), digest) for one in waiting]
        if not digest:
            return [[item] for item in items]
        return [list(group) for _, group in groupby(items, key=lambda item: item.delivery.next_us)]

    def seconds_to_next(self, most: float) -> float:
        """Return how long until a lane is due that is not due yet; those that are wait for their turn."""
        now_us = self._broker.store.now_us()
        with self._broker.store.read() as connection:
            due = webhooks.next_due_us(connection, now_us)
        return most if due is None else min(most, (due - now_us) / SECOND)

    def record(self, hook: Webhook, sent: Sequence[Delivery], outcome: Attempt, *, down: bool = False) -> None:
        """Store what became of deliveries that were sent together; `down`: nothing arrives at the webhook at all."""
        with self._broker.store.write() as turn:
            match outcome.kind:
                case "delivered":
                    webhooks.mark_delivered(turn, sent)
                case "dropped":
                    webhooks.give_up(turn, sent, "the subscription has ended")
                case _:
                    self._failed(turn, hook, sent, outcome, down=down)
            if outcome.kind == "gone":
                webhooks.set_state(turn, hook.id, "disabled", outcome.error)

    def _failed(
        self, turn: Transaction, hook: Webhook, sent: Sequence[Delivery], outcome: Attempt, *, down: bool
    ) -> None:
        first_retry, head = self._settings.webhook_first_retry_seconds, sent[0]
        if outcome.kind != "gone":
            again = retry_us(head.attempts + 1, turn.now_us, first_retry, outcome.again_seconds, head.first_us)
            if again is not None:
                webhooks.try_again(turn, sent, again, outcome.error)
                return
        self._give_up(turn, hook, sent, outcome.error)
        if down and outcome.kind != "gone":  # whatever waited as long would only be given up one by one
            late = webhooks.overdue(turn.connection, hook.id, turn.now_us - patience_us(first_retry), _DUE)
            self._give_up(turn, hook, late, outcome.error)

    def _give_up(self, turn: Transaction, hook: Webhook, sent: Sequence[Delivery], error: str) -> None:
        webhooks.give_up(turn, sent, error)
        owner = accounts.read_account_of(turn.connection, hook.account)
        if owner is None:
            return
        for one in sent:
            body = msgspec.json.encode({"webhook": hook.id, "seq": one.seq, "subscription": one.subscription})
            reason = f"webhook {hook.id}, {one.attempts + 1} attempts: {error}"
            letter = NewDeadLetter("delivery", owner.name, reason, b"[]", body)
            events.add_dead_letters(turn, [(turn.draw(), letter)])


def _position(notification: Notification) -> tuple[int, int]:
    """Return where a notification stands; for a subscription that was replaced that is not the id that it shows."""
    position = deliveries.decode_cursor(notification.cursor).position
    return position.seq, position.subscription


# --- The courier ------------------------------------------------------------------------------------------------------


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
        """Look again: there is something new for these accounts, or (None) something changed at all.

        Accounts without a webhook wake nobody; that one was given a webhook elsewhere is seen at the next look.
        """
        if owners is None:
            self._new = None
        elif self._new is not None:
            hooked = self.due.accounts.intersection(owners)
            if not hooked:
                return
            self._new.update(hooked)
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
