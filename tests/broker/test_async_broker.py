"""The asyncio face of the broker."""

from __future__ import annotations

import asyncio
import inspect

from tests.broker.market import SCHEMA, car
from tocsin.broker import AsyncBroker, Broker

NOT_AWAITED = {
    "open",
    "replay",
    "listen",
    "on_match",
    "on_lease_ending",
    "on_paused",
    "store",
    "schema",
    "operators",
    "held_offers",
    "sites",
    "known_schema",
    "publish_soon",  # is awaited already
    "settings",
    "takes_long",
    "needs_kernels",
    "now",
    "index_stats",
    "save_index",
}


def test_async_broker_publishes_and_listens(place: str) -> None:
    async def use() -> list[int]:
        async with await AsyncBroker.open(place, schema=SCHEMA, engine="definition") as broker:
            await broker.subscribe("car where price < 5", owner="ada")
            first = await broker.publish([car(1), car(7)])
            heard = []
            async for notification in broker.listen("ada"):
                heard.append(notification.seq)
                if len(heard) == 2:
                    break
                await broker.publish(car(2))
            assert heard[0] == first[0].seq
            return heard

    assert len(asyncio.run(use())) == 2


def test_every_method_of_the_broker_is_there_or_left_out_on_purpose() -> None:
    methods = {name for name in dir(Broker) if not name.startswith("_")}
    assert {name for name in methods if not hasattr(AsyncBroker, name)} <= NOT_AWAITED
    assert methods >= NOT_AWAITED
    assert inspect.iscoroutinefunction(AsyncBroker.subscribe)
