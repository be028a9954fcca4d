"""What runs in the workers between the store's log and its notifications: bodies in, matches out.

MatchStored gives one row an event: its seq, the subscriptions that it reaches with their owners, or why it is a dead
letter; for sinks other than the store. BlocksStored gives one row a stretch of events, with their matches as the store
keeps them: the JVM carries them to the driver as bytes, instead of number by number. What subscriptions are told beside
events (values of variables, and of what offers compute) goes along in the store's form.

NotificationRows make rows of matches for those other sinks: Kafka, Parquet, JSON lines, the console. Their ids are those
of the store: a hash of event and subscription, the same on every retry, so that a reader of an at-least-once sink (Kafka)
can leave out what it has. Where the event is an offer, `event` has the values that were computed for this subscription,
and `computed` names them. Where the subscription has variables, `bindings` has the values that satisfied it, as a JSON
array of objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tocsin.broker.admission import admit_stored, admit_stored_document
from tocsin.broker.publishing import Outcome
from tocsin.errors import TocsinError
from tocsin.index.encode import EventColumns, EventRows
from tocsin.pipeline.admission import Admission, admit_batch, pa_indices
from tocsin.pipeline.followers import Follower, follower_of
from tocsin.pipeline.plan import Layout
from tocsin.schema import Event
from tocsin.store.events import NOTHING_BESIDE, Beside, ValueBlock, decode_values, id_text, unmatched
from tocsin.store.notifications import StoredMatches, encode_blocks, notification_id
from tocsin.store.store import reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


OUTPUT = (
    "after_seq long, seq long, event_id binary, arrival_us long, subscriptions array<long>, owners array<long>, "
    "reason string, body string, values binary"
)


BLOCKS = (
    "after_seq long, events long, seqs binary, arrivals_us binary, blocks binary, letters binary, values binary, "
    "cache_hits long, cache_misses long"
)
EVENTS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class MatchStored:
    """Maps batches of the log to their matches, as of each event's seq."""

    __name__ = "tocsin_match_log"
    store: str
    engine: str = "columnar"
    index: str | None = None  # the folder of the store's index, where it is not beside it
    with_body: bool = False  # a dead letter always carries its body
    operators: str | None = None  # those that subscriptions may call: see operators/registry.py
    programs: str | None = None  # those that offers may call: a file, see offers/program_files.py

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        follower = follower_of(self.store, self.engine, self.index, self.operators, self.programs)
        for batch in batches:
            for part in _parts(batch):
                yield self._rows(part, match_part(follower, part))

    def _rows(self, batch: pa.RecordBatch, part: MatchedPart) -> pa.RecordBatch:
        import pyarrow as pa

        matches, reasons = part.matches, part.reasons
        values = {one.seq: msgspec.msgpack.encode(one.values) for one in part.outcomes if one.values}
        seqs = np.array(batch.column("seq").to_pylist(), np.int64)
        order = np.argsort(matches.seq, kind="stable")
        offsets = np.append(np.searchsorted(matches.seq[order], seqs), len(order)).astype(np.int32)
        bodies = batch.column("body")
        if not self.with_body:
            bodies = pa.array(
                [body if at in reasons else None for at, body in enumerate(bodies.to_pylist())], pa.string()
            )
        return pa.RecordBatch.from_arrays(
            [
                batch.column("after_seq"),
                batch.column("seq"),
                batch.column("event_id"),
                batch.column("arrival_us"),
                pa.ListArray.from_arrays(pa.array(offsets), pa.array(matches.subscription[order])),
                pa.ListArray.from_arrays(pa.array(offsets), pa.array(matches.owner[order])),
                pa.array([reasons.get(at) for at in range(batch.num_rows)], pa.string()),
                bodies,
                pa.array([values.get(seq) for seq in seqs.tolist()], pa.binary()),
            ],
            names=["after_seq", "seq", "event_id", "arrival_us", "subscriptions", "owners", "reason", "body", "values"],
        )


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Maps batches of the log to the blocks of their notifications, as of each event's seq."""

    store: str
    engine: str = "columnar"
    index: str | None = None
    operators: str | None = None
    programs: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        follower = follower_of(self.store, self.engine, self.index, self.operators, self.programs)
        for batch in batches:
            for part in _parts(batch):
                hits, misses = follower.cache_counts()
                found = match_part(follower, part)
                hits_now, misses_now = follower.cache_counts()
                seqs, bodies = part.column("seq").to_pylist(), part.column("body")
                letters = [
                    (seqs[at], unmatched(seqs[at], reason, bodies[at].as_py().encode()))
                    for at, reason in found.reasons.items()
                ]
                letters += [(one.seq, letter) for one in found.outcomes for letter in one.dead_letters()]
                values = [block for one in found.outcomes for block in one.values]
                row = {
                    "after_seq": part.column("after_seq")[:1],
                    "events": pa.array([part.num_rows]),
                    "seqs": pa.array([_bytes_of(part, "seq")], pa.binary()),
                    "arrivals_us": pa.array([_bytes_of(part, "arrival_us")], pa.binary()),
                    "blocks": pa.array([msgspec.msgpack.encode(encode_blocks(found.matches))], pa.binary()),
                    "letters": pa.array([msgspec.msgpack.encode(letters)], pa.binary()),
                    "values": pa.array([msgspec.msgpack.encode(values)], pa.binary()),
                    "cache_hits": pa.array([hits_now - hits]),
                    "cache_misses": pa.array([misses_now - misses]),
                }
                yield pa.RecordBatch.from_pydict(row)


