"""The demo without Spark: the open house, whose own broker matches each event as it is published.

For where there is no Java. Everything else is as on Spark: the pages, the two sites, members who come and go, and the
check at the end.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tocsin_examples.house import announced
from tocsin_examples.open_house import OpenHouse
from tocsin_examples.summary import DemoSummary

LINE_SECONDS = 5.0


def run_inline(
    *, subscriptions: int, events: int, rate: int, seed: int, console: Console,
    open_house: Callable[[Path, int], OpenHouse],
) -> DemoSummary:  # fmt: skip
    """Run the demo and print it; return its figures. Interrupted, it stops publishing and ends as always."""
    console.print(f"{announced(subscriptions, events, rate)}, matched by the service itself.\n", soft_wrap=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tocsin-demo-") as name:
        house = open_house(Path(name), seed)
        try:
            with Progress(console=console, transient=True) as bar:
                task = bar.add_task("subscribing (set-up)", total=subscriptions)
                house.subscribe(subscriptions, lambda more: bar.advance(task, more))
            house.publish(1)  # kernels compile, or load, here
            house.publish_ms.clear()
            setup_seconds = time.monotonic() - begun
            started = time.monotonic()
            _publish(house, events, rate, console)
            seconds = time.monotonic() - started
            summary = _summary(house, setup_seconds, seconds)
            _print_summary(console, summary)
            return summary
        finally:
            house.close()


def _publish(house: OpenHouse, events: int, rate: int, console: Console) -> None:
    """Let the sites publish, in a thread, and say now and then how far they are."""
    with ThreadPoolExecutor(1) as threads:
        publishing = threads.submit(house.run, events, rate)
        try:
            while not publishing.done():
                wait([publishing], LINE_SECONDS)
                console.print(f"{house.published:,} events, {house.notifications():,} notifications", soft_wrap=True)
        except KeyboardInterrupt:
            house.stopping.set()
        publishing.result()


def _summary(house: OpenHouse, setup_seconds: float, seconds: float) -> DemoSummary:
    found = house.notifications()
    checked = house.check(found)
    p50, p95, p99 = np.percentile(house.publish_ms or [0.0], [50, 95, 99]).tolist()
    return DemoSummary(
        "columnar", house.live, house.published, found, house.changes, setup_seconds, seconds, p50, p95, p99, checked
    )


def _print_summary(console: Console, summary: DemoSummary) -> None:
    table = Table(title="Summary", title_justify="left", show_header=False)
    table.add_row("subscriptions", f"{summary.subscriptions:,} live at the end; {summary.changes:,} changed meanwhile")
    table.add_row("events", f"{summary.events:,} in {summary.seconds:.1f} s: {summary.events_per_second:,.0f}/s")
    table.add_row("notifications", f"{summary.notifications:,}")
    table.add_row(
        "publishing over HTTP",
        f"p50 {summary.latency_p50_ms:,.0f} ms, p95 {summary.latency_p95_ms:,.0f} ms, "
        f"p99 {summary.latency_p99_ms:,.0f} ms, matched and on disk",
    )
    table.add_row("nothing lost", f"{summary.checked_events} events compared with the definition")
    table.add_row("set-up", f"{summary.setup_seconds:.0f} s")
    console.print(table)
