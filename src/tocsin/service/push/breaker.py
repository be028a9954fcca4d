"""Circuit breakers: a webhook that fails again and again is left alone for a while, then asked once whether it is back.

    closed      all its lanes are delivered
    open        after several failures in a row, whichever lane they were in: nothing is sent
    half-open   the pause is over: one lane sends one message; if that arrives, the circuit closes, else it opens for
                twice as long, an hour at most

One breaker a webhook, not one a host: a stranger who points a webhook of theirs at the same host and lets it fail must
not stop yours. They are kept in memory; a service that starts anew finds out anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Circuit = Literal["closed", "open", "half-open"]
FAILURES = 5  # in a row
_PAUSE = 6  # times the first retry's delay
_LONGEST_PAUSE = 3600.0


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    opened: int = 0  # how often in a row
    until: float = 0.0
    probing: bool = False


class Breakers:
    """The breakers of all webhooks. Used within one event loop only."""

    def __init__(self, first_retry_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause, self._clock = _PAUSE * first_retry_seconds, clock
        self._breakers: dict[int, _Breaker] = {}  # of webhooks whose last attempt failed

    def state(self, webhook: int) -> Circuit:
        """Return how a webhook's circuit stands."""
        breaker = self._breakers.get(webhook)
        if breaker is None or not breaker.opened:
            return "closed"
        return "open" if self._clock() < breaker.until else "half-open"

    def start(self, webhook: int) -> bool:
        """Return whether something may be sent now; in a half-open circuit only to the first who asks."""
        state, breaker = self.state(webhook), self._breakers.get(webhook)
        if breaker is None or state == "closed":
            return True
        if state == "open" or breaker.probing:
            return False
        breaker.probing = True
        return True

    def succeeded(self, webhook: int) -> None:
        """Close a webhook's circuit."""
        self._breakers.pop(webhook, None)

    def failed(self, webhook: int) -> bool:
        """Count a failure; return whether the circuit is open by now."""
        breaker = self._breakers.setdefault(webhook, _Breaker())
        breaker.failures += 1
        if breaker.probing or (not breaker.opened and breaker.failures >= FAILURES):
            pause = min(self._pause * 2 ** min(breaker.opened, 20), _LONGEST_PAUSE)
            breaker.opened, breaker.until, breaker.probing = breaker.opened + 1, self._clock() + pause, False
        return breaker.opened > 0

    def ended(self, webhook: int) -> None:
        """Let another lane ask, where the one that did found nothing to send."""
        if (breaker := self._breakers.get(webhook)) is not None:
            breaker.probing = False

    def resting(self) -> set[int]:
        """Return the webhooks to which nothing may be sent now."""
        return {id for id, one in self._breakers.items() if self.state(id) == "open" or one.probing}

    def seconds_to_next(self, most: float) -> float:
        """Return how long until one may be asked again."""
        now = self._clock()
        waits = [one.until - now for one in self._breakers.values() if one.opened and not one.probing]
        return min([most, *(max(0.0, wait) for wait in waits if wait > 0)])

    def forget(self, webhook: int) -> None:
        """Begin anew with a webhook: its owner has mended or removed it."""
        self._breakers.pop(webhook, None)
