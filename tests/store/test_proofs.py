"""What is kept can be proved: seals, checksums, heads kept elsewhere, backups that are verified, the log matched again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from tests.broker.market import car, open_broker
from tests.clocks import ManualClock
from tests.store.test_store import filled
from tocsin.broker import BrokerSettings
from tocsin.broker.upkeep import audit
from tocsin.cli.app import app
from tocsin.errors import StoreDamaged, TocsinError
from tocsin.store import Store, database, seals
from tocsin.store.backup import backup, restore
from tocsin.store.database import DIGESTS
from tocsin.store.seals import check

DAMAGES = {
    "the events": "UPDATE events SET body = :body WHERE seq = (SELECT max(seq) FROM events)",
    "the notifications": "DELETE FROM notifications WHERE first_seq = (SELECT max(first_seq) FROM notifications)",
    "its checksum": "UPDATE subscriptions SET text = 'car where price < 2' WHERE id = (SELECT min(id) FROM subscriptions)",
    "does not follow": "UPDATE seals SET head = :body WHERE through_seq = (SELECT max(through_seq) FROM seals)",
}


def execute(place: str, statement: str) -> None:
    engine = database.connect(place)
    with engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        facts = {"body": b'{"event_type":"car","price":3}'} if ":body" in statement else {}
        connection.execute(text(statement), facts)
    engine.dispose()


def problems(place: str, **more: object) -> list[str]:
    store = Store.open(place, accept_clock=True)
    try:
        return check(store, **more)  # type: ignore[arg-type]
    finally:
        store.close()


def sealed(place: str) -> tuple[int, str]:
    """Fill a store and seal it; return its head."""
    clock = ManualClock()
    filled(place, clock)
    with open_broker(place, clock) as broker:
        assert seals.seal(broker.store) == 2  # where it begins, and what there is
        assert seals.seal(broker.store) == 0
        with broker.store.read() as connection:
            last = seals.newest(connection)
    assert last is not None
    return last.through_seq, last.head.hex()


@pytest.mark.parametrize(("found", "damage"), DAMAGES.items(), ids=list(DAMAGES))
def test_whatever_is_altered_after_it_was_sealed_is_found(place: str, found: str, damage: str) -> None:
    sealed(place)
    assert problems(place) == []
    execute(place, damage)
    assert any(found in one for one in problems(place)), problems(place)


def test_log_that_was_rewritten_with_its_seals_is_found_by_a_head_that_was_kept_elsewhere(place: str) -> None:
    kept = sealed(place)
    assert problems(place, heads=[kept]) == []
    execute(place, DAMAGES["the events"])
    execute(place, "DELETE FROM seals")
    store = Store.open(place, accept_clock=True)
    seals.seal(store)
    store.close()
    assert problems(place) == []  # by itself it is in order
    (wrong,) = problems(place, heads=[kept])
    assert "kept elsewhere" in wrong
    (absent,) = problems(place, heads=[(99, "00")])
    assert "no head at seq 99" in absent


def test_heads_go_on_over_what_the_retention_removes(place: str) -> None:
    clock = ManualClock()
    settings = BrokerSettings(retention_seconds=3600)
    with open_broker(place, clock, settings=settings) as broker:
        lasting = broker.subscribe("car", owner="ada", lease=86400 * 30)
        for day in range(4):
            broker.publish([car(price) for price in range(5)])
            broker.sweep()
            clock.advance(3000 * (1 + day))
        broker.sweep()
        with broker.store.read() as connection:
            assert len(connection.execute(text("SELECT * FROM seals")).all()) < 4
        assert check(broker.store) == []
        assert lasting.id > 0


def flip(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([byte ^ 1]))


def test_flipped_bit_inside_a_backup_is_never_restored(tmp_path: Path) -> None:
    place, file = str(tmp_path / "store.db"), tmp_path / "b.backup"
    filled(place, ManualClock())
    backup(place, file)
    good = file.read_bytes()
    places = [good.index(part) for part in (b'"price":2', b"car where price < 3", b"ada")]
    for number, at in enumerate([*places, *range(4096 + 64, len(good), 9973)]):
        file.write_bytes(good)
        flip(file, at)
        target = tmp_path / f"{number}.db"
        refused = refusal(target, file)
        assert refused is not None or at not in places
        if refused is None:
            assert problems(str(target)) == []  # it was nobody's: free space
        else:
            assert isinstance(refused, StoreDamaged) or at not in places
            assert not target.exists()


def refusal(target: Path, file: Path) -> TocsinError | None:
    """Return why a backup was not restored; a flip may also make it one of another version, or no SQLite file."""
    try:
        restore(target, file)
    except TocsinError as error:
        return error
    return None


def test_backup_carries_digests_and_an_older_one_is_digested_anew_when_it_is_upgraded(tmp_path: Path) -> None:
    place, file = str(tmp_path / "store.db"), tmp_path / "b.backup"
    filled(place, ManualClock())
    backup(place, file)
    run = CliRunner()
    assert run.invoke(app, ["db", "upgrade", str(file)]).exit_code == 0
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute(f"SELECT count(*) FROM {DIGESTS}").fetchone()[0] > 20
        connection.execute("UPDATE accounts SET role = 'admin' WHERE name = 'bob'")
    with pytest.raises(StoreDamaged, match="accounts"):
        restore(tmp_path / "other.db", file)
    assert not (tmp_path / "other.db").exists()


def test_log_is_matched_again_by_the_definition_and_any_difference_is_told(place: str) -> None:
    clock = ManualClock()
    filled(place, clock)
    with open_broker(place, clock) as broker:
        first = broker.subscribe("car where price > 1", owner="ada", lease=60)
        clock.advance(61)
        broker.publish([car(3), car(0)])
        broker.replace(broker.subscribe("car where price < 2", owner="bob").id, "car where price > 2", owner="bob")
        broker.publish([car(1), car(4)])
        found = audit(broker.store)
        assert found.is_well
        assert (found.events, found.pairs) == (9, 9 * found.subscriptions)
        assert found.subscriptions >= 5
        sample = audit(broker.store, most_events=3, most_subscriptions=2, seed=7)
        assert (sample.events, sample.subscriptions, sample.is_well) == (3, 2, True)
        assert first.id
    execute(place, "DELETE FROM notifications WHERE first_seq = (SELECT max(first_seq) FROM notifications)")
    run = CliRunner()
    told = run.invoke(app, ["db", "audit", place, "--all", "--json"])
    assert told.exit_code == 1
    document = json.loads(told.stdout)
    assert document["missing"]
    assert document["invented"] == []


def test_head_is_printed_and_held_against_the_store(tmp_path: Path) -> None:
    place = str(tmp_path / "store.db")
    with open_broker(place) as broker:
        broker.subscribe("car", owner="ada")
        broker.publish([car(1), car(2)])
    run = CliRunner()
    head = run.invoke(app, ["db", "head", place]).stdout.strip()
    assert run.invoke(app, ["db", "check", place, "--head", head]).exit_code == 0
    wrong = head[:-1] + ("0" if head[-1] != "0" else "1")
    assert run.invoke(app, ["db", "check", place, "--head", wrong]).exit_code == 1
