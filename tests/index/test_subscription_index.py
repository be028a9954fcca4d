"""A living index: changes are seen at once, merging changes nothing, and the disk gives back what was saved."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.errors import DuplicateSubscription, FileError, UnknownSubscription
from tocsin.index.index_folder import MANIFEST, IndexFolder
from tocsin.index.subscription_index import RATIO, SMALL, Lifetime, Tier, due
from tocsin.language import BoundSubscription, bind, evaluate, parse
from tocsin.matching.matcher import Matcher
from tocsin.schema import Event, EventType, NumericDomain, Schema, TypeAttribute


def numbers_schema() -> Schema:
    entries = tuple(TypeAttribute(name, mandatory=False) for name in "ab")
    return Schema({"n": NumericDomain(name="n")}, {"a": "n", "b": "n"}, {"e": EventType("e", entries)})


class World:
    """A matcher, what it should hold, and events to ask it about."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.schema = random_schema(self.random)
        self.matcher = Matcher(self.schema, merge_beside=False)
        self.live: dict[int, BoundSubscription] = {}
        self.next_id = 0
        self.events: list[Event] = [self.schema.admit(random_event(self.random, self.schema)) for _ in range(25)]

    def add(self, count: int) -> None:
        for _ in range(count):
            bound = bind(random_subscription(self.random, self.schema, depth=2), self.schema)
            self.matcher.add(self.next_id, bound)
            self.live[self.next_id] = bound
            self.next_id += 1

    def remove(self, count: int) -> None:
        for id in self.random.sample(list(self.live), min(count, len(self.live))):
            self.matcher.remove(id)
            del self.live[id]

    def check(self, matcher: Matcher | None = None) -> None:
        matcher = matcher or self.matcher
        expected = [sorted(id for id, bound in self.live.items() if evaluate(bound, event)) for event in self.events]
        assert [sorted(found) for found in matcher.match_batch(self.events)] == expected
        assert [sorted(matcher.match(event)) for event in self.events[:5]] == expected[:5]
        assert len(matcher) == len(self.live)
        for tier in matcher.index.tiers():
            tier.segment.check()


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_merges_and_reopenings_lose_and_invent_nothing(seed: int, tmp_path: Path) -> None:
    world = World(seed)
    folder = IndexFolder(tmp_path / "index")
    for step in range(14):
        change, count = world.random.choice([(world.add, 40), (world.remove, 20), (world.add, 3)])
        change(count)
        if step % 3 == 0:
            world.matcher.index.merge(everything=world.random.random() < 0.3)
        if step % 4 == 1:
            folder.save(world.matcher.index, seq=step)
            index, manifest = IndexFolder(folder.path).load(world.schema)
            assert manifest.seq == step
            world.check(Matcher(world.schema, index, merge_beside=False))
            if step % 8 == 1:  # go on with what the disk has
                folder = IndexFolder(folder.path)
                world.matcher = Matcher(world.schema, folder.load(world.schema)[0], merge_beside=False)
        world.check()


def test_merging_beside_matching_and_changing_loses_nothing() -> None:
    world = World(9)
    world.add(400)
    world.check()
    stop = threading.Event()
    failures: list[BaseException] = []

    def merge_again_and_again() -> None:
        try:
            while not stop.is_set():
                world.matcher.index.merge(everything=True)
        except BaseException as error:  # noqa: BLE001  (reported below)
            failures.append(error)

    merging = threading.Thread(target=merge_again_and_again)
    merging.start()
    try:
        for _ in range(8):
            world.add(15)
            world.remove(15)
            world.check()
    finally:
        stop.set()
        merging.join()
    assert failures == []
    world.check()


def test_an_id_can_come_back_after_it_left() -> None:
    schema = numbers_schema()
    matcher = Matcher(schema)
    event = schema.admit({"a": 1})
    for turn in range(4):
        matcher.subscribe("s", "a = 1" if turn % 2 == 0 else "a = 2")
        assert matcher.match(event) == (["s"] if turn % 2 == 0 else [])
        with pytest.raises(DuplicateSubscription):
            matcher.subscribe("s", "a = 1")
        matcher.remove("s")
        with pytest.raises(UnknownSubscription):
            matcher.remove("s")
        matcher.index.merge(everything=True)


def test_matching_as_of_a_seq_sees_what_was_live_then() -> None:
    schema = numbers_schema()
    matcher = Matcher(schema, merge_beside=False)
    bound = bind(parse("a = 1"), schema)
    matcher.add("early", bound, Lifetime(created=10))
    matcher.add("late", bound, Lifetime(created=20))
    matcher.add("leased", bound, Lifetime(created=5, lease_start=1_000, lease_end=2_000))
    matcher.remove("early", seq=30)
    event = schema.admit({"a": 1})

    def found(seq: int, arrival: int) -> list[str]:
        return sorted(map(str, matcher.match(event, seq=seq, arrival=arrival)))

    for _ in range(2):
        assert found(10, 0) == []
        assert found(11, 0) == ["early"]
        assert found(25, 1_000) == ["early", "late", "leased"]
        assert found(29, 1_999) == ["early", "late", "leased"]
        assert found(30, 2_000) == ["late"]
        assert found(31, 0) == ["late"]
        matcher.index.merge(low_water_seq=29, everything=True)  # nobody may ask about events up to 29 any more
    assert found(29, 0) == ["early", "late"]
    matcher.index.merge(low_water_seq=30, everything=True)
    assert found(29, 0) == ["late"]


