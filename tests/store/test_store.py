"""The store: one seq in the order of commits, tables as the migrations make them, and nothing weaker than durable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, delete, inspect, select, text, update

from tests.broker.market import SCHEMA, car, open_broker, seqs_of
from tests.clocks import ManualClock
from tests.databases import new_database
from tocsin.errors import ClockJumped, CursorExpired, NeedsUpgrade, StoreError, StoreFailed, WeakDurability
from tocsin.schema.files import dumps
from tocsin.store import Store, accounts, database, events, webhooks
from tocsin.store.backup import backup, restore
from tocsin.store.database import upgrade, upgrade_engine
from tocsin.store.notifications import StoredMatches, record_matches
from tocsin.store.seals import check
from tocsin.store.tables import HEAD, leases, meta, metadata, notifications, subscriptions
from tocsin.store.tables import events as event_log

# --- the seq ----------------------------------------------------------------------------------------------------------


def test_readers_never_see_a_gap_or_a_late_commit(place: str) -> None:
    """Writers in several threads and two stores draw and commit; whoever sees seq n sees everything up to n."""
    one, two = Store.open(place), Store.open(place)

    def write(number: int) -> None:
        with (one, two)[number % 2].write() as transaction:
            first = transaction.draw(1 + number % 3)
            drawn = [(seq, seq.to_bytes(16, "big"), b"{}") for seq in range(first, transaction.seq + 1)]
            events.add_events(transaction, 1, drawn)

    def look() -> bool:
        with one.read() as connection:
            last = connection.execute(select(meta.c.seq)).scalar_one()
            seqs = [event.seq for event in events.read_events(connection, 0, 10**6)]
        return seqs == list(range(1, last + 1))

    with ThreadPoolExecutor(6) as pool:
        writing = [pool.submit(write, number) for number in range(60)]
        looks = [look() for _ in range(20)]
        for one_write in writing:
            one_write.result(60)
    assert all(looks)
    assert look()
    one.close()
    two.close()


def test_failed_transaction_gives_its_seqs_to_the_next(place: str) -> None:
    store = Store.open(place)
    with pytest.raises(ZeroDivisionError), store.write() as transaction:
        transaction.draw(transaction.draw(5) // 0)
    with store.write() as transaction:
        assert transaction.draw() == 1
    assert store.meta().seq == 1
    store.close()


def test_matches_are_recorded_once_however_a_batch_is_replayed_or_cut(place: str) -> None:
    store = Store.open(place)
    with store.write() as transaction:
        transaction.draw(10)

    def record(after: int, through: int) -> int:
        seqs = range(after + 1, through + 1)
        with store.write() as transaction:
            return record_matches(transaction, after, through, StoredMatches.of(seqs, [7] * len(seqs), [3] * len(seqs)))

    assert [record(0, 4), record(0, 4), record(2, 7), record(7, 7), record(5, 10)] == [4, 0, 3, 0, 3]
    with pytest.raises(StoreError, match="not all matched"):
        record(11, 12)
    store.close()


# --- durability -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weak", [":memory:", "sqlite://", "sqlite:///:memory:", "sqlite:///x.db?synchronous=OFF"])
def test_weaker_sqlite_is_refused(weak: str) -> None:
    with pytest.raises(WeakDurability):
        Store.open(weak)


def test_sqlite_that_does_not_take_our_settings_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(database.SQLITE_SETTINGS, "query_only", "ON")
    monkeypatch.setitem(database.SQLITE_DURABILITY, "journal_mode", "off")
    monkeypatch.setitem(database.SQLITE_DURABILITY, "synchronous", 7)  # no such level: SQLite keeps what it has
    with pytest.raises(WeakDurability, match="synchronous"):
        Store.open(tmp_path / "store.db")


@pytest.mark.parametrize("weak", ["off", "local"])
def test_weaker_postgres_is_refused(postgres: str, weak: str) -> None:
    place = new_database(postgres)
    with pytest.raises(WeakDurability, match="synchronous_commit"):
        Store.open(f"{place}&options=-csynchronous_commit%3D{weak}")


@pytest.mark.parametrize("wrong", ["mysql://localhost/x", "postgresql://[", "nonsense://x"])
def test_what_is_no_store_is_refused(wrong: str) -> None:
    with pytest.raises(StoreError):
        Store.open(wrong)


def test_place_that_cannot_be_written_is_a_clean_error(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed):
        Store.open(tmp_path / "no such folder" / "store.db")
    with pytest.raises(StoreFailed):
        Store.open("postgresql://nobody@127.0.0.1:1/nothing")


# --- tables -----------------------------------------------------------------------------------------------------------


def test_migrations_make_exactly_the_tables(place: str) -> None:
    store = Store.open(place)
    with store.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    store.close()


def test_older_store_is_not_opened_until_it_is_upgraded(place: str) -> None:
    Store.open(place).close()
    engine = database.connect(place)
    with engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    with pytest.raises(NeedsUpgrade):
        Store.open(place)
    with engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": HEAD})
    engine.dispose()
    assert upgrade(place) == (HEAD, HEAD)
    Store.open(place).close()


FIRST_VERSION = """
INSERT INTO meta (id, incarnation, seq, now_us, boot, boottime_us, schema_version, matching, matched_through, horizon,
    created_us) VALUES (1, 'aabbccddee', 2, 5, '', 0, 1, 'inline', 2, 0, 1);
