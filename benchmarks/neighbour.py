"""What one account can do to another: the time from publishing to the notification, beside an account that asks for everything.

    python -m benchmarks.neighbour [--noisy 20000] [--events 200] [--seconds-per-hour 6]

Somebody publishes single events and hears of them: alone; beside an account whose subscriptions all match each of these events,
without a bound on processor time; and with one, before and after the account has been paused for it. All in one run, with the
same store. Ratios are of the quiet account's p50 and p99 to those alone. Raw results go to benchmarks/results/neighbour.jsonl.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import uvloop

from benchmarks import results
from benchmarks.broker import Market
from benchmarks.service import Figures, fill, latency, serving, show, until_ready
from tocsin.broker import Broker, BrokerSettings

NAME = "TOCSIN_PROCESSOR_SECONDS_PER_ACCOUNT"
KEY = "publish-to-SSE p50 and p99 ms"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--noisy", type=int, default=20_000, help="subscriptions of the noisy account")
    parser.add_argument("--events", type=int, default=200, help="in each stretch")
    parser.add_argument("--seconds-per-hour", type=int, default=6, help="of processor time, for an account")
    parser.add_argument("--no-store", action="store_true", help="only print")
    options = parser.parse_args()
    found: Figures = {"noisy subscriptions": options.noisy, "seconds per hour": options.seconds_per_hour}
    with tempfile.TemporaryDirectory() as folder:
        place, schema = str(Path(folder) / "store.db"), Path(folder) / "schema.json"
        fill(place, schema, Market(8000, 100), 2000)
        found |= show({"alone": stretches(place, schema, 10**9, options.events, 1)[0]})
        with Broker.open(place, settings=BrokerSettings(subscriptions_per_owner=10**7)) as broker:
            texts = [f"probe where probe >= {-1 - number}" for number in range(options.noisy)]
            for start in range(0, options.noisy, 1000):
                broker.subscribe_all(texts[start : start + 1000], owner="noisy", lease=86_400)
        found |= show({"noisy, unbounded": stretches(place, schema, 10**9, options.events, 1)[0]})
        bounded = stretches(place, schema, options.seconds_per_hour, options.events, 4)
        found |= show({f"noisy, bounded, stretch {at}": each for at, each in enumerate(bounded, 1)})
        with Broker.open(place) as broker:
            paused = sum(one.paused for one in broker.subscriptions("noisy", limit=options.noisy))
        last = f"noisy, bounded, stretch {len(bounded)}"
        ratios = {
            name: [round(a / b, 1) for a, b in zip(found[name], found["alone"], strict=True)]
            for name in ("noisy, unbounded", last)
        }
        found |= show({"paused": paused} | {f"times alone: {name}": each for name, each in ratios.items()})
    if not options.no_store:
        results.store("neighbour", found)


def stretches(place: str, schema: Path, seconds_per_hour: int, events: int, count: int) -> list[list[float]]:
    """Return p50 and p99 of so many stretches of events, with a bound."""
    os.environ[NAME] = str(seconds_per_hour)
    with serving(place, schema, "inline") as (url, _):
        uvloop.run(until_ready(url))
        return [uvloop.run(latency(url, events))[KEY] for _ in range(count)]


if __name__ == "__main__":
    main()
