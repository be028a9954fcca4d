"""Matching inside databases agrees with the definition, and refuses what it does not declare."""

from __future__ import annotations

import pytest

from tests.matching.test_every_engine import add, auction, check_answers, large_world
from tocsin.errors import DuplicateSubscription, NotSupported, UnknownSubscription
from tocsin.language import bind, parse
from tocsin_lab.databases import DATABASES, Database, database_of
from tocsin_lab.dbms import WAYS

FAST = ("duckdb", "sqlite", "postgresql")


def made(way: str, database: str) -> type[Database]:
    if (missing := DATABASES[database].missing()) is not None:
        pytest.skip(missing)
    return database_of(database)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("database", FAST)
def test_a_random_world_agrees_with_the_definition(database: str, way: str) -> None:
    schema, subscriptions, events, right = large_world(0)
    matcher = WAYS[way](schema, made(way, database))
    assert check_answers(matcher, subscriptions, events[:12], right[:12]) > 20
    matcher.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("database", ["duckdb", "sqlite"])
def test_subscriptions_come_and_go_and_a_snapshot_stays(database: str, way: str) -> None:
    schema = auction()
    matcher = WAYS[way](schema, made(way, database))
    for id, text in {"s1": "a > 6 and b = 6 and c < 12", "s2": "a > 6 and d = 7", "s3": "d = 7 and e < 3"}.items():
        assert add(matcher, id, bind(parse(text), schema))
    with pytest.raises(DuplicateSubscription):
        matcher.add("s1", bind(parse("a = 1"), schema))
    assert not add(matcher, "or", bind(parse("a > 1 or b > 1"), schema))
    event = schema.admit({"a": 7, "b": 6, "c": 8, "d": 7, "e": 0})
    snapshot = matcher.snapshot()
    assert sorted(matcher.match(event)) == ["s1", "s2", "s3"]
    matcher.remove("s2")
    with pytest.raises(UnknownSubscription):
        matcher.remove("s2")
    assert sorted(matcher.match(event)) == ["s1", "s3"]
    assert sorted(snapshot.match(event)) == ["s1", "s2", "s3"]
    assert matcher.match(schema.admit({"c": 8, "e": 0, "d": 9})) == []
    for found in (matcher, snapshot):
        found.close()


@pytest.mark.slow
def test_spark_sql_agrees_too() -> None:
    schema = auction()
    for way in WAYS:
        matcher = WAYS[way](schema, made(way, "spark"))
        for id in range(5):
            matcher.add(id, bind(parse(f"a = {id % 2} and b > {id}"), schema))
        matcher.remove(1)
        assert sorted(matcher.match(schema.admit({"a": 1, "b": 4}))) == [3]
        matcher.close()


def test_an_unknown_database_is_refused_with_a_guess() -> None:
    with pytest.raises(NotSupported, match="did you mean"):
        database_of("duckbd")
