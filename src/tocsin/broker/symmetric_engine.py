"""SymmetricEngine: matches offers, and plain events of a union's type, with the subscriptions of that type.

A route of the live index (indexes.py): subscriptions whose only event type is a union's event are held here, with their
properties, in memory; they are read from the store again at the start. All other subscriptions see an offer as a plain
event with its static attributes, and only where it has no rules: whoever has no properties satisfies none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tocsin.broker.expressions import Prepared
from tocsin.broker.live_index import Engine
from tocsin.broker.live_leases import LiveLeases, Longs
from tocsin.broker.offers import OfferEvent
from tocsin.language.documents import decode
from tocsin.schema import Event, Schema
from tocsin.symmetric import Matched, Matchmaker, Offer, Programs
from tocsin.symmetric.load import CHUNK, Loader, collecting_later, document_of
from tocsin.symmetric.two_sided import offer_of
from tocsin.symmetric.unions import meetings

log = logging.getLogger("tocsin.broker")
_SHOWN = 5


class SymmetricEngine(Engine):
    """A matchmaker for each union of the schema. `met` tells what the last `find` computed for an event."""

    def __init__(self, schema: Schema, programs: Programs) -> None:
        self._programs = programs
        self._trees: dict[int, tuple[str, bytes]] = {}  # event type and tree
        self._dormant: dict[int, str] = {}
        self._met: dict[int, Matched] = {}
        self.matches = self.failures = 0
        self._begin(schema)

    def _begin(self, schema: Schema) -> None:
        self._schema = schema
        self._makers = {
            name: Matchmaker(schema, meeting.union.name, programs=self._programs)
            for name, meeting in meetings(schema).items()
        }

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def add(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        self._hold([(id, prepared.tree) for id, prepared in subscriptions])

    def load(self, stored: Iterable[tuple[int, bytes]], schema: Schema) -> None:
        del schema  # its own, which is the same
        self._hold(list(stored))

    def _hold(self, trees: Sequence[tuple[int, bytes]]) -> None:
        """Hold subscriptions; equal predicates among those that come together are bound once."""
        asleep: dict[int, str] = {}
        loaders = {name: Loader(maker) for name, maker in self._makers.items()}
        with collecting_later():
            for start in range(0, len(trees), CHUNK):
                by_type: dict[str, list[tuple[int, Any]]] = {}
                for id, tree in trees[start : start + CHUNK]:
                    document = decode(tree)
                    (name,) = document["event_types"]
                    self._trees[id] = (name, tree)
                    by_type.setdefault(name, []).append((id, document_of(document)))
                for name, documents in by_type.items():
                    asleep |= {bad.line: str(bad.error) for bad in loaders[name].hold(documents)}
        self._dormant |= asleep
        if asleep:
            told = "; ".join(f"{id}: {reason}" for id, reason in list(asleep.items())[:_SHOWN])
            log.warning("%d subscriptions with properties match nothing: %s", len(asleep), told)

    def remove(self, ids: Sequence[int]) -> None:
        for id in ids:
            found = self._trees.pop(id, None)
            if found is not None and self._dormant.pop(id, None) is None:
                self._makers[found[0]].unsubscribe(id)

    def clear(self) -> None:
        self._trees, self._dormant, self._met = {}, {}, {}
        self._begin(self._schema)

    def set_schema(self, schema: Schema) -> bool:
        if schema.version != self._schema.version:
            held = [(id, tree) for id, (_, tree) in self._trees.items()]
            self._trees, self._dormant = {}, {}
            self._begin(schema)
            self._hold(held)
        return False

    # --- matching -----------------------------------------------------------------------------------------------------

    def find(self, events: Sequence[Event]) -> tuple[Longs, Longs]:
        self._met = {}
        positions: list[Longs] = []
        ids: list[Longs] = []
        for name, maker in self._makers.items():
            mine = [(at, event) for at, event in enumerate(events) if name in event.types]
            answers = maker.match_all(self._offer(event, name) for _, event in mine)
            for (at, event), matched in zip(mine, answers, strict=True):
                if isinstance(event, OfferEvent):
                    self._met[id(event)] = matched
                positions.append(np.full(len(matched), at, np.int64))
                ids.append(np.array(matched.ids, np.int64))
        if not ids:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(positions), np.concatenate(ids)

    def _offer(self, event: Event, name: str) -> Offer:
        if isinstance(event, OfferEvent):
            return event.offer
        offer = offer_of(event, self._makers[name].meeting)
        assert offer is not None, "the event is of this type"
        return offer

    def met(self, event: Event) -> Matched | None:
        return self._met.get(id(event))

    @property
    def takes_long(self) -> bool:
        return any(program.callable is not None for program in self._programs)

    @contextmanager
    def foreseen(self, events: Sequence[Event]) -> Iterator[None]:
        """Let callables run now for offers that are matched within the block: what they answer is then in the cache."""
        for event in events:
            if isinstance(event, OfferEvent) and event.offer.dynamic and self.takes_long:
                self._makers[event.types[0]].match(event.offer)
        yield

    # --- figures ------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        return {
            "subscriptions": len(self._trees),
            "dormant": len(self._dormant),
            "dormant_reasons": {id: self._dormant[id] for id in list(self._dormant)[:_SHOWN]},
            "unions": {maker.meeting.union.name: maker.stats() for maker in self._makers.values()},
        }

    def merge(self) -> None:
        """Nothing to do: what it holds has one form."""

    def save(self, seq: int, leases: LiveLeases, elsewhere: Sequence[int] = ()) -> None:
        del seq, leases, elsewhere  # it is rebuilt from the store

    def close(self) -> None:
        self.clear()
