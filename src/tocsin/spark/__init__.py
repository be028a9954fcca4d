"""Tocsin for Spark: match, validate and backfill over DataFrames.

    from tocsin.spark import match, validate, backfill

    match(events, subscriptions, schema=schema).show()

Pure functions from DataFrames to DataFrames, batch and streaming. docs/spark.md has a five-minute tutorial.
"""

# ruff: noqa: E402 - what is missing is said before anything needs it

from tocsin import plugins

plugins.require("spark")

from tocsin.pipeline.backfill import LogBackfill, backfill, compare
from tocsin.pipeline.given_subscriptions import release_subscriptions
from tocsin.pipeline.match import Validated, explain_match, match, validate
from tocsin.pipeline.match_file import Written, write_matches
from tocsin.pipeline.session import readable_errors, session, start_session
from tocsin.pipeline.subscription_table import BadSubscriptions, SubscriptionTable, TableChange, TableVersion
from tocsin.pipeline.table_function import register_functions

__all__ = [
    "BadSubscriptions",
    "LogBackfill",
    "SubscriptionTable",
    "TableChange",
    "TableVersion",
    "Validated",
    "Written",
    "backfill",
    "compare",
    "explain_match",
    "match",
    "readable_errors",
    "register_functions",
    "release_subscriptions",
    "session",
    "start_session",
    "validate",
    "write_matches",
]
