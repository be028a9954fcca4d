"""The dashboard: rates, latencies, sizes, the pipeline's state, now and over the last minutes."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tocsin.service.routing import json_response
from tocsin.service.web.charts import Chart, chart
from tocsin.service.web.history import KEPT, TICK_SECONDS, History, Moment, latency_ms, rate
from tocsin.service.web.visit import Pages, Visit

pages = Pages()
_POINTS = KEPT - 1
_SMOOTHED = 3  # moments that a point of a rate is taken over


@pages.get("/dashboard", "guest")
async def show(visit: Visit) -> Response:
    """Show how things stand; with JavaScript the board is loaded again every second."""
    return visit.page("dashboard.html", **await _board(visit))


@pages.get("/dashboard/board", "guest")
async def board(visit: Visit) -> Response:
    """Return the part that moves."""
    return visit.page("_board.html", **await _board(visit))


@pages.get("/dashboard/figures", "guest")
async def figures(visit: Visit) -> Response:
    """Return the figures, for programs."""
    board = await _board(visit)
    return json_response(board["figures"])


async def _board(visit: Visit) -> dict[str, Any]:
    history: History = visit.request.app.state.history
    now = await history.now()
    moments = list(history.moments)
    return {"figures": _figures(moments, now), "charts": _charts(moments), "pipeline": now.pipeline}


def _figures(moments: list[Moment], now: Moment) -> dict[str, Any]:
    last = len(moments) - 1
    found = latency_ms(moments, last)
    p50, p99 = found if found is not None else (None, None)
    return {
        "subscriptions": now.subscriptions,
        "events": now.events,
        "events_per_second": round(rate(moments, last, "events"), 1),
        "matches": now.matches,
        "matches_per_second": round(rate(moments, last, "matches"), 1),
        "latency_p50_ms": p50,
        "latency_p99_ms": p99,
        "latency_of": "stored" if now.latency_ms is not None else "publishing",
        "lag": now.lag,
        "index_bytes": now.index_bytes,
        "streams": now.streams,
        "pipeline": now.pipeline_state,
        "seq": now.seq,
        "matched_through": now.matched_through,
        "schema_version": now.schema_version,
    }


def _charts(moments: list[Moment]) -> list[Chart]:
    def draw(title: str, *series: tuple[str, list[float | None]]) -> Chart:
        return chart(title, series, points=_POINTS, seconds=round(_POINTS * TICK_SECONDS))

    places = range(1, len(moments))
    latencies = [latency_ms(moments, at) for at in places]
    return [
        draw("Events a second", ("", [rate(moments, at, "events", _SMOOTHED) for at in places])),
        draw("Notifications a second", ("", [rate(moments, at, "matches", _SMOOTHED) for at in places])),
        draw(
            "Latency in ms",
            ("p50", [one and one[0] for one in latencies]),
            ("p99", [one and one[1] for one in latencies]),
        ),
        draw("Waiting to be matched", ("", [float(moments[at].lag) for at in places])),
        draw("Subscriptions", ("", [float(moments[at].subscriptions) for at in places])),
        draw("Open streams", ("", [float(moments[at].streams) for at in places])),
    ]
