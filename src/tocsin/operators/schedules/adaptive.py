"""Adaptive: cheapest information first, by what was learnt, with a guarantee that does not depend on it.

The score of a predicate is the weight of the undecided conjunctions that its answer is expected to decide, per second
of cost: (chance false * weight of those that use it + chance true * weight of those that use its negation) / cost. The
chances and costs are learnt online (overlap.py); the weights are popularity, short conjunctions counting more. This is
the greedy rule of adaptive set cover. Two things are added:

- A conjunction with one unknown member left needs it whatever else happens, so that member comes first.
- The guard. As in the proof of Algorithm 1, a set of marked conjunctions is kept whose unknown members, when they were
  marked, are disjoint: whoever decides them evaluates at least one of each. Evaluations outside of these members may
  not cost more than the members in sum do; beyond that, the members themselves are evaluated. So the evaluations are at
  most 2 d times the fewest possible, on every event, with whatever beliefs (with unequal costs times C_max / C_min);
  Sequential's bound is d. `guarded` counts how often the guard chose.

Time per event O(M + P) to begin (a copy where all conjunctions are candidates), O(M + E log P) for E evaluations:
scores only fall, so a lazy heap holds them.

The compiled part of the adaptive schedule (adaptive.py says what it does and why).

One event's state is in arrays that the caller owns:

    undecided, left           [n] of each conjunction: not decided yet; members without an answer, while undecided
    demand                    [P] undecided conjunctions that use each predicate
    if_false, if_true         [P] the weight of those that an answer would decide
    keys, ids                 the heap of predicates by score (adaptive.py), its size in counts[HEAP]
    pressing                  a stack of predicates that are the last of some conjunction, its size in counts[PRESSING]
    packed, is_packed         the unknown members of the marked conjunctions, in order of marking; counts[PACKED] of
                              them, of which the guard has passed counts[PASSED]
    spent                     seconds: [INSIDE] all packed members, [OUTSIDE] what was evaluated besides

A binary heap of predicates by falling score, for compiled schedules whose scores only fall.

Scores that fell are not moved in the heap: whoever looks at the top compares its key with the score of now, and calls
`lower_top`. So a fall costs nothing until it matters.

    make_heap O(size), lower_top and drop_top O(log size)
"""

from __future__ import annotations

import numpy as np

from tocsin.index.jit import helper, lean_kernel
from tocsin.operators.problem import (
    Bools,
    Evaluate,
    Float64s,
    Int32s,
    Int64s,
    PredicateStatistics,
    SchedulingProblem,
    Workload,
)
from tocsin.operators.schedules.naive import NONE, UNKNOWN, Answers, ask, decided, fails, no_answers
from tocsin.operators.schedules.overlap import Beliefs, SubscriptionGraphs


