"""Client and AsyncClient: the same requests, waited for or awaited. What they are is in calls.py; here is how.

Both keep connections open, repeat what may be repeated (transport.py), and go on listening over broken connections and
restarts of the service: each notification is handed out once, in order.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx
import msgspec

from tocsin.client import calls
from tocsin.client.calls import Call, Start
from tocsin.client.results import Notification
from tocsin.client.transport import Retries, ServerEvent, ServiceRefused, ServiceUnreachable, StreamReader

P = ParamSpec("P")
R = TypeVar("R")
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_SILENCE_SECONDS = 60.0  # a stream pings more often than that


def _waited(build: Callable[P, Call[R]]) -> Callable[Concatenate[Client, P], R]:
    @functools.wraps(build)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.do(build(*args, **kwargs))

    return method


def _awaited(build: Callable[P, Call[R]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[R]]:
    @functools.wraps(build)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.do(build(*args, **kwargs))

    return method


def _options(url: str, token: str | None, more: dict[str, Any]) -> dict[str, Any]:
    headers = {"accept": "application/json"} | ({} if token is None else {"authorization": f"Bearer {token}"})
    return {"base_url": url, "headers": headers, "timeout": _TIMEOUT, "follow_redirects": False, **more}


def _arguments(call: Call[Any]) -> dict[str, Any]:
    headers = {"content-type": "application/json", **call.headers} if call.body is not None else call.headers
    return {"content": call.body, "headers": headers, "params": call.query or None}


def _read(call: Call[R], response: httpx.Response) -> R:
    """Return the answer; raises ServiceRefused."""
    if response.is_success:
        content = response.content or b"null"
        return msgspec.json.decode(content, type=call.answer)
    raise _refusal(response)


def _refusal(response: httpx.Response) -> ServiceRefused:
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {"title": response.reason_phrase, "detail": response.text[:200]}
    asked = response.headers.get("retry-after", "")
    return ServiceRefused(response.status_code, problem, float(asked) if asked.isdigit() else None)


class _Place:
    """How far a listener has come, over all its connections."""

    def __init__(self, cursor: str | None, consumer: str, start: Start) -> None:
        self._consumer, self._start = consumer, start
        self.cursor = cursor

    def call(self) -> Call[None]:
        """Return the request that goes on from here."""
        query = {"consumer": self._consumer}
        if self.cursor is None:
            query["start"] = self._start
        headers = {"accept": "text/event-stream"} | ({} if self.cursor is None else {"last-event-id": self.cursor})
        return Call("GET", "/v1/notifications/stream", type(None), headers=headers, query=query)

    def take(self, event: ServerEvent) -> Notification | None:
        """Return the notification of an event; raises ServiceRefused where the stream says why it ends."""
        if event.kind == "problem":
            problem = msgspec.json.decode(event.data, type=dict[str, Any])
            raise ServiceRefused(int(problem.get("status", 500)), problem)
        if event.kind != "notification":
            return None
        found = msgspec.json.decode(event.data, type=Notification)
        self.cursor = found.cursor
        return found


class Client:
    """A client that waits. Safe to use from several threads."""

    def __init__(self, url: str, token: str | None = None, *, retries: Retries | None = None, **more: Any) -> None:
        """Connect to a service when something is asked; `more` goes to httpx: verify, proxy, transport."""
        self._http = httpx.Client(**_options(url, token, more))
        self._retries = retries or Retries()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def do(self, call: Call[R]) -> R:
        """Return the answer to a request; raises ServiceRefused, ServiceUnreachable."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return _read(call, self._http.request(call.method, call.path, **_arguments(call)))
            except (httpx.TransportError, ServiceRefused) as error:
                wait = self._retries.wait(call, error, attempt)
                if wait is None:
                    raise _final(error) from None
            time.sleep(wait)

    publish = _waited(calls.publish)
    publish_all = _waited(calls.publish_all)
    matches_of = _waited(calls.matches_of)
    subscribe = _waited(calls.subscribe)
    subscription = _waited(calls.subscription)
    subscriptions = _waited(calls.subscriptions)
    renew = _waited(calls.renew)
    unsubscribe = _waited(calls.unsubscribe)
    explain = _waited(calls.explain)
    explain_event = _waited(calls.explain_event)
    preview = _waited(calls.preview)
    plan = _waited(calls.plan)
    notifications = _waited(calls.notifications)
    acknowledge = _waited(calls.acknowledge)
    why = _waited(calls.why)
    add_webhook = _waited(calls.add_webhook)
    schema = _waited(calls.schema)
    operators = _waited(calls.operators)
    programs = _waited(calls.programs)
    offers_for = _waited(calls.offers_for)
    offers = _waited(calls.offers)
    withdraw = _waited(calls.withdraw)
    extend_schema = _waited(calls.extend_schema)
    account = _waited(calls.account)
    register = _waited(calls.register)
    new_token = _waited(calls.new_token)

    def listen(
        self, *, cursor: str | None = None, consumer: str = "default", start: Start = "acknowledged"
    ) -> Iterator[Notification]:
        """Yield notifications as they come, backlog first, until the loop over them is left; survives reconnects.

        Raises ServiceRefused where the service will not go on: the cursor is too old (410), the token is revoked.
        """
        place, attempt = _Place(cursor, consumer, start), 0
        while True:
            call = place.call()
            try:
                timeout = httpx.Timeout(30.0, connect=5.0, read=_SILENCE_SECONDS)
                with self._http.stream(call.method, call.path, timeout=timeout, **_arguments(call)) as response:
                    if not response.is_success:
                        response.read()
                        raise _refusal(response)
                    attempt, reader = 0, StreamReader()
                    for chunk in response.iter_bytes():
                        for event in reader.feed(chunk):
                            if (found := place.take(event)) is not None:
                                yield found
            except (httpx.TransportError, ServiceRefused) as error:
                wait = self._retries.wait(call, error, min(attempt + 1, self._retries.attempts - 1))
                if wait is None:
                    raise _final(error) from None
                time.sleep(wait)
            attempt += 1


