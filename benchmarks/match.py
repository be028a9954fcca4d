"""Matching: the columnar engine on the workloads, batches and single events, one thread.

    python -m benchmarks.match [--sizes 100000,1000000] [--workloads topss,fabret,market,cents,rein] [--beside COMMAND]
    python -m benchmarks.match --sizes 10000000 --workloads fabret --folder FOLDER

Each workload is measured in a process of its own, so that peak memory means something. `--beside` runs a command on
the same files, by turns with ours and each twice, as COMMAND SUBSCRIPTIONS EVENTS BATCH, and keeps the better run of
each: other programs are compared in one run, since machines differ and are busy. `--folder` keeps the files, and takes those that are there.

Events per second are told twice: of the whole path, from Arrow columns to ids, and of matching alone, from columns that
are coded already. Compare the second with programs that are given coded columns.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.results import store
from tocsin_lab.bench.write_workload import write_workload

EVENTS = 10_000


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--workloads", default="topss,fabret,market,cents,rein")
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--engine", default="columnar")
    parser.add_argument("--beside")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    print(
        f"{'workload':8} {'subscriptions':>13} {'events/s':>12} {'coded':>12} {'matches/event':>13} {'build s':>8} {'bytes':>6} {'p50 µs':>7} {'peak MB':>8} {'beside':>12}"
    )
    for size in map(int, options.sizes.split(",")):
        for name in options.workloads.split(","):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) if options.folder is None else options.folder / f"{name}-{size}"
                if not (folder / "events.jsonl").exists():
                    folder.mkdir(parents=True, exist_ok=True)
                    write_workload(name, size, options.events, folder)
                run(name, size, folder, options)


def run(name: str, size: int, folder: Path, options: argparse.Namespace) -> None:
    """Measure one workload and print its row; beside another program, each of the two by turns, twice."""
    files = (folder / "subscriptions.jsonl", folder / "events.jsonl")
    command = [
        sys.executable, "-c", "from tocsin.cli import main; main()", "bench", "match", "--json",
        "--subscriptions", str(files[0]), "--events", str(files[1]), "--batch", str(options.batch), "--engine", options.engine,
    ]  # fmt: skip
    others, ours = [], []
    for _ in range(2 if options.beside else 1):
        if options.beside:
            others.append(beside(options.beside, files, options.batch)["events_per_s"])
        ours.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    figures = max(ours, key=lambda each: float(each["events_per_second_best"]))
    store("match", {"workload": name, "batch": options.batch, **figures, "beside": others})
    size_of = figures["bytes_per_subscription"]
    print(
        f"{name:8} {size:13,} {figures['events_per_second_best']:12,.0f} {figures['events_per_second_coded'] or 0:12,.0f} {figures['matches'] / figures['events']:13,.1f} "
        f"{figures['build_seconds']:8.2f} {size_of or 0:6.1f} {figures['single_p50_us']:7.0f} {figures['peak_megabytes']:8,.0f} {max(others, default=0):12,.0f}",
        flush=True,
    )


def beside(command: str, files: tuple[Path, Path], batch: int) -> dict[str, Any]:
    """Return what another program prints about the same files: one JSON object with `events_per_s`."""
    done = subprocess.run(
        [*shlex.split(command), *map(str, files), str(batch)], check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
