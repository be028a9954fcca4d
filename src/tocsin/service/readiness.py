"""Readiness: the store has taken a write a moment ago, and the kernels are compiled.

A disk that is full, or read-only, can still be read. Kernels that are not in the cache take a minute to compile, and
whoever publishes meanwhile waits for them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Literal

import structlog

from tocsin.errors import TocsinError
from tocsin.store import Store

log = structlog.get_logger("tocsin.service")
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


class KernelsWarmed:
    """Compiles the kernels, or loads them from the cache, beside the start of the service."""

    def __init__(self) -> None:
        self.state: Literal["compiling", "ready", "failed"] = "compiling"

    def start(self) -> None:
        threading.Thread(target=self._warm, name="tocsin-warm", daemon=True).start()

    def _warm(self) -> None:
        from tocsin.matching.columnar.warm import warm

        started = time.monotonic()
        try:
            warm()
        except Exception:  # whatever a compiler raises: the service stays up to say so
            log.exception("the kernels cannot be compiled")
            self.state = "failed"
            return
        self.state = "ready"
        log.info("kernels are ready", seconds=round(time.monotonic() - started, 1))
