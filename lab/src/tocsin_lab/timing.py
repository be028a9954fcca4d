"""Check the answers, then time: nothing is measured that was not compared with the oracle first.

What is timed is an engine's work on events that are already coded as integers and its answer as an array of numbers,
like the papers', whose engines are handed typed values and answer with ids; "execution" adds what the papers call
communication: coding from Python objects, ids as a list, and encoding that as JSON.

Engines run in one thread of this process, so their time is that thread's CPU time, which other work on the machine
disturbs little. Databases work in threads and processes of their own, so theirs is the time on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from tocsin.compile import ConjunctionTable
from tocsin.errors import TocsinError
from tocsin.matching import Engine
from tocsin.matching.matcher import Matcher
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.dbms import DbmsMatcher
from tocsin_lab.prepared import Prepared

T = TypeVar("T")
CHECKED_EVENTS = 5


class WrongAnswer(TocsinError):
    """An engine disagrees with the oracle; the experiment ends."""


Clock = Callable[[], float]
cpu_time: Clock = time.thread_time
wall_time: Clock = time.perf_counter


def milliseconds(
    act: Callable[[T], Any], items: Sequence[T], budget_seconds: float = 0.5, clock: Clock = cpu_time
) -> float:
    """Return the mean time per item of the best pass; at least three passes, then until the budget is used.

    The best, because what else runs on the machine only ever adds. What may compile is called once before.
    """
    act(items[0])
    passes: list[float] = []
    started = time.perf_counter()
    while len(passes) < 3 or time.perf_counter() - started < budget_seconds:
        before = clock()
        for item in items:
            act(item)
        passes.append((clock() - before) / len(items) * 1e3)
        if time.perf_counter() - started > 8 * budget_seconds:
            break
    return min(passes)


def seconds(act: Callable[[], Any], clock: Clock = cpu_time) -> float:
    """Return how long one call takes."""
    before = clock()
    act()
    return clock() - before


def clock_of(matcher: Engine) -> Clock:
    """Return the clock by which an engine is timed."""
    return wall_time if isinstance(matcher, DbmsMatcher) else cpu_time


def loaded(matcher: Engine, prepared: Prepared) -> float:
    """Load all subscriptions of a workload; return the seconds that took, from coded columns."""
    if isinstance(matcher, ClassicMatcher | Matcher):
        table = prepared.table
        if not isinstance(matcher, DbmsMatcher):  # compiles what has to be
            type(matcher)(matcher.schema).load_table(prepared.part(0, min(10, len(prepared))))
        taken = seconds(partial(_load, matcher, table), clock_of(matcher))
    else:
        subscriptions = list(prepared.subscriptions())
        taken = seconds(lambda: matcher.add_all(subscriptions))
    check(matcher, prepared)
    return taken


def _load(matcher: ClassicMatcher | Matcher, table: ConjunctionTable) -> None:
    matcher.load_table(table)
    if isinstance(matcher, DbmsMatcher):
        matcher.db.settle()


def check(matcher: Engine, prepared: Prepared) -> int:
    """Return how many matches of the first events were compared with the oracle; raises WrongAnswer."""
    compared = 0
    for number, event in enumerate(prepared.events[:CHECKED_EVENTS]):
        found, right = sorted(matcher.match(event), key=int), prepared.expected(number)
        if not np.array_equal(np.array(found, np.int64), right):
            different = set(found) ^ set(right.tolist())
            raise WrongAnswer(f"{matcher.name} is wrong about event {number}: {len(different)} subscriptions differ")
        compared += len(right)
    return compared


def matching_milliseconds(matcher: Engine, prepared: Prepared, budget_seconds: float = 0.5) -> float:
    """Return the time to match one event, coded beforehand where the engine knows coded events."""
    if isinstance(matcher, ClassicMatcher):
        coded = [matcher.columns.code_event(event) for event in prepared.events]
        return milliseconds(matcher.match_coded, coded, budget_seconds, clock_of(matcher))
    return milliseconds(matcher.match, prepared.events, budget_seconds)
