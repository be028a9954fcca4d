"""Notifications as rows, for sinks other than the store: Kafka, Parquet, JSON lines, the console.

Their ids are those of the store: a hash of event and subscription, the same on every retry, so that a reader of an
at-least-once sink (Kafka) can leave out what it has. Where the event is an offer, `event` has the values that were
computed for this subscription, and `computed` names them. Where the subscription has variables, `bindings` has the values
that satisfied it, as a JSON array of objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from tocsin.broker.cursors import id_text
from tocsin.store.notifications import notification_id
from tocsin.store.offers import NOTHING_BESIDE, Beside, ValueBlock, decode_values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SCHEMA = (
    "id string, seq long, event_id string, subscription long, owner long, arrival timestamp, event string, "
    "computed array<string>, bindings string"
)
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
                bodies, computed, bindings = _told(rows, chosen)
                yield pa.RecordBatch.from_pydict(
                    {
                        "id": pa.array([id_text(id) for id in ids]),
                        "seq": rows.column("seq"),
                        "event_id": pa.array([id_text(event) for event in events]),
                        "subscription": chosen,
                        "owner": owners[part],
                        "arrival": rows.column("arrival_us").cast(pa.timestamp("us", "UTC")),
                        "event": bodies,
                        "computed": computed,
                        "bindings": bindings,
                    }
                )


def _told(rows: pa.RecordBatch, subscriptions: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the events as the subscriptions are told them, which attributes were computed, and the values of variables."""
    import pyarrow as pa

    bodies, blocks = rows.column("body"), rows.column("values")
    names: list[list[str]] = [[] for _ in range(rows.num_rows)]
    bindings: list[str | None] = [None] * rows.num_rows
    if blocks.null_count < rows.num_rows:
        bodies = bodies.to_pylist()
        read: dict[int, dict[int, Beside]] = {}  # by seq and subscription
        told = zip(rows.column("seq").to_pylist(), subscriptions.to_pylist(), blocks.to_pylist(), strict=True)
        for at, (seq, subscription, packed) in enumerate(told):
            if packed is None:
                continue
            if seq not in read:
                read[seq] = {id: beside for block in _read_values(packed) for id, beside in decode_values(block.body)}
            beside = read[seq].get(subscription, NOTHING_BESIDE)
            if beside.values:
                bodies[at] = msgspec.json.encode(msgspec.json.decode(bodies[at]) | beside.values).decode()
                names[at] = list(beside.values)
            if beside.bindings:
                bindings[at] = msgspec.json.encode(beside.bindings).decode()
        bodies = pa.array(bodies, pa.string())
    return bodies, pa.array(names, pa.list_(pa.string())), pa.array(bindings, pa.string())


_read_values = msgspec.msgpack.Decoder(list[ValueBlock]).decode


def notifications_of(matches: DataFrame) -> DataFrame:
    """Return the notifications of a streaming DataFrame of matches (log_query.match_log, with bodies)."""
    return matches.mapInArrow(NotificationRows(), SCHEMA)
