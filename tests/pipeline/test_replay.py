"""A micro-batch that is run again gives the sink the same bytes, whatever changed; and Spark says what the definition says.

The world is that of test_match_everything.py: operators, formulas, properties, offers, plain events, failures.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from tests.offers.worlds import MARKET
from tests.pipeline.test_follow_folder import wait_for_effect
from tests.pipeline.test_match_everything import HERE, TARIFF, defined, market_operators, offers, subscriptions
from tests.pipeline.worlds import write_table
from tocsin.broker import Broker
from tocsin.spark import match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMS: list[dict[str, Any]] = [
    {"output": "pairs"},
    {"output": "pairs", "details": True, "failures": "keep", "invalid": "keep"},
    {"output": "lists"},
    {"output": "counts", "invalid": "keep"},
]


def write_world(folder: Path, seed: int) -> tuple[dict[str, str], dict[int, str], Path]:
    """Write a table of several segments and a file of programs; return subscriptions and events."""
    draw = random.Random(seed)
    texts, events = subscriptions(draw, 40), offers(draw, 30)
    programs = folder / "programs.toml"
    programs.write_text(TARIFF.format(version=1))
    lines = [json.dumps({"id": id, "text": text}) for id, text in texts.items()]
    assert not write_table(folder / "table", lines, MARKET, operators=market_operators(), per_segment=15)
    return texts, events, programs


def options(programs: Path, form: dict[str, Any]) -> dict[str, Any]:
    return {"event_id": "id", "event_json": "body", "operators": HERE, "programs": str(programs), **form}


def test_on_spark_every_form_sharded_or_not_says_what_the_definition_says(spark: SparkSession, tmp_path: Path) -> None:
    texts, events, programs = write_world(tmp_path, 3)
    expected = defined(texts, events, programs)
    matched = sorted(pair for pair, told in expected.items() if told[2] is None)
    failed = sorted(pair for pair, told in expected.items() if told[2] is not None)
    assert failed
    rows = spark.createDataFrame([*events.items(), (99, "{")], "id long, body string")
    given = spark.createDataFrame(list(texts.items()), "id string, text string")
    frames: list[tuple[Any, dict[str, Any]]] = [
        (tmp_path / "table", {}), (tmp_path / "table", {"how": "shards", "shard_bytes": 1}), (given, {"schema": MARKET}),
    ]  # fmt: skip
    for subscribed, how in frames:
        pairs = match(rows, subscribed, **options(programs, FORMS[1]), **how).collect()
        assert [(row.id, row.subscription) for row in pairs if row.invalid] == [(99, None)]
        assert sorted((row.id, row.subscription) for row in pairs if row.failure) == failed
        found = {
            (row.id, row.subscription): (row.bindings, row.computed)
            for row in pairs
            if not (row.failure or row.invalid)
        }
        assert sorted(found) == matched
        assert {pair: tuple(map(_read, told)) for pair, told in found.items()} == {
            pair: told[:2] for pair, told in expected.items() if told[2] is None
        }
        lists = {
            row.id: sorted(row.subscriptions)
            for row in match(rows, subscribed, **options(programs, FORMS[2]), **how).collect()
        }
        assert lists == {at: [id for each, id in matched if each == at] for at in events}
        counts = {
            row.id: row.matches for row in match(rows, subscribed, **options(programs, FORMS[3]), **how).collect()
        }
        assert counts == {**{at: len(lists[at]) for at in events}, 99: 0}


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_a_micro_batch_that_is_run_again_gives_the_sink_the_same_bytes(
    spark: SparkSession, tmp_path: Path, form: int
) -> None:
    _, events, programs = write_world(tmp_path, 4)
    spark.createDataFrame([*events.items(), (99, "{")], "id long, body string").coalesce(1).write.parquet(
        str(tmp_path / "in")
    )
    incoming = spark.readStream.schema("id long, body string").parquet(str(tmp_path / "in"))
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"

    def run(matched: DataFrame) -> list[bytes]:
        writer = matched.writeStream.format("parquet").option("path", str(out))
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
        return sorted(path.read_bytes() for path in out.glob("*.parquet"))

    given = options(programs, FORMS[form])
    first = run(match(incoming, tmp_path / "table", **given))
    assert sum(map(len, first)) > 0
    for change in (["{}"], [json.dumps({"id": "new", "text": "car"})]):
        write_table(tmp_path / "table", change, MARKET, operators=market_operators())
    wait_for_effect(tmp_path / "table")
    shutil.rmtree(out)
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    assert run(match(incoming, tmp_path / "table", **given)) == first


def test_finding_7_workers_map_the_shared_index_of_a_postgresql_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: str
) -> None:
    from tests.databases import new_database
    from tocsin.broker.live_index import LiveIndex
    from tocsin.pipeline import followers
    from tocsin.schema import Schema

    place, folder = new_database(postgres), tmp_path / "shared"
    schema = Schema.infer([{"price": 900.0}])
    monkeypatch.setattr(followers, "WORTH_SAVING", 10)
    monkeypatch.setattr(followers, "STALE_SEQS", 5)
    with Broker.open(place, schema=schema, matching="pipeline", sweep=False) as broker:
        for bound in range(20):
            broker.subscribe(f"price > {bound}", owner="ada")
        followers.save_for_workers(place, str(folder))
        assert (folder / "manifest.json").exists()
        built: list[int] = []
        load = LiveIndex.load

        def counted(self: LiveIndex, chunks: Any, schema: Schema) -> None:
            listed = list(chunks)
            built.append(sum(map(len, listed)))
            load(self, listed, schema)

        monkeypatch.setattr(LiveIndex, "load", counted)
        follower = followers.Follower(place, folder=str(folder))
        assert (len(follower), sum(built)) == (20, 0)  # nothing is read from the database
        broker.subscribe("price > 100", owner="bob")
        follower.refresh()
        assert len(follower) == 21
        event = schema.admit({"price": 12.5})
        found = follower.match([broker.store.meta().seq + 1], [broker.store.now_us()], [event])
        assert len(found.subscription) == 13
    followers._open.pop((os.getpid(), place)).close()
