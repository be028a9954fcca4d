"""Deliveries: an owner's notifications in order, after a cursor.

From the store: whatever is kept, page by page. From memory: what a commit has just matched (`MatchedBatch`), for readers
who have everything before it. Both give the same notifications.

Cursors: opaque texts that say how far a reader has come, in one incarnation of the store.

They are sealed with a key that only the store knows, and those that an owner got are good for that owner only: made up,
altered or another's, they are refused. A cursor of nobody (the oldest there is, the newest) is good for everybody.

Listeners: an owner's notifications as they come.

A listener is a cursor and a flag: it reads pages from the store, and the broker wakes it when something was stored for
its owner. So there is no gap between backlog and live, no queue that could overflow, and a reader that was away, or
slow, goes on where it stopped.

Callbacks: a function called with each notification of an owner, by a thread of its own. At least once each, in order;
acknowledged page by page. One that the function fails on again and again becomes a dead letter with the reason, and the
next is called.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection

from tocsin.broker.admission import read_stored
from tocsin.broker.core import Core
from tocsin.documents.events import Notification, NotificationPage
from tocsin.errors import BadCursor, CursorExpired, StoreFailed
from tocsin.store import Meta, Store, accounts, events, notifications, progress, subscriptions
from tocsin.store.events import (
    NOTHING_BESIDE,
    Beside,
    NewDeadLetter,
    ValueBlock,
    computed_among,
    decode_values,
    find_events,
    find_values,
    id_text,
)
from tocsin.store.notifications import BUCKETS, StoredMatches, notification_id, read_notifications
from tocsin.store.store import instant, read_meta

_LAYOUT = struct.Struct(">B4sQQQ")
_SEAL_BYTES = 8
_VERSION, _UNSEALED = 2, 1
LAST = 2**63 - 1  # after every subscription
NOBODY = 0  # accounts are numbered from 1


class Position(NamedTuple):
    """After the match of event `seq` with `subscription`; positions order as notifications are delivered."""

    seq: int
    subscription: int


class Decoded(NamedTuple):
    """What a cursor says; whether it is true, `check_cursor` knows."""

    position: Position
    incarnation: str  # its beginning
    owner: int


def encode_cursor(position: Position, incarnation: str, owner: int = NOBODY) -> str:
    """Return the cursor of a position, for one owner or for everybody."""
    body = _LAYOUT.pack(_VERSION, bytes.fromhex(incarnation[:8]), *position, owner)
    return base64.urlsafe_b64encode(body + _seal(body, incarnation)).decode().rstrip("=")


def decode_cursor(cursor: str) -> Decoded:
    """Return what a cursor says; raises BadCursor where it is none."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        version, incarnation, seq, subscription, owner = _LAYOUT.unpack(raw[:-_SEAL_BYTES])
    except (binascii.Error, ValueError, struct.error):
        raise BadCursor("this is no cursor; use one as it came with a page or a notification") from None
    if version != _VERSION or max(seq, subscription, owner) > LAST:
        raise BadCursor("this cursor was altered; use one as it came with a page or a notification")
    return Decoded(Position(seq, subscription), incarnation.hex(), owner)


def check_cursor(cursor: str, incarnation: str, owner: int | None) -> None:
    """Raise BadCursor where a cursor of this incarnation was altered, or is another's; `owner` None: whoever asks."""
    found = decode_cursor(cursor)
    if not hmac.compare_digest(encode_cursor(found.position, incarnation, found.owner).encode(), cursor.encode()):
        raise BadCursor("this cursor was altered; use one as it came with a page or a notification")
    if owner is not None and found.owner not in (NOBODY, owner):
        raise BadCursor("this cursor is another account's")


