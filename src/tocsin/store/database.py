"""Databases: SQLite in a file, or PostgreSQL by URL, opened so that what is committed is on disk.

SQLite runs in WAL mode with synchronous=FULL: a commit returns after fsync, one writer at a time, readers undisturbed.
PostgreSQL must have fsync, full_page_writes and synchronous_commit on. Anything weaker raises WeakDurability. A PostgreSQL
on another machine is connected to by TLS, unless its address says sslmode=disable.
Transactions are begun by store.py, which is this module's only user apart from backup.py.

Upgrading: making the tables, or bringing them to this code's version, by the migrations in migrations/; and back again.

A store without tables is made by whoever opens it; an older one is upgraded only on request (`tocsin db upgrade`), so
that a rolling restart does not pull the tables from under the processes that still run.

Digests of a backup: one of each table, in the file itself, made when it is written and held against it when it is read.

By what SQLite says the tables are, not by what this code does: a backup of an earlier version is verified as it is, and
digested anew after it was upgraded.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tocsin import plugins
from tocsin.errors import NeedsUpgrade, StoreDamaged, StoreError, StoreFailed, WeakDurability
from tocsin.store.tables import HEAD

if TYPE_CHECKING:
    from alembic.config import Config

DIGESTS = "backup_digests"


def write_digests(file: Path) -> None:
    """Write the digests of all tables into a backup."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"DROP TABLE IF EXISTS {DIGESTS}")
        found = _digests(connection)
        connection.execute(
            f"CREATE TABLE {DIGESTS} (name TEXT PRIMARY KEY, size INTEGER NOT NULL, digest BLOB NOT NULL)"
        )
        connection.executemany(f"INSERT INTO {DIGESTS} VALUES (?, ?, ?)", [(name, *one) for name, one in found.items()])  # noqa: S608


def verify_digests(file: Path) -> None:
    """Raise StoreDamaged where a table of a backup is not as it was written; backups without digests are let through."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        if not has_digests(connection):
            return
        said = {name: (size, digest) for name, size, digest in connection.execute(f"SELECT * FROM {DIGESTS}")}  # noqa: S608
        found = _digests(connection)
    for name in sorted(said.keys() | found.keys()):
        if said.get(name) != found.get(name):
            raise StoreDamaged(f"the backup is damaged: its table {name} is not what was written")


def is_digested(file: Path) -> bool:
    """Return whether a file is a backup that carries digests; whatever is no SQLite file does not."""
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            return has_digests(connection)
    except sqlite3.Error:
        return False


def has_digests(connection: sqlite3.Connection) -> bool:
    """Return whether a file is a backup that carries digests."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (DIGESTS,)).fetchone() is not None


def _digests(connection: sqlite3.Connection) -> dict[str, tuple[int, bytes]]:
    """Return how many rows each table has, and a digest of them in the order of its primary key."""
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name != ? ORDER BY name"
    )
    return {name: _digest(connection, name) for (name,) in connection.execute(query, (DIGESTS,)).fetchall()}


def _digest(connection: sqlite3.Connection, table: str) -> tuple[int, bytes]:
    columns = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
    keys = [f'"{name}"' for _, name, _, _, _, key in sorted(columns, key=lambda one: one[5]) if key]
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    digest, size = hashlib.sha256(), 0
    for row in connection.execute(f'SELECT * FROM "{table}"{order}'):  # noqa: S608 - names of our own tables
        digest.update(msgspec.msgpack.encode(row))
        size += 1
    return size, digest.digest()


# --- Databases --------------------------------------------------------------------------------------------------------


EARLIEST = 6  # the version that a store can be taken back to with all that is in it
BUSY_SECONDS = 30
WRITE = "tocsin_write"  # execution option: this transaction will write
SQLITE_DURABILITY = {"journal_mode": "wal", "synchronous": 2}  # 2 is FULL
SQLITE_SETTINGS = {
    "foreign_keys": "ON",
    "busy_timeout": BUSY_SECONDS * 1000,
    "wal_autocheckpoint": 4000,  # pages: fewer checkpoints than by default, as batches are large
    "journal_size_limit": 64 << 20,
    "cache_size": -64 << 10,  # KiB
    "temp_store": "MEMORY",
}
POSTGRES_DURABILITY = {
    "fsync": {"on"},
    "full_page_writes": {"on"},
    "synchronous_commit": {"on", "remote_apply"},
}
_URL = re.compile(r"^[a-z][a-z0-9+]*://")


def connect(place: str | Path) -> Engine:
    """Return the database at a path (SQLite) or URL; the first connection checks that it is durable."""
    url = url_of(place)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    plugins.require("postgres")
    return _postgres(url)


def url_of(place: str | Path) -> URL:
    """Return the database's URL; a path means SQLite, and PostgreSQL means psycopg 3."""
    text = str(place)
    if not _URL.match(text):
        if text == ":memory:":
            raise WeakDurability("a store in memory is lost with the process; give a path")
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
    except ArgumentError:
        raise StoreError("a store is a path, sqlite:///path, or postgresql://user@host/database") from None
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise StoreError(f"{url.get_backend_name()} is not supported; a store is SQLite or PostgreSQL")
    if not url.database or url.database == ":memory:":
        raise WeakDurability("a store in memory is lost with the process; give a path")
    if url.query:
        raise WeakDurability(f"SQLite's settings are Tocsin's own; leave out {', '.join(sorted(url.query))}")
    return url


