"""OfferScan: the candidates of a batch of offers in one tier of an index.

    1. what the offers ask becomes requests: intervals of properties (rules), codes (static values), rows that accept what
       is computed, where that is kept (requests.py)
    2. one scan intersects the bitmaps of all requests, for all offers (scan_kernel.py); what is not live goes
    3. rules that are no intervals and ask for nothing computed; rows that hulls do not tell exactly
    4. computed attributes for who is left (computing.py), then rows that ask about those, then the other rules

A pair that something refuses is no candidate, whatever fails elsewhere. A pair that nothing refuses but something fails is
one, with the reason: that of the first computed attribute that fails, else of the first rule. What rows have beside
predicates over codes (checks), and rules that call operators, are not decided here.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.properties import united
from tocsin.index.encode import EventObjects
from tocsin.index.segment import FOREVER
from tocsin.language.formula_columns import Column, absent_column
from tocsin.language.formula_vector import condition_column
from tocsin.offers import scan_kernel as k
from tocsin.offers.bitmaps import BitmapIndex
from tocsin.offers.computing import CodedPairs, CodedValues, Computing, Kept, Known, compute, given_of
from tocsin.offers.requests import HullIndex, PropertyIndex, Requests, Rest, Rules
from tocsin.offers.rows import TierRows

if TYPE_CHECKING:
    from tocsin.index.tier import Tier
    from tocsin.language.offer import Offer
    from tocsin.schema import Schema

Int64s = npt.NDArray[np.int64]
NOW = FOREVER - 1
_FIRST_ROWS = 4 * 64 * k.BLOCK
_ROW_SHARE = 128  # of the rows, one in so many is expected to be left to an offer
_WORTH_A_THREAD = 5_000_000  # words of bitmaps to intersect, before any is passed over
_NOT_FAILED = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pairs of an offer and a row that nothing refused so far, ordered by offer.

    `computed` has the attributes that offers compute, a value for each candidate; absent where its offer computes no such
    attribute. failure[i] is 0, or the number of the reason (from 1) why something could not be computed or decided.
    """

    offer: k.Int32s  # position among the offers
    number: k.Int32s  # of the subscription, in the segment
    row: k.Int32s  # of the segment: the conjunction that may hold
    computed: dict[str, Column]
    failure: k.Int32s
    reasons: list[str]

    def __len__(self) -> int:
        return len(self.offer)


class OfferScan:
    """Finds the candidates of offers in one tier. Not safe to share among threads."""

    def __init__(self, tier: Tier, schema: Schema) -> None:
        self.tier, self.schema = tier, schema
        self._own = frozenset(
            f"{union.subscriber}.{name}"
            for union in schema.unions.values()
            for name in schema.view([union.subscriber]).attributes
        )
        self._index: _TierIndex | None = None

    def find(
        self,
        offers: Sequence[Offer],
        seq: Int64s | None = None,
        arrival: Int64s | None = None,
        *,
        threads: int = 1,
    ) -> Candidates:
        """Return the candidates of analysed offers, each as of its seq and arrival (microseconds) where these are given."""
        if self._index is None:
            computed = {attribute.name for offer in offers for attribute in offer.computed}
            self._index = _TierIndex(self.tier, self._own, computed)
        return _Batch(self._index, offers).candidates(seq, arrival, threads)


