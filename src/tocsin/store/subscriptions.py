"""Subscriptions and their leases. A subscription's id is the seq at which it was created.

Prices: about how many bytes of memory a subscription takes, known from its stored form alone.

A few hundred bytes for being there, and about 200 for each constant: 150 lists of 6,000 constants took 188 MB. A rough
estimate, and the same one whenever it is asked for, so that quotas in this unit are exact.

Replacements: subscriptions that go on under the id of an earlier one, with another expression or after a pause.

A subscription never changes. To replace its expression, or to let it go on after a pause, is to end it and to store
another at a new seq: so the snapshot rule, the index and the pipeline know of nothing but beginnings and ends. Its
owner knows all of them by the id of the first, the origin; inside, each has its own.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from tocsin.store import tables
from tocsin.store.store import SECOND, Transaction
from tocsin.store.tables import accounts, leases, replacements, subscriptions

_AT_A_TIME = 500


def add_replacement(transaction: Transaction, subscription: int, origin: int) -> None:
    """Store that a subscription goes on under the id of another."""
    transaction.connection.execute(insert(replacements).values(subscription=subscription, origin=origin))


def current_ids(connection: Connection, origins: Iterable[int]) -> dict[int, int]:
    """Return origin -> the id of the last that goes on under it, for those that were replaced."""
    columns = replacements.c
    found: dict[int, int] = {}
    for some in _in_parts(origins):
        query = select(columns.origin, func.max(columns.subscription)).where(columns.origin.in_(some))
        found.update((origin, last) for origin, last in connection.execute(query.group_by(columns.origin)))
    return found


def origins_of(connection: Connection, ids: Iterable[int]) -> dict[int, int]:
    """Return id -> origin, for those that go on under the id of another."""
    found: dict[int, int] = {}
    for some in _in_parts(ids):
        query = select(replacements).where(replacements.c.subscription.in_(some))
        found.update((row.subscription, row.origin) for row in connection.execute(query))
    return found


def all_ids(connection: Connection, origins: Iterable[int]) -> list[int]:
    """Return the ids of all that were ever stored under these origins, and are kept; the origins themselves too."""
    wanted = sorted(set(origins))
    found = list(wanted)
    for some in _in_parts(wanted):
        query = select(replacements.c.subscription).where(replacements.c.origin.in_(some))
        found += connection.execute(query).scalars()
    return found


def remove_replacements(transaction: Transaction, ids: Iterable[int]) -> None:
    """Forget replacements, as their subscriptions are removed."""
    for some in _in_parts(ids):
        transaction.connection.execute(delete(replacements).where(replacements.c.subscription.in_(some)))


def _in_parts(ids: Iterable[int]) -> Iterable[list[int]]:
    listed = sorted(set(ids))
    return (listed[start : start + _AT_A_TIME] for start in range(0, len(listed), _AT_A_TIME))


# --- Subscriptions ----------------------------------------------------------------------------------------------------


THERE = 256
CONSTANT = 200


def price_of(tree: bytes) -> int:
    """Return the price of a subscription in bytes, by its JSON tree; commas stand for constants."""
    return THERE + len(tree) + CONSTANT * tree.count(b",")


# Subscriptions and their leases.


RENEWED_US = 30 * 86400 * SECOND  # that a lease renews itself for at most: its account may be gone by then
_ROWS = 20_000  # rows fetched at a time where all are read


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A subscription about to be stored."""

    owner: int
    text: str
    tree: bytes
    schema_version: int
    ticket_hash: bytes
    lease_us: int
    renews: bool = False


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A subscription with its lease, as it stands."""

    id: int
    owner: int
    owner_name: str
    text: str
    tree: bytes
    schema_version: int
    ticket_hash: bytes
    start_us: int
    end_us: int
    generation: int
    changed_seq: int
    deleted_seq: int | None
    deleted_by: str | None
    origin: int  # the id under which its owner knows it: see subscriptions.py
    renews: int = 0  # 1: by itself, while its owner's account lives

    @property
    def paused(self) -> bool:
        return self.deleted_by == "paused"

    def is_over(self, now_us: int) -> bool:
        """Return whether it has ended for good."""
        return self.end_us <= now_us or (self.deleted_seq is not None and not self.paused)


class LeaseRow(NamedTuple):
    """How long a subscription is live; `tree` only where it was asked for."""

    id: int
    owner: int
    start_us: int
    end_us: int
    deleted_seq: int | None
    tree: bytes | None = None


def checksum_of(id: int, owner: int, text: str, tree: bytes, schema_version: int, ticket_hash: bytes) -> bytes:
    """Return the checksum of a subscription as it is stored; it never changes."""
    row = (id, owner, text, tree, schema_version, ticket_hash)
    return hashlib.sha256(msgspec.msgpack.encode(row)).digest()[:16]


def _whole(*row: Any) -> tuple[Any, ...]:
    return (*row, checksum_of(*row))


def add_subscriptions(transaction: Transaction, new: Sequence[NewSubscription]) -> int:
    """Store subscriptions, each with a seq of its own; return the first, the others follow it."""
    first = transaction.draw(len(new))
    now = transaction.now_us
    transaction.insert_rows(
        subscriptions,
        [
            _whole(first + at, row.owner, row.text, row.tree, row.schema_version, row.ticket_hash)
            for at, row in enumerate(new)
        ],
    )
    prices: Counter[int] = Counter()
    for row in new:
        prices[row.owner] += price_of(row.tree)
    for owner, price in prices.items():
        _charge(transaction, owner, price)
    transaction.insert_rows(
        leases,
        [
            (
                first + at,
                row.owner,
                now,
                now + row.lease_us,
                1,
                first + at,
                None,
                None,
                price_of(row.tree),
                int(row.renews),
            )
            for at, row in enumerate(new)
        ],
    )
    return first


def add_version(transaction: Transaction, of: StoredSubscription, new: NewSubscription) -> int:
    """Store a subscription that goes on under the id of another, with what is left of its lease; return its seq."""
    seq = transaction.draw()
    row = _whole(seq, of.owner, new.text, new.tree, new.schema_version, of.ticket_hash)
    transaction.insert_rows(subscriptions, [row])
    price = price_of(new.tree)
    lease = (seq, of.owner, of.start_us, of.end_us, of.generation, seq, None, None, price, of.renews)
    transaction.insert_rows(leases, [lease])
    _charge(transaction, of.owner, price)
    add_replacement(transaction, seq, of.origin)
    return seq


def set_ending(transaction: Transaction, ids: Sequence[int], deleted_by: str) -> None:
    """Store another reason why subscriptions are over, for those that are."""
    for start in range(0, len(ids), _AT_A_TIME):
        chosen = leases.c.subscription.in_(ids[start : start + _AT_A_TIME]) & leases.c.deleted_seq.is_not(None)
        _discharge(transaction, chosen & (leases.c.deleted_by == "paused"))
        transaction.connection.execute(update(leases).where(chosen).values(deleted_by=deleted_by))


def renew(transaction: Transaction, id: int, end_us: int, generation: int, *, renews: bool = False) -> int:
    """Store a lease's new end and generation, and whether it renews itself from now on; return the seq."""
    seq = transaction.draw()
    change = {"end_us": end_us, "generation": generation, "changed_seq": seq, "renews": int(renews)}
    transaction.connection.execute(update(leases).where(leases.c.subscription == id).values(**change))
    return seq


