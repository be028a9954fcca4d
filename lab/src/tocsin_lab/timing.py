"""What is timed: nothing that was not compared with the oracle first.

A pass is an engine's work on events that are already coded as integers, its answer an array of numbers, like the papers',
whose engines are handed typed values and answer with ids; "execution" adds what the papers call communication: coding from
Python objects, ids as a list, and encoding that as JSON. A change is an engine's own structure alone: the coded predicates
of a row go in or out; normalising and coding, which all share, are not in it.

Engines run in one thread of this process and are timed by its CPU time; databases work in threads and processes of their
own, and where they race all are timed on the wall.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from tocsin.errors import TocsinError
from tocsin.matching import Engine
from tocsin.matching.matcher import Matcher
from tocsin.schema import Event
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.rows import CodedPredicate
from tocsin_lab.dbms import DbmsMatcher
from tocsin_lab.prepared import Prepared
from tocsin_lab.rounds import Act, Bench, Turn

CHECKED_EVENTS = 5


class WrongAnswer(TocsinError):
    """An engine disagrees with the oracle; the experiment ends."""


def filled(bench: Bench, name: str, prepared: Prepared) -> Engine:
    """Return the engine of that name with all subscriptions of a workload, its answers compared with the oracle."""
    return load(bench.engine(name, prepared.schema), prepared)


def load(matcher: Engine, prepared: Prepared) -> Engine:
    """Load all subscriptions of a workload, from coded columns where the engine takes them; compare its answers."""
    if isinstance(matcher, ClassicMatcher | Matcher):
        matcher.load_table(prepared.table)
        if isinstance(matcher, DbmsMatcher):
            matcher.db.settle()
    else:
        matcher.add_all(list(prepared.subscriptions()))
    check(matcher, prepared)
    return matcher


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


def matching(matcher: Engine, events: Sequence[Event]) -> Act:
    """Return a pass over the events, coded beforehand where the engine knows coded events."""
    if isinstance(matcher, ClassicMatcher):
        coded = [matcher.columns.code_event(event) for event in events]
        return lambda: [matcher.match_coded(event) for event in coded]
    return lambda: [matcher.match(event) for event in events]


def executing(matcher: Engine, events: Sequence[Event]) -> Act:
    """Return a pass over the events with what the papers call communication."""
    return lambda: [msgspec.json.encode(matcher.match(event)) for event in events]


def work_of(matcher: Engine, events: Sequence[Event]) -> dict[str, float]:
    """Return what the engine counts of its own work, per event."""
    before = _counters(matcher)
    for event in events:
        matcher.match(event)
    return {name: (value - before.get(name, 0)) / len(events) for name, value in _counters(matcher).items()}


def _counters(matcher: Engine) -> dict[str, float]:
    details = {name: float(value) for name, value in matcher.work.details.items() if name != "nodes"}
    return {"subscriptions looked at": float(matcher.work.subscriptions_checked), **details}


# --- changes ----------------------------------------------------------------------------------------------------------


class Changes:
    """Rows of an engine that come and go: what its structure does, and nothing that all engines share."""

    def __init__(self, matcher: ClassicMatcher, ids: Sequence[int], event: Event | None = None) -> None:
        """Take the rows of these subscriptions; with an event, what its match has to wait for belongs to a change."""
        self.matcher = matcher
        rows = [matcher._rows_of[id][0] for id in ids]
        self.rows: list[tuple[int, list[CodedPredicate]]] = [(row, matcher.rows.of(row)) for row in rows]
        self.event = None if event is None else matcher.columns.code_event(event)

    def __len__(self) -> int:
        return len(self.rows)

    def remove(self) -> None:
        for row, predicates in self.rows:
            self.matcher._delete(row, predicates)

    def insert(self) -> None:
        for row, predicates in self.rows:
            self.matcher._insert(row, predicates)

    def change(self) -> None:
        """Take each out and in again, and match."""
        for row, predicates in self.rows:
            self.matcher._delete(row, predicates)
            self.matcher._insert(row, predicates)
            if self.event is not None:
                self.matcher.match_coded(self.event)

    def insertion(self) -> Turn:
        """Return the turn that inserts; the rows are out before and after."""
        self.remove()
        return Turn(self.insert, self.remove)

    def removal(self) -> Turn:
        """Return the turn that removes; the rows are in before and after."""
        return Turn(self.remove, self.insert)


def bytes_of(value: Any, seen: set[int] | None = None) -> int:
    """Return the bytes of all arrays that an object's structures hold, each counted once."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None else bytes_of(value.base, seen)
    if isinstance(value, dict):
        return sum(bytes_of(each, seen) for each in value.values())
    if isinstance(value, list | tuple | set):
        return sum(bytes_of(each, seen) for each in value)
    return bytes_of(vars(value), seen) if hasattr(value, "__dict__") else 0
