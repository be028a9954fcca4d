"""The event log: every event that was acknowledged, by seq, until its retention is over.

Offers: what an event has beside its attributes; and what its subscribers were told beside it.

The event itself is in the log as any other, with its static attributes. Values that were computed for a subscription, and
the values of its variables, are stored when the event is matched, so that a later version of a program or an operator does
not change what somebody was told: a row for each bucket of owners (notifications.py), which holds the subscriptions and, by
attribute, a value for each, as JSON.

Dead letters: what could not be processed, and why.

Idempotency keys: what was answered to each, so that a request that is repeated is answered as before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection, delete, func, select, update

from tocsin.store.notifications import BUCKETS
from tocsin.store.store import Transaction
from tocsin.store.tables import computed_values, dead_letters, events, idempotency, offers

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


def remove_events_through(transaction: Transaction, seq: int) -> int:
    """Remove the events up to a seq; return how many."""
    return transaction.connection.execute(delete(events).where(events.c.seq <= seq)).rowcount


# --- Offers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredOffer:
    """An offer: the seq of its event, whose it is, until when new subscriptions find it, and its document."""

    seq: int
    publisher: str
    ends_us: int
    document: bytes


@dataclass(frozen=True, slots=True)
class NewBeside:
    """What one subscription is told beside the event: the values computed for it, and those of its variables."""

    subscription: int
    owner: int
    values: Mapping[str, Any] = field(default_factory=dict)
    bindings: Sequence[Mapping[str, Any]] = ()


class Beside(NamedTuple):
    """The same as it is read: absent values are left out."""

    values: dict[str, Any]
    bindings: list[dict[str, Any]]


NOTHING_BESIDE = Beside({}, [])


class ValueBlock(NamedTuple):
    """A row of the table: the values that an event's owners of one bucket were told."""

    seq: int
    bucket: int
    body: bytes


def add_offers(transaction: Transaction, new: Sequence[StoredOffer]) -> None:
    """Store offers whose events are stored in the same transaction."""
    transaction.insert_rows(offers, [(one.seq, one.publisher, one.ends_us, one.document) for one in new])


def find_offer(connection: Connection, seq: int) -> StoredOffer | None:
    """Return the offer of an event; None where it is a plain one."""
    row = connection.execute(select(offers).where(offers.c.seq == seq)).first()
    return None if row is None else StoredOffer(*row)


def documents_between(connection: Connection, first_seq: int, last_seq: int) -> dict[int, bytes]:
    """Return seq -> document of the offers in a stretch of the log, both ends included."""
    query = select(offers.c.seq, offers.c.document).where(offers.c.seq.between(first_seq, last_seq))
    return {row.seq: row.document for row in connection.execute(query)}


def live_offers(
    connection: Connection, now_us: int, *, after_seq: int = 0, publisher: str | None = None, limit: int | None = None
) -> list[StoredOffer]:
    """Return the offers that new subscriptions find, after a seq and in order; of one publisher, or of all."""
    query = select(offers).where(offers.c.ends_us > now_us, offers.c.seq > after_seq).order_by(offers.c.seq)
    if publisher is not None:
        query = query.where(offers.c.publisher == publisher)
    return [StoredOffer(*row) for row in connection.execute(query.limit(limit))]


def are_live(connection: Connection, seqs: Sequence[int], now_us: int) -> set[int]:
    """Return which of these offers new subscriptions still find."""
    found: set[int] = set()
    for start in range(0, len(seqs), _AT_A_TIME):
        chosen = offers.c.seq.in_(seqs[start : start + _AT_A_TIME])
        found.update(connection.execute(select(offers.c.seq).where(chosen, offers.c.ends_us > now_us)).scalars())
    return found


def withdraw(transaction: Transaction, seq: int) -> None:
    """Let no new subscription find an offer from now on."""
    transaction.keep_time()
    transaction.connection.execute(update(offers).where(offers.c.seq == seq).values(ends_us=transaction.now_us))


def forget_publisher(transaction: Transaction, publisher: str) -> None:
    """Let nobody know any more who published these offers."""
    transaction.connection.execute(update(offers).where(offers.c.publisher == publisher).values(publisher=""))


def encode_values(seq: int, told: Iterable[NewBeside]) -> list[ValueBlock]:
    """Return what subscriptions are told beside an event as the rows that hold it."""
    by_bucket: dict[int, list[NewBeside]] = {}
    for one in told:
        by_bucket.setdefault(one.owner % BUCKETS, []).append(one)
    rows = []
    for bucket, members in sorted(by_bucket.items()):
        names = dict.fromkeys(name for one in members for name in one.values)
        body: dict[str, Any] = {
            "subscriptions": [one.subscription for one in members],
            "values": {name: [one.values.get(name) for one in members] for name in names},
        }
        if any(one.bindings for one in members):
            body["bindings"] = [one.bindings for one in members]
        rows.append(ValueBlock(seq, bucket, msgspec.json.encode(body)))
    return rows


def decode_values(body: bytes) -> Iterator[tuple[int, Beside]]:
    """Yield each subscription of a block with what it is told beside the event."""
    document = msgspec.json.decode(body)
    bindings = document.get("bindings")
    for at, subscription in enumerate(document["subscriptions"]):
        values = {name: listed[at] for name, listed in document["values"].items() if listed[at] is not None}
        yield subscription, Beside(values, [] if bindings is None else bindings[at])


def add_values(transaction: Transaction, blocks: Sequence[ValueBlock]) -> None:
    """Store values that were computed, in the transaction that stores the matches."""
    transaction.insert_rows(computed_values, blocks)


