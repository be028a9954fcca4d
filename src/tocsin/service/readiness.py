"""Readiness: the store has taken a write a moment ago. A disk that is full, or read-only, can still be read."""

from __future__ import annotations

import asyncio
import time

from tocsin.errors import TocsinError
from tocsin.store import Store

_GOOD_SECONDS = 2.0  # whoever asks more often is told what was found: everybody may ask, and a write costs an fsync


class Readiness:
    """Writes the time into the store, now and then. Used within one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._at = float("-inf")
        self._error: TocsinError | None = None

    async def check(self) -> None:
        """Raise what the store raised when it was last written to."""
        async with self._lock:
            if time.monotonic() - self._at > _GOOD_SECONDS:
                try:
                    await asyncio.to_thread(self._write)
                    self._error = None
                except TocsinError as error:
                    self._error = error
                self._at = time.monotonic()
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        with self._store.write() as turn:
            turn.keep_time()