class _TierIndex:
    """What the scan keeps for a tier: rows, bitmaps as they are asked for, computed values."""

    def __init__(self, tier: Tier, own: frozenset[str], computed: set[str]) -> None:
        self.segment, self.encoder, self.own = tier.segment, tier.encoder, own
        self.rows = TierRows(tier.segment, computed)
        self.computing = Computing(self.rows, tier.encoder.coders, own)
        self.names = [coder.column.attribute for coder in tier.encoder.coders]
        self.facts = np.zeros((0, k.FACTS), np.int64)
        self.empty = np.zeros((self.rows.size + 63) // 64, np.uint64)
        self._entered: list[BitmapIndex] = []
        self._properties: dict[str, PropertyIndex] = {}
        self._hulls: dict[int, HullIndex] = {}
        self._numbers: dict[tuple[str, str | int], int] = {}

    # Where the rules find properties.

    def has(self, name: str) -> bool:
        return name in self.segment.properties

    def get(self, name: str) -> PropertyIndex | None:
        found = self._properties.get(name)
        if found is None:
            column = self.segment.properties[name].column
            found = self._properties[name] = PropertyIndex(column, self.rows.number)
        return found

    def hull(self, column: int) -> HullIndex:
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
            self._entered.append(bitmaps)
            self.facts = np.concatenate([self.facts, np.array([bitmaps.facts()], np.int64)])
        return found


@dataclass(slots=True)
class _Group:
    """Offers whose candidates are looked at together."""

    computed: tuple[tuple[Known, Kept | None], ...]  # each with what was kept when the scan began
    offers: list[int] = field(default_factory=list)
    rest: Sequence[Rest] = ()  # where it is one offer


@dataclass(slots=True)
class _Pairs:
    """Candidates on their way: which offer, which row (by position), what was computed, what failed first."""

    offer: k.Int32s
    position: k.Int32s
    columns: dict[str, Column]
    rank: k.Int32s  # of what failed first: computed attributes come before rules
    reason: k.Int32s

    @classmethod
    def of(cls, offer: k.Int32s, position: k.Int32s) -> _Pairs:
        return cls(offer, position, {}, np.full(len(offer), _NOT_FAILED, np.int32), np.zeros(len(offer), np.int32))

    def __len__(self) -> int:
        return len(self.offer)

    def keep(self, chosen: k.Flags) -> None:
        """Let go of all pairs but these."""
        if chosen.all():
            return
        self.offer, self.position = self.offer[chosen], self.position[chosen]
        self.rank, self.reason = self.rank[chosen], self.reason[chosen]
        self.columns = {name: column.take(chosen) for name, column in self.columns.items()}


class _Batch:
    """The work on one batch of offers."""

    def __init__(self, index: _TierIndex, offers: Sequence[Offer]) -> None:
        self.index, self.offers = index, offers
        self.reasons: dict[str, int] = {}
        self.rules = Rules(offers, index)
        self.groups = self._grouped()
        self._encode()

    def candidates(self, seq: Int64s | None, arrival: Int64s | None, threads: int) -> Candidates:
        positions, starts = self._scan(threads)
        offer = np.repeat(np.arange(len(self.offers), dtype=np.int32), np.diff(starts))
        live = self._live(offer, positions, seq, arrival)
        if live is not None:
            offer, positions = offer[live], positions[live]
            starts = np.searchsorted(offer, np.arange(len(self.offers) + 1))
        done: list[_Pairs] = []
        for group in self.groups:
            done.append(self._finished(group, self._pairs_of(group, offer, positions, starts)))
        return self._joined(done)

    # --- what the offers have -----------------------------------------------------------------------------------------

    def _grouped(self) -> list[_Group]:
        """Return the offers in groups: together where they compute the same, ask the same and need nothing else."""
        computing = self.index.computing
        together: dict[tuple[int, ...], _Group] = {}
        groups: list[_Group] = []
        for at, offer in enumerate(self.offers):
            key = tuple([id(each.formula) for each in offer.computed])  # the offers hold them
            group = together.get(key)
            rest = self.rules.rest.get(at, ())
            if group is None or rest:
                known = [computing.of(each) for each in offer.computed]
                group = _Group(tuple((each, each.kept) for each in known), [], rest)
                groups.append(group)
                if not rest and all(each.is_lasting for each in known):
                    together[key] = group
            group.offers.append(at)
        return groups

    def _encode(self) -> None:
        """Code the static values: codes[c, o], ABSENT, or UNKNOWN where the offer computes the attribute."""
        coded = self.index.encoder.encode(EventObjects(self.offers))
        self.least = np.ascontiguousarray(coded.codes)
        self.greatest = self.least.copy()
        self.lists: dict[int, tuple[Int64s, k.Int32s]] = {}
        self.several = np.zeros(len(self.offers), np.bool_)  # offers with several codes in a column
        for column, found in coded.multiples.items():
            count = np.diff(found.offset)
            some = np.flatnonzero(count)
            # A text without a known word has code 0, which no word has.
            self.least[column] = self.greatest[column] = np.where(found.present, 0, k.ABSENT)
            self.least[column, some] = found.codes[found.offset[some]]
            self.greatest[column, some] = found.codes[found.offset[some + 1] - 1]
            if (count > 1).any():
                self.several |= count > 1
                self.lists[column] = found.offset, found.codes
        for group in self.groups:
            for known, _ in group.computed:
                for column in self.index.computing.coders(known.attribute.name):
                    self.least[column, group.offers] = self.greatest[column, group.offers] = k.UNKNOWN
        self.codes = self.least.copy() if self.lists else self.least
        for column in self.lists:  # the number of the offer's list
            self.codes[column] = np.where(self.least[column] >= 0, np.arange(len(self.offers)), self.least[column])

    # --- requests and scan --------------------------------------------------------------------------------------------

    def _requests(self) -> Requests:
        index = self.index
        requests = Requests(len(self.offers))
        for (name, op), (offers, operands) in self.rules.slots.items():
            if offers:
                low, high = index.get(name).intervals(op, operands)  # type: ignore[union-attr]
                requests.ask(np.array(offers), index.number("property", name), low, high)
        if self.rules.refused:
            requests.ask(np.array(self.rules.refused), k.NO_COLUMN, index.empty.ctypes.data, 0)
        for column in range(len(self.codes)):
            self._ask_column(requests, column)
        for group in self.groups:
            for _, kept in group.computed:
                if kept is not None and kept.accepting is not None:
                    requests.ask(np.array(group.offers), k.NO_COLUMN, kept.accepting.ctypes.data, 0)
        return requests

    def _ask_column(self, requests: Requests, column: int) -> None:
        """Ask for the rows that accept what the offers have in a column."""
        least, greatest = self.least[column], self.greatest[column]
        hull = self.index.hull(column)
        absent = least == k.ABSENT
        if absent.any() and not hull.all_optional:
            requests.ask(np.flatnonzero(absent), k.NO_COLUMN, hull.optional.ctypes.data, 0)
        here = least >= 0
        if hull.is_equality:
            if (chosen := np.flatnonzero(here)).size:
                number = self.index.number("low", column)
                requests.ask(chosen, number, least[chosen].astype(np.int64), greatest[chosen].astype(np.int64))
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
        index = self.index
        requests, starts = self._requests().by_offer()
        bitmaps, checked = np.empty((len(requests), k.PLACES), np.int64), np.empty(len(requests), np.bool_)
        k.resolve(index.facts, requests, index.empty.ctypes.data, bitmaps, checked)
        size = index.rows.size
        blocks = -(-size // (64 * k.BLOCK))
        if size // 64 * len(requests) < _WORTH_A_THREAD:
            threads = 1
        shares = min(threads, max(blocks, 1))
        edges = [blocks * share // shares for share in range(shares + 1)]
        parts = [
            _Part((index.facts, requests, starts, bitmaps, checked, size), len(self.offers), first, last)
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

    # --- what comes after it ------------------------------------------------------------------------------------------

    def _pairs_of(self, group: _Group, offer: k.Int32s, positions: k.Int32s, starts: Int64s) -> _Pairs:
        if len(group.offers) == len(self.offers):
            return _Pairs.of(offer, positions)
        spans = [slice(starts[at], starts[at + 1]) for at in group.offers]
        if len(spans) == 1:
            return _Pairs.of(offer[spans[0]], positions[spans[0]])
        return _Pairs.of(
            np.concatenate([offer[span] for span in spans]), np.concatenate([positions[span] for span in spans])
        )

    def _finished(self, group: _Group, pairs: _Pairs) -> _Pairs:
        """Return those of a group's pairs that nothing refuses, with what was computed for them."""
        names = {known.attribute.name for known, _ in group.computed}
        early = [each for each in group.rest if names.isdisjoint(each.condition.names)]
        self._decide_rules(early, group, pairs)
        rows = self.index.rows
        if rows.some_loose or self.lists:
            unsure = rows.loose[pairs.position] | self.several[pairs.offer]
            if unsure.any():
                self._decide_rows(pairs, np.flatnonzero(unsure), {})
        if not group.computed:
            return pairs
        coded = self._compute(group, pairs)
        # Rows that accept what is kept were found by the scan, unless hulls do not tell all that they ask.
        if coded:
            self._decide_rows(pairs, np.arange(len(pairs)), self._with_kept(group, pairs, coded))
        elif rows.some_loose and (unsure := rows.loose[pairs.position]).any():
            self._decide_rows(pairs, np.flatnonzero(unsure), self._with_kept(group, pairs, coded))
        self._decide_rules([each for each in group.rest if each not in early], group, pairs)
        return pairs

    @staticmethod
    def _with_kept(group: _Group, pairs: _Pairs, coded: CodedPairs) -> CodedPairs:
        for _, kept in group.computed:
            if kept is not None:
                coded |= kept.codes(pairs.position)
        return coded

    def _decide_rows(self, pairs: _Pairs, chosen: Int64s, coded: CodedPairs) -> None:
        """Let go of those of the chosen pairs whose rows do not hold."""
        computed = {column: (values[chosen], of) for column, (values, of) in coded.items()}
        given = given_of(self.codes, self.lists, computed)
        keep = np.ones(len(pairs), np.bool_)
        keep[chosen] = self.index.rows.holding(given, pairs.position[chosen], pairs.offer[chosen])
        pairs.keep(keep)

    def _compute(self, group: _Group, pairs: _Pairs) -> CodedPairs:
        """Add the computed attributes to the pairs; return what those that are not kept are in the tier's columns."""
        computing = self.index.computing
        coded: CodedPairs = {}
        properties: dict[str, Column] | None = None
        constants = self.offers[group.offers[0]].values  # where it is asked for, the group is one offer
        for rank, (known, kept) in enumerate(group.computed):
            attribute = known.attribute
            if kept is not None:
                column = kept.take(pairs.position)
            else:
                if properties is None:
                    properties = self._properties(group, self.index.rows.number[pairs.position])
                column = compute(attribute, {**properties, **pairs.columns}, len(pairs), constants)
                known.computed += len(pairs)
                for at, coder in computing.coders(attribute.name).items():
                    of = CodedValues(coder, column)
                    coded[at] = of.values, of
            pairs.columns[attribute.name] = column
            if column.failed is not None:
                self._mark(pairs, rank - len(group.computed), column.failed, column.reasons)
        return coded

    def _properties(self, group: _Group, number: k.Int32s) -> dict[str, Column]:
        """Return the properties that the group's formulas and rules mention."""
        stored = self.index.segment.properties
        formulas = [known.attribute.formula.names for known, _ in group.computed] + [
            each.condition.names for each in group.rest
        ]
        return {name: stored[name].column.take(number) for names in formulas for name in names if name in stored}

    def _decide_rules(self, rest: Iterable[Rest], group: _Group, pairs: _Pairs) -> None:
        """Let go of the pairs that a rule refuses, and mark those for which one fails."""
        for each in rest:
            columns = {**self._properties(group, self.index.rows.number[pairs.position]), **pairs.columns}
            constants = self.offers[group.offers[0]].values
            found = condition_column(each.condition, columns, len(pairs), constants)
            keep = found.holds
            if found.failed is not None:
                keep = keep | (found.failed != 0)
                self._mark(pairs, each.rule, found.failed, found.reasons)
            pairs.keep(keep)

    def _mark(self, pairs: _Pairs, rank: int, failed: k.Int32s, reasons: tuple[str, ...]) -> None:
        """Remember why pairs failed, unless something of a lower rank did."""
        numbers = np.array([0, *(self.reasons.setdefault(each, len(self.reasons) + 1) for each in reasons)], np.int32)
        first = (failed != 0) & (rank < pairs.rank)
        pairs.rank[first], pairs.reason[first] = rank, numbers[failed[first]]

    def _joined(self, done: Sequence[_Pairs]) -> Candidates:
        """Return the candidates of all groups, in the order of the offers."""
        order: Int64s | None = None
        if len(done) == 1:
            (whole,) = done
        else:
            columns = self._joined_columns(done)
            whole = _Pairs(
                np.concatenate([pairs.offer for pairs in done] or [np.zeros(0, np.int32)]),
                np.concatenate([pairs.position for pairs in done] or [np.zeros(0, np.int32)]),
                columns,
                np.zeros(0, np.int32),
                np.concatenate([pairs.reason for pairs in done] or [np.zeros(0, np.int32)]),
            )
            order = np.argsort(whole.offer, kind="stable")
            whole.offer, whole.position, whole.reason = whole.offer[order], whole.position[order], whole.reason[order]
            whole.columns = {name: column.take(order) for name, column in columns.items()}
        rows = self.index.rows
        return Candidates(
            whole.offer, rows.number[whole.position], rows.row[whole.position], whole.columns, whole.reason,
            list(self.reasons),
        )  # fmt: skip

    @staticmethod
    def _joined_columns(done: Sequence[_Pairs]) -> dict[str, Column]:
        domains = {name: column.domain for pairs in done for name, column in pairs.columns.items()}
        return {
            name: united([pairs.columns.get(name) or absent_column(domain, len(pairs)) for pairs in done])
            for name, domain in domains.items()
        }


class _Part:
    """The blocks of a scan that one thread does."""

    def __init__(self, given: tuple[Any, ...], offers: int, first: int, last: int) -> None:
        self._arguments: tuple[Any, ...] = (*given, first, last, np.empty(k.BLOCK, np.uint64))
        self.state = np.array([first, 0, 0])
        self.found = np.zeros((last - first, offers), np.int32)
        self.out = np.empty(_FIRST_ROWS + offers * ((last - first) * 64 * k.BLOCK // _ROW_SHARE), np.int32)

    def run(self) -> None:
        while not k.scan(*self._arguments, self.state, self.out, self.found):  # type: ignore[call-arg]
            larger = np.empty(2 * len(self.out), np.int32)
            larger[: self.state[2]] = self.out[: self.state[2]]
            self.out = larger