def computed_among(connection: Connection, seqs: Sequence[int]) -> set[int]:
    """Return which of these events have computed values."""
    found: set[int] = set()
    for start in range(0, len(seqs), _AT_A_TIME):
        chosen = computed_values.c.seq.in_(seqs[start : start + _AT_A_TIME])
        found.update(connection.execute(select(computed_values.c.seq).where(chosen).distinct()).scalars())
    return found


def find_values(connection: Connection, owner: int, seqs: Sequence[int]) -> dict[tuple[int, int], Beside]:
    """Return (seq, subscription) -> what it is told beside the event, in an owner's bucket."""
    found: dict[tuple[int, int], Beside] = {}
    table = computed_values.c
    for start in range(0, len(seqs), _AT_A_TIME):
        query = select(table.seq, table.body).where(
            table.bucket == owner % BUCKETS, table.seq.in_(seqs[start : start + _AT_A_TIME])
        )
        for seq, body in connection.execute(query):
            found.update(((seq, subscription), values) for subscription, values in decode_values(body))
    return found


def remove_offers_through(transaction: Transaction, seq: int) -> None:
    """Remove offers that nobody finds any more, and values, up to a seq."""
    transaction.connection.execute(delete(offers).where(offers.c.seq <= seq))
    transaction.connection.execute(delete(computed_values).where(computed_values.c.seq <= seq))


# --- Dead letters -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that could not be processed, and why."""

    seq: int
    kind: str
    publisher: str
    reason: str
    violations: bytes
    body: bytes
    at_us: int
    site: str = ""  # as which it was published


@dataclass(frozen=True, slots=True)
class NewDeadLetter:
    """A dead letter about to be stored; `kind` is event, match or delivery."""

    kind: str
    publisher: str
    reason: str
    violations: bytes
    body: bytes
    site: str = ""


def unmatched(seq: int, reason: str, body: bytes) -> NewDeadLetter:
    """Return the dead letter of an event that is in the log, but cannot be matched."""
    problem = ["match", None, f"event {seq}: {reason}"[:2000]]
    return NewDeadLetter("match", "", reason[:2000], msgspec.json.encode([problem]), body)


def add_dead_letters(transaction: Transaction, new: Sequence[tuple[int, NewDeadLetter]]) -> None:
    """Store dead letters under seqs that were drawn for them."""
    transaction.insert_rows(
        dead_letters,
        [
            (
                seq,
                letter.kind,
                letter.publisher,
                letter.reason,
                letter.violations,
                letter.body,
                transaction.now_us,
                letter.site,
            )
            for seq, letter in new
        ],
    )


def read_dead_letters(connection: Connection, after_seq: int, limit: int, publisher: str | None) -> list[DeadLetter]:
    """Return dead letters after a seq; of one publisher, or of all."""
    query = select(dead_letters).where(dead_letters.c.seq > after_seq).order_by(dead_letters.c.seq).limit(limit)
    if publisher is not None:
        query = query.where(dead_letters.c.publisher == publisher)
    return [DeadLetter(*row) for row in connection.execute(query)]


def remove_dead_letters_through(transaction: Transaction, seq: int) -> None:
    """Remove dead letters up to a seq."""
    transaction.connection.execute(delete(dead_letters).where(dead_letters.c.seq <= seq))


def remove_dead_letters_of(transaction: Transaction, publisher: str) -> None:
    """Remove a publisher's dead letters."""
    transaction.connection.execute(delete(dead_letters).where(dead_letters.c.publisher == publisher))


# --- Idempotency keys -------------------------------------------------------------------------------------------------


def find_answer(connection: Connection, publisher: str, key: str) -> tuple[bytes, bytes] | None:
    """Return (hash of the body, receipts) of what was answered to an idempotency key."""
    query = select(idempotency.c.body_hash, idempotency.c.receipts).where(
        idempotency.c.publisher == publisher, idempotency.c.key == key
    )
    row = connection.execute(query).first()
    return (row.body_hash, row.receipts) if row else None


def add_answers(transaction: Transaction, answers: Sequence[tuple[str, str, bytes, bytes]]) -> None:
    """Store (publisher, key, hash of the body, receipts) as of this transaction."""
    transaction.insert_rows(idempotency, [(*answer, transaction.seq) for answer in answers])


def remove_answers_through(transaction: Transaction, seq: int) -> None:
    """Remove keys up to a seq."""
    transaction.connection.execute(delete(idempotency).where(idempotency.c.seq <= seq))


def remove_answers_of(transaction: Transaction, publisher: str) -> None:
    """Remove a publisher's keys."""
    transaction.connection.execute(delete(idempotency).where(idempotency.c.publisher == publisher))


def new_event_ids(count: int, now_us: int) -> list[bytes]:
    """Return new ids: UUIDs of version 7, which begin with the time, so that they are appended to their index."""
    made = np.empty((count, 16), np.uint8)
    made[:, :6] = np.frombuffer((now_us // 1000).to_bytes(6, "big"), np.uint8)
    made[:, 6:] = np.frombuffer(os.urandom(10 * count), np.uint8).reshape(count, 10)
    made[:, 6] = 0x70 | made[:, 6] & 0x0F
    made[:, 8] = 0x80 | made[:, 8] & 0x3F
    whole = made.tobytes()
    return [whole[at : at + 16] for at in range(0, 16 * count, 16)]


def id_text(id: bytes) -> str:
    """Return an id as a UUID is written."""
    text = id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
