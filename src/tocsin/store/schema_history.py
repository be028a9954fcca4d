"""The schema's history: every version whole, with the seq from which on events are judged by it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from tocsin.schema import Schema
from tocsin.schema.files import dumps, loads
from tocsin.store.store import Transaction
from tocsin.store.tables import schema_versions


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version, and when and why it came."""

    version: int
    seq: int
    at_us: int
    change: str
    schema: Schema


def add_version(transaction: Transaction, schema: Schema, change: str) -> int:
    """Store a version of the schema; return its seq. Events after that are judged by it."""
    seq = transaction.draw()
    transaction.connection.execute(
        insert(schema_versions).values(
            version=schema.version,
            seq=seq,
            at_us=transaction.now_us,
            change=change,
            document=dumps(schema, "json"),
        )
    )
    transaction.set_meta(schema_version=schema.version)
    return seq


def newest(connection: Connection) -> SchemaVersion | None:
    """Return the version in force, None where none was given yet."""
    query = select(schema_versions).order_by(schema_versions.c.version.desc()).limit(1)
    row = connection.execute(query).first()
    return SchemaVersion(row.version, row.seq, row.at_us, row.change, loads(row.document, "json")) if row else None


def history(connection: Connection) -> list[SchemaVersion]:
    """Return all versions, oldest first."""
    rows = connection.execute(select(schema_versions).order_by(schema_versions.c.version))
    return [SchemaVersion(row.version, row.seq, row.at_us, row.change, loads(row.document, "json")) for row in rows]
