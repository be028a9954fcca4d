"""DemoSummary: what a run of the demo did, whoever matched."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """Figures of a run.

    Latencies are in milliseconds: on Spark from publishing to stored notifications, in the service's own process of
    publishing over HTTP, matched and stored.
    """

    engine: str  # who matched: spark, or columnar
    subscriptions: int
    events: int
    notifications: int
    changes: int
    setup_seconds: float
    seconds: float
    latency_p50_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    checked_events: int

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds
