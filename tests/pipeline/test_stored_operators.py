"""The pipeline's workers match stored subscriptions that call operators, as of each event's seq."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tocsin.broker import Broker
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.pipeline.stored_matching import MatchStored
from tocsin.schema import Event, EventType, NumericDomain, Schema, TypeAttribute
from tocsin.store.events import read_events

SCHEMA = Schema(
    {"money": NumericDomain(name="money")}, {"price": "money"}, {"car": EventType("car", (TypeAttribute("price"),))}
)


@operator(outputs={"doors": int})
def doors(event: Event) -> int:
    """How many doors it has."""
    return int(str(event.values["price"][0])) % 6


def registry() -> Registry:
    return Registry([doors])


def log_of(broker: Broker) -> pa.RecordBatch:
    """Return the store's log as the source of the pipeline gives it to workers."""
    with broker.store.read() as connection:
        stored = read_events(connection, 0, 1000)
    columns = {
        "after_seq": pa.array([0] * len(stored), pa.int64()),
        "seq": pa.array([each.seq for each in stored], pa.int64()),
        "event_id": pa.array([each.event_id for each in stored], pa.binary()),
        "arrival_us": pa.array([each.arrival_us for each in stored], pa.int64()),
        "schema_version": pa.array([1] * len(stored), pa.int64()),
        "body": pa.array([each.body.decode() for each in stored], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("engine", ["columnar", "definition"])
def test_workers_match_operators_of_the_same_registry_as_of_seq(tmp_path: Path, engine: str) -> None:
    place = str(tmp_path / "store.db")
    with Broker.open(place, schema=SCHEMA, matching="pipeline", operators=registry(), sweep=False) as broker:
        first = broker.subscribe("car where price < 50 and doors(?d) and ?d > 3", owner="ada")
        cheap = broker.subscribe("car where price > 10", owner="ada")
        broker.publish([{"event_type": "car", "price": price} for price in (4, 16, 60)])
        late = broker.subscribe("car where doors(4)", owner="ada")
        broker.publish({"event_type": "car", "price": 10})
        broker.save_index()
        named = MatchStored(place, engine, operators=f"{__name__}:registry")
        found = next(named(iter([log_of(broker)]))).column("subscriptions").to_pylist()
        assert [sorted(ids) for ids in found] == [
            [first.id],
            [first.id, cheap.id],
            [cheap.id],
            [first.id, late.id],
        ]
        without = MatchStored(place, engine)
        found = next(without(iter([log_of(broker)]))).column("subscriptions").to_pylist()
        assert found == [[], [cheap.id], [cheap.id], []]
