"""The page docs/operators-evaluation.md, and a table of docs/operators.md: from stored records; words are by hand.

A table stands between `<!-- NAME -->` and `<!-- /NAME -->` and is replaced; the rest of the page is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from tocsin.errors import FileError
from tocsin_lab.evaluation.figures import BOUND, LEARNING, SERIES, Record, figures, run_of, stated
from tocsin_lab.evaluation.measure import Run
from tocsin_lab.evaluation.plots import draw_drift, draw_figure

NOT_MEASURED = "Not measured yet: `python -m benchmarks.operators` fills this in."
PLACES = ("stated", "figures", "truths", "costs", "drift")


def write_report(records: Iterable[Record], page: Path, overview: Path | None = None) -> None:
    """Fill the tables of the page, and draw the plots into the folder of its name; and the table of the overview."""
    newest = _newest(records)
    if overview is not None:
        text = overview.read_text(encoding="utf-8")
        text = filled(text, "schedules", _overview(newest) or NOT_MEASURED, str(overview))
        overview.write_text(text, encoding="utf-8")
    folder = page.with_suffix("")
    folder.mkdir(exist_ok=True)
    tables = dict(zip(PLACES, _tables(newest, folder), strict=True))
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = filled(text, name, table or NOT_MEASURED, str(page))
    page.write_text(text, encoding="utf-8")


def _tables(newest: Mapping[tuple[object, ...], Record], folder: Path) -> tuple[str, ...]:
    """Return the table of each place."""
    in_figures = "\n".join(_figure(newest, folder, number) for number in (4, 5, 6, 7, 8))
    return _stated(newest), in_figures, _truths(newest), _costs(newest), _drift(newest, folder)


def filled(text: str, name: str, table: str, where: str) -> str:
    """Return the text with the table between the marks of that name."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise FileError(where, f"there is no place for a table; write: <!-- {name} --> and <!-- /{name} -->")
    return pattern.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text)


def _newest(records: Iterable[Record]) -> dict[tuple[object, ...], Record]:
    """Return the newest record of each kind, place and series."""
    found: dict[tuple[object, ...], Record] = {}
    for record in records:
        match record["kind"]:
            case "figure":
                place: tuple[object, ...] = (record["figure"], record["x"])
            case "truth":
                place = (record["place"], record["truth"])
            case _:
                place = ()
        found[record["kind"], *place, record["series"]] = record
    return found


def _evaluations(newest: Mapping[tuple[object, ...], Record], *key: object) -> float | None:
    record = newest.get(key)
    return None if record is None else float(np.mean(record["evaluations"]))


def _stated(newest: Mapping[tuple[object, ...], Record]) -> str:
    """Return the paper's numbers beside ours, and beside what no schedule can do without."""
    rows = ["| setting | schedule | paper | here | " + BOUND + " here |", "|---|---|---:|---:|---:|"]
    for figure in figures():
        for series, points in figure.paper.items():
            for x, paper in points.items():
                ours = _evaluations(newest, "figure", figure.number, x, series)
                bound = _evaluations(newest, "figure", figure.number, x, BOUND)
                rows.append(
                    f"| figure {figure.number}, {x:,} {figure.x_label} | {series} | {paper:,.0f} | {_shown(ours)} | {_shown(bound)} |"
                )
    return "\n".join(rows)


def _figure(newest: Mapping[tuple[object, ...], Record], folder: Path, number: int) -> str:
    """Return a figure's plot and table: evaluations, and seconds, per event."""
    figure = next(each for each in figures() if each.number == number)
    points = {
        series: {
            x: run_of(newest["figure", number, x, series])
            for x in figure.settings
            if ("figure", number, x, series) in newest
        }
        for series in SERIES
    }
    if not any(points.values()):
        return ""
    path = folder / f"figure-{number}.svg"
    draw_figure(figure, points, path)
    timed = [series for series in SERIES if series != BOUND]
    rows = [
        f"### Figure {number}: {figure.title}\n",
        f"![Evaluations and seconds per event over {figure.x_label}]({folder.name}/{path.name})\n",
        f"| {figure.x_label} | "
        + " | ".join(SERIES)
        + " | "
        + " | ".join(f"{each}, s" for each in timed)
        + " | adaptive / bound |",
        "|---:" * (2 + len(SERIES) + len(timed)) + "|",
    ]
    for x in figure.settings:
        counts = [_shown(points[each][x].mean_evaluations) if x in points[each] else "" for each in SERIES]
        seconds = [f"{points[each][x].total_seconds:.3f}" if x in points[each] else "" for each in timed]
        rows.append(
            f"| {x if isinstance(x, str) else f'{x:,}'} | "
            + " | ".join(counts + seconds)
            + f" | {_over_bound(points, x)} |"
        )
    return "\n".join([*rows, ""])


