"""Server-sent events, read line by line; no input or output of its own, so that both clients use it.

When a request is tried again, and after how long.

429 and a connection that was never made: always, nothing was done. 502, 503, 504, a broken connection or a timeout: only
requests that may be repeated, since it is not known whether they were done.

What a client raises.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tocsin.client.calls import ClientCall
from tocsin.errors import TocsinError


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream."""

    kind: str
    data: str
    id: str | None


class StreamReader:
    """Collects what comes until an event is whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind, self._data = "message", list[str]()
        self._id: str | None = None
        self.retry_seconds: float | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Take some bytes; yield the events that they complete.

        Lines end at line feeds only, not at whatever Python takes for a line's end: events may hold U+2028.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if (found := self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))) is not None:
                yield found

    def _line(self, text: str) -> ServerEvent | None:
        if not text:
            return self._whole()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isdigit():
            self.retry_seconds = int(value) / 1000
        return None

    def _whole(self) -> ServerEvent | None:
        kind, data = self._kind, self._data
        self._kind, self._data = "message", []
        return ServerEvent(kind, "\n".join(data), self._id) if data else None


# What a client raises.


class ServiceRefused(TocsinError):
    """The service refused a request; `problem` is its RFC 9457 document, `name` the last part of its type."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after_seconds: float | None = None) -> None:
        self.status, self.problem = status, problem
        self.retry_after_seconds = retry_after_seconds
        self.name = str(problem.get("type", "")).rpartition("/")[2]
        detail = str(problem.get("detail", ""))
        between = "\n" if "\n" in detail else " "  # a detail that marks a place begins its line
        super().__init__(f"{status} {problem.get('title', '')}:{between}{detail}")


class ServiceUnreachable(TocsinError):
    """The service could not be reached, or the connection broke; what was asked may or may not have been done.

    Requests that can be repeated without harm were repeated before this is raised.
    """


# When a request is tried again, and after how long.


_UNKNOWN = (502, 503, 504)
# Spreads load, guards nothing. Our own: what the program draws from the one that all share is not ours to change.
_SPREAD = random.Random()  # noqa: S311


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and how patiently; seconds."""

    attempts: int = 6
    first_seconds: float = 0.2
    longest_seconds: float = 20.0

    def wait(self, call: ClientCall[Any], error: Exception, attempt: int) -> float | None:
        """Return how long to wait before the next attempt; None: there is none."""
        if attempt >= self.attempts or not _may_repeat(call, error):
            return None
        asked = error.retry_after_seconds if isinstance(error, ServiceRefused) else None
        spread = _SPREAD.uniform(0.5, 1.0)
        seconds: float = self.first_seconds * 2.0 ** (attempt - 1) * spread
        return min(self.longest_seconds, max(seconds, asked or 0.0))


def _may_repeat(call: ClientCall[Any], error: Exception) -> bool:
    if isinstance(error, ServiceRefused):
        return error.status == 429 or (error.status in _UNKNOWN and call.again)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    return call.again
