"""Computed attributes of candidates, in the code space of their tier.

A formula that asks about the subscriber alone gives the same value for every offer. So once it has been computed for as
many rows as there are, it is computed for all of them, and kept: with a bitmap of the rows that accept the value. From then
on the formula costs an offer as much as one more request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.index.coder import Coder
from tocsin.index.key_column import KeyColumn, keys_of
from tocsin.index.patterns import PatternTexts
from tocsin.language.formula_columns import ValueColumn
from tocsin.language.formula_vector import compute_column
from tocsin.language.offer import ComputedAttribute
from tocsin.language.semantics import Row
from tocsin.language.syntax import (
    And,
    Arithmetic,
    Call,
    Case,
    Comparison,
    Expression,
    Negative,
    Node,
    Not,
    OperatorCall,
    Or,
)
from tocsin.offers import scan_kernel as k
from tocsin.offers.programs import admit_column
from tocsin.offers.requests import TierRows
from tocsin.offers.scan_kernel import packed

MOST_REMEMBERED = 32  # formulas whose rows are counted
MOST_KEPT = 8
FEWEST_KEPT = 1_000  # subscriptions from which on values are kept


def compute(attribute: ComputedAttribute, columns: Mapping[str, ValueColumn], size: int, constants: Row) -> ValueColumn:
    """Return the attribute's values for `size` rows; rows for which it fails are marked."""
    return _admitted(attribute, compute_column(attribute.formula, columns, size, constants))


def _admitted(attribute: ComputedAttribute, found: ValueColumn) -> ValueColumn:
    column = admit_column(found, attribute.domain, attribute.value)  # type: ignore[arg-type]
    if column.failed is None or not column.failed.any():
        return replace(column, failed=None, reasons=())
    return replace(column, absent=column.absent | (column.failed != 0))


class CodedValues:
    """Values in one column of the tier's codes: `values` are codes, or numbers of lists; see scan_kernel.Given."""

    def __init__(self, coder: Coder, column: ValueColumn) -> None:
        self.is_list = coder.column.derivation in ("words", "patterns")
        self.offset, self.codes = np.zeros(1, np.int64), np.zeros(0, np.int32)
        if column.absent.all():
            self.values = np.full(len(column), k.ABSENT, np.int32)
        elif self.is_list:
            self.values = column.values.astype(np.int32)
            self._list_words(coder, column)
        else:
            self.values = coder.code(_keys(coder, column)).astype(np.int32)
        self.values[column.absent] = k.ABSENT
        if column.failed is not None:
            self.values[column.failed != 0] = k.UNKNOWN

    def _list_words(self, coder: Coder, column: ValueColumn) -> None:
        if coder.patterns is not None:
            found = coder.patterns.coded(PatternTexts.of_values([(member,) for member in _members(column)]))
            self.offset, self.codes = found.offset, found.codes
            return
        listed = [
            sorted({coder.code_of(key) for key in keys_of(column.domain, "words", member)} - {0})
            for member in _members(column)
        ]
        self.offset = np.zeros(len(listed) + 1, np.int64)
        np.cumsum([len(codes) for codes in listed], out=self.offset[1:])
        self.codes = np.array([code for codes in listed for code in codes], np.int32)


def _members(column: ValueColumn) -> list[Any]:
    members: tuple[Any, ...] = column.members or ()
    return ["" if member is None else member for member in members]


def _keys(coder: Coder, column: ValueColumn) -> KeyColumn:
    if column.members is None:
        return KeyColumn(np.ascontiguousarray(column.values), None)
    members: Sequence[Any] = column.members
    derivation = coder.column.derivation
    listed = [keys_of(column.domain, derivation, member)[0] for member in members]
    return KeyColumn(column.values.astype(np.int32), None, listed)


CodedPairs = dict[int, tuple[k.Int32s, CodedValues]]  # column -> what each pair has there, and what that means


@dataclass(slots=True)
class Known:
    """A computed attribute, how many rows it was computed for, and its values where they are kept."""

    attribute: ComputedAttribute
    computed: int = 0
    kept: Kept | None = None


class Kept:
    """An attribute's values for all rows of a tier, by position, and which rows accept them."""

    def __init__(self, rows: TierRows, column: ValueColumn, coders: Mapping[int, Coder], columns: int) -> None:
        """Keep a column, which has the values by position."""
        self.column = column
        self._all_present = not column.absent.any()  # then none has failed, either
        self.coded = {at: CodedValues(coder, column) for at, coder in coders.items()}
        self.accepting: k.Words | None = None  # None: all
        if self.coded:
            positions = np.arange(rows.size, dtype=np.int32)
            unknown = np.full((columns, 1), k.UNKNOWN, np.int32)
            given = given_of(unknown, {}, self.codes(positions))
            self.accepting = packed(rows.holding(given, positions, np.zeros(rows.size, np.int32)))

    def codes(self, positions: npt.NDArray[Any]) -> CodedPairs:
        """Return, by column, what the rows at these positions have there."""
        return {at: (coded.values[positions], coded) for at, coded in self.coded.items()}

    def take(self, positions: npt.NDArray[Any]) -> ValueColumn:
        """Return the values of the rows at these positions."""
        if not self._all_present:
            return self.column.take(positions)
        values = self.column.values.take(positions)
        return ValueColumn(self.column.domain, values, np.zeros(len(positions), np.bool_), self.column.members)


