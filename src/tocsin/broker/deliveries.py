"""Deliveries: an owner's notifications in order, after a cursor.

From the store: whatever is kept, page by page. From memory: what a commit has just matched (`MatchedBatch`), for readers
who have everything before it. Both give the same notifications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from tocsin.broker import cursors
from tocsin.broker.admission import read_stored
from tocsin.broker.core import Core
from tocsin.broker.cursors import LAST, Position, id_text, instant
from tocsin.documents.events import Notification, NotificationPage
from tocsin.errors import BadCursor, CursorExpired
from tocsin.store import Meta, Store, accounts, notifications, progress, subscriptions
from tocsin.store.events import (
    NOTHING_BESIDE,
    Beside,
    ValueBlock,
    computed_among,
    decode_values,
    find_events,
    find_values,
)
from tocsin.store.notifications import BUCKETS, StoredMatches, notification_id, read_notifications
from tocsin.store.store import read_meta

CONSUMER = "default"


class Found(NamedTuple):
    """StoredMatches from the store in order, and whether there were more."""

    positions: list[Position]
    more: bool


def read_page(core: Core, owner: str, cursor: str | None, limit: int, consumer: str) -> NotificationPage:
    """Return an owner's notifications after a cursor; without one, after what the consumer has acknowledged.

    Raises CursorExpired where some of what follows the cursor is no longer kept.
    """
    limit = max(1, min(limit, core.settings.page))
    with core.store.read() as connection:
        stands = read_meta(connection)
        number = accounts.find_account(connection, owner)
        start = _start(connection, stands, number, cursor, consumer)
        found = Found([], more=False) if number is None else _find(connection, number, start, limit)
        described = describe(connection, found.positions, stands.incarnation, number or cursors.NOBODY)
    if found.more:
        end = found.positions[-1]
    else:  # nothing else was there, up to where matching had come
        end = max(start, Position(stands.matched_through, LAST))
    return NotificationPage(
        tuple(described), cursors.encode(end, stands.incarnation, number or cursors.NOBODY), found.more
    )


def oldest_cursor(stands: Meta) -> str:
    """Return the cursor from which everything that is kept follows."""
    return cursors.encode(Position(stands.horizon, LAST), stands.incarnation)


def position_of(cursor: str, stands: Meta, owner: int | None) -> Position:
    """Return the position of a cursor of an owner (None: of nobody who is known); raises BadCursor, or CursorExpired."""
    if cursors.is_unsealed(cursor):
        raise CursorExpired("this cursor is of an earlier version; go on from the oldest", oldest_cursor(stands))
    found = cursors.decode(cursor)
    if found.incarnation != stands.incarnation[:8]:
        raise CursorExpired("the store was restored from a backup since this cursor was made", oldest_cursor(stands))
    cursors.check(cursor, stands.incarnation, cursors.NOBODY if owner is None else owner)
    if found.position.seq > stands.seq:
        raise BadCursor("this cursor is not of this store")
    return found.position


def _start(connection: Connection, stands: Meta, owner: int | None, cursor: str | None, consumer: str) -> Position:
    if cursor is not None:
        position = position_of(cursor, stands, owner)
    else:
        acknowledged = None if owner is None else progress.read_acknowledged(connection, owner, consumer)
        position = Position(stands.horizon, LAST) if acknowledged is None else Position(*acknowledged)
    if position.seq < stands.horizon:
        raise CursorExpired(
            "some notifications after this cursor are older than the retention and gone; go on from the oldest",
            oldest_cursor(stands),
        )
    return position


def _find(connection: Connection, owner: int, start: Position, limit: int) -> Found:
    found: list[Position] = []
    for matches in read_notifications(connection, owner, start.seq):
        candidates = [
            position
            for position in map(Position, matches.seq.tolist(), matches.subscription.tolist())
            if position > start
        ]
        gone = subscriptions.unsubscribed(connection, sorted({position.subscription for position in candidates}))
        found += (position for position in candidates if position.subscription not in gone)
        if len(found) > limit:
            return Found(found[:limit], more=True)
    return Found(found, more=False)


def describe(connection: Connection, positions: Sequence[Position], incarnation: str, owner: int) -> list[Notification]:
    """Return an owner's notifications at positions, which must be there."""
    stored = find_events(connection, sorted({position.seq for position in positions}))
    origins = subscriptions.origins_of(connection, {position.subscription for position in positions})
    beside = _beside(connection, positions)
    return [
        _notification(
            position,
            stored[position.seq].event_id,
            stored[position.seq].arrival_us,
            stored[position.seq].body,
            origins.get(position.subscription, position.subscription),
            beside.get((position.seq, position.subscription), NOTHING_BESIDE),
            cursors.encode(position, incarnation, owner),
        )
        for position in positions
    ]


def _notification(
    position: Position, event_id: bytes, arrival_us: int, body: bytes, origin: int, beside: Beside, cursor: str
) -> Notification:
    return Notification(
        id=id_text(notification_id(event_id, position.subscription)),
        seq=position.seq,
        subscription=origin,
        event_id=id_text(event_id),
        arrival=instant(arrival_us),
        event=read_stored(body) | beside.values,
        cursor=cursor,
        computed=tuple(beside.values),
        bindings=tuple(beside.bindings),
    )


