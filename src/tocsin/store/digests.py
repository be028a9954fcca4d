"""Digests of a backup: one of each table, in the file itself, made when it is written and held against it when it is read.

By what SQLite says the tables are, not by what this code does: a backup of an earlier version is verified as it is, and
digested anew after it was upgraded.
"""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from tocsin.errors import StoreDamaged

TABLE = "backup_digests"


def write(file: Path) -> None:
    """Write the digests of all tables into a backup."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        found = _digests(connection)
        connection.execute(f"CREATE TABLE {TABLE} (name TEXT PRIMARY KEY, size INTEGER NOT NULL, digest BLOB NOT NULL)")
        connection.executemany(f"INSERT INTO {TABLE} VALUES (?, ?, ?)", [(name, *one) for name, one in found.items()])  # noqa: S608


def verify(file: Path) -> None:
    """Raise StoreDamaged where a table of a backup is not as it was written; backups without digests are let through."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        if not has_digests(connection):
            return
        said = {name: (size, digest) for name, size, digest in connection.execute(f"SELECT * FROM {TABLE}")}  # noqa: S608
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
    return connection.execute(query, (TABLE,)).fetchone() is not None


def _digests(connection: sqlite3.Connection) -> dict[str, tuple[int, bytes]]:
    """Return how many rows each table has, and a digest of them in the order of its primary key."""
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name != ? ORDER BY name"
    )
    return {name: _digest(connection, name) for (name,) in connection.execute(query, (TABLE,)).fetchall()}


def _digest(connection: sqlite3.Connection, table: str) -> tuple[int, bytes]:
    columns = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
    keys = [f'"{name}"' for _, name, _, _, _, key in sorted(columns, key=lambda one: one[5]) if key]
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    digest, size = hashlib.sha256(), 0
    for row in connection.execute(f'SELECT * FROM "{table}"{order}'):  # noqa: S608 - names of our own tables
        digest.update(msgspec.msgpack.encode(row))
        size += 1
    return size, digest.digest()
