"""match() and validate() over DataFrames: columns of all kinds, outputs, partitioning; and equality with the definition."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.worlds import bound_subscriptions, document, event_text, expected_pairs, random_schema
from tocsin.errors import NotSupported, ParseError, SchemaError
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TimeDomain, TypeAttribute

pytest.importorskip("pyspark")

from tests.pipeline.worlds import write_table
from tocsin.spark import SubscriptionTable, explain_match, match, validate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def shop() -> Schema:
    domains = [
        NumericDomain(name="number"),
        NumericDomain(name="money", type="decimal"),
        TextDomain(name="text"),
        TimeDomain(name="time"),
    ]
    attributes = {"price": "number", "total": "money", "item.title": "text", "item.tags": "text", "at": "time"}
    entries = tuple(TypeAttribute(name, mandatory=False, multiple=name == "item.tags") for name in attributes)
    return Schema({domain.name: domain for domain in domains}, attributes, {"offer": EventType("offer", entries)})


@pytest.fixture(scope="module")
def offers(spark: "SparkSession") -> "DataFrame":
    return spark.sql("""
        SELECT id, double(id * 10) AS price, cast(id AS decimal(10, 2)) / 4 AS total,
               named_struct('title', concat('chair ', id), 'tags', array('old', concat('t', id % 3))) AS item,
               timestamp_seconds(id * 3600) AS at
        FROM range(12)""")


@pytest.fixture(scope="module")
def wishes(spark: "SparkSession") -> "DataFrame":
    rows = [
        ("cheap", "price < 30"),
        ("tagged", "item.tags contains 't1' and price >= 70 or item.title = 'chair 3'"),
        ("quarter", "total = 0.25"),
        ("early", "at < '1970-01-01T02:00:00Z'"),
    ]
    return spark.createDataFrame(rows, "id string, text string")


def pairs(matched: "DataFrame") -> set[tuple[Any, Any]]:
    return {(row["id"], row["subscription"]) for row in matched.collect()}


EXPECTED = {
    (0, "cheap"), (1, "cheap"), (2, "cheap"), (3, "tagged"), (7, "tagged"), (10, "tagged"), (1, "quarter"),
    (0, "early"), (1, "early"),
}  # fmt: skip


def test_pairs_lists_and_counts_say_the_same(offers: "DataFrame", wishes: "DataFrame", shop: Schema) -> None:
    assert pairs(match(offers, wishes, schema=shop, event_id="id")) == EXPECTED
    lists = match(offers, wishes, schema=shop, event_id="id", output="lists").collect()
    assert {(row.id, one) for row in lists for one in row.subscriptions} == EXPECTED
    assert len(lists) == 12
    counts = {
        row.id: row.matches for row in match(offers, wishes, schema=shop, event_id="id", output="counts").collect()
    }
    assert counts == {id: sum(event == id for event, _ in EXPECTED) for id in range(12)}


def test_conjunction_and_reasons_are_those_of_the_alternative_that_held(
    offers: "DataFrame", wishes: "DataFrame", shop: Schema
) -> None:
    matched = match(offers, wishes, schema=shop, event_id="id", conjunction=True, reasons=True)
    found = {(row.id, row.subscription): row for row in matched.collect()}
    assert found[3, "tagged"].conjunction == "item.title = 'chair 3'"
    assert '"actual": [70]' in found[7, "tagged"].reasons
    with pytest.raises(NotSupported, match="pairs"):
        match(offers, wishes, schema=shop, event_id="id", output="lists", reasons=True)


def test_events_as_json_and_variant_match_like_columns(
    spark: "SparkSession", offers: "DataFrame", wishes: "DataFrame", shop: Schema
) -> None:
    whole = offers.selectExpr("id", "to_json(struct(price, total, item, at)) AS body")
    assert pairs(match(whole, wishes, schema=shop, event_id="id", event_json="body")) == EXPECTED
    variants = offers.selectExpr("id", "price", "total", "at", "parse_json(to_json(item)) AS item")
    assert pairs(match(variants, wishes, schema=shop, event_id="id")) == EXPECTED


def test_invalid_rows_are_dropped_kept_with_their_reason_or_fail(
    offers: "DataFrame", wishes: "DataFrame", shop: Schema
) -> None:
    broken = offers.selectExpr("id", "if(id = 5, double('NaN'), price) AS price", "total", "item", "at")
    assert pairs(match(broken, wishes, schema=shop, event_id="id")) == EXPECTED
    kept = match(broken, wishes, schema=shop, event_id="id", invalid="keep").filter("invalid IS NOT NULL").collect()
    assert [(row.id, row.subscription) for row in kept] == [(5, None)]
    assert "finite" in kept[0].invalid
    judged = validate(broken.drop("id"), shop)
    assert judged.good.count() == 11
    assert judged.dead_letters.count() == 1
    assert judged.good.columns == ["price", "total", "item", "at"]


def test_a_column_that_no_attribute_knows_is_said(offers: "DataFrame", wishes: "DataFrame", shop: Schema) -> None:
    with pytest.raises(SchemaError, match="event_json"):
        match(offers.select("id"), wishes, schema=shop)
    with pytest.raises(SchemaError, match="did you mean price"):
        match(offers, wishes, schema=shop, event_columns=["pryce"])


def test_bad_subscriptions_are_named_or_skipped(spark: "SparkSession", offers: "DataFrame", shop: Schema) -> None:
    wrong = spark.createDataFrame(
        [("a", "price < 30"), ("b", "price <"), ("c", "nobody = 1")], "id string, text string"
    )
    with pytest.raises(ParseError, match="2 subscriptions are wrong"):
        match(offers, wrong, schema=shop, event_id="id")
    skipped = match(offers, wrong, schema=shop, event_id="id", bad_subscriptions="skip")
    assert pairs(skipped) == {(0, "a"), (1, "a"), (2, "a")}


def test_bulk_predicates_come_as_json_or_structs(spark: "SparkSession", offers: "DataFrame", shop: Schema) -> None:
    as_json = spark.createDataFrame([(7, '[["price", "<", 30]]')], "id long, predicates string")
    assert pairs(match(offers, as_json, schema=shop, event_id="id")) == {(0, 7), (1, 7), (2, 7)}
    structs = spark.sql(
        "SELECT 7L AS id, array(named_struct('attribute', 'price', 'operator', '<', 'operand', '30')) AS predicates"
    )
    assert pairs(match(offers, structs, schema=shop, event_id="id")) == {(0, 7), (1, 7), (2, 7)}


def test_shards_give_what_the_whole_gives(offers: "DataFrame", shop: Schema, tmp_path: Path) -> None:
    folder = tmp_path / "wishes"
    texts = [f'{{"id": {at}, "text": "price >= {at}"}}' for at in range(40)]
    write_table(folder, iter(texts), shop, per_segment=10)
    whole = match(offers, folder, event_id="id", how="events")
    sharded = match(offers, folder, event_id="id", worker_bytes=1)
    assert "shards: 4" in explain_match(sharded)
    assert "a worker may map" in explain_match(sharded)
    assert pairs(sharded) == pairs(whole)
    counts = match(offers, folder, event_id="id", output="counts", how="shards", shard_bytes=1).collect()
    assert sum(row.matches for row in counts) == len(pairs(whole))
    assert len(counts) == 12


@pytest.mark.parametrize("output", ["pairs", "lists", "counts"])
def test_shards_keep_equal_events_apart_and_tell_bad_rows_once(
    offers: "DataFrame", shop: Schema, tmp_path: Path, output: str
) -> None:
    texts = [f'{{"id": "s{at}", "text": "price >= {at}"}}' for at in range(40)]
    write_table(tmp_path, texts, shop, per_segment=10)
    twice = offers.selectExpr("id % 3 AS id", "if(id % 3 = 2, double('NaN'), 30D) AS price")  # each row four times
    given: dict[str, Any] = {"output": output, "invalid": "keep"}
    whole = match(twice, tmp_path, how="events", **given)
    sharded = match(twice, tmp_path, how="shards", shard_bytes=1, **given)
    assert "shards: 4" in explain_match(sharded)
    assert sharded.columns == whole.columns
    assert sharded.dtypes == whole.dtypes
    assert rows_of(sharded) == rows_of(whole)
    assert whole.filter("invalid IS NOT NULL").count() == 4


def rows_of(frame: "DataFrame") -> list[str]:
    """Return the rows as texts, in order; the order within lists is nobody's."""
    found = [row.asDict() for row in frame.collect()]
    return sorted(
        repr({name: sorted(value) if isinstance(value, list) else value for name, value in row.items()})
        for row in found
    )


