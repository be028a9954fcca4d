"""The dashboard: rates, latencies, sizes, the pipeline's state, now and over the last minutes.

Charts are series as SVG, drawn by the server, so that they are there without JavaScript and run no script: the last
minutes, newest at the right, from zero to a round number above the largest value. A series without a value leaves a gap.

Their history is a moment every second, kept here and not by the page, so that whoever opens it sees at once what was
before.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from prometheus_client import Histogram
from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.service.pipeline_watch import Watch
from tocsin.service.routing import json_response
from tocsin.service.service import Service
from tocsin.service.web.visit import Pages, Visit
from tocsin.store.events import count_events
from tocsin.store.notifications import count_matches

WIDTH, HEIGHT = 360, 110
LEFT, BOTTOM, TOP = 46, 18, 6
_STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True)
class Series:
    """One series: its name, the path through its values, and its last value in words."""

    name: str
    path: str
    last: str


@dataclass(frozen=True)
class Chart:
    """What the template draws."""

    title: str
    lines: list[Series]
    ticks: list[tuple[float, str]]  # y, label
    words: str  # for who cannot see it
    seconds: int


def chart(title: str, series: Sequence[tuple[str, Sequence[float | None]]], *, points: int, seconds: int) -> Chart:
    """Return a chart of series that end now and may be shorter than `points`; None leaves a gap."""
    top = ceiling(max((value for _, values in series for value in values if value is not None), default=0.0))
    lines = [Series(name, _path(values, top, points), _last_value(values)) for name, values in series]
    ticks = [(_y(top * share, top), amount(top * share)) for share in (0.0, 0.5, 1.0)]
    words = "; ".join(f"{line.name + ' ' if line.name else ''}{line.last} now" for line in lines)
    return Chart(title, lines, ticks, f"{title}: {words}", seconds)


def ceiling(value: float) -> float:
    """Return a round number that is not below a value, and not zero."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in _STEPS if step * size >= value * (1 - 1e-9))


def amount(value: float) -> str:
    """Return a number in a few characters: 950, 1.2k, 3M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _last_value(values: Sequence[float | None]) -> str:
    return "–" if not values or values[-1] is None else amount(values[-1])


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top, 1)


def _path(values: Sequence[float | None], top: float, points: int) -> str:
    step = (WIDTH - LEFT - 4) / max(1, points - 1)
    parts, pen = [], "M"
    for at, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x = WIDTH - 4 - step * (len(values) - 1 - at)
        parts.append(f"{pen}{x:.1f} {_y(value, top)}")
        pen = "L"
    return "".join(parts)


log = structlog.get_logger("tocsin.history")
TICK_SECONDS = 1.0
KEPT = 181  # moments: three minutes, and one to begin with
WINDOW = 10  # moments that rates and percentiles are taken over
_PUBLISHING = ("/v1/events", "/publish")

Buckets = Mapping[float, float]  # upper bound in seconds -> requests that took at most so long


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stood; counts since the service started, latencies in milliseconds."""

    at: float  # on the monotonic clock
    seq: int
    matched_through: int
    lag: int  # events that wait to be matched
    events: int
    matches: int
    subscriptions: int
    index_bytes: int
    streams: int
    publishing: Buckets = field(repr=False)
    pipeline: Mapping[str, Any] = field(repr=False)
    pipeline_state: str
    schema_version: int

    @property
    def latency_ms(self) -> tuple[float, float] | None:
        """p50 and p99 from published to stored, where a pipeline tells."""
        p50, p99 = self.pipeline.get("latency_p50_ms"), self.pipeline.get("latency_p99_ms")
        return None if p50 is None or p99 is None else (p50, p99)


class History:
    """The last moments of a service."""

    def __init__(self, service: Service, watch: Watch | None) -> None:
        self._service, self._watch = service, watch
        self.moments: deque[Moment] = deque(maxlen=KEPT)
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take moments in the background."""
        self._running = asyncio.create_task(self._run(), name="tocsin-history")

    async def close(self) -> None:
        """Stop."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.take)
            except TocsinError as error:  # the store may be away for a while: the history then has a gap
                log.warning("no moment was taken", error=str(error))
            await asyncio.sleep(TICK_SECONDS)

    async def now(self) -> Moment:
        """Return the newest moment; the first one is taken here."""
        if not self.moments:
            await asyncio.to_thread(self.take)
        return self.moments[-1]

    def take(self) -> None:
        """Take a moment."""
        broker, metrics = self._service.broker, self._service.metrics
        stands, stats = broker.store.meta(), broker.index_stats()
        last = self.moments[-1] if self.moments else None
        with broker.store.read() as connection:
            events = 0 if last is None else last.events + count_events(connection, last.seq, stands.seq)
            matches = (
                0 if last is None
                else last.matches + count_matches(connection, last.matched_through, stands.matched_through)
            )  # fmt: skip
            waits = stands.matching == "pipeline"
            waiting = count_events(connection, stands.matched_through, stands.seq) if waits else 0
        self.moments.append(
            Moment(
                time.monotonic(), stands.seq, stands.matched_through,
                waiting, events, matches, stats["live"],
                stats.get("bytes", 0), int(metrics.streams._value.get()), _buckets(metrics.seconds),
                self._watch.figures() if self._watch is not None else {}, self._state(waits=waits),
                stands.schema_version,
            )
        )  # fmt: skip

    def _state(self, *, waits: bool) -> str:
        if self._watch is None:
            return "run by others" if waits else "inline"
        return "up" if self._watch.is_up else "down"


def rate(moments: list[Moment], at: int, name: str, over: int = WINDOW) -> float:
    """Return by how much a count grew a second, over the last moments before one."""
    first, last = moments[max(0, at - over)], moments[at]
    seconds = last.at - first.at
    return (getattr(last, name) - getattr(first, name)) / seconds if seconds > 0 else 0.0


def latency_ms(moments: list[Moment], at: int) -> tuple[float, float] | None:
    """Return p50 and p99 at a moment: from published to stored, or else of publishing over HTTP, lately."""
    told = moments[at].latency_ms
    if told is not None:
        return told
    before, after = moments[max(0, at - WINDOW)].publishing, moments[at].publishing
    p50, p99 = (percentile(before, after, share) for share in (0.5, 0.99))
    return None if p50 is None or p99 is None else (p50 * 1000, p99 * 1000)


def percentile(before: Buckets, after: Buckets, share: float) -> float | None:
    """Return a percentile of what two cumulative histograms differ by, evenly within its bucket; None of nothing."""
    counts = [(bound, after[bound] - before.get(bound, 0.0)) for bound in sorted(after)]
    total = counts[-1][1] if counts else 0.0
    if total <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, upto in counts:
        if upto >= share * total:
            if bound == float("inf"):
                return low
            return low + (bound - low) * (share * total - below) / (upto - below)
        low, below = bound, upto
    return low


def _buckets(seconds: Histogram) -> Buckets:
    """Return how many requests that published took at most how long."""
    counts: dict[float, float] = {}
    for metric in seconds.collect():
        for sample in metric.samples:
            if sample.name.endswith("_bucket") and sample.labels.get("route") in _PUBLISHING:
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0) + sample.value
    return counts


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
