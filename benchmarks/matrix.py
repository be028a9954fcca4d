"""The matrix: every operator and type of the language, by the number of subscriptions; it finds the next cliff.

    python -m benchmarks.matrix [--quick] [--sizes 2000,20000,200000] [--rows TEXT] [--beside COMMIT]

For each row of matrix_rows.py and each size: events per second in batches of 1,000 from Arrow columns to lists of ids, with
ids that are numbers and with texts, and the microseconds of one event from a dict; a sample of the answers, matches first,
is compared with the definition before anything is timed. The exponent tells how time grows with subscriptions: 0 not at
all, 1 linearly. `--beside` measures another commit by turns with this one, in a process of its own; `--quick` takes the two
smaller sizes and fewer repeats. Raw results go to benchmarks/results/matrix.jsonl; `python -m benchmarks.report` makes the
page.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import IO, Any

HERE = Path(__file__).resolve().parent
SIZES = (2_000, 20_000, 200_000)
EVENTS, SINGLES, CHECKED = 1_000, 200, 12
HEAD = f"{'row':52} {'size':>8} {'matches':>9} {'events/s':>12} {'text ids':>12} {'one, µs':>9} {'load s':>7}"


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--rows", default="", help="a group, or rows whose name has this text")
    parser.add_argument("--beside", metavar="COMMIT", default="")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(sys.stdin, sys.stdout)
        return
    chosen = options.sizes or ",".join(map(str, SIZES[:2] if options.quick else SIZES))
    sizes = [int(size) for size in chosen.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        workers = {"": Worker(HERE.parent / "src")}
        if options.beside:
            workers["before"] = Worker(checked_out(options.beside, Path(folder)) / "src")
        measure_all(workers, sizes, options)
        for worker in workers.values():
            worker.end()
        if options.beside:
            command = ["git", "worktree", "remove", "--force", str(Path(folder) / "before")]
            subprocess.run(command, check=True, cwd=HERE.parent)


def measure_all(workers: dict[str, Worker], sizes: Sequence[int], options: argparse.Namespace) -> None:
    """Measure the rows, each by all workers in turn; print and store them."""
    from benchmarks.matrix_rows import ROWS
    from benchmarks.results import store

    commit = _git("rev-parse", "--short", "HEAD")
    groups = {row.group for row in ROWS}
    print(HEAD)
    for at, row in enumerate(ROWS):
        if options.rows != row.group and (options.rows in groups or options.rows not in row.name):
            continue
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
        for size in sizes:
            for name, worker in workers.items():
                figures = worker.measure(at, size, options.quick)
                found[name].append(figures)
                print(shown(row.name if not name else f"  {options.beside}", figures), flush=True)
        line = {"group": row.group, "row": row.name, "found": row.found, "commit": commit, "quick": options.quick, "sizes": found[""]}  # fmt: skip
        line["exponent"] = {key: exponent(found[""], key) for key in ("seconds_per_event", "single_us")}
        if options.beside:
            line |= {"beside": options.beside, "before": found["before"]}
        store("matrix", line)


def shown(name: str, figures: dict[str, Any]) -> str:
    """Return a line of the table."""
    if "failed" in figures:
        return f"{name:52} {figures['subscriptions']:8,} {figures['failed'][:80]}"
    return (
        f"{name:52} {figures['subscriptions']:8,} {figures['matches_per_event']:9,.1f} {1 / figures['seconds_per_event']:12,.0f} "
        f"{1 / figures['text_seconds_per_event']:12,.0f} {figures['single_us']:9,.1f} {figures['load_seconds']:7.1f}"
    )


def exponent(figures: Sequence[dict[str, Any]], key: str) -> float | None:
    """Return the slope of log time over log subscriptions, by least squares; None where there are not two sizes."""
    points = [(math.log(each["subscriptions"]), math.log(each[key])) for each in figures if key in each]
    if len(points) < 2:
        return None
    x_mean, y_mean = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    return float(sum((x - x_mean) * (y - y_mean) for x, y in points) / sum((x - x_mean) ** 2 for x, _ in points))


# --- workers ----------------------------------------------------------------------------------------------------------


class Worker:
    """A process that measures with the sources of one commit; what it is asked and answers are lines of JSON."""

    def __init__(self, source: Path) -> None:
        path = os.pathsep.join([str(source), str(HERE.parent)])
        command = [sys.executable, "-m", "benchmarks.matrix", "--work"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )

    def measure(self, row: int, size: int, quick: bool) -> dict[str, Any]:
        """Return the figures of a row at a size."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([row, size, quick]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("a worker ended; see its errors above")
        figures: dict[str, Any] = json.loads(answer)
        return figures

    def end(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def checked_out(commit: str, folder: Path) -> Path:
    """Return a folder with the sources of a commit."""
    target = folder / "before"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(target), commit], check=True, cwd=HERE.parent)
    return target


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=HERE.parent)
    return done.stdout.strip()