def test_matching_twice_with_one_folder_gives_the_same_twice_and_follows_a_changed_text(
    spark: "SparkSession", offers: "DataFrame", wishes: "DataFrame", shop: Schema, tmp_path: Path
) -> None:
    for _ in range(2):
        found = match(offers, wishes, schema=shop, event_id="id", folder=tmp_path).collect()
        assert sorted((row.id, row.subscription) for row in found) == sorted(EXPECTED)
    changed = spark.createDataFrame([("cheap", "price >= 110")], "id string, text string")
    assert pairs(match(offers, changed, schema=shop, event_id="id", folder=tmp_path)) == {(11, "cheap")}
    broken = spark.createDataFrame([("cheap", "price < 10"), ("bad", "price <")], "id string, text string")
    with pytest.raises(ParseError):
        match(offers, broken, schema=shop, event_id="id", folder=tmp_path)
    assert pairs(match(offers, tmp_path, event_id="id")) == {(11, "cheap")}


def test_a_column_of_the_wrong_type_is_refused_by_the_driver(
    offers: "DataFrame", wishes: "DataFrame", shop: Schema
) -> None:
    def tried(*columns: str) -> None:
        match(offers.selectExpr("id", *columns), wishes, schema=shop, event_id="id")

    with pytest.raises(SchemaError, match="the column price is string, and the attribute price wants a number"):
        tried("string(price) AS price")
    with pytest.raises(SchemaError, match=r"the column at is date.*timestamp with zone"):
        tried("price", "date(at) AS at")
    with pytest.raises(SchemaError, match="the column at is timestamp_ntz"):
        tried("price", "cast(at AS timestamp_ntz) AS at")
    with pytest.raises(
        SchemaError, match=r"the column item\.title is bigint.*item\.tags is array<int>|item\.tags is int"
    ):
        tried("named_struct('title', id, 'tags', array(1, 2)) AS item")
    with pytest.raises(SchemaError, match="holds no events"):
        match(offers, wishes, schema=shop, event_id="id", event_json="price")
    tried("string(total) AS total", "string(at) AS at", "cast(NULL AS void) AS price")  # may be


