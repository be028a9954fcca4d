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


def _wanted() -> tuple[str, int] | None:
    setting = os.environ.get("TOCSIN_CRASH_POINT", "")
    name, _, count = setting.partition(":")
    return (name, int(count or 1)) if name else None


_WANTED = _wanted()
_passed = 0


def reach(name: str) -> None:
    """Kill this process if the environment asks for it here; otherwise do nothing."""
    if _WANTED is None or _WANTED[0] != name:
        return
    global _passed  # noqa: PLW0603 - how often this process came by
    _passed += 1
    if _passed >= _WANTED[1]:
        os.kill(os.getpid(), signal.SIGKILL)