def end_leases(transaction: Transaction, ids: Sequence[int], deleted_by: str) -> int:
    """Store that subscriptions are over, all at one seq, which is returned; those that were over stay as they were."""
    seq = transaction.draw()
    change = {"deleted_seq": seq, "deleted_by": deleted_by, "changed_seq": seq}
    for start in range(0, len(ids), _AT_A_TIME):
        chosen = leases.c.subscription.in_(ids[start : start + _AT_A_TIME]) & leases.c.deleted_seq.is_(None)
        if deleted_by != "paused":  # those are still their owners'
            _discharge(transaction, chosen)
        transaction.connection.execute(update(leases).where(chosen).values(**change))
    return seq


def find_renewable(connection: Connection, now_us: int) -> list[int]:
    """Return the live subscriptions that renew themselves and are past half of their lease, of accounts that live."""
    chosen = (leases.c.renews == 1) & leases.c.deleted_seq.is_(None) & (leases.c.end_us > now_us)
    past_half = (leases.c.end_us <= now_us + RENEWED_US) & (leases.c.start_us + leases.c.end_us <= 2 * now_us)
    query = select(leases.c.subscription).join(accounts, accounts.c.number == leases.c.owner)
    return list(connection.execute(query.where(chosen, past_half, accounts.c.disabled_us.is_(None))).scalars())


