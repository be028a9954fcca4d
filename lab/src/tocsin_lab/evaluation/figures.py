"""Figures 4 to 8 of Liu et al.: their settings, the numbers that their text states, and our measurements of each.

A record is a plain dictionary of raw figures, one for each setting and series, as the benchmarks store them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tocsin_lab.evaluation.lower_bound import lower_bound
from tocsin_lab.evaluation.measure import Run, run_on, warm_up
from tocsin_lab.evaluation.workloads import PaperWorkload, Setting, Truth
from tocsin_lab.schedules import SCHEDULES, Adaptive

Record = dict[str, Any]

COST_SECONDS = 0.001
LEARNING = "adaptive, learning"
BOUND = "lower bound"
SERIES = (*SCHEDULES, LEARNING, BOUND)
SEEDS = 4  # workloads of each setting: with Zipf, much depends on how likely the most popular predicates are


@dataclass(frozen=True)
class Figure:
    """One figure: a setting for each x, and what the paper states, by series and x."""

    number: int
    title: str
    x_label: str
    settings: Mapping[float | str, Setting]
    paper: Mapping[str, Mapping[float | str, float]] = field(default_factory=dict)


def figures() -> list[Figure]:
    """Return the paper's figures."""
    sizes = (2_000, 10_000, 20_000, 40_000, 60_000, 80_000)
    exponents = {"uniform": None, "Zipf 0.8": 0.8, "Zipf 1": 1.0, "Zipf 1.2": 1.2}
    return [
        Figure(
            4, "subscriptions, uniform popularity, 40,000 predicates", "subscriptions",
            {size: Setting(size, 40_000) for size in sizes},
            {"sequential": {80_000: 7_761}, "sub-order": {80_000: 7_037}},
        ),
        Figure(
            5, "subscriptions, Zipf popularity, 40,000 predicates", "subscriptions",
            {size: Setting(size, 40_000, zipf=1.0) for size in sizes},
        ),
        Figure(
            6, "predicates, Zipf popularity, 20,000 subscriptions", "predicates",
            {size: Setting(20_000, size, zipf=1.0) for size in (2_000, 5_000, 10_000, 20_000, 30_000)},
            {"naive": {30_000: 16_251}, "sequential": {30_000: 3_267}, "sub-order": {30_000: 1_977}},
        ),
        Figure(
            7, "longest subscription, Zipf popularity, 20,000 subscriptions, 5,000 predicates", "longest subscription",
            {longest: Setting(20_000, 5_000, zipf=1.0, longest=longest) for longest in (5, 7, 9, 11)},
            {"sequential": {5: 1_593, 11: 1_784}},
        ),
        Figure(
            8, "popularity, 20,000 subscriptions, 5,000 predicates", "popularity",
            {name: Setting(20_000, 5_000, zipf=exponent) for name, exponent in exponents.items()},
        ),
    ]  # fmt: skip


def stated() -> dict[str, Setting]:
    """Return the settings for which the paper's text states numbers."""
    return {
        f"figure {figure.number}, {x:,} {figure.x_label}": figure.settings[x]
        for figure in figures()
        for x in sorted({x for points in figure.paper.values() for x in points}, key=float)
        if not isinstance(x, str)
    }


def measure_figure(figure: Figure, events: int) -> Iterator[Record]:
    """Yield what each series did at each x."""
    for x, setting in figure.settings.items():
        for record in measure_setting(setting, events):
            yield {"kind": "figure", "figure": figure.number, "x": x, **record}


def measure_stated(events: int) -> Iterator[Record]:
    """Yield the points of the figures for which the paper's text states numbers."""
    for figure in figures():
        points = {x: figure.settings[x] for stated in figure.paper.values() for x in stated}
        if points:
            yield from measure_figure(replace(figure, settings=points), events)


def measure_truths(events: int) -> Iterator[Record]:
    """Yield the stated settings again, for every way to draw the truth."""
    truths: tuple[Truth, ...] = ("spread", "equal", "popular")
    for name, setting in stated().items():
        for truth in truths:
            for record in measure_setting(setting.with_truth(truth), events):
                yield {"kind": "truth", "place": name, "truth": truth, **record}


def measure_setting(setting: Setting, events: int, cost_seconds: float = COST_SECONDS) -> Iterator[Record]:
    """Yield a record for each series, over several workloads of the setting."""
    workloads = [PaperWorkload.of(replace(setting, seed=seed)) for seed in range(SEEDS)]
    truths = [made.events(max(1, events // SEEDS)) for made in workloads]
    used = float(np.mean([(made.workload.popularity > 0).sum() for made in workloads]))
    about = {"setting": asdict(setting), "seeds": SEEDS, "cost_seconds": cost_seconds, "used": used}
    both = list(zip(workloads, truths, strict=True))
    for name, make in SCHEDULES.items():
        warm_up(make())
        runs = [run_on(make(), w.workload, each, w.statistics(cost_seconds, known=True)) for w, each in both]
        yield {**about, "series": name, **raw(joined(runs))}
    runs = [
        run_on(Adaptive(), w.workload, each, w.statistics(cost_seconds, known=False), learn=True) for w, each in both
    ]
    yield {**about, "series": LEARNING, **raw(joined(runs))}
    bounds = [round(lower_bound(w.workload, each[0]), 1) for w, each in both]
    yield {**about, "series": BOUND, **raw(Run(bounds, 0.0, [0.0], [cost_seconds * bound for bound in bounds]))}


def joined(runs: Sequence[Run]) -> Run:
    """Return the events of several runs as one run, which was prepared for as long as one of them on average."""
    return Run(
        [each for run in runs for each in run.evaluations],
        float(np.mean([run.prepare_seconds for run in runs])),
        [each for run in runs for each in run.event_seconds],
        [each for run in runs for each in run.operator_seconds],
    )


def raw(run: Run) -> Record:
    """Return a run's figures for storing."""
    return {
        "evaluations": run.evaluations,
        "prepare_seconds": round(run.prepare_seconds, 6),
        "event_seconds": [round(each, 6) for each in run.event_seconds],
        "operator_seconds": [round(each, 6) for each in run.operator_seconds],
    }


def run_of(record: Record) -> Run:
    """Return the run of a stored record."""
    return Run(record["evaluations"], record["prepare_seconds"], record["event_seconds"], record["operator_seconds"])
