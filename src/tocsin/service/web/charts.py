"""Charts: series as SVG, drawn by the server, so that they are there without JavaScript and run no script.

A chart shows the last minutes, newest at the right, from zero to a round number above the largest value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    lines = [Series(name, _path(values, top, points), _last(values)) for name, values in series]
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


def _last(values: Sequence[float | None]) -> str:
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