def end_paused(transaction: Transaction) -> None:
    """Store that the leases of paused subscriptions ended, where they did and do not renew themselves."""
    living = select(accounts.c.number).where(accounts.c.disabled_us.is_(None))
    renewed = (leases.c.deleted_by == "paused") & (leases.c.renews == 1) & leases.c.owner.in_(living)
    soon = leases.c.end_us <= transaction.now_us + RENEWED_US // 2
    change = update(leases).where(renewed & soon).values(end_us=transaction.now_us + RENEWED_US)
    transaction.connection.execute(change)
    over = (leases.c.deleted_by == "paused") & (leases.c.end_us <= transaction.now_us)
    _discharge(transaction, over)
    transaction.connection.execute(update(leases).where(over).values(deleted_by="lease"))


def find_subscriptions(connection: Connection, ids: Sequence[int]) -> list[StoredSubscription]:
    """Return those of these subscriptions that are kept, whether live or over, ordered by id."""
    found: list[StoredSubscription] = []
    for start in range(0, len(ids), _AT_A_TIME):
        chosen = _WHOLE.where(subscriptions.c.id.in_(ids[start : start + _AT_A_TIME]))
        found += _read(connection.execute(chosen))
    return sorted(found, key=lambda row: row.id)


def find_current(connection: Connection, origins: Sequence[int]) -> dict[int, StoredSubscription]:
    """Return the id that owners know -> the subscription that goes on under it, or was the last to."""
    newest = current_ids(connection, origins)
    found = find_subscriptions(connection, [newest.get(id, id) for id in origins])
    known = {one.origin: one for one in found}
    return {id: known[id] for id in origins if id in known}


def list_subscriptions(
    connection: Connection, owner: int, after: int, limit: int, now_us: int
) -> list[StoredSubscription]:
    """Return an owner's subscriptions, live and paused, with ids (as the owner knows them) after one, in order."""
    kept = leases.c.deleted_seq.is_(None) | ((leases.c.deleted_by == "paused") & (leases.c.end_us > now_us))
    mine = _WHOLE.where(leases.c.owner == owner, kept)
    # Two queries, so that those that were never replaced come by the index on (owner, subscription).
    never = mine.where(leases.c.subscription > after, _REPLACED.c.origin.is_(None)).order_by(leases.c.subscription)
    replaced = mine.where(_REPLACED.c.origin > after).order_by(_REPLACED.c.origin)
    found = _read(connection.execute(never.limit(limit))) + _read(connection.execute(replaced.limit(limit)))
    return sorted(found, key=lambda one: one.origin)[:limit]


def count_paused(connection: Connection, owner: int) -> int:
    """Return how many of an owner's subscriptions are paused."""
    query = select(func.count()).select_from(leases).where(leases.c.owner == owner, leases.c.deleted_by == "paused")
    return int(connection.execute(query).scalar_one())


def bytes_of(connection: Connection, owner: int) -> int:
    """Return what an owner's subscriptions, live and paused, take together, by their prices."""
    query = select(accounts.c.subscription_bytes).where(accounts.c.number == owner)
    return int(connection.execute(query).scalar_one())


def _charge(transaction: Transaction, owner: int, price: int) -> None:
    """Add to what an owner's subscriptions take."""
    new = accounts.c.subscription_bytes + price
    transaction.connection.execute(update(accounts).where(accounts.c.number == owner).values(subscription_bytes=new))


