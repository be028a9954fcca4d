"""Publishing over HTTP and start-up of this tree beside those of another commit, by turns, in one run.

    python -m benchmarks.house --before 631878d [--rounds 5] [--seconds 5] [--subscriptions 20000]

Each round starts the service of one tree and then of the other, on stores with the same content: seconds until it serves and
until a first event is acknowledged, single events published a second, and the time from publishing to the reader of a stream.
Beside that, the seconds of `import tocsin` and of `tocsin --help`. Kernels are compiled before, and the first round of each is
not counted. Ratios are of medians, this tree to the other; within the spread they are noise. Raw results go to
benchmarks/results/house.jsonl.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import uvloop

from benchmarks import results
from benchmarks.broker import Market
from benchmarks.matrix import HERE, checked_out
from benchmarks.raw_http import Connection, load, request_of
from benchmarks.service import NDJSON, TOKEN, latency, serving, until_ready

COMMANDS = {
    "import tocsin, s": ["-c", "import tocsin"],
    "tocsin --help, s": ["-c", "from tocsin.cli import main; main()", "--help"],
}
FILL = """
import sys
from pathlib import Path
from benchmarks.broker import Market
from benchmarks.service import fill
place, schema, count = sys.argv[1:]
fill(place, Path(schema), Market(4 * int(count), 10), int(count))
"""  # by each tree's own code: stores of another version are refused
Round = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", required=True, help="the other commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of publishing in each round")
    parser.add_argument("--subscriptions", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--no-store", action="store_true", help="only print")
    options = parser.parse_args()
    market = Market(4 * options.subscriptions, 5_000)
    events = [msgspec.json.encode(one) for one in market.events()]
    with tempfile.TemporaryDirectory() as folder:
        trees = {"after": HERE.parent, "before": checked_out(options.before, Path(folder))}
        try:
            for name, tree in trees.items():
                place, schema = Path(folder) / f"{name}.db", Path(folder) / f"{name}.json"
                run(tree, ["-c", FILL, str(place), str(schema), str(options.subscriptions)])
                if (
                    tree / "src/tocsin/matching/warm.py"
                ).exists():  # filling compiles the kernels of those that lack it
                    run(tree, ["-m", "tocsin.matching.warm"])
            rounds: dict[str, list[Round]] = {name: [] for name in trees}
            for number in range(options.rounds + 1):
                for name, tree in trees.items():
                    place, schema = Path(folder) / f"{name}.db", Path(folder) / f"{name}.json"
                    found = one_round(tree, str(place), schema, events, options)
                    print(f"{'warming' if number == 0 else number:>7} {name:7}", found, flush=True)
                    if number:
                        rounds[name].append(found)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(trees["before"])], check=True, cwd=HERE.parent)
    for what, ratio in ratios(rounds).items():
        print(f"{what:34} {ratio:6.2f}")
    if not options.no_store:
        results.store("house", {"before": options.before, "subscriptions": options.subscriptions, "rounds": rounds})


def one_round(tree: Path, place: str, schema: Path, events: list[bytes], options: argparse.Namespace) -> Round:
    """Return one round's figures of one tree."""
    found: Round = {}
    for what, command in COMMANDS.items():
        started = time.perf_counter()
        run(tree, command)
        found[what] = time.perf_counter() - started
    started = time.perf_counter()
    with serving(place, schema, "inline", sources_of(tree)) as (url, _):
        found["until it serves, s"] = time.perf_counter() - started
        uvloop.run(first_publish(url, events[0]))
        found["until it has published, s"] = time.perf_counter() - started
        uvloop.run(published(url, events, options, found))
    return {what: round(value, 3) for what, value in found.items()}


def sources_of(tree: Path) -> str:
    """Return the search path of a tree's packages."""
    return os.pathsep.join(str(tree / part) for part in ("src", "lab/src", "examples/src"))


def run(tree: Path, command: list[str]) -> None:
    """Run Python with a tree's packages."""
    environment = {**os.environ, "PYTHONPATH": sources_of(tree)}
    subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment, cwd=tree)


async def first_publish(url: str, event: bytes) -> None:
    """Return when an event is published, matched and acknowledged."""
    await until_ready(url)
    connection = await Connection.open(url)
    await connection.ask(request_of("POST", "/v1/events", TOKEN, event), 201)
    connection.close()


async def published(url: str, events: list[bytes], options: argparse.Namespace, found: Round) -> None:
    """Publish to a service, and note what came of it."""
    await until_ready(url)
    warm = request_of("POST", "/v1/events?receipts=false", TOKEN, b"\n".join(events[:1000]), NDJSON)
    await load(url, [warm], connections=1, seconds=0.5)
    found["publish-to-SSE p50, ms"] = (await latency(url, 60))["publish-to-SSE p50 and p99 ms"][0]
    singles = [request_of("POST", "/v1/events", TOKEN, one) for one in events]
    done = await load(url, singles, connections=options.connections, seconds=options.seconds)
    found["single publishes/s"] = done.requests / done.seconds


def ratios(rounds: Mapping[str, list[Round]]) -> dict[str, float]:
    """Return this tree's median of each figure, as a share of the other's."""
    return {
        what: statistics.median(one[what] for one in rounds["after"])
        / statistics.median(one[what] for one in rounds["before"])
        for what in rounds["after"][0]
    }


if __name__ == "__main__":
    main()
