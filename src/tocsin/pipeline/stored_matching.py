"""What runs in the workers between the store's log and its notifications: bodies in, lists of matches out.

One row a event comes out: its seq, the subscriptions that it reaches with their owners, or why it is a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.broker.admission import read_stored
from tocsin.errors import TocsinError
from tocsin.pipeline.crash import reach
from tocsin.pipeline.followers import Follower, follower_of
from tocsin.schema import Event
from tocsin.store.notifications import Matches

if TYPE_CHECKING:
    import pyarrow as pa

OUTPUT = (
    "after_seq long, seq long, event_id binary, arrival_us long, subscriptions array<long>, owners array<long>, "
    "reason string, body string"
)


@dataclass(frozen=True, slots=True)
class MatchStored:
    """Maps batches of the log to their matches, as of each event's seq."""

    store: str
    engine: str = "columnar"
    index: str | None = None  # the folder of the store's index, where it is not beside it
    with_body: bool = False  # a dead letter always carries its body
    operators: str | None = None  # those that subscriptions may call: see operators/registries.py

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        follower = follower_of(self.store, self.engine, self.index, self.operators)
        for batch in batches:
            if batch.num_rows:
                follower.reach(max(batch.column("seq").to_pylist()))
                reach("pipeline.mid-match")
                yield self._match(follower, batch)

    def _match(self, follower: Follower, batch: pa.RecordBatch) -> pa.RecordBatch:
        seqs: list[int] = batch.column("seq").to_pylist()
        arrivals: list[int] = batch.column("arrival_us").to_pylist()
        bodies: list[str] = batch.column("body").to_pylist()
        reasons: dict[int, str] = {}
        events: dict[int, Event] = {}
        for at, (body, version) in enumerate(zip(bodies, batch.column("schema_version").to_pylist(), strict=True)):
            try:
                events[at] = _read(follower, body, version)
            except TocsinError as error:
                reasons[at] = str(error)
        matches = _match_each(follower, seqs, arrivals, events, reasons)
        return self._rows(batch, matches, reasons)

    def _rows(self, batch: pa.RecordBatch, matches: Matches, reasons: dict[int, str]) -> pa.RecordBatch:
        import pyarrow as pa

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
            ],
            names=["after_seq", "seq", "event_id", "arrival_us", "subscriptions", "owners", "reason", "body"],
        )


def _read(follower: Follower, body: str, version: int) -> Event:
    """Return a stored event. It was admitted by a version of the schema that the store has, and all later ones agree."""
    if version > follower.schema.version:
        follower.refresh()
    if version > follower.schema.version:
        raise TocsinError(f"version {version} of the schema is unknown; the store has {follower.schema.version}")
    return follower.schema.admit(read_stored(body.encode()))


def _match_each(
    follower: Follower, seqs: Sequence[int], arrivals: Sequence[int], events: dict[int, Event], reasons: dict[int, str]
) -> Matches:
    """Return the matches of all events; one that the engine fails on gets a reason, and the others go on."""
    chosen = list(events)
    try:
        return _match_some(follower, seqs, arrivals, events, chosen)
    except (TocsinError, ArithmeticError, ValueError, TypeError, LookupError):
        parts: list[Matches] = []
        for at in chosen:  # one by one, to find the one that it cannot do
            try:
                parts.append(_match_some(follower, seqs, arrivals, events, [at]))
            except (TocsinError, ArithmeticError, ValueError, TypeError, LookupError) as error:
                reasons[at] = f"matching failed: {type(error).__name__}: {error}"
        return _joined(parts)


def _match_some(
    follower: Follower, seqs: Sequence[int], arrivals: Sequence[int], events: dict[int, Event], chosen: list[int]
) -> Matches:
    return follower.match([seqs[at] for at in chosen], [arrivals[at] for at in chosen], [events[at] for at in chosen])


def _joined(parts: list[Matches]) -> Matches:
    def column(name: str) -> Any:
        return np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)])

    return Matches(column("seq"), column("subscription"), column("owner"))