INSERT INTO schema_versions (version, seq, at_us, change, document) VALUES (1, 1, 1, 'the first', :schema);
INSERT INTO accounts (number, name, role, created_us) VALUES (1, 'ada', 'member', 1);
INSERT INTO subscriptions (id, owner, text, tree, schema_version, ticket_hash) VALUES (2, 1, 'car', :tree, 1, :ticket);
INSERT INTO leases (subscription, owner, start_us, end_us, generation, changed_seq)
    VALUES (2, 1, 2, 9000000000000000, 1, 2)"""


FOURTH_VERSION = """;
INSERT INTO webhooks (id, account, url, secret, state, created_us, seq, subscription)
    VALUES (1, 1, 'https://example.org/', 'secret', 'active', 1, 4, 2);
INSERT INTO deliveries (webhook, seq, subscription, state, attempts, next_us, first_us)
    VALUES (1, 2, 2, 'delivered', 1, 6, 6), (1, 3, 2, 'waiting', 0, 7, 7), (1, 4, 2, 'waiting', 0, 8, 8);
INSERT INTO api_tokens (id, hash, account, name, created_us) VALUES (7, :ticket, 1, 'program', 1);
INSERT INTO sessions (hash, account, csrf, created_us, expires_us) VALUES (:ticket, 1, 'csrf', 1, 9000000000000000)"""


def test_upgrade_keeps_what_is_in_a_store_of_the_first_version(place: str) -> None:
    engine = database.connect(place)
    upgrade_engine(engine, "0001")
    with engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        for statement in FIRST_VERSION.split(";"):
            facts = {"schema": dumps(SCHEMA, "json"), "tree": b'{"event_types":["car"]}', "ticket": bytes(32)}
            connection.execute(text(statement), facts)
    engine.dispose()
    assert upgrade(place) == ("0001", HEAD)
    with open_broker(place, schema=None, accept_clock=True) as broker:
        assert check(broker.store) == []
        event = broker.publish(car(1))
        assert seqs_of(broker, "ada") == [(event.seq, 2)]
        assert broker.unsubscribe(2, owner="ada").id == 2


def test_upgrade_of_the_version_before_keeps_tokens_and_deliveries_that_wait_in_their_lanes(place: str) -> None:
    engine = database.connect(place)
    upgrade_engine(engine, "0004")
    with engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        for statement in (FIRST_VERSION + FOURTH_VERSION).split(";"):
            facts = {"schema": dumps(SCHEMA, "json"), "tree": b'{"event_types":["car"]}', "ticket": bytes(32)}
            connection.execute(text(statement), facts)
    engine.dispose()
    assert upgrade(place) == ("0004", HEAD)
    with open_broker(place, schema=None, accept_clock=True) as broker, broker.store.read() as connection:
        assert check(broker.store) == []
        found = [(one.webhook, one.lane, one.next_us) for one in webhooks.due_lanes(connection, 10, 9)]
        assert found == [(1, 2, 7)]
        assert [one.seq for one in webhooks.due_in(connection, webhooks.Lane(1, 2, 7), 10, 9)] == [3, 4]
        kept = accounts.find_credential(connection, "token", bytes(32), 10)
        assert kept is not None
        assert (kept.id, kept.name, kept.parent, kept.scopes) == (7, "program", None, None)
        assert accounts.list_credentials(connection, 1, "session") == []  # by what it was got is not known
    with open_broker(place, schema=None, accept_clock=True) as broker, broker.store.write() as turn:
        assert accounts.add_credential(turn, 1, "token", bytes(range(32))).id == 8


SIXTH_VERSION = (
    FIRST_VERSION
    + """;
