"""The documents of requests and answers, for the framework's checks and for OpenAPI.

Requests forbid what they do not know, so that `owner` or `is_admin` in a body is refused rather than ignored. Answers
are encoded by msgspec from documents.py; these models describe them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

AccountName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
Password = Annotated[str, StringConstraints(min_length=10, max_length=200)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Consumer = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
Whole = Annotated[int, Field(ge=0, lt=2**63)]  # what the store holds as a number
LeaseSeconds = Annotated[float, Field(gt=0, le=1e10, allow_inf_nan=False)]


class Asked(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid")


class Told(BaseModel):
    """An answer's body; more fields may come with later versions."""


# --- accounts ---------------------------------------------------------------------------------------------------------


class Registration(Asked):
    name: AccountName
    password: Password


class Login(Asked):
    name: Annotated[str, StringConstraints(max_length=200)]
    password: Annotated[str, StringConstraints(max_length=200)]


class PasswordChange(Asked):
    old: Annotated[str, StringConstraints(max_length=200)]
    new: Password


class Quotas(Asked):
    requests_per_minute: Annotated[int, Field(ge=1, le=10**9)] | None = None
    events_per_minute: Annotated[int, Field(ge=1, le=10**9)] | None = None
    subscriptions: Annotated[int, Field(ge=0, le=10**9)] | None = None


class AccountChange(Asked):
    role: Literal["member", "admin"] | None = None
    disabled: bool | None = None
    quotas: Quotas | None = None


class TokenRequest(Asked):
    name: Label
    seconds: Annotated[float, Field(gt=0, le=10 * 366 * 86400)] | None = None


class AccountTold(Told):
    name: str
    role: str
    created: datetime
    disabled: bool
    quotas: dict[str, int]


class AskerTold(Told):
    name: str
    role: str
    quotas: dict[str, int]
    csrf_token: str | None = None


class AccountsTold(Told):
    items: list[AccountTold]
    cursor: str | None


class SessionTold(Told):
    name: str
    role: str
    csrf_token: str
    expires: datetime


class TokenTold(Told):
    id: int
    name: str
    created: datetime
    expires: datetime | None
    token: str | None = None


class TokensTold(Told):
    items: list[TokenTold]


# --- schema -----------------------------------------------------------------------------------------------------------


class AttributeEntry(Asked):
    attribute: str
    mandatory: bool = True
    multiple: bool = False


class AddDomain(Asked):
    add_domain: dict[str, Any] = Field(description='{"name": "money", "kind": "numeric", …}, as in a schema document')


class AddAttribute(Asked):
    class Body(Asked):
        name: str
        domain: str

    add_attribute: Body


class ExtendEventType(Asked):
    class Body(Asked):
        event_type: str
        attribute: str
        multiple: bool = False

    extend_event_type: Body


class AddEventType(Asked):
    class Body(Asked):
        name: str
        attributes: Annotated[list[AttributeEntry], Field(max_length=1000)]

    add_event_type: Body


Extension = AddDomain | AddAttribute | ExtendEventType | AddEventType


class Extensions(Asked):
    changes: Annotated[list[Extension], Field(min_length=1, max_length=100)]
    words: Annotated[str, StringConstraints(max_length=500)] = ""


class ExtensionTold(Told):
    version: int
    dry_run: bool
    affected: dict[str, Any] | None = None
    schema_: dict[str, Any] = Field(alias="schema")


class SchemaVersionTold(Told):
    version: int
    seq: int
    at: datetime
    change: str


class SchemaHistoryTold(Told):
    items: list[SchemaVersionTold]


# --- subscriptions ----------------------------------------------------------------------------------------------------


class Expression(Asked):
    """A subscription in one of its forms: a text, a JSON tree, or plain predicates."""

    text: Annotated[str, StringConstraints(max_length=65536)] | None = None
    event_types: list[str] | None = None
    where: Any = None
    predicates: list[Any] | None = None
    with_: dict[str, Any] | None = Field(default=None, alias="with")

    def document(self) -> dict[str, Any] | str:
        """Return what the broker takes."""
        if self.text is not None and self.event_types is None and self.where is None and self.predicates is None:
            return self.text
        names = {"text", "event_types", "where", "predicates", "with_"} & self.model_fields_set
        return {name.rstrip("_"): getattr(self, name) for name in names if getattr(self, name) is not None}


class NewSubscription(Expression):
    lease_seconds: LeaseSeconds | None = None


class Renewal(Asked):
    lease_seconds: LeaseSeconds | None = None
    generation: Whole | None = None


class DeliveryRuleBody(Asked):
    digest: Literal["none", "hour", "day"] = "none"
    most_per_hour: Annotated[int, Field(ge=1, le=3600)] | None = None


class ExplainRequest(Asked):
    event: dict[str, Any]


class DraftExplain(Expression):
    event: dict[str, Any]


class DraftPreview(Expression):
    sample: Annotated[int, Field(ge=1, le=20_000)] = 5000


