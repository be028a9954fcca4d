"""The dashboard: rates, latencies, sizes, the pipeline's state; as figures for the charts too."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client import Histogram
from starlette.responses import Response

from tocsin.service.documents import json_response
from tocsin.service.web.visit import Pages, Visit

pages = Pages()


@pages.get("/dashboard", "guest")
async def show(visit: Visit) -> Response:
    """Show the figures of now; with JavaScript they move."""
    return visit.page("dashboard.html", figures=await _figures(visit))


@pages.get("/dashboard/figures", "guest")
async def figures(visit: Visit) -> Response:
    """Return the figures."""
    return json_response(await _figures(visit))


async def _figures(visit: Visit) -> dict[str, Any]:
    service, watch = visit.service, visit.request.app.state.pipeline
    stands = await asyncio.to_thread(service.broker.store.meta)
    stats = await asyncio.to_thread(service.broker.index_stats)
    found: dict[str, Any] = {
        "seq": stands.seq,
        "matched_through": stands.matched_through,
        "lag": max(0, stands.seq - stands.matched_through) if stands.matching == "pipeline" else 0,
        "schema_version": stands.schema_version,
        "subscriptions": stats["live"],
        "index_bytes": stats.get("bytes", 0),
        "published": service.metrics.published._value.get(),
        "streams": service.metrics.streams._value.get(),
        "pipeline": "inline" if watch is None else "up" if watch.is_up else "down",
    }
    return found | _percentiles(service.metrics.seconds)


def _percentiles(seconds: Histogram) -> dict[str, float | None]:
    """Return p50 and p99 of publishing over HTTP in milliseconds, by the upper bound of their bucket."""
    counts: dict[float, float] = {}
    for metric in seconds.collect():
        for sample in metric.samples:
            if sample.name.endswith("_bucket") and sample.labels.get("route") in ("/v1/events", "/publish"):
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0) + sample.value
    bounds = sorted(counts)
    total = counts[bounds[-1]] if bounds else 0
    found: dict[str, float | None] = {"publish_p50_ms": None, "publish_p99_ms": None}
    for name, share in (("publish_p50_ms", 0.5), ("publish_p99_ms", 0.99)):
        at = next((bound for bound in bounds if total and counts[bound] >= share * total), None)
        found[name] = None if at is None or at == float("inf") else at * 1000
    return found
