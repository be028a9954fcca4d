"""Client and AsyncClient: the same requests, waited for or awaited. What they are is in calls.py; here is how.

Both keep connections open, repeat what may be repeated (transport.py), and go on listening over broken connections and
restarts of the service: each notification is handed out once, in order.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx
import msgspec

from tocsin.client import calls
from tocsin.client.calls import ClientCall, MappingVersion, Start
from tocsin.client.transport import Retries, ServerEvent, ServiceRefused, ServiceUnreachable, StreamReader
from tocsin.documents.events import BatchReceipt, Notification

P = ParamSpec("P")
R = TypeVar("R")
Event = Mapping[str, Any] | bytes
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_SILENCE_SECONDS = 60.0  # a stream pings more often than that


def _waited(build: Callable[P, ClientCall[R]]) -> Callable[Concatenate[Client, P], R]:
    @functools.wraps(build)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.do(build(*args, **kwargs))

    return method


def _awaited(build: Callable[P, ClientCall[R]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[R]]:
    @functools.wraps(build)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.do(build(*args, **kwargs))

    return method


def _options(url: str, token: str | None, more: dict[str, Any]) -> dict[str, Any]:
    headers = {"accept": "application/json"} | ({} if token is None else {"authorization": f"Bearer {token}"})
    return {"base_url": url, "headers": headers, "timeout": _TIMEOUT, "follow_redirects": False, **more}


def _arguments(call: ClientCall[Any]) -> dict[str, Any]:
    headers = {"content-type": "application/json", **call.headers} if call.body is not None else call.headers
    return {"content": call.body, "headers": headers, "params": call.query or None}


def _read(call: ClientCall[R], response: httpx.Response) -> R:
    """Return the answer; raises ServiceRefused."""
    if response.is_success:
        if call.raw:
            return response.text  # type: ignore[return-value]
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


def _chunks(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    left = iter(events)
    while chunk := list(islice(left, size)):
        yield chunk


class _Place:
    """How far a listener has come, over all its connections."""

    def __init__(self, cursor: str | None, consumer: str, start: Start) -> None:
        self._consumer, self._start = consumer, start
        self.cursor = cursor

    def call(self) -> ClientCall[None]:
        """Return the request that goes on from here."""
        query = {"consumer": self._consumer}
        if self.cursor is None:
            query["start"] = self._start
        headers = {"accept": "text/event-stream"} | ({} if self.cursor is None else {"last-event-id": self.cursor})
        return ClientCall("GET", "/v1/notifications/stream", type(None), headers=headers, query=query)

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

    def do(self, call: ClientCall[R]) -> R:
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
    publish_messages = _waited(calls.publish_messages)
    matches_of = _waited(calls.matches_of)
    add_site = _waited(calls.add_site)
    sites = _waited(calls.sites)
    site = _waited(calls.site)
    change_site = _waited(calls.change_site)
    end_site = _waited(calls.end_site)
    set_site_mapping = _waited(calls.set_site_mapping)
    site_mapping = _waited(calls.site_mapping)
    site_mappings = _waited(calls.site_mappings)
    subscribe = _waited(calls.subscribe)
    subscription = _waited(calls.subscription)
    subscriptions = _waited(calls.subscriptions)
    renew = _waited(calls.renew)
    unsubscribe = _waited(calls.unsubscribe)
    explain = _waited(calls.explain)
    explain_event = _waited(calls.explain_event)
    preview = _waited(calls.preview)
    plan = _waited(calls.plan)
    subscribe_all = _waited(calls.subscribe_all)
    replace = _waited(calls.replace)
    pause = _waited(calls.pause)
    resume = _waited(calls.resume)
    delivery = _waited(calls.delivery)
    set_delivery = _waited(calls.set_delivery)
    plan_of = _waited(calls.plan_of)
    backfill = _waited(calls.backfill)
    start_backfill = _waited(calls.start_backfill)
    backfill_job = _waited(calls.backfill_job)
    notifications = _waited(calls.notifications)
    acknowledge = _waited(calls.acknowledge)
    inbox = _waited(calls.inbox)
    mark_inbox_read = _waited(calls.mark_inbox_read)
    why = _waited(calls.why)
    add_webhook = _waited(calls.add_webhook)
    webhooks = _waited(calls.webhooks)
    webhook = _waited(calls.webhook)
    remove_webhook = _waited(calls.remove_webhook)
    enable_webhook = _waited(calls.enable_webhook)
    rotate_webhook = _waited(calls.rotate_webhook)
    replay_webhook = _waited(calls.replay_webhook)
    deliveries = _waited(calls.deliveries)
    retry_delivery = _waited(calls.retry_delivery)
    skip_delivery = _waited(calls.skip_delivery)
    dead_letters = _waited(calls.dead_letters)
    replay_dead_letter = _waited(calls.replay_dead_letter)
    schema = _waited(calls.schema)
    schema_history = _waited(calls.schema_history)
    schema_version = _waited(calls.schema_version)
    schema_view = _waited(calls.schema_view)
    schema_dtd = _waited(calls.schema_dtd)
    operators = _waited(calls.operators)
    programs = _waited(calls.programs)
    offers_for = _waited(calls.offers_for)
    offers = _waited(calls.offers)
    withdraw = _waited(calls.withdraw)
    extend_schema = _waited(calls.extend_schema)
    schema_proposals = _waited(calls.schema_proposals)
    accept_proposal = _waited(calls.accept_proposal)
    refuse_proposal = _waited(calls.refuse_proposal)
    account = _waited(calls.account)
    register = _waited(calls.register)
    log_in = _waited(calls.log_in)
    log_out = _waited(calls.log_out)
    sessions = _waited(calls.sessions)
    end_session = _waited(calls.end_session)
    tokens = _waited(calls.tokens)
    new_token = _waited(calls.new_token)
    revoke_token = _waited(calls.revoke_token)
    change_password = _waited(calls.change_password)
    delete_own_account = _waited(calls.delete_own_account)
    audit = _waited(calls.audit)
    costs = _waited(calls.costs)
    accounts = _waited(calls.accounts)
    change_account = _waited(calls.change_account)
    delete_account = _waited(calls.delete_account)
    health = _waited(calls.health)
    readiness = _waited(calls.readiness)
    metrics = _waited(calls.metrics)
    openapi = _waited(calls.openapi)
    asyncapi = _waited(calls.asyncapi)
    problem = _waited(calls.problem)
    xml = _waited(calls.xml)

    def login(self, name: str, password: str, *, token_name: str = "tocsin client") -> str:  # noqa: S107
        """Log in by a password, and act by a token of that account from now on; returns the token, to be kept."""
        session = self.do(calls.log_in(name, password))
        self._http.headers.pop("authorization", None)
        self._http.headers["x-csrf-token"] = session.csrf_token
        try:
            token = self.do(calls.new_token(token_name)).token
            self.do(calls.log_out())
        finally:
            del self._http.headers["x-csrf-token"]
            self._http.cookies.clear()
        return _taken(self._http, token)

    def publish_many(
        self,
        events: Iterable[Event],
        *,
        size: int = 1000,
        atomic: bool = False,
        receipts: bool = False,
        site: str | None = None,
        mapping: MappingVersion | None = None,
    ) -> Iterator[BatchReceipt]:
        """Publish any number of events in batches of `size`; yields what became of each batch, with `receipts` of each event.

        One batch is on its way at a time, and one that is refused for being too much is sent again after the time that the
        service asks for, under the same key: nothing is published twice.
        """
        for chunk in _chunks(events, size):
            yield self.publish_all(chunk, atomic=atomic, receipts=receipts, site=site, mapping=mapping)

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

    async def do(self, call: ClientCall[R]) -> R:
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
    publish_messages = _awaited(calls.publish_messages)
    matches_of = _awaited(calls.matches_of)
    add_site = _awaited(calls.add_site)
    sites = _awaited(calls.sites)
    site = _awaited(calls.site)
    change_site = _awaited(calls.change_site)
    end_site = _awaited(calls.end_site)
    set_site_mapping = _awaited(calls.set_site_mapping)
    site_mapping = _awaited(calls.site_mapping)
    site_mappings = _awaited(calls.site_mappings)
    subscribe = _awaited(calls.subscribe)
    subscription = _awaited(calls.subscription)
    subscriptions = _awaited(calls.subscriptions)
    renew = _awaited(calls.renew)
    unsubscribe = _awaited(calls.unsubscribe)
    explain = _awaited(calls.explain)
    explain_event = _awaited(calls.explain_event)
    preview = _awaited(calls.preview)
    plan = _awaited(calls.plan)
    subscribe_all = _awaited(calls.subscribe_all)
    replace = _awaited(calls.replace)
    pause = _awaited(calls.pause)
    resume = _awaited(calls.resume)
    delivery = _awaited(calls.delivery)
    set_delivery = _awaited(calls.set_delivery)
    plan_of = _awaited(calls.plan_of)
    backfill = _awaited(calls.backfill)
    start_backfill = _awaited(calls.start_backfill)
    backfill_job = _awaited(calls.backfill_job)
    notifications = _awaited(calls.notifications)
    acknowledge = _awaited(calls.acknowledge)
    inbox = _awaited(calls.inbox)
    mark_inbox_read = _awaited(calls.mark_inbox_read)
    why = _awaited(calls.why)
    add_webhook = _awaited(calls.add_webhook)
    webhooks = _awaited(calls.webhooks)
    webhook = _awaited(calls.webhook)
    remove_webhook = _awaited(calls.remove_webhook)
    enable_webhook = _awaited(calls.enable_webhook)
    rotate_webhook = _awaited(calls.rotate_webhook)
    replay_webhook = _awaited(calls.replay_webhook)
    deliveries = _awaited(calls.deliveries)
    retry_delivery = _awaited(calls.retry_delivery)
    skip_delivery = _awaited(calls.skip_delivery)
    dead_letters = _awaited(calls.dead_letters)
    replay_dead_letter = _awaited(calls.replay_dead_letter)
    schema = _awaited(calls.schema)
    schema_history = _awaited(calls.schema_history)
    schema_version = _awaited(calls.schema_version)
    schema_view = _awaited(calls.schema_view)
    schema_dtd = _awaited(calls.schema_dtd)
    operators = _awaited(calls.operators)
    programs = _awaited(calls.programs)
    offers_for = _awaited(calls.offers_for)
    offers = _awaited(calls.offers)
    withdraw = _awaited(calls.withdraw)
    extend_schema = _awaited(calls.extend_schema)
    schema_proposals = _awaited(calls.schema_proposals)
    accept_proposal = _awaited(calls.accept_proposal)
    refuse_proposal = _awaited(calls.refuse_proposal)
    account = _awaited(calls.account)
    register = _awaited(calls.register)
    log_in = _awaited(calls.log_in)
    log_out = _awaited(calls.log_out)
    sessions = _awaited(calls.sessions)
    end_session = _awaited(calls.end_session)
    tokens = _awaited(calls.tokens)
    new_token = _awaited(calls.new_token)
    revoke_token = _awaited(calls.revoke_token)
    change_password = _awaited(calls.change_password)
    delete_own_account = _awaited(calls.delete_own_account)
    audit = _awaited(calls.audit)
    costs = _awaited(calls.costs)
    accounts = _awaited(calls.accounts)
    change_account = _awaited(calls.change_account)
    delete_account = _awaited(calls.delete_account)
    health = _awaited(calls.health)
    readiness = _awaited(calls.readiness)
    metrics = _awaited(calls.metrics)
    openapi = _awaited(calls.openapi)
    asyncapi = _awaited(calls.asyncapi)
    problem = _awaited(calls.problem)
    xml = _awaited(calls.xml)

    async def login(self, name: str, password: str, *, token_name: str = "tocsin client") -> str:  # noqa: S107
        """Log in by a password, and act by a token of that account from now on; returns the token, to be kept."""
        session = await self.do(calls.log_in(name, password))
        self._http.headers.pop("authorization", None)
        self._http.headers["x-csrf-token"] = session.csrf_token
        try:
            token = (await self.do(calls.new_token(token_name))).token
            await self.do(calls.log_out())
        finally:
            del self._http.headers["x-csrf-token"]
            self._http.cookies.clear()
        return _taken(self._http, token)

    async def publish_many(
        self,
        events: Iterable[Event],
        *,
        size: int = 1000,
        atomic: bool = False,
        receipts: bool = False,
        site: str | None = None,
        mapping: MappingVersion | None = None,
    ) -> AsyncIterator[BatchReceipt]:
        """Publish any number of events in batches of `size`; yields what became of each batch, with `receipts` of each event.

        One batch is on its way at a time, and one that is refused for being too much is sent again after the time that the
        service asks for, under the same key: nothing is published twice.
        """
        for chunk in _chunks(events, size):
            yield await self.publish_all(chunk, atomic=atomic, receipts=receipts, site=site, mapping=mapping)

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


def _taken(http: httpx.Client | httpx.AsyncClient, token: str | None) -> str:
    """Let a client act by a token that was just made."""
    if token is None:
        raise ServiceUnreachable("the service made a token and did not tell it")
    http.headers["authorization"] = f"Bearer {token}"
    return token


def _final(error: Exception) -> Exception:
    """Return what the caller gets to see."""
    if isinstance(error, ServiceRefused):
        return error
    where = f" at {error.request.url.copy_with(path='/')}" if isinstance(error, httpx.RequestError) else ""
    return ServiceUnreachable(f"the service cannot be reached{where}: {type(error).__name__}: {error}")
