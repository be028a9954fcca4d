"""Run many cycles and say what was found; exit code 1 where something acknowledged was lost or stored twice."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.databases import new_database, start_postgres
from tests.torture.control import commit_late
from tests.torture.cycle import Torture, sqlite_places

RECOVERY_SECONDS = 5.0


def main() -> int:
    """Return the exit code."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tocsin-torture-") as folder:
        place, stop = _database(options.database, Path(folder))
        try:
            return _run(options, place)
        finally:
            stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--engine", choices=["columnar", "definition"], default="definition")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--control", action="store_true", help="commit late: losses must be found")
    return parser.parse_args()


def _database(kind: str, folder: Path) -> tuple[Callable[[], str], Callable[[], None]]:
    if kind == "sqlite":
        return sqlite_places(folder), lambda: None
    server = start_postgres(folder / "data")
    if isinstance(server, str):
        sys.exit(f"no PostgreSQL can be started here: {server}")
    return lambda: new_database(server.get_uri()), server.cleanup


def _run(options: argparse.Namespace, place: Callable[[], str]) -> int:
    torture = Torture(place, options.seed, options.engine, commit_late if options.control else None)
    started = time.perf_counter()
    for number in range(1, options.cycles + 1):
        verdict = torture.cycle()
        for problem in verdict.problems[:5]:
            print(f"cycle {number}: {problem}", file=sys.stderr)
        if options.control and verdict.problems:
            print(f"the control was found out in cycle {number}: the test can fail")
            return 0
    total = torture.total
    print(
        json.dumps(
            {
                "database": options.database,
                "engine": options.engine,
                "cycles": options.cycles,
                "seconds": round(time.perf_counter() - started, 1),
                "killed": torture.killed,
                "acknowledged": total.acknowledged,
                "in doubt, asked again": total.in_doubt,
                "events": total.events,
                "notifications": total.notifications,
                "slowest recovery in seconds": round(total.recovery_seconds, 3),
                "problems": len(total.problems),
            }
        )
    )
    if options.control:
        print("the control was not found out: the test cannot fail", file=sys.stderr)
        return 1
    return 1 if total.problems or total.recovery_seconds > RECOVERY_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
