"""Events, those that are none, and matches, as tables that Spark keeps up to date."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from tocsin.spark import SubscriptionTable, match, validate

spark = SparkSession.active()
WISHES = SubscriptionTable(os.environ["TOCSIN_TABLE"])


@dp.temporary_view
def events() -> DataFrame:
    """Return the events, with the columns `id` and `body`."""
    return spark.read.parquet(os.environ["TOCSIN_EVENTS"])


@dp.materialized_view
def matches() -> DataFrame:
    """Return which event reaches which subscription."""
    return match(spark.table("events"), WISHES, event_id="id", event_json="body")


@dp.materialized_view
def dead_letters() -> DataFrame:
    """Return what is no event, and why."""
    return validate(spark.table("events"), WISHES.schema, event_json="body").dead_letters
