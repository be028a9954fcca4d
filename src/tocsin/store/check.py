"""Checking a store: everything that should hold in it, said in words where it does not. `tocsin db check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sqlalchemy import Connection, func, select, text

from tocsin.errors import StoreDamaged, TocsinError
from tocsin.language import bind, from_json
from tocsin.language.documents import decode
from tocsin.schema import Schema
from tocsin.store import notifications, schema_history, seals
from tocsin.store.store import Store
from tocsin.store.tables import accounts, dead_letters, events, leases, schema_versions, subscriptions
from tocsin.store.transaction import Meta, read_meta

_ROWS = 10_000


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
            *seals.verify(connection, heads),
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
    rows = connection.execute(query.execution_options(yield_per=_ROWS))
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
    for row in connection.execute(query.execution_options(yield_per=_ROWS)):
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
        for bucket, first, last, matches in notifications.all_blocks(connection):
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
