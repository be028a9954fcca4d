"""History: how the service has been doing over the last minutes, a moment every second, for the dashboard.

Kept here and not by the page, so that whoever opens it sees at once what was before. One short look at the store a
second: the counts of what came since the last look.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from prometheus_client import Histogram

from tocsin.errors import TocsinError
from tocsin.service.pipeline_watch import Watch
from tocsin.service.service import Service
from tocsin.store.events import count_events
from tocsin.store.notifications import count_matches

log = structlog.get_logger("tocsin.history")
TICK_SECONDS = 1.0
KEPT = 181  # moments: three minutes, and one to begin with
WINDOW = 10  # moments that rates and percentiles are taken over
_PUBLISHING = ("/v1/events", "/publish")

Buckets = Mapping[float, float]  # upper bound in seconds -> requests that took at most so long


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stood; counts since the service started, latencies in milliseconds."""

    at: float  # on the monotonic clock
    seq: int
    matched_through: int
    lag: int
    events: int
    matches: int
    subscriptions: int
    index_bytes: int
    streams: int
    publishing: Buckets = field(repr=False)
    pipeline: Mapping[str, Any] = field(repr=False)
    pipeline_state: str
    schema_version: int

    @property
    def latency_ms(self) -> tuple[float, float] | None:
        """p50 and p99 from published to stored, where a pipeline tells."""
        p50, p99 = self.pipeline.get("latency_p50_ms"), self.pipeline.get("latency_p99_ms")
        return None if p50 is None or p99 is None else (p50, p99)


class History:
    """The last moments of a service."""

    def __init__(self, service: Service, watch: Watch | None) -> None:
        self._service, self._watch = service, watch
        self.moments: deque[Moment] = deque(maxlen=KEPT)
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take moments in the background."""
        self._running = asyncio.create_task(self._run(), name="tocsin-history")

    async def close(self) -> None:
        """Stop."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.take)
            except TocsinError as error:  # the store may be away for a while: the history then has a gap
                log.warning("no moment was taken", error=str(error))
            await asyncio.sleep(TICK_SECONDS)

    async def now(self) -> Moment:
        """Return the newest moment; the first one is taken here."""
        if not self.moments:
            await asyncio.to_thread(self.take)
        return self.moments[-1]

    def take(self) -> None:
        """Take a moment."""
        broker, metrics = self._service.broker, self._service.metrics
        stands, stats = broker.store.meta(), broker.index_stats()
        last = self.moments[-1] if self.moments else None
        with broker.store.read() as connection:
            events = 0 if last is None else last.events + count_events(connection, last.seq, stands.seq)
            matches = (
                0 if last is None
                else last.matches + count_matches(connection, last.matched_through, stands.matched_through)
            )  # fmt: skip
        waits = stands.matching == "pipeline"
        self.moments.append(
            Moment(
                time.monotonic(), stands.seq, stands.matched_through,
                max(0, stands.seq - stands.matched_through) if waits else 0, events, matches, stats["live"],
                stats.get("bytes", 0), int(metrics.streams._value.get()), _buckets(metrics.seconds),
                self._watch.figures() if self._watch is not None else {}, self._state(waits=waits),
                stands.schema_version,
            )
        )  # fmt: skip

    def _state(self, *, waits: bool) -> str:
        if self._watch is None:
            return "run by others" if waits else "inline"
        return "up" if self._watch.is_up else "down"


def rate(moments: list[Moment], at: int, name: str, over: int = WINDOW) -> float:
    """Return by how much a count grew a second, over the last moments before one."""
    first, last = moments[max(0, at - over)], moments[at]
    seconds = last.at - first.at
    return (getattr(last, name) - getattr(first, name)) / seconds if seconds > 0 else 0.0


def latency_ms(moments: list[Moment], at: int) -> tuple[float, float] | None:
    """Return p50 and p99 at a moment: from published to stored, or else of publishing over HTTP, lately."""
    told = moments[at].latency_ms
    if told is not None:
        return told
    before, after = moments[max(0, at - WINDOW)].publishing, moments[at].publishing
    p50, p99 = (percentile(before, after, share) for share in (0.5, 0.99))
    return None if p50 is None or p99 is None else (p50 * 1000, p99 * 1000)


def percentile(before: Buckets, after: Buckets, share: float) -> float | None:
    """Return a percentile of what two cumulative histograms differ by, evenly within its bucket; None of nothing."""
    counts = [(bound, after[bound] - before.get(bound, 0.0)) for bound in sorted(after)]
    total = counts[-1][1] if counts else 0.0
    if total <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, upto in counts:
        if upto >= share * total:
            if bound == float("inf"):
                return low
            return low + (bound - low) * (share * total - below) / (upto - below)
        low, below = bound, upto
    return low


def _buckets(seconds: Histogram) -> Buckets:
    """Return how many requests that published took at most how long."""
    counts: dict[float, float] = {}
    for metric in seconds.collect():
        for sample in metric.samples:
            if sample.name.endswith("_bucket") and sample.labels.get("route") in _PUBLISHING:
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0) + sample.value
    return counts
