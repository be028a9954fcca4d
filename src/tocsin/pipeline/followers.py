"""A store as a process of the pipeline holds it: opened once, its subscriptions followed by seq.

A Follower maps the segments that the broker wrote, and takes over from the store what changed since: new subscriptions,
renewals, ends. One for each store in a process, kept between tasks and micro-batches; moving forward costs what changed.
Matching is as of an event's seq and arrival, by broker/live_index.py, which keeps what ended until it is matched past.
StoreIndex is the same for match(): the subscriptions that live now, or as of each event's seq and arrival.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.broker.admission import OfferAdmission, PublishedOffer
from tocsin.broker.core import BrokerSettings, Core
from tocsin.broker.live_folder import folder_of, open_index
from tocsin.broker.publishing import Outcome, outcomes_of
from tocsin.errors import UnknownSubscription
from tocsin.index.encode import EventColumns, EventRows
from tocsin.language.offer import Offer
from tocsin.matching.engine import Inquiry
from tocsin.offers.program_files import ProgramsFile
from tocsin.operators.registry import Registry, open_registry
from tocsin.pipeline.match_lists import Longs, MatchLists
from tocsin.pipeline.open_index import OpenIndex
from tocsin.schema import Event, Schema
from tocsin.store import Store
from tocsin.store.events import documents_between
from tocsin.store.notifications import StoredMatches
from tocsin.store.subscriptions import trees_of

if TYPE_CHECKING:
    import pyarrow as pa


_open: dict[tuple[int, str], Store] = {}
_stores_guard = threading.Lock()


def open_store(place: str) -> Store:
    """Return the store of a path or URL, opened at most once in this process (a forked one opens its own)."""
    key = (os.getpid(), place)
    with _stores_guard:
        if key not in _open:
            _open[key] = Store.open(place)
        return _open[key]


WORTH_SAVING = 1_000  # subscriptions
STALE_SEQS = 20_000

_followers: dict[tuple[int, str, str | None, str | None], Follower] = {}
_guard = threading.Lock()


class Follower:
    """The live index of one store in this process; it reads the index that lies beside the store, and writes nothing."""

    def __init__(
        self,
        place: str,
        engine: str = "columnar",
        folder: str | None = None,
        operators: str | None = None,
        programs: str | None = None,
    ) -> None:
        store, registry, self._programs = open_store(place), open_registry(operators), ProgramsFile(programs)
        offers = OfferAdmission(self._programs, registry)
        live = open_index(store, engine, folder, registry, programs=offers.programs, read_only=True)
        self._core = Core(store, live, BrokerSettings(), registry, offers)
        self._core.refresh()

    @property
    def schema(self) -> Schema:
        return self._core.schema

    @property
    def operators(self) -> Registry:
        return self._core.registry

    @property
    def seq(self) -> int:
        """The seq up to which this process knows the store."""
        return self._core.live.seq

    def __len__(self) -> int:
        return len(self._core.live)

    def reach(self, seq: int) -> None:
        """Know everything up to a seq, and the programs of now. A store that shows an event shows all before it."""
        self._programs.follow()
        if self._core.live.seq < seq:
            self._core.refresh()

    def refresh(self) -> None:
        """Know everything that is acknowledged now."""
        self._core.refresh()

    def match(
        self,
        seqs: Sequence[int],
        arrivals_us: Sequence[int],
        events: Sequence[Event],
        inquiry: Inquiry | None = None,
    ) -> StoredMatches:
        """Return the matches of events as of their seqs and arrivals; the inquiry is told what else is found out."""
        found = Inquiry() if inquiry is None else inquiry
        with self._core.lock:
            matches = self._core.live.match(seqs, arrivals_us, events, found)
            if inquiry is not None and inquiry.failures:
                met = outcomes_of(self._core.live, seqs, arrivals_us, events, matches, inquiry)
                places = {seq: at for at, seq in enumerate(seqs)}
                inquiry.failures = {(places[one.seq], each.id): each.reason for one in met for each in one.failures}
            return matches

    def outcomes(
        self, seqs: Sequence[int], arrivals_us: Sequence[int], events: Sequence[Event]
    ) -> tuple[StoredMatches, list[Outcome]]:
        """Return the same, and what is told beside events, and what failed."""
        inquiry = Inquiry()
        with self._core.lock:
            matches = self._core.live.match(seqs, arrivals_us, events, inquiry)
            return matches, outcomes_of(self._core.live, seqs, arrivals_us, events, matches, inquiry)

    def offers_between(self, first_seq: int, last_seq: int) -> dict[int, bytes]:
        """Return seq -> document of the events in a stretch of the log that are offers."""
        with self._core.store.read() as connection:
            return documents_between(connection, first_seq, last_seq)

    def analyse(self, document: Mapping[str, Any]) -> Offer:
        """Return the offer of a document, bound to the programs of now; raises EventRejected."""
        self._programs.follow()
        return self._core.offers.analyse(document, self.schema)

    def admit_offer(self, document: bytes) -> PublishedOffer:
        """Return an offer of the store, bound to the programs of now; raises EventRejected."""
        return self._core.offers.admit_stored(document, self.schema)

    def cache_counts(self) -> tuple[int, int]:
        """Return how often this process found a program's result in its cache, and how often not."""
        cache = self._programs.programs.cache
        return cache.hits, cache.misses


def follower_of(
    place: str,
    engine: str = "columnar",
    folder: str | None = None,
    operators: str | None = None,
    programs: str | None = None,
) -> Follower:
    """Return this process's follower of a store, made when it is first asked for.

    `operators` names those that subscriptions may call, as operators/registry.py has it, and `programs` the file of
    those that offers may (offers/program_files.py): each worker makes its own, and has its own cache of results.
    """
    key = (os.getpid(), place, operators, programs)
    with _guard:
        if key not in _followers:
            _followers[key] = Follower(place, engine, folder, operators, programs)
        return _followers[key]


def save_for_workers(place: str, folder: str | None = None, operators: str | None = None) -> None:
    """Write the index beside the store if it is missing or well behind, so that workers map it instead of building it.

    Nothing happens where another process (a broker) is the one that writes it, or where it has no place.
    """
    store = open_store(place)
    where = folder_of(store, folder)
    if where is None:
        return
    core = Core(store, open_index(store, "columnar", folder, open_registry(operators)), BrokerSettings())
    before = core.live.seq
    core.refresh()
    if len(core.live) >= WORTH_SAVING and core.live.seq - before > STALE_SEQS:
        core.live.save()
    core.live.close()


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
        return self.match_events(EventRows(EventColumns(columns, self.schema)), seq, arrival, inquiry)

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
