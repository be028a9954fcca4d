"""Meter: how the pipeline is doing, kept by the driver and shown in three ways: terminal, Prometheus, status file.

Queries report each micro-batch; whoever looks asks for `figures()`. Rates are over the last seconds, latencies (from an
event's arrival on the store's clock to its notifications being stored) over the last events.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


RATE_SECONDS = 10.0  # that rates and percentiles are taken over
KEPT_LATENCIES = 50_000  # of batches within that time at most, the newest


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One micro-batch, when it is done."""

    query: str
    batch: int
    events: int
    matches: int
    dead_letters: int
    seconds: float
    through_seq: int = 0
    lag: int = 0  # seqs that the store is ahead
    index_seq: int = 0  # what the subscriptions that were matched against follow the store up to
    latencies_ms: tuple[float, ...] = ()
    cache_hits: int = 0  # of the workers' caches of program results
    cache_misses: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """How things stand. Totals since the start, rates over the last seconds, times in milliseconds."""

    state: str
    uptime_seconds: float
    batches: int
    events: int
    matches: int
    dead_letters: int
    events_per_second: float
    matches_per_second: float
    batch_ms: float
    lag: int
    through_seq: int
    index_seq: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    cache_hits: int = 0  # results of programs that a worker had in its cache
    cache_misses: int = 0

    @property
    def cache_hit_rate(self) -> float | None:
        """The share of look-ups in the workers' caches that found a result; None where there were none."""
        asked = self.cache_hits + self.cache_misses
        return self.cache_hits / asked if asked else None


class Meter:
    """Counts what queries report. Safe to use from many threads."""

    def __init__(self, status_file: Path | None = None) -> None:
        self._guard = threading.Lock()
        self._started = time.monotonic()
        self._state = "starting"
        self._batches = self._events = self._matches = self._dead = 0
        self._cache_hits = self._cache_misses = 0
        self._recent: deque[tuple[float, BatchReport]] = deque()
        self._last: BatchReport | None = None
        self._latencies: deque[tuple[float, float]] = deque(maxlen=KEPT_LATENCIES)  # when, how long
        self._status_file = status_file
        self._prometheus: _Prometheus | None = None

    def serve(self, port: int) -> None:
        """Serve the figures to Prometheus on a port of this machine."""
        self._prometheus = _Prometheus(self)
        self._prometheus.serve(port)

    def set_state(self, state: str) -> None:
        """Say what the pipeline is doing: starting, running, stopping, stopped, failed."""
        with self._guard:
            self._state = state
        self._write_status()

    def record(self, report: BatchReport) -> None:
        """Count a micro-batch."""
        with self._guard:
            self._batches += 1
            self._events += report.events
            self._matches += report.matches
            self._dead += report.dead_letters
            self._cache_hits += report.cache_hits
            self._cache_misses += report.cache_misses
            self._last = report
            self._recent.append((time.monotonic(), report))
            now = time.monotonic()
            self._latencies.extend((now, one) for one in report.latencies_ms)
        self._write_status()

    def latencies_ms(self) -> list[float]:
        """Return the latencies that are kept."""
        with self._guard:
            return [one for _, one in self._latencies]

    def figures(self) -> Figures:
        """Return how things stand."""
        now = time.monotonic()
        with self._guard:
            while self._recent and now - self._recent[0][0] > RATE_SECONDS:
                self._recent.popleft()
            window = max(1e-3, min(RATE_SECONDS, now - self._started))
            recent = [report for _, report in self._recent]
            last = self._last
            lately = [one for at, one in self._latencies if now - at <= RATE_SECONDS]
            percentiles = np.percentile(lately, [50, 99]).tolist() if lately else [None, None]
            return Figures(
                state=self._state,
                uptime_seconds=now - self._started,
                batches=self._batches,
                events=self._events,
                matches=self._matches,
                dead_letters=self._dead,
                events_per_second=sum(report.events for report in recent) / window,
                matches_per_second=sum(report.matches for report in recent) / window,
                batch_ms=0.0 if last is None else last.seconds * 1000,
                lag=0 if last is None else last.lag,
                through_seq=max((report.through_seq for report in recent), default=last.through_seq if last else 0),
                index_seq=0 if last is None else last.index_seq,
                latency_p50_ms=percentiles[0],
                latency_p99_ms=percentiles[1],
                cache_hits=self._cache_hits,
                cache_misses=self._cache_misses,
            )

    def _write_status(self) -> None:
        """Replace the status file as a whole, so that a reader never sees half of it."""
        if self._status_file is None:
            return
        text = json.dumps(asdict(self.figures()), indent=1)
        with self._guard:
            unfinished = self._status_file.with_name(f"{self._status_file.name}.{os.getpid()}.tmp")
            unfinished.write_text(text + "\n", encoding="utf-8")
            unfinished.replace(self._status_file)


