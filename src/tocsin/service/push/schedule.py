"""When a delivery is tried: at once, at the end of its digest's period, as its rate allows, and again after a failure.

Retries follow the schedule that Standard Webhooks recommends, each stretched or shortened by up to a fifth so that
those which failed together do not come back together: nine retries over about three days, then the dead letter.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Literal

from tocsin.store.clock import SECOND

Digest = Literal["none", "hour", "day"]
HOUR_US = 3600 * SECOND
PERIOD_US: dict[str, int] = {"hour": HOUR_US, "day": 24 * HOUR_US}
RETRY_SECONDS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)  # 75 hours together
JITTER = 0.2
LEAST_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DeliveryRule:
    """How an owner wants to be told about one subscription: each at once, a digest a period, so many an hour."""

    digest: Digest = "none"
    most_per_hour: int | None = None


def first_try_us(rule: DeliveryRule, now_us: int, slot_us: int) -> int:
    """Return when a new notification is to be delivered; `slot_us` is when the rate allows the next."""
    if rule.digest != "none":
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
