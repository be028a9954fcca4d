"""Stores as processes of the pipeline hold them: opened once each, by whoever comes first in a process."""

from __future__ import annotations

import os
import threading

from tocsin.store import Store

_open: dict[tuple[int, str], Store] = {}
_guard = threading.Lock()


def open_store(place: str) -> Store:
    """Return the store of a path or URL, opened at most once in this process (a forked one opens its own)."""
    key = (os.getpid(), place)
    with _guard:
        if key not in _open:
            _open[key] = Store.open(place)
        return _open[key]


def close_stores() -> None:
    """Let go of the stores that this process has open."""
    with _guard:
        for pid, place in list(_open):
            if pid == os.getpid():
                _open.pop((pid, place)).close()
