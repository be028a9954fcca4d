"""Scopes over arrays of structs in a Spark session, and now() as the time of the plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from tests.matching.test_scopes import MATCHING, RAW, SCHEMA
from tocsin.schema import Schema
from tocsin.spark import match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "id long, limit long, items array<struct<sku: string, qty: long, tags: array<string>>>, "
    "orders array<struct<no: long, lines: array<struct<n: int>>>>"
)
EXPECTED = {(number, text) for text, numbers in MATCHING.items() for number in numbers}


def _subscribed(spark: SparkSession, texts: list[str]) -> DataFrame:
    return spark.createDataFrame([(text, text) for text in texts], "id string, text string")


def _pairs(found: DataFrame) -> set[tuple[Any, str]]:
    return {(row.id, row.subscription) for row in found.collect()}


def test_scopes_mean_the_same_over_columns_of_structs_and_over_json(spark: SparkSession) -> None:
    subscribed = _subscribed(spark, list(MATCHING))
    listed = [{**raw, "items": [raw["items"]]} if isinstance(raw.get("items"), dict) else raw for raw in RAW]
    structs = spark.read.schema(COLUMNS).json(spark.sparkContext.parallelize([json.dumps(raw) for raw in listed], 2))
    for how in ({}, {"how": "shards", "shard_bytes": 1}):
        assert _pairs(match(structs, subscribed, schema=SCHEMA, event_id="id", **how)) == EXPECTED  # type: ignore[arg-type]
    texts = spark.createDataFrame([(raw["id"], json.dumps(raw)) for raw in RAW], "id long, body string")
    assert _pairs(match(texts, subscribed, schema=SCHEMA, event_id="id", event_json="body")) == EXPECTED


def test_an_explanation_on_spark_tells_which_element(spark: SparkSession) -> None:
    texts = spark.createDataFrame([(raw["id"], json.dumps(raw)) for raw in RAW], "id long, body string")
    subscribed = _subscribed(spark, ["some items (sku = 'B' and qty > 3)"])
    (row,) = match(texts, subscribed, schema=SCHEMA, event_id="id", event_json="body", reasons=True).collect()
    assert row.id == 1
    assert "items" in row.reasons


@pytest.mark.parametrize("how", ["events", "shards"])
def test_without_an_arrival_now_is_the_time_of_the_plan(spark: SparkSession, how: str) -> None:
    from pyspark.sql.functions import current_timestamp

    schema = Schema.infer([{"id": 1, "at": "2026-11-17T06:00:00Z"}], mandatory=False)
    subscribed = _subscribed(spark, ["at = now()", "at < now()", "at > now()", "at = now() and id < 4", "id >= 0"])
    options: dict[str, Any] = {"shard_bytes": 1} if how == "shards" else {}
    events = spark.range(8).repartition(4).withColumn("at", current_timestamp())
    for _ in range(2):  # another query has another time, and again one for all its rows
        found = match(events, subscribed, schema=schema, event_id="id", how=how, **options)  # type: ignore[arg-type]
        assert _pairs(found) == (
            {(at, text) for at in range(8) for text in ("at = now()", "id >= 0")}
            | {(at, "at = now() and id < 4") for at in range(4)}
        )


def test_an_arrival_that_is_given_is_now(spark: SparkSession) -> None:
    schema = Schema.infer([{"at": "2026-11-17T06:00:00Z"}], mandatory=False)
    subscribed = _subscribed(spark, ["at < now()", "at = now()"])
    rows = [(1, "1970-01-01T00:00:01Z", 1_000_000), (2, "1970-01-01T00:00:01Z", 2_000_000)]
    events = spark.createDataFrame(rows, "id long, at string, came long").selectExpr("id", "timestamp(at) at", "came")
    found = match(events, subscribed, schema=schema, event_id="id", event_columns=["at"], arrival="came")
    assert _pairs(found) == {(1, "at = now()"), (2, "at < now()")}
