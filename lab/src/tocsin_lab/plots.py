"""Pictures from stored results, as SVG: medians with their intervals; the papers' own figures are dashed."""

from __future__ import annotations

import importlib.util
from math import isfinite
from pathlib import Path
from typing import Any

from tocsin.errors import NotSupported
from tocsin_lab.experiments.experiment import Plot
from tocsin_lab.results import Results


def draw(plot: Plot, results: Results, path: Path) -> bool:
    """Write the picture of a figure; return whether there was anything to draw."""
    if importlib.util.find_spec("matplotlib") is None:
        raise NotSupported("pictures need matplotlib: pip install matplotlib")
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    # Identical results give identical files.
    settings: Any = {"svg.hashsalt": "tocsin", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False}
    series = results.series(plot.figure)
    if not series:
        return False
    with mpl.rc_context(settings):
        figure, axes = plt.subplots(figsize=(6.4, 3.8))
        for name in series:
            _line(axes, results, name, plot.figure)
        shown = {x for name in series for x in results.points(name, plot.figure)}
        for name, paper in plot.paper.items():
            points = sorted((x, y) for x, y in paper.items() if x <= max(shown))
            if points:
                axes.plot(*zip(*points, strict=True), linestyle="--", linewidth=1, color="grey", marker="x", label=name)
        if plot.log_x:
            axes.set_xscale("log")
        if plot.log_y:
            axes.set_yscale("log")
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
        axes.grid(visible=True, which="major", linewidth=0.3)
        axes.legend(fontsize=7, ncols=2 if len(series) > 6 else 1, frameon=False)
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)
    return True


def _line(axes: Any, results: Results, name: str, figure: str) -> None:
    """Draw one series: the medians, and a bar from the low to the high end of each interval that there is."""
    intervals = {x: sample.interval for x, sample in results.samples(name, figure).items()}
    below = [found.middle - found.low if isfinite(found.low) else 0.0 for found in intervals.values()]
    above = [found.high - found.middle if isfinite(found.high) else 0.0 for found in intervals.values()]
    middles = [found.middle for found in intervals.values()]
    axes.errorbar(
        list(intervals), middles, yerr=[below, above], marker="o", markersize=3, linewidth=1.2, capsize=2, label=name
    )
