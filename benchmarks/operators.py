"""Schedules of expensive operators: the evaluation of Liu et al. again, with costs and drift besides.

    python -m benchmarks.operators [--quick] [--only 4,5,6,7,8,stated,truths,costs,drift] [--events 100] [--report]

Each measurement is checked against the definition and stored in results/operators.jsonl; then
docs/operators-evaluation.md with its plots, and the table of docs/operators.md, are made from all that is stored.
`stated` are the points for which the paper states numbers, for more events than the rest can have. --quick runs the same on few events and
stores nothing; --report only makes the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import store, stored
from tocsin_lab.evaluation.drift import measure_costs, measure_drift
from tocsin_lab.evaluation.figures import Record, figures, measure_figure, measure_stated, measure_truths, run_of
from tocsin_lab.evaluation.report import write_report

PAGE = Path(__file__).parent.parent / "docs" / "operators-evaluation.md"
NAME = "operators"
QUICK_EVENTS = 3


def main() -> None:
    """Measure, print, store and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="4,5,6,7,8,truths,costs,drift")
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if not options.report:
        events = QUICK_EVENTS if options.quick else options.events
        print(f"{'what':34} {'series':22} {'evaluations':>11} {'ordering ms':>11} {'total s':>8}")
        for part in options.only.split(","):
            for record in measured(part, events, quick=options.quick):
                show(record)
                if not options.quick:
                    store(NAME, record)
    if not options.quick:
        write_report(stored(NAME), PAGE, PAGE.with_name("operators.md"))


def measured(part: str, events: int, *, quick: bool) -> Iterator[Record]:
    """Yield the records of one part."""
    match part:
        case "stated":
            yield from measure_stated(events)
        case "truths":
            yield from measure_truths(max(1, events // 5))
        case "costs":
            yield from measure_costs(events)
        case "drift":
            yield from measure_drift(40 if quick else 20 * events)
        case number:
            yield from measure_figure(next(each for each in figures() if str(each.number) == number), events)


def show(record: Record) -> None:
    """Print one line."""
    run = run_of(record)
    what = " ".join(str(record[key]) for key in ("kind", "figure", "place", "x", "truth") if key in record)
    print(
        f"{what:34} {record['series']:22} {run.mean_evaluations:11,.0f} {run.ordering_seconds * 1e3:11.1f} {run.total_seconds:8.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
