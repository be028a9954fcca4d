"""The running pipeline over a store: what it stores equals the definition as of seq, with churn, replays and faults."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.pipeline.worlds import bound_subscriptions, event_text, random_schema
from tocsin.broker import Broker
from tocsin.language import BoundSubscription, evaluate
from tocsin.schema import Schema
from tocsin.store.notifications import all_blocks

pytest.importorskip("pyspark")

from tocsin.pipeline.ingest import FileSource
from tocsin.pipeline.run import CheckpointLost, Pipeline, PipelineSettings, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_SECONDS = 120.0


class World:
    """A store with a random schema, changed by a broker, and an oracle that keeps what should come of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.schema: Schema = random_schema(self.random)
        self.store = str(folder / "tocsin.db")
        self.broker = Broker.open(self.store, schema=self.schema, matching="pipeline", engine="definition", sweep=False)
        self.live: dict[int, BoundSubscription] = {}
        self.expected: set[tuple[int, int]] = set()

    def subscribe(self, count: int) -> None:
        for bound in bound_subscriptions(self.random, self.schema, count):
            receipt = self.broker.subscribe(bound.subscription, owner=f"owner-{self.random.randrange(5)}")
            self.live[receipt.id] = bound

    def unsubscribe(self, count: int) -> None:
        for id in self.random.sample(sorted(self.live), min(count, len(self.live))):
            self.broker.unsubscribe(id, owner=self._owner(id))
            del self.live[id]

    def _owner(self, id: int) -> str:
        for number in range(5):
            if any(found.id == id for found in self.broker.subscriptions(f"owner-{number}")):
                return f"owner-{number}"
        raise LookupError(id)

    def publish(self, count: int) -> None:
        raws = [msgspec.json.decode(event_text(self.random, self.schema)) for _ in range(count)]
        for raw, receipt in zip(raws, self.broker.publish(raws), strict=True):
            event = self.schema.admit(raw)
            self.expected |= {(receipt.seq, id) for id, bound in self.live.items() if evaluate(bound, event)}

    def churn(self, rounds: int) -> None:
        for _ in range(rounds):
            self.subscribe(self.random.randrange(4))
            self.publish(self.random.randrange(1, 12))
            self.unsubscribe(self.random.randrange(3))

    def stored(self) -> list[tuple[int, int]]:
        """Return the (seq, subscription) of every stored notification, also those stored twice."""
        with self.broker._core.store.read() as connection:
            return [
                pair
                for _, _, _, matches in all_blocks(connection)
                for pair in zip(matches.seq.tolist(), matches.subscription.tolist(), strict=True)
            ]

    def matched_through(self) -> int:
        return self.broker._core.store.meta().matched_through

    def last_event(self) -> int:
        return self.broker._core.store.meta().seq

    def check(self) -> None:
        stored = self.stored()
        assert len(stored) == len(set(stored)), "a notification is stored twice"
        assert set(stored) == self.expected


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, 7)
    yield world
    world.broker.close()


def settings_of(world: World, tmp_path: Path, **changes: Any) -> PipelineSettings:
    return PipelineSettings(store=world.store, checkpoint=str(tmp_path / "checkpoint"), **changes)


