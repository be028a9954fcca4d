"""The demo on the pipeline: an auction house's store, its events matched on local Spark, with live figures.

Set-up: 100,000 subscriptions go into a store of their own, and their index is written for the workers to map. Then
events are published at a steady rate, while members go on subscribing and leaving; the pipeline matches them as of
their seqs. At the end it is checked that every event was matched, none of its notifications is there twice, and a
sample of events reached exactly those whom the definition says.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress import Progress
from rich.table import Table

from tocsin.broker import Broker
from tocsin.demo.auction import Auction
from tocsin.errors import TocsinError
from tocsin.language import BoundSubscription, bind, evaluate, parse
from tocsin.pipeline.display import figures_table
from tocsin.pipeline.meter import Meter
from tocsin.pipeline.run import Pipeline, PipelineSettings
from tocsin.pipeline.session import start_session
from tocsin.store.events import read_events
from tocsin.store.notifications import all_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNERS = 200
AT_ONCE = 2_000
TICK_SECONDS = 0.1
CHANGES_PER_SECOND = 20
CHECKED_EVENTS = 5
DRAIN_SECONDS = 60.0
WARM_UP_SECONDS = 600.0  # kernels may have to be compiled, on a machine that is busy
READ_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class SparkSummary:
    """What the demo did; latencies from publishing to stored notifications, in milliseconds."""

    subscriptions: int
    events: int
    notifications: int
    changes: int
    setup_seconds: float
    seconds: float
    latency_p50_ms: float
    latency_p99_ms: float
    checked_events: int
    engine: str = "spark"

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds


class House:
    """The auction house: its broker, and what it knows about its members, to check the answers with."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.auction = Auction(seed)
        self.place = str(folder / "auction.db")
        self.broker = Broker.open(self.place, schema=self.auction.schema, matching="pipeline")
        self.bound: dict[int, BoundSubscription] = {}
        self._owners: dict[int, str] = {}
        self.ended: dict[int, int] = {}  # subscription -> the seq at which it left
        self.published = 0
        self.changes = 0
        self._random = random.Random(seed)

    def subscribe(self, count: int, console: Console) -> None:
        """Take in members' subscriptions."""
        texts = (text for _, text in self.auction.subscriptions(count))
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task("subscribing (set-up)", total=count)
            while chunk := list(islice(texts, AT_ONCE)):
                self._add(chunk)
                bar.advance(task, len(chunk))

    def _add(self, texts: list[str]) -> None:
        trees = [bind(parse(text), self.auction.schema, text=text) for text in texts]
        owner = f"member-{self._random.randrange(OWNERS)}"
        receipts = self.broker.subscribe_all([bound.subscription for bound in trees], owner=owner)
        self.bound |= {receipt.id: bound for receipt, bound in zip(receipts, trees, strict=True)}
        self._owners |= dict.fromkeys((receipt.id for receipt in receipts), owner)

    def run(self, events: int, rate: int) -> None:
        """Publish events at a steady rate; members come and go meanwhile."""
        stream = map(dict, self.auction.events(events))  # a copy: items change as they are bid on
        newcomers = (text for _, text in self.auction.subscriptions(events))
        started = time.monotonic()
        while self.published < events:
            now = time.monotonic() - started
            due = min(events, int(now * rate) + 1)
            if due > self.published:
                self.published += len(self.broker.publish(list(islice(stream, due - self.published))))
            self._change(int(now * CHANGES_PER_SECOND) - self.changes, newcomers)
            time.sleep(TICK_SECONDS)

    def _change(self, count: int, newcomers: Iterator[str]) -> None:
        for at in range(count):
            if at % 2:
                id = self._random.choice(list(islice(self.bound, 1000)))
                if id not in self.ended:
                    self.ended[id] = self.broker.unsubscribe(id, owner=self._owners[id]).seq
            else:
                self._add([next(newcomers)])
            self.changes += 1

    # --- checking -----------------------------------------------------------------------------------------------------

    def last_seq(self) -> int:
        """Return the seq of the last event."""
        return max((event.seq for event in self._events()), default=0)

    def _events(self) -> Iterator[Any]:
        after = 0
        while True:
            with self.broker._core.store.read() as connection:
                found = read_events(connection, after, READ_AT_ONCE)
            yield from found
            if len(found) < READ_AT_ONCE:
                return
            after = found[-1].seq

    def check(self, notifications: int) -> int:
        """Check what is stored; return how many events were compared with the definition. Raises TocsinError."""
        events = list(self._events())
        if len(events) != self.published:
            raise TocsinError(f"{self.published} events were published, and {len(events)} are in the log")
        chosen = {event.seq: event for event in self._random.sample(events, min(CHECKED_EVENTS, len(events)))}
        found: dict[int, set[int]] = {seq: set() for seq in chosen}
        stored = 0
        with self.broker._core.store.read() as connection:
            for _, _, _, block in all_blocks(connection):
                pairs = np.stack([block.seq, block.subscription])
                if np.unique(pairs, axis=1).shape[1] != len(block):
                    raise TocsinError("a notification is stored twice")
                stored += len(block)
                for seq in set(block.seq.tolist()) & set(found):
                    found[seq].update(block.subscription[block.seq == seq].tolist())
        if stored != notifications:
            raise TocsinError(f"{notifications} notifications were counted, and {stored} are stored")
        for seq, event in chosen.items():
            if found[seq] != self._right(seq, msgspec.json.decode(event.body)):
                raise TocsinError(f"event {seq} reached others than the definition says")
        return len(chosen)

    def _right(self, seq: int, raw: dict[str, Any]) -> set[int]:
        event = self.auction.schema.admit(raw)
        never = 2**63
        return {
            id for id, bound in self.bound.items() if id < seq < self.ended.get(id, never) and evaluate(bound, event)
        }