class AsyncClient:
    """A client that is awaited."""

    def __init__(self, url: str, token: str | None = None, *, retries: Retries | None = None, **more: Any) -> None:
        """Connect to a service when something is asked; `more` goes to httpx: verify, proxy, transport."""
        self._http = httpx.AsyncClient(**_options(url, token, more))
        self._retries = retries or Retries()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def do(self, call: Call[R]) -> R:
        """Return the answer to a request; raises ServiceRefused, ServiceUnreachable."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return _read(call, await self._http.request(call.method, call.path, **_arguments(call)))
            except (httpx.TransportError, ServiceRefused) as error:
                wait = self._retries.wait(call, error, attempt)
                if wait is None:
                    raise _final(error) from None
            await asyncio.sleep(wait)

    publish = _awaited(calls.publish)
    publish_all = _awaited(calls.publish_all)
    matches_of = _awaited(calls.matches_of)
    subscribe = _awaited(calls.subscribe)
    subscription = _awaited(calls.subscription)
    subscriptions = _awaited(calls.subscriptions)
    renew = _awaited(calls.renew)
    unsubscribe = _awaited(calls.unsubscribe)
    explain = _awaited(calls.explain)
    explain_event = _awaited(calls.explain_event)
    preview = _awaited(calls.preview)
    plan = _awaited(calls.plan)
    notifications = _awaited(calls.notifications)
    acknowledge = _awaited(calls.acknowledge)
    why = _awaited(calls.why)
    add_webhook = _awaited(calls.add_webhook)
    schema = _awaited(calls.schema)
    operators = _awaited(calls.operators)
    programs = _awaited(calls.programs)
    offers_for = _awaited(calls.offers_for)
    offers = _awaited(calls.offers)
    withdraw = _awaited(calls.withdraw)
    extend_schema = _awaited(calls.extend_schema)
    account = _awaited(calls.account)
    register = _awaited(calls.register)
    new_token = _awaited(calls.new_token)

    async def listen(
        self, *, cursor: str | None = None, consumer: str = "default", start: Start = "acknowledged"
    ) -> AsyncIterator[Notification]:
        """Yield notifications as they come, backlog first, until the loop over them is left; survives reconnects.

        Raises ServiceRefused where the service will not go on: the cursor is too old (410), the token is revoked.
        """
        place, attempt = _Place(cursor, consumer, start), 0
        while True:
            call = place.call()
            try:
                timeout = httpx.Timeout(30.0, connect=5.0, read=_SILENCE_SECONDS)
                async with self._http.stream(call.method, call.path, timeout=timeout, **_arguments(call)) as response:
                    if not response.is_success:
                        await response.aread()
                        raise _refusal(response)
                    attempt, reader = 0, StreamReader()
                    async for chunk in response.aiter_bytes():
                        for event in reader.feed(chunk):
                            if (found := place.take(event)) is not None:
                                yield found
            except (httpx.TransportError, ServiceRefused) as error:
                wait = self._retries.wait(call, error, min(attempt + 1, self._retries.attempts - 1))
                if wait is None:
                    raise _final(error) from None
                await asyncio.sleep(wait)
            attempt += 1


def _final(error: Exception) -> Exception:
    """Return what the caller gets to see."""
    if isinstance(error, ServiceRefused):
        return error
    return ServiceUnreachable(f"the service cannot be reached: {type(error).__name__}: {error}")
