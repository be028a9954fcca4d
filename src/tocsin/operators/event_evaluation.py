"""EventEvaluation: the operator predicates of one event, each evaluated at most once and remembered.

Predicates with the same inputs share one call of the operator: count(?n) and count(50) differ only in what they pick.
"""

from __future__ import annotations

import time

from tocsin.operators.calls import Pattern
from tocsin.operators.operator import Row
from tocsin.operators.problem import Statistics
from tocsin.operators.runner import Outcome, Runner
from tocsin.schema import Event


class EventEvaluation:
    """What is known of the predicates of one event."""

    def __init__(self, event: Event, patterns: list[Pattern], runner: Runner, statistics: Statistics) -> None:
        self.event, self.patterns, self.runner = event, patterns, runner
        self.statistics = statistics
        self._solutions: dict[int, tuple[Row, ...] | None] = {}
        self.failures: dict[int, str] = {}  # predicates whose operator failed, and why
        self._outcomes: dict[tuple[object, ...], Outcome] = {}

    def evaluate(self, predicate: int) -> bool:
        """Return whether the predicate has solutions."""
        return bool(self.solutions(predicate))

    def solutions(self, predicate: int) -> tuple[Row, ...] | None:
        """Return the solutions of a predicate, or None where its operator failed."""
        if predicate not in self._solutions:
            started = time.perf_counter()
            pattern = self.patterns[predicate]
            key = pattern.input_key
            if key not in self._outcomes:
                self._outcomes[key] = self.runner.run(pattern, self.event)
            self._know(predicate, self._outcomes[key], time.perf_counter() - started)
        return self._solutions[predicate]

    def learn(self, predicate: int, outcome: Outcome, seconds: float) -> None:
        """Take an outcome that came with those of other events."""
        self._outcomes[self.patterns[predicate].input_key] = outcome
        self._know(predicate, outcome, seconds)

    def knows(self, predicate: int) -> bool:
        """Return whether evaluating the predicate would call no operator."""
        return predicate in self._solutions or self.patterns[predicate].input_key in self._outcomes

    @property
    def evaluated(self) -> dict[int, tuple[Row, ...] | None]:
        """The predicates evaluated so far, with their solutions."""
        return self._solutions

    def _know(self, predicate: int, outcome: Outcome, seconds: float) -> None:
        found = None if outcome.failure is not None else self.patterns[predicate].solutions(outcome.rows)
        self._solutions[predicate] = found
        if outcome.failure is not None:
            self.failures[predicate] = outcome.failure
        self.statistics.observe(predicate, bool(found), seconds)
