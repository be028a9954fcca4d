"""The edge: what happens to every request before routing and after it, as one ASGI middleware.

A request id, a bound on the body (also on what a compressed body becomes), headers that make browsers careful, and one
line in the log with one observation in the metrics. Written without Starlette's BaseHTTPMiddleware: that would buffer
streams and cost more than the routing.

Doors: how many connections there may be, and how long one may take to say what it wants.

A request's headers come within a time, whether it is the first of its connection or a later one. Where all places are
taken, or all of one address, whoever came first and has not said what it wants makes room for who comes now: so requests
that are sent by halves keep nobody out, and what is being answered is never broken off. Bodies are timed by the edge.

Rates: how much each account may ask in a minute, as a bucket that fills steadily and holds a minute's worth.

Metrics for Prometheus: what the service counts. One registry a service, so that tests do not share figures.

Logs: a JSON object a line on standard error, with request ids and without secrets.

Nothing of a request is logged but its method, route, status and times: no bodies, headers or query strings. What still
looks like a secret, in whatever field, is replaced. Control characters cannot break a line: JSON escapes them.

Figures of operators for Prometheus: calls, time, failures and time-outs of each, as the broker's runner counts them.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import itertools
import logging
import re
import resource
import secrets
import sys
import time
import zlib
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tocsin.operators.registry import Runner
from tocsin.service.problems import (
    BadRequest,
    Misdirected,
    Refusal,
    TooMuch,
    TooSlow,
    WrongMediaType,
    problem_of,
    response_of,
)
from tocsin.service.settings import ServiceSettings

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


def configure_logs(level: str = "info") -> None:
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


# --- Doors and rates --------------------------------------------------------------------------------------------------


_OTHER_DESCRIPTORS = 100  # the store, the index, webhooks, logs
_FEWEST = 16
_LONGEST_HEADERS = 64 << 10


class Doors:
    """Who is connected, in one event loop."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.header_seconds = settings.header_seconds
        self._proxies = frozenset(settings.proxies)
        self.most = settings.connections or max(_FEWEST, _descriptors() - _OTHER_DESCRIPTORS)
        self.most_of_one = settings.connections_per_address or max(1, self.most // 2)
        self._inside: dict[GuardedProtocol, str] = {}
        self._silent: dict[GuardedProtocol, None] = {}  # of them, those that have asked for nothing; the oldest first
        self._addresses: collections.Counter[str] = collections.Counter()

    def enter(self, one: GuardedProtocol, address: str) -> bool:
        """Return whether there is a place for a connection, made by letting go of a silent one where need be."""
        if not self._has_place(address):
            self._sweep()
        if not self._has_place(address) and not self._make_place(address):
            return False
        self._inside[one] = address
        self._addresses[address] += 1
        self._silent[one] = None
        return True

    def speaks(self, one: GuardedProtocol) -> None:
        """Remember that a connection has asked for something, and is being answered."""
        self._silent.pop(one, None)

    def rests(self, one: GuardedProtocol) -> None:
        """Remember that a connection was answered, and may ask again."""
        if one in self._inside:
            self._silent[one] = None

    def leave(self, one: GuardedProtocol) -> None:
        """Let go of a connection's place."""
        self._silent.pop(one, None)
        address = self._inside.pop(one, None)
        if address is not None:
            self._addresses -= collections.Counter({address: 1})

    def _has_place(self, address: str) -> bool:
        of_one = address in self._proxies or self._addresses[address] < self.most_of_one
        return of_one and len(self._inside) < self.most

    def _sweep(self) -> None:
        """Forget connections that became WebSockets and are closed by now: nobody else says so."""
        for one in [one for one in self._inside if one.transport.is_closing()]:
            self.leave(one)

    def _make_place(self, address: str) -> bool:
        """Close the oldest silent connection of the address, or of anybody where all places are taken."""
        full = len(self._inside) >= self.most
        of_one = [one for one in self._silent if self._inside[one] == address]
        for one in of_one or (list(self._silent) if full else []):
            self.leave(one)
            one.transport.abort()
            return self._has_place(address)
        return False


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, at the doors. `guarded` makes the class of one service's connections."""

    doors: Doors

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread = 0  # bytes that came while headers are waited for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self.doors.enter(self, self.client[0] if self.client else ""):
            transport.abort()
            return
        self._start_waiting()

    def data_received(self, data: bytes) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's types leave out that there is none at first
        if self._deadline is None and (cycle is None or cycle.response_complete):
            self._start_waiting()
        self._unread += len(data)
        if self._deadline is not None and self._unread > _LONGEST_HEADERS + len(data):
            self.transport.abort()
            return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self.doors.speaks(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self.doors.rests(self)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.doors.leave(self)
        super().connection_lost(exc)

    def _start_waiting(self) -> None:
        self._unread = 0
        self._deadline = self.loop.call_later(self.doors.header_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def guarded(settings: ServiceSettings) -> type[GuardedProtocol]:
    """Return the protocol of a service: a class, since uvicorn makes one of it for each connection."""
    return type("ServiceProtocol", (GuardedProtocol,), {"doors": Doors(settings)})


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


# Rates.


WINDOW_SECONDS = 60.0
_KEPT = 100_000  # names; who was not seen for longest is forgotten, which fills the bucket


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left after asking."""

    granted: bool
    most: int
    left: int
    again_seconds: float  # until what was asked would be granted; until the bucket is full where it was


class Buckets:
    """A bucket a name. Used within one event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: collections.OrderedDict[str, tuple[float, float]] = (
            collections.OrderedDict()
        )  # name -> (left, at)

    def take(self, name: str, amount: int, most: int) -> Standing:
        """Take from a name's bucket; where there is not enough, nothing is taken.

        More than a whole bucket is granted to a full one: its size bounds the rate, not the single request.
        """
        now = self._clock()
        left, at = self._levels.pop(name, (float(most), now))
        left = min(float(most), left + (now - at) * most / WINDOW_SECONDS)
        granted = left >= min(amount, most)
        if granted:
            left -= amount
        self._levels[name] = (left, now)
        if len(self._levels) > _KEPT:
            self._levels.popitem(last=False)
        missing = most - left if granted else min(amount, most) - left
        return Standing(granted, most, max(0, int(left)), missing * WINDOW_SECONDS / most)


# --- The edge ---------------------------------------------------------------------------------------------------------


log = structlog.get_logger("tocsin.access")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")
_START, _COUNT = secrets.token_hex(4), itertools.count(1)  # request ids: unlike another process's, and its own
_STEP = 64 << 10  # bytes inflated at a time
_SLOWEST = 16 << 10  # bytes of a body a second
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_POLICY = (
    b"content-security-policy",
    b"default-src 'self'; frame-ancestors 'none'; object-src 'none'; base-uri 'none'; form-action 'self'",
)
_QUIET = ("/healthz", "/readyz", "/metrics")


class Edge:
    """Wraps the app."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._hosts = settings.allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope["tocsin.request_id"] = request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started, status = time.perf_counter(), 500
        began = False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, began
            if message["type"] == "http.response.start":
                status, began = message["status"], True
                _add_headers(message, request_id)
                if status == TooSlow.status:  # what is left of the body is nobody's
                    message["headers"].append((b"connection", b"close"))
                if (standing := scope.get("tocsin.rate")) is not None:
                    _add_rate(message, standing)
            await send(message)

        try:
            self._check_host(scope)
            body = _bounded(scope, receive, self._limit(scope), self._settings.body_seconds)
            await self._app(scope, body, send_with_headers)
        except Refusal as refusal:  # from reading the body, where no handler of the app was there to take it
            if began:
                raise
            await response_of(problem_of(refusal), request_id)(scope, receive, send_with_headers)
        finally:
            self._observe(scope, status, time.perf_counter() - started)
            structlog.contextvars.unbind_contextvars("request_id")

    def _check_host(self, scope: Scope) -> None:
        """Refuse a request for a name that is not ours: a page whose name was pointed at us made it."""
        if self._hosts is None or scope["path"] in _QUIET:
            return
        asked = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
        name = asked.partition("]")[0].lstrip("[") if asked.startswith("[") else asked.partition(":")[0]
        if name not in self._hosts:
            raise Misdirected("the service is not asked for by this name; TOCSIN_HOSTS says by which it is")

    def _limit(self, scope: Scope) -> int:
        bulk = scope["path"] in ("/v1/events", "/v1/subscriptions/bulk")
        return self._settings.batch_bytes if bulk else self._settings.body_bytes

    def _observe(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "(none)")
        self._metrics.answered(route, status, seconds)
        if scope["path"] not in _QUIET:
            log.info(
                "request", method=scope["method"], route=route, status=status, ms=round(seconds * 1000, 2),
                who=scope.get("tocsin.who", "-"),
            )  # fmt: skip


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value.decode())
    # Counted, not drawn: drawing would let go of the interpreter, and wait behind whoever matches at the moment.
    return f"{_START}{next(_COUNT):08x}"


def _add_headers(message: MutableMapping[str, Any], request_id: str) -> None:
    headers = message.setdefault("headers", [])
    headers.append((b"x-request-id", request_id.encode()))
    headers.extend(_HEADERS)
    if not any(name == b"content-security-policy" for name, _ in headers):
        headers.append(_POLICY)
    if not any(name == b"cache-control" for name, _ in headers):
        headers.append((b"cache-control", b"no-store"))


def _add_rate(message: MutableMapping[str, Any], standing: Standing) -> None:
    """Say what the account may ask, and what is left of it (draft-ietf-httpapi-ratelimit-headers)."""
    message["headers"] += [
        (b"ratelimit-policy", b'"requests";q=%d;w=60' % standing.most),
        (b"ratelimit", b'"requests";r=%d;t=%d' % (standing.left, max(1, round(standing.again_seconds)))),
    ]


def _bounded(scope: Scope, receive: Receive, limit: int, seconds: float) -> Receive:
    """Return a `receive` that refuses bodies beyond the limit, and inflates gzip as it comes, within the same limit.

    A body that comes too slowly is refused too: within `seconds`, and one for each 16 KiB.
    """
    encoding = b""
    for name, value in scope["headers"]:
        if name == b"content-length":
            if not value.isdigit():
                raise BadRequest("Content-Length is a number of bytes")
            if int(value) > limit:
                raise TooMuch(f"the body has {int(value)} bytes; {limit} is the most here")
        elif name == b"content-encoding":
            encoding = value.strip().lower()
    if encoding not in (b"", b"identity", b"gzip"):
        raise WrongMediaType("a body may be compressed by gzip only; send it with Content-Encoding: gzip or without")
    inflate = _Inflater(limit) if encoding == b"gzip" else None
    if inflate is not None:  # whoever reads it gets it inflated
        scope["headers"] = [
            pair for pair in scope["headers"] if pair[0] not in (b"content-encoding", b"content-length")
        ]
    received = 0
    started, complete = 0.0, False

    async def bounded() -> Message:
        try:
            return await bounded_message()
        except Refusal as refusal:  # the framework takes whatever a body raises for bad JSON; problems.py knows better
            scope["tocsin.refusal"] = refusal
            raise

    async def bounded_message() -> Message:
        nonlocal received, started, complete
        if complete:  # what comes now is only that the client went
            return await receive()
        started = started or time.monotonic()
        try:
            async with asyncio.timeout(started + seconds + received / _SLOWEST - time.monotonic()):
                message = await receive()
        except TimeoutError:
            raise TooSlow("the body came too slowly; send it again") from None
        complete = not message.get("more_body", False)
        if message["type"] == "http.request":
            body = message.get("body", b"")
            received += len(body)
            if received > limit:
                raise TooMuch(f"the body has more than {limit} bytes, the most here")
            if inflate is not None:
                message = {**message, "body": inflate.add(body, last=not message.get("more_body", False))}
        return message

    return bounded


class _Inflater:
    """Inflates a gzip stream step by step, and stops at the limit: a bomb costs no more than an honest body."""

    def __init__(self, limit: int) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._limit, self._total = limit, 0

    def add(self, data: bytes, *, last: bool) -> bytes:
        pieces = []
        try:
            while data:
                piece = self._inflate.decompress(data, _STEP)
                self._total += len(piece)
                if self._total > self._limit:
                    raise TooMuch(f"the body inflates to more than {self._limit} bytes, the most here")
                pieces.append(piece)
                data = self._inflate.unconsumed_tail
        except zlib.error:
            raise BadRequest("the body is not gzip, though Content-Encoding says so") from None
        if self._inflate.unused_data:
            raise BadRequest("there is something behind the end of the gzip stream")
        if last and self._total and not self._inflate.eof:
            raise BadRequest("the gzip stream is cut off")
        return b"".join(pieces)
