"""The event log: every event that was acknowledged, by seq, until its retention is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select

from tocsin.store.tables import events
from tocsin.store.transaction import Transaction

_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event of the log."""

    seq: int
    event_id: bytes
    schema_version: int
    arrival_us: int
    body: bytes


def add_events(transaction: Transaction, schema_version: int, new: Sequence[tuple[int, bytes, bytes]]) -> None:
    """Store events (seq drawn for it, id, JSON), arrived now."""
    now = transaction.now_us
    transaction.insert_rows(events, [(seq, event_id, schema_version, now, body) for seq, event_id, body in new])


def read_events(
    connection: Connection, after_seq: int, limit: int, *, through_seq: int | None = None
) -> list[StoredEvent]:
    """Return the events after a seq, in order."""
    query = select(events).where(events.c.seq > after_seq).order_by(events.c.seq).limit(limit)
    if through_seq is not None:
        query = query.where(events.c.seq <= through_seq)
    return [StoredEvent(*row) for row in connection.execute(query)]


def find_events(connection: Connection, seqs: Sequence[int]) -> dict[int, StoredEvent]:
    """Return seq -> event for those that are kept."""
    found: dict[int, StoredEvent] = {}
    for start in range(0, len(seqs), _AT_A_TIME):
        query = select(events).where(events.c.seq.in_(seqs[start : start + _AT_A_TIME]))
        found |= {row.seq: StoredEvent(*row) for row in connection.execute(query)}
    return found


def count_events(connection: Connection, after_seq: int, through_seq: int) -> int:
    """Return how many events there are after a seq and up to another."""
    query = select(func.count()).where(events.c.seq > after_seq, events.c.seq <= through_seq)
    return int(connection.execute(query).scalar_one())


def last_before(connection: Connection, arrival_us: int) -> int:
    """Return the seq of the last event that arrived before a time, 0 where there is none.

    Arrivals never decrease with seq, so this is a search by halves over the primary key: no index on arrival needed.
    """
    low, high = connection.execute(select(func.min(events.c.seq), func.max(events.c.seq))).one()
    best = 0
    while low is not None and low <= high:
        query = (
            select(events.c.seq, events.c.arrival_us).where(events.c.seq >= (low + high) // 2).order_by(events.c.seq)
        )
        seq, arrival = connection.execute(query.limit(1)).one()
        if arrival < arrival_us:
            best, low = seq, seq + 1
        else:
            high = (low + high) // 2 - 1
    return best


def remove_through(transaction: Transaction, seq: int) -> int:
    """Remove the events up to a seq; return how many."""
    return transaction.connection.execute(delete(events).where(events.c.seq <= seq)).rowcount
