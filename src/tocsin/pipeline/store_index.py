"""A store's subscriptions as an index for match(): those live now, or as of each event's seq and arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.errors import UnknownSubscription
from tocsin.matching.engine import Inquiry
from tocsin.operators.registry import Registry
from tocsin.pipeline.followers import follower_of
from tocsin.pipeline.match_lists import Longs, MatchLists
from tocsin.pipeline.open_index import OpenIndex
from tocsin.pipeline.stores import open_store
from tocsin.schema import Event, Schema
from tocsin.schema.arrow import events_from_arrow
from tocsin.store.subscriptions import trees_of

if TYPE_CHECKING:
    import pyarrow as pa

NOW = np.iinfo(np.int64).max - 1  # a seq after everything


class StoreIndex(OpenIndex):
    """Follows a store: whatever was acknowledged when a task began is in."""

    def __init__(
        self, place: str, engine: str = "columnar", *, operators: str | None = None, programs: str | None = None
    ) -> None:
        self._place = place
        self._follower = follower_of(place, engine, operators=operators, programs=programs)

    @property
    def schema(self) -> Schema:
        return self._follower.schema

    @property
    def operators(self) -> Registry:
        return self._follower.operators

    def analyse(self, document: Mapping[str, Any]) -> Event:
        return self._follower.analyse(document)

    def refresh(self, version: int | None, time_us: int | None = None) -> None:
        del version, time_us  # seqs tell
        self._follower.refresh()

    def match_columns(
        self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None, inquiry: Inquiry | None = None
    ) -> MatchLists:
        return self.match_events(events_from_arrow(columns, self.schema), seq, arrival, inquiry)

    def match_events(
        self, events: Sequence[Event], seq: Longs | None, arrival: Longs | None, inquiry: Inquiry | None = None
    ) -> MatchLists:
        # Distinct stand-ins for seqs that are not given: matches are told apart by them.
        standing = np.arange(len(events)) + (NOW - len(events)) if seq is None else seq
        arrived = np.full(len(events), open_store(self._place).now_us()) if arrival is None else arrival
        matches = self._follower.match(standing.tolist(), arrived.tolist(), events, inquiry)
        order = np.argsort(matches.seq, kind="stable")
        return _in_event_order(matches.seq[order], matches.subscription[order], standing)

    def document(self, id: Any) -> str:
        with open_store(self._place).read() as connection:
            found = trees_of(connection, [int(id)])
        if not found:
            raise UnknownSubscription(id)
        return found[int(id)].decode()


def _in_event_order(seqs: Longs, ids: Longs, standing: Longs) -> MatchLists:
    """Return lists in the order of the events; matches come by ascending seq."""
    starts, ends = (np.searchsorted(seqs, standing, side=side) for side in ("left", "right"))
    counts = ends - starts
    offset = np.concatenate([[0], np.cumsum(counts)])
    places = np.arange(int(offset[-1])) - np.repeat(offset[:-1], counts) + np.repeat(starts, counts)
    return MatchLists(offset, ids[places])
