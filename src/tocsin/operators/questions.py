"""OperatorQuestions: what conjunctions ask of operators, and whether they get it from an event (Liu et al., sections 2 and 3).

What a conjunction asks of operators and variables is one condition (compile/normalise.py). Its calls that are not within a
`not` with variables must all hold, whatever the variables: these are its members, and conjunctions with the same members
are one to a schedule (problem.py), which decides the members of all that an event has left, sharing every evaluation. Where
a condition has variables, or more than calls, the definition then decides it with what the operators have found.

A call of an operator that is not there, or no longer takes its arguments, fails: the subscription matches nothing, and
matches again where the operator is back.

Predicates: the distinct operator predicates that a matcher has seen, numbered, with what is known of each.

GrowingArray: a NumPy array that only grows at its end, so that what was seen of it stays as it was.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.errors import FormulaFailed, UnknownOperator
from tocsin.language.bind import bind_condition
from tocsin.language.documents import node_from_json
from tocsin.language.formula import Scope, Substitution
from tocsin.language.semantics import Situation, Solutions, satisfying
from tocsin.language.sides import sides_of, variables_of
from tocsin.language.syntax import And, Constant, Node, Not, OperatorCall, Variable
from tocsin.operators.foreign import Flight
from tocsin.operators.operator import CallPattern, Operator, Parameter, Row, StoredCalls, unify
from tocsin.operators.problem import (
    Bools,
    EventEvaluation,
    Float64s,
    Int32s,
    ParallelSchedule,
    PredicateStatistics,
    Schedule,
    SchedulingProblem,
    Steps,
    Workload,
)
from tocsin.operators.registry import CallResult, Registry, Runner
from tocsin.schema import Domain, Event, Schema, Value, ViewAttribute

T = TypeVar("T", bound=np.generic)
OF_EVENT = 16  # calls in flight for one event
MOST_IN_FLIGHT = 64  # for the events of a batch
NONE = -1  # a schedule has nothing to evaluate at the moment


class GrowingArray(Generic[T]):
    """Appending takes amortised constant time, and a view none; views of different sizes agree where both reach."""

    def __init__(self, kind: type[T], values: npt.NDArray[T] | Sequence[object] = ()) -> None:
        self._room: npt.NDArray[T] = np.array(values, kind)
        self._size = len(values)

    def __len__(self) -> int:
        return self._size

    def extend(self, values: Sequence[int]) -> None:
        """Append values."""
        size = self._size + len(values)
        if size > len(self._room):
            room = np.empty(max(16, 2 * size), self._room.dtype)
            room[: self._size] = self._room[: self._size]
            self._room = room  # views of the old one keep it
        self._room[self._size : size] = values
        self._size = size

    @property
    def view(self) -> npt.NDArray[T]:
        """The values so far; nothing that is appended later changes them."""
        return self._room[: self._size]


# Predicates.


class Predicates:
    """Numbers for patterns, given once and never again to another; taking a further one costs no look at the others."""

    def __init__(self) -> None:
        self.patterns: list[CallPattern] = []
        self.statistics = PredicateStatistics.of(np.zeros(0))
        self._numbers: dict[CallPattern, int] = {}
        self._operators: dict[object, int] = {}
        self._arguments: dict[object, int] = {}
        self._operator = GrowingArray(np.int32)
        self._argument = GrowingArray(np.int32)

    def number(self, pattern: CallPattern) -> int:
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

    def grown_statistics(self) -> PredicateStatistics:
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


# OperatorQuestions.


Answer = (
    tuple[Substitution, ...] | None | str
)  # the values of variables that satisfy it; None: false; a text: why it fails
HOLDS: tuple[Substitution, ...] = ()


class OperatorCondition:
    """One condition that asks operators: its members, and itself where these do not decide it."""

    __slots__ = ("conjunction", "is_decided_by_members", "node", "predicates")

    def __init__(
        self, conjunction: int, predicates: tuple[int, ...], *, is_decided_by_members: bool, node: Node
    ) -> None:
        self.conjunction = conjunction  # its number to the schedule; -1 where it has no members
        self.predicates = predicates  # of its members
        self.is_decided_by_members = is_decided_by_members
        self.node = node


class OperatorQuestions:
    """Conditions that ask operators, by their texts, and the schedule that decides their members.

    It learns from the events; nothing is forgotten but with `cleared`. Safe to share among threads: it is locked for what
    it does itself, and never while an operator runs.
    """

    def __init__(self, schema: Schema, registry: Registry, schedule: str | Callable[[], Schedule] = "adaptive") -> None:
        self.schema, self.registry = schema, registry
        self._new_schedule = schedule
        self.schedule = made_schedule(schedule)
        self.predicates = Predicates()
        self.lock = threading.RLock()
        self.runner = _RunUnlocked(registry.runner, self.lock)
        self.stored = StoredCalls(registry)
        self.evaluations = 0
        self._scope = trusted_scope(schema, self)
        self._conditions: dict[str, OperatorCondition] = {}
        self._conjunctions: dict[tuple[tuple[int, bool], ...], int] = {}
        self._starts = GrowingArray(np.int64, [0])
        self._members = GrowingArray(np.int32)
        self._negated = GrowingArray(np.bool_)
        self._lineage = object()
        self._workload: Workload | None = None
        self._prepared: Workload | None = None

    def cleared(self, schema: Schema) -> OperatorQuestions:
        """Return one that knows no conditions yet."""
        return OperatorQuestions(schema, self.registry, self._new_schedule)

    def __len__(self) -> int:
        return len(self._conditions)

    # --- conditions ---------------------------------------------------------------------------------------------------

    def condition(self, expression: str) -> OperatorCondition:
        """Return the condition of a JSON tree, made when it is first asked for."""
        known = self._conditions.get(expression)
        if known is None:
            node = bind_condition(node_from_json(msgspec.json.decode(expression)), self._scope).root
            known = self._conditions[expression] = self._made(node)
        return known

    def _made(self, node: Node) -> OperatorCondition:
        parts = node.parts if isinstance(node, And) else (node,)
        signs: dict[int, bool] = {}
        decided = True
        for part in parts:
            call, negated = (part.part, True) if isinstance(part, Not) else (part, False)
            if not isinstance(call, OperatorCall) or (negated and variables_of(call)):
                decided = False
                continue
            number = self.predicates.number(self._pattern(call)[0])
            # p and not p: whatever the schedule finds, the definition has the last word.
            decided = decided and signs.setdefault(number, negated) == negated and not variables_of(call)
        members = tuple(sorted(signs.items()))
        return OperatorCondition(self._conjunction(members), tuple(signs), is_decided_by_members=decided, node=node)

    def _conjunction(self, members: tuple[tuple[int, bool], ...]) -> int:
        if not members:
            return -1
        known = self._conjunctions.get(members)
        if known is None:
            known = self._conjunctions[members] = len(self._conjunctions)
            self._members.extend([predicate for predicate, _ in members])
            self._negated.extend([negated for _, negated in members])
            self._starts.extend([len(self._members)])
            self._workload = None
        return known

    def _pattern(self, call: OperatorCall) -> tuple[CallPattern, tuple[str, ...]]:
        return unify(call, self._operator(call))

    def _operator(self, call: OperatorCall) -> Operator:
        try:
            return self.registry.get(call.name)
        except UnknownOperator:
            return _missing(call, f"the operator {call.name} is not installed")

    # --- what binding asks of operators -------------------------------------------------------------------------------

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        """Return a stored call as it is used here; one that cannot be is kept, and fails."""
        return self.stored.bind_call(call, attributes)

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        """Return the domain of each variable of a call."""
        return self.stored.variable_domains(call)

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        del call, event
        raise AssertionError("conditions are decided with what an EventEvaluation knows")

    # --- events -------------------------------------------------------------------------------------------------------

    def evaluation(self, event: Event) -> EventEvaluation:
        """Return what is known of an event, which is nothing yet."""
        return EventEvaluation(event, self.predicates.patterns, self.runner, self.predicates.grown_statistics())

    def decide(self, asked: Sequence[tuple[EventEvaluation, Sequence[str]]]) -> list[dict[str, bool]]:
        """Return, for each event, which of its conditions have members that all hold or fail.

        Operators that offer batches are asked about all events that may need the answer, at the first need. Those that take
        long are in flight together, of all events.
        """
        with self.lock:
            wanted = [(each, {text: self.condition(text) for text in texts}) for each, texts in asked]
            workload = self._current()
            batch = _Batch(wanted) if len(wanted) > 1 else None
            runs = [_EventRun(self, each, conditions, workload, batch) for each, conditions in wanted]
            beside = [run for run in runs if run.takes_long()] if isinstance(self.schedule, ParallelSchedule) else []
            if beside:
                self._run_beside(beside)
            return [run.left() for run in runs]

    def _run_beside(self, runs: Sequence[_EventRun]) -> None:
        """Let operators run for several events, many calls in flight. To be called with the lock, which is let go meanwhile."""
        flight = Flight(self.registry.runner.calls)
        hungry = deque(runs)
        try:
            while True:
                while hungry and len(flight) < MOST_IN_FLIGHT:
                    if not hungry[0].start(flight):
                        hungry.popleft()
                if all(run.is_over for run in runs):
                    return  # whatever is still in flight is not needed any more
                self.lock.release()
                try:
                    (run, key), returned, seconds = flight.wait()
                finally:
                    self.lock.acquire()
                run.learn(key, returned, seconds, flight)
                if run not in hungry:
                    hungry.append(run)
        finally:
            flight.leave()

    def answer(
        self, expression: str, evaluation: EventEvaluation, values: Mapping[str, tuple[Value, ...]],
        failed: Mapping[str, FormulaFailed],
    ) -> Answer:  # fmt: skip
        """Return what comes of a condition whose members all hold or fail, for these values of names."""
        with self.lock:
            condition = self.condition(expression)
            known = len(evaluation.evaluated)
            if condition.is_decided_by_members and evaluation.failures.keys().isdisjoint(condition.predicates):
                return HOLDS
            situation = Situation(values, self.finder(evaluation), failed)
            try:
                found = satisfying(condition.node, situation)
            except FormulaFailed as error:
                return error.reason
            finally:
                self.evaluations += len(evaluation.evaluated) - known
            return HOLDS if {} in found else tuple(found) or None

    def finder(self, evaluation: EventEvaluation) -> Solutions:
        """Return what tells the definition what operators find for an event. To be called with the lock."""
        known: dict[OperatorCall, _Solutions] = {}

        def find(call: OperatorCall) -> Sequence[Substitution]:
            if call not in known:
                pattern, names = self._pattern(call)
                number = self.predicates.number(pattern)
                evaluation.statistics = self.predicates.grown_statistics()
                rows = evaluation.solutions(number)
                if rows is None:
                    raise FormulaFailed(self.stored.missing.get(call.name) or evaluation.failures[number])
                known[call] = _Solutions(names, rows)
            return known[call]

        return find

    def _current(self) -> Workload:
        """Return the conjunctions as schedules see them; the schedule is ready for them."""
        if self._workload is None:
            self._workload = Workload(
                operator=self.predicates.operator(),
                argument=self.predicates.argument(),
                starts=self._starts.view,
                members=self._members.view,
                negated=self._negated.view,
                owner=np.arange(len(self._conjunctions), dtype=np.int32),
                lineage=self._lineage,
            )
        if self._workload is not self._prepared:
            self.schedule.prepare(self._workload, self.predicates.grown_statistics())
            self._prepared = self._workload
        return self._workload


class _Solutions(Sequence[Substitution]):
    """What an operator has found for a call, among which one is looked up at once, however many there are."""

    def __init__(self, names: tuple[str, ...], rows: tuple[Row, ...]) -> None:
        self._names, self._rows = names, rows
        self._all = frozenset(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return dict(zip(self._names, self._rows[at], strict=True))

    def __contains__(self, given: object) -> bool:
        return isinstance(given, dict) and tuple(map(given.get, self._names)) in self._all


def trusted_scope(schema: Schema, operators: Any = None) -> Scope:
    """Return the scope in which stored conditions, which were bound when they were made, are bound again."""
    found = sides_of(schema, ()).subscription_scope
    return Scope(found.attributes, aliases=found.aliases, operators=operators, trusted=True)


def made_schedule(schedule: str | Callable[[], Schedule]) -> Schedule:
    """Return a new schedule; raises NotSupported, NotInstalled for a name that there is none of."""
    if not isinstance(schedule, str):
        return schedule()
    from tocsin.operators.schedules import schedule_of

    return schedule_of(schedule)()


def _missing(call: OperatorCall, reason: str) -> Operator:
    """Return an operator that stands for one that is not there: it fails."""
    from tocsin.language.formula import FLOAT, TEXT

    def fail(*_: object) -> None:
        raise FormulaFailed(reason)

    parameters = tuple(
        Parameter(
            f"p{at}", FLOAT if isinstance(each, Variable) else TEXT, "open" if isinstance(each, Variable) else "input"
        )
        for at, each in enumerate(call.arguments)
        if isinstance(each, Variable | Constant)
    )
    return Operator(call.name, fail, parameters)


class _EventRun:
    """One event on its way through a schedule."""

    def __init__(
        self, asked: OperatorQuestions, evaluation: EventEvaluation, conditions: dict[str, OperatorCondition],
        workload: Workload, batch: _Batch | None,
    ) -> None:  # fmt: skip
        self._asked, self.evaluation, self._conditions, self._batch = asked, evaluation, conditions, batch
        evaluation.statistics = asked.predicates.grown_statistics()
        numbers = {each.conjunction for each in conditions.values() if each.conjunction >= 0}
        candidates: Int32s = np.array(sorted(numbers), np.int32)
        self._problem = SchedulingProblem(workload, candidates, evaluation.statistics)
        self._known = len(evaluation.evaluated)
        self._steps: Steps | None = None
        self._waiting: dict[tuple[object, ...], list[int]] = {}  # predicates in flight, by the inputs that they share
        self._held: Bools | None = None

    def takes_long(self) -> bool:
        """Return whether some operator that may be asked is worth running beside others."""
        evaluation, runner = self.evaluation, self._asked.registry.runner
        if evaluation.closed or not len(self._problem.candidates):
            return False
        numbers = {predicate for each in self._conditions.values() for predicate in each.predicates}
        operators = {id(each): each for each in (evaluation.patterns[number].operator for number in numbers)}
        return any(map(runner.runs_beside, operators.values()))

    @property
    def is_over(self) -> bool:
        """Whether all is decided."""
        return self._held is not None

    def start(self, flight: Flight) -> bool:
        """Start one more call; return False where there is nothing to start at the moment."""
        if self._held is not None or len(self._waiting) >= OF_EVENT:
            return False
        if self._steps is None:
            schedule = self._asked.schedule
            assert isinstance(schedule, ParallelSchedule)
            self._steps = schedule.steps(self._problem)
        return self._go_on(None, flight)

    def learn(self, key: tuple[object, ...], returned: object, seconds: float, flight: Flight) -> None:
        """Take what came of a call, for all that it answers."""
        predicates = self._waiting.pop(key)
        evaluation = self.evaluation
        outcome = self._asked.registry.runner.finish(
            evaluation.patterns[predicates[0]], evaluation.event, returned, seconds
        )
        for predicate in predicates:
            evaluation.learn(predicate, outcome, seconds)
            if self._held is None:
                self._go_on((predicate, evaluation.evaluate(predicate)), flight)

    def _go_on(self, answer: tuple[int, bool] | None, flight: Flight) -> bool:
        """Let the schedule say what is next, and start it; what is known, or quick, is answered at once."""
        assert self._steps is not None
        try:
            predicate = self._steps.send(answer)
            while predicate != NONE:
                if self._is_started(predicate, flight):
                    return True
                predicate = self._steps.send((predicate, self._evaluate(predicate)))
        except StopIteration as stop:
            self._held = stop.value
        return False

    def _is_started(self, predicate: int, flight: Flight) -> bool:
        """Start a call, or wait for one with the same inputs; return False where it is to be evaluated here."""
        evaluation, runner = self.evaluation, self._asked.registry.runner
        pattern = evaluation.patterns[predicate]
        if evaluation.knows(predicate) or not runner.runs_beside(pattern.operator):
            return False
        if self._batch is not None and self._batch.is_for_many(predicate):
            return False
        known = runner.recall(pattern, evaluation.event)
        if known is not None:
            evaluation.learn(predicate, known, 0.0)
            return False
        key = pattern.input_key
        if key in self._waiting:
            self._waiting[key].append(predicate)
        else:
            self._waiting[key] = [predicate]
            runner.start(flight, (self, key), pattern, evaluation.event)
        return True

    def _evaluate(self, predicate: int) -> bool:
        return (
            self.evaluation.evaluate(predicate)
            if self._batch is None
            else self._batch.evaluate(self.evaluation, predicate)
        )

    def left(self) -> dict[str, bool]:
        """Return which conditions have members that all hold or fail."""
        asked, candidates = self._asked, self._problem.candidates
        held = self._held
        if held is None and len(candidates):
            held = asked.schedule.run(self._problem, self._evaluate)
        holding = set() if held is None else set(candidates[held].tolist())
        asked.evaluations += len(self.evaluation.evaluated) - self._known
        failed = self.evaluation.failures.keys()
        return {
            text: each.conjunction < 0 or each.conjunction in holding or not failed.isdisjoint(each.predicates)
            for text, each in self._conditions.items()
        }


class _Batch:
    """Several events whose operators are asked together where they offer it."""

    def __init__(self, wanted: Sequence[tuple[EventEvaluation, dict[str, OperatorCondition]]]) -> None:
        self._needing: dict[int, list[EventEvaluation]] = {}
        for evaluation, conditions in wanted:
            needed = {predicate for each in conditions.values() for predicate in each.predicates}
            for predicate in needed:
                if evaluation.patterns[predicate].operator.evaluate_batch is not None:
                    self._needing.setdefault(predicate, []).append(evaluation)

    def is_for_many(self, predicate: int) -> bool:
        """Return whether the operator is asked about several events at once."""
        return len(self._needing.get(predicate, ())) > 1

    def evaluate(self, evaluation: EventEvaluation, predicate: int) -> bool:
        """Return whether the predicate is true of an event."""
        waiting = [each for each in self._needing.get(predicate, ()) if not each.knows(predicate)]
        if not evaluation.knows(predicate) and len(waiting) > 1:
            pattern = evaluation.patterns[predicate]
            outcomes = evaluation.runner.run_batch(pattern, [each.event for each in waiting])
            for each, outcome in zip(waiting, outcomes, strict=True):
                each.learn(predicate, outcome, pattern.operator.cost)
        return evaluation.evaluate(predicate)


class _RunUnlocked(Runner):
    """Runs operators by another runner, with a lock let go of meanwhile."""

    def __init__(self, runner: Runner, lock: threading.RLock) -> None:
        super().__init__()
        self._behind, self._engine_lock = runner, lock

    def run(self, pattern: CallPattern, event: Event) -> CallResult:
        self._engine_lock.release()
        try:
            return self._behind.run(pattern, event)
        finally:
            self._engine_lock.acquire()

    def run_batch(self, pattern: CallPattern, events: Sequence[Event]) -> list[CallResult]:
        self._engine_lock.release()
        try:
            return self._behind.run_batch(pattern, events)
        finally:
            self._engine_lock.acquire()
