"""The meter: what accounts and subscriptions cost, in microseconds of processor time.

A subscription costs where it matches: its match is found, stored and pushed. How long a commit kept its processor is measured,
and so is what it did: n events, m matches. From many commits follows what one match costs on this machine, by least squares
over T = a·n + b·m, the recent ones counting more; a subscription is charged b for each of its matches. What operators do is
not in it: it happens before the commit, with deadlines and bounds of its own (operators/foreign.py).

An account has so many seconds an hour. What it costs fills a bucket that empties at that rate and holds ten minutes of it.
Where it runs over, the account is *slowed*: it may not add or resume subscriptions until it has run off. Where it
holds twice as much, the heaviest of its subscriptions are *paused*, by the sweeper, until what is left fits (decision 0310).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tocsin.store.notifications import StoredMatches

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

HOUR = 3600.0
BURST = HOUR / 6  # seconds' worth that the bucket holds
FIRST_MATCH_US = 1.0  # until it is measured
_SLOT = HOUR / 3  # seconds; what is told of the last hour is of the last three slots
_EXACT = 1 << 18  # matches of a commit that are all counted; of more, so many, evenly
_MEMORY = 0.999  # of an earlier commit beside the next, for what a match costs
_FOLD = 1 << 20  # matches that wait to be counted


@dataclass(frozen=True, slots=True)
class SubscriptionCost:
    """What a subscription has cost within the last hour."""

    subscription: int
    owner: int
    matches: int
    processor_us: float


class _Tally:
    """Matches by subscription."""

    def __init__(self) -> None:
        self.subscription: Longs = np.zeros(0, np.int64)
        self.owner: Longs = np.zeros(0, np.int64)
        self.matches: Floats = np.zeros(0)

    def add(self, subscription: Longs, owner: Longs, matches: Floats) -> None:
        """Add matches; a subscription may come several times."""
        ids, first, place = np.unique(
            np.concatenate([self.subscription, subscription]), return_index=True, return_inverse=True
        )
        self.owner = np.concatenate([self.owner, owner])[first]
        self.matches = np.bincount(place, np.concatenate([self.matches, matches]), len(ids)).astype(np.float64)
        self.subscription = ids


class CostMeter:
    """Counts what commits did. Safe to share among threads; what it costs a commit is an addition to a list."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._new: list[StoredMatches] = []
        self._waiting = 0
        self._sums = np.zeros(5)  # n·n, n·m, m·m, n·T, m·T
        self._slots = [_Tally()]  # the newest last
        self._slot_began = clock()
        self._level: dict[int, float] = {}  # by account: microseconds in its bucket
        self._emptied = clock()

    def published(self, events: int, processor_us: float, matches: StoredMatches) -> None:
        """Count a commit: so many events in so much processor time, with these matches."""
        m = len(matches)
        with self._lock:
            self._sums *= _MEMORY
            self._sums += (events * events, events * m, m * m, events * processor_us, m * processor_us)
            if m:
                self._new.append(matches)
                self._waiting += m
            if self._waiting > _FOLD:
                self._fold()

    @property
    def match_us(self) -> float:
        """What a match costs, in microseconds of processor time."""
        nn, nm, mm, nt, mt = self._sums.tolist()
        determinant = nn * mm - nm * nm
        if mm == 0.0:
            return FIRST_MATCH_US
        if determinant <= 1e-9 * nn * mm:  # always as many matches an event: the two cannot be told apart
            return float(np.clip(mt / mm, 0.05, 1000.0))
        return float(np.clip((nn * mt - nm * nt) / determinant, 0.05, 1000.0))

    def _fold(self) -> None:
        """Take what waits into the tally and the buckets."""
        now = self._clock()
        if now - self._slot_began >= _SLOT:
            steps = min(int((now - self._slot_began) / _SLOT), 3)
            self._slots = [*self._slots, *(_Tally() for _ in range(steps))][-3:]
            self._slot_began = now
        if not self._new:
            return
        each_us, parts = self.match_us, []
        for matches in self._new:
            every = -(-len(matches) // _EXACT)
            subscription, owner = matches.subscription[::every], matches.owner[::every]
            parts.append((subscription, owner, np.full(len(subscription), len(matches) / len(subscription))))
        self._new, self._waiting = [], 0
        subscription, owner, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._slots[-1].add(subscription, owner, weight)
        owners, place = np.unique(owner, return_inverse=True)
        for number, matched in zip(owners.tolist(), np.bincount(place, weight).tolist(), strict=True):
            self._level[number] = self._level.get(number, 0.0) + matched * each_us

    def over(self, seconds_per_hour: Callable[[int], float | None], times: float = 2.0) -> list[int]:
        """Return the accounts whose buckets hold more than so many times what they may; buckets empty themselves here."""
        with self._lock:
            self._fold()
            now = self._clock()
            passed, self._emptied = now - self._emptied, now
            found, left = [], {}
            for owner, level in self._level.items():
                granted = seconds_per_hour(owner)
                if granted is None:
                    continue
                now_us = level - passed * granted / HOUR * 1e6
                if now_us > 0:
                    left[owner] = now_us
                    if now_us > times * granted * BURST / HOUR * 1e6:
                        found.append(owner)
            self._level = left
        return found

    def wait_seconds(self, owner: int, seconds_per_hour: float) -> float:
        """Return how long an account is slowed still; 0 where it is not."""
        with self._lock:
            level = self._level.get(owner, 0.0)
        over_us = level - seconds_per_hour * BURST / HOUR * 1e6
        if over_us <= 0:
            return 0.0
        return over_us / (seconds_per_hour / HOUR * 1e6) if seconds_per_hour else HOUR

    def paused(self, owner: int, seconds_per_hour: float) -> None:
        """Let an account begin again with a bucket that is just full: some of its subscriptions were paused."""
        with self._lock:
            self._level[owner] = seconds_per_hour * BURST / HOUR * 1e6

    def costs(self, owner: int | None = None, most: int | None = None) -> list[SubscriptionCost]:
        """Return what subscriptions, of one account or of all, have cost within the last hour, the heaviest first."""
        with self._lock:
            self._fold()
            each_us = self.match_us
            parts = [(slot.subscription, slot.owner, slot.matches) for slot in self._slots]  # replaced, never changed
        whole = _Tally()
        for subscription, owners, matches in parts:  # without the lock, which commits wait for
            mine = slice(None) if owner is None else owners == owner
            whole.add(subscription[mine], owners[mine], matches[mine])
        order = np.argsort(-whole.matches, kind="stable")[:most]
        columns = (whole.subscription[order], whole.owner[order], whole.matches[order])
        return [
            SubscriptionCost(subscription, whose, round(matches), matches * each_us)
            for subscription, whose, matches in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def heaviest(self, owner: int, seconds_per_hour: float, live: Collection[int]) -> Mapping[int, float]:
        """Return which of an account's live subscriptions to pause, with what they cost, so that the rest fits its quota."""
        found = [one for one in self.costs(owner) if one.subscription in live]
        rest, chosen = sum(one.processor_us for one in found), dict[int, float]()
        fits = min(seconds_per_hour * 1e6, rest / 2)  # at least half of it goes, however short a time it was measured
        for one in found:
            if chosen and rest <= fits:
                break
            chosen[one.subscription] = one.processor_us
            rest -= one.processor_us
        return chosen
