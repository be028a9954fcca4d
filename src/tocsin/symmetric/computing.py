"""Dynamic attributes over numbers: their machines, and columns of values that are kept.

A formula that asks about the subscriber alone gives the same value for every offer. So once it has been computed for as
many rows as there are, it is computed for all of them, and kept: with a bitmap of the rows whose own bounds the value is
within. From then on the formula costs an offer as much as one more bound. New rows are computed when they are next needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.language.formula_columns import Column
from tocsin.symmetric.bitmaps import between_bounds
from tocsin.symmetric.columns import Growing, Rows
from tocsin.symmetric.machine import Machine
from tocsin.symmetric.machine_code import machine_for
from tocsin.symmetric.matched import Work
from tocsin.symmetric.offer import DynamicAttribute
from tocsin.symmetric.roster import Roster

MOST_MACHINES = 1_024
MOST_KEPT = 8
FEWEST_KEPT = 1_000  # rows from which on values are kept


class KeptColumn:
    """An attribute's values for all rows of a roster, and which rows' own bounds they are within."""

    def __init__(self, attribute: DynamicAttribute, machine: Machine) -> None:
        self.attribute, self.machine = attribute, machine
        self.size = 0
        self.doubts = self.absents = 0
        self.address = 0  # of the bitmap of rows whose bounds the value is within, or that are doubtful
        self._wide: type = np.int64 if machine.domain.type == "int" else np.float64
        self._values = Growing(np.int32 if machine.domain.type == "int" else np.float32)  # while that is exact
        self._absent = Growing(np.bool_)
        self._doubtful = Growing(np.bool_)
        self._fitting = Growing(np.bool_)
        self._words = Growing(np.uint64)

    def reach(self, roster: Roster) -> bool:
        """Compute the rows that came since; return whether that could be done."""
        start, size = self.size, len(roster.ids)
        if start == size:
            return True
        rows = np.arange(start, size)
        found = self.machine.run(roster.properties, rows, {})
        if found is None:
            return False
        column, doubtful = found
        bounds = roster.wants.bounds(self.attribute.name)
        fitting = np.ones(len(rows), np.bool_)
        if bounds is not None:
            keys = column.values.astype(np.float64)  # the machine is sure of whole numbers that floats hold
            fitting = between_bounds(rows, *bounds, keys, ~column.absent) | doubtful
        values = self._values.array
        if values.dtype != self._wide and (column.values.astype(values.dtype) != column.values).any():
            self._values = Growing(self._wide)
            self._values.extend(values)
        for kept, fresh in (
            (self._values, column.values), (self._absent, column.absent), (self._doubtful, doubtful),
            (self._fitting, fitting),
        ):  # fmt: skip
            kept.extend(fresh)
        self.doubts += int(doubtful.sum())
        self.absents += int(column.absent.sum())
        first = start // 64
        self._words.reach((size + 63) // 64)
        packed = np.packbits(self._fitting.array[first * 64 :], bitorder="little")
        self._words.array[first:].view(np.uint8)[: len(packed)] = packed
        self.address = self._words.array.ctypes.data
        self.size = size
        return True

    def take(self, rows: npt.NDArray[Any]) -> Column:
        """Return the values of these rows."""
        absent = self._absent.array.take(rows) if self.absents else np.zeros(len(rows), np.bool_)
        return Column(self.attribute.domain, self._values.array.take(rows).astype(self._wide, copy=False), absent)

    def doubtful(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
        """Return for which of the rows the value is doubtful; None: for none."""
        return self._doubtful.array.take(rows) if self.doubts else None


@dataclass(slots=True)
class Computation:
    """How an attribute is computed: by its machine (None: it has none), or from what is kept."""

    attribute: DynamicAttribute
    machine: Machine | None
    computed: int = 0  # rows so far
    kept: KeptColumn | None = None


class Computing:
    """The machines and kept columns of dynamic attributes, by the attributes' identity; the last ones are kept."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.kept_rows = 0  # that were computed in order to be kept
        self._known: dict[int, Computation] = {}
        self._rebuilds = roster.rebuilds

    def of(self, attribute: DynamicAttribute) -> Computation:
        """Return how the attribute is computed now."""
        if self._rebuilds != self.roster.rebuilds:  # rows have other numbers
            self._rebuilds = self.roster.rebuilds
            for one in self._known.values():
                one.kept = None
        known = self._known.get(id(attribute))
        if known is None or known.attribute is not attribute:
            machine = machine_for(attribute.formula, attribute.domain, self.roster.meeting.property_domains)
            while len(self._known) >= MOST_MACHINES:
                del self._known[next(iter(self._known))]
            known = self._known[id(attribute)] = Computation(attribute, machine)
        self._keep(known)
        return known

    def _keep(self, one: Computation) -> None:
        """Keep the values where that pays, and bring what is kept up to date."""
        size = len(self.roster.ids)
        if one.kept is None:
            if one.machine is None or one.machine.asks_offer or size < FEWEST_KEPT or one.computed < size:
                return
            one.kept = KeptColumn(one.attribute, one.machine)
            holders = [other for other in self._known.values() if other.kept is not None]
            if len(holders) > MOST_KEPT:
                holders[0].kept, holders[0].computed = None, 0
        before = one.kept.size
        if one.kept.reach(self.roster):
            self.kept_rows += size - before
        else:
            one.kept, one.computed = None, -(2**62)  # a column holds what no machine takes

    def compute(
        self, one: Computation, rows: Rows, offer_row: Mapping[str, Any], work: Work, kept: KeptColumn | None
    ) -> tuple[Column, npt.NDArray[np.bool_] | None] | None:
        """Return an attribute's values for these rows, and which are doubtful (None: none); None where it has no machine."""
        if kept is not None:
            work.kept_rows += len(rows)
            return kept.take(rows), kept.doubtful(rows)
        found = None if one.machine is None else one.machine.run(self.roster.properties, rows, offer_row)
        if found is not None:
            one.computed += len(rows)
            work.dynamic_rows += len(rows)
        return found
