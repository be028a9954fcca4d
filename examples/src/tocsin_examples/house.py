"""The auction house as the demo on Spark runs it: its store, its members who come and go, and the check at the end.

The house keeps for itself what it was told: who subscribed to what, from which seq to which. The check compares that
with what is stored. Used by on_spark.py.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from tocsin.broker import Broker
from tocsin.broker.broker import Matching
from tocsin.errors import TocsinError
from tocsin.language import bind, evaluate
from tocsin.language.documents import from_document
from tocsin.pipeline.followers import open_store
from tocsin.pipeline.meter import Meter
from tocsin.schema import Schema
from tocsin.store.events import StoredEvent, read_events
from tocsin.store.notifications import all_blocks, count_matches
from tocsin_examples.auction import Auction
from tocsin_examples.members import Members, Wish

OWNERS = 200
AT_ONCE = 10_000
TICK_SECONDS = 0.05
CHANGES_PER_SECOND = 20
KEPT_ENDED = 1_000  # subscriptions that have left, and are still known, to check the answers with
CHECKED_EVENTS = 10
CHECKED_SUBSCRIPTIONS = 20_000  # drawn, and all those that an event reached
READ_AT_ONCE = 20_000
NEVER = 2**63
ENDLESS = 10**9  # events: until somebody stops it


def announced(subscriptions: int, events: int, rate: int) -> str:
    """Return what is about to happen."""
    stream = "events" if events >= ENDLESS else f"{events:,} events"
    return f"{subscriptions:,} subscriptions of members, {stream} at {rate:,} a second"


class Market(Protocol):
    """What happens: events of a schema."""

    schema: Schema

    def events(self, count: int) -> Iterator[dict[str, Any]]: ...


class Wishing(Protocol):
    """Who waits for it: subscriptions, as documents."""

    def wishes(self, count: int) -> Iterator[dict[str, Any]]: ...


class House:
    """The auction house: its broker, and what it knows about its members, to check the answers with."""

    strangers = False  # whether others than the house publish and subscribe here

    def __init__(
        self, folder: Path, seed: int, world: tuple[Market, Wishing] | None = None, *, schema: Schema | None = None,
        matching: Matching = "pipeline",
    ) -> None:  # fmt: skip
        """Open a store, over the market's schema or the one given, which the market's must extend."""
        if world is None:
            auction = Auction(seed)
            world = auction, Members(auction, seed + 1)
        self.auction, self.members = world
        self.place = str(folder / "auction.db")
        self.broker = Broker.open(self.place, schema=schema or self.auction.schema, matching=matching)
        self.stopping = threading.Event()
        self.wishes: dict[int, Wish] = {}
        self.ended: dict[int, int] = {}  # subscription -> the seq at which it left
        self.published = 0
        self.changes = 0
        self.checked_from = 0  # the seq after which it is known who was there
        self._owners: dict[int, str] = {}  # of those that are there
        self._live: list[int] = []
        self._random = random.Random(seed)

    # --- running ------------------------------------------------------------------------------------------------------

    def subscribe(self, count: int, on_progress: Callable[[int], object] = lambda _: None) -> None:
        """Take in members' subscriptions."""
        wishes = self.members.wishes(count)
        while chunk := list(islice(wishes, AT_ONCE)):
            self._add(chunk)
            on_progress(len(chunk))

    def _add(self, chunk: list[Wish]) -> None:
        owner = f"member-{self._random.randrange(OWNERS)}"
        receipts = self.broker.subscribe_all(chunk, owner=owner)
        self.wishes |= {receipt.id: wish for receipt, wish in zip(receipts, chunk, strict=True)}
        self._owners |= dict.fromkeys((receipt.id for receipt in receipts), owner)
        self._live += (receipt.id for receipt in receipts)

    def publish(self, count: int) -> None:
        """Publish some events at once."""
        self._publish(map(dict, self.auction.events(count)), count)

    def _publish(self, stream: Iterator[dict[str, Any]], count: int) -> None:
        self.published += len(self.broker.publish(list(islice(stream, count))))

    def run(self, events: int, rate: int) -> None:
        """Publish events at a steady rate; members come and go meanwhile."""
        stream = map(dict, self.auction.events(events))  # a copy: items change as they are bid on
        newcomers = (wish for _ in count() for wish in self.members.wishes(100))  # time decides how many there are
        started, sent = time.monotonic(), 0
        while sent < events and not self.stopping.is_set():
            now = time.monotonic() - started
            due = min(events, int(now * rate) + 1) - sent
            if due > 0:
                self._publish(stream, due)
                sent += due
            self._change(int(now * CHANGES_PER_SECOND) - self.changes, newcomers)
            time.sleep(TICK_SECONDS)

    def _change(self, count: int, newcomers: Iterator[Wish]) -> None:
        for at in range(self.changes, self.changes + count):
            if at % 2 and self._live:
                self._end_one()
            else:
                self._add([next(newcomers)])
            self.changes += 1

    def _end_one(self) -> None:
        """Let somebody go, whoever it is: as many go as come, so that a house that is open for days stays as large."""
        at = self._random.randrange(len(self._live))
        self._live[at], self._live[-1] = self._live[-1], self._live[at]
        id = self._live.pop()
        self.ended[id] = self.broker.unsubscribe(id, owner=self._owners.pop(id)).seq
        if len(self.ended) > KEPT_ENDED:
            self._forget_some()

    def _forget_some(self) -> None:
        """Forget what those wanted who left first; events up to there are not checked any more."""
        for id in list(islice(self.ended, KEPT_ENDED // 2)):
            self.checked_from = self.ended.pop(id)
            del self.wishes[id]

    def follow(self, meter: Meter) -> None:
        """Hear how the pipeline is doing; a house that shows its figures to people wants to know."""

    def close(self) -> None:
        """Close the broker."""
        self.broker.close()

    # --- checking -----------------------------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        """How many subscriptions there are."""
        return len(self._live)

    def last_seq(self) -> int:
        """Return the seq of the last event."""
        return max((event.seq for event in self._events()), default=0)

    def matched_through(self) -> int:
        """Return the seq up to which all events are matched."""
        return open_store(self.place).meta().matched_through

    def _events(self) -> Iterator[StoredEvent]:
        after = 0
        while True:
            with open_store(self.place).read() as connection:
                found = read_events(connection, after, READ_AT_ONCE)
            yield from found
            if len(found) < READ_AT_ONCE:
                return
            after = found[-1].seq

    def check(self, notifications: int) -> int:
        """Check what is stored; return how many events were compared with the definition. Raises TocsinError.

        They are compared for a sample of the subscriptions, and for all whom they reached.

        `notifications` is what the pipeline says that it stored.
        """
        events = list(self._events())
        if len(events) < self.published or (len(events) > self.published and not self.strangers):
            raise TocsinError(f"{self.published} events were published, and {len(events)} are in the log")
        if events and self.matched_through() < events[-1].seq:
            raise TocsinError(f"events after seq {self.matched_through()} are not matched")
        seqs, ids = self._stored()
        if len(np.unique(seqs * (int(ids.max(initial=0)) + 1) + ids)) != len(seqs):
            raise TocsinError("a notification is stored twice")
        if len(seqs) != notifications:
            raise TocsinError(f"{notifications} notifications were counted, and {len(seqs)} are stored")
        known = [event for event in events if event.seq > self.checked_from]
        chosen = self._random.sample(known, min(CHECKED_EVENTS, len(known)))
        drawn = set(self._random.sample(list(self.wishes), min(CHECKED_SUBSCRIPTIONS, len(self.wishes))))
        reached = {event.seq: set(ids[seqs == event.seq].tolist()) for event in chosen}
        if self.strangers:
            reached = {seq: found & self.wishes.keys() for seq, found in reached.items()}
        right = self._right(chosen, drawn.union(*reached.values()))
        for seq, found in reached.items():
            if found != right[seq]:
                raise TocsinError(f"event {seq} reached others than the definition says")
        return len(chosen)

    def notifications(self) -> int:
        """Return how many notifications are stored."""
        store = open_store(self.place)
        with store.read() as connection:
            return count_matches(connection, 0, store.meta().matched_through)

    def _stored(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the seq and the subscription of every notification."""
        with open_store(self.place).read() as connection:
            blocks = [block for _, _, _, block in all_blocks(connection)]
        none = np.zeros(0, np.int64)
        return (
            np.concatenate([none, *(block.seq for block in blocks)]),
            np.concatenate([none, *(block.subscription for block in blocks)]),
        )

    def _right(self, chosen: list[StoredEvent], among: Iterable[int]) -> dict[int, set[int]]:
        """Return, by seq, whom of some subscriptions the definition says that events reach."""
        admitted = {event.seq: self.auction.schema.admit(msgspec.json.decode(event.body)) for event in chosen}
        reached: dict[int, set[int]] = {seq: set() for seq in admitted}
        for id in among:
            if id not in self.wishes:
                raise TocsinError(f"{id} was reached, and is nobody's subscription")
            bound = bind(from_document(self.wishes[id])[1], self.auction.schema)
            for seq, event in admitted.items():
                if id < seq < self.ended.get(id, NEVER) and evaluate(bound, event):
                    reached[seq].add(id)
        return reached
