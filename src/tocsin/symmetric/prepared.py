"""Offers prepared for a roster: what they ask of which column, as the kernels of scan_kernel.py take it.

That is the end of an offer's analysis. The requests to the columns are made anew when subscribers have come or gone: which
number a text has, and which attributes are bounded, may have changed.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tocsin.language.formula import ConditionFormula, Every, Satisfies, Test
from tocsin.language.formula_columns import EXACT, Column, column_of
from tocsin.language.formula_compare import is_told_apart_by_value
from tocsin.language.syntax import Op
from tocsin.symmetric import scan_kernel as k
from tocsin.symmetric.columns import NOTHING, PropertyColumn
from tocsin.symmetric.directory import HIGHEST, LOWEST, Directory, ordered_bits
from tocsin.symmetric.offer import Offer
from tocsin.symmetric.roster import Roster
from tocsin.symmetric.semantics import refers_to

_EMPTY = (1, 0)
_MOST_KEYS = 10_000
_ENDS: dict[Op, Callable[[int], tuple[int, int]]] = {  # numbers are whole, and the next float is the next whole number
    Op.EQ: lambda number: (number, number),
    Op.LT: lambda number: (k.LEAST, number - 1),
    Op.LE: lambda number: (k.LEAST, number),
    Op.GT: lambda number: (number + 1, k.MOST),
    Op.GE: lambda number: (number, k.MOST),
}


@dataclass(slots=True)
class Prepared:
    """An offer's rules as intervals of columns, and its static values as keys."""

    by: object  # the preparer
    coded_columns: int  # how many columns held codes then: a column that begins to asks for it anew
    dynamic: frozenset[str]
    row: Mapping[str, Any]  # the static values, as formulas see them
    early: tuple[ConditionFormula, ...]  # rules that need nothing computed
    late: tuple[ConditionFormula, ...]
    others: tuple[ConditionFormula, ...]  # of `early`, those that are more than intervals
    requests: list[int]  # column, low, high of each rule that is an interval of numbers
    texts: tuple[
        tuple[int, PropertyColumn, Any], ...
    ]  # number, column and text of each rule that a text is equal to one
    predicates: tuple[Satisfies, ...]  # of both, in that order
    counted: tuple[Satisfies, ...]  # further predicates, which only an order of values can look up
    keys: Mapping[str, int | str]  # static attribute -> its key; texts by themselves
    unsure: tuple[str, ...]  # static attributes whose values no key tells exactly
    columns: frozenset[int]
    is_plain: bool  # all rules are intervals, and all static values have keys


class Asked(NamedTuple):
    """The requests of an offer, three int64s each, as bytes: those of its rules, then those of its static values."""

    changes: int  # of the roster, when they were made
    prepared: Prepared
    requests: bytes
    size: int
    weights: (
        bytes  # two int64s: how many of them the planner weighs (-1: there is more to weigh), and the static values
    )
    dynamic: tuple[int, ...]  # the identities of the dynamic attributes


