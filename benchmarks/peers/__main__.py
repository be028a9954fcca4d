"""Compare with a peer, or with all: `python -m benchmarks.peers PEER SUBSCRIPTIONS EVENTS`.

Each builds what it needs, has a sample of its answers checked against the definition of matching, is timed, and is
stored with the raw results. A peer that cannot run here, or cannot express the files, is skipped with the reason.
`all` runs every peer, and the columnar engine beside them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.peers.build import BuildFailed
from benchmarks.peers.catalogue import PEERS
from benchmarks.peers.definition import WrongAnswer
from benchmarks.peers.files import Skipped
from benchmarks.peers.run import Figures, PeerFailed, Task, prepare, run_peer
from benchmarks.results import store

HEADER = (
    f"{'peer':18} {'version':>9} {'build s':>8} {'events/s':>12} {'matches':>12} {'events':>7} {'MB':>7} {'one, µs':>9}"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the peers that are asked for; return 1 if one failed or answered wrongly."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory() as folder:
        events = _first(options.events_file, options.events, Path(folder))
        try:
            task = prepare(options.subscriptions, events, options.seconds, options.limit)
        except Skipped as reason:
            print(f"skipped: {reason}")
            return 0
        if not options.json:
            print(HEADER, flush=True)
        names = list(PEERS) if options.peer == "all" else options.peer.split(",")
        workload = options.workload or options.subscriptions.resolve().parent.name
        return max([_run(name, task, workload, options.json) for name in names])


def _run(name: str, task: Task, workload: str, as_json: bool) -> int:
    """Run one peer, print its row and store it; return 1 if it failed."""
    with task.subscriptions.open("rb") as file:
        measured = {"workload": workload, "subscriptions": sum(1 for line in file if line.strip())}
    try:
        figures = run_peer(PEERS[name], task)
    except Skipped as reason:
        store("peers", {**measured, "peer": name, "skipped": str(reason)})
        _tell(name, "skipped", str(reason), as_json)
        return 0
    except (BuildFailed, PeerFailed, WrongAnswer) as error:
        outcome = "wrong" if isinstance(error, WrongAnswer) else "failed"
        store("peers", {**measured, "peer": name, outcome: str(error)})
        _tell(name, outcome, str(error), as_json)
        return 1
    store("peers", {**measured, **figures.as_json()})
    print(json.dumps(figures.as_json()) if as_json else row(figures), flush=True)
    return 0


def row(figures: Figures) -> str:
    """Return a line of the table."""
    return (
        f"{figures.peer:18} {figures.version:>9} {figures.build_s:8.2f} {figures.events_per_s:12,.1f} "
        f"{figures.matches:12,} {figures.events:7,} {figures.megabytes:7,.0f} "
        f"{'' if figures.single_us is None else format(figures.single_us, ',.1f'):>9}"
    )


def _tell(name: str, what: str, why: str, as_json: bool) -> None:
    print(json.dumps({"peer": name, what: why}) if as_json else f"{name:18} {what}: {why}", flush=True)


def _first(path: Path, count: int | None, folder: Path) -> Path:
    """Return a file of the first events only, or the file itself."""
    if count is None:
        return path
    shorter = folder / "events.jsonl"
    with path.open("rb") as file:
        shorter.write_bytes(b"".join(islice((line for line in file if line.strip()), count)))
    return shorter


def _named(names: str) -> str:
    unknown = [name for name in names.split(",") if name not in PEERS and names != "all"]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no peer {unknown[0]!r}; there are: all, {', '.join(PEERS)}")
    return names


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", type=_named, help=f"one or several, with commas between: all, {', '.join(PEERS)}")
    parser.add_argument("subscriptions", type=Path, help="in the bulk form, JSONL")
    parser.add_argument("events_file", type=Path, metavar="events", help="flat objects, JSONL")
    parser.add_argument("--events", type=int, help="match the first N only")
    parser.add_argument("--seconds", type=float, default=10, help="of a repeat at most; slow peers match fewer events")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a peer is ended")
    parser.add_argument("--workload", help="the name in the stored results; else that of the subscriptions' folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object per peer")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