def test_columns_of_any_name_are_kept_and_one_that_match_adds_is_refused(
    offers: "DataFrame", wishes: "DataFrame", shop: Schema
) -> None:
    dotted = offers.withColumnRenamed("at", "a.b").withColumnRenamed("total", "a`c")
    found = match(dotted, wishes, schema=shop, keep="*")
    assert found.columns == dotted.columns + ["subscription"]
    assert pairs(found) == {pair for pair in EXPECTED if pair[1] in ("cheap", "tagged")}
    taken = offers.withColumn("subscription", offers.id)
    with pytest.raises(SchemaError, match="a column 'subscription', and match\\(\\) adds"):
        match(taken, wishes, schema=shop, keep="*")
    assert pairs(match(taken, wishes, schema=shop, event_id="id")) == EXPECTED
    counts = match(taken, wishes, schema=shop, keep="*", output="counts")
    assert counts.columns == [*taken.columns, "matches"]


def test_null_and_repeated_ids_are_bad_subscriptions(spark: "SparkSession", offers: "DataFrame", shop: Schema) -> None:
    given = spark.createDataFrame(
        [("a", "price < 30"), (None, "price < 30"), ("a", "price < 90")], "id string, text string"
    ).coalesce(1)
    with pytest.raises(ParseError, match="2 subscriptions are wrong"):
        match(offers, given, schema=shop, event_id="id")
    skipped = match(offers, given, schema=shop, event_id="id", bad_subscriptions="skip")
    assert pairs(skipped) == {(0, "a"), (1, "a"), (2, "a")}


def test_a_new_version_of_a_folder_opens_only_what_is_new(shop: Schema, tmp_path: Path) -> None:
    from tocsin.pipeline.match_batches import open_index
    from tocsin.pipeline.open_index import FolderIndex, IndexReference

    others = [f'{{"id": {id}, "text": "price < 0"}}' for id in range(100, 200)]  # many, so that the first segment stays
    write_table(tmp_path, ['{"id": 1, "text": "price < 30"}', *others], shop)
    index = open_index(IndexReference(str(tmp_path)))
    assert isinstance(index, FolderIndex)
    event = shop.admit({"price": 5})
    assert index.match_events([event], None, None).ids.tolist() == [1]
    before = index.matcher.index.tiers()
    write_table(tmp_path, ['{"id": 2, "text": "price < 40"}'], shop)
    again = open_index(IndexReference(str(tmp_path)))
    assert again is index
    assert index.matcher.index.tiers()[: len(before)] == before
    assert sorted(index.match_events([event], None, None).ids.tolist()) == [1, 2]
    assert SubscriptionTable(tmp_path).delete([1, 99]).removed == 1
    open_index(IndexReference(str(tmp_path)))
    assert index.match_events([event], None, None).ids.tolist() == [2]
    open_index(IndexReference(str(tmp_path), version=1))
    assert index.match_events([event], None, None).ids.tolist() == [1]


@pytest.mark.parametrize("seed", range(3))
def test_batches_equal_the_definition(spark: "SparkSession", tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    subscriptions = dict(enumerate(bound_subscriptions(rng, schema, 60)))
    events = {at: event_text(rng, schema) if rng.random() < 0.9 else '{"nonsense": 1}' for at in range(80)}
    lines = (document(id, bound) for id, bound in subscriptions.items())
    assert write_table(tmp_path / "s", lines, schema, per_segment=25) == []
    frame = spark.createDataFrame(list(events.items()), "id long, body string").repartition(3)
    found = pairs(match(frame, tmp_path / "s", event_id="id", event_json="body"))
    assert found == expected_pairs(subscriptions, events, schema)
