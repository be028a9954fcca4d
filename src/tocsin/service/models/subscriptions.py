"""Documents about subscriptions and drafts: explanations, plans, estimates, and looking back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from tocsin.service.models.base import Asked, Cursor, LeaseSeconds, Told, Whole


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


class ExplanationTold(Told):
    matched: bool
    outcome: dict[str, Any]
    changes: list[dict[str, Any]]
    bindings: list[dict[str, Any]] = Field(default_factory=list)  # values of its variables that satisfy it
    computed: dict[str, Any] = Field(default_factory=dict)  # what an offer computes for the one who asks
    failure: str | None = None  # why there is no answer


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
