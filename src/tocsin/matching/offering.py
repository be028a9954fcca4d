"""Offering: whom offers match, by the scan over property columns, then the deciders.

The scan (offers/scan.py) finds rows that nothing refuses so far, with what offers compute for them. What is left is decided
here: the checks of rows (deciders.py), and rules that call operators, which the definition decides for those that are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.errors import FormulaFailed
from tocsin.index.encode import EventObjects
from tocsin.language.formula_columns import ValueColumn, joined
from tocsin.language.offer import Offer
from tocsin.language.semantics import Situation, satisfying
from tocsin.language.syntax import OperatorCall, leaves
from tocsin.matching.deciders import Candidates
from tocsin.schema import Event, Value

if TYPE_CHECKING:
    from tocsin.language.formula import ConditionFormula
    from tocsin.matching.columnar.tier_reader import TierReader
    from tocsin.matching.engine import Inquiry
    from tocsin.offers.survivors import OfferCandidates
    from tocsin.operators.problem import EventEvaluation

Int64s = npt.NDArray[np.int64]
_NOBODY = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class OfferMatches:
    """Whom one offer matches: what is told of each subscription, and, in the same order, what is computed for it."""

    told: npt.NDArray[Any]
    computed: Mapping[str, ValueColumn]

    def __len__(self) -> int:
        return len(self.told)

    def values(self) -> list[dict[str, Value | None]]:
        """Return what is computed for each."""
        listed = {name: column.to_list() for name, column in self.computed.items()}
        return [{name: values[at] for name, values in listed.items()} for at in range(len(self))]


def match_offers(
    readers: Sequence[TierReader], offers: Sequence[Offer], numbers: Sequence[int], inquiry: Inquiry,
    seq: Int64s | None = None, arrival: Int64s | None = None, threads: int = 1,
) -> list[OfferMatches]:  # fmt: skip
    """Return whom each offer matches. They are the events of these numbers of a batch; the inquiry is told what failed."""
    each = [_TierOffers(reader, offers, numbers, inquiry).match(seq, arrival, threads) for reader in readers]
    if len(each) == 1:
        return each[0]
    return [_together([found[at] for found in each], offer) for at, offer in enumerate(offers)]


def _together(parts: Sequence[OfferMatches], offer: Offer) -> OfferMatches:
    told = np.concatenate([part.told for part in parts]) if parts else _NOBODY
    some = [part for part in parts if len(part)]
    if not some:
        return OfferMatches(told, {})
    names = [attribute.name for attribute in offer.computed]
    return OfferMatches(told, {name: joined([part.computed[name] for part in some]) for name in names})


class _TierOffers:
    """The offers of a batch and one tier."""

    def __init__(self, reader: TierReader, offers: Sequence[Offer], numbers: Sequence[int], inquiry: Inquiry) -> None:
        self.reader, self.offers, self.inquiry = reader, offers, inquiry
        self.numbers = np.array(numbers, np.int64)
        self.source = EventObjects(offers)
        self.asking = [_asks_operators(offer) for offer in offers]

    def match(self, seq: Int64s | None, arrival: Int64s | None, threads: int) -> list[OfferMatches]:
        found = self.reader.offers.find(self.offers, seq, arrival, threads=threads)
        held = self._decide(found)
        chosen = np.arange(len(found)) if held is None else np.flatnonzero(held)
        if len(self.reader.tier.segment.repeated):  # a subscription is told once, whichever of its rows hold
            pairs = found.offer[chosen].astype(np.int64) << 32 | found.number[chosen]
            chosen = chosen[np.sort(np.unique(pairs, return_index=True)[1])]
        told = self.reader.ids(found.number[chosen]).copy()  # its memory is used again
        ends = np.searchsorted(found.offer[chosen], np.arange(len(self.offers) + 1)).tolist()
        whole = len(chosen) == len(found)
        columns = {name: column if whole else column.take(chosen) for name, column in found.computed.items()}
        return [
            OfferMatches(
                told[ends[at] : ends[at + 1]],
                {each.name: columns[each.name].part(slice(ends[at], ends[at + 1])) for each in offer.computed}
                if ends[at + 1] > ends[at]
                else {},
            )
            for at, offer in enumerate(self.offers)
        ]

    def _decide(self, found: OfferCandidates) -> npt.NDArray[np.bool_] | None:
        """Return which candidates hold, None for all; tell the inquiry what failed and the values of variables."""
        deciders = self.reader.deciders
        position = np.searchsorted(deciders.rows, found.row)
        checked = np.zeros(len(found), np.bool_)
        if len(deciders.rows):
            inside = position < len(deciders.rows)
            checked[inside] = deciders.rows[position[inside]] == found.row[inside]
        failing = found.failure != 0
        asking = np.array(self.asking, np.bool_)[found.offer] if any(self.asking) else np.zeros(len(found), np.bool_)
        special = np.flatnonzero(checked | failing | asking)
        if not len(special):
            return None
        candidates = self._rest(found, special, position, checked)
        held = np.ones(len(found), np.bool_)
        held[special] = candidates.held()
        self._note(found, special, candidates, held)
        return held

    def _rest(
        self, found: OfferCandidates, special: Int64s, position: Int64s, checked: npt.NDArray[np.bool_]
    ) -> Candidates:
        """Return what became of candidates that more is to be said about."""
        computed = {name: column.take(special) for name, column in found.computed.items()}
        candidates = Candidates(found.offer[special].astype(np.int64), position[special], computed)
        for at in np.flatnonzero(found.failure[special]).tolist():
            candidates.fail(at, found.reasons[int(found.failure[special[at]]) - 1])
        for at in np.flatnonzero(np.array(self.asking)[candidates.event]).tolist() if any(self.asking) else ():
            self._decide_rules(candidates, at, int(found.number[special[at]]))
        with_checks = np.flatnonzero(checked[special] & candidates.open)
        for which, names in self._computing_alike(candidates, with_checks):
            part = candidates.part(which, names)
            self.reader.deciders.decide(part, self.source, _Renumbered(self.inquiry, self.numbers))  # type: ignore[arg-type]
            candidates.take_over(which, part)
        return candidates

    def _computing_alike(self, candidates: Candidates, which: Int64s) -> Iterator[tuple[Int64s, frozenset[str]]]:
        """Yield parts of the candidates whose offers compute the same attributes, with these: what others compute is given."""
        names = [frozenset(each.name for each in offer.computed) for offer in self.offers]
        kinds = {each: kind for kind, each in enumerate(dict.fromkeys(names))}
        kind_of = np.array([kinds[each] for each in names])[candidates.event[which]]
        for each, kind in kinds.items():
            chosen = which[kind_of == kind]
            if len(chosen):
                yield chosen, each

    def _decide_rules(self, candidates: Candidates, at: int, number: int) -> None:
        """Decide the rules of an offer for a subscriber, by the definition."""
        offer = self.offers[int(candidates.event[at])]
        asked = self.reader.deciders.asked
        evaluation = self._evaluation(int(candidates.event[at]))
        values, failed = candidates.values(at, offer)
        values.update((name, (value,)) for name, value in self.reader.tier.segment.properties_of(number).items())
        first: str | None = None
        for rule in offer.rules:
            try:
                with asked.lock:
                    if not satisfying(rule.root, Situation(values, asked.finder(evaluation), failed)):
                        candidates.open[at] = False
                        return
            except FormulaFailed as error:
                first = first or error.reason
        if first is not None:
            candidates.fail(at, first)

    def _evaluation(self, offer: int) -> EventEvaluation:
        return self.inquiry.evaluation(int(self.numbers[offer]), self.offers[offer], self.reader.deciders.asked)

    def _note(
        self, found: OfferCandidates, special: Int64s, candidates: Candidates, held: npt.NDArray[np.bool_]
    ) -> None:
        ids, inquiry = self.reader.id_of, self.inquiry
        for at, reason in candidates.failure.items():
            if candidates.open[at]:
                event = int(self.numbers[candidates.event[at]])
                inquiry.failures.setdefault((event, ids(int(found.number[special[at]]))), reason)
        for at, bindings in candidates.bindings.items():
            if held[special[at]]:
                offer, number = found.offer[special[at]], found.number[special[at]]
                key = (int(self.numbers[offer]), ids(int(number)))
                inquiry.hold(*key, bindings)
                same = np.flatnonzero(held & (found.offer == offer) & (found.number == number))
                with_bindings = {int(special[other]) for other in candidates.bindings}
                if any(other not in with_bindings for other in same.tolist()):
                    inquiry.hold(*key, ())


class _Renumbered:
    """An inquiry as deciders ask it, about events that have other numbers in the batch."""

    def __init__(self, inquiry: Inquiry, numbers: Int64s) -> None:
        self._inquiry, self._numbers = inquiry, numbers

    def evaluation(self, number: int, event: Event, asked: Any) -> EventEvaluation:
        return self._inquiry.evaluation(int(self._numbers[number]), event, asked)


def _asks_operators(offer: Offer) -> bool:
    return any(map(_calls, offer.rules))


def _calls(rule: ConditionFormula) -> bool:
    return any(isinstance(leaf, OperatorCall) and leaf.function is None for leaf in leaves(rule.root))
