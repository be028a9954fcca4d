"""Predicates: the distinct operator predicates that a matcher has seen, numbered, with what is known of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.operators.calls import Pattern
from tocsin.operators.problem import Float64s, Int32s, Statistics


class Predicates:
    """Numbers for patterns, given once and never again to another."""

    def __init__(self) -> None:
        self.patterns: list[Pattern] = []
        self.statistics = Statistics.of(np.zeros(0))
        self._numbers: dict[Pattern, int] = {}
        self._operators: dict[object, int] = {}
        self._arguments: dict[object, int] = {}

    def number(self, pattern: Pattern) -> int:
        """Return the number of the predicate that unifies with the pattern."""
        known = self._numbers.get(pattern)
        if known is None:
            known = self._numbers[pattern] = len(self.patterns)
            self.patterns.append(pattern)
        return known

    def __len__(self) -> int:
        return len(self.patterns)

    def operator(self) -> Int32s:
        """Return the operator of each predicate, as a number."""
        names = [pattern.operator.name for pattern in self.patterns]
        return _numbered(self._operators, names)

    def argument(self) -> Int32s:
        """Return the arguments of each predicate, as a number."""
        return _numbered(self._arguments, [pattern.arguments for pattern in self.patterns])

    def grown_statistics(self) -> Statistics:
        """Return the statistics, with room for every predicate."""
        new = self.patterns[len(self.statistics.evaluations) :]
        if new:
            costs: Float64s = np.array([pattern.operator.cost for pattern in new])
            self.statistics.grow(costs)
        return self.statistics


def _numbered(known: dict[object, int], keys: Sequence[object]) -> Int32s:
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int32)
