"""Python closures: a function per distinct predicate, a subscription calls its own one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.peers.files import Event, Predicate, Workload
from benchmarks.peers.program import Match, Prepare, main

Test = Callable[[Event], bool]


def build(workload: Workload) -> tuple[Prepare, Match]:
    """Return how to match one event by asking all subscriptions."""
    distinct = {predicate: test_of(predicate) for each in workload.subscriptions for predicate in each.predicates}
    rules = [(each.id, conjunction([distinct[p] for p in each.predicates])) for each in workload.subscriptions]
    return _as_they_are, lambda event: [id for id, holds in rules if holds(event)]


def test_of(predicate: Predicate) -> Test:
    """Return the function that asks one predicate of an event."""
    name, operator, operand = predicate
    tests: dict[str, Test] = {
        "=": lambda event: event.get(name) == operand,
        "!=": lambda event: (value := event.get(name)) is not None and value != operand,
        "<": lambda event: (value := event.get(name)) is not None and value < operand,  # type: ignore[operator]
        "<=": lambda event: (value := event.get(name)) is not None and value <= operand,  # type: ignore[operator]
        ">": lambda event: (value := event.get(name)) is not None and value > operand,  # type: ignore[operator]
        ">=": lambda event: (value := event.get(name)) is not None and value >= operand,  # type: ignore[operator]
    }
    return tests[operator]


def conjunction(tests: Sequence[Test]) -> Test:
    """Return the function that asks one test after the other, as long as they hold."""
    first, *others = tests
    if not others:
        return first
    rest = conjunction(others)
    return lambda event: first(event) and rest(event)


def _as_they_are(events: Sequence[Event]) -> Sequence[Event]:
    return events


if __name__ == "__main__":
    main(build)
