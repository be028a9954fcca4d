"""Passwords: argon2 in a few threads of their own, since each takes tens of milliseconds and 64 MiB."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

R = TypeVar("R")


class Passwords:
    """Hashes and verifies; no more at a time than it has threads."""

    def __init__(self, threads: int, hasher: PasswordHash | None = None) -> None:
        self._hasher = hasher or PasswordHash((Argon2Hasher(),))
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tocsin-password")
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """Return what is kept of a password."""
        return await self._run(self._hasher.hash, password)

    async def verify(self, password: str, kept: str | None) -> bool:
        """Return whether it is the password; where there is none, it takes as long and is not."""
        if kept is None:
            if self._nobody is None:
                self._nobody = await self.hash("nobody's password")
            await self._run(self._hasher.verify, password, self._nobody)
            return False
        return await self._run(self._hasher.verify, password, kept)

    async def _run(self, function: Callable[..., R], *args: str) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
