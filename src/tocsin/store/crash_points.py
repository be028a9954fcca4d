"""Crash points: named places at which a test can have the process killed, as a power cut or an operator would.

`TOCSIN_CRASH_POINT=store.before-commit:3` kills the process (SIGKILL: no clean-up runs) the third time it comes by that
place. Without the variable a crash point does nothing. The names are in POINTS; tests/torture goes through them.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "store.after-begin",  # the write lock is held, nothing is written
    "store.before-commit",  # everything is written, nothing is committed
    "store.after-commit",  # committed, not acknowledged
    "broker.after-apply",  # acknowledged to memory, not to the caller
    "broker.mid-publish",  # events are written, their notifications are not
    "broker.mid-sweep",  # the leases that ended are chosen, not marked
    "index.before-manifest",  # segments are on disk, no manifest names them
    "index.after-manifest",  # the new manifest is in place, old files are still there
    "migration.mid-upgrade",  # some tables are made
)


class _Target:
    """The place at which this process is to die, and how often it may still come by."""

    def __init__(self) -> None:
        name, _, count = os.environ.get("TOCSIN_CRASH_POINT", "").partition(":")
        self.name: str | None = name or None
        self.count = int(count or 1)


_target = _Target()


def kill_at(name: str, count: int = 1) -> None:
    """Have this process killed the `count`th time it comes by a crash point from now on."""
    _target.name, _target.count = name, count


def reach(name: str) -> None:
    """Kill this process if it was asked for here; otherwise do nothing."""
    if _target.name is None or _target.name != name:
        return
    _target.count -= 1
    if _target.count <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
