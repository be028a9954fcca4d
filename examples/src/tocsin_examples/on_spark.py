"""The demo on the pipeline: an auction house's store, its events matched on local Spark, with live figures.

Set-up: 100,000 subscriptions go into a store of their own, and their index is written for the workers to map. Then
events are published at a steady rate, while members go on subscribing and leaving; the pipeline matches them as of
their seqs. At the end it is checked that every event was matched, none of its notifications is there twice, and a
sample of events reached exactly those whom the definition says.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress import Progress
from rich.table import Table

from tocsin.errors import TocsinError
from tocsin.pipeline.meter import Figures, Meter, figures_table
from tocsin.pipeline.run import Pipeline, PipelineSettings
from tocsin.pipeline.session import start_session, warm_workers
from tocsin_examples.house import House, announced
from tocsin_examples.summary import DemoSummary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRAIN_SECONDS = 60.0
WARM_UP_SECONDS = 600.0  # kernels may have to be compiled, on a machine that is busy
WARM_UP_EVENTS = 2_200  # enough for a task on each core, so that all workers start
WARM_UP_ROUNDS = 2
LINE_SECONDS = 5.0


def run_on_spark(
    *, subscriptions: int, events: int, rate: int, seed: int, console: Console,
    open_house: Callable[[Path, int], House] = House,
) -> DemoSummary:  # fmt: skip
    """Run the demo and print it; return its figures. Interrupted, it stops publishing and ends as always."""
    console.print(f"{announced(subscriptions, events, rate)}, matched on local Spark.\n", soft_wrap=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tocsin-demo-") as name, ThreadPoolExecutor(2) as threads:
        starting = threads.submit(_start_spark)  # beside the subscribing
        house = open_house(Path(name), seed)
        try:
            _subscribe(house, subscriptions, console)
            spark = starting.result()
            try:
                running = _Running(spark, house, Path(name), console)
                running.warm_up()
                return running.run(threads, events, rate, setup_seconds=time.monotonic() - begun)
            finally:
                spark.stop()
        finally:
            house.close()


def _start_spark() -> SparkSession:
    spark = start_session("local[2]", app_name="tocsin demo", streaming=True)
    warm_workers(spark)
    return spark


def _subscribe(house: House, count: int, console: Console) -> None:
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("subscribing (set-up)", total=count)
        house.subscribe(count, lambda more: bar.advance(task, more))
    house.broker.save_index()


class _Running:
    """The pipeline over the house's store, while it runs."""

    def __init__(self, spark: SparkSession, house: House, folder: Path, console: Console) -> None:
        self._house, self._console = house, console
        self._meter = Meter()
        house.follow(self._meter)
        self._pipeline = Pipeline(spark, PipelineSettings(house.place, str(folder / "checkpoint")), self._meter)

    def warm_up(self) -> None:
        """Start the pipeline, and let its workers open the index and load their kernels."""
        with self._console.status("starting the pipeline (set-up)"):
            self._house.publish(WARM_UP_EVENTS)
            self._pipeline.start()
            self._drain(WARM_UP_SECONDS)
            for _ in range(WARM_UP_ROUNDS):
                self._house.publish(WARM_UP_EVENTS)
                self._drain(WARM_UP_SECONDS)

    def run(self, threads: ThreadPoolExecutor, events: int, rate: int, *, setup_seconds: float) -> DemoSummary:
        """Publish, show what happens, stop, check."""
        warm, before = self._meter.figures().events, self._house.published
        started = time.monotonic()
        publishing = threads.submit(self._house.run, events, rate)
        try:
            self._show_until(publishing)
        except KeyboardInterrupt:
            self._house.stopping.set()
        publishing.result()
        events = self._house.published - before
        self._drain(DRAIN_SECONDS)
        seconds = time.monotonic() - started
        self._pipeline.stop()
        self._pipeline.wait()
        figures, house = self._meter.figures(), self._house
        with self._console.status("checking that nothing was lost"):
            checked = house.check(figures.matches)
        latencies = np.array(self._meter.latencies_ms()[warm:] or [0.0])
        p50, p95, p99 = np.percentile(latencies, [50, 95, 99]).tolist()
        summary = DemoSummary(
            "spark", house.live, events, figures.matches, house.changes, setup_seconds, seconds, p50, p95, p99, checked
        )
        _print_summary(self._console, summary)
        return summary

    def _show_until(self, done: Future[None]) -> None:
        """Show live figures: a table that is kept up to date, or, where there is no terminal, a line now and then."""
        shown = time.monotonic()
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            while not done.done():
                self._pipeline.check()
                figures = self._meter.figures()
                live.update(figures_table(figures, "running"))
                if not self._console.is_terminal and time.monotonic() - shown > LINE_SECONDS:
                    shown = time.monotonic()
                    self._console.print(_line(figures), soft_wrap=True)
                wait([done], timeout=0.25)

    def _drain(self, seconds: float) -> None:
        """Wait until every event that was published is matched."""
        last, deadline = self._house.last_seq(), time.monotonic() + seconds
        while self._house.matched_through() < last:
            self._pipeline.check()
            if time.monotonic() > deadline:
                raise TocsinError(f"the pipeline has not caught up in {seconds:.0f} s; try a lower --rate")
            time.sleep(0.02)


def _line(figures: Figures) -> str:
    latency = "" if figures.latency_p50_ms is None else f", published to stored: p50 {figures.latency_p50_ms:,.0f} ms"
    return (
        f"{figures.events:,} events ({figures.events_per_second:,.0f}/s), "
        f"{figures.matches:,} notifications ({figures.matches_per_second:,.0f}/s){latency}"
    )


def _print_summary(console: Console, summary: DemoSummary) -> None:
    table = Table(title="Summary", title_justify="left", show_header=False)
    table.add_row("subscriptions", f"{summary.subscriptions:,} live at the end; {summary.changes:,} changed meanwhile")
    table.add_row("events", f"{summary.events:,} in {summary.seconds:.1f} s: {summary.events_per_second:,.0f}/s")
    table.add_row("notifications", f"{summary.notifications:,}")
    table.add_row(
        "published to stored",
        f"p50 {summary.latency_p50_ms:,.0f} ms, p95 {summary.latency_p95_ms:,.0f} ms, "
        f"p99 {summary.latency_p99_ms:,.0f} ms",
    )
    table.add_row(
        "nothing lost",
        f"all {summary.events:,} events matched, no notification twice, {summary.checked_events} events compared with "
        "the definition",
    )
    table.add_row("set-up", f"{summary.setup_seconds:.0f} s")
    console.print(table)
