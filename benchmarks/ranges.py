"""Ranges: the columnar engine beside TAMA (peers/tama.py) on the interval workloads, by turns in one process.

    python -m benchmarks.ranges [--sizes 100000,1000000] [--workloads rein,rein-attributes,rein-values]

All ids of the first events are compared first, in batches and one by one. Times are CPU time of the process, the best of
several turns: TAMA takes one event at a time, Tocsin batches of 1,000 and single events, each a dict.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import tama
from benchmarks.peers.files import read
from benchmarks.results import store
from tocsin.compile import load_bulk
from tocsin.index.encode import EventColumns
from tocsin.matching.matcher import Matcher
from tocsin_lab.bench.inferred import schema_of
from tocsin_lab.bench.measure import _record_batch as record_batch
from tocsin_lab.bench.write_workload import write_workload

EVENTS, BATCH, COMPARED, TURNS, SINGLES = 2_000, 1_000, 50, 5, 100


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--workloads", default="rein,rein-attributes,rein-values")
    options = parser.parse_args()
    print(
        f"{'workload':16} {'size':>10} {'events/s':>10} {'one, µs':>8} {'TAMA, µs':>9} {'batch x':>8} {'one x':>6} {'bytes':>6}"
    )
    for size in map(int, options.sizes.split(",")):
        for name in options.workloads.split(","):
            with tempfile.TemporaryDirectory() as folder:
                write_workload(name, size, EVENTS, Path(folder))
                found = measure(Path(folder))
            store("ranges", {"workload": name, "subscriptions": size, **found})
            rate, one, other = found["events_per_s"], found["one_us"], found["tama_us"]
            print(
                f"{name:16} {size:10,} {rate:10,.0f} {one:8,.0f} {other:9,.0f} {rate * other / 1e6:8.1f} {other / one:6.1f} "
                f"{found['bytes']:6.1f}", flush=True,
            )  # fmt: skip


def measure(folder: Path) -> dict[str, Any]:
    """Return what one workload gives; raises AssertionError where the answers differ."""
    files = folder / "subscriptions.jsonl", folder / "events.jsonl"
    workload = read(*files)
    prepare, walk = tama.build(workload)
    prepared, events = prepare(workload.events), workload.events
    with files[0].open("rb") as lines, files[1].open("rb") as occurred:
        schema = schema_of(lines, occurred)
    batches = [record_batch(events[start : start + BATCH]) for start in range(0, len(events), BATCH)]
    matcher = Matcher(schema)
    matcher.index.sample = EventColumns(batches[0], schema)
    with files[0].open("rb") as lines:
        matcher.load_table(load_bulk(lines, schema).table)
    compare(
        matcher, events, [sorted(map(int, walk(event))) for event in prepared[:COMPARED]], batches[0].slice(0, COMPARED)
    )
    turns: dict[str, list[float]] = {"batch": [], "one": [], "tama": []}
    for _ in range(TURNS):
        turns["batch"].append(spent(lambda: [len(part) for batch in batches for part in matcher.match_arrow(batch)]))
        turns["one"].append(median(matcher.match_raw, events[:SINGLES]))
        turns["tama"].append(median(walk, prepared[:SINGLES]))
    size = sum(tier.segment.stats().bytes_per_subscription * len(tier.segment) for tier in matcher.index.tiers())
    return {
        "events_per_s": EVENTS / min(turns["batch"]), "one_us": 1e6 * min(turns["one"]),
        "tama_us": 1e6 * min(turns["tama"]), "bytes": size / len(matcher), "turns": turns,
    }  # fmt: skip


def compare(matcher: Matcher, events: Sequence[Any], right: list[list[int]], batch: Any) -> None:
    """Hold the matcher to TAMA's answers about the first events."""
    found = [sorted(ids) for part in matcher.match_arrow(batch) for ids in part.lists()]
    singly = [sorted(matcher.match_raw(event).tolist()) for event in events[:COMPARED]]
    if found != right or singly != right:
        raise AssertionError("the columnar engine and TAMA have different answers")


def spent(run: Callable[[], object]) -> float:
    """Return the CPU seconds of one run."""
    started = time.process_time()
    run()
    return time.process_time() - started


def median(match: Callable[[Any], object], events: Sequence[Any]) -> float:
    """Return the CPU seconds of one event, at the median."""
    return statistics.median(spent(lambda event=event: match(event)) for event in events)


if __name__ == "__main__":
    main()