def _over_bound(points: Mapping[str, Mapping[float | str, Run]], x: float | str) -> str:
    """Return how far the adaptive schedule is above the bound, on the events that the bound was computed for.

    These are the first of each workload, and the others differ from them.
    """
    if x not in points[BOUND] or x not in points["adaptive"]:
        return ""
    bounds, evaluations = points[BOUND][x].evaluations, points["adaptive"][x].evaluations
    same_events = evaluations[:: len(evaluations) // len(bounds)]
    return f"{np.mean(same_events) / np.mean(bounds):.2f}"


def _overview(newest: Mapping[tuple[object, ...], Record]) -> str:
    """Return, for every point of the figures, evaluations and seconds per event, and how adaptive compares."""
    compared = ("sequential", "sub-order", "adaptive", LEARNING)
    rows = [
        "| figure | events | " + " | ".join(compared) + " | " + " | ".join(f"{each}, s" for each in compared) + " |",
        "|---|" + "---:|" * (1 + 2 * len(compared)),
    ]
    for figure in figures():
        for x in figure.settings:
            found = [newest.get(("figure", figure.number, x, series)) for series in compared]
            runs = [run_of(record) for record in found if record is not None]
            if len(runs) == len(compared):
                counts = " | ".join(f"{run.mean_evaluations:,.0f}" for run in runs)
                seconds = " | ".join(f"{run.total_seconds:.3f}" for run in runs)
                point = x if isinstance(x, str) else f"{x:,} {figure.x_label}"
                events = min(len(run.evaluations) for run in runs)
                rows.append(f"| {figure.number}: {point} | {events:,} | {counts} | {seconds} |")
    return "\n".join(rows) if len(rows) > 2 else ""


def _truths(newest: Mapping[tuple[object, ...], Record]) -> str:
    """Return the stated settings for every way to draw the truth."""
    rows = [
        "| setting | truth | used predicates | " + " | ".join(SERIES) + " |",
        "|---|---|---:" + "|---:" * len(SERIES) + "|",
    ]
    for place in stated():
        for truth in ("spread", "equal", "popular"):
            found = [_evaluations(newest, "truth", place, truth, series) for series in SERIES]
            if None not in found:
                used = newest["truth", place, truth, "naive"]["used"]
                rows.append(f"| {place} | {truth} | {used:,.0f} | " + " | ".join(map(_shown, found)) + " |")
    return "\n".join(rows) if len(rows) > 2 else ""


def _costs(newest: Mapping[tuple[object, ...], Record]) -> str:
    rows = ["| schedule | evaluations | operators, s | ordering, ms | total, s |", "|---|---:|---:|---:|---:|"]
    for series in SERIES:
        if ("costs", series) in newest:
            run = run_of(newest["costs", series])
            rows.append(
                f"| {series} | {run.mean_evaluations:,.0f} | {np.mean(run.operator_seconds):.3f} "
                f"| {run.ordering_seconds * 1e3:.1f} | {run.total_seconds:.3f} |"
            )
    return "\n".join(rows) if len(rows) > 2 else ""


def _drift(newest: Mapping[tuple[object, ...], Record], folder: Path) -> str:
    """Return evaluations per event in the parts of the run."""
    runs = {str(key[1]): record["evaluations"] for key, record in newest.items() if key[0] == "drift"}
    if not runs:
        return ""
    events = len(next(iter(runs.values())))
    half, part = events // 2, max(1, events // 20)
    path = folder / "drift.svg"
    draw_drift(runs, path)
    parts = {
        f"first {part}": slice(0, part),
        f"last {part} before the turn": slice(half - part, half),
        f"first {part} after": slice(half, half + part),
        f"last {part}": slice(events - part, events),
    }
    rows = [
        f"![Evaluations per event, with a turn in the middle]({folder.name}/{path.name})\n",
        "| schedule | " + " | ".join(parts) + " | all |",
        "|---|" + "---:|" * (len(parts) + 1),
    ]
    for series, evaluations in runs.items():
        means = [np.mean(evaluations[each]) for each in (*parts.values(), slice(None))]
        rows.append(f"| {series} | " + " | ".join(f"{mean:,.0f}" for mean in means) + " |")
    return "\n".join(rows)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
