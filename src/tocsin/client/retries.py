"""When a request is tried again, and after how long.

429 and a connection that was never made: always, nothing was done. 502, 503, 504, a broken connection or a timeout: only
requests that may be repeated, since it is not known whether they were done.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import httpx

from tocsin.client.calls import Call
from tocsin.client.errors import ServiceRefused

_SPREAD = random.Random()  # noqa: S311 - spreads load, guards nothing; of its own, as it is used in threads

_UNKNOWN = (502, 503, 504)
# Spreads load, guards nothing. Our own: what the program draws from the one that all share is not ours to change.
_SPREAD = random.Random()  # noqa: S311


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and how patiently; seconds."""

    attempts: int = 6
    first_seconds: float = 0.2
    longest_seconds: float = 20.0

    def wait(self, call: Call[Any], error: Exception, attempt: int) -> float | None:
        """Return how long to wait before the next attempt; None: there is none."""
        if attempt >= self.attempts or not _may_repeat(call, error):
            return None
        asked = error.retry_after_seconds if isinstance(error, ServiceRefused) else None
        spread = _SPREAD.uniform(0.5, 1.0)
        seconds: float = self.first_seconds * 2.0 ** (attempt - 1) * spread
        return min(self.longest_seconds, max(seconds, asked or 0.0))


def _may_repeat(call: Call[Any], error: Exception) -> bool:
    if isinstance(error, ServiceRefused):
        return error.status == 429 or (error.status in _UNKNOWN and call.again)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    return call.again
