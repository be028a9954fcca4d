"""What the broker answers: receipts, notifications, pages.

Views: rows of the store as their owners see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tocsin.broker.cursors import instant
from tocsin.broker.expressions import text_of
from tocsin.errors import Violation
from tocsin.store.letters import DeadLetter
from tocsin.store.subscriptions import StoredSubscription


@dataclass(frozen=True, slots=True)
class SubscriptionReceipt:
    """A subscription was stored, or its lease renewed. `ticket` is shown once, to whoever subscribed."""

    id: int
    seq: int
    lease_end: datetime
    generation: int
    ticket: str | None = None


@dataclass(frozen=True, slots=True)
class EndReceipt:
    """A subscription is over since `seq`; no event after that reaches it, and nothing more is delivered."""

    id: int
    seq: int


@dataclass(frozen=True, slots=True)
class Met:
    """What a publisher learns of an offer: how many subscriptions it reached, and for how many something failed.

    `subscriptions` says which, only where the operator allows it.
    """

    matches: int
    failures: int
    subscriptions: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PublishReceipt:
    """An event was stored under `seq`; or it broke the rules, and is a dead letter under that seq.

    `met` is there for offers.
    """

    seq: int
    event_id: str | None
    violations: tuple[Violation, ...] = ()
    met: Met | None = None

    @property
    def accepted(self) -> bool:
        return self.event_id is not None


class Reached(NamedTuple):
    """A subscription that an event would reach."""

    subscription: int
    owner: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What publishing an event would come to: whom it would reach, or why it would be refused."""

    violations: tuple[Violation, ...]
    reached: tuple[Reached, ...]

    @property
    def accepted(self) -> bool:
        return not self.violations


@dataclass(frozen=True, slots=True)
class SubscriptionView:
    """A subscription as its owner sees it."""

    id: int
    owner: str
    text: str
    seq: int
    lease_start: datetime
    lease_end: datetime
    generation: int
    ended: str | None  # 'unsubscribed', 'lease ended', None while live
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Notification:
    """One (event, subscription) match. `id` is the same however often it is delivered."""

    id: str
    seq: int
    subscription: int
    event_id: str
    arrival: datetime
    event: Mapping[str, Any]  # with the values that were computed for this subscription
    cursor: str  # resumes after this notification
    computed: tuple[str, ...] = ()  # the attributes among them that were
    bindings: tuple[Mapping[str, Any], ...] = ()  # values of the subscription's variables that satisfy it


@dataclass(frozen=True, slots=True)
class Page:
    """Notifications in order, and the cursor that resumes after them; `more` if there were more at that moment."""

    notifications: tuple[Notification, ...]
    cursor: str
    more: bool

    def __iter__(self) -> Iterator[Notification]:
        return iter(self.notifications)

    def __len__(self) -> int:
        return len(self.notifications)


@dataclass(frozen=True, slots=True)
class LeaseNotice:
    """A lease is about to end; renew it with this generation."""

    subscription: int
    owner: str
    lease_end: datetime
    generation: int


@dataclass(frozen=True, slots=True)
class DeadLetterView:
    """Something that could not be processed, and why."""

    seq: int
    kind: str
    reason: str
    violations: tuple[Violation, ...]
    body: bytes
    at: datetime


# Views.


def subscription_view(found: StoredSubscription) -> SubscriptionView:
    """Return a subscription as its owner sees it."""
    ended = {None: None, "paused": None, "replaced": None, "owner": "unsubscribed", "lease": "lease ended"}[
        found.deleted_by
    ]
    return SubscriptionView(
        found.origin,
        found.owner_name,
        text_of(found.text, found.tree),
        found.id,
        instant(found.start_us),
        instant(found.end_us),
        found.generation,
        ended,
        found.paused,
    )


def letter_view(letter: DeadLetter) -> DeadLetterView:
    """Return a dead letter as its publisher sees it."""
    violations = tuple(Violation(*parts) for parts in msgspec.json.decode(letter.violations))
    return DeadLetterView(letter.seq, letter.kind, letter.reason, violations, letter.body, instant(letter.at_us))
