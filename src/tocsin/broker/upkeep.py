"""Upkeep of a store's index by hand: build, merge, check, figures. `tocsin index` calls these.

A broker does all this by itself; these are for looking, and for after something went wrong. While a broker has the
index open for writing, building and merging are refused.

Auditing the log: events are matched again, by the definition, and held against the notifications that are stored.

`tocsin db audit`. A sample of both sides by default, everything on request. What the definition cannot decide from the
store alone is counted and left out: conditions that call operators, and offers with rules or computed attributes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from tocsin.broker.admission import admit_stored
from tocsin.broker.broker import Broker
from tocsin.broker.expressions import bind_stored
from tocsin.broker.live_folder import LiveFolder, folder_of
from tocsin.compile.ids import kept_ids
from tocsin.errors import FileError, StoreDamaged, StoreError, TocsinError
from tocsin.index.check import check_segment
from tocsin.language import BoundSubscription
from tocsin.language.semantics import evaluate
from tocsin.operators.operator import StoredCalls
from tocsin.operators.registry import Registry
from tocsin.schema import Schema, arrived
from tocsin.store import Store, schema_history, tables
from tocsin.store.events import StoredEvent, documents_between, find_events
from tocsin.store.notifications import all_blocks
from tocsin.store.store import read_meta
from tocsin.store.subscriptions import leases_since
from tocsin.store.tables import leases, subscriptions


def build_index(place: str | Path, folder: str | Path | None = None) -> dict[str, Any]:
    """Build the index anew from the store, and write it; return its figures."""
    path = _folder(place, folder)
    with _writing(path):
        (path / "manifest.json").unlink(missing_ok=True)
    return _opened(place, path, merge=True)


def merge_index(place: str | Path, folder: str | Path | None = None) -> dict[str, Any]:
    """Catch up with the store, merge all segments into one, and write it; return its figures."""
    path = _folder(place, folder)
    with _writing(path):
        pass  # nobody else writes
    return _opened(place, path, merge=True)


def index_stats(place: str | Path, folder: str | Path | None = None) -> dict[str, Any]:
    """Return figures of the index as it lies on disk; nothing is changed."""
    path = _folder(place, folder)
    manifest = LiveFolder(path, "").manifest()
    store = Store.open(place)
    try:
        stands = store.meta()
    finally:
        store.close()
    if manifest is None:
        return {"folder": str(path), "segments": 0, "store_seq": stands.seq}
    return {
        "folder": str(path),
        "version": manifest.version,
        "seq": manifest.seq,
        "store_seq": stands.seq,
        "schema_version": manifest.schema_version,
        "segments": len(manifest.segments),
        "subscriptions": sum(entry.subscriptions - entry.dead for entry in manifest.segments),
        "dead": sum(entry.dead for entry in manifest.segments),
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
    }


def check_index(place: str | Path, folder: str | Path | None = None) -> list[str]:
    """Return what is wrong with the index on disk: files, structure, and whether it is what the store says."""
    path = _folder(place, folder)
    store = Store.open(place)
    try:
        live = LiveFolder(path, store.incarnation)
        manifest = live.manifest()
        if manifest is None:
            return [f"{path}: there is no index"]
        with store.read() as connection:
            stands = read_meta(connection)
            newest = schema_history.newest(connection)
            rows = [row for chunk in leases_since(connection, 0, 0, trees=False) for row in chunk]
        if newest is None:
            return ["the store has no schema"]
        loaded = live.load_live(newest.schema)
    except FileError as error:
        return [str(error)]
    finally:
        store.close()
    problems = []
    if manifest.seq > stands.seq or manifest.seq < stands.horizon:
        problems.append(f"{path}: it is as of seq {manifest.seq}, which the store cannot continue")
    found: set[int] = set()
    for tier in loaded.index.tiers():
        try:
            check_segment(tier.segment)
        except (AssertionError, ValueError) as error:
            problems.append(f"{path}/{tier.name}.segment: {error}")
        alive = np.ones(len(tier.segment), np.bool_)
        alive[np.array(list(tier.dead), np.int64)] = False
        found |= {int(id) for id in kept_ids(tier.segment.ids, alive).tolist()}
    due = {row.id for row in rows if row.id <= manifest.seq and (row.deleted_seq or manifest.seq + 1) > manifest.seq}
    may = {row.id for row in rows if row.id <= manifest.seq}  # those that ended may wait for events to be matched
    if due - found:
        problems.append(f"{path}: {len(due - found)} live subscriptions are not in it, such as {min(due - found)}")
    if found - may:
        problems.append(f"{path}: {len(found - may)} subscriptions are in it that the store does not have")
    return problems


def _folder(place: str | Path, folder: str | Path | None) -> Path:
    store = Store.open(place)
    try:
        path = folder_of(store, folder)
    finally:
        store.close()
    if path is None:
        raise StoreError("say where the index is: a store in PostgreSQL has no folder of its own")
    return path


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Give the right to write the index, for a moment; raises StoreError where a broker has it."""
    folder = LiveFolder(path, "")
    if not folder.become_writer():
        raise StoreError(f"a broker has the index {path} open; it merges and saves by itself")
    try:
        yield
    finally:
        folder.close()


def _opened(place: str | Path, path: Path, *, merge: bool) -> dict[str, Any]:
    """Open a broker, which loads or builds the index, and let it save."""
    with Broker.open(place, index=path, sweep=False) as broker:
        broker.save_index(merge=merge)
        return broker.index_stats()


# Auditing the log.


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
        inside = (tables.events.c.seq > stands.horizon) & (tables.events.c.seq <= stands.matched_through)
        seqs = _sample(draw, connection.execute(select(tables.events.c.seq).where(inside)).scalars(), most_events)
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
                admitted = arrived(admit_stored(schema, event.body), event.arrival_us)
            except (TocsinError, ValueError) as error:
                found.unreadable.append(f"event {event.seq}: {error}")
                continue
            found.events += 1
            found.pairs += len(standing)
            for one in standing:
                expected = one.covers(event) and evaluate(one.bound, admitted)
                if expected != ((event.seq, one.id) in recorded):
                    (found.missing if expected else found.invented).append((event.seq, one.id))