def _discharge(transaction: Transaction, chosen: ColumnElement[bool]) -> None:
    """Take off what the chosen leases take, before they are no longer their owners'."""
    query = select(leases.c.owner, func.sum(leases.c.price)).where(chosen).group_by(leases.c.owner)
    for owner, price in transaction.connection.execute(query).all():
        _charge(transaction, owner, -int(price))


def unsubscribed(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Return which of these subscriptions their owner has ended; nothing more is delivered for them."""
    found: set[int] = set()
    for start in range(0, len(ids), _AT_A_TIME):
        query = select(leases.c.subscription).where(
            leases.c.subscription.in_(ids[start : start + _AT_A_TIME]), leases.c.deleted_by == "owner"
        )
        found.update(connection.execute(query).scalars())
    return found


def leases_since(connection: Connection, seq: int, low_water: int, *, trees: bool) -> Iterator[list[LeaseRow]]:
    """Yield the leases that changed after `seq`, in the order of their ids.

    From the beginning (seq 0), those over by `low_water` are left out: the events up to there have been matched.
    """
    columns = [leases.c.subscription, leases.c.owner, leases.c.start_us, leases.c.end_us, leases.c.deleted_seq]
    query = select(*columns, subscriptions.c.tree).join(subscriptions) if trees else select(*columns)
    if seq:
        query = query.where(leases.c.changed_seq > seq)
    else:
        query = query.where(or_(leases.c.deleted_seq.is_(None), leases.c.deleted_seq > low_water))
    rows = connection.execute(query.order_by(leases.c.subscription).execution_options(yield_per=_ROWS))
    for chunk in rows.partitions():
        yield [LeaseRow(*tuple(row)) for row in chunk]


def trees_of(connection: Connection, ids: Sequence[int]) -> dict[int, bytes]:
    """Return id -> JSON tree."""
    found: dict[int, bytes] = {}
    for start in range(0, len(ids), _AT_A_TIME):
        query = select(subscriptions.c.id, subscriptions.c.tree).where(
            subscriptions.c.id.in_(ids[start : start + _AT_A_TIME])
        )
        found |= {row.id: row.tree for row in connection.execute(query)}
    return found


def remove_ended(transaction: Transaction, through_seq: int) -> int:
    """Remove subscriptions that were over by `through_seq`, and not only paused; return how many."""
    waiting = (leases.c.deleted_by == "paused") & (leases.c.end_us > transaction.now_us)
    over = select(leases.c.subscription).where(leases.c.deleted_seq <= through_seq, ~func.coalesce(waiting, False))
    ids = list(transaction.connection.execute(over).scalars())
    remove_replacements(transaction, ids)
    for start in range(0, len(ids), _AT_A_TIME):
        chunk = ids[start : start + _AT_A_TIME]
        transaction.connection.execute(delete(leases).where(leases.c.subscription.in_(chunk)))
        transaction.connection.execute(delete(subscriptions).where(subscriptions.c.id.in_(chunk)))
    return len(ids)


def _read(rows: Iterable[Any]) -> list[StoredSubscription]:
    return [StoredSubscription(*row) for row in rows]


_REPLACED = tables.replacements
_WHOLE = (
    select(
        subscriptions.c.id,
        subscriptions.c.owner,
        accounts.c.name,
        subscriptions.c.text,
        subscriptions.c.tree,
        subscriptions.c.schema_version,
        subscriptions.c.ticket_hash,
        leases.c.start_us,
        leases.c.end_us,
        leases.c.generation,
        leases.c.changed_seq,
        leases.c.deleted_seq,
        leases.c.deleted_by,
        func.coalesce(_REPLACED.c.origin, subscriptions.c.id),
        leases.c.renews,
    )
    .join(leases, leases.c.subscription == subscriptions.c.id)
    .join(accounts, accounts.c.number == subscriptions.c.owner)
    .outerjoin(_REPLACED, _REPLACED.c.subscription == subscriptions.c.id)
)
