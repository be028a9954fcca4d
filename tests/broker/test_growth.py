"""A broker whose schema grows: what is stored is what the definition says, live, after a restart, from an older index."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.strategies.growth import grown
from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.broker import Broker
from tocsin.errors import TooLarge
from tocsin.language import Subscription, bind, evaluate
from tocsin.schema import EnumeratedDomain, EventType, NumericDomain, Schema, TypeAttribute


@pytest.mark.parametrize("seed", range(3))
def test_live_subscriptions_follow_a_schema_that_grows(tmp_path: Path, seed: int) -> None:
    random, place, kept = Random(seed), tmp_path / "store.db", tmp_path / "kept"
    index = tmp_path / "store.db.index"
    held: dict[int, Subscription] = {}
    expected: set[tuple[int, int]] = set()
    for part in range(3):
        if part == 2:  # as if the process had died before it wrote the index anew
            shutil.rmtree(index)
            shutil.copytree(kept, index)
        with Broker.open(str(place), schema=None if part else random_schema(random), sweep=False) as broker:
            for _ in range(3):
                for _ in range(6):
                    subscription = random_subscription(random, broker.schema)
                    try:
                        held[broker.subscribe(subscription, owner="ada").id] = subscription
                    except TooLarge:
                        continue
                expected |= _publish(random, broker, held, 3)
                broker.extend_schema(lambda schema: grown(random, schema)[1])
                expected |= _publish(random, broker, held, 3)
            assert {(one.seq, one.subscription) for page in broker.replay("ada") for one in page} == expected
        if part == 0:
            shutil.copytree(index, kept)
    assert len(expected) > 30


def _publish(random: Random, broker: Broker, held: dict[int, Subscription], count: int) -> set[tuple[int, int]]:
    schema = broker.schema
    bound = {id: bind(subscription, schema) for id, subscription in held.items()}
    found = set()
    for _ in range(count):
        raw = random_event(random, schema)
        seq = broker.publish(raw).seq
        found |= {(seq, id) for id, one in bound.items() if evaluate(one, schema.admit(raw))}
    return found


def test_only_those_that_a_change_concerns_are_indexed_anew(tmp_path: Path) -> None:
    domains = {
        "brand": EnumeratedDomain(name="brand", values=("mini", "fiat")),
        "money": NumericDomain(name="money"),
    }
    entries = (TypeAttribute("brand", False), TypeAttribute("price", False))
    schema = Schema(domains, {"brand": "brand", "price": "money"}, {"car": EventType("car", entries)})
    with Broker.open(str(tmp_path / "store.db"), schema=schema, sweep=False) as broker:
        for at in range(300):
            broker.subscribe(f"car where price > {at}", owner="ada")
        others = broker.subscribe("car where not brand = 'mini'", owner="ada")
        broker.publish({"brand": "mini", "price": 0})
        live = broker._core.live
        before = live.changes
        broker.extend_schema(lambda schema: schema.add_values("brand", ["saab"]))
        assert live.changes - before == 1  # of 301
        event = broker.publish({"brand": "saab", "price": -1})
        assert [(one.seq, one.subscription) for page in broker.replay("ada") for one in page] == [
            (event.seq, others.id)
        ]
