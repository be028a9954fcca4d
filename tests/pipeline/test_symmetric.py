"""Symmetric matching on Spark against the definition, and after a program's new version."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.symmetric.worlds import MARKET, random_offer, random_subscription
from tocsin.pipeline.symmetric import SymmetricBatches, match_symmetric
from tocsin.schema.files import dumps
from tocsin.symmetric import Matchmaker, decide
from tocsin.symmetric.load import program_from

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def program(version: int) -> dict[str, Any]:
    return {
        "name": "tariff", "version": version, "parameters": {"age": "int", "years": "int"}, "returns": "float",
        "expression": f"age * {version} / years",
    }  # fmt: skip


def written(folder: Path, version: int) -> tuple[Path, Path]:
    draw = random.Random(7)
    lines = [json.dumps({"id": id, "text": random_subscription(draw)}) for id in range(30)]
    (folder / "subscribers.jsonl").write_text("\n".join(lines))
    (folder / "programs.jsonl").write_text("\n".join(json.dumps(program(one)) for one in range(1, version + 1)))
    return folder / "subscribers.jsonl", folder / "programs.jsonl"


def offers(count: int) -> list[tuple[str, str]]:
    draw = random.Random(8)
    made: list[tuple[str, str]] = []
    while len(made) < count:
        offer = random_offer(draw)
        offer["dynamic"] = {"price": "program('tariff', age, years)"}
        offer["rules"] = [rule for rule in offer["rules"] if "program" not in rule]
        offer["event"].pop("price", None)
        made.append((str(len(made)), json.dumps(offer, default=lambda value: value.isoformat())))
    return made


def defined(folder: Path, version: int, asked: list[tuple[str, str]]) -> set[tuple[str, str, Any, Any]]:
    """Return what the definition says of every pair."""
    market = Matchmaker(MARKET)
    market.programs.register(program_from(program(version), market))
    found: set[tuple[str, str, Any, Any]] = set()
    analysed = [(id, market.analyse(json.loads(offer))) for id, offer in asked]
    for line in (folder / "subscribers.jsonl").read_text().splitlines():
        document = json.loads(line)
        subscriber = market.bind_subscriber(document["id"], document["text"])
        for id, offer in analysed:
            verdict = decide(offer, subscriber, market.meeting)
            if verdict.matched:
                found.add((id, str(subscriber.id), verdict.values["price"], None))
            elif verdict.failure is not None:
                found.add((id, str(subscriber.id), None, verdict.failure))
    return found


def read(rows: list[dict[str, Any]]) -> set[tuple[str, str, Any, Any]]:
    return {
        (row["offer"], row["subscriber"], json.loads(row["values"])["price"] if row["values"] else None, row["failure"])
        for row in rows
    }


def test_a_worker_takes_up_a_programs_new_version(tmp_path: Path) -> None:
    subscribers, programs = written(tmp_path, 1)
    asked = offers(10)
    batch = pa.RecordBatch.from_pylist([{"id": id, "document": document} for id, document in asked])
    worker = SymmetricBatches(dumps(MARKET, "json"), None, str(subscribers), str(programs))
    (first,) = worker(iter([batch]))
    assert read(first.to_pylist()) == defined(tmp_path, 1, asked)
    programs.write_text("\n".join(json.dumps(program(version)) for version in (1, 2)))
    (second,) = worker(iter([batch]))
    assert read(second.to_pylist()) == defined(tmp_path, 2, asked)
    assert read(second.to_pylist()) != read(first.to_pylist())


def test_a_bad_offer_gives_a_row_with_its_reason(tmp_path: Path) -> None:
    subscribers, _ = written(tmp_path, 1)
    batch = pa.RecordBatch.from_pylist([{"id": "x", "document": '{"event": {"prise": 1}}'}])
    (found,) = SymmetricBatches(dumps(MARKET, "json"), None, str(subscribers), None)(iter([batch]))
    (row,) = found.to_pylist()
    assert (row["subscriber"], "did you mean price" in row["failure"]) == (None, True)


@pytest.mark.slow
def test_spark_matches_as_the_definition_says(spark: SparkSession, tmp_path: Path) -> None:
    subscribers, programs = written(tmp_path, 2)
    asked = offers(12)
    frame = spark.createDataFrame(asked, "id string, document string")
    found = match_symmetric(frame, subscribers, schema=MARKET, programs=programs)
    assert read([row.asDict() for row in found.collect()]) == defined(tmp_path, 2, asked)
