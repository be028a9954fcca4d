"""Listeners: an owner's notifications as they come.

A listener is a cursor and a flag: it reads pages from the store, and the broker wakes it when something was stored for
its owner. So there is no gap between backlog and live, no queue that could overflow, and a reader that was away, or
slow, goes on where it stopped.

Callbacks: a function called with each notification of an owner, by a thread of its own. At least once each, in order;
acknowledged page by page. One that the function fails on again and again becomes a dead letter with the reason, and the
next is called.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tocsin.broker.core import Core
from tocsin.broker.deliveries import read_page
from tocsin.documents.events import Notification
from tocsin.errors import CursorExpired, StoreFailed
from tocsin.store import accounts, events
from tocsin.store.events import NewDeadLetter


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
