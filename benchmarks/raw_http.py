"""A client that costs next to nothing: prepared requests over kept connections, so that the server is what is measured.

The clients share the machine with the server. A comfortable one would take more of it than the service does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Connection:
    """One kept connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, url: str) -> Connection:
        host, port = url.removeprefix("http://").split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, request: bytes, wanted: int) -> bytes:
        """Send a prepared request and return the answer's body; raises where its status is another."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        body = await self.reader.readexactly(length)
        if int(head[9:12]) != wanted:
            raise AssertionError(f"{head.decode()}{body[:500]!r}")
        return body

    def close(self) -> None:
        self.writer.close()


def request_of(method: str, path: str, token: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    """Return a request as bytes."""
    return (
        f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
        f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


@dataclass
class Rate:
    """What a stretch of load came to."""

    requests: int = 0
    seconds: float = 0.0
    times_ms: list[float] = field(default_factory=list)


async def load(url: str, requests: Sequence[bytes], *, connections: int, seconds: float, wanted: int = 201) -> Rate:
    """Send requests over and over, one at a time on each connection, for so long; every answer is checked."""
    opened = [await Connection.open(url) for _ in range(connections)]
    found = Rate()
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        at = number
        while (started := time.perf_counter()) < end:
            await opened[number].ask(requests[at % len(requests)], wanted)
            found.times_ms.append(1000 * (time.perf_counter() - started))
            found.requests += 1
            at += connections

    started = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(connections)))
    found.seconds = time.perf_counter() - started
    for one in opened:
        one.close()
    return found
