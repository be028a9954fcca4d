"""The engines do the work that their papers say, and no more: counted in steps, not seconds."""

from __future__ import annotations

import msgspec
import pytest

from tests.matching.test_every_engine import CLASSIC, auction, is_declared, large_world
from tocsin.language import bind, parse
from tocsin.language.documents import to_json
from tocsin.matching import Engine, engine_of
from tocsin_lab.classic.gough import GoughMatcher
from tocsin_lab.classic.matching_tree import MatchingTreeMatcher
from tocsin_lab.classic.schema_clustering import SchemaClusteringMatcher


def with_brands(engine: str, count: int = 100) -> Engine:
    """Return the engine with subscriptions to different values of a, all with another condition."""
    schema = auction()
    matcher = engine_of(engine)(schema)
    for id in range(count):
        matcher.add(id, bind(parse(f"a = {id} and b > 3"), schema))
    return matcher


@pytest.mark.parametrize("engine", ["equality-preferred", "quarantining", "hanson", "propagation", "schema-clustering"])
def test_engines_with_access_look_only_at_what_the_equality_finds(engine: str) -> None:
    matcher = with_brands(engine)
    assert matcher.match(matcher.schema.admit({"a": 42, "b": 5})) == [42]
    assert matcher.work.subscriptions_checked == 1


@pytest.mark.parametrize("engine", ["counting", "neon"])
def test_counting_compares_every_subscription(engine: str) -> None:
    matcher = with_brands(engine)
    assert matcher.match(matcher.schema.admit({"a": 42, "b": 5})) == [42]
    assert matcher.work.subscriptions_checked == 100


def test_neon_evaluates_a_predicate_as_often_as_it_occurs() -> None:
    matcher = with_brands("neon")
    matcher.match(matcher.schema.admit({"a": 42, "b": 5}))
    assert matcher.work.predicates_checked == 200


def test_gough_follows_one_path_whatever_the_number_of_subscriptions() -> None:
    for count in (10, 200):
        matcher = with_brands("gough", count)
        assert matcher.match(matcher.schema.admit({"a": 7, "b": 5})) == [7]
        assert matcher.work.predicates_checked == 2


def test_the_whole_tree_of_gough_explodes_with_the_attributes_that_subscriptions_leave_open() -> None:
    schema = auction()
    sizes = []
    for names in ("ab", "abcde"):
        matcher = GoughMatcher(schema)
        for name in names:
            for value in range(3):
                matcher.add(f"{name}{value}", bind(parse(f"{name} = {value}"), schema))
        sizes.append(matcher.expand(100_000))
    assert sizes[0] < 30
    assert sizes[1] > 4**4
    assert GoughMatcher(schema).expand(10) == 1


def test_the_matching_tree_shares_paths_and_follows_dont_care_edges() -> None:
    """The symmetric paper's figure 3: price = 100 and author = 7; price > 25, which does not care about the first."""
    schema = auction()
    matcher = MatchingTreeMatcher(schema)
    matcher.add("s1", bind(parse("a = 100 and b = 7"), schema))
    matcher.add("s2", bind(parse("a > 25"), schema))
    assert matcher.nodes == 3
    assert sorted(matcher.match(schema.admit({"a": 100, "b": 7}))) == ["s1", "s2"]
    matcher.add("s3", bind(parse("a = 100 and b = 7"), schema))
    assert matcher.nodes == 3
    matcher.remove("s1")
    assert sorted(matcher.match(schema.admit({"a": 100, "b": 7}))) == ["s2", "s3"]


def test_schema_clustering_makes_no_more_schemas_than_its_bound() -> None:
    schema = auction()
    matcher = SchemaClusteringMatcher(schema)
    for id in range(300):
        names = [name for at, name in enumerate("abcde") if id >> at & 1] or ["a"]
        matcher.add(id, bind(parse(" and ".join(f"{name} = {id % 3}" for name in names)), schema))
    assert len(matcher.hashed.schemas) <= 64
    expected = [id for id in range(300) if id % 3 == 1]
    assert sorted(matcher.match(schema.admit(dict.fromkeys("abcde", 1)))) == expected


@pytest.mark.parametrize("engine", CLASSIC)
def test_loading_many_at_once_gives_the_same_as_one_by_one(engine: str) -> None:
    schema, subscriptions, events, right = large_world(2)
    matcher = engine_of(engine)(schema)
    lines = {
        id: msgspec.json.encode({**to_json(bound.subscription), "id": id})
        for id, bound in enumerate(subscriptions)
        if is_declared(matcher.capabilities, bound)
    }
    bad = {list(lines)[line.line - 1] for line in matcher.load(lines.values())}  # those without a condition
    assert len(bad) < len(lines) / 10
    for event, found in zip(events, right, strict=True):
        assert sorted(matcher.match(event)) == sorted(found & lines.keys() - bad)
    for id in sorted(lines.keys() - bad)[::2]:
        matcher.remove(id)
    left = set(sorted(lines.keys() - bad)[1::2])
    for event, found in zip(events[:20], right, strict=False):
        assert sorted(matcher.match(event)) == sorted(found & left)
