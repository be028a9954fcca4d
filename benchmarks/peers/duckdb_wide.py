"""DuckDB, a wide table: a column per bound, an event is a query with its values as constants."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from benchmarks.peers.bounds import HIGHEST, LOWEST, WideTable, wide_table
from benchmarks.peers.files import Event, Workload
from benchmarks.peers.program import Match, Prepare, main


def build(workload: Workload) -> tuple[Prepare, Match]:
    """Return how to match one event, given as the text of its query."""
    table = wide_table(workload.subscriptions)
    columns = {"id": table.ids}
    for name in table.low:
        columns |= {
            f"{name}_low": table.low[name],
            f"{name}_high": table.high[name],
            f"{name}_not": table.excluded[name],
        }
    used = {name for name, column in columns.items() if name == "id" or (abs(column) != HIGHEST).any()}
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    loaded = pa.table({name: column for name, column in columns.items() if name in used})
    connection.register("loaded", loaded)
    connection.execute("CREATE TABLE subscription AS SELECT * FROM loaded")

    def prepare(events: Sequence[Event]) -> Sequence[str]:
        return [_query(table, used, event) for event in events]

    def match(query: str) -> Sequence[int]:
        found: Sequence[int] = connection.execute(query).fetchnumpy()["id"]  # type: ignore[assignment]
        return found

    return prepare, match


def _query(table: WideTable, used: set[str], event: Event) -> str:
    """Return the query for the subscriptions that match an event."""
    values, conditions = table.codes.of_event(event), ["TRUE"]
    for name in table.low:
        if name in values:
            asked = {"low": f"<= {values[name]}", "high": f">= {values[name]}", "not": f"<> {values[name]}"}
        else:
            asked = {"low": f"= {LOWEST}", "high": f"= {HIGHEST}", "not": f"= {LOWEST}"}
        conditions += [f"{name}_{bound} {test}" for bound, test in asked.items() if f"{name}_{bound}" in used]
    return f"SELECT id FROM subscription WHERE {' AND '.join(conditions)}"


if __name__ == "__main__":
    main(build)
