"""What a service answers, typed. Fields that later versions add are passed over."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Receipt(msgspec.Struct, frozen=True):
    """An event was stored under `seq`; or it broke the rules, and `violations` say how."""

    seq: int
    event_id: str | None
    accepted: bool
    violations: list[dict[str, Any]] = []
    met: dict[str, Any] | None = None  # of an offer: how many it reached, and for how many something failed


class Batch(msgspec.Struct, frozen=True):
    """What became of a batch."""

    accepted: int
    rejected: int
    items: list[Receipt] = []
    first_seq: int | None = None
    last_seq: int | None = None


class Subscribed(msgspec.Struct, frozen=True):
    """A subscription was stored, or its lease renewed. The ticket is shown once."""

    id: int
    seq: int
    lease_end: datetime
    generation: int
    ticket: str | None = None


class SubscribedMany(msgspec.Struct, frozen=True):
    """Subscriptions that were stored in one commit."""

    items: list[Subscribed]


class Subscription(msgspec.Struct, frozen=True):
    """A subscription as its owner sees it."""

    id: int
    text: str
    seq: int
    lease_start: datetime
    lease_end: datetime
    generation: int
    ended: str | None = None
    paused: bool = False


class SubscriptionPage(msgspec.Struct, frozen=True):
    """Some subscriptions; `cursor` leads to the next, None at the end."""

    items: list[Subscription]
    cursor: str | None


class Ended(msgspec.Struct, frozen=True):
    """A subscription is over since `seq`."""

    id: int
    seq: int


class Notification(msgspec.Struct, frozen=True):
    """One (event, subscription) match; `cursor` resumes after it."""

    id: str
    seq: int
    subscription: int
    event_id: str
    arrival: datetime
    event: dict[str, Any]
    cursor: str
    computed: list[str] = []  # attributes whose values were computed for this subscription
    bindings: list[dict[str, Any]] = []  # values of its variables that satisfy it


class NotificationPage(msgspec.Struct, frozen=True):
    """Notifications in order, and the cursor that resumes after them."""

    items: list[Notification]
    cursor: str
    more: bool


class Estimate(msgspec.Struct, frozen=True):
    """How much a draft would match, with bounds that hold 19 times in 20."""

    share: float
    share_low: float
    share_high: float
    events_per_day: float
    events_per_day_low: float
    events_per_day_high: float
    sample: int
    matched: int
    exact: bool


class Plan(msgspec.Struct, frozen=True):
    """How an expression is understood."""

    text: str
    warnings: list[str]
    conjunctions: list[str]


class Explanation(msgspec.Struct, frozen=True):
    """Whether an event satisfies a subscription, and why."""

    matched: bool
    outcome: dict[str, Any]
    changes: list[dict[str, Any]]
    bindings: list[dict[str, Any]] = []  # values of its variables that satisfy it
    computed: dict[str, Any] = {}  # what an offer computes for the one who asks
    failure: str | None = None  # why there is no answer


class Backfilled(msgspec.Struct, frozen=True):
    """A stored event that a draft matches."""

    seq: int
    event_id: str
    event: dict[str, Any]


class BackfillPage(msgspec.Struct, frozen=True):
    """Stored events that a draft matches; `after` goes on, None at the end."""

    items: list[Backfilled]
    looked_at: int
    after: str | None


class BackfillJob(msgspec.Struct, frozen=True):
    """How far a draft was held against the log."""

    id: int
    state: str
    looked_at: int
    matched: int
    examples: list[Backfilled] = []
    reason: str | None = None


class Account(msgspec.Struct, frozen=True):
    """Who the client acts for."""

    name: str
    role: str
    quotas: dict[str, int] = {}
    used: dict[str, int] = {}


class LoginSession(msgspec.Struct, frozen=True):
    """Somebody is logged in: requests that change something carry the CSRF token."""

    name: str
    role: str
    csrf_token: str
    expires: datetime


class Token(msgspec.Struct, frozen=True):
    """An API token; the secret only where it was just made."""

    id: int
    name: str
    created: datetime
    expires: datetime | None = None
    token: str | None = None
    scopes: list[str] = []
    last_used: datetime | None = None


class Webhook(msgspec.Struct, frozen=True):
    """An address that notifications are pushed to; the secret only where it was just made."""

    id: int
    url: str
    state: str
    reason: str | None
    created: datetime
    secret: str | None = None
    circuit: str | None = None
