"""Notifications as rows, for sinks other than the store: Kafka, Parquet, JSON lines, the console.

Their ids are those of the store: a hash of event and subscription, the same on every retry, so that a reader of an
at-least-once sink (Kafka) can leave out what it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tocsin.broker.times import id_text
from tocsin.store.notifications import notification_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SCHEMA = "id string, seq long, event_id string, subscription long, owner long, arrival timestamp, event string"
ROWS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class NotificationRows:
    """Maps stored_matching.py's rows, an event each, to notifications, a match each."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import compute

        for batch in batches:
            parents = compute.list_parent_indices(batch.column("subscriptions"))
            subscriptions = compute.list_flatten(batch.column("subscriptions"))
            owners = compute.list_flatten(batch.column("owners"))
            for start in range(0, len(parents), ROWS_AT_ONCE):
                part = slice(start, start + ROWS_AT_ONCE)
                rows = batch.take(parents[part])
                events, chosen = rows.column("event_id").to_pylist(), subscriptions[part]
                ids = [notification_id(event, id) for event, id in zip(events, chosen.to_pylist(), strict=True)]
                yield pa.RecordBatch.from_pydict(
                    {
                        "id": pa.array([id_text(id) for id in ids]),
                        "seq": rows.column("seq"),
                        "event_id": pa.array([id_text(event) for event in events]),
                        "subscription": chosen,
                        "owner": owners[part],
                        "arrival": rows.column("arrival_us").cast(pa.timestamp("us", "UTC")),
                        "event": rows.column("body"),
                    }
                )


def notifications_of(matches: DataFrame) -> DataFrame:
    """Return the notifications of a streaming DataFrame of matches (log_query.match_log, with bodies)."""
    return matches.mapInArrow(NotificationRows(), SCHEMA)
