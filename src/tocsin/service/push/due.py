"""Due deliveries: what is due in which lane, and what became of it, in the store. Runs in threads.

When a delivery is tried: at once, at the end of its digest's period, as its rate allows, and again after a failure.

Retries follow the schedule that Standard Webhooks recommends, each stretched or shortened by up to a fifth so that
those which failed together do not come back together: nine retries over about three days, then the dead letter.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import msgspec
from sqlalchemy import Connection

from tocsin.broker import Broker, deliveries
from tocsin.documents.events import DeliveryRule, Notification
from tocsin.errors import CursorExpired
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

    def make_out(self, chosen: Iterable[int] | None) -> int:
        """Make out the new notifications of accounts (None: of all) to their webhooks; return how many."""
        wanted = None if chosen is None else set(chosen)
        if wanted is not None and not wanted:
            return 0
        with self._broker.store.read() as connection:
            found = [
                (hook, owner.name)
                for hook in webhooks.active_webhooks(connection)
                if (wanted is None or hook.account in wanted)
                and (owner := accounts.read_account_of(connection, hook.account)) is not None
            ]
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
            webhooks.add_deliveries_at(turn, hook.id, rows)
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
