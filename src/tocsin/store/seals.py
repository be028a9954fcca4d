"""Seals: what shows that the log is what it was. A chain of digests over stretches of it, and checksums of subscriptions.

A seal covers the seqs after the one before it: the events, the notifications stored for them, and the subscriptions
created there. Its head is a digest over those and the head before, so whoever knows a head knows all that it stands on:
heads can be kept elsewhere (`tocsin db head`) and held against the store later (`tocsin db check --head`).

Stretches are sealed a while after they were written, in the background, and only as far as matching has come, since
nothing is added to them then. What the retention removes cannot be shown any more; heads go on over it. Subscriptions
outlive it, so each has a checksum of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, delete, func, insert, select

from tocsin.store.notifications import BUCKETS
from tocsin.store.store import Store
from tocsin.store.subscriptions import checksum_of
from tocsin.store.tables import events, notifications, seals, subscriptions
from tocsin.store.transaction import Transaction, read_meta

SPAN = 10_000  # seqs in one stretch at most: where something is wrong is known to that
_ROWS = 1000
_NOTHING = bytes(32)


@dataclass(frozen=True, slots=True)
class Seal:
    """Digests of a stretch that ends with a seq; `head` stands for it and everything before."""

    through_seq: int
    at_us: int
    events: bytes
    notifications: bytes
    subscriptions: bytes
    head: bytes


def seal(store: Store) -> int:
    """Seal what is not sealed yet, as far as matching has come; return how many stretches that were."""
    made = 0
    while _seal_next(store):
        made += 1
    return made


def _seal_next(store: Store) -> bool:
    with store.read() as connection:
        stands, last = read_meta(connection), newest(connection)
        if last is None:  # the first stretch begins behind what was removed before there were seals
            through, parts = stands.horizon, (b"", b"", b"")
        else:
            through = min(last.through_seq + SPAN, stands.matched_through)
            if through <= last.through_seq:
                return False
            parts = _digests(connection, last.through_seq, through)
    with store.write() as turn:
        if newest(turn.connection) == last:  # otherwise another process was faster
            head = _head(_NOTHING if last is None else last.head, through, parts)
            row = Seal(through, turn.now_us, *parts, head)
            turn.connection.execute(insert(seals).values(tuple(getattr(row, column.name) for column in seals.c)))
    return True


def newest(connection: Connection) -> Seal | None:
    """Return the last seal."""
    row = connection.execute(select(seals).order_by(seals.c.through_seq.desc()).limit(1)).first()
    return None if row is None else Seal(*row)


def remove_through(transaction: Transaction, seq: int) -> None:
    """Remove seals of what was removed, but for the last: what follows stands on it."""
    kept = select(func.max(seals.c.through_seq)).where(seals.c.through_seq <= seq)
    last = transaction.connection.execute(kept).scalar()
    if last is not None:
        transaction.connection.execute(delete(seals).where(seals.c.through_seq < last))


def verify(connection: Connection, heads: Sequence[tuple[int, str]] = ()) -> Iterator[str]:
    """Yield what is not as it was sealed; `heads` are those kept elsewhere, by seq, in hexadecimal digits."""
    horizon = read_meta(connection).horizon
    known = dict(heads)
    before: Seal | None = None
    found = (Seal(*row) for row in connection.execute(select(seals).order_by(seals.c.through_seq)).all())
    for one in found:
        if before is not None:
            yield from _verify_stretch(connection, before, one, whole=before.through_seq >= horizon)
        if known.pop(one.through_seq, one.head.hex()) != one.head.hex():
            yield f"the head at seq {one.through_seq} is another than the one that was kept elsewhere"
        before = one
    for seq in sorted(known):
        yield f"there is no head at seq {seq}; one was kept elsewhere"
    yield from _verify_checksums(connection)


def _verify_stretch(connection: Connection, before: Seal, one: Seal, *, whole: bool) -> Iterator[str]:
    stretch = f"{before.through_seq + 1} to {one.through_seq}"
    said = (one.events, one.notifications, one.subscriptions)
    if _head(before.head, one.through_seq, said) != one.head:
        yield f"the seal of the seqs {stretch} does not follow from the one before"
    if whole:
        are = _digests(connection, before.through_seq, one.through_seq)
        for name, sealed, found in zip(("events", "notifications", "subscriptions"), said, are, strict=True):
            if sealed != found:
                yield f"the {name} of the seqs {stretch} are not what was sealed"


def _verify_checksums(connection: Connection) -> Iterator[str]:
    rows = connection.execute(select(subscriptions).order_by(subscriptions.c.id).execution_options(yield_per=_ROWS))
    for row in rows:
        *content, checksum = row
        if checksum_of(*content) != checksum:
            yield f"subscription {row.id} is not what was stored: its checksum is another"


def _head(before: bytes, through: int, parts: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join((before, through.to_bytes(8, "big"), *parts))).digest()


def _digests(connection: Connection, after: int, through: int) -> tuple[bytes, bytes, bytes]:
    """Return the digests of the events, notifications and subscriptions of a stretch."""
    log = select(events).where(events.c.seq > after, events.c.seq <= through).order_by(events.c.seq)
    table = notifications.c
    blocks = (
        select(notifications)
        .where(table.bucket.in_(range(BUCKETS)), table.first_seq > after, table.first_seq <= through)
        .order_by(table.bucket, table.first_seq, table.part)
    )
    created = (
        select(subscriptions.c.id, subscriptions.c.checksum)
        .where(subscriptions.c.id > after, subscriptions.c.id <= through)
        .order_by(subscriptions.c.id)
    )
    return _digest(connection, log), _digest(connection, blocks), _digest(connection, created)


def _digest(connection: Connection, query: Select[Any]) -> bytes:
    digest = hashlib.sha256()
    for row in connection.execute(query.execution_options(yield_per=_ROWS)):
        digest.update(msgspec.msgpack.encode(tuple(row)))
    return digest.digest()
