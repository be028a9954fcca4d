"""Seals: what shows that the log is what it was. A chain of digests over stretches of it, and checksums of subscriptions.

A seal covers the seqs after the one before it: the events, the notifications stored for them, and the subscriptions
created there. Its head is a digest over those and the head before, so whoever knows a head knows all that it stands on:
heads can be kept elsewhere (`tocsin db head`) and held against the store later (`tocsin db check --head`).

Stretches are sealed a while after they were written, in the background, and only as far as matching has come, since
nothing is added to them then. What the retention removes cannot be shown any more; heads go on over it. Subscriptions
outlive it, so each has a checksum of its own.

Checking a store: everything that should hold in it, said in words where it does not. `tocsin db check`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, Select, delete, func, insert, select, text

from tocsin.errors import StoreDamaged, TocsinError
from tocsin.language import bind, from_json
from tocsin.language.documents import decode
from tocsin.schema import Schema
from tocsin.store import schema_history
from tocsin.store.notifications import BUCKETS, all_blocks
from tocsin.store.store import Meta, Store, Transaction, read_meta
from tocsin.store.subscriptions import checksum_of
from tocsin.store.tables import (
    accounts,
    dead_letters,
    events,
    leases,
    notifications,
    schema_versions,
    seals,
    subscriptions,
)

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


# --- Checking a store -------------------------------------------------------------------------------------------------


_ROWS_CHECKED = 10_000


def check(store: Store, heads: Sequence[tuple[int, str]] = ()) -> list[str]:
    """Return what is wrong with a store; nothing, where all is well. `heads` are those of seals kept elsewhere."""
    with store.read() as connection:
        stands = read_meta(connection)
        return [
            *_database(connection),
            *_seqs(connection, stands),
            *_schemas(connection, stands),
            *_subscriptions(connection),
            *_prices(connection),
            *_notifications(connection, stands),
            *verify(connection, heads),
        ]


def _database(connection: Connection) -> Iterator[str]:
    if connection.dialect.name != "sqlite":
        return
    for (message,) in connection.execute(text("PRAGMA integrity_check")):
        if message != "ok":
            yield f"SQLite: {message}"
    for row in connection.execute(text("PRAGMA foreign_key_check")):
        yield f"{row[0]} row {row[1]} refers to a row of {row[2]} that is not there"


def _seqs(connection: Connection, stands: Meta) -> Iterator[str]:
    for column in (events.c.seq, dead_letters.c.seq, leases.c.changed_seq, leases.c.deleted_seq, schema_versions.c.seq):
        last = connection.execute(select(func.max(column))).scalar()
        if last is not None and last > stands.seq:
            yield f"{column.table.name}.{column.name} has {last}, and the last seq given is {stands.seq}"
    if not stands.horizon <= stands.matched_through <= stands.seq:
        yield f"horizon {stands.horizon}, matched {stands.matched_through} and seq {stands.seq} are out of order"
    query = select(events.c.seq, events.c.arrival_us).order_by(events.c.seq)
    rows = connection.execute(query.execution_options(yield_per=_ROWS_CHECKED))
    latest = 0
    for chunk in rows.partitions():
        arrivals = np.array([latest, *(row.arrival_us for row in chunk)])
        if (np.diff(arrivals) < 0).any():
            yield f"events around seq {chunk[0].seq} arrived before those with smaller seqs"
        latest = int(arrivals[-1])
    if latest > stands.mark.now_us:
        yield f"an event arrived at {latest}, after the last time used, {stands.mark.now_us}"


def _schemas(connection: Connection, stands: Meta) -> Iterator[str]:
    found = schema_history.history(connection)
    versions = [entry.version for entry in found]
    if versions and versions != list(range(versions[0], versions[0] + len(versions))):
        yield f"the schema's versions have gaps: {versions}"
    if (versions or [0])[-1] != stands.schema_version:
        yield f"the newest schema is version {(versions or [0])[-1]}, and {stands.schema_version} is said to be in force"


def _subscriptions(connection: Connection) -> Iterator[str]:
    without = (
        select(func.count())
        .select_from(subscriptions)
        .where(~select(leases.c.subscription).where(leases.c.subscription == subscriptions.c.id).exists())
    )
    if count := connection.execute(without).scalar():
        yield f"{count} subscriptions have no lease"
    newest = schema_history.newest(connection)
    query = select(subscriptions.c.id, subscriptions.c.tree).order_by(subscriptions.c.id)
    for row in connection.execute(query.execution_options(yield_per=_ROWS_CHECKED)):
        if newest is None:
            yield f"subscription {row.id} has no schema to be about"
        elif problem := _unbound(row.tree, newest.schema):
            yield f"subscription {row.id}: {problem}"
    for row in connection.execute(
        select(leases.c.subscription).where((leases.c.end_us <= leases.c.start_us) | (leases.c.generation < 1))
    ):
        yield f"the lease of subscription {row.subscription} ends before it starts"


def _unbound(tree: bytes, schema: Schema) -> str | None:
    try:
        bind(from_json(decode(tree)), schema)
    except TocsinError as error:
        return str(error)
    return None


def _prices(connection: Connection) -> Iterator[str]:
    kept = leases.c.deleted_seq.is_(None) | (leases.c.deleted_by == "paused")
    taken = (
        select(leases.c.owner, func.sum(leases.c.price).label("price")).where(kept).group_by(leases.c.owner).subquery()
    )
    query = select(accounts.c.name, accounts.c.subscription_bytes, func.coalesce(taken.c.price, 0)).outerjoin(
        taken, taken.c.owner == accounts.c.number
    )
    for name, said, found in connection.execute(
        query.where(accounts.c.subscription_bytes != func.coalesce(taken.c.price, 0))
    ):
        yield f"the subscriptions of {name} take {found} bytes by their prices, and {said} are said to be taken"


def _notifications(connection: Connection, stands: Meta) -> Iterator[str]:
    """Blocks are ordered and name each (event, subscription) once, by the snapshot rule."""
    rows = connection.execute(select(leases.c.subscription, leases.c.deleted_seq, leases.c.end_us)).all()
    ids = np.array([row[0] for row in rows], np.int64)
    order = np.argsort(ids)
    ids = ids[order]
    deleted = np.array([row[1] or np.iinfo(np.int64).max for row in rows], np.int64)[order]
    ends = np.array([row[2] for row in rows], np.int64)[order]
    arrival = {row.seq: row.arrival_us for row in connection.execute(select(events.c.seq, events.c.arrival_us))}
    before: tuple[int, tuple[int, int, int]] = (-1, (0, 0, 0))
    try:
        for bucket, first, last, matches in all_blocks(connection):
            keys = list(zip(matches.seq.tolist(), matches.owner.tolist(), matches.subscription.tolist(), strict=True))
            if keys != sorted(set(keys)) or (before[0] == bucket and before[1] >= keys[0]) or keys[-1][0] != last:
                yield f"notifications of bucket {bucket} at seq {first} are out of order, or there twice"
            before = (bucket, keys[-1])
            if last > stands.matched_through:
                yield f"notifications at seq {last} were written before matching came that far"
            kept = matches.seq > stands.horizon
            at = np.searchsorted(ids, matches.subscription[kept])
            known = at < len(ids)
            known[known] = ids[at[known]] == matches.subscription[kept][known]
            if not known.all():
                yield f"notifications of bucket {bucket} at seq {first} are for subscriptions that are not there"
                continue
            seq = matches.seq[kept]
            times = np.array([arrival.get(number, -1) for number in seq.tolist()], np.int64)
            if (times < 0).any():
                yield f"notifications of bucket {bucket} at seq {first} are for events that are not there"
            elif ((seq <= ids[at]) | (seq >= deleted[at]) | (times >= ends[at])).any():
                yield f"notifications of bucket {bucket} at seq {first} break the snapshot rule"
    except StoreDamaged as error:
        yield str(error)
