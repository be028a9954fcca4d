"""How fast a broker is, with everything on disk: publishing, changing subscriptions, storing notifications, starting.

    python -m benchmarks.broker                        SQLite in a temporary folder
    python -m benchmarks.broker --place postgresql://…  PostgreSQL
    python -m benchmarks.broker --live 10000 --large 0  a quick look
    python -m benchmarks.broker --only large            a part; what the other parts found before stays in the results

Answers are checked against the definition before anything is timed. Raw times go to benchmarks/results/broker-*.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import text

from tocsin.broker import Broker, BrokerSettings, SubscriptionReceipt
from tocsin.broker.expressions import bind_stored
from tocsin.language import evaluate
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin.store import Store, accounts, subscriptions
from tocsin.store.notifications import StoredMatches, record_matches
from tocsin.store.subscriptions import NewSubscription
from tocsin_lab.bench.workloads import OPERATORS, Workload, market

BATCH = 1000
OWNERS = 1000
PARTS = ("narrow", "market", "storing", "large")
RESULTS = Path(__file__).parent / "results"
SETTINGS = BrokerSettings(sweep_seconds=0.5)


class Market:
    """The market workload as documents, events and a schema."""

    def __init__(self, live: int, events: int) -> None:
        self.workload: Workload = market(live, events)
        names = self.workload.attributes
        domain = {at: "name" if at in self.workload.texts else "number" for at in range(len(names))}
        self.schema = Schema(
            {"name": TextDomain(name="name"), "number": NumericDomain(name="number")},
            {name: domain[at] for at, name in enumerate(names)},
            {"offer": EventType("offer", tuple(TypeAttribute(name, mandatory=False) for name in names))},
        )
        self.predicates = [
            [names[a], OPERATORS[o], self._shown(a, v)]
            for a, o, v in zip(
                self.workload.attribute.tolist(),
                self.workload.operator.tolist(),
                self.workload.value.tolist(),
                strict=True,
            )
        ]

    def _shown(self, attribute: int, value: int) -> int | str:
        return self.workload.texts[attribute][value] if attribute in self.workload.texts else value

    def documents(self, *, narrow: bool = False) -> Iterator[dict[str, Any]]:
        """Yield subscriptions; narrow ones have at least three equalities, so that few events satisfy them."""
        for document in self._all():
            if not narrow or sum(op == "=" for _, op, _ in document["predicates"]) >= 3:
                yield document

    def _all(self) -> Iterator[dict[str, Any]]:
        offset = self.workload.offset.tolist()
        for start, stop in itertools.pairwise(offset):
            yield {"event_types": ["offer"], "predicates": self.predicates[start:stop]}

    def events(self) -> Iterator[dict[str, Any]]:
        for row in self.workload.events.T.tolist():
            yield {"event_type": "offer"} | {
                name: self._shown(at, value)
                for at, (name, value) in enumerate(zip(self.workload.attributes, row, strict=True))
            }


class Figures:
    """What was measured; printed as it comes."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.section = ""

    def rate(self, name: str, things: int, seconds: list[float]) -> None:
        each = things / len(seconds)
        self.found[self.section + name] = {
            "per second": things / sum(seconds),
            "things per time": each,
            "seconds": seconds,
        }
        print(
            f"{name:55}{things / sum(seconds):>12,.0f} /s   median of {len(seconds)}: {statistics.median(seconds) * 1e3:.2f} ms"
        )

    def value(self, name: str, value: float, unit: str) -> None:
        self.found[self.section + name] = {unit: value}
        print(f"{name:55}{value:>12,.3f} {unit}")


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def check_answers(broker: Broker, events: list[dict[str, Any]]) -> None:
    """Raise unless the notifications of some events are those of the definition."""
    receipts = broker.publish(events)
    with broker.store.read() as connection:
        rows = [row for chunk in subscriptions.leases_since(connection, 0, 0, trees=True) for row in chunk]
    bound = [(row.id, bind_stored(row.tree or b"", broker.schema)) for row in rows]
    expected = set()
    for receipt, raw in zip(receipts, events, strict=True):
        event = broker.schema.admit(raw)
        expected |= {(receipt.seq, id) for id, subscription in bound if evaluate(subscription, event)}
    found = {
        (one.seq, one.subscription)
        for number in range(OWNERS)
        for page in broker.replay(f"owner{number}")
        for one in page
        if one.seq >= receipts[0].seq
    }
    if found != expected:
        raise AssertionError(f"{len(found ^ expected)} of {len(expected)} matches differ from the definition")
    print(f"checked: {len(events)} events, {len(rows)} subscriptions, {len(expected)} matches as defined")


