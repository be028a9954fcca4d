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
from tocsin.symmetric.bitmaps import between_bounds
from tocsin.symmetric.columns import Rows
from tocsin.symmetric.computing import Computation, Computing, KeptColumn
from tocsin.symmetric.directory import Directory
from tocsin.symmetric.matched import Matched
from tocsin.symmetric.offer import Offer
from tocsin.symmetric.plan import SWITCHED_OFF, Plan
from tocsin.symmetric.prepared import Asked, Prepared, Preparer
from tocsin.symmetric.stages import Stages

AT_ONCE = 256  # offers that are scanned together
_FIRST_ROWS = 4 * 64 * k.BLOCK
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


class _Waiting(NamedTuple):
    """An offer that waits for the scan. Offers of one group are computed together; -1 is no group."""

    group: int
    at: int
    offer: Offer
    prepared: Prepared
    computed: tuple[_Ready, ...]
    plan: Plan


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
        groups = _Groups(self.stages.computing)
        starts, resolved = self._resolve(offers, asked, groups)
        counts = resolved.counts.tolist()
        found: list[Matched | None] = [None] * len(offers)
        waiting: list[_Waiting] = []
        for at, offer in enumerate(offers):
            prepared = asked[at].prepared
            start = starts[at]
            plan = self.stages.plan(offer, prepared, counts[start : start + len(prepared.predicates)])
            if plan.by_bitmaps:
                number, computed = groups.of(offer)
                waiting.append(_Waiting(number if prepared.is_plain else -1, at, offer, prepared, computed, plan))
            else:
                found[at] = self.stages.match(offer, prepared, plan)
        if waiting:
            waiting.sort()  # by groups, and no two are at the same place
            for one, matched in zip(waiting, self._scanned(waiting, starts, resolved, threads), strict=True):
                found[one.at] = matched
        return found  # type: ignore[return-value]

    def _resolve(self, offers: Sequence[Offer], asked: Sequence[Asked], groups: _Groups) -> tuple[list[int], _Resolved]:
        """Return where each offer's requests start, and all requests resolved."""
        pieces: list[bytes] = []
        starts = [0]
        given: list[tuple[int, int]] = []  # requests with a bitmap of kept values
        end = 0
        for offer, one in zip(offers, asked, strict=True):
            pieces.append(one.requests)
            end += one.size
            for ready in groups.of(offer)[1]:
                if ready.kept is not None:
                    given.append((end, ready.kept.address))
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
            group, last = waiting[first].group, first + 1
            while last < len(waiting) and waiting[last].group == group >= 0:
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
        blocks = -(-size // (64 * k.BLOCK))
        if size // 64 * int((stops - first_requests).sum()) < _WORTH_A_THREAD:
            threads = 1
        edges = np.linspace(0, blocks, min(threads, max(blocks, 1)) + 1).astype(np.int64).tolist()
        parts = [
            _Part(self, resolved, first_requests, stops, size, first, last) for first, last in itertools.pairwise(edges)
        ]
        helpers = [threading.Thread(target=part.run) for part in parts[1:]]
        for one in helpers:
            one.start()
        parts[0].run()
        for one in helpers:
            one.join()
        counts = sum(part.found.sum(axis=0, dtype=np.int64) for part in parts)
        offsets = np.zeros(len(waiting) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
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
        if not group[0].prepared.is_plain or any(one.computation.machine is None for one in group[0].computed):
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
        for one in first.computed:
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
    """The sets of dynamic attributes in a batch, and how they are computed."""

    def __init__(self, computing: Computing) -> None:
        self._computing = computing
        self._known: dict[tuple[int, ...], tuple[int, tuple[_Ready, ...]]] = {}

    def of(self, offer: Offer) -> tuple[int, tuple[_Ready, ...]]:
        """Return the number of the offer's group, -1 where it is to be alone, and how its attributes are computed."""
        key = tuple(map(id, offer.dynamic))
        known = self._known.get(key)
        if known is None:
            computations = [self._computing.of(attribute) for attribute in offer.dynamic]
            ready = tuple(_Ready(one, one.kept) for one in computations)
            alone = any(one.is_alone for one in ready)
            known = self._known[key] = (-1 if alone else len(self._known), ready)
        return known


class _Part:
    """The blocks of a scan that one thread does."""

    def __init__(
        self, batches: Batches, resolved: _Resolved, starts: Any, stops: Any, size: int, first: int, last: int
    ) -> None:
        offers = len(starts)
        self._arguments = (
            batches.directory.facts, resolved.requests, starts, stops, resolved.bitmaps,
            resolved.checked, batches.directory.live, size, first, last, np.empty(k.BLOCK, np.uint64),
        )  # fmt: skip
        self.state = np.array([first, 0, 0])
        self.found = np.zeros((last - first, offers), np.int32)
        self.tested = np.zeros(offers, np.int64)
        self.out = np.empty(_FIRST_ROWS + offers * ((last - first) * 64 * k.BLOCK // _ROW_SHARE), np.int32)

    def run(self) -> None:
        while not k.scan(*self._arguments, self.state, self.out, self.found, self.tested):
            larger = np.empty(2 * len(self.out), np.int32)
            larger[: self.state[2]] = self.out[: self.state[2]]
            self.out = larger
