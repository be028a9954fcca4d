"""Offers where the pipeline matches: by the workers, as of their seqs, stored once, with the programs of now."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from tests.pipeline.offer_worlds import OfferWorld
from tocsin.broker import Broker
from tocsin.broker.admission import OfferAdmission
from tocsin.pipeline.ingest import IncomingEvent, ingest
from tocsin.pipeline.log_query import store_batch
from tocsin.pipeline.run import Pipeline, PipelineSettings, Sink
from tocsin.pipeline.store_source import SeqRange, StoreEventReader, StoreMatchReader
from tocsin.pipeline.stored_matching import MatchStored, NotificationRows
from tocsin.schema.examples import load_example

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = load_example("insurance")
EVENT = {"event_type": "insurance", "name": "Company B", "cover": "Full"}
A2: dict[str, Any] = {
    "event": EVENT,
    "rules": ["age >= 40 and years_ncd >= 3"],
    "dynamic": {"price": "program('share', age, years_ncd)"},
}
BOB = "insurance with name = 'Bob', age = 48, years_ncd = 8"
SHARE = """
[programs.share]
version = {version}
parameters = {{ age = "int", years_ncd = "int" }}
returns = "float"
callable = "operator:{function}"
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[OfferWorld]:
    world = OfferWorld(tmp_path, 11)
    yield world
    world.broker.close()


def told(broker: Broker, owner: str) -> list[Any]:
    return [one.event.get("price") for one in broker.notifications(owner)]


def write(place: Path, version: int, function: str) -> str:
    place.write_text(SHARE.format(version=version, function=function))
    return str(place)


# --- without Spark: what workers and the driver run ---------------------------------------------------------------------


NEVER = pytest.mark.xfail(
    strict=True,
    reason="count between 7 and 2, of a count that cannot be computed: the index has no row for what never holds",
)


@pytest.mark.parametrize(
    ("seed", "engine"),
    [pytest.param(0, "columnar", marks=NEVER), *((seed, "columnar") for seed in range(1, 5)), (5, "definition")],
)
def test_workers_match_random_offers_and_churn_as_the_definition_says(tmp_path: Path, seed: int, engine: str) -> None:
    world = OfferWorld(tmp_path, seed, engine)
    world.subscribe(12)
    for lap in range(4):
        world.churn(5)
        begin = world.broker.store.meta().matched_through
        world.match()
        again = world.match(after_seq=begin)  # replayed, its commit lost
        assert (again.events, again.matches, again.dead_letters) == (0, 0, 0)
        if lap == 1:
            world.next_version()
    world.check()
    assert world.failing
    assert any(world.expected.values())
    world.broker.close()


def test_a_batch_that_is_cut_otherwise_when_it_is_replayed_stores_nothing_twice(world: OfferWorld) -> None:
    world.subscribe(15)
    world.churn(6)
    first = world.match()
    assert first.matches == len(world.expected)
    world.churn(6)
    stored = world.match(after_seq=0)
    assert stored.matches == len(world.expected) - first.matches
    world.check()


def test_a_programs_new_version_is_taken_up_and_nothing_of_the_old_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place, file = str(tmp_path / "market.db"), tmp_path / "programs.toml"
    programs = write(file, 1, "truediv")
    with Broker.open(place, schema=SCHEMA, matching="pipeline", programs=programs) as broker:
        for owner in ("bob", "bill"):
            broker.subscribe(BOB, owner=owner)
        worker = StoreMatchReader({"store": place, "programs": programs})

        def publish_and_match() -> tuple[int, int]:
            broker.publish(A2)
            return match()

        def match() -> tuple[int, int]:
            stands = broker.store.meta()
            (rows,) = worker.read(SeqRange(stands.matched_through, stands.matched_through, stands.seq))
            stored = store_batch(broker.store, pa.Table.from_batches([rows]))
            return stored.cache_hits, stored.cache_misses

        assert publish_and_match() == (0, 1)  # both ask for the same
        assert publish_and_match() == (1, 0)
        write(file, 2, "mul")
        assert publish_and_match() == (0, 1)
        with caplog.at_level(logging.WARNING, "tocsin.programs"):
            write(file, 2, "floordiv")  # not announced by a version
            assert publish_and_match() == (1, 0)
            assert "has changed, but not its version" in caplog.text
            file.write_text("half a fi")
            assert publish_and_match() == (1, 0)
            assert "stay as they were" in caplog.text
        write(file, 1, "sub")  # taken back
        assert publish_and_match() == (0, 1)
        assert told(broker, "bob") == told(broker, "bill") == [6.0, 6.0, 384.0, 384.0, 384.0, 40.0]
        broker.publish(A2)
        file.write_text("[programs]\n")
        assert match() == (0, 0)
        (letter,) = broker.dead_letters()
        assert letter.kind == "match"
        assert "share" in letter.reason
        assert len(told(broker, "bob")) == 6


