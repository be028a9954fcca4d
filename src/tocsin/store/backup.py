"""Backup and restore: a whole store as one SQLite file, whichever database it came from or goes to.

A backup is taken from one moment while the store is in use. It carries a digest of every table, and the store's seals:
a restore verifies both, so that a backup which is not what was written makes no store. A restored store is a new incarnation: cursors that readers
took after the backup point past it, so they are refused rather than followed into what has since happened otherwise.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, func, insert, select, text, update

from tocsin.errors import NeedsUpgrade, StoreDamaged, StoreError, StoreFailed
from tocsin.store import database, seals
from tocsin.store.store import Store
from tocsin.store.tables import accounts, audit, credentials, meta, metadata, webhooks

_ROWS = 5_000


def backup(place: str | Path, file: str | Path) -> int:
    """Write a backup of the store to a new file; return the seq up to which it goes."""
    target = Path(file)
    if target.exists():
        raise StoreError(f"{target} exists; a backup does not overwrite anything")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    _seal(place)
    with _engine(place) as source, database.failures():
        try:
            database.keep_private(partial)
            if (path := database.sqlite_path(source)) is not None:
                _copy_file(path, partial)
            else:
                with _engine(partial) as copy:
                    database.upgrade_engine(copy)
                    _copy_tables(source, copy)
            database.write_digests(partial)
            _settle(partial)
            partial.rename(target)
            _sync_folder(target)
        except sqlite3.Error as error:
            raise StoreFailed(f"the backup failed: {error}") from error
        finally:
            partial.unlink(missing_ok=True)
    return _seq_of(target)


def restore(place: str | Path, file: str | Path) -> int:
    """Make a store out of a backup where there is none yet; return the seq up to which it goes."""
    source_path = Path(file)
    if not source_path.exists():
        raise StoreError(f"there is no backup {source_path}")
    verify(source_path)
    with _engine(place) as target, database.failures():
        if (path := database.sqlite_path(target)) is not None and path.exists():
            raise StoreError(f"{path} exists; restore to another place, or move it away first")
        database.ensure_tables(target)
        with target.connect() as connection:
            if connection.execute(select(func.count()).select_from(meta)).scalar():
                raise StoreError("there is a store in that database; restore to an empty one")
        with _engine(source_path) as source:
            database.ensure_tables(source)
            _copy_tables(source, target)
        with target.connect().execution_options(**{database.WRITE: True}) as connection, connection.begin():
            # No boot: the clock goes on from the wall clock, but not from before the last time used.
            connection.execute(update(meta).values(incarnation=uuid.uuid4().hex, boot="", boottime_us=0))
            return int(connection.execute(select(meta.c.seq)).scalar_one())


def verify(file: Path) -> None:
    """Raise StoreDamaged where a backup is not what was written."""
    try:
        database.verify_digests(file)
    except sqlite3.Error as error:
        raise StoreDamaged(f"the backup is damaged: {error}") from error
    with _engine(file) as source, database.failures():
        database.ensure_tables(source)
        with source.connect() as connection:
            if wrong := next(seals.verify(connection), None):
                raise StoreDamaged(f"the backup is damaged: {wrong}")


def _seal(place: str | Path) -> None:
    """Seal what there is, so that the backup can be held against it; where that cannot be, it is copied as it is."""
    with _engine(place) as engine:
        path = database.sqlite_path(engine)
    if path is not None and not path.exists():
        raise StoreError(f"there is no store {path}")
    with suppress(NeedsUpgrade, StoreFailed):
        store = Store.open(place, accept_clock=True)
        try:
            seals.seal(store)
        finally:
            store.close()


@contextmanager
def _engine(place: str | Path) -> Iterator[Engine]:
    engine = database.connect(place)
    try:
        yield engine
    finally:
        engine.dispose()


def _copy_file(source: Path, target: Path) -> None:
    if not source.exists():
        raise StoreError(f"there is no store {source}")
    with closing(sqlite3.connect(source)) as connection, closing(sqlite3.connect(target)) as copy:
        connection.backup(copy, pages=4096)


def _copy_tables(source: Engine, target: Engine) -> None:
    """Copy all rows, from one moment of the source, in one transaction of the target."""
    reading = {"isolation_level": "REPEATABLE READ"} if source.dialect.name == "postgresql" else {}
    with (
        source.connect().execution_options(**reading) as old,
        old.begin(),
        target.connect().execution_options(**{database.WRITE: True}) as new,
        new.begin(),
    ):
        for table in metadata.sorted_tables:
            # In order, since credentials name earlier ones as their parents.
            rows = old.execute(select(table).order_by(*table.primary_key).execution_options(yield_per=_ROWS))
            for chunk in rows.mappings().partitions():
                new.execute(insert(table), [dict(row) for row in chunk])
        _continue_numbers(new)


def _continue_numbers(connection: Connection) -> None:
    """Let PostgreSQL number new accounts, tokens and webhooks after the copied ones."""
    if connection.dialect.name != "postgresql":
        return
    for column in (accounts.c.number, credentials.c.id, audit.c.id, webhooks.c.id):
        last = connection.execute(select(func.max(column))).scalar()
        if last is not None:
            query = text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)")
            connection.execute(query, {"table": column.table.name, "column": column.name, "last": last})


def _settle(path: Path) -> None:
    """Make the backup one file that is on disk: no write-ahead log beside it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _seq_of(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT seq FROM meta").fetchone()[0])
