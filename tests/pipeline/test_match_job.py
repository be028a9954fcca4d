"""deploy/spark/match_job.py, the application that examples submit: its sinks for real, replayed."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.project.files import ROOT
from tocsin.pipeline.subscription_table import SubscriptionTable
from tocsin.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema.infer([{"price": 900.0, "brand": "mini"}])
EXPECTED = {(str(n), "low") for n in range(10)} | {(str(n), "high") for n in range(30, 40)}


@pytest.fixture(scope="module")
def job() -> ModuleType:
    spec = importlib.util.spec_from_file_location("match_job", ROOT / "deploy" / "spark" / "match_job.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def given(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("job")
    table = SubscriptionTable(folder / "table", SCHEMA)
    table.replace(
        [json.dumps({"id": id, "text": text}) for id, text in (("low", "price < 10"), ("high", "price >= 30"))]
    )
    rows = [(str(n), json.dumps({"price": float(n), "brand": "a"})) for n in range(40)]
    spark.createDataFrame(rows, "id string, body string").write.parquet(str(folder / "events"))
    return ["--events", str(folder / "events"), "--table", table.place]


@pytest.fixture
def received() -> Iterator[dict[str, list[str]]]:
    """Give what a receiver got, by idempotency key, with its address under "url"."""
    got: dict[str, list[str]] = {}

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got[self.headers["idempotency-key"]] = body.decode().splitlines()
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            del format, arguments

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    got["url"] = [f"http://127.0.0.1:{server.server_port}/"]
    yield got
    server.shutdown()
    server.server_close()


def forget_commits(checkpoint: Path) -> None:
    """Let the last micro-batch be run again."""
    for path in (checkpoint / "commits").iterdir():
        path.unlink()


def test_a_batch_and_a_stream_into_files_give_the_same(
    job: ModuleType, given: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    job.main([*given, "--out", str(tmp_path / "batch")])
    job.main([*given, "--out", str(tmp_path / "stream"), "--checkpoint", str(tmp_path / "c"), "--until-idle"])
    forget_commits(tmp_path / "c")
    job.main([*given, "--out", str(tmp_path / "stream"), "--checkpoint", str(tmp_path / "c"), "--until-idle"])
    for name in ("batch", "stream"):
        found = [(row.id, row.subscription) for row in spark.read.parquet(str(tmp_path / name)).collect()]
        assert sorted(found) == sorted(EXPECTED), name


def test_a_webhook_gets_matches_under_keys_that_a_replay_repeats(
    job: ModuleType, given: list[str], tmp_path: Path, received: dict[str, list[str]]
) -> None:
    (url,) = received.pop("url")
    options = ["--out", f"webhook:{url}", "--checkpoint", str(tmp_path / "c"), "--until-idle"]
    job.main([*given, *options])
    first = dict(received)
    forget_commits(tmp_path / "c")
    job.main([*given, *options])
    assert received == first
    rows = [json.loads(line) for lines in received.values() for line in lines]
    assert sorted((row["id"], row["subscription"]) for row in rows) == sorted(EXPECTED)


def test_a_database_by_jdbc_has_each_match_once_after_a_replay(
    job: ModuleType, given: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    connection = spark._jvm.java.sql.DriverManager.getConnection(url)  # type: ignore[union-attr]
    statement = connection.createStatement()
    statement.executeUpdate(
        'CREATE TABLE matches ("id" VARCHAR(200) NOT NULL, "subscription" VARCHAR(200) NOT NULL, "batch" BIGINT, '
        'PRIMARY KEY ("id", "subscription"))'
    )
    options = ["--out", url, "--checkpoint", str(tmp_path / "c"), "--until-idle"]
    job.main([*given, *options])
    forget_commits(tmp_path / "c")
    job.main([*given, *options])
    found = statement.executeQuery('SELECT "id", "subscription" FROM matches')
    rows = []
    while found.next():
        rows.append((found.getString(1), found.getString(2)))
    connection.close()
    assert sorted(rows) == sorted(EXPECTED)
