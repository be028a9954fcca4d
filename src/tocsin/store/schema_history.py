"""The schema's history: every version whole, with the seq from which on events are judged by it.

Proposals: extensions that wait for an admin's yes, and those that had their answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, insert, select, update

from tocsin.errors import UnknownProposal
from tocsin.schema import Schema
from tocsin.schema.files import dumps, loads
from tocsin.store.store import Transaction
from tocsin.store.tables import accounts, schema_proposals, schema_versions


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


# --- Proposals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SchemaProposal:
    """Extensions that somebody asks for, as JSON; `state` is waiting, accepted or refused."""

    number: int
    who: str
    changes: str
    words: str
    at_us: int
    state: str
    decided_by: str
    decided_us: int | None
    answer: str
    version: int | None  # of the schema that has them


def add_proposal(transaction: Transaction, account: int, changes: str, words: str) -> SchemaProposal:
    """Store a proposal of an account."""
    row = {"account": account, "changes": changes, "words": words, "at_us": transaction.now_us, "state": "waiting"}
    statement = insert(schema_proposals).values(**row, decided_by="", answer="").returning(schema_proposals.c.number)
    number = transaction.connection.execute(statement).scalar_one()
    transaction.keep_time()
    return waiting_proposal(transaction.connection, number)


def waiting_proposal(connection: Connection, number: int) -> SchemaProposal:
    """Return a proposal that waits for its answer; raises UnknownProposal."""
    query = _proposals().where(schema_proposals.c.number == number, schema_proposals.c.state == "waiting")
    row = connection.execute(query).first()
    if row is None:
        raise UnknownProposal(number)
    return _proposal(row)


def list_proposals(connection: Connection, account: int | None, limit: int) -> list[SchemaProposal]:
    """Return proposals, the newest first; of one account, or of all."""
    query = _proposals().order_by(schema_proposals.c.number.desc()).limit(limit)
    if account is not None:
        query = query.where(schema_proposals.c.account == account)
    return [_proposal(row) for row in connection.execute(query)]


def decide_proposal(
    transaction: Transaction, number: int, state: str, decided_by: str, answer: str, version: int | None = None
) -> None:
    """Store the answer to a proposal that waits for it; raises UnknownProposal."""
    waiting_proposal(transaction.connection, number)
    change = {"state": state, "decided_by": decided_by, "answer": answer, "version": version}
    chosen = update(schema_proposals).where(schema_proposals.c.number == number)
    transaction.connection.execute(chosen.values(**change, decided_us=transaction.now_us))
    transaction.keep_time()


def _proposals() -> Select[Any]:
    return select(schema_proposals, accounts.c.name.label("who")).join(
        accounts, accounts.c.number == schema_proposals.c.account
    )


def _proposal(row: Row[Any]) -> SchemaProposal:
    return SchemaProposal(
        row.number, row.who, row.changes, row.words, row.at_us, row.state, row.decided_by, row.decided_us, row.answer,
        row.version,
    )  # fmt: skip