def sqlite_path(engine: Engine) -> Path | None:
    """Return the file of a SQLite database."""
    database = engine.url.database
    return Path(database) if engine.dialect.name == "sqlite" and database else None


@contextmanager
def failures() -> Iterator[None]:
    """Raise StoreFailed where the database fails."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error.orig, TypeError | ValueError):
            raise  # ours, not the database's
        raise StoreFailed(f"the database failed: {error.orig}") from error
    except PoolTimeout as error:
        raise StoreFailed("no connection to the database was free in time") from error
    except OSError as error:
        raise StoreFailed(f"the database failed: {error}") from error


# --- SQLite -----------------------------------------------------------------------------------------------------------


def keep_private(path: Path) -> None:
    """Make a file that only its owner may read, where there is none: SQLite gives what lies beside it the same rights."""
    with contextlib.suppress(OSError):  # what is wrong with the place is said when it is opened
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _sqlite(url: URL) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        pool_size=8,
        max_overflow=32,
    )
    event.listen(engine, "do_connect", lambda *_: keep_private(Path(str(url.database))))
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    cursor = connection.cursor()
    try:
        for name, value in {**SQLITE_SETTINGS, **SQLITE_DURABILITY}.items():
            cursor.execute(f"PRAGMA {name} = {value}")
        for name, wanted in SQLITE_DURABILITY.items():
            found = cursor.execute(f"PRAGMA {name}").fetchone()[0]
            if found != wanted:
                raise WeakDurability(
                    f"SQLite has {name} = {found} here and not {wanted}; is the file on a network disk?"
                )
    finally:
        cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once: a transaction that reads first and then writes could fail in between.
    write = connection.get_execution_options().get(WRITE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def encrypted(url: URL) -> URL:
    """Return the address by which a database is connected to: on another machine by TLS, unless it says otherwise.

    libpq by itself would fall back to plain text without a word. What it is told to require it refuses to do without.
    """
    hosts = [url.host] if url.host else str(url.query.get("host", "")).split(",")
    if "sslmode" in url.query or all(map(_is_here, hosts)):
        return url
    return url.update_query_dict({"sslmode": "require"})


def _is_here(host: str) -> bool:
    """Return whether a host is this machine: a socket's folder, or a loopback address."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _postgres(url: URL) -> Engine:
    engine = create_engine(encrypted(url), pool_size=8, max_overflow=32, pool_pre_ping=True)
    event.listen(engine, "connect", _check_postgres)
    return engine


def _check_postgres(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        for name, right in POSTGRES_DURABILITY.items():
            cursor.execute(f"SHOW {name}")
            found = cursor.fetchone()[0]
            if found not in right:
                raise WeakDurability(f"PostgreSQL has {name} = {found} here; it must be {' or '.join(sorted(right))}")
    connection.rollback()


# Upgrading.


def upgrade(place: str | Path) -> tuple[str | None, str]:
    """Bring the store's tables to this code's version; return the versions before and after."""
    engine = connect(place)
    path = sqlite_path(engine)
    is_backup = path is not None and path.exists() and is_digested(path)
    if path is not None and is_backup:
        verify_digests(path)
    try:
        with failures():
            return upgrade_engine(engine)
    finally:
        engine.dispose()
        if path is not None and is_backup:
            write_digests(path)


def upgrade_engine(engine: Engine, version: str = HEAD) -> tuple[str | None, str]:
    """Upgrade in one transaction: a crash in the middle leaves the tables as they were."""
    from alembic import command

    with _migrating(engine) as (config, before):
        command.upgrade(config, version)
    return before, version


def downgrade(place: str | Path, version: str) -> tuple[str, str]:
    """Take the store's tables back to an earlier version, with all that it can hold; return the versions before and after.

    In one transaction, as an upgrade. Raises StoreError where the version is not one that can be gone back to.
    """
    from alembic import command

    engine = connect(place)
    try:
        with failures(), _migrating(engine) as (config, before):
            if version not in [f"{number:04}" for number in range(EARLIEST, int(before or 0) + 1)]:
                raise StoreError(
                    f"the store's version is {before or 'none'}, and it can go back to {EARLIEST:04} at the earliest; "
                    "for an older one, restore the backup of before the upgrade"
                )
            command.downgrade(config, version)
    finally:
        engine.dispose()
    return before or "", version


@contextmanager
def _migrating(engine: Engine) -> Iterator[tuple[Config, str | None]]:
    """Yield what alembic works by, within one transaction, and the version before."""
    from alembic.config import Config

    with engine.connect().execution_options(**{WRITE: True}) as connection, connection.begin():
        take_turns(connection)
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        yield config, current_version(connection)


def take_turns(connection: Connection) -> None:
    """Wait for another process that upgrades; SQLite's writers take turns anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('tocsin upgrade'))"))


def current_version(connection: Connection) -> str | None:
    """Return the version of the tables, None where there are none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def ensure_tables(engine: Engine) -> None:
    """Make the tables where there are none; raises NeedsUpgrade where they are of another version."""
    with engine.connect() as connection:
        found = current_version(connection)
    if found is None:
        upgrade_engine(engine)
    elif found != HEAD:
        raise NeedsUpgrade(found, HEAD)
