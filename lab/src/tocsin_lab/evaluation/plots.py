"""Plots of the evaluation, as SVG; the paper's numbers are crosses. The same records give the same files."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tocsin.errors import NotSupported
from tocsin_lab.evaluation.figures import BOUND, COST_SECONDS, Figure
from tocsin_lab.evaluation.measure import Run

COLOURS = {
    "naive": "tab:grey",
    "sequential": "tab:orange",
    "sub-order": "tab:blue",
    "adaptive": "tab:green",
    "adaptive, learning": "limegreen",
    BOUND: "black",
    "sub-order, told once": "tab:blue",
    "sub-order, learning": "tab:purple",
    "adaptive, told": "tab:green",
}


def draw_figure(figure: Figure, points: Mapping[str, Mapping[float | str, Run]], path: Path) -> None:
    """Draw evaluations per event on the left, and seconds at the simulated cost on the right."""
    with _axes(2, path) as (left, right):
        for series, runs in points.items():
            if not runs:
                continue
            style: dict[str, Any] = {"color": COLOURS[series], "label": series, "linewidth": 1.2}
            style |= {"linestyle": ":"} if series == BOUND else {"marker": "o", "markersize": 3}
            xs = list(runs)
            left.plot(xs, [run.mean_evaluations for run in runs.values()], **style)
            if series != BOUND:
                right.plot(xs, [run.total_seconds for run in runs.values()], **style)
        for series, stated in figure.paper.items():
            left.plot(
                list(stated), list(stated.values()), linestyle="", marker="x", markersize=8, color=COLOURS[series],
                label=f"{series}, paper",
            )  # fmt: skip
        left.set(xlabel=figure.x_label, ylabel="evaluations per event", ylim=(0, None))
        right.set(xlabel=figure.x_label, ylabel=f"seconds per event, {COST_SECONDS * 1e3:g} ms each", ylim=(0, None))
        left.legend(fontsize=7, frameon=False)


def draw_drift(runs: Mapping[str, list[float]], path: Path) -> None:
    """Draw evaluations per event over the events, each the mean of some."""
    with _axes(1, path) as (axes,):
        for series, evaluations in runs.items():
            width = max(1, len(evaluations) // 50)
            means = np.convolve(evaluations, np.ones(width) / width, mode="valid")
            axes.plot(np.arange(len(means)) + width / 2, means, color=COLOURS[series], linewidth=1.2, label=series)
        axes.set(xlabel="events", ylabel="evaluations per event", ylim=(0, None))
        axes.legend(fontsize=7, frameon=False)


@contextmanager
def _axes(count: int, path: Path) -> Iterator[Any]:
    """Yield axes side by side, and write them to the path."""
    if importlib.util.find_spec("matplotlib") is None:
        raise NotSupported("pictures need matplotlib: pip install matplotlib")
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    settings: Any = {"svg.hashsalt": "tocsin", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False}
    with mpl.rc_context(settings):
        figure, axes = plt.subplots(1, count, figsize=(5.2 * count + 1.2, 3.8), squeeze=False)
        yield axes[0]
        for each in axes[0]:
            each.grid(visible=True, which="major", linewidth=0.3)
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)