class DraftBackfill(Expression):
    after: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class SubscribedTold(Told):
    id: int
    seq: int
    lease_end: datetime
    generation: int
    ticket: str | None = None


class SubscribedManyTold(Told):
    items: list[SubscribedTold]


class SubscriptionTold(Told):
    id: int
    text: str
    seq: int
    lease_start: datetime
    lease_end: datetime
    generation: int
    ended: str | None
    paused: bool


class SubscriptionsTold(Told):
    items: list[SubscriptionTold]
    cursor: str | None


class EndedTold(Told):
    id: int
    seq: int


class PlanTold(Told):
    text: str
    warnings: list[str]
    conjunctions: list[str]


class DryPlanTold(PlanTold):
    dry_run: Literal[True]


class EstimateTold(Told):
    share: float
    share_low: float
    share_high: float
    events_per_day: float
    events_per_day_low: float
    events_per_day_high: float
    sample: int
    matched: int
    exact: bool


class OperatorTold(Told):
    name: str
    signature: str
    parameters: list[dict[str, str]]
    reads: list[str]
    cost_seconds: float
    timeout_seconds: float | None
    pure: bool
    runs: Literal["here", "thread", "process"]
    batches: bool
    help: str


class OperatorsTold(Told):
    items: list[OperatorTold]


class MeetingTold(Told):
    matched: bool
    refused_by: list[str]
    failure: str | None
    values: dict[str, Any]
    outcomes: list[dict[str, Any]]


class ExplanationTold(Told):
    matched: bool
    outcome: dict[str, Any]
    changes: list[dict[str, Any]]
    variables: dict[str, Any] = {}  # values that satisfy it, where operators found some
    meeting: MeetingTold | None = None  # both sides, where the subscription is one of a union


class ProgramTold(Told):
    name: str
    version: int
    parameters: dict[str, str]
    returns: str
    expression: str | None
    pure: bool
    time_limit_seconds: float


class ProgramsTold(Told):
    items: list[ProgramTold]


class OfferQuery(Asked):
    text: Annotated[str, StringConstraints(min_length=1, max_length=65536)]


class OfferFoundTold(Told):
    seq: int
    event: dict[str, Any]
    computed: list[str]
    ends: datetime


class OffersFoundTold(Told):
    items: list[OfferFoundTold]


class OfferTold(Told):
    seq: int
    offer: dict[str, Any]
    ends: datetime


class OffersTold(Told):
    items: list[OfferTold]


class MeetRequest(Asked):
    offer: dict[str, Any]


class BackfilledTold(Told):
    seq: int
    event_id: str
    event: dict[str, Any]


class BackfillTold(Told):
    items: list[BackfilledTold]
    looked_at: int
    after: str | None


class BackfillJobTold(Told):
    id: int
    state: Literal["running", "done", "failed"]
    looked_at: int
    matched: int
    examples: list[BackfilledTold]
    reason: str | None


# --- notifications, webhooks, dead letters ----------------------------------------------------------------------------


class Acknowledgement(Asked):
    cursor: Cursor
    consumer: Consumer = "default"


class NotificationTold(Told):
    id: str
    seq: int
    subscription: int
    event_id: str
    arrival: datetime
    event: dict[str, Any]
    cursor: str
    computed: list[str] = []  # attributes whose values were computed for this subscription


class NotificationsTold(Told):
    items: list[NotificationTold]
    cursor: str
    more: bool


class WhyTold(ExplanationTold):
    notification: NotificationTold
    text: str


class NewWebhook(Asked):
    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    start: Literal["now", "oldest"] = "now"


class WebhookTold(Told):
    id: int
    url: str
    state: str
    reason: str | None
    created: datetime
    secret: str | None = None


class WebhooksTold(Told):
    items: list[WebhookTold]


class DeliveryTold(Told):
    seq: int
    subscription: int
    state: str
    attempts: int
    next: datetime
    error: str | None


class DeliveriesTold(Told):
    items: list[DeliveryTold]
    cursor: str | None


class RetryRequest(Asked):
    seq: Whole
    subscription: Whole


class DeadLetterTold(Told):
    seq: int
    kind: str
    reason: str
    violations: list[dict[str, Any]]
    body: str
    at: datetime


class DeadLettersTold(Told):
    items: list[DeadLetterTold]
    cursor: str | None


class ReceiptTold(Told):
    seq: int
    event_id: str | None
    accepted: bool
    violations: list[dict[str, Any]] | None = None
    met: dict[str, Any] | None = None  # of an offer: how many it reached, and how many failed


class BatchTold(Told):
    accepted: Annotated[int, Field(strict=True)]
    rejected: int
    first_seq: int | None = None
    last_seq: int | None = None
    items: list[ReceiptTold] | None = None


class TriedTold(Told):
    matches: int
    yours: list[int]


class DryRunTold(Told):
    dry_run: Literal[True]
    items: list[TriedTold]


class Problem(Told):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str | None = None
    instance: str | None = None