def run_on_spark(*, subscriptions: int, events: int, rate: int, seed: int, console: Console) -> SparkSummary:
    """Run the demo and print it; return its figures."""
    console.print(
        f"An auction house: {subscriptions:,} subscriptions of its members, {events:,} events at {rate:,} a second, "
        "matched on local Spark.\n"
    )
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tocsin-demo-") as name:
        folder = Path(name)
        starting = _Starting()
        house = House(folder, seed)
        try:
            house.subscribe(subscriptions, console)
            house.broker.save_index()
            spark = starting.session()
            try:
                return _run(spark, house, folder, events, rate, time.monotonic() - begun, console)
            finally:
                spark.stop()
        finally:
            house.broker.close()


class _Starting:
    """Spark, starting beside what else is to be done."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            self._spark = start_session("local[2]", app_name="tocsin demo", streaming=True)
        except Exception as error:  # noqa: BLE001 - handed on to whoever waits for the session
            self._error = error

    def session(self) -> SparkSession:
        self._thread.join()
        if self._spark is None:
            raise self._error or TocsinError("Spark did not start")
        return self._spark


def _run(
    spark: SparkSession, house: House, folder: Path, events: int, rate: int, setup_seconds: float, console: Console
) -> SparkSummary:
    meter = Meter()
    pipeline = Pipeline(spark, PipelineSettings(house.place, str(folder / "checkpoint")), meter)
    house.published += len(house.broker.publish(list(map(dict, house.auction.events(10)))))
    pipeline.start()
    _drain(house, pipeline, WARM_UP_SECONDS)  # workers open the index and load their kernels here
    warm = meter.figures()
    started = time.monotonic()
    house_thread = threading.Thread(target=house.run, args=(events + house.published, rate), daemon=True)
    house_thread.start()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while house_thread.is_alive():
            pipeline.check()
            live.update(figures_table(meter.figures(), "running"))
            house_thread.join(0.25)
        _drain(house, pipeline)
    seconds = time.monotonic() - started
    pipeline.stop()
    pipeline.wait()
    figures = meter.figures()
    with console.status("checking that nothing was lost"):
        checked = house.check(figures.matches)
    latencies = np.array(meter.latencies_ms()[warm.events :] or [0.0])
    p50, p99 = np.percentile(latencies, [50, 99]).tolist()
    summary = SparkSummary(
        len(house.bound) - len(house.ended), house.published, figures.matches, house.changes, setup_seconds, seconds,
        p50, p99, checked,
    )  # fmt: skip
    _print_summary(console, summary)
    return summary


def _drain(house: House, pipeline: Pipeline, seconds: float = DRAIN_SECONDS) -> None:
    """Wait until every event that was published is matched."""
    last, deadline = house.last_seq(), time.monotonic() + seconds
    while house.broker._core.store.meta().matched_through < last:
        pipeline.check()
        if time.monotonic() > deadline:
            raise TocsinError("the pipeline has not caught up in time")
        time.sleep(0.05)


def _print_summary(console: Console, summary: SparkSummary) -> None:
    table = Table(title="Summary", title_justify="left", show_header=False)
    table.add_row("subscriptions", f"{summary.subscriptions:,} live at the end; {summary.changes:,} changed meanwhile")
    table.add_row("events", f"{summary.events:,} in {summary.seconds:.1f} s: {summary.events_per_second:,.0f}/s")
    table.add_row("notifications", f"{summary.notifications:,}")
    table.add_row("published to stored", f"p50 {summary.latency_p50_ms:,.0f} ms, p99 {summary.latency_p99_ms:,.0f} ms")
    table.add_row(
        "nothing lost",
        f"all {summary.events:,} events matched, no notification twice, {summary.checked_events} events compared with "
        "the definition",
    )
    table.add_row("set-up", f"{summary.setup_seconds:.0f} s")
    console.print(table)
