"""Cold start: how long a new worker takes until its first matches, kernels compiled and cached before.

    python -m benchmarks.cold_start [--subscriptions 100000] [--repeats 5]

Each repeat is a process of its own: it imports the engine, opens the index on disk, matches one event, then a batch of a
thousand Arrow rows, read as a worker is sent them. Imports are told apart; what Numba imports at the first kernel is not.
The first process warms the kernels' cache and is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.results import store
from tocsin.schema import EventType, NumericDomain, Schema, TypeAttribute

STAGES = ("imports", "open", "first_event", "first_batch")


def schema() -> Schema:
    """Return the schema of the events."""
    entries = tuple(TypeAttribute(name, mandatory=False) for name in "abc")
    return Schema({"n": NumericDomain(name="n")}, dict.fromkeys("abc", "n"), {"e": EventType("e", entries)})


def write_index(folder: Path, count: int) -> None:
    """Write an index of so many subscriptions, and a batch of events."""
    import pyarrow as pa

    from tocsin.index.index_folder import IndexFolder
    from tocsin.matching.matcher import Matcher

    lines = (
        json.dumps({"id": id, "predicates": [["a", "=", id % 50], ["b", "<", id % 997], ["c", "!=", id % 7]]})
        for id in range(count)
    )
    matcher = Matcher(schema())
    if errors := matcher.load(lines):
        raise SystemExit(f"not all was loaded: {errors[:3]}")
    IndexFolder(folder / "index").save(matcher.index, 0)
    batch = pa.RecordBatch.from_pydict({"a": [3] * 1_000, "b": list(range(1_000)), "c": [1] * 1_000})
    with pa.OSFile(str(folder / "events.arrow"), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def work(folder: Path) -> None:
    """Be the worker: print the seconds of each stage."""
    started = time.perf_counter()
    import pyarrow as pa

    from tocsin.index.index_folder import IndexFolder
    from tocsin.matching.matcher import Matcher

    times = [started, time.perf_counter()]
    matcher = Matcher(schema(), IndexFolder(folder / "index").load(schema())[0])
    times.append(time.perf_counter())
    matcher.match(matcher.schema.admit({"a": 3, "b": 4, "c": 5}))
    times.append(time.perf_counter())
    with pa.OSFile(str(folder / "events.arrow")) as file:
        batch = pa.ipc.open_file(file).get_batch(0)
    if not sum(len(part) for part in matcher.match_arrow(batch)):
        raise SystemExit("nothing matched")
    times.append(time.perf_counter())
    print(json.dumps([after - before for before, after in pairwise(times)]))


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_index(Path(folder), options.subscriptions)
        command = [sys.executable, "-m", "benchmarks.cold_start", "--work", folder]
        runs = [
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            for _ in range(1 + options.repeats)
        ]
    stages = {name: [run[at] for run in runs[1:]] for at, name in enumerate(STAGES)}
    beyond = [sum(run[1:]) for run in runs[1:]]
    store("cold_start", {"subscriptions": options.subscriptions, **stages, "beyond_imports": beyond})
    told = ", ".join(f"{name.replace('_', ' ')} {statistics.median(found):.2f} s" for name, found in stages.items())
    print(f"{told}; beyond imports: best {min(beyond):.2f} s, median {statistics.median(beyond):.2f} s")


if __name__ == "__main__":
    main()
