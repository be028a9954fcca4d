"""Doors: how many connections there may be, and how long one may take to say what it wants.

A request's headers come within a time, whether it is the first of its connection or a later one. Where all places are
taken, or all of one address, whoever came first and has not said what it wants makes room for who comes now: so requests
that are sent by halves keep nobody out, and what is being answered is never broken off. Bodies are timed by the edge.

Rates: how much each account may ask in a minute, as a bucket that fills steadily and holds a minute's worth.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tocsin.service.settings import ServiceSettings

_OTHER_DESCRIPTORS = 100  # the store, the index, webhooks, logs
_FEWEST = 16
_LONGEST_HEADERS = 64 << 10


class Doors:
    """Who is connected, in one event loop."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.header_seconds = settings.header_seconds
        self._proxies = frozenset(settings.proxies)
        self.most = settings.connections or max(_FEWEST, _descriptors() - _OTHER_DESCRIPTORS)
        self.most_of_one = settings.connections_per_address or max(1, self.most // 2)
        self._inside: dict[GuardedProtocol, str] = {}
        self._silent: dict[GuardedProtocol, None] = {}  # of them, those that have asked for nothing; the oldest first
        self._addresses: Counter[str] = Counter()

    def enter(self, one: GuardedProtocol, address: str) -> bool:
        """Return whether there is a place for a connection, made by letting go of a silent one where need be."""
        if not self._has_place(address):
            self._sweep()
        if not self._has_place(address) and not self._make_place(address):
            return False
        self._inside[one] = address
        self._addresses[address] += 1
        self._silent[one] = None
        return True

    def speaks(self, one: GuardedProtocol) -> None:
        """Remember that a connection has asked for something, and is being answered."""
        self._silent.pop(one, None)

    def rests(self, one: GuardedProtocol) -> None:
        """Remember that a connection was answered, and may ask again."""
        if one in self._inside:
            self._silent[one] = None

    def leave(self, one: GuardedProtocol) -> None:
        """Let go of a connection's place."""
        self._silent.pop(one, None)
        address = self._inside.pop(one, None)
        if address is not None:
            self._addresses -= Counter({address: 1})

    def _has_place(self, address: str) -> bool:
        of_one = address in self._proxies or self._addresses[address] < self.most_of_one
        return of_one and len(self._inside) < self.most

    def _sweep(self) -> None:
        """Forget connections that became WebSockets and are closed by now: nobody else says so."""
        for one in [one for one in self._inside if one.transport.is_closing()]:
            self.leave(one)

    def _make_place(self, address: str) -> bool:
        """Close the oldest silent connection of the address, or of anybody where all places are taken."""
        full = len(self._inside) >= self.most
        of_one = [one for one in self._silent if self._inside[one] == address]
        for one in of_one or (list(self._silent) if full else []):
            self.leave(one)
            one.transport.abort()
            return self._has_place(address)
        return False


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, at the doors. `guarded` makes the class of one service's connections."""

    doors: Doors

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread = 0  # bytes that came while headers are waited for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self.doors.enter(self, self.client[0] if self.client else ""):
            transport.abort()
            return
        self._start_waiting()

    def data_received(self, data: bytes) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's types leave out that there is none at first
        if self._deadline is None and (cycle is None or cycle.response_complete):
            self._start_waiting()
        self._unread += len(data)
        if self._deadline is not None and self._unread > _LONGEST_HEADERS + len(data):
            self.transport.abort()
            return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self.doors.speaks(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self.doors.rests(self)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.doors.leave(self)
        super().connection_lost(exc)

    def _start_waiting(self) -> None:
        self._unread = 0
        self._deadline = self.loop.call_later(self.doors.header_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def guarded(settings: ServiceSettings) -> type[GuardedProtocol]:
    """Return the protocol of a service: a class, since uvicorn makes one of it for each connection."""
    return type("ServiceProtocol", (GuardedProtocol,), {"doors": Doors(settings)})


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


# Rates.


WINDOW_SECONDS = 60.0
_KEPT = 100_000  # names; who was not seen for longest is forgotten, which fills the bucket


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left after asking."""

    granted: bool
    most: int
    left: int
    again_seconds: float  # until what was asked would be granted; until the bucket is full where it was


class Buckets:
    """A bucket a name. Used within one event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # name -> (left, at)

    def take(self, name: str, amount: int, most: int) -> Standing:
        """Take from a name's bucket; where there is not enough, nothing is taken.

        More than a whole bucket is granted to a full one: its size bounds the rate, not the single request.
        """
        now = self._clock()
        left, at = self._levels.pop(name, (float(most), now))
        left = min(float(most), left + (now - at) * most / WINDOW_SECONDS)
        granted = left >= min(amount, most)
        if granted:
            left -= amount
        self._levels[name] = (left, now)
        if len(self._levels) > _KEPT:
            self._levels.popitem(last=False)
        missing = most - left if granted else min(amount, most) - left
        return Standing(granted, most, max(0, int(left)), missing * WINDOW_SECONDS / most)