class Preparer:
    """Prepares offers for one roster."""

    def __init__(self, roster: Roster, directory: Directory) -> None:
        self.roster, self.directory = roster, directory
        self._floats = [numeric.values.dtype == np.float64 for numeric in map(_empty, roster.properties.values())]
        self._known_keys: dict[tuple[str, type, Any], int | str | None] = {}

    def ask(self, offer: Offer) -> Asked:
        """Return the requests of an offer; what was made before is used again."""
        known: Asked | None = offer.made.get("asked")
        if known is None or known.changes != self.roster.changes or known.prepared.by is not self:
            prepared = self._prepared(offer)
            self.directory.reach(prepared.columns)
            requests = self._requests(prepared)
            weighed = -1 if prepared.counted else len(prepared.predicates)
            known = offer.made["asked"] = Asked(
                self.roster.changes, prepared, requests.tobytes(), len(requests) // 3,
                array("q", (weighed, len(offer.event.values))).tobytes(), tuple(map(id, offer.dynamic)),
            )  # fmt: skip
        return known

    def _prepared(self, offer: Offer) -> Prepared:
        coded = sum(column.is_coded for column in self.roster.properties.values())
        known: Prepared | None = offer.made.get("prepared")
        if known is None or known.by is not self or known.coded_columns != coded:
            known = offer.made["prepared"] = self._made(offer, coded)
        return known

    def _made(self, offer: Offer, coded: int) -> Prepared:
        dynamic = frozenset(attribute.name for attribute in offer.dynamic)
        row = offer.row(self.roster.meeting)
        early = tuple(rule for rule in offer.rules if not refers_to(rule, dynamic))
        late = tuple(rule for rule in offer.rules if refers_to(rule, dynamic))
        requests: list[int] = []
        texts: list[tuple[int, PropertyColumn, Any]] = []
        numeric: list[Satisfies] = []
        textual: list[Satisfies] = []
        counted: list[Satisfies] = []
        others: list[ConditionFormula] = []
        for rule in early:
            whole = True
            for part in conjuncts(rule.root):
                column = self.roster.properties.get(part.name) if isinstance(part, Satisfies) else None
                if column is None:
                    whole = False
                    continue
                assert isinstance(part, Satisfies)
                number = self.directory.numbers[part.name]
                if column.is_coded:
                    if part.predicate.op is Op.EQ and is_told_apart_by_value(column.domain):
                        texts.append((number, column, part.predicate.operand))
                        textual.append(part)
                        continue
                elif (ends := _ends(part, column, self._floats[number])) is not None:
                    requests += (number, *ends)
                    numeric.append(part)
                    continue
                counted.append(part)
                whole = False
            if not whole:
                others.append(rule)
        keys, unsure = self._keys(row)
        asked = frozenset([*requests[::3], *(number for number, _, _ in texts)])
        return Prepared(
            self, coded, dynamic, row, early, late, tuple(others), requests, tuple(texts), (*numeric, *textual),
            tuple(counted), keys, unsure, asked, not (others or late or unsure),
        )  # fmt: skip

    def _keys(self, row: Mapping[str, Any]) -> tuple[dict[str, int | str], tuple[str, ...]]:
        keys: dict[str, int | str] = {}
        unsure: list[str] = []
        for name, value in row.items():
            if name in self.roster.meeting.multiple:
                continue
            key = self._key(name, value)
            if key is None:
                unsure.append(name)
            else:
                keys[name] = key
        return keys, tuple(unsure)

    def _key(self, name: str, value: Any) -> int | str | None:
        place = name, type(value), value
        try:
            return self._known_keys[place]
        except KeyError:
            pass
        found = self.roster.wants.keys.key_of(name, value)
        key = ordered_bits(found) if isinstance(found, float) else found
        if len(self._known_keys) >= _MOST_KEYS:
            self._known_keys.clear()
        self._known_keys[place] = key
        return key

    def _requests(self, prepared: Prepared) -> array[int]:
        into = array("q", prepared.requests)
        for number, column, text in prepared.texts:
            code = column.code_of(text)
            into.extend((number, *_EMPTY) if code < 0 else (number, code, code))
        for name, lows, highs in self.directory.bounded:
            if name in prepared.dynamic or name in prepared.unsure:
                continue
            key = prepared.keys.get(name)
            if isinstance(key, str):
                key = ordered_bits(self.roster.wants.keys.number_of(name, key))
            if lows is not None:
                into.extend((lows, k.LEAST, LOWEST if key is None else key))
            if highs is not None:
                into.extend((highs, HIGHEST if key is None else key, k.MOST))
        return into


def conjuncts(test: Test) -> Iterator[Test]:
    """Yield the parts that all must hold."""
    if isinstance(test, Every):
        for part in test.parts:
            yield from conjuncts(part)
    else:
        yield test


def _empty(column: PropertyColumn) -> Column:
    return column_of(column.domain, [None])


def _ends(test: Satisfies, column: PropertyColumn, floats: bool) -> tuple[int, int] | None:
    """Return the interval of a predicate, as kernels compare it; None where it is none."""
    op, operand = test.predicate.op, test.predicate.operand
    if column.domain.kind == "numeric":  # the plain ones at once
        if op is Op.BETWEEN:
            assert isinstance(operand, tuple)
            low, high = _number(operand[0], floats), _number(operand[1], floats)
            if low is not None and high is not None:
                return low, high
        elif op in _ENDS and (number := _number(operand, floats)) is not None:
            return _ENDS[op](number)
    interval = column.interval(test)
    if interval is None:
        return None
    if interval == NOTHING:
        return _EMPTY
    low, high = (None if end is None else ordered_bits(float(end)) if floats else int(end) for end in interval)
    return k.LEAST if low is None else low, k.MOST if high is None else high


def _number(operand: Any, floats: bool) -> int | None:
    """Return a number as kernels compare it; None where that is not plain."""
    if type(operand) is int and -EXACT < operand < EXACT:
        return ordered_bits(operand) if floats else operand
    return ordered_bits(operand) if floats and type(operand) is float else None
