"""The thesis's random client (section 6): subscribes, publishes, unsubscribes and reads at random, and takes the times.

It speaks to any service whose schema is the auction's, through the client, from many tasks at a time.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field

import msgspec
import numpy as np

from tocsin.client import AsyncClient
from tocsin.errors import TocsinError
from tocsin_examples.auction import Auction

PERCENTILES = (50, 90, 99)
_KEPT = 200  # subscriptions that a task has at most


@dataclass(frozen=True, slots=True)
class Mix:
    """What is asked: the shares of publishing and subscribing, and how many events a publish has."""

    publish: float = 0.8
    subscribe: float = 0.1
    batch: int = 1


class Figures(msgspec.Struct, frozen=True):
    """One kind of request: how many, and its latencies in milliseconds."""

    requests: int
    per_second: float
    milliseconds: dict[str, float]


class LoadReport(msgspec.Struct, frozen=True):
    """What a load run found."""

    seconds: float
    requests: int
    failed: int
    events: int
    events_per_second: float
    kinds: dict[str, Figures]
    errors: dict[str, int]

    def __str__(self) -> str:
        head = f"{self.requests:,} requests in {self.seconds:.1f} s, {self.failed:,} failed; "
        lines = [f"{head}{self.events:,} events, {self.events_per_second:,.0f} a second"]
        for name, one in self.kinds.items():
            times = "  ".join(f"{at} {value:.1f} ms" for at, value in one.milliseconds.items())
            lines.append(f"  {name:12} {one.requests:>8,}  {one.per_second:>9,.0f}/s  {times}")
        lines += [f"  {count:,} times: {error}" for error, count in self.errors.items()]
        return "\n".join(lines)


@dataclass
class _Tally:
    times: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    events: int = 0


async def run_load(
    url: str, token: str, *, seconds: float, clients: int, rate: float = 0.0, mix: Mix | None = None, seed: int = 2026
) -> LoadReport:
    """Load a service for so long, and return what it took."""
    mix = mix or Mix()
    tally = _Tally()
    started = time.perf_counter()
    end = started + seconds
    async with AsyncClient(url, token) as client, asyncio.TaskGroup() as group:
        for number in range(clients):
            pause = 0.0 if rate == 0 else clients / rate
            group.create_task(_ask(client, random.Random(f"{seed} {number}"), seed + number, mix, end, pause, tally))
    return _report(tally, time.perf_counter() - started)


async def _ask(
    client: AsyncClient, rng: random.Random, seed: int, mix: Mix, end: float, pause: float, tally: _Tally
) -> None:
    auction = Auction(seed)
    expressions = [expression for _, expression in auction.subscriptions(500)]
    mine: list[int] = []
    due = time.perf_counter()
    while (now := time.perf_counter()) < end:
        if pause and now < due:
            await asyncio.sleep(due - now)
        due += pause
        kind = _choose(rng, mix, len(mine))
        began = time.perf_counter()
        try:
            if kind == "publish":
                await client.publish_all(list(auction.events(mix.batch)), receipts=False)
                tally.events += mix.batch
            elif kind == "subscribe":
                mine.append((await client.subscribe(rng.choice(expressions), lease_seconds=3600)).id)
            elif kind == "unsubscribe":
                await client.unsubscribe(mine.pop(rng.randrange(len(mine))))
            else:
                await client.notifications(limit=10)
        except TocsinError as error:
            tally.errors[str(error)[:200]] = tally.errors.get(str(error)[:200], 0) + 1
            continue
        tally.times.setdefault(kind, []).append(time.perf_counter() - began)


def _choose(rng: random.Random, mix: Mix, mine: int) -> str:
    drawn = rng.random()
    if drawn < mix.publish:
        return "publish"
    if drawn < mix.publish + mix.subscribe and mine < _KEPT:
        return "subscribe"
    return "unsubscribe" if mine and rng.random() < 0.5 else "read"


def _report(tally: _Tally, seconds: float) -> LoadReport:
    kinds = {
        kind: Figures(
            len(times),
            len(times) / seconds,
            {f"p{at}": float(np.percentile(times, at)) * 1000 for at in PERCENTILES},
        )
        for kind, times in sorted(tally.times.items())
    }
    done, failed = sum(one.requests for one in kinds.values()), sum(tally.errors.values())
    return LoadReport(seconds, done + failed, failed, tally.events, tally.events / seconds, kinds, tally.errors)
