"""match_with_operators() over DataFrames: the same matches as in this process."""

import json
from typing import TYPE_CHECKING

import pytest

from tocsin.errors import BindError, NotSupported, SchemaError

pytest.importorskip("pyspark")

from tocsin.operators.operator import operator
from tocsin.operators.operator_matcher import OperatorMatcher
from tocsin.operators.registry import Registry
from tocsin.schema import Event
from tocsin.spark import match_with_operators
from tocsin_examples.cameras import SUBSCRIPTIONS, Cameras, camera_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REGISTRY = "tocsin_examples.cameras:camera_registry"


def impure_registry() -> Registry:
    @operator(pure=False)
    def rings(_event: Event) -> bool:
        return True

    return Registry([rings])


def test_workers_find_what_this_process_finds(spark: "SparkSession") -> None:
    cameras = Cameras(seed=4)
    raw = [cameras.snapshot(scene, number) for number, scene in enumerate(cameras.scenes(16))]
    matcher = OperatorMatcher(cameras.schema, camera_registry())
    for id, text in SUBSCRIPTIONS.items():
        matcher.subscribe(id, text)
    expected = {(number, id) for number, event in enumerate(raw) for id in matcher.match(cameras.schema.admit(event))}
    events = spark.createDataFrame(
        [(number, json.dumps(event)) for number, event in enumerate(raw)] + [(99, '{"camera": 1}')],
        "id long, event string",
    ).repartition(2)
    found = match_with_operators(
        events, SUBSCRIPTIONS, schema=cameras.schema, event_id="id", event_json="event", registry=REGISTRY
    ).collect()
    assert {(row.id, row.subscription) for row in found} == expected
    assert len(found) == len(expected)
    assert all(json.loads(row.variables)["people"] > 50 for row in found if row.subscription == "S2")


def test_what_is_wrong_is_said_by_the_driver(spark: "SparkSession") -> None:
    cameras = Cameras()
    events = spark.createDataFrame([(1, "{}")], "id long, event string")

    def tried(text: str, registry: str = REGISTRY, event_id: str = "id") -> None:
        match_with_operators(
            events, {"a": text}, schema=cameras.schema, event_id=event_id, event_json="event", registry=registry
        )

    with pytest.raises(BindError, match="no operator"):
        tried("flies()")
    with pytest.raises(NotSupported, match="not pure"):
        tried("rings()", f"{__name__}:impure_registry")
    with pytest.raises(NotSupported, match="does not lead to"):
        tried("rings()", "tocsin.operators:nothing")
    with pytest.raises(SchemaError, match="no column"):
        tried("locIn('Bronx')", event_id="number")
