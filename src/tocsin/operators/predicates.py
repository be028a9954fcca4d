"""Predicates: the distinct operator predicates that a matcher has seen, numbered, with what is known of each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tocsin.operators.calls import Pattern
from tocsin.operators.growing_array import GrowingArray
from tocsin.operators.problem import Float64s, Int32s, Statistics


class Predicates:
    """Numbers for patterns, given once and never again to another; taking a further one costs no look at the others."""

    def __init__(self) -> None:
        self.patterns: list[Pattern] = []
        self.statistics = Statistics.of(np.zeros(0))
        self._numbers: dict[Pattern, int] = {}
        self._operators: dict[object, int] = {}
        self._arguments: dict[object, int] = {}
        self._operator = GrowingArray(np.int32)
        self._argument = GrowingArray(np.int32)

    def number(self, pattern: Pattern) -> int:
        """Return the number of the predicate that unifies with the pattern."""
        known = self._numbers.get(pattern)
        if known is None:
            known = self._numbers[pattern] = len(self.patterns)
            self.patterns.append(pattern)
            self._operator.extend([_numbered(self._operators, pattern.operator.name)])
            self._argument.extend([_numbered(self._arguments, pattern.arguments)])
        return known

    def __len__(self) -> int:
        return len(self.patterns)

    def operator(self) -> Int32s:
        """Return the operator of each predicate, as a number."""
        return self._operator.view

    def argument(self) -> Int32s:
        """Return the arguments of each predicate, as a number."""
        return self._argument.view

    def grown_statistics(self) -> Statistics:
        """Return the statistics, with room for every predicate."""
        new = self.patterns[len(self.statistics.evaluations) :]
        if new:
            costs: Float64s = np.array([pattern.operator.cost for pattern in new])
            self.statistics.grow(costs)
        return self.statistics

    def only(self, kept: Iterable[int]) -> tuple[Predicates, dict[int, int]]:
        """Return others with some of these, in order, and what is known of them; and the new number of each."""
        old = self.grown_statistics()
        made, numbers = Predicates(), {}
        for number in kept:
            numbers[number] = made.number(self.patterns[number])
        made.statistics = old.only(list(numbers))
        return made, numbers


def _numbered(known: dict[object, int], key: object) -> int:
    return known.setdefault(key, len(known))
