"""Callbacks: a function called with each notification of an owner, by a thread of its own.

At least once each, in order; acknowledged page by page. One that the function fails on again and again becomes a dead
letter with the reason, and the next has its turn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from tocsin.broker.core import Core
from tocsin.broker.deliveries import Bells, Listener
from tocsin.broker.receipts import Notification
from tocsin.errors import CursorExpired, StoreFailed
from tocsin.store import letters
from tocsin.store.letters import NewDeadLetter

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
