"""Atoms: the parts of a conjunction, with every operator reduced to intervals of keys.

Made by predicates.py from bound predicates, merged by normalise.py, coded by table_builder.py. A column is named by
(attribute, derivation), see table.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tocsin.compile.table import Derivation
from tocsin.language.syntax import Node, Predicate
from tocsin.schema import Value


class Interval(NamedTuple):
    """Keys from low to high; None is no bound. An open end does not belong to the interval."""

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False

    def is_empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)))

    def is_point(self) -> bool:
        return self.low is not None and not self.low_open and not self.high_open and bool(self.low == self.high)

    def holds(self, key: Any) -> bool:
        if self.low is not None and (key < self.low or (self.low_open and key == self.low)):
            return False
        return self.high is None or key < self.high or (key == self.high and not self.high_open)


EVERYTHING = Interval()


def point(key: Any) -> Interval:
    return Interval(key, key)


@dataclass(frozen=True, slots=True)
class Among:
    """Some value's key lies in one of the intervals; negated: the attribute is bound and no value's key does."""

    attribute: str
    derivation: Derivation
    intervals: tuple[Interval, ...]  # disjoint, ascending, none empty
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The attribute is bound; negated: it is not."""

    attribute: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """The predicate holds, as the definition says; negated: the attribute is bound and the predicate does not hold."""

    predicate: Predicate
    negated: bool = False

    @property
    def attribute(self) -> str:
        return self.predicate.attribute


@dataclass(frozen=True, slots=True)
class Decided:
    """A comparison of formulas, or all that a conjunction asks of operators and variables, negation included.

    No index knows anything of it: it is decided for what the index finds. `own` are the properties that it mentions.
    """

    node: Node
    own: tuple[tuple[str, Value], ...] = ()


Atom = Among | Bound | Checked | Decided
Conjunction = tuple[Atom, ...]


def intersection(a: Sequence[Interval], b: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return the intervals that lie in both; both ascending and disjoint, and so is the result."""
    found = (_overlap(x, y) for x in a for y in b)
    return tuple(interval for interval in found if not interval.is_empty())


def _overlap(a: Interval, b: Interval) -> Interval:
    low, low_open = a.low, a.low_open
    if low is None or (b.low is not None and (b.low > low or (b.low == low and b.low_open))):
        low, low_open = b.low, b.low_open
    high, high_open = a.high, a.high_open
    if high is None or (b.high is not None and (b.high < high or (b.high == high and b.high_open))):
        high, high_open = b.high, b.high_open
    return Interval(low, high, low_open, high_open)


def complement(intervals: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return the gaps before, between and after ascending disjoint intervals."""
    gaps, low, low_open = [], None, False
    for interval in intervals:
        if interval.low is not None:
            gap = Interval(low, interval.low, low_open, not interval.low_open)
            if not gap.is_empty():
                gaps.append(gap)
        if interval.high is None:
            return tuple(gaps)
        low, low_open = interval.high, not interval.high_open
    return (*gaps, Interval(low, None, low_open))


def points(keys: Sequence[Any]) -> tuple[Interval, ...]:
    """Return one interval per distinct key, ascending."""
    return tuple(point(key) for key in sorted(set(keys)))


def runs(numbers: Sequence[int]) -> tuple[Interval, ...]:
    """Return the intervals that cover exactly these whole numbers, neighbours joined."""
    found: list[Interval] = []
    for number in sorted(set(numbers)):
        if found and found[-1].high == number - 1:
            found[-1] = Interval(found[-1].low, number)
        else:
            found.append(point(number))
    return tuple(found)
