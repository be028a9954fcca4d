"""Finding 6: tables on file systems that are reached by name, and executors that do not see the driver's disk."""

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.errors import FileError
from tocsin.pipeline import remote_folder
from tocsin.pipeline.given_subscriptions import _temporary_folder, release_subscriptions
from tocsin.pipeline.match_batches import MOST_OPEN, _indexes, open_index
from tocsin.pipeline.open_index import FolderIndex, IndexReference
from tocsin.pipeline.remote_folder import RemoteFolder, is_remote
from tocsin.pipeline.subscription_table import SubscriptionTable, is_folder, read_manifest
from tocsin.schema import Schema

SCHEMA = Schema.infer([{"price": 900.0, "brand": "mini"}])


def line(id: str, text: str) -> str:
    return json.dumps({"id": id, "text": text})


def found(index: FolderIndex, version: int | None, price: float) -> list[str]:
    index.refresh(version)
    event = SCHEMA.admit({"price": price, "brand": "mini"})
    return sorted(index.match_events([event], None, None).ids_of(0))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(remote_folder.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def place(cache: Path) -> Iterator[str]:
    import fsspec

    name = f"memory://{uuid.uuid4().hex}/wishes"
    yield name
    fsspec.filesystem("memory").rm(name.removeprefix("memory:/").rsplit("/", 1)[0], recursive=True)


def test_finding_6_a_table_on_any_file_system_is_what_a_folder_is(place: str, tmp_path: Path) -> None:
    there, here = SubscriptionTable(place, SCHEMA, documents=True), SubscriptionTable(
        tmp_path / "here", SCHEMA, documents=True
    )  # fmt: skip
    assert not is_folder(place)
    for table in (there, here):
        table.replace([line("a", "price < 1000"), line("b", "price > 500"), "{"])
        table.upsert([line("a", "price > 2000"), line("c", "brand = 'mini'")])
        table.delete(["b"])
    assert is_folder(place)
    assert len(there) == 2
    for version in (1, 2, 3):
        for price in (100.0, 700.0, 2500.0):
            expected = found(FolderIndex(tmp_path / "here"), version, price)
            assert found(FolderIndex(place), version, price) == expected
    told = [
        [(each.version, each.operation, each.subscriptions, each.quarantined) for each in table.history()]
        for table in (there, here)
    ]
    assert told[0] == told[1]
    assert [bad.line for bad in there.quarantine(1)] == ["{"]
    assert there.replace([line("c", "brand = 'mini'"), line("a", "price > 2000")]).version == 3  # nothing is new
    index = FolderIndex(place)
    index.refresh(None)
    assert json.loads(index.document("a"))["text"] == "price > 2000"


def test_finding_6_a_host_fetches_a_file_once(place: str, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    SubscriptionTable(place, SCHEMA).replace([line("a", "price < 1000")])
    shutil.rmtree(cache)  # another host
    fetched: list[str] = []
    fetch = RemoteFolder._fetch

    def count(self: RemoteFolder, name: str) -> bool:
        fetched.append(name)
        return fetch(self, name)

    monkeypatch.setattr(RemoteFolder, "_fetch", count)
    for _ in range(3):
        assert found(FolderIndex(place), None, 10.0) == ["a"]
    assert sorted(fetched) == sorted(set(fetched))
    before = len(fetched)
    SubscriptionTable(place, SCHEMA).upsert([line("b", "price < 2000")])
    assert found(FolderIndex(place), None, 10.0) == ["a", "b"]
    assert "00000001.segment" not in fetched[before:]


def test_finding_6_what_a_table_made_anew_names_is_not_taken_for_the_old(place: str) -> None:
    import fsspec

    SubscriptionTable(place, SCHEMA).replace([line("a", "price < 1000")])
    index = FolderIndex(place)
    assert found(index, None, 10.0) == ["a"]
    fsspec.filesystem("memory").rm(place.removeprefix("memory:/"), recursive=True)
    SubscriptionTable(place, SCHEMA).replace([line("b", "price < 9000")])
    assert found(FolderIndex(place), None, 10.0) == ["b"]


def test_finding_6_two_who_write_at_once_are_noticed(place: str) -> None:
    table = SubscriptionTable(place, SCHEMA)
    table.replace([line("a", "price < 1000")])
    folder = RemoteFolder(place, keep_versions=9)
    index, _ = folder.load(SCHEMA, verify=False)
    folder._put("00000002.manifest", b"{}")  # the other one
    with pytest.raises(FileError, match="another has written version 2 meanwhile"):
        folder.save(index, 0)


def test_finding_6_a_file_system_that_is_not_there_is_said() -> None:
    with pytest.raises(FileError, match="cannot be reached"):
        SubscriptionTable("nosuch://bucket/wishes", SCHEMA)
    assert not is_remote("postgresql+psycopg://host/db")
    assert not is_remote("/a/folder")


def test_finding_6_temporary_folders_and_open_indexes_are_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "tocsin-subscriptions-999999999-killed"
    left.mkdir()
    mine = Path(_temporary_folder())
    assert mine.is_dir()
    assert not left.exists()
    release_subscriptions()
    assert not mine.exists()
    for at in range(MOST_OPEN + 3):
        SubscriptionTable(tmp_path / str(at), SCHEMA).replace([line("a", "price < 1")])
        open_index(IndexReference(str(tmp_path / str(at)), version=1))
    assert len(_indexes) == MOST_OPEN
    assert read_manifest(tmp_path / "0").version == 1


DRIVER = """
import shutil, sys, json
from pathlib import Path
from tocsin.pipeline.given_subscriptions import _folders
from tocsin.schema import Schema
from tocsin.spark import SubscriptionTable, match, session, write_matches

executors_tmp, table, out = sys.argv[1:]
settings = {"spark.executorEnv.TMPDIR": executors_tmp, "spark.driver.memory": "1g", "spark.local.dir": executors_tmp}
with session("local-cluster[2,1,1024]", settings=settings) as spark:
    schema = Schema.infer([{"price": 900.0, "brand": "mini"}])
    events = spark.createDataFrame([(n, float(n), "mini") for n in range(40)], "id long, price double, brand string")
    wishes = spark.createDataFrame([("low", "price < 10"), ("high", "price >= 30")], "id string, text string")
    plan = match(events, wishes, schema=schema, event_id="id", output="counts")
    explained = match(events, wishes, schema=schema, event_id="id", reasons=True)
    for folder in _folders:  # the executors see nothing of the driver's
        for path in Path(folder).iterdir():
            if path.is_file():
                path.unlink()
    counts = {row.id: row.matches for row in plan.collect()}
    reasons = explained.count()
    remote = SubscriptionTable(table, schema)
    remote.replace(wishes)
    again = {row.id: row.matches for row in match(events, remote, event_id="id", output="counts").collect()}
    shards = match(events, remote, event_id="id", output="counts", how="shards").collect()
    Path(out).write_text(json.dumps([counts, reasons, again, {row.id: row.matches for row in shards}]))
"""


@pytest.mark.slow
def test_finding_6_executors_that_see_nothing_of_the_drivers_disk_match(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("driver", "executors", "table")]
    for folder in folders:
        folder.mkdir()
    driver, executors, table = folders
    environment = {**os.environ, "TMPDIR": str(driver)}
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), str(executors), f"local://{table}/wishes", str(tmp_path / "out.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    counts, reasons, again, shards = json.loads((tmp_path / "out.json").read_text())
    expected = {str(n): int(n < 10) + int(n >= 30) for n in range(40)}
    assert counts == again == shards == expected
    assert reasons == 20
    copies = list(executors.glob("tocsin-cache-*/*/*.segment"))
    assert len(copies) == 1  # two executors of a host, one copy
    assert not list(driver.glob("tocsin-subscriptions-*"))