def publishing(place: str, live: int, figures: Figures, *, narrow: bool) -> None:
    """Fill a store with subscriptions, then publish singly, by many threads, and in batches."""
    print(f"--- {live} live subscriptions, {'narrow' if narrow else 'as the market has them'}")
    figures.section = "narrow: " if narrow else "market: "
    data = Market(4 * live if narrow else live, 40 * BATCH)
    documents = list(itertools.islice(data.documents(narrow=narrow), live))
    if len(documents) < live:
        raise AssertionError(f"only {len(documents)} narrow subscriptions")
    events = list(data.events())
    with Broker.open(place, schema=data.schema, settings=SETTINGS) as broker:
        times = []
        for start in range(0, live, BATCH):
            owner = f"owner{start // BATCH % OWNERS}"
            times.append(
                timed(lambda s=start, o=owner: broker.subscribe_all(documents[s : s + BATCH], owner=o, lease=86400))
            )
        figures.rate(f"subscribe, batches of {BATCH}, documents", live, times)
        check_answers(broker, events[:5])
        broker.publish(events[:BATCH])  # everything is compiled and warm
        figures.rate("publish, one by one", 300, [timed(lambda e=e: broker.publish(e)) for e in events[:300]])
        with ThreadPoolExecutor(32) as pool:
            seconds = timed(lambda: list(pool.map(broker.publish, events[:3000])))
        figures.rate("publish, one by one, 32 threads", 3000, [seconds])
        stored = notifications_of(broker)
        batches = [events[start : start + BATCH] for start in range(0, len(events), BATCH)]
        figures.rate(
            f"publish, batches of {BATCH}", len(events), [timed(lambda b=b: broker.publish(b)) for b in batches]
        )
        figures.value("matches per event", (notifications_of(broker) - stored) / len(events), "matches")
        texts = [f"offer where price < {number}" for number in range(BATCH)]
        figures.rate(
            f"subscribe, batches of {BATCH}, texts", BATCH, [timed(lambda: broker.subscribe_all(texts, owner="text"))]
        )


def notifications_of(broker: Broker) -> int:
    with broker.store.read() as connection:
        return int(connection.execute(text('SELECT coalesce(sum("count"), 0) FROM notifications')).scalar_one())


def storing(place: str, figures: Figures) -> None:
    """Store matches as blocks, and, to compare, one to a row with the indexes that it would need."""
    store = Store.open(place)
    count = 100_000
    owners = np.arange(count) % 5000

    def blocks() -> None:
        with store.write() as transaction:
            seq = transaction.draw()
            record_matches(transaction, seq - 1, seq, StoredMatches.of([seq] * count, range(count), owners))

    figures.rate("store notifications of one event, in blocks", 10 * count, [timed(blocks) for _ in range(10)])
    kind = "BYTEA" if store.is_postgres else "BLOB"
    with store.write() as transaction:
        transaction.connection.execute(
            text(f"CREATE TABLE rows_of_matches (id {kind} PRIMARY KEY, owner BIGINT, seq BIGINT, subscription BIGINT)")
        )
        transaction.connection.execute(text("CREATE INDEX by_owner ON rows_of_matches (owner, seq)"))

    def rows() -> None:
        with store.write() as transaction:
            seq = transaction.draw()
            place = "%s" if store.is_postgres else "?"
            transaction.connection.exec_driver_sql(
                f"INSERT INTO rows_of_matches VALUES ({place}, {place}, {place}, {place})",
                [(os.urandom(16), owner, seq, number) for number, owner in enumerate(owners.tolist())],
            )

    figures.rate("store notifications of one event, one to a row", 3 * count, [timed(rows) for _ in range(3)])
    with store.write() as transaction:
        transaction.connection.execute(text("DROP TABLE rows_of_matches"))
    store.close()