def _bytes_of(part: pa.RecordBatch, name: str) -> bytes:
    column: bytes = part.column(name).to_numpy(zero_copy_only=False).astype("<i8").tobytes()
    return column


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts whose matches fit into memory, however many an event has."""
    for start in range(0, batch.num_rows, EVENTS_AT_ONCE):
        yield batch.slice(start, EVENTS_AT_ONCE)


@dataclass(slots=True)
class MatchedPart:
    """What matching a part of the log gave: matches, what is told beside events, and why which are dead letters."""

    matches: StoredMatches
    outcomes: list[Outcome] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)  # by position


def match_part(follower: Follower, batch: pa.RecordBatch) -> MatchedPart:
    """Return what events of the log match: bodies become columns, where they are plain, and else events one by one."""
    seqs: list[int] = batch.column("seq").to_pylist()
    arrivals: list[int] = batch.column("arrival_us").to_pylist()
    follower.reach(max(seqs))
    reach("pipeline.mid-match")
    if max(batch.column("schema_version").to_pylist()) > follower.schema.version:
        follower.refresh()
    offers = follower.offers_between(min(seqs), max(seqs))
    asked = np.isin(seqs, list(offers)) | (batch.column("schema_version").to_numpy() > follower.schema.version)
    admission = Admission(np.zeros(0, np.int64), batch.slice(0, 0))
    reasons: dict[int, str] = {}
    plain = np.flatnonzero(~asked)
    if len(plain):
        bodies = batch.select(["body"]).take(pa_indices(plain))
        read = admit_batch(bodies, follower.schema, Layout(whole="body"), read=lambda raw: _admit(follower, raw))
        admission = read.of_rows(plain)
        reasons |= {at: str(error) for at, error in admission.rejected.items()}
    texts = batch.column("body").to_pylist() if asked.any() else []
    for at in np.flatnonzero(asked).tolist():
        try:
            version = batch.column("schema_version")[at].as_py()
            admission.events[at] = _read(follower, texts[at], version, offers.get(seqs[at]))
        except TocsinError as error:
            reasons[at] = str(error)
    parts = [
        _match_each(follower, seqs, arrivals, list(found), found, reasons) for found in (admission.events,) if found
    ]
    if len(admission.rows):
        rows = EventRows(EventColumns(admission.columns, follower.schema))
        chosen = admission.rows.tolist()
        parts.append(_match_each(follower, seqs, arrivals, chosen, rows, reasons))
    matches = StoredMatches.joined([part.matches for part in parts])
    return MatchedPart(matches, [one for part in parts for one in part.outcomes], reasons)


def _admit(follower: Follower, raw: Mapping[str, Any]) -> Event:
    """Return a stored event; one that was an offer may lack mandatory attributes, which were computed."""
    return admit_stored_document(follower.schema, raw)


def _read(follower: Follower, body: str, version: int, offer: bytes | None) -> Event:
    """Return a stored event. It was admitted by a version of the schema that the store has, and all later ones agree.

    An offer may be refused all the same, where a program that it calls is gone.
    """
    if version > follower.schema.version:
        raise TocsinError(f"version {version} of the schema is unknown; the store has {follower.schema.version}")
    return admit_stored(follower.schema, body.encode()) if offer is None else follower.admit_offer(offer)


def _match_each(
    follower: Follower,
    seqs: Sequence[int],
    arrivals: Sequence[int],
    chosen: list[int],
    events: Mapping[int, Event] | EventRows,
    reasons: dict[int, str],
) -> MatchedPart:
    """Return the matches of the chosen events; one that the engine fails on gets a reason, and the others go on."""
    listed = events if isinstance(events, EventRows) else [events[at] for at in chosen]
    try:
        return MatchedPart(*_match_some(follower, seqs, arrivals, chosen, listed), reasons)
    except (TocsinError, ArithmeticError, ValueError, TypeError, LookupError):
        parts: list[StoredMatches] = []
        outcomes: list[Outcome] = []
        for at, event in zip(chosen, listed, strict=True):  # one by one, to find the one that it cannot do
            try:
                matches, met = _match_some(follower, seqs, arrivals, [at], [event])
            except (TocsinError, ArithmeticError, ValueError, TypeError, LookupError) as error:
                reasons[at] = f"matching failed: {type(error).__name__}: {error}"
            else:
                parts.append(matches)
                outcomes += met
        return MatchedPart(StoredMatches.joined(parts), outcomes, reasons)


def _match_some(
    follower: Follower, seqs: Sequence[int], arrivals: Sequence[int], chosen: list[int], events: Sequence[Event]
) -> tuple[StoredMatches, list[Outcome]]:
    return follower.outcomes([seqs[at] for at in chosen], [arrivals[at] for at in chosen], events)


NOTIFICATIONS = (
    "id string, seq long, event_id string, subscription long, owner long, arrival timestamp, event string, "
    "computed array<string>, bindings string"
)
NOTIFICATIONS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class NotificationRows:
    """Maps stored_matching.py's rows, an event each, to notifications, a match each."""

    __name__ = "tocsin_notifications"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import compute

        for batch in batches:
            parents = compute.list_parent_indices(batch.column("subscriptions"))
            subscriptions = compute.list_flatten(batch.column("subscriptions"))
            owners = compute.list_flatten(batch.column("owners"))
            for start in range(0, len(parents), NOTIFICATIONS_AT_ONCE):
                part = slice(start, start + NOTIFICATIONS_AT_ONCE)
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
                read[seq] = {id: beside for block in _decode_blocks(packed) for id, beside in decode_values(block.body)}
            beside = read[seq].get(subscription, NOTHING_BESIDE)
            if beside.values:
                bodies[at] = msgspec.json.encode(msgspec.json.decode(bodies[at]) | beside.values).decode()
                names[at] = list(beside.values)
            if beside.bindings:
                bindings[at] = msgspec.json.encode(beside.bindings).decode()
        bodies = pa.array(bodies, pa.string())
    return bodies, pa.array(names, pa.list_(pa.string())), pa.array(bindings, pa.string())


_decode_blocks = msgspec.msgpack.Decoder(list[ValueBlock]).decode


def notifications_of(matches: DataFrame) -> DataFrame:
    """Return the notifications of a streaming DataFrame of matches (log_query.match_log, with bodies)."""
    return matches.mapInArrow(NotificationRows(), NOTIFICATIONS)