@helper
def make_heap(keys: Float64s, ids: Int32s, size: int) -> None:
    """Order the first `size` entries as a heap."""
    for at in range(size // 2 - 1, -1, -1):
        _sift_down(keys, ids, size, at)


@helper
def lower_top(keys: Float64s, ids: Int32s, size: int, key: float) -> None:
    """Give the top a lower key, and move it to where it belongs."""
    keys[0] = key
    _sift_down(keys, ids, size, 0)


@helper
def drop_top(keys: Float64s, ids: Int32s, size: int) -> int:
    """Remove the top; return how many are left."""
    size -= 1
    keys[0], ids[0] = keys[size], ids[size]
    _sift_down(keys, ids, size, 0)
    return size


@helper
def _sift_down(keys: Float64s, ids: Int32s, size: int, at: int) -> None:
    """Move an entry below every greater one; equal keys go by number, so that runs are repeatable."""
    key, id = keys[at], ids[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (keys[right] > keys[child] or (keys[right] == keys[child] and ids[right] < ids[child])):
            child = right
        if keys[child] < key or (keys[child] == key and ids[child] > id):
            break
        keys[at], ids[at] = keys[child], ids[child]
        at = child
    keys[at], ids[at] = key, id


# The compiled part of the adaptive schedule (adaptive.py says what it does and why).


HEAP, PRESSING, PACKED, PASSED, MARKED, GUARDED = 0, 1, 2, 3, 4, 5
INSIDE, OUTSIDE = 0, 1


@helper
def _score(probability: float, cost: float, if_false: float, if_true: float) -> float:
    """Return the weight that an answer is expected to decide, per second."""
    return ((1.0 - probability) * if_false + probability * if_true) / cost


@lean_kernel
def begin(
    probability: Float64s,
    cost: Float64s,
    if_false: Float64s,
    if_true: Float64s,
    demand: Int32s,
    left: Int32s,
    starts: Int64s,
    members: Int32s,
    keys: Float64s,
    ids: Int32s,
    pressing: Int32s,
    counts: Int64s,
) -> None:
    """Fill the heap with the predicates in demand, and the stack with those that are alone in a conjunction."""
    size = 0
    for predicate in range(len(demand)):
        if demand[predicate] > 0:
            keys[size] = _score(probability[predicate], cost[predicate], if_false[predicate], if_true[predicate])
            ids[size] = predicate
            size += 1
    make_heap(keys, ids, size)
    counts[HEAP] = size
    for conjunction in range(len(left)):
        if left[conjunction] == 1:
            pressing[counts[PRESSING]] = members[starts[conjunction]]
            counts[PRESSING] += 1


@helper
def _unknown_member(conjunction: int, starts: Int64s, members: Int32s, answers: Answers) -> int:
    """Return the first member without an answer."""
    for place in range(starts[conjunction], starts[conjunction + 1]):
        if answers[members[place]] == UNKNOWN:
            return int(members[place])
    return NONE


@helper
def _release(
    conjunction: int,
    starts: Int64s,
    members: Int32s,
    negated: Bools,
    weight: Float64s,
    demand: Int32s,
    if_false: Float64s,
    if_true: Float64s,
) -> None:
    """Take a decided conjunction out of what its members are worth."""
    for place in range(starts[conjunction], starts[conjunction + 1]):
        demand[members[place]] -= 1
        if negated[place]:
            if_true[members[place]] -= weight[conjunction]
        else:
            if_false[members[place]] -= weight[conjunction]


@helper
def _most_informative(
    answers: Answers,
    probability: Float64s,
    cost: Float64s,
    demand: Int32s,
    if_false: Float64s,
    if_true: Float64s,
    keys: Float64s,
    ids: Int32s,
    pressing: Int32s,
    counts: Int64s,
) -> int:
    """Return the predicate that comes next by need or by score, or NONE; it stays on top of its stack or heap."""
    while counts[PRESSING] > 0:
        predicate = pressing[counts[PRESSING] - 1]
        if answers[predicate] == UNKNOWN and demand[predicate] > 0:
            return int(predicate)
        counts[PRESSING] -= 1
    while counts[HEAP] > 0:
        predicate = ids[0]
        if answers[predicate] != UNKNOWN or demand[predicate] == 0:
            counts[HEAP] = drop_top(keys, ids, counts[HEAP])
            continue
        score = _score(probability[predicate], cost[predicate], if_false[predicate], if_true[predicate])
        if score >= keys[0]:
            return int(predicate)
        lower_top(keys, ids, counts[HEAP], score)
    return NONE


@helper
def _mark(
    predicate: int,
    answers: Answers,
    cost: Float64s,
    starts: Int64s,
    members: Int32s,
    user_starts: Int64s,
    users: Int32s,
    undecided: Bools,
    packed: Int32s,
    is_packed: Bools,
    counts: Int64s,
    spent: Float64s,
) -> bool:
    """Mark an undecided conjunction that uses the predicate and has no unknown member packed; return whether there is one."""
    for at in range(user_starts[predicate], user_starts[predicate + 1]):
        conjunction = users[at]
        if not undecided[conjunction]:
            continue
        free = True
        for place in range(starts[conjunction], starts[conjunction + 1]):
            if is_packed[members[place]] and answers[members[place]] == UNKNOWN:
                free = False
                break
        if free:
            for place in range(starts[conjunction], starts[conjunction + 1]):
                member = members[place]
                if answers[member] == UNKNOWN:
                    is_packed[member] = True
                    packed[counts[PACKED]] = member
                    counts[PACKED] += 1
                    spent[INSIDE] += cost[member]
            counts[MARKED] += 1
            return True
    return False


@helper
def _next_packed(answers: Answers, demand: Int32s, packed: Int32s, counts: Int64s) -> int:
    """Return the first packed predicate that is unknown and in demand."""
    while counts[PASSED] < counts[PACKED]:
        predicate = packed[counts[PASSED]]
        if answers[predicate] == UNKNOWN and demand[predicate] > 0:
            return int(predicate)
        counts[PASSED] += 1
    return NONE


@lean_kernel
def next_informative(
    answered: int,
    answers: Answers,
    probability: Float64s,
    cost: Float64s,
    starts: Int64s,
    members: Int32s,
    negated: Bools,
    weight: Float64s,
    user_starts: Int64s,
    users: Int32s,
    user_negated: Bools,
    undecided: Bools,
    left: Int32s,
    demand: Int32s,
    if_false: Float64s,
    if_true: Float64s,
    keys: Float64s,
    ids: Int32s,
    pressing: Int32s,
    packed: Int32s,
    is_packed: Bools,
    counts: Int64s,
    spent: Float64s,
) -> int:
    """Take note of what was answered; return the next predicate, or NONE when all are decided."""
    if answered != NONE:
        for at in range(user_starts[answered], user_starts[answered + 1]):
            conjunction = users[at]
            if not undecided[conjunction]:
                continue
            left[conjunction] -= 1
            if left[conjunction] == 0 or fails(answers[answered], user_negated[at]):
                undecided[conjunction] = False
                _release(conjunction, starts, members, negated, weight, demand, if_false, if_true)
            elif left[conjunction] == 1:
                pressing[counts[PRESSING]] = _unknown_member(conjunction, starts, members, answers)
                counts[PRESSING] += 1
    chosen = _most_informative(answers, probability, cost, demand, if_false, if_true, keys, ids, pressing, counts)
    if chosen == NONE or is_packed[chosen]:
        return chosen
    if _mark(chosen, answers, cost, starts, members, user_starts, users, undecided, packed, is_packed, counts, spent):
        return chosen
    if spent[OUTSIDE] + cost[chosen] <= spent[INSIDE]:
        spent[OUTSIDE] += cost[chosen]
        return chosen
    counts[GUARDED] += 1
    return _next_packed(answers, demand, packed, counts)


# Adaptive.


CHEAPEST_SECONDS = 1e-9  # a declared cost of nothing would outweigh any information


class Adaptive:
    """Learns from the statistics of the problems that it is given."""

    name = "adaptive"

    def __init__(self) -> None:
        self.beliefs = Beliefs()
        self.marked = 0  # conjunctions of the last event with disjoint members: no schedule evaluates fewer predicates
        self.guarded = 0  # evaluations of the last event that the guard chose
        self._overlaps: SubscriptionGraphs | None = None

    def prepare(self, workload: Workload, statistics: PredicateStatistics) -> None:
        """Make ready for a workload; what was learnt of its predicates stays where it grew out of the last one."""
        grown = self._overlaps is not None and self._overlaps.workload.lineage is workload.lineage
        self._overlaps = SubscriptionGraphs(workload)
        if not grown:
            self._overlaps.whole  # noqa: B018 - made now, not at the first event
            self.beliefs.look(workload, statistics, now=True)

    def run(self, problem: SchedulingProblem, evaluate: Evaluate) -> Bools:
        overlaps = self._overlaps
        if overlaps is None or overlaps.workload is not problem.workload:
            self._overlaps = overlaps = SubscriptionGraphs(problem.workload)
        graph, predicates = overlaps.of(problem), problem.workload.predicates
        answers = no_answers(predicates)
        probability, cost = self.beliefs.look(problem.workload, problem.statistics)
        cost = np.maximum(cost, CHEAPEST_SECONDS)
        if_false, if_true = (each.copy() for each in graph.worth)
        undecided, left, demand = np.ones(graph.conjunctions, np.bool_), graph.lengths.copy(), graph.demand.copy()
        keys, ids = np.empty(predicates, np.float64), np.empty(predicates, np.int32)
        pressing, packed = np.empty(graph.conjunctions, np.int32), np.empty(predicates, np.int32)
        is_packed = np.zeros(predicates, np.bool_)
        counts, spent = np.zeros(6, np.int64), np.zeros(2, np.float64)
        begin(
            probability, cost, if_false, if_true, demand, left, graph.starts, graph.members, keys, ids, pressing, counts
        )

        def step(answered: int) -> int:
            return next_informative(
                answered, answers, probability, cost, graph.starts, graph.members, graph.negated, graph.weight,
                graph.user_starts, graph.users, graph.user_negated, undecided, left, demand, if_false, if_true,
                keys, ids, pressing, packed, is_packed, counts, spent,
            )  # fmt: skip

        ask(step, answers, evaluate)
        self.marked, self.guarded = int(counts[MARKED]), int(counts[GUARDED])
        return decided(problem, answers)
