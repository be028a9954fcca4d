"""The pipeline's workers match stored subscriptions that call operators, as of each event's seq."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tocsin.broker import Broker
from tocsin.matching.engine import NaiveMatcher
from tocsin.operators.operator import operator
from tocsin.operators.registry import Registry
from tocsin.pipeline.stored_matching import MatchStored, NotificationRows
from tocsin.schema import Event, EventType, NumericDomain, Schema, TypeAttribute
from tocsin.store.events import read_events
from tocsin.store.notifications import all_blocks
from tocsin_examples.cameras import SUBSCRIPTIONS, Cameras, camera_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAMERAS = "tocsin_examples.cameras:camera_registry"  # where workers of Spark find it
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
        if engine == "columnar":
            without = MatchStored(place, engine)
            found = next(without(iter([log_of(broker)]))).column("subscriptions").to_pylist()
            assert found == [[], [cheap.id], [cheap.id], []]


def test_rows_for_other_sinks_carry_the_values_of_variables(tmp_path: Path) -> None:
    place = str(tmp_path / "store.db")
    with Broker.open(place, schema=SCHEMA, matching="pipeline", operators=registry(), sweep=False) as broker:
        broker.subscribe("car where doors(?d) and ?d > 3", owner="ada")
        broker.subscribe("car where price > 10", owner="ada")
        broker.publish([{"event_type": "car", "price": price} for price in (4, 16)])
        named = MatchStored(place, with_body=True, operators=f"{__name__}:registry")
        rows = [row for batch in NotificationRows()(named(iter([log_of(broker)]))) for row in batch.to_pylist()]
    assert sorted((row["seq"], row["bindings"]) for row in rows if row["bindings"]) == [
        (4, '[{"d":4}]'),
        (5, '[{"d":4}]'),
    ]
    assert len(rows) == 3


def test_the_running_pipeline_stores_what_operators_find_as_of_seq(spark: SparkSession, tmp_path: Path) -> None:
    from tocsin.pipeline.run import Pipeline, PipelineSettings

    place, cameras = str(tmp_path / "store.db"), Cameras(seed=4)
    raw = [cameras.snapshot(scene, number) for number, scene in enumerate(cameras.scenes(24))]
    expected: set[tuple[int, int]] = set()
    with Broker.open(
        place, schema=cameras.schema, matching="pipeline", operators=camera_registry(), sweep=False
    ) as broker:
        live: dict[int, str] = {}

        def subscribe(text: str) -> int:
            id = broker.subscribe(text, owner="ada").id
            live[id] = text
            return id

        def publish(events: list[dict[str, object]]) -> None:
            matcher = NaiveMatcher(cameras.schema, camera_registry())
            for id, text in live.items():
                matcher.subscribe(id, text)
            for event, receipt in zip(events, broker.publish(events), strict=True):
                expected.update((receipt.seq, int(id)) for id in matcher.match(cameras.schema.admit(event)))

        first, *others = [subscribe(text) for text in SUBSCRIPTIONS.values()]
        publish(raw[:12])
        settings = PipelineSettings(
            store=place, checkpoint=str(tmp_path / "checkpoint"), until_idle=True, events_per_batch=5, operators=CAMERAS
        )
        Pipeline(spark, settings).run()
        broker.unsubscribe(first, owner="ada")
        del live[first]
        publish(raw[12:18])
        subscribe(SUBSCRIPTIONS[min(SUBSCRIPTIONS)])
        publish(raw[18:])
        Pipeline(spark, settings).run()
        with broker.store.read() as connection:
            stored = [
                pair
                for _, _, _, block in all_blocks(connection)
                for pair in zip(block.seq.tolist(), block.subscription.tolist(), strict=True)
            ]
    assert len(stored) == len(set(stored))
    assert set(stored) == expected
    assert {id for _, id in stored} & set(others)
