"""Metrics for Prometheus: what the service counts. One registry a service, so that tests do not share figures.

Logs: a JSON object a line on standard error, with request ids and without secrets.

Nothing of a request is logged but its method, route, status and times: no bodies, headers or query strings. What still
looks like a secret, in whatever field, is replaced. Control characters cannot break a line: JSON escapes them.

Figures of operators for Prometheus: calls, time, failures and time-outs of each, as the broker's runner counts them.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from tocsin.operators.runner import Runner

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


# Logs.


_SECRET_FIELDS = re.compile(r"password|secret|token|ticket|authorization|cookie|credential", re.IGNORECASE)
_SECRET_TEXTS = re.compile(
    r"(toc_|whsec_)[A-Za-z0-9_+/=-]{8,}"  # our tokens, and webhook secrets
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"  # a password in an address
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/=-]+"
)
HIDDEN = "[hidden]"


def hide_secrets(_: object, __: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the entry without secrets."""
    return {name: HIDDEN if _SECRET_FIELDS.search(name) else _hidden(value) for name, value in entry.items()}


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return _SECRET_TEXTS.sub(HIDDEN, value)
    if isinstance(value, dict):
        return {name: HIDDEN if _SECRET_FIELDS.search(str(name)) else _hidden(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(one) for one in value]
    return value


def configure(level: str = "info") -> None:
    """Let structlog, and what uses the standard library's logging, write JSON to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(ensure_ascii=True)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(ensure_ascii=True),
            ],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "httpx", "httpcore", "alembic"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = name not in ("uvicorn.access", "httpx", "httpcore")


# Figures of operators for Prometheus.


_FIGURES = {
    "calls": "Evaluations of operators",
    "seconds": "Seconds that evaluations of operators took",
    "failures": "Evaluations of operators that failed, by raising or by taking too long",
    "timeouts": "Evaluations of operators that took too long",
}


class OperatorFigures(Collector):
    """Reads the runner's counts whenever it is asked."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def collect(self) -> Iterable[Metric]:
        counts = dict(self._runner.counts)
        for name, words in _FIGURES.items():
            family = CounterMetricFamily(f"tocsin_operator_{name}", words, labels=["operator"])
            for operator, each in counts.items():
                family.add_metric([operator], getattr(each, name))
            yield family