def wait_until(condition: Callable[[], bool], pipeline: Pipeline | None = None) -> None:
    """Wait for a condition, or until a query fails, or for too long."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if pipeline is not None:
            pipeline.check()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_stream_with_churn_equals_the_definition_as_of_seq(
    spark: "SparkSession", world: World, tmp_path: Path
) -> None:
    world.subscribe(20)
    pipeline = Pipeline(spark, settings_of(world, tmp_path, events_per_batch=40))
    pipeline.start()
    try:
        for _ in range(4):
            world.churn(6)
            seq = max((seq for seq, _ in world.expected), default=0)
            wait_until(lambda seq=seq: world.matched_through() >= seq, pipeline)  # type: ignore[misc]
    finally:
        pipeline.stop()
        pipeline.wait()
    world.check()
    figures = pipeline.meter.figures()
    assert figures.state == "stopped"
    assert figures.matches == len(world.expected)
    assert figures.latency_p50_ms is not None


def test_a_batch_replayed_after_its_commit_was_lost_stores_nothing_twice(
    spark: "SparkSession", world: World, tmp_path: Path
) -> None:
    world.subscribe(15)
    world.churn(5)
    Pipeline(spark, settings_of(world, tmp_path, until_idle=True, events_per_batch=10)).run()
    commits = sorted((tmp_path / "checkpoint" / "match" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    world.churn(3)
    Pipeline(spark, settings_of(world, tmp_path, until_idle=True)).run()
    world.check()


def test_a_lost_checkpoint_is_noticed_and_nothing_is_stored_twice(
    spark: "SparkSession", world: World, tmp_path: Path
) -> None:
    world.subscribe(15)
    world.churn(4)
    Pipeline(spark, settings_of(world, tmp_path, until_idle=True)).run()
    world.churn(2)
    other = PipelineSettings(store=world.store, checkpoint=str(tmp_path / "another"), until_idle=True)
    pipeline = Pipeline(spark, other)
    pipeline.run()
    assert "is empty" in pipeline.notes[0]
    world.check()


def test_an_event_that_cannot_be_read_is_a_dead_letter_and_the_batch_goes_on(
    spark: "SparkSession", world: World, tmp_path: Path
) -> None:
    from sqlalchemy import update

    from tocsin.store.tables import events

    world.subscribe(15)
    world.publish(10)
    store = world.broker._core.store
    victim = max(seq for seq, _ in world.expected)
    with store.write() as transaction:
        transaction.connection.execute(
            update(events).where(events.c.seq == victim).values(body=b'{"event_type": "none"}')
        )
        transaction.keep_time()
    world.expected = {(seq, id) for seq, id in world.expected if seq != victim}
    Pipeline(spark, settings_of(world, tmp_path, until_idle=True)).run()
    world.check()
    (letter,) = world.broker.dead_letters()
    assert letter.kind == "match"
    assert "there is no event type 'none'" in letter.reason


def write_files(world: World, folder: Path, name: str, texts: list[str]) -> None:
    unfinished = folder.parent / f"{name}.tmp"
    unfinished.write_text("\n".join(texts) + "\n")
    unfinished.rename(folder / name)


def test_files_are_stored_once_also_when_they_come_late_or_twice(
    spark: "SparkSession", world: World, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    world.subscribe(15)
    texts = [event_text(world.random, world.schema) for _ in range(20)]
    named = [f'{{"ref": "{at}", {text[1:]}' for at, text in enumerate(texts)]
    assert all(msgspec.json.decode(text)["ref"] for text in named)
    source = FileSource(str(folder), "jsonl")
    write_files(world, folder, "a.jsonl", [*texts[:10], "nonsense", texts[0]])
    Pipeline(spark, settings_of(world, tmp_path, source=source, until_idle=True)).run()
    write_files(world, folder, "late.jsonl", texts[10:])
    Pipeline(spark, settings_of(world, tmp_path, source=source, until_idle=True)).run()
    store = world.broker._core.store
    with store.read() as connection:
        from tocsin.store.events import read_events

        found = read_events(connection, 0, 1000)
    assert len(found) == 21, "each line is an event, also two that say the same"
    for event in found:
        admitted = world.schema.admit(msgspec.json.decode(event.body))
        world.expected |= {(event.seq, id) for id, bound in world.live.items() if evaluate(bound, admitted)}
    world.check()
    assert len(world.broker.dead_letters()) == 1
    with pytest.raises(CheckpointLost, match="accept-lost-checkpoint"):
        Pipeline(
            spark, PipelineSettings(store=world.store, checkpoint=str(tmp_path / "c2"), source=source, until_idle=True)
        ).run()
    again = PipelineSettings(
        store=world.store, checkpoint=str(tmp_path / "c2"), source=source, until_idle=True, accept_lost_checkpoint=True
    )
    Pipeline(spark, again).run()
    world.check()


def test_other_sinks_get_notifications_with_their_ids_and_the_archive_the_events(
    spark: "SparkSession", world: World, tmp_path: Path
) -> None:
    world.subscribe(15)
    world.publish(12)
    sink = Sink("parquet", str(tmp_path / "out"))
    Pipeline(spark, settings_of(world, tmp_path, sink=sink, until_idle=True, archive=str(tmp_path / "archive"))).run()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {(row.seq, row.subscription) for row in rows} == world.expected
    assert len({row.id for row in rows}) == len(rows)
    archived = spark.read.parquet(str(tmp_path / "archive"))
    assert archived.count() == 12
    assert "date" in archived.columns
