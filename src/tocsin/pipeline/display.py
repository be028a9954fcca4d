"""The running pipeline on a terminal: one table that is kept up to date."""

from __future__ import annotations

from rich.table import Table

from tocsin.pipeline.meter import Figures


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
