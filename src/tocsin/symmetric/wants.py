"""What subscribers want, by row: bounds in arrays where a condition is an interval, the rest as formulas.

For a set of rows, `check` decides all conditions on an offer's static and computed values in a few array operations per
attribute: each row has the lowest and highest key that it wants of an attribute. Keys are those of the domain, as
floats; texts are numbered. Parts that are no interval are evaluated as formulas, equal parts of many rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.errors import FormulaFailed
from tocsin.language.formula import ConditionFormula
from tocsin.language.formula_columns import EXACT, Bools, Column
from tocsin.language.formula_semantics import is_true
from tocsin.language.formula_vector import condition_column
from tocsin.language.syntax import Node
from tocsin.symmetric.bitmaps import BLOCK, BitmapIndex, Words, between_bounds, within
from tocsin.symmetric.bounds import Bound, Keys, Sides
from tocsin.symmetric.columns import Growing, Rows
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.relax import relaxed
from tocsin.symmetric.subscriber import Subscriber

_SAMPLE = 20_000
_TOGETHER = 8  # rows with an equal part, from which on it is evaluated over columns


_Side = tuple[npt.NDArray[Any], BitmapIndex]


class Part(NamedTuple):
    """A conjunct that is no bound: its formula, and what of it the static attributes decide (see relax.py)."""

    number: int  # the same for equal formulas
    formula: ConditionFormula
    node: Node
    exact: bool


class Checked(NamedTuple):
    """Which rows satisfy their conditions, and which cannot be told: something failed."""

    holds: Bools
    doubtful: Bools


class Wants:
    """The conditions of all subscribers."""

    def __init__(self, meeting: Meeting | Sides) -> None:
        self.meeting = meeting
        self.own = frozenset(meeting.property_domains)
        self.size = 0
        self._low: dict[str, Growing] = {}
        self._high: dict[str, Growing] = {}
        self._low_bits: dict[str, BitmapIndex] = {}  # only of attributes that some row bounds on this side
        self._high_bits: dict[str, BitmapIndex] = {}
        self._all_present = Growing(np.bool_, False)
        self.keys = Keys(meeting)
        self._parts: dict[int, tuple[Part, ...]] = {}
        self._has_parts = Growing(np.bool_, False)
        self._loose: set[int] = set()  # rows that an engine has not in full
        self._numbers: dict[ConditionFormula, int] = {}
        self.formulas_evaluated = 0

    # --- rows ---------------------------------------------------------------------------------------------------------

    def append(self, subscriber: Subscriber) -> None:
        """Add the conditions of the next row."""
        bounds: list[Bound] = []
        parts: list[Part] = []
        for formula in subscriber.parts:
            node, exact = relaxed(formula.root, subscriber.properties, self.own, frozenset())
            bound = self.keys.bound_of(node) if exact else None
            if bound is not None:
                bounds.append(bound)
            else:
                number = self._numbers.setdefault(formula, len(self._numbers))
                parts.append(Part(number, formula, node, exact))
        row = self.size
        self.append_bounds(bounds)
        if parts:
            self._has_parts.array[row] = True
            self._parts[row] = tuple(parts)

    def append_bounds(self, bounds: Iterable[Bound]) -> None:
        """Add a row whose conditions are bounds alone."""
        row = self.size
        self.size += 1
        for attribute, low, high in bounds:
            lows, highs = self._bounds(attribute, low, high)
            lows[row], highs[row] = max(lows[row], low), min(highs[row], high)
        self._has_parts.append(False)

    def extend(self, size: int, bounds: Sequence[Bound], rows: Rows, which: npt.NDArray[Any]) -> None:
        """Add the conditions of the next rows: of row rows[i], counted from here, the bound bounds[which[i]]."""
        start = self.size
        self.size += size
        self._has_parts.reach(self.size)
        low, high = np.array([one.low for one in bounds]), np.array([one.high for one in bounds])
        for attribute in dict.fromkeys(one.attribute for one in bounds):
            mine = np.array([one.attribute == attribute for one in bounds])
            chosen = mine[which]
            if chosen.any():
                lows, highs = self._bounds(attribute, float(low[mine].max()), float(high[mine].min()))
                np.maximum.at(lows, start + rows[chosen], low[which[chosen]])
                np.minimum.at(highs, start + rows[chosen], high[which[chosen]])

    def _bounds(self, attribute: str, low: float, high: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the arrays of an attribute's bounds, now that some row has such a low and high."""
        if attribute not in self._low:
            self._low[attribute], self._high[attribute] = Growing(np.float64, -np.inf), Growing(np.float64, np.inf)
        if low != -np.inf:
            self._low_bits.setdefault(attribute, BitmapIndex())
        if high != np.inf:
            self._high_bits.setdefault(attribute, BitmapIndex())
        return self._reached(self._low[attribute]), self._reached(self._high[attribute])

    def forget(self, row: int) -> None:
        """Let go of what a row keeps beside the arrays."""
        self._parts.pop(row, None)
        self._loose.discard(row)

    def loosen(self, row: int) -> None:
        """Remember that an engine does not decide all of the row's conditions on static attributes."""
        self._loose.add(row)

    def keep(self, rows: Rows) -> None:
        """Let go of all rows but these, which are numbered anew."""
        for bounds in (self._low, self._high):
            for growing in bounds.values():
                growing.reach(self.size)
                growing.keep(rows)
        self._has_parts.keep(rows)
        self._loose = set()
        self._parts = {row: self._parts[old] for row, old in enumerate(rows.tolist()) if old in self._parts}
        self._low_bits = {attribute: BitmapIndex() for attribute in self._low_bits}
        self._high_bits = {attribute: BitmapIndex() for attribute in self._high_bits}
        self.size = len(rows)
        self._all_present = Growing(np.bool_, False)

    # --- nodes for the engine -----------------------------------------------------------------------------------------

    def static_nodes(self, subscriber: Subscriber, dynamic: frozenset[str]) -> list[Node]:
        """Return predicates on static attributes that hold whenever the subscriber's condition may hold."""
        return [relaxed(part.root, subscriber.properties, self.own, dynamic).node for part in subscriber.parts]

    # --- rows by their bounds ------------------------------------------------------------------------------------------

    def indexes(self) -> Iterator[tuple[str, _Side | None, _Side | None]]:
        """Yield each attribute with its lowest and its highest keys, and the bitmaps over them; None where all are free."""
        for attribute in self._low:
            yield (
                attribute,
                self._side(attribute, self._low, self._low_bits),
                self._side(attribute, self._high, self._high_bits),
            )

    def _side(self, attribute: str, bounds: Mapping[str, Growing], indexes: Mapping[str, BitmapIndex]) -> _Side | None:
        bits = indexes.get(attribute)
        if bits is None:
            return None
        keys = self._reached(bounds[attribute])
        bits.reach(keys, self._reached(self._all_present))
        return keys, bits

    def order(self, dynamic: frozenset[str]) -> Rows | None:
        """Return the rows in an order that puts those with like bounds together; None where bounds tell nothing.

        First by attributes that must have one value, those with the fewest first while they leave whole blocks, then by
        one more that is bounded at all. Dynamic attributes are left out: no bitmap asks about their bounds.
        """
        blocks = max(1, self.size // (64 * BLOCK))
        single: list[tuple[int, Any]] = []
        ranged: list[Any] = []
        for attribute in self._low:
            lows, highs = self._reached(self._low[attribute]), self._reached(self._high[attribute])
            sample = slice(None, None, max(1, self.size // _SAMPLE))
            some_low, some_high = lows[sample], highs[sample]
            if attribute in dynamic:
                continue
            if (some_low == some_high).mean() > 0.5:
                single.append((len(np.unique(some_low)), lows))
            elif (np.isfinite(some_low) | np.isfinite(some_high)).mean() > 0.5:
                ranged.append(highs if np.isfinite(some_high).mean() > 0.5 else lows)
        keys: list[Any] = []
        combined = 1
        for distinct, lows in sorted(single, key=lambda one: one[0]):
            if combined < blocks:
                keys.append(lows)
                combined *= distinct
        if ranged and combined < blocks:
            keys.append(ranged[0])
        return np.lexsort(keys[::-1]) if keys else None

    def bounds(self, attribute: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Return the lowest and the highest key of an attribute that each row wants; None where no row wants any."""
        if attribute not in self._low:
            return None
        return self._reached(self._low[attribute]), self._reached(self._high[attribute])

    @property
    def with_parts(self) -> Bools | None:
        """Which rows have conditions that are no bounds; None where there are no such rows."""
        return self._has_parts.array if self._parts else None

    def narrow(self, found: Words, attributes: Iterable[str], offer_row: Mapping[str, Any]) -> list[str]:
        """Take from a bitmap rows that the offer's values are out of bounds for; return the attributes still to refine."""
        unsure: list[str] = []
        for attribute in attributes:
            if attribute not in self._low:
                continue
            keys = self._wanted_keys(attribute, offer_row)
            if keys is None:
                unsure.append(attribute)
                continue
            below, above = keys
            exact = True
            for bits, bounds, low, high in (
                (self._low_bits.get(attribute), self._low, None, below),
                (self._high_bits.get(attribute), self._high, above, None),
            ):
                if bits is not None:
                    bits.reach(self._reached(bounds[attribute]), self._reached(self._all_present))
                    bits.narrow(found, low, high)
                    exact &= bits.exact
            if not exact:
                unsure.append(attribute)
        return unsure

    def refine(self, rows: Rows, attributes: Iterable[str], offer_row: Mapping[str, Any]) -> tuple[Rows, list[str]]:
        """Return the rows that the offer's values are within the bounds of, and the attributes that could not be told."""
        unsure: list[str] = []
        for attribute in attributes:
            if attribute not in self._low:
                continue
            keys = self._wanted_keys(attribute, offer_row)
            if keys is None:
                unsure.append(attribute)
                continue
            below, above = keys
            present = self._reached(self._all_present)
            if attribute in self._low_bits:
                rows = within(rows, self._reached(self._low[attribute]), present, None, below)
            if attribute in self._high_bits:
                rows = within(rows, self._reached(self._high[attribute]), present, above, None)
        return rows, unsure

    def _wanted_keys(self, attribute: str, offer_row: Mapping[str, Any]) -> tuple[float, float] | None:
        """Return what a row's low may be at most, and its high at least; None where no float says so."""
        if attribute not in self._low:
            return None
        value = offer_row.get(attribute)
        if value is None:
            return -math.inf, math.inf
        key = self.keys.key(attribute, self.meeting.event_domains[attribute], value)
        return None if key is None else (key, key)

    def _reached(self, growing: Growing) -> npt.NDArray[Any]:
        growing.reach(self.size)
        return growing.array

    # --- checking -----------------------------------------------------------------------------------------------------

    def check(
        self,
        rows: Rows,
        attributes: Iterable[str],
        offer_row: Mapping[str, Any],
        computed: Mapping[str, Column],
        subscriber_of: Callable[[int], Subscriber],
        *,
        found_statically: bool,
        later: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
    ) -> Checked:
        """Return which of the rows satisfy their bounds on these attributes, and their other parts.

        `computed` has the dynamic attributes, a value for each of `rows`. Rows found by the static index need no check
        of what that has decided. Parts that refer to an attribute in `later` are left out, and where `only` is given,
        those that refer to none of it.
        """
        holds = np.ones(len(rows), np.bool_)
        doubtful = np.zeros(len(rows), np.bool_)
        for attribute in attributes:
            if attribute in self._low:
                holds &= self._within(attribute, rows, offer_row, computed, doubtful)
        by_part: dict[int, tuple[Part, list[int]]] = {}
        with_parts = np.flatnonzero(holds & self._has_parts.array[rows]).tolist() if self._parts else []
        for place in with_parts:
            row = int(rows[place])
            indexed = found_statically and row not in self._loose
            for part in self._parts[row]:
                names = part.formula.names
                decided = indexed and part.exact and computed.keys().isdisjoint(names)
                if decided or not later.isdisjoint(names) or (only is not None and only.isdisjoint(names)):
                    continue
                by_part.setdefault(part.number, (part, []))[1].append(place)
        self._check_parts(by_part, rows, offer_row, computed, subscriber_of, holds, doubtful)
        return Checked(holds, doubtful & holds)

    def _within(
        self,
        attribute: str,
        rows: Rows,
        offer_row: Mapping[str, Any],
        computed: Mapping[str, Column],
        doubtful: Bools,
    ) -> Bools:
        lows, highs = self._reached(self._low[attribute]), self._reached(self._high[attribute])
        if attribute in computed:
            keys, present, inexact = self._keys(attribute, computed[attribute])
            if inexact is None:
                return between_bounds(rows, lows, highs, keys, present)
            low, high = lows[rows], highs[rows]
            free: Bools = (low == -np.inf) & (high == np.inf)
            doubtful |= inexact & ~free
            held: Bools = inexact | free | (present & (low <= keys) & (keys <= high))
            return held
        low, high = lows[rows], highs[rows]
        free = (low == -np.inf) & (high == np.inf)
        value = offer_row.get(attribute)
        if value is None:
            return free
        key = self.keys.key(attribute, self.meeting.event_domains[attribute], value)
        if key is None:  # a number that no float is: the definition tells
            doubtful |= ~free
            return np.ones(len(rows), np.bool_)
        wanted: Bools = (low <= key) & (key <= high)
        return wanted

    def _keys(self, attribute: str, column: Column) -> tuple[npt.NDArray[np.float64], Bools, Bools | None]:
        """Return the keys of a computed column, where it has a value, and where no float is exactly that (None: nowhere)."""
        present = ~column.absent
        if column.members is None:
            if column.values.dtype == np.float64:
                return column.values, present, None
            inexact = present & ((column.values > EXACT) | (column.values < -EXACT))
            return column.values.astype(np.float64), present, inexact if inexact.any() else None
        members: tuple[Any, ...] = column.members
        listed = [None if v is None else self.keys.key(attribute, column.domain, v) for v in members]
        keys = np.array([np.nan if key is None else key for key in listed], np.float64)[column.values]
        return keys, present, present & np.isnan(keys)

    def _check_parts(
        self,
        by_part: Mapping[int, tuple[Part, list[int]]],
        rows: Rows,
        offer_row: Mapping[str, Any],
        computed: Mapping[str, Column],
        subscriber_of: Callable[[int], Subscriber],
        holds: Bools,
        doubtful: Bools,
    ) -> None:
        """Take from `holds` the rows that a part refuses, and mark in `doubtful` those that it fails for."""
        for part, places in by_part.values():
            self.formulas_evaluated += len(places)
            if len(places) >= _TOGETHER and self.own.isdisjoint(part.formula.names):
                taken = np.array(places)
                columns = {name: computed[name].take(taken) for name in part.formula.names if name in computed}
                found = condition_column(part.formula, columns, len(places), offer_row)
                failed = np.zeros(len(places), np.bool_) if found.failed is None else found.failed != 0
                holds[taken] &= found.holds | failed
                doubtful[taken] |= failed
                continue
            for place in places:
                subscriber = subscriber_of(int(rows[place]))
                values = {name: column.value(place) for name, column in computed.items()}
                try:
                    holds[place] &= is_true(part.formula.root, {**offer_row, **subscriber.properties, **values})
                except FormulaFailed:
                    doubtful[place] = True