class _Prometheus:
    """The figures as Prometheus has them, in a registry of their own."""

    def __init__(self, meter: Meter) -> None:
        from prometheus_client import CollectorRegistry

        self._meter = meter
        self.registry: CollectorRegistry = CollectorRegistry()
        self.registry.register(_Collector(meter))  # type: ignore[arg-type]  # anything with `collect` will do

    def serve(self, port: int) -> None:
        from prometheus_client import start_http_server

        start_http_server(port, addr="127.0.0.1", registry=self.registry)


class _Collector:
    """Reads the meter whenever somebody scrapes."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> list[object]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        figures = self._meter.figures()
        counters = {
            "tocsin_pipeline_batches": ("Micro-batches done.", figures.batches),
            "tocsin_pipeline_events": ("Events matched.", figures.events),
            "tocsin_pipeline_matches": ("Notifications stored or sent.", figures.matches),
            "tocsin_pipeline_dead_letters": ("Events that could not be processed.", figures.dead_letters),
            "tocsin_pipeline_program_cache_hits": ("Results of programs that workers had.", figures.cache_hits),
            "tocsin_pipeline_program_cache_misses": ("Results of programs that they had not.", figures.cache_misses),
        }
        gauges = {
            "tocsin_pipeline_lag_seqs": ("Seqs of the store that are not matched yet.", figures.lag),
            "tocsin_pipeline_batch_seconds": ("Duration of the last micro-batch.", figures.batch_ms / 1000),
            "tocsin_pipeline_index_seq": ("Seq that the subscriptions follow the store up to.", figures.index_seq),
            "tocsin_pipeline_latency_p50_seconds": ("Arrival to stored, median.", (figures.latency_p50_ms or 0) / 1000),
            "tocsin_pipeline_latency_p99_seconds": ("Arrival to stored, 99%.", (figures.latency_p99_ms or 0) / 1000),
        }
        families: list[object] = [
            CounterMetricFamily(name, text, value=value) for name, (text, value) in counters.items()
        ]
        return families + [GaugeMetricFamily(name, text, value=value) for name, (text, value) in gauges.items()]


def figures_table(figures: Figures, title: str) -> Table:
    """Return the figures as a table."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_row("state", figures.state)
    table.add_row("events", f"{figures.events:,}   ({figures.events_per_second:,.0f}/s)")
    table.add_row("notifications", f"{figures.matches:,}   ({figures.matches_per_second:,.0f}/s)")
    table.add_row("dead letters", f"{figures.dead_letters:,}")
    table.add_row("micro-batches", f"{figures.batches:,}   (the last took {figures.batch_ms:,.0f} ms)")
    if figures.latency_p50_ms is not None and figures.latency_p99_ms is not None:
        latency = f"p50 {figures.latency_p50_ms:,.0f} ms, p99 {figures.latency_p99_ms:,.0f} ms"
        table.add_row("published to stored", latency)
    if figures.cache_hit_rate is not None:
        table.add_row("program results", f"{figures.cache_hit_rate:.0%} from the workers' caches")
    table.add_row("behind the store", f"{figures.lag:,} seqs")
    table.add_row("subscriptions as of", f"seq {figures.index_seq:,}")
    return table
