"""The columnar engine beyond the shared suite: near misses, plans, work, threads, chunks, planning by observation."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.errors import BadValue, UnknownSubscription
from tocsin.index.encode import EventObjects
from tocsin.index.subscription_index import Lifetime
from tocsin.language import bind, explain, parse
from tocsin.matching.matcher import Matcher
from tocsin.schema import Event, EventType, NumericDomain, Schema, TypeAttribute
from tocsin.schema.examples import load_example
from tocsin_lab.bench.workloads import market


def numbers(*names: str) -> Schema:
    entries = tuple(TypeAttribute(name, mandatory=False) for name in names)
    return Schema({"n": NumericDomain(name="n")}, dict.fromkeys(names, "n"), {"e": EventType("e", entries)})


def test_near_misses_name_the_one_predicate_that_failed_and_the_actual_value() -> None:
    schema = load_example("auction")
    matcher = Matcher(schema)
    matcher.subscribe("close", "sale where price < 40 and category kind of 'clocks'")
    matcher.subscribe("far", "sale where price < 40 and category = 'bed'")
    matcher.subscribe("match", "sale where price >= 40")
    matcher.subscribe("bids", "sale where price = 40 and bids > 3")
    event = schema.admit({"event_type": "sale", "item": "i", "title": "old clock", "category": "wall clock", "price": 40, "at": "2026-01-01T00:00Z", "seller": {"name": "x"}})  # fmt: skip
    found = {miss.id: miss for miss in matcher.near_misses(event)}
    assert set(found) == {"close", "bids"}
    assert found["close"].wanted == "price < 40"
    assert found["close"].actual == (40,)
    assert found["bids"].actual is None


@pytest.mark.parametrize("seed", range(3))
def test_near_misses_are_those_that_one_change_would_make_match(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    matcher = Matcher(schema)
    bounds = {id: bind(random_subscription(random, schema, depth=1), schema) for id in range(60)}
    for id, bound in bounds.items():
        matcher.add(id, bound)
    for _ in range(15):
        event = schema.admit(random_event(random, schema))
        for miss in matcher.near_misses(event):
            assert not explain(bounds[int(miss.id)], event).matched
            assert miss.attribute in miss.wanted


def test_a_plan_tells_how_a_subscription_is_found() -> None:
    schema = numbers("a", "b")
    matcher = Matcher(schema)
    for id in range(5_000):
        matcher.subscribe(id, f"a = {id % 500} and b > {id}")
    (plan,) = matcher.plan(7)
    assert plan.access == ("a",)
    assert plan.cluster_rows == 10
    assert plan.visited == pytest.approx(1 / 500)
    batch = pa.RecordBatch.from_pydict({"a": [7 if row % 4 == 0 else 9 for row in range(2_000)]})
    list(matcher.match_arrow(batch))
    assert [matcher.plan(id)[0].visited for id in (7, 9, 11)] == [0.25, 0.75, 0.0]
    with pytest.raises(UnknownSubscription):
        matcher.plan("nobody")


def test_an_access_predicate_spares_the_work_on_other_clusters() -> None:
    schema = numbers("a", "b")
    matcher = Matcher(schema)
    for id in range(5_000):
        matcher.subscribe(id, f"a = {id % 500} and b > {id}")
    list(matcher.match_arrow(pa.RecordBatch.from_pydict({"a": [3], "b": [0]})))
    details = matcher.work.details
    assert details["visits"] <= 2
    assert details["tile_rows"] + details["direct_rows"] <= 20


def test_threads_and_small_chunks_give_the_same_matches_in_order() -> None:
    schema = numbers("a", "b")
    matcher = Matcher(schema)
    rng = np.random.default_rng(1)
    for id in range(2_000):
        matcher.subscribe(id, f"a < {rng.integers(100)} and b >= {rng.integers(100)}")
    batch = pa.RecordBatch.from_pydict({"a": rng.integers(0, 100, 1_500), "b": rng.integers(0, 100, 1_500)})
    whole = [sorted(ids) for part in matcher.match_arrow(batch) for ids in part.lists()]
    assert len(whole) == 1_500
    assert sum(map(len, whole)) > 100_000
    choices: list[dict[str, Any]] = [{"threads": 2}, {"output_ids": 10_000}]
    for options in choices:
        parts = [part.copy() for part in matcher.match_arrow(batch, **options)]
        assert len(parts) > 1
        assert [sorted(ids) for part in parts for ids in part.lists()] == whole
        assert [part.first for part in parts] == sorted(part.first for part in parts)


@pytest.mark.parametrize("offset", [0, -500, 2**40], ids=["numbers", "small", "large"])
@pytest.mark.parametrize("more", ["a >= {}", "a >= {} or b = {}", "a > {} and b > 5"])
def test_tiers_together_find_what_each_finds_whatever_their_ids(offset: int, more: str) -> None:
    schema = numbers("a", "b")
    matcher = Matcher(schema, merge_beside=False)
    texts = {offset + id: f"a < {id % 100} and b >= {id % 7}" for id in range(1_000)}
    for wave in (texts, {offset + 1_000 + id: more.format(id, id) for id in range(300)}, {offset + 1_300: "a > 90"}):
        for id, text in wave.items():
            matcher.subscribe(id, text)
        matcher.match(schema.admit({"a": 1}))  # what waits becomes a tier
        texts |= wave
    matcher.remove(offset + 7)
    del texts[offset + 7]
    assert len(matcher.stats().tiers) > 1
    alone = Matcher(schema)
    for id, text in texts.items():
        alone.subscribe(str(id), text)
    rng = np.random.default_rng(2)
    batch = pa.RecordBatch.from_pydict({"a": rng.integers(0, 100, 700), "b": rng.integers(0, 10, 700)})
    expected = [sorted(map(int, ids)) for part in alone.match_arrow(batch) for ids in part.lists()]
    choices: list[dict[str, Any]] = [{}, {"threads": 2}, {"output_ids": 2_000}]
    for options in choices:
        found = [sorted(ids) for part in matcher.match_arrow(batch, **options) for ids in part.lists()]
        assert found == expected, options


@pytest.mark.parametrize("finished", [False, True], ids=["as they are", "to be finished"])
def test_counts_are_those_of_the_matches_over_all_tiers(finished: bool) -> None:
    schema = numbers("a", "b")
    matcher = Matcher(schema, merge_beside=False)
    for id in range(2_000):
        other = f" or b = {id % 11}" if finished else ""
        matcher.subscribe(id, f"a = {id % 7} and b > {id % 50}{other}")
    matcher.index.merge(everything=True)
    for id in range(2_000, 2_300):
        matcher.subscribe(id, f"b < {id % 40}")
    for id in range(0, 2_300, 5):
        matcher.remove(id)
    batch = pa.RecordBatch.from_pydict({"a": [row % 9 for row in range(500)], "b": [row % 60 for row in range(500)]})
    expected = np.concatenate([part.counts() for part in matcher.match_arrow(batch)])
    assert expected.sum() > 0
    before = matcher.work.matches
    assert matcher.count_arrow(batch).tolist() == expected.tolist()
    assert matcher.work.matches - before == expected.sum()
    assert matcher.count_arrow(batch.slice(0, 0)).tolist() == []


def test_counts_are_as_of_a_seq() -> None:
    matcher = Matcher(numbers("a"))
    bound = bind(parse("a > 1"), matcher.schema)
    for id in range(10):
        matcher.add(id, bound, Lifetime(created=id))
    batch = pa.RecordBatch.from_pydict({"a": [5, 5, 0, 5]})
    assert matcher.count_arrow(batch, seq=np.array([3, 7, 20, 20])).tolist() == [3, 7, 0, 10]


def test_matches_become_arrow_lists_and_pairs() -> None:
    schema = numbers("a")
    matcher = Matcher(schema)
    for id in ("x", "y"):
        matcher.subscribe(id, "a > 1")
    (found,) = matcher.match_arrow(pa.RecordBatch.from_pydict({"a": [5, 0, None, 7]}))
    assert [sorted(ids) for ids in found.to_arrow().to_pylist()] == [["x", "y"], [], [], ["x", "y"]]
    assert found.pairs().column("event").to_pylist() == [0, 0, 3, 3]
    assert found.counts().tolist() == [2, 0, 0, 2]


@pytest.mark.parametrize("threads", [1, 2])
def test_text_ids_are_told_as_codes_until_somebody_asks(threads: int) -> None:
    schema = numbers("a", "b")
    plain, named = Matcher(schema, merge_beside=False), Matcher(schema, merge_beside=False)
    for start, stop in ((0, 600), (600, 1_300), (1_300, 1_310)):  # three tiers
        for id in range(start, stop):
            for matcher, known in ((plain, id), (named, f"s{id}")):
                matcher.subscribe(known, f"a = {id % 7} and b > {id % 50}")
        assert len(plain.index.tiers()) == len(named.index.tiers())
    assert len(named.index.tiers()) > 1
    named.remove("s9")
    plain.remove(9)
    batch = pa.RecordBatch.from_pydict({"a": [row % 9 for row in range(300)], "b": [row % 60 for row in range(300)]})
    wanted = [sorted(f"s{id}" for id in ids) for part in plain.match_arrow(batch) for ids in part.lists()]
    parts = [part.copy() for part in named.match_arrow(batch, threads=threads)]
    assert [sorted(ids) for part in parts for ids in part.lists()] == wanted
    assert all(part.codes.dtype == np.int32 for part in parts)
    assert [sorted(ids) for part in parts for ids in part.to_arrow().to_pylist()] == wanted
    pairs = [pair for part in parts for pair in part.pairs().to_pylist()]
    assert sorted((pair["event"], pair["subscription"]) for pair in pairs) == [
        (event, id) for event, ids in enumerate(wanted) for id in ids
    ]
    assert [sorted(map(str, ids)) for ids in named.match_batch(events_of(batch, schema))] == wanted


def events_of(batch: pa.RecordBatch, schema: Schema) -> list[Event]:
    return [schema.admit({"event_type": "e", **row}) for row in batch.to_pylist()]


def test_ids_of_both_types_stay_what_they_are() -> None:
    schema = numbers("a")
    matcher = Matcher(schema, merge_beside=False)
    for id in range(2_000):
        matcher.subscribe(id if id % 2 else str(id), "a = 1")
    matcher.index.tiers()
    matcher.subscribe("1", "a = 1")
    matcher.subscribe(2**80, "a = 1")
    matcher.remove(1)
    with pytest.raises(UnknownSubscription):
        matcher.remove(2)
    matcher.index.merge(everything=True)
    event = schema.admit({"event_type": "e", "a": 1})
    wanted = [*(id if id % 2 else str(id) for id in range(2_000) if id != 1), "1", 2**80]
    assert sorted(matcher.match(event), key=repr) == sorted(wanted, key=repr)
    assert sorted(matcher.match_batch([event])[0], key=repr) == sorted(wanted, key=repr)
    with pytest.raises(TypeError, match="some ids are texts and some are numbers"):
        next(matcher.match_arrow(pa.RecordBatch.from_pydict({"a": [1]}))).to_arrow()


def test_planning_by_observed_events_does_not_change_the_answers() -> None:
    made = market(15_000, 2_000, seed=4)
    names = made.attributes
    schema = Schema(
        {"n": NumericDomain(name="n", type="int")},
        dict.fromkeys(names, "n"),
        {"e": EventType("e", tuple(TypeAttribute(name, mandatory=False) for name in names))},
    )
    batch = pa.RecordBatch.from_pydict(dict(zip(names, made.events, strict=True)))
    lines = _lines(made)
    plain, observing = Matcher(schema), Matcher(schema)
    events = [schema.admit(row) for row in batch.slice(0, 1_100).to_pylist()]
    observing.index.sample = EventObjects(events)
    for matcher in (plain, observing):
        assert matcher.load(lines) == []
    one, other = (
        [sorted(ids) for part in matcher.match_arrow(batch) for ids in part.lists()] for matcher in (plain, observing)
    )
    assert one == other


def _lines(made: object) -> list[str]:
    import json
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        made.write_subscriptions(path)  # type: ignore[attr-defined]
        names = made.attributes  # type: ignore[attr-defined]
        texts = {names[at]: {text: number for number, text in enumerate(values)} for at, values in made.texts.items()}  # type: ignore[attr-defined]
        found = []
        for line in path.read_text().splitlines():
            document = json.loads(line)
            for predicate in document["predicates"]:
                predicate[2] = texts.get(predicate[0], {}).get(predicate[2], predicate[2])
            found.append(json.dumps(document))
    return found


def test_bad_values_in_a_batch_are_refused_and_nothing_is_lost() -> None:
    schema = numbers("a")
    matcher = Matcher(schema)
    matcher.subscribe("s", "a > 1")
    with pytest.raises(BadValue, match="row 1"):
        list(matcher.match_arrow(pa.RecordBatch.from_pydict({"a": [2.0, float("nan")]})))
    (found,) = matcher.match_arrow(pa.RecordBatch.from_pydict({"a": [2.0]}))
    assert found.lists() == [["s"]]


def test_what_is_asked_while_a_batch_is_under_way_does_not_disturb_it() -> None:
    matcher = Matcher(numbers("a", "b"))
    for id in range(2_000):
        matcher.subscribe(id, f"a = {id % 50} and b > {id % 7}")
    rng = np.random.default_rng(3)
    batches = [pa.RecordBatch.from_pydict({"a": rng.integers(0, 50, 700), "b": rng.integers(0, 9, 700)}) for _ in "ab"]
    alone = [[ids for part in matcher.match_arrow(batch) for ids in part.lists()] for batch in batches]
    outer: list[list[int]] = []
    for part in matcher.match_arrow(batches[0], output_ids=500):
        outer += part.lists()
        inner = [ids for other in matcher.match_arrow(batches[1], output_ids=700) for ids in other.lists()]
        assert inner == alone[1]
        assert matcher.match(matcher.schema.admit({"a": 3, "b": 0})) == []
    assert outer == alone[0]
