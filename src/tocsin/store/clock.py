"""The store's clock: microseconds since 1970 that never go back, whatever the machine's clock does.

Leases are judged on it. The rules:
  - While a process has the store open, the clock advances with the machine's boot-time clock, which nobody can set; a
    step of the wall clock, either way, changes nothing.
  - The last time used is kept in the store with each commit. Whoever opens the store goes on from there: on the same
    boot by the boot-time clock alone, otherwise from the wall clock, and never from before the last time used.
  - A wall clock more than `limit_seconds` ahead of the last time used is refused (ClockJumped) unless it is accepted:
    it would end every lease at once, and there would be no way back.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from tocsin.errors import ClockJumped

SECOND = 1_000_000  # microseconds
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class MachineClock(Protocol):
    """What the machine says about time."""

    @property
    def boot(self) -> str:
        """Names this boot of this machine."""

    def wall_us(self) -> int:
        """Return the wall clock, which may be set at any time."""

    def boottime_us(self) -> int:
        """Return the time since boot, sleep included, which only goes forward."""


class SystemClock:
    """The real machine."""

    @cached_property
    def boot(self) -> str:
        try:
            return _BOOT_ID.read_text().strip()
        except OSError:  # not Linux: no other process can share our boot-time clock, so none shares the name
            return uuid.uuid4().hex

    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def boottime_us(self) -> int:
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        return time.monotonic_ns() // 1000


@dataclass(frozen=True, slots=True)
class Mark:
    """A time on the store's clock, and the boot and boot time at which it was taken."""

    now_us: int
    boot: str
    boottime_us: int


class StoreClock:
    """The store's clock in this process, going on from a mark in the store."""

    def __init__(
        self, machine: MachineClock, mark: Mark | None, *, limit_seconds: float, accept_jump: bool = False
    ) -> None:
        self._machine = machine
        self._boottime_us = machine.boottime_us()
        self._base_us = self._start(mark, limit_seconds, accept_jump)

    def _start(self, mark: Mark | None, limit_seconds: float, accept_jump: bool) -> int:
        if mark is None:
            return self._machine.wall_us()
        if mark.boot == self._machine.boot and mark.boottime_us <= self._boottime_us:
            return mark.now_us + self._boottime_us - mark.boottime_us
        wall = self._machine.wall_us()
        if wall - mark.now_us > limit_seconds * SECOND and not accept_jump:
            raise ClockJumped((wall - mark.now_us) / SECOND, limit_seconds)
        return max(mark.now_us, wall)

    def mark(self, not_before_us: int = 0) -> Mark:
        """Return the present; another process may have used a later time already, `not_before_us`."""
        boottime = self._machine.boottime_us()
        now = self._base_us + boottime - self._boottime_us
        return Mark(max(now, not_before_us), self._machine.boot, boottime)
