"""Batches: many offers matched at once, by bitmaps over both sides (scan_kernel.py).

Offers are planned in their order. Those for which the planner chooses bitmaps wait, and are matched together: their first
survivors are found by one scan, and those with the same dynamic attributes are computed together. All others, and
survivors that need more than a kernel, take the stages one by one (stages.py). The answers are the same either way.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.language.formula_columns import Column
from tocsin.symmetric import scan_kernel as k
from tocsin.symmetric.bitmaps import BLOCK, between_bounds
from tocsin.symmetric.columns import Rows
from tocsin.symmetric.computing import Computation, KeptColumn
from tocsin.symmetric.directory import Directory
from tocsin.symmetric.matched import Matched
from tocsin.symmetric.offer import Offer
from tocsin.symmetric.plan import SWITCHED_OFF, LaterPlan, LaterPlans, Plan, first_not_by_bitmaps
from tocsin.symmetric.prepared import Asked, Prepared, Preparer
from tocsin.symmetric.stages import Stages

AT_ONCE = 256  # offers that are scanned together
_FIRST_ROWS = 4 * 64 * BLOCK
_WORTH_A_THREAD = 5_000_000  # words of bitmaps to intersect, before any is passed over
_GIVEN = np.array([k.NO_COLUMN, 0, 0]).tobytes()
_ROW_SHARE = 128  # of the rows, one in so many is expected to be left to an offer


class _Ready(NamedTuple):
    """How a dynamic attribute is computed, and the kept values whose bitmap the scan uses."""

    computation: Computation
    kept: KeptColumn | None

    @property
    def is_alone(self) -> bool:
        """Whether offers are to be computed one by one."""
        machine = self.computation.machine
        return machine is None or (self.kept is None and machine.asks_offer)


class _Group(NamedTuple):
    """Offers with the same dynamic attributes are computed together."""

    number: int  # -1 where offers are to be computed one by one
    computed: tuple[_Ready, ...]
    kept: tuple[int, ...]  # the addresses of kept values' bitmaps
    dynamic: frozenset[str]
    share: int  # where in the shares is what is expected of conditions


@dataclass(slots=True)
class _Batch:
    """Offers that are matched together, with what was made of each."""

    offers: Sequence[Offer]
    asked: list[Asked]
    groups: list[_Group]
    starts: list[int]  # of each offer's requests, and where the last ones end
    resolved: _Resolved
    plans: LaterPlans
    known: dict[int, Plan] = field(default_factory=dict)  # of offers that were planned one by one

    def plan(self, at: int) -> Plan | LaterPlan:
        return self.known.get(at) or (self.plans, at)

    def number(self, at: int) -> int:
        """Return the group that the offer is computed with, -1 where it is computed alone."""
        return self.groups[at].number if self.asked[at].prepared.is_plain else -1


@dataclass(slots=True)
class _Resolved:
    """The requests of a batch, and the bitmaps that they are."""

    requests: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    bitmaps: npt.NDArray[np.int64]
    checked: npt.NDArray[np.bool_]


class Batches:
    """Matches batches of offers over the stages' roster. Not safe to share among threads."""

    def __init__(self, stages: Stages) -> None:
        self.stages, self.roster = stages, stages.roster
        self.directory = Directory(self.roster)
        self.preparer = Preparer(self.roster, self.directory)

    def make_ready(self, offer: Offer) -> None:
        """Make what matching the offer needs, the end of its analysis."""
        self.preparer.ask(offer)
        for attribute in offer.dynamic:
            self.stages.computing.of(attribute)

    def match(self, offers: Sequence[Offer], *, threads: int = 1) -> list[Matched]:
        """Return whom each offer matches."""
        found: list[Matched] = []
        for start in range(0, len(offers), AT_ONCE):
            found += self._match(offers[start : start + AT_ONCE], threads)
        return found

    def _match(self, offers: Sequence[Offer], threads: int) -> list[Matched]:
        if self.roster.is_scattered and any(offer.rules for offer in offers):
            self.roster.cluster(frozenset(attribute.name for offer in offers for attribute in offer.dynamic))
        asked = [self.preparer.ask(offer) for offer in offers]
        if not self.stages.rule_indexes:
            return [
                self.stages.match(offer, one.prepared, SWITCHED_OFF) for offer, one in zip(offers, asked, strict=True)
            ]
        groups = _Groups(self.stages)
        mine = [groups.of(offer, one) for offer, one in zip(offers, asked, strict=True)]
        starts, resolved = self._resolve(asked, mine)
        plans = LaterPlans(
            offers, [one.prepared.predicates for one in asked], resolved.counts, starts, len(self.roster),
            np.empty(len(offers)),
        )  # fmt: skip
        return self._planned(_Batch(offers, asked, mine, starts, resolved, plans), groups, threads)

    def _planned(self, batch: _Batch, groups: _Groups, threads: int) -> list[Matched]:
        """Return whom the offers match: by stages where that is the way, else by one scan."""
        found: list[Matched | None] = [None] * len(batch.offers)
        waiting: list[tuple[int, int]] = []  # group and place
        sizes = np.frombuffer(b"".join([one.weights for one in batch.asked]), np.int64).reshape(-1, 2)
        share_of, shares = np.array([group.share for group in batch.groups]), np.array(groups.shares)
        starts, counts, at = np.array(batch.starts), batch.resolved.counts, 0
        while at < len(found):
            stop = first_not_by_bitmaps(at, counts, starts, sizes, len(self.roster), share_of, shares)
            batch.plans.shares[at:stop] = shares[share_of[at:stop]]
            waiting += [(batch.number(place), place) for place in range(at, stop)]
            if stop < len(found):
                offer, prepared, group = batch.offers[stop], batch.asked[stop].prepared, batch.groups[stop]
                mine = counts[batch.starts[stop] :][: len(prepared.predicates)].tolist()
                plan = batch.known[stop] = self.stages.plan(offer, prepared, mine)
                if plan.by_bitmaps:
                    waiting.append((batch.number(stop), stop))
                else:
                    found[stop] = self.stages.match(offer, prepared, plan)
                    shares[group.share] = self.stages.static_share(group.dynamic)
            at = stop + 1
        if waiting:
            waiting.sort()
            self._scanned(batch, waiting, threads, found)
        return found  # type: ignore[return-value]

    def _resolve(self, asked: Sequence[Asked], groups: Sequence[_Group]) -> tuple[list[int], _Resolved]:
        """Return where each offer's requests start, and all requests resolved."""
        pieces: list[bytes] = []
        starts = [0]
        given: list[tuple[int, int]] = []  # requests with a bitmap of kept values
        end = 0
        for one, group in zip(asked, groups, strict=True):
            pieces.append(one.requests)
            end += one.size
            for address in group.kept:
                given.append((end, address))
                pieces.append(_GIVEN)
                end += 1
            starts.append(end)
        requests = np.frombuffer(b"".join(pieces), np.int64).reshape(-1, 3)
        counts, bitmaps, checked = np.empty(end, np.int64), np.empty((end, k.PLACES), np.int64), np.empty(end, np.bool_)
        k.resolve(self.directory.facts, requests, self.directory.empty, counts, bitmaps, checked)
        for place, address in given:
            bitmaps[place, 0] = address
        return starts, _Resolved(requests, counts, bitmaps, checked)

    # --- the scan -----------------------------------------------------------------------------------------------------

    def _scanned(
        self, batch: _Batch, waiting: list[tuple[int, int]], threads: int, found: list[Matched | None]
    ) -> None:
        """Find whom the waiting offers match."""
        rows, offsets, tested = self._scan([at for _, at in waiting], batch.starts, batch.resolved, threads)
        work = self.stages.work
        work.rules_first += len(waiting)
        work.rule_rows += tested
        first = 0
        while first < len(waiting):
            number, last = waiting[first][0], first + 1
            while last < len(waiting) and waiting[last][0] == number >= 0:
                last += 1
            group = [at for _, at in waiting[first:last]]
            for at, matched in zip(group, self._finish(batch, group, rows, offsets[first : last + 1]), strict=True):
                found[at] = matched
            first = last

    def _scan(
        self, waiting: list[int], starts: Sequence[int], resolved: _Resolved, threads: int
    ) -> tuple[Rows, npt.NDArray[np.int64], int]:
        """Return the rows that each offer's bitmaps and values leave, one offer's after another's, and where each starts."""
        every = np.array(starts)
        chosen = np.array(waiting)
        first_requests, stops = every[chosen], every[chosen + 1]
        size = len(self.roster.ids)
        blocks = -(-size // (64 * BLOCK))
        if size // 64 * int((stops - first_requests).sum()) < _WORTH_A_THREAD:
            threads = 1
        shares = min(threads, max(blocks, 1))
        edges = [blocks * share // shares for share in range(shares + 1)]
        parts = [
            _Part(self, resolved, first_requests, stops, size, first, last) for first, last in itertools.pairwise(edges)
        ]
        helpers = [threading.Thread(target=part.run) for part in parts[1:]]
        for one in helpers:
            one.start()
        parts[0].run()
        for one in helpers:
            one.join()
        counts = np.add.reduce([np.add.reduce(part.found, dtype=np.int64) for part in parts])
        offsets = np.zeros(len(waiting) + 1, np.int64)
        counts.cumsum(out=offsets[1:])
        rows = np.empty(offsets[-1], np.int64)
        places = offsets[:-1].copy()
        for part in parts:
            k.collect(part.out, part.found, places, rows)
        return rows, offsets, sum(int(part.tested.sum()) for part in parts)

    # --- what comes after it ------------------------------------------------------------------------------------------

    def _finish(self, batch: _Batch, group: list[int], all_rows: Rows, offsets: npt.NDArray[np.int64]) -> list[Matched]:
        """Return whom the offers of one group match, of the rows that the scan has left them."""
        base = int(offsets[0])
        rows, offsets = all_rows[base : offsets[-1]], offsets - base
        bounds = offsets.tolist()
        computed, prepared = batch.groups[group[0]].computed, batch.asked[group[0]].prepared

        def by_stages(place: int) -> Matched:
            at = group[place]
            mine = rows[bounds[place] : bounds[place + 1]]
            return self.stages.match_found(batch.offers[at], batch.asked[at].prepared, batch.plan(at), mine)

        if not prepared.is_plain or any(one.computation.machine is None for one in computed):
            return [by_stages(place) for place in range(len(group))]
        columns: dict[str, Column] = {}
        with_parts = self.roster.wants.with_parts
        special = np.zeros(len(rows), np.bool_) if with_parts is None else with_parts.take(rows)
        holds = self._compute(computed, prepared, rows, columns, special)
        if holds is None:
            return [by_stages(place) for place in range(len(group))]
        slow = (
            set((np.searchsorted(offsets, np.flatnonzero(special), "right") - 1).tolist()) if special.any() else set()
        )
        matched_rows, spans = rows, bounds
        if not holds.all():
            spans = np.concatenate(([0], np.cumsum(holds)))[offsets].tolist()
            matched_rows = rows[holds]
            columns = {name: column.take(holds) for name, column in columns.items()}
        ids = self.roster.ids.of(matched_rows)
        work = self.stages.work
        found: list[Matched] = []
        for place, at in enumerate(group):
            if place in slow:
                found.append(by_stages(place))
                continue
            span = slice(spans[place], spans[place + 1])
            work.offers += 1
            work.matches += spans[place + 1] - spans[place]
            found.append(Matched(ids[span], columns, (), batch.plan(at), span))
        return found

    def _compute(
        self,
        computed: tuple[_Ready, ...],
        prepared: Prepared,
        rows: Rows,
        columns: dict[str, Column],
        special: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.bool_] | None:
        """Compute the dynamic attributes of a group; return which rows they leave, None where that needs the stages.

        Rows for which a value is doubtful are marked in `special`.
        """
        holds = np.ones(len(rows), np.bool_)
        for one in computed:
            attribute = one.computation.attribute
            found = self.stages.computing.compute(one.computation, rows, prepared.row, self.stages.work, one.kept)
            if found is None:
                return None
            column, doubtful = found
            if doubtful is not None:
                special |= doubtful
            bounds = None if one.kept is not None else self.roster.wants.bounds(attribute.name)
            if bounds is not None:
                holds &= between_bounds(rows, *bounds, column.values.astype(np.float64), ~column.absent)
            columns[attribute.name] = column
        return holds


class _Groups:
    """The sets of dynamic attributes in a batch, how they are computed, and what is expected of conditions."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self.shares: list[float] = []
        self._known: dict[tuple[int, ...], _Group] = {}

    def of(self, offer: Offer, asked: Asked) -> _Group:
        """Return the offer's group."""
        return self._known.get(asked.dynamic) or self._made(offer, asked)

    def _made(self, offer: Offer, asked: Asked) -> _Group:
        computations = [self._stages.computing.of(attribute) for attribute in offer.dynamic]
        ready = tuple(_Ready(one, one.kept) for one in computations)
        number = -1 if any(one.is_alone for one in ready) else len(self._known)
        kept = tuple(one.kept.address for one in ready if one.kept is not None)
        names = asked.prepared.dynamic
        share = next((one.share for one in self._known.values() if one.dynamic == names), len(self.shares))
        if share == len(self.shares):
            self.shares.append(self._stages.static_share(names))
        group = self._known[asked.dynamic] = _Group(number, ready, kept, names, share)
        return group


class _Part:
    """The blocks of a scan that one thread does."""

    def __init__(
        self, batches: Batches, resolved: _Resolved, starts: Any, stops: Any, size: int, first: int, last: int
    ) -> None:
        offers = len(starts)
        self._arguments = (
            batches.directory.facts, resolved.requests, starts, stops, resolved.bitmaps,
            resolved.checked, batches.directory.live, size, first, last, np.empty(BLOCK, np.uint64),
        )  # fmt: skip
        self.state = np.array([first, 0, 0])
        self.found = np.zeros((last - first, offers), np.int32)
        self.tested = np.zeros(offers, np.int64)
        self.out = np.empty(_FIRST_ROWS + offers * ((last - first) * 64 * BLOCK // _ROW_SHARE), np.int32)

    def run(self) -> None:
        while not k.scan(*self._arguments, self.state, self.out, self.found, self.tested):
            larger = np.empty(2 * len(self.out), np.int32)
            larger[: self.state[2]] = self.out[: self.state[2]]
            self.out = larger
