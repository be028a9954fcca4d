"""Disks that fail, lose power or fill up, and connections that break: clean errors, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.broker.market import car, open_broker, seqs_of
from tests.databases import new_database
from tests.store.faulty_disk import FULL, FaultyDisk, library
from tests.torture.verdict import Lines, judge
from tocsin.broker import Broker
from tocsin.errors import StoreFailed
from tocsin.store import database
from tocsin.store.seals import check


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    sqlite = library()
    if sqlite is None:
        pytest.skip("Python's SQLite is not a library of its own here, so nothing can be put beneath it")
    with FaultyDisk(sqlite) as disk:
        yield disk


@pytest.fixture
def empty_store(tmp_path: Path) -> Path:
    path = tmp_path / "empty.db"
    open_broker(str(path)).close()
    return path


def attempt(lines: Lines, kind: str, facts: list[Any], action: Callable[[], list[Any]]) -> bool:
    """Do something, and write down whether it was acknowledged; return whether it was."""
    lines.append([f"ask {kind}", *facts])
    try:
        lines.append(
            [{"publish": "published", "subscribe": "subscribed", "unsubscribe": "unsubscribed"}[kind], *action()]
        )
    except StoreFailed:
        return False
    return True


def scenario(broker: Broker, lines: Lines) -> None:
    """A bit of everything; what fails, fails with StoreFailed and nothing else."""
    ids = []
    for number in range(3):

        def subscribe() -> list[Any]:
            receipt = broker.subscribe("car where price < 5", owner="ada")
            ids.append(receipt.id)
            return [receipt.id, "ada", receipt.ticket]

        attempt(lines, "subscribe", [str(number)], subscribe)
    for number in range(4):
        events = [car(price, brand=f"b{number}.{price}") for price in range(1 + number * 3)]

        def publish(number: int = number, events: list[dict[str, Any]] = events) -> list[Any]:
            receipts = broker.publish(events, idempotency_key=f"b{number}")
            return [f"b{number}", [receipt.seq for receipt in receipts]]

        attempt(lines, "publish", [f"b{number}", events], publish)
    if ids:
        attempt(lines, "unsubscribe", [ids[0]], lambda: [ids[0], broker.unsubscribe(ids[0], owner="ada").seq])


@pytest.mark.parametrize(("code", "times"), [(None, 1), (FULL, 10**9), (None, 10**9)], ids=["once", "full", "broken"])
def test_every_write_and_sync_may_fail_and_nothing_acknowledged_is_lost(
    disk: FaultyDisk, empty_store: Path, tmp_path: Path, code: int | None, times: int
) -> None:
    call, faults, step = 1, 0, 1
    while True:
        path = tmp_path / f"call{call}.db"
        shutil.copy(empty_store, path)
        lines: Lines = []
        disk.heal()
        broker = open_broker(str(path))
        disk.fail_at(call, code, times=times)
        scenario(broker, lines)
        reached = disk.calls >= call
        disk.heal()
        broker.publish(car(1, brand="after.0"))  # the same process goes on when the disk does
        broker.store.close()
        verdict, _ = judge(str(path), lines, 0, "definition")
        assert verdict.problems == [], f"call {call} failed"
        if not reached:
            break
        faults += len(lines) % 2
        call += step
        step = 1 if call < 20 else 3
    assert call > 30


@pytest.mark.parametrize("cut_at", ["publish", "subscribe", "unsubscribe"])
def test_power_cut_loses_nothing_acknowledged(disk: FaultyDisk, empty_store: Path, tmp_path: Path, cut_at: str) -> None:
    lines: Lines = []
    broker = open_broker(str(empty_store))
    scenario(broker, lines)
    while lines[-1][0].startswith("ask") or cut_at not in lines[-2][0]:
        lines.pop()  # acknowledged later than the moment we look at is still acknowledged; keep what came before
    verdict = _after_power_cut(disk, broker, tmp_path, lines)
    assert verdict == []


def test_control_weaker_durability_loses_acknowledged_events_in_a_power_cut(
    disk: FaultyDisk, empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This is what shows that the test above can fail: SQLite's own default for WAL, one step weaker than ours.
    monkeypatch.setitem(database.SQLITE_DURABILITY, "synchronous", 1)
    lines: Lines = []
    broker = open_broker(str(empty_store))
    scenario(broker, lines)
    assert any("lost" in problem for problem in _after_power_cut(disk, broker, tmp_path, lines))


def _after_power_cut(disk: FaultyDisk, broker: Broker, tmp_path: Path, lines: Lines) -> list[str]:
    after = tmp_path / "after"
    after.mkdir()
    disk.cut_power(after)
    broker.store.close()
    verdict, _ = judge(str(after / "empty.db"), lines, 0, "definition")
    return verdict.problems


def test_file_size_limit_of_the_operating_system_is_a_clean_error(empty_store: Path) -> None:
    """The operating system itself refuses to let the file grow: no layer of ours in between."""
    import resource

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        broker = open_broker(str(empty_store))
        broker.subscribe("car", owner="ada")
        grown = os.path.getsize(f"{empty_store}-wal") + 100_000  # noqa: PTH202 - no surprises in a forked process
        resource.setrlimit(resource.RLIMIT_FSIZE, (grown, grown))
        outcome = b""
        for price in range(1000):
            try:
                receipt = broker.publish([car(price, brand="x" * 1000)] * 5)
            except StoreFailed:
                outcome = b"refused"
                break
            os.write(writer, f"{receipt[-1].seq}\n".encode())
        os.write(writer, outcome)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines = pipe.read().split(b"\n")
    os.waitpid(child, 0)
    assert lines[-1] == b"refused"
    with open_broker(str(empty_store)) as broker:
        stored = {seq for seq, _ in seqs_of(broker, "ada")}
        assert {int(line) for line in lines[:-1]} <= stored
        assert len(lines) > 1
        assert check(broker.store) == []
        assert broker.publish(car(1)).accepted


def test_full_database_is_a_clean_error(tmp_path: Path) -> None:
    with open_broker(str(tmp_path / "store.db")) as broker:
        mine = broker.subscribe("car", owner="ada")
        with broker.store.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        broker.store.engine.dispose()

        from sqlalchemy import event

        def limit(connection: Any, _record: object) -> None:
            connection.execute(f"PRAGMA max_page_count = {pages}")

        event.listen(broker.store.engine, "connect", limit)
        with pytest.raises(StoreFailed):
            broker.publish([car(1, brand="x" * 1000)] * 100)
        event.remove(broker.store.engine, "connect", limit)
        broker.store.engine.dispose()
        assert seqs_of(broker, "ada") == []
        event_receipt = broker.publish(car(1))
        assert seqs_of(broker, "ada") == [(event_receipt.seq, mine.id)]


def test_broken_connection_to_postgres_is_a_clean_error_and_the_broker_goes_on(postgres: str) -> None:
    place = new_database(postgres)
    with open_broker(place) as broker:
        mine = broker.subscribe("car", owner="ada")

        def break_off() -> None:
            with psycopg.connect(place, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

        with pytest.raises(StoreFailed), broker._core.commit():
            break_off()  # in the middle of a transaction
        event = broker.publish(car(1))
        break_off()  # between two
        later = broker.publish(car(2))
        assert seqs_of(broker, "ada") == [(event.seq, mine.id), (later.seq, mine.id)]
