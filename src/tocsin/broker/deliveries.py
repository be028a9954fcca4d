"""Deliveries: an owner's notifications by cursor, acknowledgements, and listeners that wait for new ones.

A listener is a cursor and a flag: it reads pages from the store, and the broker wakes it when something was stored for
its owner. So there is no gap between backlog and live, no queue that could overflow, and a reader that was away, or
slow, goes on where it stopped.

Callbacks: a function called with each notification of an owner, by a thread of its own.

At least once each, in order; acknowledged page by page. One that the function fails on again and again becomes a dead
letter with the reason, and the next has its turn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection

from tocsin.broker import cursors
from tocsin.broker.admission import read_stored
from tocsin.broker.core import Core
from tocsin.broker.cursors import LAST, Position, id_text, instant
from tocsin.broker.receipts import Notification, Page
from tocsin.errors import BadCursor, CursorExpired, StoreFailed
from tocsin.store import Meta, accounts, events, letters, offers, replacements, subscriptions
from tocsin.store.letters import NewDeadLetter
from tocsin.store.notifications import BUCKETS, notification_id, read_notifications
from tocsin.store.transaction import read_meta

CONSUMER = "default"


class Found(NamedTuple):
    """Matches from the store in order, and whether there were more."""

    positions: list[Position]
    more: bool


def read_page(core: Core, owner: str, cursor: str | None, limit: int, consumer: str) -> Page:
    """Return an owner's notifications after a cursor; without one, after what the consumer has acknowledged.

    Raises CursorExpired where some of what follows the cursor is no longer kept.
    """
    limit = max(1, min(limit, core.settings.page))
    with core.store.read() as connection:
        stands = read_meta(connection)
        number = accounts.find_account(connection, owner)
        start = _start(connection, stands, number, cursor, consumer)
        found = Found([], more=False) if number is None else _find(connection, number, start, limit)
        notifications = describe(connection, found.positions, stands.incarnation, number or cursors.NOBODY)
    if found.more:
        end = found.positions[-1]
    else:  # nothing else was there, up to where matching had come
        end = max(start, Position(stands.matched_through, LAST))
    return Page(tuple(notifications), cursors.encode(end, stands.incarnation, number or cursors.NOBODY), found.more)


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
        acknowledged = None if owner is None else letters.read_acknowledged(connection, owner, consumer)
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
    stored = events.find_events(connection, sorted({position.seq for position in positions}))
    origins = replacements.origins_of(connection, {position.subscription for position in positions})
    beside = _beside(connection, positions)
    notifications = []
    for position in positions:
        event = stored[position.seq]
        told = beside.get((position.seq, position.subscription), offers.NOTHING_BESIDE)
        notifications.append(
            Notification(
                id=id_text(notification_id(event.event_id, position.subscription)),
                seq=position.seq,
                subscription=origins.get(position.subscription, position.subscription),
                event_id=id_text(event.event_id),
                arrival=instant(event.arrival_us),
                event=read_stored(event.body) | told.values,
                cursor=cursors.encode(position, incarnation, owner),
                computed=tuple(told.values),
                bindings=tuple(told.bindings),
            )
        )
    return notifications


def _beside(connection: Connection, positions: Sequence[Position]) -> dict[tuple[int, int], offers.Beside]:
    """Return what these notifications tell beside their events, by seq and subscription."""
    seqs = offers.computed_among(connection, sorted({position.seq for position in positions}))
    if not seqs:
        return {}
    stored = subscriptions.find_subscriptions(connection, sorted({one.subscription for one in positions}))
    found: dict[tuple[int, int], offers.Beside] = {}
    for owner in {one.owner % BUCKETS for one in stored}:
        found |= offers.find_values(connection, owner, sorted(seqs))
    return found


def _account(core: Core, owner: str) -> int:
    """Return the owner's number; an owner may listen before there is anything to hear."""
    with core.store.read() as connection:
        number = accounts.find_account(connection, owner)
    if number is None:
        with core.turn() as turn:
            number = accounts.ensure_accounts(turn.transaction, [owner])[owner]
    return number


class Bells:
    """Who waits for new notifications; `ring` wakes those whose owners have some."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: dict[int, set[threading.Event]] = {}
        self._ears: list[Callable[[Sequence[int]], None]] = []

    def tell(self, ear: Callable[[Sequence[int]], None]) -> None:
        """Call a function with the owners whenever bells ring, whoever waits."""
        self._ears.append(ear)

    def hang(self, owner: int, bell: threading.Event) -> None:
        with self._guard:
            self._waiting.setdefault(owner, set()).add(bell)

    def take_down(self, owner: int, bell: threading.Event) -> None:
        with self._guard:
            bells = self._waiting.get(owner, set())
            bells.discard(bell)
            if not bells:
                self._waiting.pop(owner, None)

    def ring(self, owners: Sequence[int]) -> None:
        for ear in self._ears:
            ear(owners)
        with self._guard:
            for owner in owners if self._waiting else ():
                for bell in self._waiting.get(owner, ()):
                    bell.set()

    def ring_all(self) -> None:
        with self._guard:
            for bells in self._waiting.values():
                for bell in bells:
                    bell.set()


class Listener:
    """An owner's notifications as they come, backlog first; iterate over it, or call `get`. Close it when done."""

    def __init__(self, core: Core, bells: Bells, owner: str, cursor: str | None, consumer: str) -> None:
        self._core, self._bells, self._owner, self._consumer = core, bells, owner, consumer
        self._number = _account(core, owner)
        self._bell = threading.Event()
        self._bell.set()  # attached first, so that nothing falls between backlog and live
        bells.hang(self._number, self._bell)
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
            self._bell.wait(patience)
            if remaining is not None and remaining <= 0 and not self._bell.is_set():
                return None
        return None

    def _read(self) -> bool:
        """Read a page; return whether it was worth it."""
        self._bell.clear()
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
        self._bell.set()
        self._bells.take_down(self._number, self._bell)

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
        self, core: Core, bells: Bells, owner: str, consumer: str, callback: Callback,
        acknowledge: Callable[[str, str, str], None],
    ) -> None:  # fmt: skip
        self._core, self._owner, self._consumer = core, owner, consumer
        self._callback, self._acknowledge = callback, acknowledge
        self._listener = Listener(core, bells, owner, None, consumer)
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
        with self._core.turn() as turn:
            letters.add_dead_letters(turn.transaction, [(turn.transaction.draw(), letter)])

    def close(self) -> None:
        """Stop after the notification at hand."""
        self._listener.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()
