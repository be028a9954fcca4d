"""The query that brings events from outside into the store's log; log_query.py then matches them like all others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tocsin.broker.admission import OfferAdmission
from tocsin.offers.program_files import ProgramsFile
from tocsin.operators.registry import open_registry
from tocsin.pipeline.crash import reach
from tocsin.pipeline.ingest import Incoming, ingest, occurrence_keys
from tocsin.pipeline.meter import BatchReport, Meter
from tocsin.pipeline.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "ingest"


def start_ingest_query(
    incoming: DataFrame,
    store: str,
    checkpoint: str,
    *,
    name: str,
    meter: Meter,
    wait_for_schema_seconds: float = 0.0,
    until_idle: bool = False,
    operators: str | None = None,
    programs: str | None = None,
) -> StreamingQuery:
    """Start storing what a source of sources.py brings; offers among it may call operators, and programs of a file."""
    offers = OfferAdmission(ProgramsFile(programs), open_registry(operators))

    def store_events(rows: DataFrame, batch: int) -> None:
        reach("pipeline.after-offsets")
        started = time.perf_counter()
        events = incoming_of(rows.toArrow())
        reach("pipeline.before-sink")
        done = ingest(open_store(store), name, events, wait_for_schema_seconds=wait_for_schema_seconds, offers=offers)
        reach("pipeline.after-sink")
        meter.record(BatchReport(NAME, batch, 0, 0, done.dead_letters, time.perf_counter() - started))

    writer = incoming.writeStream.queryName(NAME).foreachBatch(store_events).option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if until_idle else writer).start()


def incoming_of(rows: pa.Table) -> list[Incoming]:
    """Return rows of sources.py as events with their keys, in the order of these."""
    places, bodies, ids, versions = (
        rows.column(name).to_pylist() for name in ("place", "body", "event_id", "schema_version")
    )
    derived = occurrence_keys(places, bodies)
    keys = [key if id is None else f"id:{id}"[:200] for id, key in zip(ids, derived, strict=True)]
    return [Incoming(*row) for row in zip(keys, bodies, versions, strict=True)]
