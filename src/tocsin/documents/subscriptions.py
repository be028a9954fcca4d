"""Subscriptions and drafts of them: explanations, plans, estimates, looking back; and offers that are held for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.documents import Cursor, Instant, LeaseSeconds, RequestDocument, ResponseDocument, StoredInt


class ExpressionRequest(RequestDocument, frozen=True):
    """A subscription in one of its forms: a text, a JSON tree, or plain predicates."""

    text: Annotated[str, Meta(max_length=65536)] | None = None
    event_types: list[str] | None = None
    where: Any = None
    predicates: list[Any] | None = None
    with_: dict[str, Any] | None = msgspec.field(default=None, name="with")

    def expression(self) -> dict[str, Any] | str:
        """Return what the broker takes."""
        given = {"text": self.text, "event_types": self.event_types, "where": self.where,
                 "predicates": self.predicates, "with": self.with_}  # fmt: skip
        named = {name: value for name, value in given.items() if value is not None}
        return self.text if self.text is not None and named.keys() <= {"text", "with"} else named


class SubscriptionRequest(ExpressionRequest, frozen=True):
    """Subscribe; a lease that `renews` is renewed for as long again before it ends, while the account lives."""

    lease_seconds: LeaseSeconds | None = None
    renews: bool = False


class RenewalRequest(RequestDocument, frozen=True):
    """Renew a lease, from now on; never shortens it. With a generation only if it was not renewed since."""

    lease_seconds: LeaseSeconds | None = None
    renews: bool = False
    generation: StoredInt | None = None


class SubscriptionReceipt(ResponseDocument, frozen=True, omit_defaults=True):
    """A subscription was stored, or its lease renewed. `ticket` is shown once, to whoever subscribed.

    What it costs is told when it is stored: `price_bytes` count against the account's quota; `operator_seconds` are what the
    operators that it calls say an event takes them.
    """

    id: int
    seq: int
    lease_end: Instant
    generation: int
    ticket: str | None = None
    price_bytes: int = 0
    operator_seconds: float = 0.0


class SubscriptionReceipts(ResponseDocument, frozen=True):
    """Many subscriptions were stored, in the order in which they were sent."""

    items: list[SubscriptionReceipt]


class EndReceipt(ResponseDocument, frozen=True):
    """A subscription is over since `seq`; no event after that reaches it, and nothing more is delivered."""

    id: int
    seq: int


class SubscriptionView(ResponseDocument, frozen=True):
    """A subscription as its owner sees it."""

    id: int
    owner: str
    text: str
    seq: int
    lease_start: Instant
    lease_end: Instant
    generation: int
    ended: str | None = None  # 'unsubscribed', 'lease ended', None while live
    paused: bool = False
    price_bytes: int = 0  # that count against its owner's quota
    renews: bool = False  # by itself, while its owner's account lives


class SubscriptionPage(ResponseDocument, frozen=True):
    """Some subscriptions; `cursor` leads to the next, None at the end."""

    items: list[SubscriptionView]
    cursor: str | None


class PauseNotice(ResponseDocument, frozen=True):
    """A subscription was paused, since its matches cost more processor time than its account may take."""

    subscription: int
    owner: str
    reason: str


class LeaseNotice(ResponseDocument, frozen=True):
    """A lease is about to end; renew it with this generation."""

    subscription: int
    owner: str
    lease_end: Instant
    generation: int


class ExplainRequest(RequestDocument, frozen=True):
    """Why would an event match a subscription, or not?"""

    event: dict[str, Any]


class ExplanationView(ResponseDocument, frozen=True):
    """Whether an event satisfies a subscription, and why."""

    matched: bool
    outcome: dict[str, Any]
    changes: list[dict[str, Any]]
    bindings: list[dict[str, Any]] = msgspec.field(default_factory=list)  # values of its variables that satisfy it
    computed: dict[str, Any] = msgspec.field(default_factory=dict)  # what an offer computes for the one who asks
    failure: str | None = None  # why there is no answer


class DraftExplainRequest(ExpressionRequest, frozen=True, kw_only=True):
    """Why would an event match an expression, or not?"""

    event: dict[str, Any]


class DraftPreviewRequest(ExpressionRequest, frozen=True):
    """How much would an expression match?"""

    sample: Annotated[int, Meta(ge=1, le=20_000)] = 5000


class Estimate(ResponseDocument, frozen=True):
    """How much a draft would match: the share of events, and events a day, with bounds that hold 19 times in 20."""

    share: float
    share_low: float
    share_high: float
    events_per_day: float
    events_per_day_low: float
    events_per_day_high: float
    sample: int
    matched: int
    exact: bool  # every event of the period was looked at

    def __str__(self) -> str:
        kind = "all" if self.exact else "a sample of"
        return (
            f"about {self.events_per_day:,.0f} events a day ({self.events_per_day_low:,.0f} to "
            f"{self.events_per_day_high:,.0f}): {self.share:.2%} of events ({self.share_low:.2%} to {self.share_high:.2%}), "
            f"from {kind} {self.sample:,} events"
        )


class Plan(ResponseDocument, frozen=True, omit_defaults=True):
    """How an expression is understood: its text, its conjunctions, and what its author should know."""

    text: str
    warnings: list[str]
    conjunctions: list[str]
    dry_run: Literal[True] | None = None  # where it was asked for in place of subscribing


class DraftBackfillRequest(ExpressionRequest, frozen=True):
    """Which stored events would an expression have matched?"""

    after: Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class BackfilledEvent(ResponseDocument, frozen=True):
    """A stored event that a draft matches."""

    seq: int
    event_id: str
    event: dict[str, Any]


class BackfillPage(ResponseDocument, frozen=True):
    """Stored events that a draft matches, oldest first; `after` goes on, None where the end of the log was reached."""

    items: list[BackfilledEvent]
    looked_at: int
    after: str | None


class BackfillJob(ResponseDocument, frozen=True):
    """A draft that is held against the whole log, as far as that has come."""

    id: int
    state: Literal["running", "done", "failed"]
    looked_at: int
    matched: int
    examples: list[BackfilledEvent]
    reason: str | None


class OfferQuery(RequestDocument, frozen=True):
    """Which live offers does a subscription match?"""

    text: Annotated[str, Meta(min_length=1, max_length=65536)]


class FoundOffer(ResponseDocument, frozen=True):
    """A live offer that a subscription matches, as the subscriber sees it: without its rules."""

    seq: int
    event: Mapping[str, Any]  # with the computed values
    computed: tuple[str, ...]
    ends: Instant


class FoundOffers(ResponseDocument, frozen=True):
    """The live offers that a subscription matches."""

    items: list[FoundOffer]


class HeldOffer(ResponseDocument, frozen=True):
    """A live offer as its publisher sees it."""

    seq: int
    offer: Mapping[str, Any]
    ends: Instant


class HeldOfferPage(ResponseDocument, frozen=True):
    """A publisher's live offers, in order."""

    items: list[HeldOffer]
