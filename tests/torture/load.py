"""The load: threads that subscribe, renew, unsubscribe and publish, and write down what they ask and what they are told.

Runs in a process of its own that will be killed. The journal is a pipe: what was written to it before the kill arrives.
A line is [kind, name, ...]; `ask` lines come before the request, the others when it was acknowledged.
"""

from __future__ import annotations

import json
import os
import random
import threading
from typing import Any

from tests.broker.market import SCHEMA
from tocsin.broker import Broker, BrokerSettings, SubscriptionReceipt
from tocsin.errors import LeaseEnded, StaleRenewal

THREADS = 3
_REQUESTS = 1000  # of each thread; it is killed before, as a rule
_MOST = 6  # live subscriptions of each thread
SETTINGS = BrokerSettings(sweep_seconds=0.05, save_changes=20)


class Journal:
    """Lines to whoever watches; a line is one write, so it arrives whole or not at all."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, *parts: Any) -> None:
        os.write(self._descriptor, (json.dumps(parts) + "\n").encode())


def run_load(place: str, descriptor: int, round_name: str, engine: str) -> None:
    """Load the store until the process is killed, or for a few hundred requests a thread."""
    journal = Journal(descriptor)
    broker = Broker.open(place, schema=SCHEMA, settings=SETTINGS, engine=engine)  # type: ignore[arg-type]
    journal.write("open", round_name)
    threads = [
        threading.Thread(target=_work, args=(broker, journal, f"{round_name}-{number}"), daemon=True)
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    broker.save_index()
    broker.close()
    journal.write("end", round_name)


def _work(broker: Broker, journal: Journal, name: str) -> None:
    try:
        _request(broker, journal, name)
    except Exception as error:
        journal.write("failed", f"{name}: {error!r}")
        raise


def _request(broker: Broker, journal: Journal, name: str) -> None:
    rng = random.Random(name)
    mine: list[SubscriptionReceipt] = []
    for number in range(_REQUESTS):
        what = rng.random() if len(mine) < _MOST else 0.4  # 0.4: unsubscribe
        marker = f"{name}-{number}"
        if what < 0.25 or not mine:
            owner, limit, lease = f"owner{rng.randrange(4)}", rng.randrange(10), rng.choice([1.0, 1.5, 3600.0])
            journal.write("ask subscribe", marker)
            receipt = broker.subscribe(f"car where price < {limit} and brand != '{marker}'", owner=owner, lease=lease)
            journal.write("subscribed", receipt.id, owner, receipt.ticket)
            mine.append(receipt)
        elif what < 0.35:
            _renew(broker, journal, mine, rng)
        elif what < 0.5:
            one = mine.pop(rng.randrange(len(mine)))
            journal.write("ask unsubscribe", one.id)
            journal.write("unsubscribed", one.id, broker.unsubscribe(one).seq)
        else:
            prices = [rng.randrange(10) for _ in range(rng.choice([1, 1, 1, 5, 20]))]
            events = [
                {"event_type": "car", "price": price, "brand": f"{marker}.{at}"} for at, price in enumerate(prices)
            ]
            journal.write("ask publish", marker, events)
            receipts = broker.publish(events, idempotency_key=marker)
            journal.write("published", marker, [receipt.seq for receipt in receipts])


def _renew(broker: Broker, journal: Journal, mine: list[SubscriptionReceipt], rng: random.Random) -> None:
    at = rng.randrange(len(mine))
    journal.write("ask renew", mine[at].id)
    try:
        mine[at] = broker.renew(mine[at], lease=rng.choice([1.0, 600.0]))
        journal.write("renewed", mine[at].id, mine[at].generation)
    except (LeaseEnded, StaleRenewal):
        del mine[at]
