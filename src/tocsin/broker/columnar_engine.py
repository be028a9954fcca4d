"""ColumnarEngine: the live index over Tocsin's own engine, on disk beside the store.

Changes are seen by the next match; merging goes on beside it. `save` writes the index and the leases to a folder, named
after the seq that they follow the store up to; a broker that starts loads them and catches up from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tocsin.broker.live_index import Engine
from tocsin.broker.live_leases import LiveLeases, Longs
from tocsin.errors import UnknownSubscription
from tocsin.index.encode import EventObjects
from tocsin.language import BoundSubscription
from tocsin.matching.columnar.matcher import ColumnarMatcher
from tocsin.schema import Event, Schema

_NONE = np.zeros(0, np.int64)


class ColumnarEngine(Engine):
    """Finds candidates with the columnar matcher; it has no schema, and so no subscriptions, before `set_schema`."""

    def __init__(self) -> None:
        self._matcher: ColumnarMatcher | None = None

    @property
    def matcher(self) -> ColumnarMatcher:
        if self._matcher is None:
            raise RuntimeError("the schema must be set first")
        return self._matcher

    def add(self, subscriptions: Sequence[tuple[int, BoundSubscription]]) -> None:
        for id, bound in subscriptions:
            self.matcher.add(id, bound)

    def remove(self, ids: Sequence[int]) -> None:
        for id in ids:
            try:
                self.matcher.remove(id)
            except UnknownSubscription:
                continue  # it was over before this engine heard of it

    def clear(self) -> None:
        if self._matcher is not None:
            self._matcher = ColumnarMatcher(self._matcher.schema)

    def find(self, events: Sequence[Event]) -> tuple[Longs, Longs]:
        if len(events) == 1:
            ids = np.array(self.matcher.match(events[0]), np.int64)
            return np.zeros(len(ids), np.int64), ids
        positions, found = [_NONE], [_NONE]
        for part in self.matcher.match_source(EventObjects(events)):
            counts = part.counts()
            positions.append(np.repeat(np.arange(part.first, part.first + len(counts)), counts))
            found.append(part.ids.astype(np.int64))
        return np.concatenate(positions), np.concatenate(found)

    def set_schema(self, schema: Schema) -> bool:
        old = self._matcher
        if old is None:
            self._matcher = ColumnarMatcher(schema)
            return False
        before, old.schema, old.index.schema = old.schema, schema, schema
        # Segments are laid out by which attributes are multiple; another type may make one so.
        known = {*before.attributes, *before.multiple_attributes}
        return bool(schema.multiple_attributes & known != before.multiple_attributes)

    def stats(self) -> dict[str, Any]:
        if self._matcher is None:
            return {"engine": "columnar", "subscriptions": 0}
        found = self._matcher.stats()
        return {
            "engine": "columnar",
            "subscriptions": found.subscriptions,
            "tiers": list(found.tiers),
            "dead": found.dead,
            "bytes": found.bytes,
        }

    def save(self, seq: int, leases: LiveLeases) -> None:
        del seq, leases

    def close(self) -> None:
        if self._matcher is not None:
            self._matcher.index.wait_for_merging()
