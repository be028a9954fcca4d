"""OfferScan: the candidates of a batch of offers in one tier of an index.

    1. what the offers ask becomes requests: intervals of properties (rules), codes (static values), rows that accept what
       is computed, where that is kept (requests.py)
    2. one scan intersects the bitmaps of all requests, for all offers (scan_kernel.py); what is not live goes
    3. rules that are no intervals and ask for nothing computed; rows that hulls do not tell exactly
    4. computed attributes for who is left, then rows that ask about those, then the other rules (survivors.py)

A pair that something refuses is no candidate, whatever fails elsewhere. A pair that nothing refuses but something fails is
one, with the reason: that of the first computed attribute that fails, else of the first rule. What rows have beside
predicates over codes (checks), and rules that call operators, are not decided here.

The book: offers that are held for subscriptions to come.

A subscription that asks which of them match is, for that moment, an index of one; the scan rules out most offers, many at once: those whose static values it does not want, and those whose rules it does not satisfy. The rest is decided by
the definition.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from tocsin.compile.normalise import normalise
from tocsin.compile.table_builder import compile_table
from tocsin.errors import DuplicateName, UnknownOffer
from tocsin.index.build import build_segment
from tocsin.index.encode import EventObjects
from tocsin.index.layout import FOREVER
from tocsin.index.subscription_index import Tier
from tocsin.language.bind import BoundSubscription
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.language.offer import Offer
from tocsin.language.semantics import Verdict, decide
from tocsin.offers import scan_kernel as k
from tocsin.offers.requests import Computing, HullIndex, PropertyIndex, Requests, Rules, TierRows
from tocsin.offers.scan_kernel import BitmapIndex
from tocsin.offers.survivors import Computed, OfferCandidates, Static, Survivors
from tocsin.schema import Schema

Int64s = npt.NDArray[np.int64]
NOW = FOREVER - 1
_FIRST_ROWS = 4 * 64 * k.BLOCK
_ROW_SHARE = 128  # of the rows, one in so many is expected to be left to an offer
_WORTH_A_THREAD = 5_000_000  # words of bitmaps to intersect, before any is passed over


class OfferScan:
    """Finds the candidates of offers in one tier. Safe to share among threads."""

    def __init__(self, tier: Tier, schema: Schema) -> None:
        self.tier = tier
        self._own = frozenset(
            f"{union.subscriber}.{name}"
            for union in schema.unions.values()
            for name in schema.view([union.subscriber]).attributes
        )
        self._index: _TierIndex | None = None
        self._lock = threading.Lock()  # of what is made when it is first asked for, which preparing a batch does

    def find(
        self,
        offers: Sequence[Offer],
        seq: Int64s | None = None,
        arrival: Int64s | None = None,
        *,
        threads: int = 1,
    ) -> OfferCandidates:
        """Return the candidates of analysed offers, each as of its seq and arrival (microseconds) where these are given."""
        with self._lock:
            if self._index is None:
                computed = {attribute.name for offer in offers for attribute in offer.computed}
                self._index = _TierIndex(self.tier, self._own, computed)
            batch = _Batch(self._index, offers)
        return batch.candidates(seq, arrival, threads)


class _TierIndex:
    """What the scan keeps for a tier: rows, bitmaps as they are asked for, computed values."""

    def __init__(self, tier: Tier, own: frozenset[str], computed: set[str]) -> None:
        self.segment, self.encoder = tier.segment, tier.encoder
        self.rows = TierRows(tier.segment, computed)
        self.computing = Computing(self.rows, tier.encoder.coders, own)
        self.facts = np.zeros((0, k.FACTS), np.int64)
        self.empty = np.zeros((self.rows.size + 63) // 64, np.uint64)
        self._entered: list[BitmapIndex] = []
        self._properties: dict[str, PropertyIndex] = {}
        self._hulls: dict[int, HullIndex] = {}
        self._numbers: dict[tuple[str, str | int], int] = {}

    def property(self, name: str) -> PropertyIndex | None:
        """Return a property of the rows; None where no row has it."""
        found = self._properties.get(name)
        if found is None and name in self.segment.properties:
            column = self.segment.properties[name].column
            found = self._properties[name] = PropertyIndex(column, self.rows.number)
        return found

    def hull(self, column: int) -> HullIndex:
        """Return the hulls of the rows in a column."""
        found = self._hulls.get(column)
        if found is None:
            found = self._hulls[column] = HullIndex(self.rows, column)
        return found

    def number(self, kind: str, of: str | int) -> int:
        """Return the number, among the facts, of a property, or of the low or high ends of a column's hulls."""
        found = self._numbers.get((kind, of))
        if found is None:
            bitmaps = self._properties[of].bitmaps if isinstance(of, str) else self.hull(of).bitmaps(kind)
            found = self._numbers[kind, of] = len(self.facts)
            self._entered.append(bitmaps)  # whose addresses are in use
            self.facts = np.concatenate([self.facts, np.array([bitmaps.facts()], np.int64)])
        return found


