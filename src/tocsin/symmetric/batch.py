"""Batches: many offers matched at once, by bitmaps over both sides (scan_kernel.py).

Offers are planned in their order. Those for which the planner chooses bitmaps wait, and are matched together: their first
survivors are found by one scan, and those with the same dynamic attributes are computed together. All others, and
survivors that need more than a kernel, take the stages one by one (stages.py). The answers are the same either way.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
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
from tocsin.symmetric.plan import SWITCHED_OFF, LaterPlan, Plan, first_not_by_bitmaps
from tocsin.symmetric.prepared import Asked, Prepared, Preparer
from tocsin.symmetric.stages import Stages

AT_ONCE = 256  # offers that are scanned together
_FIRST_ROWS = 4 * 64 * BLOCK
_WORTH_A_THREAD = 100_000  # words of bitmaps to intersect
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


class _Waiting(NamedTuple):
    """An offer that waits for the scan; -1 is no group."""

    number: int
    at: int
    offer: Offer
    prepared: Prepared
    group: _Group
    plan: Plan | LaterPlan


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
        found: list[Matched | None] = [None] * len(offers)
        waiting: list[_Waiting] = []
        every_start, subscribers = np.array(starts), len(self.roster)
        sizes = np.frombuffer(b"".join([one.weights for one in asked]), np.int64).reshape(-1, 2)
        share_of, shares = np.array([group.share for group in mine]), np.array(groups.shares)
        at = 0
        while at < len(offers):
            stop = first_not_by_bitmaps(at, resolved.counts, every_start, sizes, subscribers, share_of, shares)
            for waits in range(at, stop):
                offer, prepared, group = offers[waits], asked[waits].prepared, mine[waits]
                plan = LaterPlan(
                    offer, prepared.predicates, resolved.counts, starts[waits], subscribers, groups.shares[group.share]
                )
                waiting.append(_Waiting(group.number if prepared.is_plain else -1, waits, offer, prepared, group, plan))
            if stop < len(offers):
                self._alone(stop, offers[stop], asked[stop], mine[stop], starts[stop], resolved, waiting, found)
                shares[mine[stop].share] = groups.learn(mine[stop])
            at = stop + 1
        if waiting:
            waiting.sort()  # by groups, and no two are at the same place
            for one, matched in zip(waiting, self._scanned(waiting, starts, resolved, threads), strict=True):
                found[one.at] = matched
        return found  # type: ignore[return-value]

    def _alone(
        self, at: int, offer: Offer, asked: Asked, group: _Group, start: int, resolved: _Resolved,
        waiting: list[_Waiting], found: list[Matched | None],
    ) -> None:  # fmt: skip
        """Plan one offer by itself, and match it where bitmaps are not the way."""
        prepared = asked.prepared
        counts = resolved.counts[start : start + len(prepared.predicates)].tolist()
        plan = self.stages.plan(offer, prepared, counts)
        if plan.by_bitmaps:
            waiting.append(_Waiting(group.number if prepared.is_plain else -1, at, offer, prepared, group, plan))
        else:
            found[at] = self.stages.match(offer, prepared, plan)

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
        counts, bitmaps, checked = np.empty(end, np.int64), np.empty((end, 4), np.int64), np.empty(end, np.bool_)
        k.resolve(self.directory.facts, requests, self.directory.empty, counts, bitmaps, checked)
        for place, address in given:
            bitmaps[place, 0] = address
        return starts, _Resolved(requests, counts, bitmaps, checked)

    # --- the scan -----------------------------------------------------------------------------------------------------

    def _scanned(
        self, waiting: Sequence[_Waiting], starts: Sequence[int], resolved: _Resolved, threads: int
    ) -> list[Matched]:
        """Return whom the waiting offers match, in their order."""
        rows, offsets, tested = self._scan([one.at for one in waiting], starts, resolved, threads)
        work = self.stages.work
        work.rules_first += len(waiting)
        work.rule_rows += tested
        found: list[Matched] = []
        first = 0
        while first < len(waiting):
            number, last = waiting[first].number, first + 1
            while last < len(waiting) and waiting[last].number == number >= 0:
                last += 1
            found += self._finish(waiting[first:last], rows, offsets[first : last + 1])
            first = last
        return found

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

    def _finish(self, group: Sequence[_Waiting], all_rows: Rows, offsets: npt.NDArray[np.int64]) -> list[Matched]:
        """Return whom the offers of one group match, of the rows that the scan has left them."""
        base = int(offsets[0])
        rows, offsets = all_rows[base : offsets[-1]], offsets - base
        bounds = offsets.tolist()
        if not group[0].prepared.is_plain or any(one.computation.machine is None for one in group[0].group.computed):
            return [self._by_stages(one, rows[bounds[at] : bounds[at + 1]]) for at, one in enumerate(group)]
        columns: dict[str, Column] = {}
        with_parts = self.roster.wants.with_parts
        special = np.zeros(len(rows), np.bool_) if with_parts is None else with_parts.take(rows)
        holds = self._compute(group[0], rows, columns, special)
        if holds is None:
            return [self._by_stages(one, rows[bounds[at] : bounds[at + 1]]) for at, one in enumerate(group)]
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
        for at, one in enumerate(group):
            if at in slow:
                found.append(self._by_stages(one, rows[bounds[at] : bounds[at + 1]]))
                continue
            span = slice(spans[at], spans[at + 1])
            work.offers += 1
            work.matches += span.stop - span.start
            found.append(Matched(ids[span], columns, (), one.plan, span))
        return found

    def _by_stages(self, one: _Waiting, rows: Rows) -> Matched:
        return self.stages.match_found(one.offer, one.prepared, one.plan, rows)

    def _compute(
        self, first: _Waiting, rows: Rows, columns: dict[str, Column], special: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_] | None:
        """Compute the dynamic attributes of a group; return which rows they leave, None where that needs the stages.

        Rows for which a value is doubtful are marked in `special`.
        """
        holds = np.ones(len(rows), np.bool_)
        for one in first.group.computed:
            attribute = one.computation.attribute
            found = self.stages.computing.compute(one.computation, rows, first.prepared.row, self.stages.work, one.kept)
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

    def learn(self, group: _Group) -> float:
        """Return what is expected of conditions now that an offer of the group has been matched."""
        self.shares[group.share] = self._stages.static_share(group.dynamic)
        return self.shares[group.share]


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
