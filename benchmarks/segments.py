"""Segments: the same subscriptions in one segment and in five, by turns in one process.

    python -m benchmarks.segments [--size 1000000] [--segments 5] [--workloads market,topss,fabret,rein]

Answers are compared first: as many matches of each event. The table says events/s of whole batches, from Arrow columns to ids,
and how many times as dear the five are.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.results import store
from tocsin.compile import load_bulk
from tocsin.index.encode import EventColumns
from tocsin.matching.matcher import Matcher
from tocsin.schema import Schema
from tocsin_lab.bench.inferred import schema_of
from tocsin_lab.bench.measure import _record_batch as record_batch
from tocsin_lab.bench.write_workload import write_workload

EVENTS, BATCH, REPEATS = 2_000, 1_000, 5


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--segments", type=int, default=5)
    parser.add_argument("--workloads", default="market,topss,fabret,rein")
    options = parser.parse_args()
    print(f"{'workload':8} {'one':>12} {'several':>12} {'times':>6}")
    for name in options.workloads.split(","):
        with tempfile.TemporaryDirectory() as folder:
            write_workload(name, options.size, EVENTS, Path(folder))
            one, several = measure(Path(folder), options.size, options.segments)
        store(
            "segments",
            {
                "workload": name,
                "subscriptions": options.size,
                "segments": options.segments,
                "one": one,
                "several": several,
            },
        )
        print(
            f"{name:8} {EVENTS / min(one):12,.0f} {EVENTS / min(several):12,.0f} {min(several) / min(one):6.2f}",
            flush=True,
        )


def measure(folder: Path, size: int, segments: int) -> tuple[list[float], list[float]]:
    """Return the seconds of matching all events, with one segment and with several."""
    raws = [msgspec.json.decode(line) for line in (folder / "events.jsonl").open("rb")]
    with (folder / "subscriptions.jsonl").open("rb") as file:
        schema = schema_of(file, [msgspec.json.encode(raw) for raw in raws])
    batches = [record_batch(raws[start : start + BATCH]) for start in range(0, len(raws), BATCH)]
    runs: list[Callable[[], list[int]]] = []
    for parts in (1, segments):
        matcher = loaded(folder / "subscriptions.jsonl", schema, size, parts, EventColumns(batches[0], schema))
        if len(matcher.index.tiers()) != parts:
            raise AssertionError(f"{len(matcher.index.tiers())} segments instead of {parts}")
        runs.append(
            lambda matcher=matcher: [
                int(n) for batch in batches for found in matcher.match_arrow(batch) for n in found.counts()
            ]
        )
    if runs[0]() != runs[1]():
        raise AssertionError("one segment and several have different matches")
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for run, spent in zip(runs, seconds, strict=True):
            started = time.perf_counter()
            run()
            spent.append(time.perf_counter() - started)
    return seconds


def loaded(path: Path, schema: Schema, size: int, parts: int, sample: EventColumns) -> Matcher:
    """Return a matcher with so many segments of the same size."""
    matcher = Matcher(schema, merge_beside=False)
    matcher.index.sample = sample
    with path.open("rb") as file:
        for count in np.diff(np.linspace(0, size, parts + 1).astype(int)).tolist():
            matcher.load_table(load_bulk(islice(file, count), schema).table)
    return matcher


if __name__ == "__main__":
    main()
