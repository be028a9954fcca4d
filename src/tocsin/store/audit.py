"""The audit trail: who did what with accounts, credentials, webhooks and the schema; written where it is done."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, or_, select

from tocsin.store.tables import audit
from tocsin.store.transaction import Transaction

OPERATOR = "(operator)"  # whoever has the machine


@dataclass(frozen=True, slots=True)
class Actor:
    """Whose doing it is: an account, by which credential and from where; the operator has none."""

    account: int | None = None
    who: str = OPERATOR
    credential: int | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the trail; `concerns` is the account that it was done to."""

    id: int
    at_us: int
    account: int | None
    who: str
    credential: int | None
    address: str
    action: str
    subject: str
    concerns: int | None


def note(transaction: Transaction, actor: Actor, action: str, subject: str, concerns: int | None = None) -> None:
    """Write a line, in the transaction that does what it says."""
    row = {
        "at_us": transaction.now_us,
        "account": actor.account,
        "who": actor.who,
        "credential": actor.credential,
        "address": actor.address,
        "action": action,
        "subject": subject[:500],
        "concerns": concerns,
    }
    transaction.connection.execute(insert(audit).values(**row))


def read_entries(connection: Connection, before: int | None, limit: int, account: int | None = None) -> list[Entry]:
    """Return lines, the newest first; with an account, what it did and what was done to it."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(audit.c.id < before)
    if account is not None:
        query = query.where(or_(audit.c.account == account, audit.c.concerns == account))
    return [Entry(*row) for row in connection.execute(query)]


def remove_before(transaction: Transaction, time_us: int) -> int:
    """Remove lines that are older than a time; return how many."""
    return transaction.connection.execute(delete(audit).where(audit.c.at_us < time_us)).rowcount