def is_unsealed(cursor: str) -> bool:
    """Return whether a cursor is of the versions that knew no seal; they cannot be followed any more."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(raw) == 25 and raw[0] == _UNSEALED


def _seal(body: bytes, incarnation: str) -> bytes:
    return hmac.digest(b"tocsin cursor " + incarnation.encode(), body, "sha256")[:_SEAL_BYTES]


# --- Deliveries -------------------------------------------------------------------------------------------------------


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
        described = describe(connection, found.positions, stands.incarnation, number or NOBODY)
    if found.more:
        end = found.positions[-1]
    else:  # nothing else was there, up to where matching had come
        end = max(start, Position(stands.matched_through, LAST))
    return NotificationPage(tuple(described), encode_cursor(end, stands.incarnation, number or NOBODY), found.more)


def oldest_cursor(stands: Meta) -> str:
    """Return the cursor from which everything that is kept follows."""
    return encode_cursor(Position(stands.horizon, LAST), stands.incarnation)


def position_of(cursor: str, stands: Meta, owner: int | None) -> Position:
    """Return the position of a cursor of an owner (None: of nobody who is known); raises BadCursor, or CursorExpired."""
    if is_unsealed(cursor):
        raise CursorExpired("this cursor is of an earlier version; go on from the oldest", oldest_cursor(stands))
    found = decode_cursor(cursor)
    if found.incarnation != stands.incarnation[:8]:
        raise CursorExpired("the store was restored from a backup since this cursor was made", oldest_cursor(stands))
    check_cursor(cursor, stands.incarnation, NOBODY if owner is None else owner)
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
            encode_cursor(position, incarnation, owner),
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
                encode_cursor(position, self.incarnation, owner),
            )
            for position in positions
        ]

    def cursor(self, owner: int) -> str:
        """Return an owner's cursor after all of it."""
        return encode_cursor(Position(self.through, LAST), self.incarnation, owner)


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
        return encode_cursor(Position(seq, subscription), self._store.incarnation)

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


# --- Listeners --------------------------------------------------------------------------------------------------------


def _account(core: Core, owner: str) -> int:
    """Return the owner's number; an owner may listen before there is anything to hear."""
    with core.store.read() as connection:
        number = accounts.find_account(connection, owner)
    if number is None:
        with core.commit() as commit:
            number = accounts.ensure_accounts(commit.transaction, [owner])[owner]
    return number


class Listeners:
    """Who waits for new notifications; `wake` those whose owners have some."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: dict[int, set[threading.Event]] = {}

    def add(self, owner: int, flag: threading.Event) -> None:
        """Let a flag be set whenever something was stored for an owner."""
        with self._guard:
            self._waiting.setdefault(owner, set()).add(flag)

    def remove(self, owner: int, flag: threading.Event) -> None:
        """Leave a flag alone."""
        with self._guard:
            flags = self._waiting.get(owner, set())
            flags.discard(flag)
            if not flags:
                self._waiting.pop(owner, None)

    def wake(self, owners: Sequence[int]) -> None:
        """Set the flags of these owners."""
        with self._guard:
            for owner in owners if self._waiting else ():
                for flag in self._waiting.get(owner, ()):
                    flag.set()

    def wake_all(self) -> None:
        """Set all flags."""
        with self._guard:
            for flags in self._waiting.values():
                for flag in flags:
                    flag.set()


class Listener:
    """An owner's notifications as they come, backlog first; iterate over it, or call `get`. Close it when done."""

    def __init__(self, core: Core, listeners: Listeners, owner: str, cursor: str | None, consumer: str) -> None:
        self._core, self._listeners, self._owner, self._consumer = core, listeners, owner, consumer
        self._number = _account(core, owner)
        self._flag = threading.Event()
        self._flag.set()  # attached first, so that nothing falls between backlog and live
        listeners.add(self._number, self._flag)
        self._closed = threading.Event()
        self._page: list[Notification] = []
        self._cursor = cursor

    @property
    def at_hand(self) -> int:
        """How many notifications were read and not yet handed out."""
        return len(self._page)

    @property
    def cursor(self) -> str | None:
        """Resumes after the last notification that was handed out."""
        return self._cursor

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def resume(self, cursor: str) -> None:
        """Go on from another cursor."""
        self._page, self._cursor = [], cursor

    def pause(self) -> None:
        """Wait for as long as a poll takes, or until it is closed."""
        self._closed.wait(self._core.settings.poll_seconds)

    def get(self, timeout_seconds: float | None = None) -> Notification | None:
        """Return the next notification, None if none came in time or the listener was closed."""
        remaining = timeout_seconds
        while not self._closed.is_set():
            while self._page:
                notification = self._page.pop(0)
                self._cursor = notification.cursor
                if not self._core.was_unsubscribed(notification.subscription):
                    return notification
            if self._read():
                continue
            patience = self._core.settings.poll_seconds
            if remaining is not None:
                patience = min(patience, remaining)
                remaining -= patience
            self._flag.wait(patience)
            if remaining is not None and remaining <= 0 and not self._flag.is_set():
                return None
        return None

    def _read(self) -> bool:
        """Read a page; return whether it was worth it."""
        self._flag.clear()
        page = read_page(self._core, self._owner, self._cursor, self._core.settings.page, self._consumer)
        self._page = list(page)
        if not self._page:
            self._cursor = page.cursor
        return bool(self._page)

    def __iter__(self) -> Iterator[Notification]:
        while (notification := self.get()) is not None:
            yield notification

    def close(self) -> None:
        """Stop; whoever waits in `get` is woken."""
        self._closed.set()
        self._flag.set()
        self._listeners.remove(self._number, self._flag)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Callbacks.


