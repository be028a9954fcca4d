"""The edge: what happens to every request before routing and after it, as one ASGI middleware.

A request id, a bound on the body (also on what a compressed body becomes), headers that make browsers careful, and one
line in the log with one observation in the metrics. Written without Starlette's BaseHTTPMiddleware: that would buffer
streams and cost more than the routing.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import time
import zlib
from collections.abc import MutableMapping
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.service.limits import Standing
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
from tocsin.service.telemetry import Metrics

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
