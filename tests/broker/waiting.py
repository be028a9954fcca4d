"""Waiting for a condition, with a bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Return when the condition holds; fails where it does not within a bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        threading.Event().wait(0.005)
