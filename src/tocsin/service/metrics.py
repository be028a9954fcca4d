"""Metrics for Prometheus: what the service counts. One registry a service, so that tests do not share figures."""

from __future__ import annotations

import functools

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The counters of a service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tocsin_http_requests", "Requests, by route and status", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "tocsin_http_request_seconds", "Time to the end of the answer", ["route"], buckets=_BOUNDS,
            registry=self.registry,
        )  # fmt: skip
        self.published = Counter("tocsin_events_published", "Events that were acknowledged", registry=self.registry)
        self.streams = Gauge("tocsin_streams", "Open SSE streams and WebSockets", registry=self.registry)
        self.pushed = Counter("tocsin_notifications_pushed", "Notifications pushed", ["way"], registry=self.registry)
        self.deliveries = Counter(
            "tocsin_webhook_attempts", "Attempts to deliver to webhooks", ["outcome"], registry=self.registry
        )
        self.stalled = Counter(
            "tocsin_streams_stalled", "Readers that were closed because they took nothing", registry=self.registry
        )
        self.seq = Gauge("tocsin_seq", "The last seq given", registry=self.registry)
        self.matched = Gauge("tocsin_matched_through", "The seq up to which events are matched", registry=self.registry)
        self.subscriptions = Gauge("tocsin_subscriptions", "Live subscriptions", registry=self.registry)
        self.failed_pairs = Gauge(
            "tocsin_failed_pairs", "Events and subscriptions without an answer since the start: something failed",
            registry=self.registry,
        )  # fmt: skip
        self.missing_operators = Gauge(
            "tocsin_missing_operators", "Operators that subscriptions call and that are not installed",
            registry=self.registry,
        )  # fmt: skip
        self.pipeline_up = Gauge("tocsin_pipeline_up", "1 while the pipeline runs", registry=self.registry)
        self.pipeline_starts = Counter(
            "tocsin_pipeline_starts", "How often the pipeline was started", registry=self.registry
        )

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - as many as there are routes and statuses, and one service a process
    def _of(self, route: str, status: int) -> tuple[Counter, Histogram]:
        return self.requests.labels(route, str(status)), self.seconds.labels(route)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        requests, times = self._of(route, status)
        requests.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        """Return all of them as Prometheus reads them."""
        return generate_latest(self.registry)