class _Batch:
    """The work on one batch of offers."""

    def __init__(self, index: _TierIndex, offers: Sequence[Offer]) -> None:
        self.index, self.offers = index, offers
        self.rules = Rules(offers, index.property)
        self.computed: list[Computed] = []  # of each offer, with what was kept when the batch began
        self.alike: dict[tuple[tuple[str, int], ...], tuple[Computed, list[int]]] = {}
        for at, offer in enumerate(offers):
            key = tuple([(each.name, id(each.formula)) for each in offer.computed])  # the offers hold them
            known = self.alike.get(key)
            if known is None:
                found = [index.computing.of(each) for each in offer.computed]
                known = self.alike[key] = tuple((each, each.kept) for each in found), []
            self.computed.append(known[0])
            known[1].append(at)
        self.static = self._encoded()
        self.requests, self.starts = self._requests().by_offer()
        self.facts = index.facts

    def candidates(self, seq: Int64s | None, arrival: Int64s | None, threads: int) -> OfferCandidates:
        """Return the candidates of all offers."""
        positions, starts = self._scan(threads)
        offer = np.repeat(np.arange(len(self.offers), dtype=np.int32), np.diff(starts))
        live = self._live(offer, positions, seq, arrival)
        if live is not None:
            offer, positions = offer[live], positions[live]
            starts = np.searchsorted(offer, np.arange(len(self.offers) + 1))
        work = Survivors(self.index.computing, self.offers, self.computed, self.rules.rest, self.static)
        return work.candidates(offer, positions, starts)

    # --- what the offers have -----------------------------------------------------------------------------------------

    def _encoded(self) -> Static:
        """Return the static values as codes: ABSENT, or UNKNOWN where the offer computes the attribute."""
        coded = self.index.encoder.encode(EventObjects(self.offers))
        least = np.ascontiguousarray(coded.codes)
        greatest = least.copy()
        lists: dict[int, tuple[Int64s, k.Int32s]] = {}
        several = np.zeros(len(self.offers), np.bool_)
        for column, found in coded.multiples.items():
            count = np.diff(found.offset)
            some = np.flatnonzero(count)
            # A text without a known word has code 0, which no word has.
            least[column] = greatest[column] = np.where(found.present, 0, k.ABSENT)
            least[column, some] = found.codes[found.offset[some]]
            greatest[column, some] = found.codes[found.offset[some + 1] - 1]
            if (count > 1).any():
                several |= count > 1
                lists[column] = found.offset, found.codes
        for computed, offers in self.alike.values():
            for known, _ in computed:
                for column in self.index.computing.coders(known.attribute.name):
                    least[column, offers] = greatest[column, offers] = k.UNKNOWN
        codes = least.copy() if lists else least
        for column in lists:  # the number of the offer's list
            codes[column] = np.where(least[column] >= 0, np.arange(len(self.offers)), least[column])
        return Static(codes, least, greatest, lists, several)

    # --- requests and scan --------------------------------------------------------------------------------------------

    def _requests(self) -> Requests:
        index = self.index
        requests = Requests(len(self.offers))
        for (name, op), (offers, operands) in self.rules.slots.items():
            found = index.property(name)
            if found is not None and offers:
                low, high = found.intervals(op, operands)
                requests.ask(np.array(offers), index.number("property", name), low, high)
        if self.rules.refused:
            requests.ask(np.array(self.rules.refused), k.NO_COLUMN, index.empty.ctypes.data, 0)
        for column in range(len(self.static.codes)):
            self._ask_column(requests, column)
        for computed, alike in self.alike.values():
            for _, kept in computed:
                if kept is not None and kept.accepting is not None:
                    requests.ask(np.array(alike), k.NO_COLUMN, kept.accepting.ctypes.data, 0)
        return requests

    def _ask_column(self, requests: Requests, column: int) -> None:
        """Ask for the rows that accept what the offers have in a column."""
        least, greatest = self.static.least[column], self.static.greatest[column]
        hull = self.index.hull(column)
        absent = least == k.ABSENT
        if absent.any() and not hull.all_optional:
            requests.ask(np.flatnonzero(absent), k.NO_COLUMN, hull.optional.ctypes.data, 0)
        here = least >= 0
        if hull.is_equality:
            if hull.least_low == hull.greatest_low:  # what all rows ask
                here &= (least > hull.least_low) | (greatest < hull.least_low)
            if (chosen := np.flatnonzero(here)).size:
                requests.ask(chosen, self.index.number("low", column), least[chosen], greatest[chosen])
            return
        # What all rows accept need not be asked.
        chosen = np.flatnonzero(here & (greatest < hull.greatest_low))
        if chosen.size:
            requests.ask(chosen, self.index.number("low", column), k.LEAST, greatest[chosen])
        chosen = np.flatnonzero(here & (least > hull.least_high))
        if chosen.size:
            requests.ask(chosen, self.index.number("high", column), least[chosen], k.MOST)

    def _scan(self, threads: int) -> tuple[k.Int32s, Int64s]:
        """Return the positions that each offer's requests leave, one offer's after another's, and where each starts."""
        requests, starts, facts, size = self.requests, self.starts, self.facts, self.index.rows.size
        bitmaps, checked = np.empty((len(requests), k.PLACES), np.int64), np.empty(len(requests), np.bool_)
        k.resolve(facts, requests, self.index.empty.ctypes.data, bitmaps, checked)
        blocks = -(-size // (64 * k.BLOCK))
        if size // 64 * len(requests) < _WORTH_A_THREAD:
            threads = 1
        shares = min(threads, max(blocks, 1))
        edges = [blocks * share // shares for share in range(shares + 1)]
        parts = [
            _Part(k.ScanRequests(facts, requests, starts, bitmaps, checked, size), len(self.offers), first, last)
            for first, last in itertools.pairwise(edges)
        ]
        helpers = [threading.Thread(target=part.run) for part in parts[1:]]
        for one in helpers:
            one.start()
        parts[0].run()
        for one in helpers:
            one.join()
        offsets = np.zeros(len(self.offers) + 1, np.int64)
        np.cumsum(np.add.reduce([np.add.reduce(part.found, dtype=np.int64) for part in parts]), out=offsets[1:])
        positions = np.empty(offsets[-1], np.int32)
        places = offsets[:-1].copy()
        for part in parts:
            k.collect(part.out, part.found, places, positions)
        return positions, offsets

    def _live(self, offer: k.Int32s, positions: k.Int32s, seq: Int64s | None, arrival: Int64s | None) -> k.Flags | None:
        """Return which pairs are of a living row, and of a subscription that is live for the offer; None: all."""
        segment = self.index.segment
        live = self.index.rows.alive(positions)
        seqs = np.full(len(self.offers), NOW, np.int64) if seq is None else seq
        created, deleted, start, end = segment.lifetimes()
        latest_creation, earliest_deletion, latest_start, earliest_end = segment.lifetime_bounds()
        tests: list[k.Flags] = [] if live is None else [live]
        number = self.index.rows.number[positions] if len(created) or len(deleted) or arrival is not None else positions
        if len(created) and latest_creation >= seqs.min(initial=NOW):
            tests.append(created[number] < seqs[offer])
        if len(deleted) and earliest_deletion <= seqs.max(initial=0):
            tests.append(deleted[number] > seqs[offer])
        if arrival is not None and len(start) and latest_start > arrival.min(initial=NOW):
            tests.append(start[number] <= arrival[offer])
        if arrival is not None and len(end) and earliest_end <= arrival.max(initial=-NOW):
            tests.append(end[number] > arrival[offer])
        return np.logical_and.reduce(tests) if tests else None


class _Part:
    """The blocks of a scan that one thread does."""

    def __init__(self, asked: k.ScanRequests, offers: int, first: int, last: int) -> None:
        self._asked, self._first, self._last, self._block = asked, first, last, np.empty(k.BLOCK, np.uint64)
        self.state = np.array([first, 0, 0])
        self.found = np.zeros((last - first, offers), np.int32)
        self.out = np.empty(_FIRST_ROWS + offers * ((last - first) * 64 * k.BLOCK // _ROW_SHARE), np.int32)

    def run(self) -> None:
        while not k.scan(self._asked, self._first, self._last, self._block, self.state, self.out, self.found):
            larger = np.empty(2 * len(self.out), np.int32)
            larger[: self.state[2]] = self.out[: self.state[2]]
            self.out = larger


# The book.


OfferId = str | int
AT_ONCE = 4_096  # offers that are scanned together


class OfferBook:
    """Offers by id, in the order in which they came. Not safe to share among threads."""

    def __init__(self, schema: Schema, operators: Operators = NO_OPERATORS) -> None:
        self.schema, self.operators = schema, operators
        self.decided = 0  # pairs that the definition was asked about
        self._offers: dict[OfferId, Offer] = {}

    def __len__(self) -> int:
        return len(self._offers)

    def __contains__(self, id: object) -> bool:
        return id in self._offers

    def __iter__(self) -> Iterator[tuple[OfferId, Offer]]:
        return iter(list(self._offers.items()))

    def add(self, id: OfferId, offer: Offer) -> None:
        """Hold an offer; raises DuplicateName."""
        if id in self._offers:
            raise DuplicateName("offer", str(id))
        self._offers[id] = offer

    def remove(self, id: OfferId) -> None:
        """Let go of an offer; raises UnknownOffer."""
        if self._offers.pop(id, None) is None:
            raise UnknownOffer(id)

    def query(self, subscription: BoundSubscription) -> list[tuple[OfferId, Verdict]]:
        """Return the offers that a subscription matches, in the order in which they came; verdicts have what is computed."""
        found: list[tuple[OfferId, Verdict]] = []
        for id in self._possible(subscription):
            self.decided += 1
            verdict = decide(subscription, self._offers[id], self.operators)
            if verdict.matched:
                found.append((id, verdict))
        return found

    def _possible(self, subscription: BoundSubscription) -> Iterator[OfferId]:
        """Yield the offers that the scan does not rule out."""
        segment = build_segment(compile_table(self.schema, [(0, normalise(subscription))]))
        scan = OfferScan(Tier("asked", segment), self.schema)
        remaining = iter(self)
        while chunk := list(islice(remaining, AT_ONCE)):
            candidates = scan.find([offer for _, offer in chunk])
            yield from (chunk[at][0] for at in dict.fromkeys(candidates.offer.tolist()))