def large(place: str, live: int, figures: Figures) -> None:
    """Start with many live subscriptions, and change them."""
    data = Market(live + 20 * BATCH, 10)
    documents = data.documents()
    Broker.open(place, schema=data.schema, engine="definition", sweep=False).close()
    store = Store.open(place)
    done = 0
    while done < live:  # as subscribe would store them, without binding each: this is set-up
        with store.write() as transaction:
            numbers = accounts.ensure_accounts(transaction, [f"owner{number}" for number in range(OWNERS)])
            new = [next(documents) for _ in range(min(50_000, live - done))]
            rows = [
                NewSubscription(numbers[f"owner{at % OWNERS}"], "", tree_of(document), 1, bytes(32), 86400 * 10**6)
                for at, document in enumerate(new)
            ]
            subscriptions.add_subscriptions(transaction, rows)
            done += len(new)
    store.close()
    opened: list[Broker] = []
    figures.value(
        f"start with {live} subscriptions, no index", timed(lambda: opened.append(open_large(place))), "seconds"
    )
    opened.pop().close()
    figures.value(f"start with {live} subscriptions", timed(lambda: opened.append(open_large(place))), "seconds")
    broker = opened.pop()
    figures.value("first publish after that", timed(lambda: broker.publish(next(data.events()))), "seconds")
    figures.value("second publish after that", timed(lambda: broker.publish(next(data.events()))), "seconds")
    receipts: list[SubscriptionReceipt] = []
    chunks = [[next(documents) for _ in range(BATCH)] for _ in range(10)]
    figures.rate(
        f"subscribe at {live}, batches of {BATCH}",
        10 * BATCH,
        [timed(lambda c=c: receipts.extend(broker.subscribe_all(c, owner="new"))) for c in chunks],
    )
    halves = [receipts[start : start + BATCH] for start in range(0, len(receipts), BATCH)]
    figures.rate(
        f"unsubscribe at {live}, batches of {BATCH}",
        len(receipts),
        [timed(lambda h=h: broker.unsubscribe_all(h)) for h in halves],
    )
    singles = [next(documents) for _ in range(100)]
    figures.rate(
        f"subscribe at {live}, one by one",
        100,
        [timed(lambda d=d: receipts.append(broker.subscribe(d, owner="new"))) for d in singles],
    )
    figures.rate(
        f"unsubscribe at {live}, one by one", 100, [timed(lambda r=r: broker.unsubscribe(r)) for r in receipts[-100:]]
    )
    figures.value("save the index", timed(broker.save_index), "seconds")
    broker.close()


def open_large(place: str) -> Broker:
    return Broker.open(
        place, settings=SETTINGS, index=Path(tempfile.gettempdir()) / "tocsin-bench-index" if "://" in place else None
    )


def tree_of(document: dict[str, Any]) -> bytes:
    """Return the stored form of a document of plain predicates."""
    return msgspec.json.encode({"event_types": document["event_types"], "where": {"and": document["predicates"]}})


def main() -> None:
    """Measure, print, and store the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__)
    parser.add_argument("--place", help="an empty PostgreSQL database; SQLite by default")
    parser.add_argument("--live", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--only", choices=PARTS, help="one part of it; all by default")
    options = parser.parse_args()
    figures = Figures()
    parts = PARTS if options.only is None else (options.only,)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        place = options.place
        if "narrow" in parts:
            publishing(place or f"{folder}/narrow.db", options.live, figures, narrow=True)
        if "market" in parts and not place:
            publishing(f"{folder}/market.db", options.live, figures, narrow=False)
        figures.section = ""
        if "storing" in parts:
            storing(place or f"{folder}/store.db", figures)
        if "large" in parts and options.large and not place:
            large(f"{folder}/large.db", options.large, figures)
    kind = "postgres" if options.place else "sqlite"
    write_report(RESULTS / f"broker-{kind}.json", options, figures)


def write_report(path: Path, options: argparse.Namespace, figures: Figures) -> None:
    """Write what was found; of a part, beside what the other parts found before."""
    before = json.loads(path.read_text())["figures"] if options.only and path.exists() else {}
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "load average": os.getloadavg(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    report = {"live": options.live, "large": options.large, **machine, "figures": before | figures.found}
    path.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
