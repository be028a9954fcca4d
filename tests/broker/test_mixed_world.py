"""Worlds that mix everything, through the broker: what is stored is what the definition says, also after a restart."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tests.strategies.mixed import MixedWorld
from tocsin.broker import Broker
from tocsin.errors import EventRejected, TooLarge
from tocsin.language import BoundSubscription, decide
from tocsin.language.explain import plain_values
from tocsin.schema import arrived
from tocsin.store.events import find_events


@pytest.mark.parametrize("seed", range(2))
def test_the_broker_stores_what_the_definition_says_of_mixed_worlds(place: str, seed: int) -> None:
    world = MixedWorld(Random(seed))
    held: dict[int, BoundSubscription] = {}
    told: dict[tuple[int, int], tuple[Any, ...]] = {}
    for part in range(2):  # the second time it is opened again
        with Broker.open(place, schema=None if part else world.schema, operators=world.registry, sweep=False) as broker:
            for _ in range(25):
                bound = world.subscription()
                try:
                    held[broker.subscribe(bound.subscription, owner="ada").id] = bound
                except TooLarge:  # as conjunctions
                    continue
            for _ in range(24):
                told |= _publish(broker, world, held)
            found = _notified(broker)
            assert found == told
            for seq, id in list(found)[:20]:
                assert broker.explain(seq, id, owner="ada").matched
    assert len(told) > 50


def _publish(
    broker: Broker, world: MixedWorld, held: dict[int, BoundSubscription]
) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Publish an event or offer; return who is to be told, and what beside it."""
    raw = world.offer_document() if world.random.random() < 0.5 else world.event()
    try:
        event = broker.read(raw) if isinstance(raw, dict) else raw
        receipt = broker.publish(raw)
    except EventRejected:  # not all offers are right
        return {}
    with broker.store.read() as connection:
        event = arrived(event, find_events(connection, [receipt.seq])[receipt.seq].arrival_us)
    found = {}
    for id, bound in held.items():
        verdict = decide(bound, event, world.remembered)
        if verdict.matched:
            computed = {name: value for name, value in plain_values(verdict.computed).items() if value is not None}
            beside = (computed, [plain_values(each) for each in verdict.bindings])
            found[receipt.seq, id] = tuple(msgspec.json.decode(msgspec.json.encode(beside)))  # as it is stored
    return found


def _notified(broker: Broker) -> dict[tuple[int, int], tuple[Any, ...]]:
    found: dict[tuple[int, int], tuple[Any, ...]] = {}
    page = broker.notifications(owner="ada")
    while True:
        for one in page:
            computed = {name: one.event[name] for name in one.computed}
            found[one.seq, one.subscription] = (computed, list(one.bindings))
        if not page.more:
            return found
        page = broker.notifications(owner="ada", cursor=page.cursor)
