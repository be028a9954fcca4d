"""A machine whose clocks a test moves: the wall clock may jump, the boot-time clock only runs, a reboot restarts it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

SECOND = 1_000_000
START_US = 1_800_000_000 * SECOND


@dataclass
class ManualClock:
    """What the machine says about time, as the test has set it."""

    wall: int = START_US
    boottime: int = 1_000 * SECOND
    boot: str = field(default_factory=lambda: uuid.uuid4().hex)

    def wall_us(self) -> int:
        return self.wall

    def boottime_us(self) -> int:
        return self.boottime

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.wall += round(seconds * SECOND)
        self.boottime += round(seconds * SECOND)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP would."""
        self.wall += round(seconds * SECOND)

    def reboot(self, wall_jump_seconds: float = 0.0) -> None:
        """Start the machine anew, perhaps with a wrong wall clock."""
        self.boot = uuid.uuid4().hex
        self.boottime = 5 * SECOND
        self.jump(wall_jump_seconds)