def test_a_batch_matches_as_of_each_event() -> None:
    import pyarrow as pa

    schema = numbers_schema()
    matcher = Matcher(schema)
    matcher.add(7, bind(parse("a = 1"), schema), Lifetime(created=10))
    batch = pa.RecordBatch.from_pydict({"a": [1, 1, 1]})
    parts = list(matcher.match_arrow(batch, seq=np.array([9, 10, 11])))
    assert [ids for part in parts for ids in part.lists()] == [[], [], [7]]


# --- tiers ------------------------------------------------------------------------------------------------------------


def sized(*sizes: int) -> list[Tier]:
    class Sized:
        def __init__(self, size: int) -> None:
            self.size = size

        def __len__(self) -> int:
            return self.size

    return [Tier(str(size), Sized(size)) for size in sizes]  # type: ignore[arg-type]


def test_tiers_are_merged_when_they_are_not_small_beside_their_elders() -> None:
    def chosen(*sizes: int) -> list[int]:
        return [len(tier.segment) for tier in due(sized(*sizes))]

    assert chosen() == []
    assert chosen(1_000_000) == []
    assert chosen(1_000_000, 1_000) == []
    assert chosen(1_000_000, 10_000, 1_000) == [10_000, 1_000]
    assert chosen(100, 1_000) == [100, 1_000]
    assert chosen(1_000_000, 70_000) == [1_000_000, 70_000]


def test_many_single_additions_leave_few_tiers() -> None:
    schema = numbers_schema()
    matcher = Matcher(schema, merge_beside=False)
    event = schema.admit({"a": 1})
    for id in range(3 * SMALL):
        matcher.subscribe(id, f"a = {id % 5}")
        if id % 64 == 0:
            matcher.match(event)
            matcher.index.merge()
    assert len(matcher.index.tiers()) <= 3
    assert len(matcher.match(event)) == len([id for id in range(3 * SMALL) if id % 5 == 1])
    assert RATIO > 1


# --- the folder -------------------------------------------------------------------------------------------------------


def saved(tmp_path: Path) -> tuple[IndexFolder, Matcher]:
    schema = numbers_schema()
    matcher = Matcher(schema, merge_beside=False)
    for id in range(20):
        matcher.subscribe(id, f"a < {id}")
    folder = IndexFolder(tmp_path)
    folder.save(matcher.index, seq=20)
    return folder, matcher


def test_a_reader_moves_on_by_opening_only_what_is_new(tmp_path: Path) -> None:
    writer, matcher = saved(tmp_path)
    schema = matcher.schema
    reader = IndexFolder(tmp_path)
    before, _ = reader.load(schema)
    matcher.remove(19)
    for id in range(100, 100 + 2 * SMALL):
        matcher.subscribe(id, "b = 1")
    writer.save(matcher.index, seq=21)
    after, manifest = reader.load(schema)
    assert manifest.version == 2
    shared = {tier.name: tier for tier in before.tiers()}
    reused = [tier for tier in after.tiers() if tier.name in shared]
    assert all(shared[tier.name] is tier for tier in reused)
    assert len(after) == 19 + 2 * SMALL
    assert Matcher(schema, after).match(schema.admit({"a": 18})) == []


def test_a_reader_of_an_old_manifest_stays_valid(tmp_path: Path) -> None:
    writer, matcher = saved(tmp_path)
    old, _ = IndexFolder(tmp_path).load(matcher.schema)
    reader = Matcher(matcher.schema, old, merge_beside=False)
    for version in range(4):
        matcher.subscribe(1000 + version, "a < 5")
        matcher.index.merge(everything=True)
        writer.save(matcher.index, seq=30 + version)
    event = matcher.schema.admit({"a": 18})
    assert reader.match(event) == [19]


def test_identical_changes_give_identical_files(tmp_path: Path) -> None:
    saved(tmp_path / "one")
    saved(tmp_path / "two")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_an_index_built_anew_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    writer, matcher = saved(tmp_path)
    anew = Matcher(matcher.schema, merge_beside=False)
    anew.subscribe(77, "a < 1000")
    writer.save(anew.index, seq=30)
    index, _ = IndexFolder(tmp_path).load(matcher.schema)
    assert Matcher(matcher.schema, index).match(matcher.schema.admit({"a": 500})) == [77]
    assert len(index) == 1


def test_what_no_manifest_names_is_removed(tmp_path: Path) -> None:
    writer, matcher = saved(tmp_path)
    for version in range(3):
        matcher.subscribe(100 + version, "a < 5")
        matcher.index.merge(everything=True)
        writer.save(matcher.index, seq=30 + version)
    assert len(list(tmp_path.glob("*.segment"))) == 2  # the current one, and the one of the manifest before


@pytest.mark.parametrize("damage", ["cut", "flip", "dead", "manifest", "missing"])
def test_a_damaged_folder_is_refused_with_the_name_of_the_file(tmp_path: Path, damage: str) -> None:
    writer, matcher = saved(tmp_path)
    matcher.remove(3)
    writer.save(matcher.index, seq=21)
    segment = next(tmp_path.glob("*.segment"))
    target = {"dead": next(tmp_path.glob("*.dead")), "manifest": tmp_path / MANIFEST}.get(damage, segment)
    data = bytearray(target.read_bytes())
    if damage == "missing":
        target.unlink()
    elif damage == "cut":
        target.write_bytes(data[:-10])
    else:
        data[len(data) // 2] ^= 0x41
        target.write_bytes(data)
    with pytest.raises(FileError) as caught:
        IndexFolder(tmp_path).load(matcher.schema)
    assert str(tmp_path) in str(caught.value)
