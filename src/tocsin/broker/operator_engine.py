"""OperatorEngine: the stored subscriptions that call operators, held in memory by an OperatorMatcher.

Operators may take long, and a turn at the store is everyone's. So publishers let them run before their turn
(`foreseen`): operators are pure, and what they said is kept until the events are matched. The engine is locked for what
it does itself, and never while an operator runs.

A subscription whose operator is not installed here, or no longer takes its arguments, is *dormant*: held and counted,
matched by nothing, and matched again by a broker that has the operator.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from tocsin.broker.expressions import Prepared, bind_stored, calls_operators
from tocsin.broker.live_index import Engine
from tocsin.broker.live_leases import LiveLeases, Longs
from tocsin.errors import TocsinError
from tocsin.operators.admission import admit
from tocsin.operators.calls import Pattern
from tocsin.operators.event_evaluation import EventEvaluation
from tocsin.operators.operator_matcher import OperatorMatcher
from tocsin.operators.registry import Registry
from tocsin.operators.runner import Outcome, Runner
from tocsin.schema import Event, Schema

log = logging.getLogger("tocsin.broker")
_SHOWN = 5  # dormant subscriptions that a warning, or the figures, tell of


class OperatorEngine(Engine):
    """Finds what OperatorMatcher finds."""

    def __init__(self, registry: Registry, schema: Schema) -> None:
        self._registry, self._schema = registry, schema
        self._lock = threading.Lock()
        self._runner = _RunUnlocked(registry.runner, self._lock)
        self._trees: dict[int, bytes] = {}
        self._dormant: dict[int, str] = {}  # id -> why
        self._foreseen: dict[int, EventEvaluation] = {}  # by the identity of the event, which it keeps alive
        self._matcher = OperatorMatcher(schema, registry)

    @staticmethod
    def takes(tree: bytes) -> bool:
        """Return whether a stored subscription is for this engine."""
        return calls_operators(tree)

    def add(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        with self._lock:
            self._hold([(id, prepared.tree) for id, prepared in subscriptions])

    def _hold(self, trees: Sequence[tuple[int, bytes]]) -> None:
        asleep = []
        for id, tree in trees:
            self._trees[id] = tree
            try:
                bound = bind_stored(tree, self._schema, self._registry)
                admit(bound, self._registry)
                self._matcher.add(id, bound)
            except TocsinError as error:
                self._dormant[id] = str(error)
                asleep.append(id)
        if asleep:
            told = "; ".join(f"{id}: {self._dormant[id]}" for id in asleep[:_SHOWN])
            log.warning("%d subscriptions match nothing, since their operators cannot be used: %s", len(asleep), told)

    def remove(self, ids: Sequence[int]) -> None:
        with self._lock:
            for id in ids:
                if self._trees.pop(id, None) is not None and self._dormant.pop(id, None) is None:
                    self._matcher.remove(id)

    def clear(self) -> None:
        with self._lock:
            self._forget()
            self._trees = {}

    def _forget(self) -> None:
        """Begin with a new matcher, of the present schema."""
        self._dormant, self._foreseen = {}, {}
        self._matcher = OperatorMatcher(self._schema, self._registry)

    def set_schema(self, schema: Schema) -> bool:
        with self._lock:
            if schema.version != self._schema.version:
                self._schema = schema
                self._forget()
                self._hold(list(self._trees.items()))
        return False

    # --- matching -----------------------------------------------------------------------------------------------------

    def find(self, events: Sequence[Event]) -> tuple[Longs, Longs]:
        with self._lock:
            found = self._matcher.match_evaluations([self._known(event) for event in events])
        counts = [len(each) for each in found]
        ids = [id for each in found for id in each]
        return np.repeat(np.arange(len(events)), counts), np.array(ids, np.int64)

    @property
    def takes_long(self) -> bool:
        return len(self._trees) > len(self._dormant)

    @contextmanager
    def foreseen(self, events: Sequence[Event]) -> Iterator[None]:
        """Let operators run now for events that are matched within the block, so that matching them is quick."""
        with self._lock:
            known = [self._evaluation(event) for event in events]
            self._matcher.match_evaluations(known)
            self._foreseen |= {id(each.event): each for each in known}
        try:
            yield
        finally:
            with self._lock:
                for event in events:
                    self._foreseen.pop(id(event), None)

    def _evaluation(self, event: Event) -> EventEvaluation:
        return self._matcher.evaluation(event, self._runner)

    def _known(self, event: Event) -> EventEvaluation:
        """Return what is known of an event; nothing, where it was foreseen by a matcher of another schema."""
        known = self._foreseen.get(id(event))
        if known is None or known.patterns is not self._matcher.predicates.patterns:
            return self._evaluation(event)
        return known

    # --- figures ------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        with self._lock:
            work = self._matcher.work
            return {
                "subscriptions": len(self._trees),
                "dormant": len(self._dormant),
                "dormant_reasons": {id: self._dormant[id] for id in list(self._dormant)[:_SHOWN]},
                "predicates": len(self._matcher.predicates),
                "evaluations": work.details.get("evaluations", 0),
                "given_up": work.details.get("given_up", 0),
                "operators": {name: asdict(each) for name, each in self._registry.runner.counts.items()},
            }

    def merge(self) -> None:
        """Nothing to do: what it holds has one form."""

    def save(self, seq: int, leases: LiveLeases, elsewhere: Sequence[int] = ()) -> None:
        del seq, leases, elsewhere  # it is rebuilt from the store

    def close(self) -> None:
        self.clear()
        self._registry.runner.close()


class _RunUnlocked(Runner):
    """Runs operators by another runner, with the engine unlocked meanwhile."""

    def __init__(self, runner: Runner, lock: threading.Lock) -> None:
        super().__init__()
        self._behind, self._engine_lock = runner, lock

    def run(self, pattern: Pattern, event: Event) -> Outcome:
        self._engine_lock.release()
        try:
            return self._behind.run(pattern, event)
        finally:
            self._engine_lock.acquire()

    def run_batch(self, pattern: Pattern, events: Sequence[Event]) -> list[Outcome]:
        self._engine_lock.release()
        try:
            return self._behind.run_batch(pattern, events)
        finally:
            self._engine_lock.acquire()
