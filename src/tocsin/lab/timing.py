"""Check the answers, then time: nothing is measured that was not compared with the oracle first.

What is timed is an engine's work on events that are already coded as integers and its answer as an array of numbers,
like the papers', whose engines are handed typed values and answer with ids; "execution" adds what the papers call
communication: coding from Python objects, ids as a list, and encoding that as JSON.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tocsin.errors import TocsinError
from tocsin.lab.prepared import Prepared
from tocsin.matching import Matcher
from tocsin.matching.classic.front import ClassicMatcher
from tocsin.matching.columnar.matcher import ColumnarMatcher

T = TypeVar("T")
CHECKED_EVENTS = 5


class WrongAnswer(TocsinError):
    """An engine disagrees with the oracle; the experiment ends."""


def milliseconds(act: Callable[[T], Any], items: Sequence[T], budget_seconds: float = 0.5) -> float:
    """Return the median over passes of the mean time per item; at least three passes, then until the budget is used.

    The first pass, which may compile, is left out.
    """
    act(items[0])
    passes: list[float] = []
    started = time.perf_counter()
    while len(passes) < 3 or time.perf_counter() - started < budget_seconds:
        before = time.perf_counter()
        for item in items:
            act(item)
        passes.append((time.perf_counter() - before) / len(items) * 1e3)
        if time.perf_counter() - started > 8 * budget_seconds:
            break
    return statistics.median(passes)


def seconds(act: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    before = time.perf_counter()
    act()
    return time.perf_counter() - before


def loaded(matcher: Matcher, prepared: Prepared) -> float:
    """Load all subscriptions of a workload; return the seconds that took, from coded columns."""
    if isinstance(matcher, ClassicMatcher | ColumnarMatcher):
        table = prepared.table
        taken = seconds(lambda: matcher.load_table(table))
    else:
        subscriptions = list(prepared.subscriptions())
        taken = seconds(lambda: matcher.add_all(subscriptions))
    check(matcher, prepared)
    return taken


def check(matcher: Matcher, prepared: Prepared) -> int:
    """Return how many matches of the first events were compared with the oracle; raises WrongAnswer."""
    compared = 0
    for number, event in enumerate(prepared.events[:CHECKED_EVENTS]):
        found, right = sorted(matcher.match(event), key=int), prepared.expected(number)
        if not np.array_equal(np.array(found, np.int64), right):
            different = set(found) ^ set(right.tolist())
            raise WrongAnswer(f"{matcher.name} is wrong about event {number}: {len(different)} subscriptions differ")
        compared += len(right)
    return compared


def matching_milliseconds(matcher: Matcher, prepared: Prepared, budget_seconds: float = 0.5) -> float:
    """Return the time to match one event, coded beforehand where the engine knows coded events."""
    if isinstance(matcher, ClassicMatcher):
        coded = [matcher.columns.code_event(event) for event in prepared.events]
        return milliseconds(matcher.match_coded, coded, budget_seconds)
    return milliseconds(matcher.match, prepared.events, budget_seconds)
