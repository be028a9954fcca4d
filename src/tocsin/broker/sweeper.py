"""The sweeper: ends leases, gives notice of those that end soon or renews them, lets go of what is old, pauses what costs too much.

Matching never waits for it: an event that arrives after a lease's end does not match, swept or not.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from tocsin.broker.changes import pause, processor_seconds
from tocsin.broker.core import Core
from tocsin.documents.subscriptions import LeaseNotice, PauseNotice
from tocsin.errors import TocsinError
from tocsin.store import accounts, progress, seals, subscriptions
from tocsin.store.accounts import Actor
from tocsin.store.store import SECOND, instant, reach
from tocsin.store.subscriptions import StoredSubscription

Notice = TypeVar("Notice", LeaseNotice, PauseNotice)
PAUSED = "subscription.paused"  # in the audit trail, where it was not the owner's doing
log = logging.getLogger("tocsin.broker")
NoticeCallback = Callable[[LeaseNotice], object]
PauseCallback = Callable[[PauseNotice], object]
_RETENTION_EVERY = 60.0  # seconds
_PAUSED_AT_A_TIME = 200  # subscriptions: others publish in between
_QUOTAS_EVERY = 10.0  # seconds after which another quota of an account is followed
_SAVED_SHARE = 50  # a large index is saved when a fiftieth of it has changed: a save writes all of its leases


class Sweeper:
    """Sweeps when told to, or every so often in a thread of its own."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._noticed: set[tuple[int, int]] = (
            set()
        )  # (id, end) of leases that the store knows notice was given of, or none is due
        self._callbacks: list[NoticeCallback] = []
        self._pause_callbacks: list[PauseCallback] = []
        self._granted: dict[int, float] = {}  # seconds of processor time an hour, of accounts with quotas of their own
        self._granted_us = 0  # when they were read
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._retained_us = 0
        self._saved_us = 0

    def start(self) -> None:
        """Sweep in the background."""
        self._thread = threading.Thread(target=self._run, name="tocsin-sweeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop sweeping."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def on_lease_ending(self, callback: NoticeCallback) -> None:
        """Call a function once for each lease that is about to end."""
        self._callbacks.append(callback)
        self._noticed = set()

    def on_paused(self, callback: PauseCallback) -> None:
        """Call a function once for each subscription that is paused since it costs too much."""
        self._pause_callbacks.append(callback)

    def _run(self) -> None:
        while not self._stop.wait(self._core.settings.sweep_seconds):
            try:
                self.sweep()
            except TocsinError as error:  # the store may be back the next time; matching is right without us
                log.warning("sweeping failed, trying again: %s", error)

    def sweep(self) -> list[int]:
        """End the leases that are over, give notice, retain; return the ids whose leases were ended."""
        core = self._core
        core.refresh()
        now = core.store.now_us()
        self._renew_leases(now)
        ended = self._end_leases(now)
        self._give_notice(now)
        self._pause_costly(now)
        self._save_index(now)
        if now - self._retained_us >= _RETENTION_EVERY * SECOND:
            self._retained_us = now
            seals.seal(core.store)
            self.retain()
        return ended

    def _end_leases(self, now_us: int) -> list[int]:
        with self._core.lock:
            if not self._core.live.leases.due(now_us):
                return []
        with self._core.commit() as commit:
            due = commit.live.leases.due(commit.now_us)  # by the commit's own time, and as others have left it
            reach("broker.mid-sweep")
            if due:
                seq = subscriptions.end_leases(commit.transaction, due, "lease")
                commit.end(due, seq)
        return due

    def _pause_costly(self, now_us: int) -> None:
        """Pause the heaviest subscriptions of accounts that cost far more processor time than they may (cost_meter.py)."""
        core = self._core
        if now_us - self._granted_us >= _QUOTAS_EVERY * SECOND:
            self._granted_us = now_us
            with core.store.read() as connection:
                own = accounts.own_quotas(connection)
            found = {number: processor_seconds(quotas, core.settings) for number, quotas in own.items()}
            self._granted = {number: seconds for number, seconds in found.items() if seconds is not None}
        everybodys = core.settings.processor_seconds_per_owner
        for owner in core.meter.over(lambda number: self._granted.get(number, everybodys)):
            granted = self._granted.get(owner, everybodys)
            if granted is not None:
                for notice in self._pause_heaviest(owner, granted):
                    for callback in self._pause_callbacks:
                        _call(callback, notice)

    def _pause_heaviest(self, owner: int, granted: float) -> list[PauseNotice]:
        with self._core.lock:
            live_now = self._core.live.leases.ids_of(owner)
        costs, notices = self._core.meter.heaviest(owner, granted, live_now), list[PauseNotice]()
        chosen = list(costs)
        for start in range(0, len(chosen), _PAUSED_AT_A_TIME):
            with self._core.commit() as commit:
                found = subscriptions.find_subscriptions(commit.connection, chosen[start : start + _PAUSED_AT_A_TIME])
                live = [one for one in found if one.deleted_seq is None]
                reasons = {
                    one.origin: f"its matches took {costs[one.id] / 1e6:.3g} seconds of processor time within the last hour; "
                    f"all of {one.owner_name}'s may take {granted:g} an hour"
                    for one in live
                }
                if live:
                    pause(commit, [one.id for one in live])
                subjects = [f"subscription {id}: {reason}" for id, reason in reasons.items()]
                accounts.note_actions(commit.transaction, Actor(), PAUSED, subjects, owner)
            notices += [PauseNotice(one.origin, one.owner_name, reasons[one.origin]) for one in live]
        self._core.meter.paused(owner, granted)
        if notices:
            log.warning("%d subscriptions of account %d were paused: they cost too much", len(notices), owner)
        return notices

    def _save_index(self, now_us: int) -> None:
        core, settings = self._core, self._core.settings
        if self._saved_us == 0:
            self._saved_us = now_us
        waited = now_us - self._saved_us >= settings.save_seconds * SECOND
        many = max(settings.save_changes, len(core.live) // _SAVED_SHARE)
        if core.live.changes >= many or (waited and core.live.changes):
            self._saved_us = now_us
            with core.lock:
                core.live.save()

    def _give_notice(self, now_us: int) -> None:
        if not self._callbacks:
            return
        near = self._near(now_us, None)
        self._noticed &= set(near)  # the others have ended, or were renewed
        if not (new := [id for id, end_us in near if (id, end_us) not in self._noticed]):
            return
        with self._core.store.read() as connection:
            found = subscriptions.find_subscriptions(connection, new)
        for notice in self._claim([_notice(one) for one in found if not one.renews]):
            for callback in self._callbacks:
                _call(callback, notice)
        self._noticed |= {(one.id, one.end_us) for one in found}

    def _renew_leases(self, now_us: int) -> None:
        """Renew the leases that renew themselves, at half of their time: so a service may be away for the other half."""
        with self._core.store.read() as connection:
            if not (ids := subscriptions.find_renewable(connection, now_us)):
                return
        with self._core.commit() as commit:
            for one in subscriptions.find_subscriptions(commit.connection, ids):
                if one.renews and one.deleted_seq is None and one.end_us > commit.now_us:
                    end = one.end_us + min(one.end_us - one.start_us, subscriptions.RENEWED_US)
                    subscriptions.renew(commit.transaction, one.id, end, one.generation + 1, renews=True)
                    commit.renew(one.id, end)

    def _claim(self, notices: list[LeaseNotice]) -> list[LeaseNotice]:
        """Store that notice is given, before it is: no restart repeats it, and of several processes one gives it."""
        if not notices:
            return []
        with self._core.store.write() as transaction:
            given = progress.noticed(transaction.connection, [notice.subscription for notice in notices])
            new = [notice for notice in notices if given.get(notice.subscription) != notice.generation]
            progress.add_notices(transaction, [(notice.subscription, notice.generation) for notice in new])
        return new

    def leases_ending(self, now_us: int, owner: int | None) -> list[LeaseNotice]:
        """Return the leases for which notice is due."""
        near = self._near(now_us, owner)
        with self._core.store.read() as connection:
            found = subscriptions.find_subscriptions(connection, [id for id, _ in near]) if near else []
        return [_notice(one) for one in found if not one.renews]

    def _near(self, now_us: int, owner: int | None) -> list[tuple[int, int]]:
        core = self._core
        with core.lock:
            notice_us, sweep_us = (
                round(each * SECOND) for each in (core.settings.notice_seconds, core.settings.sweep_seconds)
            )
            return core.live.leases.ending(now_us, notice_us, 4 * sweep_us, owner)

    def retain(self) -> None:
        """Remove what is older than the retention."""
        keep_from = self._core.store.now_us() - round(self._core.settings.retention_seconds * SECOND)
        more = True
        while more and not self._stop.is_set():
            with self._core.commit() as commit:
                subscriptions.end_paused(commit.transaction)
                more = progress.retain(commit.transaction, keep_from)
            self._core.forget()


def _notice(one: StoredSubscription) -> LeaseNotice:
    return LeaseNotice(one.origin, one.owner_name, instant(one.end_us), one.generation)


def _call(callback: Callable[[Notice], object], notice: Notice) -> None:
    try:
        callback(notice)
    except Exception:  # a user's function may raise anything, and sweeping goes on all the same
        log.exception("a notice about subscription %s was not taken", notice.subscription)