def _beside(connection: Connection, positions: Sequence[Position]) -> dict[tuple[int, int], Beside]:
    """Return what these notifications tell beside their events, by seq and subscription."""
    seqs = computed_among(connection, sorted({position.seq for position in positions}))
    if not seqs:
        return {}
    stored = subscriptions.find_subscriptions(connection, sorted({one.subscription for one in positions}))
    found: dict[tuple[int, int], Beside] = {}
    for owner in {one.owner % BUCKETS for one in stored}:
        found |= find_values(connection, owner, sorted(seqs))
    return found


class StoredNow(NamedTuple):
    """An event that a commit has just stored."""

    event_id: bytes
    body: bytes


@dataclass(frozen=True)
class MatchedBatch:
    """What one commit of this process has matched and stored, still in memory."""

    incarnation: str
    since: int  # between this seq and `through` nobody but this process has matched anything
    through: int
    arrival_us: int
    matches: StoredMatches
    events: Mapping[int, StoredNow]  # by seq
    values: Sequence[ValueBlock]  # what is told beside events

    @cached_property
    def owners(self) -> list[int]:
        """The account numbers of those whom the events reach."""
        return np.unique(self.matches.owner).tolist()  # type: ignore[no-any-return]

    def positions(self, owner: int, after: Position) -> list[Position]:
        """Return an owner's matches after a position, in order."""
        chosen = self.matches.owner == owner
        found = zip(self.matches.seq[chosen].tolist(), self.matches.subscription[chosen].tolist(), strict=True)
        return sorted(position for position in map(Position._make, found) if position > after)

    def describe(self, positions: Sequence[Position], owner: int, origins: Mapping[int, int]) -> list[Notification]:
        """Return the notifications at an owner's positions; `origins` are the ids that the owner knows."""
        beside = {
            (block.seq, subscription): told
            for block in self.values
            if block.bucket == owner % BUCKETS
            for subscription, told in decode_values(block.body)
        }
        return [
            _notification(
                position,
                self.events[position.seq].event_id,
                self.arrival_us,
                self.events[position.seq].body,
                origins[position.subscription],
                beside.get((position.seq, position.subscription), NOTHING_BESIDE),
                cursors.encode(position, self.incarnation, owner),
            )
            for position in positions
        ]

    def cursor(self, owner: int) -> str:
        """Return an owner's cursor after all of it."""
        return cursors.encode(Position(self.through, LAST), self.incarnation, owner)


class Deliveries:
    """A broker's notifications for those who push them to many readers from one thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._callbacks: list[Callable[[MatchedBatch], None]] = []

    @property
    def _store(self) -> Store:
        return self._core.store

    def on_matched(self, callback: Callable[[MatchedBatch], None]) -> None:
        """Call a function with what each commit has matched, in commit order, in the thread that committed."""
        self._callbacks.append(callback)

    def matched(self, batch: MatchedBatch) -> None:
        """Tell those who asked for it what a commit has matched."""
        for callback in self._callbacks:
            callback(batch)

    def owners_stored_since(self, through: int | None) -> tuple[int, list[int]]:
        """Return how far matching has come, and the owners who have got something since it stood at `through`."""
        with self._store.read() as connection:
            stands = read_meta(connection)
            if through is None or stands.matched_through <= through:
                return stands.matched_through, []
            return stands.matched_through, notifications.owners_since(connection, through)

    def was_unsubscribed(self, id: int) -> bool:
        """Return whether this process has unsubscribed it: a page that was read before may still name it."""
        return self._core.was_unsubscribed(id)

    def origins_of(self, ids: Sequence[int]) -> dict[int, int]:
        """Return id -> the id by which its owner knows a subscription."""
        with self._store.read() as connection:
            return {id: id for id in ids} | subscriptions.origins_of(connection, ids)

    def cursor_at(self, seq: int, subscription: int = LAST) -> str:
        """Return the cursor after a position."""
        return cursors.encode(Position(seq, subscription), self._store.incarnation)

    def newest_cursor(self) -> str:
        """Return the cursor from which only what is still to come follows."""
        return self.cursor_at(self._store.meta().matched_through)

    def position_of(self, cursor: str, owner: int) -> Position:
        """Return what a cursor of an account stands for; raises BadCursor, CursorExpired."""
        return position_of(cursor, self._store.meta(), owner)

    def check_cursor(self, cursor: str, owner: int) -> None:
        """Raise BadCursor, or CursorExpired where some of what follows is no longer kept."""
        stands = self._store.meta()
        if position_of(cursor, stands, owner).seq < stands.horizon:
            raise CursorExpired("some of what follows this cursor is no longer kept", oldest_cursor(stands))

    def at(self, owner: int, positions: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Notification]:
        """Return an account's notifications at positions (seq, subscription), without those unsubscribed since."""
        with self._store.read() as connection:
            stands = read_meta(connection)
            gone = subscriptions.unsubscribed(connection, sorted({id for _, id in positions}))
            wanted = [Position(seq, id) for seq, id in positions if id not in gone and seq > stands.horizon]
            found = describe(connection, wanted, stands.incarnation, owner)
        return {(at.seq, at.subscription): one for at, one in zip(wanted, found, strict=True)}

    def notification_at(self, name: str, owner: int, cursor: str) -> Notification | None:
        """Return the notification that a cursor comes from, None where it is not one of the account's; raises BadCursor."""
        position = self.position_of(cursor, owner)
        before = self.cursor_at(position.seq, max(0, position.subscription - 1))
        return next((one for one in read_page(self._core, name, before, 1, CONSUMER) if one.cursor == cursor), None)
