"""Publishing and being notified: receipts, dry runs, dead letters, notifications, webhooks and their deliveries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.documents import Consumer, Cursor, Instant, RequestDocument, ResponseDocument, StoredInt
from tocsin.errors import Violation


class OfferReach(ResponseDocument, frozen=True, omit_defaults=True):
    """What a publisher learns of an offer: how many subscriptions it reached, and for how many something failed.

    `subscriptions` says which, only where the operator allows it.
    """

    matches: int
    failures: int
    subscriptions: tuple[int, ...] | None = None


class PublishReceipt(ResponseDocument, frozen=True, omit_defaults=True):
    """An event was stored under `seq`; or it broke the rules, and is a dead letter under that seq.

    `met` is there for offers.
    """

    seq: int
    event_id: str | None
    accepted: bool
    violations: tuple[Violation, ...] = ()
    met: OfferReach | None = None


class BatchReceipt(ResponseDocument, frozen=True, omit_defaults=True):
    """What became of a batch; `items` where they were asked for."""

    accepted: int
    rejected: int
    first_seq: int | None = None
    last_seq: int | None = None
    items: tuple[PublishReceipt, ...] = ()


class DryRunMatches(ResponseDocument, frozen=True):
    """What an event would match: the asker's own subscriptions, and how many in all."""

    matches: int | None  # None: the operator does not say, since it would show what others ask for
    yours: list[int]


class DryRunResponse(ResponseDocument, frozen=True):
    """What events would match if they were published now."""

    dry_run: Literal[True]
    items: list[DryRunMatches]


class DeadLetterView(ResponseDocument, frozen=True):
    """Something that could not be processed, and why; its body as text, since it may not even be JSON."""

    seq: int
    kind: str
    reason: str
    violations: tuple[Violation, ...]
    body: str
    at: Instant


class DeadLetterPage(ResponseDocument, frozen=True):
    """Some dead letters, oldest first; `cursor` leads to the next, None at the end."""

    items: list[DeadLetterView]
    cursor: str | None


class Notification(ResponseDocument, frozen=True):
    """One (event, subscription) match. `id` is the same however often it is delivered."""

    id: str
    seq: int
    subscription: int
    event_id: str
    arrival: Instant
    event: Mapping[str, Any]  # with the values that were computed for this subscription
    cursor: str  # resumes after this notification
    computed: tuple[str, ...] = ()  # the attributes among them that were
    bindings: tuple[Mapping[str, Any], ...] = ()  # values of the subscription's variables that satisfy it


class NotificationPage(ResponseDocument, frozen=True):
    """Notifications in order, and the cursor that resumes after them; `more` if there were more at that moment."""

    items: tuple[Notification, ...]
    cursor: str
    more: bool

    def __iter__(self) -> Iterator[Notification]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class InboxMatch(ResponseDocument, frozen=True, omit_defaults=True):
    """A subscription that an event of the inbox matched; the cursor leads to why."""

    subscription: int
    cursor: str
    computed: Mapping[str, Any] = msgspec.field(default_factory=dict)  # what an offer computed for it
    bindings: tuple[Mapping[str, Any], ...] = ()


class InboxEntry(ResponseDocument, frozen=True):
    """An event, and those of its reader's subscriptions that it matched: the first of them, and how many in all."""

    seq: int
    event_id: str
    arrival: Instant
    event: Mapping[str, Any]
    matches: tuple[InboxMatch, ...]
    count: int
    unread: bool


class InboxPage(ResponseDocument, frozen=True):
    """Entries, newest first; `older` and `newer` lead on, None where nothing is there."""

    items: tuple[InboxEntry, ...]
    older: str | None
    newer: str | None
    unread: int  # entries after what was marked as read; at most 1,000 are counted


class InboxRead(RequestDocument, frozen=True):
    """Everything in the inbox up to this seq was read."""

    through: StoredInt


class Acknowledgement(RequestDocument, frozen=True):
    """A consumer has everything up to a cursor."""

    cursor: Cursor
    consumer: Consumer = "default"


class NotificationExplanation(ResponseDocument, frozen=True):
    """A notification with the conditions of its subscription and the actual values."""

    notification: Notification
    text: str
    matched: bool
    outcome: dict[str, Any]
    changes: list[dict[str, Any]]
    bindings: list[dict[str, Any]] = msgspec.field(default_factory=list)
    computed: dict[str, Any] = msgspec.field(default_factory=dict)
    failure: str | None = None


class NewWebhook(RequestDocument, frozen=True):
    """Have notifications pushed to an address."""

    url: Annotated[str, Meta(min_length=1, max_length=2000)]
    start: Literal["now", "oldest"] = "now"


class WebhookView(ResponseDocument, frozen=True, omit_defaults=True):
    """An address that notifications are pushed to; the secret only where it was just made."""

    id: int
    url: str
    state: str
    reason: str | None
    circuit: Literal["closed", "open", "half-open"]  # open: nothing is sent for a while, as it failed again and again
    created: Instant
    secret: str | None = None


class WebhookList(ResponseDocument, frozen=True):
    """An account's webhooks."""

    items: list[WebhookView]


class DeliveryView(ResponseDocument, frozen=True):
    """What became of one notification for one webhook."""

    seq: int
    subscription: int
    state: str
    attempts: int
    next: Instant
    error: str | None


class DeliveryPage(ResponseDocument, frozen=True):
    """Some deliveries in order; `cursor` leads to the next, None at the end."""

    items: list[DeliveryView]
    cursor: str | None


class DeliveryKey(RequestDocument, frozen=True):
    """Which delivery of a webhook is meant."""

    seq: StoredInt
    subscription: StoredInt


class ReplayRequest(RequestDocument, frozen=True):
    """Send everything after a cursor once more; without one, from the oldest that is kept."""

    cursor: Cursor | None = None


class DeliveryRule(RequestDocument, frozen=True):
    """How an owner wants webhooks to be told about one subscription: each at once, a digest a period, so many an hour."""

    digest: Literal["none", "hour", "day"] = "none"
    most_per_hour: Annotated[int, Meta(ge=1, le=3600)] | None = None

    @property
    def is_digest(self) -> bool:
        return self.digest != "none"
