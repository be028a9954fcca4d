"""AsyncBroker: the broker's methods for asyncio, each run in a thread. It has no logic of its own.

    async with await AsyncBroker.open("tocsin.db", schema=schema) as broker:
        await broker.subscribe("car where price < 1300", owner="ada")
        await broker.publish({"event_type": "car", "price": 900})
        async for notification in broker.listen("ada"):
            ...

What has to be waited for is awaited; nothing else differs.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from tocsin.broker.broker import Broker
from tocsin.broker.deliveries import CONSUMER
from tocsin.documents.events import Notification

P = ParamSpec("P")
R = TypeVar("R")


def _threaded(
    method: Callable[Concatenate[Broker, P], R],
) -> Callable[Concatenate[AsyncBroker, P], Awaitable[R]]:
    """Return the method of the broker as one that is awaited."""

    @functools.wraps(method)
    async def call(self: AsyncBroker, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.broker, *args, **kwargs)

    return call


class AsyncBroker:
    """A broker whose methods are awaited. `broker` is the one beneath, for what is not listed here."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @classmethod
    async def open(cls, *args: Any, **options: Any) -> AsyncBroker:
        """Return a broker, opened as `Broker.open` does."""
        return cls(await asyncio.to_thread(Broker.open, *args, **options))

    async def __aenter__(self) -> AsyncBroker:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    subscribe = _threaded(Broker.subscribe)
    subscribe_all = _threaded(Broker.subscribe_all)
    renew = _threaded(Broker.renew)
    replace = _threaded(Broker.replace)
    prepare = _threaded(Broker.prepare)
    pause = _threaded(Broker.pause)
    resume = _threaded(Broker.resume)
    unsubscribe = _threaded(Broker.unsubscribe)
    unsubscribe_all = _threaded(Broker.unsubscribe_all)
    subscription = _threaded(Broker.subscription)
    subscriptions = _threaded(Broker.subscriptions)
    leases_ending = _threaded(Broker.leases_ending)
    publish = _threaded(Broker.publish)
    publish_keyed = _threaded(Broker.publish_keyed)
    dry_run = _threaded(Broker.dry_run)
    explain = _threaded(Broker.explain)
    explain_event = _threaded(Broker.explain_event)
    explain_draft = _threaded(Broker.explain_draft)
    read = _threaded(Broker.read)
    replay_dead_letter = _threaded(Broker.replay_dead_letter)
    extend_schema = _threaded(Broker.extend_schema)
    schema_history = _threaded(Broker.schema_history)
    notifications = _threaded(Broker.notifications)
    inbox = _threaded(Broker.inbox)
    mark_inbox_read = _threaded(Broker.mark_inbox_read)
    newest_matches = _threaded(Broker.newest_matches)
    match_times = _threaded(Broker.match_times)
    oldest_cursor = _threaded(Broker.oldest_cursor)
    acknowledge = _threaded(Broker.acknowledge)
    dead_letters = _threaded(Broker.dead_letters)
    live_of = _threaded(Broker.live_of)
    usage_of = _threaded(Broker.usage_of)
    costs = _threaded(Broker.costs)
    why_paused = _threaded(Broker.why_paused)
    sweep = _threaded(Broker.sweep)
    match_backlog = _threaded(Broker.match_backlog)
    close = _threaded(Broker.close)

    async def listen(
        self, owner: str, *, cursor: str | None = None, consumer: str = CONSUMER
    ) -> AsyncIterator[Notification]:
        """Yield an owner's notifications as they come, backlog first, until the loop over them is left."""
        listener = await asyncio.to_thread(self.broker.listen, owner, cursor=cursor, consumer=consumer)
        try:
            while (notification := await asyncio.to_thread(listener.get)) is not None:
                yield notification
        finally:
            listener.close()
