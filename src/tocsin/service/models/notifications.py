"""Documents about notifications and webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from tocsin.service.models.base import Asked, Consumer, Cursor, Told, Whole
from tocsin.service.models.subscriptions import ExplanationTold


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
    computed: list[str] = Field(default_factory=list)  # attributes whose values were computed for this subscription
    bindings: list[dict[str, Any]] = Field(default_factory=list)  # values of its variables that satisfy it


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
    circuit: Literal[
        "closed", "open", "half-open"
    ]  # open: nothing is sent for a while, since it failed again and again
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


class DeliveryNamed(Asked):
    seq: Whole
    subscription: Whole


class ReplayRequest(Asked):
    cursor: Cursor | None = None  # none: from the oldest that is kept
