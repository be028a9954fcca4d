"""DuckDB, predicate grouping (grouping.py): an event is a query that counts satisfied predicates."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from benchmarks.peers.files import Event, Workload
from benchmarks.peers.grouping import CREATE, QUERY, groups
from benchmarks.peers.program import Match, Prepare, main

EVENT = "(SELECT unnest(?::INTEGER[]) AS attribute, unnest(?::BIGINT[]) AS value)"


def build(workload: Workload) -> tuple[Prepare, Match]:
    """Return how to match one event, given as attributes and values."""
    made = groups(workload.subscriptions)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for statement in CREATE:
        connection.execute(statement)
    for name, columns in made.arrow().items():
        connection.register("loaded", columns)
        connection.execute(f"INSERT INTO {name} SELECT * FROM loaded")
    query = QUERY.format(event=EVENT)

    def prepare(events: Sequence[Event]) -> Sequence[tuple[list[int], list[int]]]:
        return [made.event(event) for event in events]

    def match(event: tuple[list[int], list[int]]) -> Sequence[int]:
        found: Sequence[int] = connection.execute(query, event).fetchnumpy()["id"]  # type: ignore[assignment]
        return found

    return prepare, match


if __name__ == "__main__":
    main(build)
