"""The book: offers that are held for subscribers to come, indexed by both sides.

For a subscription that asks which of them match, most offers are ruled out by bitmaps: those whose static attributes are
not what its condition wants, and those whose rules bound a property that it does not have so. The rest is decided by
the definition. What is computed cannot rule an offer out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.language.formula import Every, Satisfies, Test
from tocsin.language.syntax import NEVER, And, Node, Predicate
from tocsin.symmetric.bitmaps import Words, every_row, rows_of
from tocsin.symmetric.bounds import Bound, Sides
from tocsin.symmetric.columns import Growing, PropertyColumn
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.offer import Offer, OfferId
from tocsin.symmetric.relax import relaxed
from tocsin.symmetric.semantics import Verdict, decide
from tocsin.symmetric.subscriber import Subscriber
from tocsin.symmetric.wants import Wants

_DEAD_SHARE = 0.5  # of the rows, before they are numbered anew
_FEWEST_DEAD = 1_000


class OfferBook:
    """Offers by id. Not safe to share among threads."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting
        self.decided = 0  # pairs that the definition was asked about
        self._single = [name for name in meeting.event_domains if name not in meeting.multiple]
        self._clear()

    def _clear(self) -> None:
        self._row_of: dict[OfferId, int] = {}
        self._offers: list[tuple[OfferId, Offer] | None] = []
        self._static = {name: PropertyColumn(self.meeting.event_domains[name]) for name in self._single}
        self._computed = {name: Growing(np.bool_, False) for name in self._single}
        sides = Sides(self.meeting.property_domains, self.meeting.event_domains, frozenset())
        self._rules = Wants(sides)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, id: object) -> bool:
        return id in self._row_of

    def __iter__(self) -> Iterator[tuple[OfferId, Offer]]:
        return (entry for entry in list(self._offers) if entry is not None)

    def add(self, id: OfferId, offer: Offer) -> None:
        """Hold an offer; raises DuplicateSubscription."""
        if id in self._row_of:
            raise DuplicateSubscription(id)
        self._row_of[id] = len(self._offers)
        self._offers.append((id, offer))
        row = offer.row(self.meeting)
        dynamic = frozenset(attribute.name for attribute in offer.dynamic)
        for name in self._single:
            self._static[name].append(row.get(name))
            self._computed[name].append(name in dynamic)
        self._rules.append_bounds(self._bounds(offer, row, dynamic))

    def _bounds(self, offer: Offer, row: Mapping[str, Any], dynamic: frozenset[str]) -> list[Bound]:
        """Return the bounds on properties that the rules are; what else they say is left to the definition."""
        own = frozenset(self.meeting.event_domains) - dynamic
        bounds: list[Bound] = []
        for rule in offer.rules:
            for part in _parts(rule.root):
                node = relaxed(part, row, own, dynamic).node
                bound = self._rules.keys.bound_of(node)
                if bound is not None:
                    bounds.append(bound)
        return bounds

    def remove(self, id: OfferId) -> None:
        """Let go of an offer; raises UnknownSubscription."""
        row = self._row_of.pop(id, None)
        if row is None:
            raise UnknownSubscription(id)
        self._offers[row] = None
        if len(self._offers) - len(self) > max(_FEWEST_DEAD, _DEAD_SHARE * len(self._offers)):
            staying = list(self)
            self._clear()
            for kept, offer in staying:
                self.add(kept, offer)

    def query(self, subscriber: Subscriber) -> list[tuple[OfferId, Verdict]]:
        """Return the offers that a subscription matches, in the order in which they came, with the computed values."""
        found = every_row(len(self._offers))
        self._narrow(found, subscriber)
        matched: list[tuple[OfferId, Verdict]] = []
        for row in rows_of(found).tolist():
            entry = self._offers[row]
            if entry is not None:
                self.decided += 1
                verdict = decide(entry[1], subscriber, self.meeting)
                if verdict.matched:
                    matched.append((entry[0], verdict))
        return matched

    def _narrow(self, found: Words, subscriber: Subscriber) -> None:
        """Take from a bitmap offers that cannot match."""
        self._rules.narrow(found, self.meeting.property_domains, subscriber.properties)
        own = frozenset(self.meeting.property_domains)
        for part in subscriber.parts:
            for node in _conjuncts(relaxed(part.root, subscriber.properties, own, frozenset()).node):
                if node == NEVER:
                    found[:] = 0
                elif isinstance(node, Predicate) and node.attribute in self._static:
                    self._keep_wanted(found, node)

    def _keep_wanted(self, found: Words, predicate: Predicate) -> None:
        """Take from a bitmap offers whose static attribute does not satisfy a predicate; computed ones may."""
        name = predicate.attribute
        column = self._static[name]
        interval = column.interval(Satisfies(name, predicate, self.meeting.event_domains[name]))
        if interval is None:
            return
        wanted = found.copy()
        column.narrow(wanted, interval)
        computed = np.zeros(len(found), np.uint64)
        packed = np.packbits(self._computed[name].array, bitorder="little")
        computed.view(np.uint8)[: len(packed)] = packed
        np.bitwise_and(found, wanted | computed, out=found)


def _parts(test: Test) -> Iterator[Test]:
    if isinstance(test, Every):
        for part in test.parts:
            yield from _parts(part)
    else:
        yield test


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, And):
        for part in node.parts:
            yield from _conjuncts(part)
    else:
        yield node