def test_other_sinks_are_told_the_computed_values(world: OfferWorld) -> None:
    world.subscribe(15)
    world.publish(20)
    log = StoreEventReader({"store": world.store, "start": "0"}).read(SeqRange(0, 0, world.broker.store.meta().seq))
    matched = MatchStored(world.store, with_body=True, programs=str(world.programs))(log)
    rows = [row for batch in NotificationRows()(matched) for row in batch.to_pylist()]
    found = {
        (row["seq"], row["subscription"]): {name: msgspec.json.decode(row["event"])[name] for name in row["computed"]}
        for row in rows
    }
    assert found == world.expected
    assert any(found.values())


def test_offers_from_outside_are_stored_once_and_matched(tmp_path: Path) -> None:
    place = str(tmp_path / "market.db")
    offer = {**A2, "dynamic": {"price": "10 * age"}, "ttl_seconds": 60}
    incoming = [
        IncomingEvent(str(at), msgspec.json.encode(one).decode())
        for at, one in enumerate([offer, {**offer, "rules": 3}])
    ]
    with Broker.open(place, schema=SCHEMA, matching="pipeline") as broker:
        broker.subscribe(BOB, owner="bob")
        for expected in (1, 0):
            done = ingest(broker.store, "files", incoming, offers=OfferAdmission())
            assert done.events == expected
        assert [one.event["price"] for one in broker.held_offers.query(BOB)] == [480]
        assert broker.match_backlog() == 1
        assert told(broker, "bob") == [480]
        (letter,) = broker.dead_letters()
        assert letter.kind == "event"


# --- on Spark -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_pipeline_matches_offers_with_churn_as_the_definition_says(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    world = OfferWorld(tmp_path, 100 + seed)
    world.subscribe(20)
    settings = PipelineSettings(
        store=world.store, checkpoint=str(tmp_path / "checkpoint"), until_idle=True, events_per_batch=15,
        programs=str(world.programs),
    )  # fmt: skip
    for lap in range(3):
        world.churn(8)
        if lap == 0:
            check_rows(spark, world, tmp_path)
        pipeline = Pipeline(spark, settings)
        pipeline.run()
        assert pipeline.meter.figures().cache_misses > 0
        commits = sorted((tmp_path / "checkpoint" / "match" / "commits").glob("[0-9]*"), key=lambda at: int(at.name))
        commits[-1].unlink()  # the last batch is replayed
        (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
        if lap == 0:
            world.next_version()
    world.check()
    assert world.failing
    assert any(world.expected.values())
    world.broker.close()


def check_rows(spark: SparkSession, world: OfferWorld, tmp_path: Path) -> None:
    """Write notifications as JSON lines, and hold them against what is expected."""
    settings = PipelineSettings(
        store=world.store, checkpoint=str(tmp_path / "rows"), name="rows", sink=Sink("jsonl", str(tmp_path / "out")),
        until_idle=True, programs=str(world.programs),
    )  # fmt: skip
    Pipeline(spark, settings).run()
    found = {
        (row.seq, row.subscription): {name: msgspec.json.decode(row.event)[name] for name in row.computed}
        for row in spark.read.json(str(tmp_path / "out")).collect()
    }
    assert found == world.expected