INSERT INTO credentials (id, kind, hash, account, name, csrf, created_us, address)
    VALUES (7, 'token', :ticket, 1, 'program', '', 1, '')"""
)


def test_store_that_was_upgraded_and_used_goes_back_with_everything_and_forth_again(place: str) -> None:
    engine = database.connect(place)
    upgrade_engine(engine, "0006")
    made = shape_of(engine)
    with engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        facts = {"schema": dumps(SCHEMA, "json"), "tree": b'{"event_types":["car"]}', "ticket": bytes(32)}
        for statement in SIXTH_VERSION.split(";"):
            connection.execute(text(statement), facts)
    assert upgrade(place) == ("0006", HEAD)
    with open_broker(place, schema=None, accept_clock=True) as broker:
        mine = broker.subscribe("car where price < 3", owner="ada")
        event = broker.publish(car(1))
        told = seqs_of(broker, "ada")
    assert told == [(event.seq, 2), (event.seq, mine.id)]
    used = rows_of(engine)
    assert database.downgrade(place, "0006") == (HEAD, "0006")
    assert shape_of(engine) == made
    back = rows_of(engine)
    newer = {"price", "subscription_bytes", "checksum", "renews", "extends_schema", "site"}
    assert {name: rows_without(used[name], newer) for name in back} == back
    assert set(used) - set(back) == {"seals", "sites", "site_mappings", "schema_proposals"}
    with pytest.raises(NeedsUpgrade):
        Store.open(place)
    engine.dispose()
    assert upgrade(place) == ("0006", HEAD)
    with open_broker(place, schema=None) as broker:
        assert check(broker.store) == []
        assert seqs_of(broker, "ada") == told
        again = broker.publish(car(2))
        assert seqs_of(broker, "ada") == [*told, (again.seq, 2), (again.seq, mine.id)]


def test_what_renews_itself_lasts_for_a_year_in_a_store_that_goes_back(place: str) -> None:
    with open_broker(place) as broker:
        lasting = broker.subscribe("car", owner="ada", lease=1000, renews=True)
        ending = broker.subscribe("car", owner="ada", lease=1000)
    database.downgrade(place, "0008")
    assert upgrade(place) == ("0008", HEAD)
    with open_broker(place, schema=None) as broker:
        assert (broker.subscription(lasting.id, owner="ada").lease_end - broker.now()).days >= 365
        assert broker.subscription(ending.id, owner="ada").lease_end == ending.lease_end


def test_store_with_sites_does_not_go_back_to_where_they_have_no_place(place: str) -> None:
    with open_broker(place) as broker:
        broker.sites.add("Hammer & Sons", owner="ada", contact="ada@example.org")
    with pytest.raises(StoreError, match="the store has 1 sites, which version 0009 cannot hold"):
        database.downgrade(place, "0009")
    with open_broker(place, schema=None) as broker:
        assert [site.name for site in broker.sites.list()] == ["Hammer & Sons"]


def test_store_does_not_go_back_to_where_not_all_of_it_has_a_place(place: str) -> None:
    Store.open(place).close()
    for version in ("0005", "0099", "head", ""):
        with pytest.raises(StoreError, match="it can go back to 0006 at the earliest"):
            database.downgrade(place, version)
    Store.open(place).close()


def shape_of(engine: Engine) -> dict[str, tuple[object, ...]]:
    """Return the columns and indexes of each table."""
    found = inspect(engine)
    return {
        table: (
            [(each["name"], str(each["type"]), each["nullable"]) for each in found.get_columns(table)],
            sorted((each["name"] or "", each["column_names"]) for each in found.get_indexes(table)),
        )
        for table in found.get_table_names()
    }


def rows_of(engine: Engine) -> dict[str, list[dict[str, object]]]:
    """Return all rows of all tables but the one that says the version."""
    with engine.connect() as connection:
        return {
            table: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2")).mappings()]
            for table in sorted(set(inspect(engine).get_table_names()) - {"alembic_version"})
        }


def rows_without(rows: list[dict[str, object]], columns: set[str]) -> list[dict[str, object]]:
    return [{name: value for name, value in row.items() if name not in columns} for row in rows]


def test_crash_in_the_middle_of_an_upgrade_leaves_nothing_half_made(place: str) -> None:
    code = "import sys; from tocsin.store import Store; Store.open(sys.argv[1])"
    environment = {**os.environ, "TOCSIN_CRASH_POINT": "migration.mid-upgrade"}
    run = subprocess.run([sys.executable, "-c", code, place], env=environment, check=False)
    assert run.returncode == -signal.SIGKILL
    with open_broker(place) as broker:
        assert broker.publish(car(1)).accepted
        assert check(broker.store) == []


# --- clock ------------------------------------------------------------------------------------------------------------


def test_clock_absurdly_far_ahead_is_refused_until_accepted(place: str) -> None:
    clock = ManualClock()
    with open_broker(place, clock) as broker:
        mine = broker.subscribe("car", owner="ada")
    clock.reboot(wall_jump_seconds=400 * 86400)
    with pytest.raises(ClockJumped):
        open_broker(place, clock)
    clock.jump(-400 * 86400)
    with open_broker(place, clock) as broker:
        event = broker.publish(car(1))
        assert seqs_of(broker, "ada") == [(event.seq, mine.id)]
    clock.reboot(wall_jump_seconds=400 * 86400)
    with open_broker(place, clock, accept_clock=True) as broker:
        assert broker.sweep() == [mine.id]


def test_two_machines_share_one_clock_that_never_goes_back(place: str) -> None:
    ahead, behind = ManualClock(), ManualClock()
    ahead.jump(3600)
    one, two = Store.open(place, machine=ahead), Store.open(place, machine=behind)
    times = []
    for store in (one, two, one, two, two):
        with store.write() as transaction:
            transaction.draw()
            times.append(transaction.now_us)
    assert times == sorted(times)
    one.close()
    two.close()


# --- backup, restore, check -------------------------------------------------------------------------------------------


def filled(place: str, clock: ManualClock) -> list[tuple[int, int]]:
    """Make a store with a bit of everything; return what ada has."""
    with open_broker(place, clock) as broker:
        broker.subscribe_all(["car", "car where price < 3"], owner="ada")
        gone = broker.subscribe("car", owner="bob")
        broker.publish([car(price) for price in range(5)], idempotency_key="k")
        broker.publish([car("x")], atomic=False)  # type: ignore[arg-type]
        broker.unsubscribe(gone)
        broker.acknowledge("bob", broker.oldest_cursor())
        return seqs_of(broker, "ada")


def test_backup_restored_elsewhere_is_the_same_store_in_a_new_incarnation(place: str, tmp_path: Path) -> None:
    clock = ManualClock()
    expected = filled(place, clock)
    with open_broker(place, clock) as broker:
        seq = backup(place, tmp_path / "b.backup")  # while it is in use
        assert seq == broker.store.meta().seq
        cursor = broker.notifications("ada").cursor
        broker.publish(car(1))
    restored = str(tmp_path / "restored.db")
    assert restore(restored, tmp_path / "b.backup") == seq
    with open_broker(restored, clock) as broker:
        assert seqs_of(broker, "ada") == expected
        assert check(broker.store) == []
        with pytest.raises(CursorExpired, match="restored"):
            broker.notifications("ada", cursor=cursor)
        assert broker.publish(car(1)).seq == seq + 1


def test_backup_moves_a_store_from_sqlite_to_postgres(tmp_path: Path, postgres: str) -> None:
    clock = ManualClock()
    expected = filled(str(tmp_path / "store.db"), clock)
    backup(tmp_path / "store.db", tmp_path / "b.backup")
    place = new_database(postgres)
    restore(place, tmp_path / "b.backup")
    with open_broker(place, clock) as broker:
        assert seqs_of(broker, "ada") == expected
        broker.subscribe("car", owner="new")
        assert check(broker.store) == []


def test_backup_and_restore_overwrite_nothing(tmp_path: Path) -> None:
    place = tmp_path / "store.db"
    filled(str(place), ManualClock())
    backup(place, tmp_path / "b.backup")
    with pytest.raises(StoreError, match="exists"):
        backup(place, tmp_path / "b.backup")
    with pytest.raises(StoreError, match="exists"):
        restore(place, tmp_path / "b.backup")
    with pytest.raises(StoreError, match="no backup"):
        restore(tmp_path / "new.db", tmp_path / "absent")


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (update(meta).values(seq=1), "the last seq given is 1"),
        (update(leases).values(deleted_seq=5, changed_seq=5), "snapshot rule"),
        (update(subscriptions).values(tree=b'{"event_types":["boat"]}'), "boat"),
        (update(notifications).values(part=99, body=b"xx"), "is not one"),
        (delete(event_log).where(event_log.c.seq > 6), "events that are not there"),
        (update(event_log).values(arrival_us=-event_log.c.seq), "arrived before"),
    ],
)
def test_check_finds_damage(tmp_path: Path, damage: object, found: str) -> None:
    filled(str(tmp_path / "store.db"), ManualClock())
    store = Store.open(tmp_path / "store.db", machine=ManualClock())
    assert check(store) == []
    with store.engine.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
        connection.execute(damage)  # type: ignore[call-overload]
    assert any(found in problem for problem in check(store))
    store.close()