log = logging.getLogger("tocsin.broker")
Callback = Callable[[Notification], object]
_THREAD = "tocsin-callback-"


class CallbackThread:
    """Calls a function with what a listener hands out, until it is closed."""

    def __init__(
        self, core: Core, listeners: Listeners, owner: str, consumer: str, callback: Callback,
        acknowledge: Callable[[str, str, str], None],
    ) -> None:  # fmt: skip
        self._core, self._owner, self._consumer = core, owner, consumer
        self._callback, self._acknowledge = callback, acknowledge
        self._listener = Listener(core, listeners, owner, None, consumer)
        self._calling = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"{_THREAD}{owner}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._listener.closed:
            try:
                self._deliver()
            except CursorExpired as error:
                log.warning("%s was away for longer than the retention: %s", self._owner, error)
                self._listener.resume(error.oldest)
            except StoreFailed as error:
                log.warning("notifications of %s wait for the store: %s", self._owner, error)
                self._listener.pause()

    def _deliver(self) -> None:
        for notification in self._listener:
            with self._calling:
                # Looked up again under the lock: an unsubscribe that was acknowledged has gone through it.
                if not self._core.was_unsubscribed(notification.subscription):
                    self._call(notification)
            if not self._listener.at_hand:  # once a page: an acknowledgement costs a commit
                self._acknowledge(self._owner, notification.cursor, self._consumer)

    def settle(self) -> None:
        """Return when the call at hand, if there is one, has ended; at once within a callback."""
        if not threading.current_thread().name.startswith(_THREAD):
            with self._calling:
                pass

    def _call(self, notification: Notification) -> None:
        for attempt in range(self._core.settings.callback_attempts):
            try:
                self._callback(notification)
                return
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything; it is kept as the reason
                if attempt + 1 == self._core.settings.callback_attempts:
                    self._give_up(notification, error)

    def _give_up(self, notification: Notification, error: Exception) -> None:
        reason = f"the callback failed {self._core.settings.callback_attempts} times: {error!r}"[:2000]
        body = msgspec.json.encode({"notification": notification.id, "subscription": notification.subscription})
        letter = NewDeadLetter("delivery", self._owner, reason, b"[]", body)
        with self._core.commit() as commit:
            events.add_dead_letters(commit.transaction, [(commit.transaction.draw(), letter)])

    def close(self) -> None:
        """Stop after the notification at hand."""
        self._listener.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()
