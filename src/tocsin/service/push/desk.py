"""The courier's desk: what is due for which webhook, and what became of it, in the store. Runs in threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from sqlalchemy import Connection

from tocsin.broker import Notification, cursors
from tocsin.broker.push_side import PushSide
from tocsin.errors import CursorExpired
from tocsin.service.push.schedule import DeliveryRule, first_try_us, retry_us, spacing_us
from tocsin.service.settings import ServiceSettings
from tocsin.store import Transaction, accounts, deliveries, delivery_rules, letters, replacements, webhooks
from tocsin.store.clock import SECOND
from tocsin.store.deliveries import Delivery
from tocsin.store.letters import NewDeadLetter
from tocsin.store.webhooks import Webhook

_PAGE = 500
_DUE = 1000
_FOR_ONE = 50  # deliveries of one webhook in a row


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an attempt; `again_seconds` is what the receiver asked to wait."""

    kind: Literal["delivered", "failed", "gone", "dropped"]
    error: str = ""
    again_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A delivery with its notification: None where its subscription was ended since."""

    delivery: Delivery
    notification: Notification | None
    is_digest: bool

    @property
    def group(self) -> tuple[int, int]:
        """What is sent together: a digest's notifications; otherwise each by itself."""
        return (0 if self.is_digest else self.delivery.seq, self.delivery.subscription)


@dataclass(frozen=True, slots=True)
class Due:
    """What is due for one webhook, in the order in which it is sent."""

    webhook: Webhook
    items: Sequence[Item]


class Desk:
    """Reads and writes deliveries."""

    def __init__(self, push: PushSide, settings: ServiceSettings) -> None:
        self._push, self._settings = push, settings
        self._slots: dict[int, int] = {}  # subscription -> when its rate allows the next

    def make_out(self, chosen: Iterable[int] | None) -> int:
        """Make out the new notifications of accounts (None: of all) to their webhooks; return how many."""
        wanted = None if chosen is None else set(chosen)
        if wanted is not None and not wanted:
            return 0
        with self._push.store.read() as connection:
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
                page = self._push.broker.notifications(owner, cursor=self._push.cursor_at(*position), limit=_PAGE)
            except CursorExpired as error:  # nothing that is still kept is left out
                page = self._push.broker.notifications(owner, cursor=error.oldest, limit=_PAGE)
            if not page.notifications:
                return made
            self._add(hook, page.notifications, position)
            made, position = made + len(page), _position(page.notifications[-1])
            if not page.more:
                return made

    def _add(self, hook: Webhook, found: Sequence[Notification], position: tuple[int, int]) -> None:
        with self._push.store.write() as turn:
            now = webhooks.find_webhook(turn.connection, hook.account, hook.id)
            if now is None or (now.seq, now.subscription) != position:
                return  # removed meanwhile, or another process was faster
            rules = self._rules(turn.connection, {one.subscription for one in found})
            rows = []
            for one in found:
                rule = rules[one.subscription]
                due = first_try_us(rule, turn.now_us, self._slots.get(one.subscription, 0))
                if (apart := spacing_us(rule)) and rule.digest == "none":
                    self._slots[one.subscription] = due + apart
                rows.append((*_position(one), due))
            deliveries.add_deliveries_at(turn, hook.id, rows)
            webhooks.move(turn, hook.id, _position(found[-1]))

    @staticmethod
    def _rules(connection: Connection, subscriptions: Iterable[int]) -> dict[int, DeliveryRule]:
        kept = delivery_rules.find_rules(connection, sorted(subscriptions))
        return {
            one: DeliveryRule(kept[one].digest, kept[one].most_per_hour) if one in kept else DeliveryRule()  # type: ignore[arg-type]
            for one in subscriptions
        }

    def due(self, busy: frozenset[int]) -> list[Due]:
        """Return what is due, by webhook, without those that are being delivered to."""
        now_us = self._push.store.now_us()
        with self._push.store.read() as connection:
            waiting: dict[int, list[Delivery]] = {}
            for one in deliveries.due_deliveries(connection, now_us, _DUE):
                if one.webhook not in busy:
                    waiting.setdefault(one.webhook, []).append(one)
            hooks = {hook.id: hook for hook in webhooks.active_webhooks(connection) if hook.id in waiting}
            ids = {one.subscription for each in waiting.values() for one in each}
            origins = replacements.origins_of(connection, ids)  # owners, and their rules, know the first id
            kept = self._rules(connection, {origins.get(id, id) for id in ids})
            rules = {id: kept[origins.get(id, id)] for id in ids}
        return [Due(hook, self._items(waiting[id], rules)) for id, hook in hooks.items()]

    def _items(self, waiting: list[Delivery], rules: dict[int, DeliveryRule]) -> list[Item]:
        def is_digest(one: Delivery) -> bool:
            return rules[one.subscription].digest != "none"

        singles = sorted((one for one in waiting if not is_digest(one)), key=lambda one: (one.seq, one.subscription))
        digests = sorted((one for one in waiting if is_digest(one)), key=lambda one: (one.subscription, one.seq))
        chosen = [*singles[:_FOR_ONE], *digests]
        found = self._push.notifications_at([(one.seq, one.subscription) for one in chosen])
        return [Item(one, found.get((one.seq, one.subscription)), is_digest(one)) for one in chosen]

    def seconds_to_next(self, most: float) -> float:
        """Return how long until something is due."""
        with self._push.store.read() as connection:
            due = deliveries.next_due_us(connection)
        return most if due is None else min(most, max(0.0, (due - self._push.store.now_us()) / SECOND))

    def record(self, hook: Webhook, sent: Sequence[Delivery], outcome: Outcome) -> None:
        """Store what became of deliveries that were sent together."""
        with self._push.store.write() as turn:
            for one in sent:
                match outcome.kind:
                    case "delivered":
                        deliveries.mark_delivered(turn, one)
                    case "dropped":
                        deliveries.give_up(turn, one, "the subscription has ended")
                    case _:
                        self._failed(turn, hook, one, outcome)
            if outcome.kind == "gone":
                webhooks.set_state(turn, hook.id, "disabled", outcome.error)

    def _failed(self, turn: Transaction, hook: Webhook, one: Delivery, outcome: Outcome) -> None:
        again = None
        if outcome.kind != "gone":
            again = retry_us(
                one.attempts + 1, turn.now_us, self._settings.webhook_first_retry_seconds, outcome.again_seconds
            )
        if again is not None:
            deliveries.try_again(turn, one, again, outcome.error)
            return
        deliveries.give_up(turn, one, outcome.error)
        owner = accounts.read_account_of(turn.connection, hook.account)
        if owner is not None:
            body = msgspec.json.encode({"webhook": hook.id, "seq": one.seq, "subscription": one.subscription})
            reason = f"webhook {hook.id}, {one.attempts + 1} attempts: {outcome.error}"
            letter = NewDeadLetter("delivery", owner.name, reason, b"[]", body)
            letters.add_dead_letters(turn, [(turn.draw(), letter)])


def _position(notification: Notification) -> tuple[int, int]:
    """Return where a notification stands; for a subscription that was replaced that is not the id that it shows."""
    position, _ = cursors.decode(notification.cursor)
    return position.seq, position.subscription