class Computing:
    """Computes the attributes of offers for the rows of one tier. `of` is not safe to ask from several threads."""

    def __init__(self, rows: TierRows, coders: Sequence[Coder], own: frozenset[str]) -> None:
        """Compute over a tier; `own` are the names of properties, whether anybody has them or not."""
        self.rows, self.own = rows, own
        self.size = len(rows.segment)
        self.columns = len(coders)
        self._coders: dict[str, dict[int, Coder]] = {}
        for at, coder in enumerate(coders):
            self._coders.setdefault(coder.column.attribute, {})[at] = coder
        self._known: list[Known] = []  # the last one used comes first

    def coders(self, name: str) -> Mapping[int, Coder]:
        """Return the coders of an attribute's columns, by column."""
        return self._coders.get(name, {})

    def of(self, attribute: ComputedAttribute) -> Known:
        """Return what is known of an attribute; its values are kept, where that pays from now on."""
        known = self._of(attribute)
        if known.kept is None and known.computed >= self.size >= FEWEST_KEPT and self._is_lasting(attribute):
            stored = self.rows.segment.properties
            columns = {name: stored[name].column for name in attribute.formula.names if name in stored}
            column = compute(attribute, columns, self.size, {})
            known.kept = Kept(self.rows, column.take(self.rows.number), self.coders(attribute.name), self.columns)
            for other in [each for each in self._known if each.kept is not None][MOST_KEPT:]:
                other.kept, other.computed = None, 0
        return known

    def _of(self, attribute: ComputedAttribute) -> Known:
        # By identity: a new version of a program makes a formula that equals the old one.
        known = self._known
        for at, each in enumerate(known):
            if each.attribute.formula is attribute.formula and each.attribute.name == attribute.name:
                if at:
                    known.insert(0, known.pop(at))
                return each
        found = Known(attribute)
        known.insert(0, found)
        if len(known) > MOST_REMEMBERED:
            known.pop()
        return found

    def _is_lasting(self, attribute: ComputedAttribute) -> bool:
        """Return whether it asks nothing of the offer, nor of anything that may say something else later."""
        names = attribute.formula.names
        return all(name in self.own for name in names) and _is_lasting(attribute.formula.root)


def _is_lasting(tree: Expression | Node) -> bool:
    """Return whether all functions that are called say the same whenever they are asked."""
    match tree:
        case Call(_, parts, function=function) | OperatorCall(_, parts, function=function):
            return function is not None and function.lasting and all(map(_is_lasting, parts[function.leading :]))
        case Negative(part) | Not(part):
            return _is_lasting(part)
        case Arithmetic(_, left, right) | Comparison(left, _, right):
            return _is_lasting(left) and _is_lasting(right)
        case And(parts) | Or(parts):
            return all(map(_is_lasting, parts))
        case Case(branches, otherwise):
            chosen = [part for branch in branches for part in branch]
            return all(map(_is_lasting, chosen)) and (otherwise is None or _is_lasting(otherwise))
        case _:
            return True


Lists = Mapping[int, tuple[npt.NDArray[np.int64], k.Int32s]]  # column -> offset and codes of its lists


def given_of(codes: k.Int32s, lists: Lists, computed: CodedPairs) -> k.Given:
    """Return what pairs have: the offers' codes and lists, and by column what was computed for each pair."""
    columns = len(codes)
    per_pair, starts = np.full(columns, -1, np.int64), np.full(columns, -1, np.int64)
    offsets: list[npt.NDArray[np.int64]] = []
    listed: list[k.Int32s] = []
    places = total = 0
    every = dict(lists)
    for row, (column, (_, coded)) in enumerate(computed.items()):
        per_pair[column] = row
        if coded.is_list:
            every[column] = coded.offset, coded.codes
        else:
            every.pop(column, None)
    for column, (offset, of_column) in every.items():
        starts[column] = places
        offsets.append(offset + total)
        listed.append(of_column)
        places += len(offset)
        total += len(of_column)
    values = [value for value, _ in computed.values()]
    return k.Given(
        codes,
        np.stack(values) if values else np.zeros((1, 0), np.int32),
        per_pair,
        starts,
        np.concatenate(offsets) if offsets else np.zeros(1, np.int64),
        np.concatenate(listed) if listed else np.zeros(0, np.int32),
    )
