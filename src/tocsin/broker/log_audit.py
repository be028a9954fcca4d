"""Auditing the log: events are matched again, by the definition, and held against the notifications that are stored.

`tocsin db audit`. A sample of both sides by default, everything on request. What the definition cannot decide from the
store alone is counted and left out: conditions that call operators, and offers with rules or computed attributes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, select

from tocsin.broker.admission import admit_stored
from tocsin.broker.expressions import bind_stored
from tocsin.errors import StoreDamaged, TocsinError
from tocsin.language import BoundSubscription
from tocsin.language.semantics import evaluate
from tocsin.operators.registry import Registry
from tocsin.operators.stored_calls import StoredCalls
from tocsin.schema import Schema
from tocsin.store import Store, schema_history
from tocsin.store.events import StoredEvent, find_events
from tocsin.store.notifications import all_blocks
from tocsin.store.offers import documents_between
from tocsin.store.tables import events, leases, subscriptions
from tocsin.store.transaction import read_meta

MOST_TOLD = 100


@dataclass(slots=True)
class Audited:
    """What came of it; differences are (seq of the event, subscription)."""

    events: int = 0
    subscriptions: int = 0
    pairs: int = 0
    left_out: int = 0  # subscriptions and events that the definition cannot decide from the store alone
    missing: list[tuple[int, int]] = field(default_factory=list)
    invented: list[tuple[int, int]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        return not (self.missing or self.invented or self.unreadable)


@dataclass(frozen=True, slots=True)
class _Standing:
    """A subscription while it stood: after it was created, before it ended, within its lease."""

    id: int
    bound: BoundSubscription
    end_us: int
    deleted_seq: int | None

    def covers(self, event: StoredEvent) -> bool:
        ended = self.deleted_seq is not None and event.seq > self.deleted_seq
        return self.id < event.seq and not ended and event.arrival_us < self.end_us


def audit(
    store: Store, *, most_events: int | None = None, most_subscriptions: int | None = None, seed: int = 0
) -> Audited:
    """Return how the stored notifications compare with the definition; None: all events, or all subscriptions."""
    draw, found = random.Random(seed), Audited()  # noqa: S311 - a sample, not a secret
    with store.read() as connection:
        newest = schema_history.newest(connection)
        if newest is None:
            return found
        stands = read_meta(connection)
        inside = (events.c.seq > stands.horizon) & (events.c.seq <= stands.matched_through)
        seqs = _sample(draw, connection.execute(select(events.c.seq).where(inside)).scalars(), most_events)
        ids = _sample(draw, connection.execute(select(subscriptions.c.id)).scalars(), most_subscriptions)
        standing = _standing(connection, ids, newest.schema, found)
        recorded = _recorded(connection, set(seqs), {one.id for one in standing}, found)
        _compare(connection, seqs, standing, newest.schema, recorded, found)
    return found


def _sample(draw: random.Random, all_of_them: Iterable[int], most: int | None) -> list[int]:
    listed = list(all_of_them)
    return sorted(listed if most is None or most >= len(listed) else draw.sample(listed, most))


def _standing(connection: Connection, ids: Sequence[int], schema: Schema, found: Audited) -> list[_Standing]:
    standing = []
    for start in range(0, len(ids), 500):
        chosen = subscriptions.c.id.in_(ids[start : start + 500])
        query = select(subscriptions.c.id, subscriptions.c.tree, leases.c.end_us, leases.c.deleted_seq).join(leases)
        for row in connection.execute(query.where(chosen)):
            try:
                bound = bind_stored(row.tree, schema, StoredCalls(Registry()))
                if bound.operators:
                    found.left_out += 1
                    continue
                standing.append(_Standing(row.id, bound, row.end_us, row.deleted_seq))
            except TocsinError as error:
                found.unreadable.append(f"subscription {row.id}: {error}")
    found.subscriptions = len(standing)
    return standing


def _recorded(connection: Connection, seqs: set[int], ids: set[int], found: Audited) -> set[tuple[int, int]]:
    """Return the stored notifications of these events and subscriptions."""
    pairs: set[tuple[int, int]] = set()
    wanted = np.array(sorted(ids), np.int64)
    try:
        for _, _, _, matches in all_blocks(connection):
            chosen = np.isin(matches.subscription, wanted)
            both = zip(matches.seq[chosen].tolist(), matches.subscription[chosen].tolist(), strict=True)
            pairs.update(pair for pair in both if pair[0] in seqs)
    except StoreDamaged as error:
        found.unreadable.append(str(error))
    return pairs


def _compare(
    connection: Connection, seqs: Sequence[int], standing: Sequence[_Standing], schema: Schema,
    recorded: set[tuple[int, int]], found: Audited,
) -> None:  # fmt: skip
    for start in range(0, len(seqs), 500):
        chunk = seqs[start : start + 500]
        offers = documents_between(connection, chunk[0], chunk[-1])
        for event in find_events(connection, chunk).values():
            if event.seq in offers:
                found.left_out += 1
                continue
            try:
                admitted = admit_stored(schema, event.body)
            except (TocsinError, ValueError) as error:
                found.unreadable.append(f"event {event.seq}: {error}")
                continue
            found.events += 1
            found.pairs += len(standing)
            for one in standing:
                expected = one.covers(event) and evaluate(one.bound, admitted)
                if expected != ((event.seq, one.id) in recorded):
                    (found.missing if expected else found.invented).append((event.seq, one.id))
