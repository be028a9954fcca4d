"""Replacements: subscriptions that go on under the id of an earlier one, with another expression or after a pause.

A subscription never changes. To replace its expression, or to let it go on after a pause, is to end it and to store
another at a new seq: so the snapshot rule, the index and the pipeline know of nothing but beginnings and ends. Its
owner knows all of them by the id of the first, the origin; inside, each has its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, func, insert, select

from tocsin.store.tables import replacements
from tocsin.store.transaction import Transaction

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


def remove(transaction: Transaction, ids: Iterable[int]) -> None:
    """Forget replacements, as their subscriptions are removed."""
    for some in _in_parts(ids):
        transaction.connection.execute(delete(replacements).where(replacements.c.subscription.in_(some)))


def _in_parts(ids: Iterable[int]) -> Iterable[list[int]]:
    listed = sorted(set(ids))
    return (listed[start : start + _AT_A_TIME] for start in range(0, len(listed), _AT_A_TIME))
