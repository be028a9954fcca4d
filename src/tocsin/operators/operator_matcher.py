"""OperatorMatcher: subscriptions with expensive operators, mixed freely with cheap predicates.

    1. Each subscription becomes alternatives: a cheap part, operator predicates, value constraints (alternatives.py).
    2. The columnar engine finds the alternatives whose cheap part holds.
    3. A schedule decides those that have operator predicates, sharing evaluations among them (problem.py).
    4. Where variables are involved, the bindings are joined and the constraints checked (conjunction.py).

The answer is that of language/operator_semantics.py, whatever the schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from tocsin.errors import DuplicateSubscription, UnknownSubscription
from tocsin.language import BoundSubscription, Subscription
from tocsin.language.syntax import NEVER, Node
from tocsin.matching.columnar.matcher import ColumnarMatcher
from tocsin.matching.matcher import Matcher, SubscriptionId
from tocsin.operators.alternatives import alternatives
from tocsin.operators.binding import variable_domains
from tocsin.operators.conjunction import Conjunction, GivenUp, Substitution, compile_conjunction
from tocsin.operators.event_evaluation import EventEvaluation
from tocsin.operators.plan import Plan
from tocsin.operators.predicates import Predicates
from tocsin.operators.problem import Int32s, Problem, Schedule, Workload
from tocsin.operators.registry import Registry
from tocsin.operators.runner import Runner
from tocsin.schema import Event, Schema

_FEW = 1_000  # predicates that are not worth other numbers


class OperatorMatcher(Matcher):
    """Matches events against subscriptions that may call operators."""

    name: ClassVar[str] = "operators"

    def __init__(self, schema: Schema, registry: Registry, schedule: str | Callable[[], Schedule] = "adaptive") -> None:
        """Hold nothing yet; `schedule` is the name of one (schedules/), or makes one: it learns from these events."""
        super().__init__(schema)
        self.registry = registry
        self._new_schedule = schedule
        self.schedule = _made(schedule)
        self.predicates = Predicates()
        self._cheap = ColumnarMatcher(schema)
        self._owned: dict[SubscriptionId, list[int]] = {}  # the alternatives of each subscription
        self._owner: dict[int, SubscriptionId] = {}  # and back
        self._plan = Plan(self.predicates)
        self._asked: Counter[int] = Counter()  # conjunctions that may ask about each predicate
        self._next = 0
        self._added = 0
        self._prepared: Workload | None = None  # what the schedule was made ready for

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, id: SubscriptionId, expression: str | Subscription) -> None:
        """Hold a subscription written as text, or as a tree; raises LanguageError where it is wrong."""
        self.add(id, self.registry.bind(expression, self.schema))

    def add(self, id: SubscriptionId, subscription: BoundSubscription) -> None:
        """Hold a subscription bound by the registry (`Registry.bind`)."""
        if id in self._owned:
            raise DuplicateSubscription(id)
        tree = subscription.subscription
        compiled = self._compiled(subscription)
        for cheap, conjunction in compiled:
            part = BoundSubscription(Subscription(tree.event_types, cheap), subscription.view)
            self._cheap.add(self._next, part)
            self._plan.add(id, self._added, conjunction)
            if conjunction is not None:
                self._asked.update(conjunction.numbers())
            self._owner[self._next] = id
            self._owned.setdefault(id, []).append(self._next)
            self._next += 1
        self._owned.setdefault(id, [])
        self._added += 1

    def _compiled(self, subscription: BoundSubscription) -> list[tuple[Node, Conjunction | None]]:
        """Return the alternatives, each as its cheap part and what operators decide."""
        where = subscription.subscription.where
        domains = variable_domains(where, self.registry.get)
        found: list[tuple[Node, Conjunction | None]] = []
        for alternative in alternatives(where):
            if not alternative.asked:
                found.append((alternative.cheap, None))
                continue
            conjunction = compile_conjunction(alternative, self.registry.get, self.predicates, domains)
            if conjunction is None or alternative.cheap == NEVER:
                continue
            if conjunction.members:
                found.append((alternative.cheap, conjunction))
            elif conjunction.joint(lambda _: ()) is not None:  # constraints of constants: `1 < 2`
                found.append((alternative.cheap, None))
        return found

    def remove(self, id: SubscriptionId) -> None:
        if id not in self._owned:
            raise UnknownSubscription(id)
        numbers = self._owned.pop(id)
        for number in numbers:
            self._cheap.remove(number)
            del self._owner[number]
        for conjunction in self._plan.remove(numbers):
            self._asked.subtract(conjunction.numbers())
        if self._plan.is_sparse:
            self._compact()

    def _compact(self) -> None:
        """Let go of the places of what was removed; and of predicates, where most are asked about by nobody.

        Predicates get other numbers then, and a new schedule learns from the statistics, which stay.
        """
        used = [number for number, count in self._asked.items() if count > 0]
        if len(self.predicates) <= max(_FEW, 2 * len(used)):
            self._plan = self._plan.compacted(self.predicates)
            return
        predicates, numbers = self.predicates.only(sorted(used))
        self._plan = self._plan.compacted(predicates, numbers)
        self._asked = Counter({numbers[number]: self._asked[number] for number in used})
        self.predicates, self.schedule, self._prepared = predicates, _made(self._new_schedule), None

    def snapshot(self) -> OperatorMatcher:
        copy = OperatorMatcher(self.schema, self.registry, self._new_schedule)
        copy.predicates = self.predicates  # they are only added to
        copy._cheap = self._cheap.snapshot()
        copy._owned = {id: list(numbers) for id, numbers in self._owned.items()}
        copy._owner, copy._asked = dict(self._owner), Counter(self._asked)
        copy._plan = self._plan.compacted(self.predicates)
        copy._next, copy._added = self._next, self._added
        return copy

    def __len__(self) -> int:
        return len(self._owned)

    # --- matching -----------------------------------------------------------------------------------------------------

    def match(self, event: Event) -> list[SubscriptionId]:
        return list(self.match_with_bindings(event))

    def match_with_bindings(self, event: Event) -> dict[SubscriptionId, Substitution]:
        """Return the subscriptions that the event satisfies, each with values of its variables that satisfy it."""
        return self._decide(self._left(self.evaluation(event), self._current()))

    def match_batch(self, events: Sequence[Event]) -> list[list[SubscriptionId]]:
        """Return the matches of each event; operators that offer batches are asked about many events at once.

        Such an operator is evaluated, at the first need, for all events of the batch that may need it.
        """
        return [list(found) for found in self.match_batch_with_bindings(events)]

    def match_batch_with_bindings(self, events: Sequence[Event]) -> list[dict[SubscriptionId, Substitution]]:
        """Return the matches of each event with their bindings, as `match_batch` finds them."""
        return self.match_evaluations([self.evaluation(event) for event in events])

    def evaluation(self, event: Event, runner: Runner | None = None) -> EventEvaluation:
        """Return what is known of an event, which is nothing yet; its operators are called by the runner."""
        statistics = self.predicates.grown_statistics()
        return EventEvaluation(event, self.predicates.patterns, runner or self.registry.runner, statistics)

    def match_evaluations(self, evaluations: Sequence[EventEvaluation]) -> list[dict[SubscriptionId, Substitution]]:
        """Return the matches of events of which something may be known already; what is found out is kept in them."""
        workload = self._current()
        left = [self._left(evaluation, workload) for evaluation in evaluations]
        waiting = _Batch(left) if len(left) > 1 else None
        return [self._decide(each, waiting) for each in left]

    def _left(self, evaluation: EventEvaluation, workload: Workload) -> _Left:
        """Return what the cheap parts leave to be decided for an event."""
        plan = self._plan
        numbers = np.sort(np.asarray(self._cheap.match_array(evaluation.event), np.int64))
        positions = plan.position[numbers]
        matched = dict.fromkeys(self._owner[number] for number in numbers[positions < 0].tolist())
        positions = positions[positions >= 0]
        if matched and len(positions):
            positions = positions[[plan.owners[at] not in matched for at in positions.tolist()]]
        return _Left(plan, workload, list(matched), positions, evaluation)

    def _decide(self, left: _Left, batch: _Batch | None = None) -> dict[SubscriptionId, Substitution]:
        plan, evaluation = left.plan, left.evaluation
        found: dict[SubscriptionId, Substitution] = {id: {} for id in left.matched}
        if len(left.candidates):
            evaluate = evaluation.evaluate if batch is None else partial(batch.evaluate, left)
            problem = Problem(left.workload, left.candidates, evaluation.statistics)
            held = self.schedule.run(problem, evaluate)
            for at in left.candidates[held].tolist():
                owner = plan.owners[at]
                if owner not in found:
                    substitution = self._joint(plan.conjunctions[at], evaluation)
                    if substitution is not None:
                        found[owner] = substitution
        self.work.events += 1
        self.work.matches += len(found)
        details = self.work.details
        details["candidates"] = details.get("candidates", 0) + len(left.candidates)
        details["evaluations"] = details.get("evaluations", 0) + len(evaluation.evaluated) - left.known
        return found

    def _joint(self, conjunction: Conjunction, evaluation: EventEvaluation) -> Substitution | None:
        """Return a substitution that satisfies a conjunction whose members held."""
        if any(negated and evaluation.failed(predicate) for predicate, negated in conjunction.members):
            return None  # a failure is no answer, so its negation is none either
        if conjunction.is_decided_by_members:
            return {}
        try:
            return conjunction.joint(evaluation.solutions)
        except GivenUp:
            self.work.details["given_up"] = self.work.details.get("given_up", 0) + 1
            return None

    def _current(self) -> Workload:
        """Return the workload of this moment, which the schedule is ready for."""
        workload = self._plan.workload
        if workload is not self._prepared:
            self.schedule.prepare(workload, self.predicates.grown_statistics())
            self._prepared = workload
        return workload


def _made(schedule: str | Callable[[], Schedule]) -> Schedule:
    """Return a new schedule; raises NotSupported, NotInstalled for a name that there is none of."""
    if not isinstance(schedule, str):
        return schedule()
    from tocsin.operators.schedules import schedule_of

    return schedule_of(schedule)()


class _Left:
    """What the cheap parts leave of one event."""

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        matched: list[SubscriptionId],
        candidates: Int32s,
        evaluation: EventEvaluation,
    ) -> None:
        self.plan, self.workload = plan, workload
        self.matched, self.candidates, self.evaluation = matched, candidates, evaluation
        self.known = len(evaluation.evaluated)  # before anything is asked for


class _Batch:
    """Several events whose operators are asked together where they offer it."""

    def __init__(self, left: list[_Left]) -> None:
        self._needing: dict[int, list[EventEvaluation]] = {}
        for each in left:
            needed = {int(k) for at in each.candidates.tolist() for k in each.workload.of(at)[0]}
            for predicate in needed:
                if each.evaluation.patterns[predicate].operator.evaluate_batch is not None:
                    self._needing.setdefault(predicate, []).append(each.evaluation)

    def evaluate(self, left: _Left, predicate: int) -> bool:
        """Return whether the predicate is true of an event."""
        waiting = [each for each in self._needing.get(predicate, ()) if not each.knows(predicate)]
        if not left.evaluation.knows(predicate) and len(waiting) > 1:
            pattern = left.evaluation.patterns[predicate]
            outcomes = left.evaluation.runner.run_batch(pattern, [each.event for each in waiting])
            for each, outcome in zip(waiting, outcomes, strict=True):
                each.learn(predicate, outcome, pattern.operator.cost)
        return left.evaluation.evaluate(predicate)