def work(asked: IO[str], told: IO[str]) -> None:
    """Measure what is asked for, line by line. What the sources of this process cannot do is told, and is no end."""
    from benchmarks.matrix_rows import ROWS
    from tocsin.errors import TocsinError

    for line in asked:
        row, size, quick = json.loads(line)
        try:
            figures = measure(ROWS[row], size, quick)
        except (TocsinError, ValueError, KeyError, AttributeError, ImportError) as error:
            figures = {"subscriptions": size, "failed": f"{type(error).__name__}: {error}"}
        told.write(json.dumps(figures) + "\n")
        told.flush()


# --- measuring --------------------------------------------------------------------------------------------------------


class WrongAnswer(Exception):
    """The matcher disagrees with the definition: nothing is timed."""


def measure(row: Any, size: int, quick: bool = False) -> dict[str, Any]:
    """Return the figures of a row at a size."""
    import pyarrow as pa

    from benchmarks.matrix_rows import Scale, schema_document
    from tocsin.compile import load_bulk
    from tocsin.compile.ids import ids_of
    from tocsin.index.encode import EventColumns
    from tocsin.matching.matcher import Matcher
    from tocsin.schema.files import loads

    schema = loads(json.dumps(schema_document(size)), "json")
    asks, occurs = Scale(size, 1), Scale(size, 2)
    lines = [json.dumps({"id": number, "where": row.condition(asks)}) for number in range(size)]
    raws = [row.event(occurs) for _ in range(EVENTS)]
    names = dict.fromkeys(name for raw in raws for name in raw)
    batch = pa.RecordBatch.from_pydict({name: [_arrow(name, raw.get(name)) for raw in raws] for name in names})
    started = time.perf_counter()
    loaded = load_bulk(lines, schema)
    if loaded.errors:
        raise ValueError(str(loaded.errors[0]))
    matchers: list[Matcher] = []
    load_seconds = 0.0
    for table in (loaded.table, replace(loaded.table, ids=ids_of([f"subscription-{id}" for id in range(size)]))):
        matcher = Matcher(schema)
        matcher.index.sample = EventColumns(batch, schema)
        matcher.load_table(table)
        matchers.append(matcher)
        if len(matchers) == 1:
            load_seconds = time.perf_counter() - started
    numbers, named = matchers
    check(numbers, schema, lines, raws, batch)

    def run(matcher: Any) -> int:
        return sum(len(part.to_arrow()) and len(part) for part in matcher.match_arrow(batch))

    matches = run(numbers)
    return {
        "subscriptions": size,
        "matches_per_event": matches / EVENTS,
        "seconds_per_event": timed(lambda: run(numbers), quick) / EVENTS,
        "text_seconds_per_event": timed(lambda: run(named), quick) / EVENTS,
        "single_us": single(numbers, raws) * 1e6,
        "load_seconds": load_seconds,
    }


def _arrow(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name == "closes" and value is not None else value


def check(matcher: Any, schema: Any, lines: Sequence[str], raws: Sequence[Any], batch: Any) -> None:
    """Compare answers with the definition: the subscriptions that some events match, and as many others."""
    from tocsin.language import bind, evaluate
    from tocsin.language.documents import from_document

    step = max(1, len(raws) // CHECKED)
    in_batch = [ids for part in matcher.match_arrow(batch) for ids in part.lists()]
    for at in range(0, len(raws), step):
        event, found = schema.admit(raws[at]), set(in_batch[at])
        others = [(at * 7_919 + 104_729 * other) % len(lines) for other in range(CHECKED)]
        single_found = set(matcher.match(raws[at]))
        for id in {*sorted(found)[:CHECKED], *sorted(single_found)[-CHECKED:], *others}:
            right = evaluate(bind(from_document(json.loads(lines[id]))[1], schema), event)
            if right != (id in found) or right != (id in single_found):
                raise WrongAnswer(f"wrong about {lines[id]} and {raws[at]}")


def timed(run: Any, quick: bool) -> float:
    """Return the seconds of the best of several repeats, each long enough to be timed."""
    run()
    started = time.perf_counter()
    run()
    took = time.perf_counter() - started
    repeats = 3 if quick or took > 1 else 5
    runs = max(1, round((0.05 if quick else 0.1) / max(took, 1e-9)))
    best = took
    for _ in range(repeats if took < 3 else 0):
        started = time.perf_counter()
        for _ in range(runs):
            run()
        best = min(best, (time.perf_counter() - started) / runs)
    return best


def single(matcher: Any, raws: Sequence[Any]) -> float:
    """Return the median seconds of one event, after as many to warm up."""
    times: list[float] = []
    for raw in [*raws[:SINGLES], *raws[:SINGLES]]:
        started = time.perf_counter()
        matcher.match_raw(raw)
        times.append(time.perf_counter() - started)
        if sum(times) > 10:
            break
    return median(times[len(times) // 2 :])


if __name__ == "__main__":
    main()
