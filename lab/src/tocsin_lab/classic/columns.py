"""Columns: predicates and events in labels, the one form in which the papers' engines see them.

A column is an attribute's values, or something derived from each of them (its words, a coordinate), as in
compile/table.py. Columns come to be when a predicate mentions them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.atoms import Among, Bound, Conjunction, Interval, limits_of
from tocsin.compile.table import ConjunctionTable, Derivation, PredicateKind
from tocsin.language.text_patterns import is_like_key, words
from tocsin.schema import EVENT_TYPE, Domain, Event, Schema
from tocsin_lab.classic.labels import HIGHEST, LOWEST, Labels, SparseLabels, WholeLabels
from tocsin_lab.classic.rows import (
    ABSENT,
    NONE_IN,
    NONE_OF,
    PRESENT,
    SOME_IN,
    SOME_OF,
    CodedEvent,
    CodedPredicate,
    PredicateColumns,
    Rows,
    Sets,
)

_SMALL = 2**31  # a whole-numbered domain up to this size needs no dictionary


class ClassicColumn:
    """One column: where its labels come from, and whether an event may have several."""

    def __init__(self, attribute: str, derivation: Derivation, domain: Domain, *, multiple: bool) -> None:
        self.attribute, self.derivation, self.domain = attribute, derivation, domain
        self.multiple = multiple
        limits = limits_of(domain) if derivation == "value" else None
        self.labels: WholeLabels | SparseLabels
        if (
            limits is not None
            and limits.low is not None
            and limits.high is not None
            and limits.high - limits.low < _SMALL
        ):
            self.labels = WholeLabels(limits.low, limits.high)
        else:
            self.labels = SparseLabels()

    @property
    def name(self) -> str:
        return self.attribute if self.derivation == "value" else f"{self.attribute} ({self.derivation})"

    def keys(self, value: Any) -> list[Any]:
        """Return the keys that one value of the attribute has in this column."""
        match self.derivation:
            case "value":
                return [self.domain.key(value)]
            case "words":
                return words(value)
            case "patterns":
                known = self.labels.keys if isinstance(self.labels, SparseLabels) else []
                return [key for key in known if is_like_key(value, key)]
            case "latitude":
                return [value[0]]
            case _:
                return [value[1]]

    def ends(self, interval: Interval) -> tuple[int, int]:
        """Return the interval in labels."""
        low = LOWEST if interval.low is None else self.labels.of_constant(interval.low) + interval.low_open
        high = HIGHEST if interval.high is None else self.labels.of_constant(interval.high) - interval.high_open
        return low, high


class Columns:
    """The columns of one engine."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.columns: list[ClassicColumn] = []
        self.sets = Sets()
        self._numbers: dict[tuple[str, Derivation], int] = {}

    def __len__(self) -> int:
        return len(self.columns)

    def number(self, attribute: str, derivation: Derivation = "value") -> int:
        """Return the number of a column, new or not."""
        found = self._numbers.setdefault((attribute, derivation), len(self._numbers))
        if found == len(self.columns):
            entry = self.schema.view()[attribute]
            multiple = entry.ever_multiple or derivation in ("words", "patterns")
            self.columns.append(ClassicColumn(attribute, derivation, entry.domain, multiple=multiple))
        return found

    # --- predicates ---------------------------------------------------------------------------------------------------

    def code(self, conjunction: Conjunction) -> list[CodedPredicate]:
        """Return the predicates of a conjunction, checks left out; a two-sided range on one value is two predicates."""
        found: list[CodedPredicate] = []
        for atom in conjunction:
            match atom:
                case Among(attribute, derivation, intervals, negated):
                    found += self._among(self.number(attribute, derivation), intervals, negated=negated)
                case Bound(attribute, negated):
                    found.append(CodedPredicate(self.number(attribute), ABSENT if negated else PRESENT))
        return list(dict.fromkeys(found))

    def _among(self, column: int, intervals: tuple[Interval, ...], *, negated: bool) -> list[CodedPredicate]:
        ends = tuple(self.columns[column].ends(interval) for interval in intervals)
        if len(ends) > 1:
            return [CodedPredicate(column, NONE_OF if negated else SOME_OF, *[self.sets.number(column, ends)] * 2)]
        low, high = ends[0]
        if negated:
            return [CodedPredicate(column, NONE_IN, low, high)]
        if self.columns[column].multiple or low == high or low == LOWEST or high == HIGHEST:
            return [CodedPredicate(column, SOME_IN, low, high)]
        return [CodedPredicate(column, SOME_IN, low, HIGHEST), CodedPredicate(column, SOME_IN, LOWEST, high)]

    def code_table(self, table: ConjunctionTable) -> tuple[npt.NDArray[np.int64], PredicateColumns]:
        """Return the predicates of all conjunctions of a table, and where those of each begin; checks left out."""
        numbers = np.array([self.number(each.attribute, each.derivation) for each in table.columns], np.int32)
        low, high = table.low.astype(np.int64), table.high.astype(np.int64)
        for position, column in enumerate(table.columns):
            at = np.flatnonzero((table.column == position) & (table.kind <= PredicateKind.NONE_IN))
            lows, highs = self._label_ends(int(numbers[position]), column.constants)
            low[at], high[at] = lows[table.low[at]], highs[table.high[at]]
        sets = self._code_sets(table, numbers)
        of_set = (table.kind == PredicateKind.SOME_OF) | (table.kind == PredicateKind.NONE_OF)
        low[of_set] = high[of_set] = sets[table.low[of_set]]
        plain = (table.kind == PredicateKind.PRESENT) | (table.kind == PredicateKind.ABSENT)
        low[plain], high[plain] = LOWEST, HIGHEST
        conjunction = np.repeat(np.arange(len(table)), np.diff(table.offset))
        kept = np.flatnonzero(table.kind != PredicateKind.CHECK)
        multiple = np.array([each.multiple for each in table.columns] or [False])
        split = (
            (table.kind == SOME_IN) & ~multiple[table.column] & (low != high) & (low != LOWEST) & (high != HIGHEST)
        )[kept]
        twice = np.repeat(kept, 1 + split)
        second = np.flatnonzero(np.concatenate([[False], twice[1:] == twice[:-1]])) if len(twice) else kept
        low, high = low[twice], high[twice]
        low[second], high[second - 1] = LOWEST, HIGHEST
        offset = np.zeros(len(table) + 1, np.int64)
        np.cumsum(np.bincount(conjunction[twice], minlength=len(table)), out=offset[1:])
        return offset, PredicateColumns(numbers[table.column[twice]], table.kind[twice], low, high)

    def _label_ends(self, number: int, constants: npt.NDArray[Any]) -> tuple[Labels, Labels]:
        """Return the label of a table's code as a lower end, and as an upper end."""
        labels = self.columns[number].labels.of_constants(constants.tolist())
        low = np.empty(2 * len(labels) + 1, np.int64)
        high = np.empty(2 * len(labels) + 1, np.int64)
        low[1::2] = high[1::2] = labels
        low[0], high[-1] = LOWEST, HIGHEST
        low[2::2] = labels + 1
        high[:-1:2] = labels - 1
        return low, high

    def _code_sets(self, table: ConjunctionTable, numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return our number of each set of a table."""
        column_of_set = np.zeros(len(table.set_offset) - 1, np.int64)
        of_set = (table.kind == PredicateKind.SOME_OF) | (table.kind == PredicateKind.NONE_OF)
        column_of_set[table.low[of_set]] = table.column[of_set]
        found = []
        for i, position in enumerate(column_of_set.tolist()):
            lows, highs = self._label_ends(int(numbers[position]), table.columns[position].constants)
            at = slice(int(table.set_offset[i]), int(table.set_offset[i + 1]))
            ends = zip(lows[table.set_low[at]].tolist(), highs[table.set_high[at]].tolist(), strict=True)
            found.append(self.sets.number(int(numbers[position]), tuple(ends)))
        return np.array(found, np.int64)

    def follow_moves(self, rows: Rows) -> bool:
        """Bring rows and sets up to date with labels that were spread anew; return whether there were any."""
        moved = False
        for number, column in enumerate(self.columns):
            if (move := column.labels.spread_if_needed()) is not None:
                rows.move(number, *move)
                self.sets.move(number, *move)
                moved = True
        return moved

    # --- events -------------------------------------------------------------------------------------------------------

    def code_event(self, event: Event, event_type: str | None = None) -> CodedEvent:
        """Return the event in labels; with `event_type`, as if it had that type alone."""
        offset, present, labels = [0], [], []
        for column in self.columns:
            values = event.values.get(column.attribute)
            if event_type is not None and column.attribute == EVENT_TYPE:
                values = (event_type,)
            if values is None:
                present.append(False)
            elif len(values) == 1 and column.derivation == "value":
                present.append(True)
                labels.append(column.labels.of_value(column.domain.key(values[0])))  # type: ignore[arg-type]
            else:
                present.append(True)
                found = {column.labels.of_value(key) for value in values for key in column.keys(value)}
                labels += sorted(found)
            offset.append(len(labels))
        return CodedEvent(np.array(offset, np.int32), np.array(labels, np.int64), np.array(present, np.bool_))

    # --- selectivity --------------------------------------------------------------------------------------------------

    def selectivity(self, predicate: CodedPredicate) -> float:
        """Return the guessed share of events that satisfy a predicate, from the domain or the constants alone."""
        match predicate.kind:
            case kind if kind == SOME_IN:
                return self._share(predicate.column, predicate.low, predicate.high)
            case kind if kind == NONE_IN:
                return 1 - self._share(predicate.column, predicate.low, predicate.high)
            case kind if kind in (SOME_OF, NONE_OF):
                shares = (self._share(predicate.column, *ends) for ends in self.sets.intervals(predicate.low))
                inside = min(1.0, sum(shares))
                return inside if kind == SOME_OF else 1 - inside
            case kind if kind == PRESENT:
                return 0.99
            case _:
                return 0.5

    def most_selective_first(self, offset: npt.NDArray[np.int64], predicates: PredicateColumns) -> PredicateColumns:
        """Return the predicates of many rows, those of each row in the order of their selectivity."""
        guess = np.full(len(predicates.column), 0.5, np.float32)
        for number in range(len(self.columns)):
            at = np.flatnonzero(predicates.column == number)
            fields = np.stack([predicates.kind[at].astype(np.int64), predicates.low[at], predicates.high[at]])
            distinct, which = np.unique(fields, axis=1, return_inverse=True)
            guesses = [self.selectivity(CodedPredicate(number, *found)) for found in distinct.T.tolist()]
            guess[at] = np.array(guesses, np.float32)[which] if guesses else 0
        row = np.repeat(np.arange(len(offset) - 1), np.diff(offset))
        order = np.lexsort((guess, row))
        return predicates.taken(order)

    def _share(self, column: int, low: int, high: int) -> float:
        labels = self.columns[column].labels
        if isinstance(labels, WholeLabels):
            inside = min(high, labels.highest) - max(low, labels.lowest) + 1
            return max(inside, 0) / labels.size
        if low == high:
            return 1 / (len(labels.labels) + 10)  # more values will come
        return 0.4 if low == LOWEST or high == HIGHEST else 0.2
