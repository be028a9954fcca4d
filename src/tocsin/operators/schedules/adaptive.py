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

`steps` has several evaluations in flight: first those of conjunctions that need one whatever the others turn out to be, so
that nothing is evaluated in vain; then those that are likely enough needed, by what was learnt.

The compiled part reads the graph (`Links`) and keeps what is known during one event (`State`).

A binary heap of predicates by falling score, for compiled schedules whose scores only fall.

Scores that fell are not moved in the heap: whoever looks at the top compares its key with the score of now, and calls
`lower_top`. So a fall costs nothing until it matters.

    make_heap O(size), lower_top and drop_top O(log size)
"""

from __future__ import annotations

from typing import NamedTuple

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
    Steps,
    Workload,
)
from tocsin.operators.schedules.naive import NONE, UNKNOWN, Answers, ask, decided, fails, no_answers
from tocsin.operators.schedules.overlap import Beliefs, SubscriptionGraph, SubscriptionGraphs


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


# The compiled part.


HEAP, PRESSING, PACKED, PASSED, MARKED, GUARDED = 0, 1, 2, 3, 4, 5
INSIDE, OUTSIDE = 0, 1


class Links(NamedTuple):
    """The subscription graph, as kernels read it: see SubscriptionGraph."""

    starts: Int64s
    members: Int32s
    negated: Bools
    weight: Float64s
    user_starts: Int64s
    users: Int32s
    user_negated: Bools

    @classmethod
    def of(cls, graph: SubscriptionGraph) -> Links:
        """Return the arrays of a graph."""
        return cls(
            graph.starts, graph.members, graph.negated, graph.weight, graph.user_starts, graph.users, graph.user_negated
        )


class State(NamedTuple):
    """What is known during one event, of n conjunctions over P predicates."""

    answers: Answers
    probability: Float64s
    cost: Float64s
    undecided: Bools  # [n]
    left: Int32s  # [n] members without an answer, while undecided
    demand: Int32s  # [P] undecided conjunctions that use each predicate
    if_false: Float64s  # [P] the weight of those that an answer would decide
    if_true: Float64s
    keys: Float64s  # the heap of predicates by score, its size in counts[HEAP]
    ids: Int32s
    pressing: Int32s  # a stack of predicates that are the last of some conjunction, its size in counts[PRESSING]
    packed: Int32s  # unknown members of the marked conjunctions: counts[PACKED], of which the guard has passed counts[PASSED]
    is_packed: Bools
    counts: Int64s
    spent: Float64s  # seconds: [INSIDE] all packed members, [OUTSIDE] what was evaluated besides

    @classmethod
    def of(cls, graph: SubscriptionGraph, probability: Float64s, cost: Float64s) -> State:
        """Return what is known before anything is evaluated."""
        predicates, conjunctions = len(probability), graph.conjunctions
        if_false, if_true = graph.worth
        return cls(
            no_answers(predicates),
            probability,
            cost,
            np.ones(conjunctions, np.bool_),
            graph.lengths.copy(),
            graph.demand.copy(),
            if_false.copy(),
            if_true.copy(),
            np.empty(predicates, np.float64),
            np.empty(predicates, np.int32),
            np.empty(conjunctions, np.int32),
            np.empty(predicates, np.int32),
            np.zeros(predicates, np.bool_),
            np.zeros(6, np.int64),
            np.zeros(2, np.float64),
        )


@helper
def _score(state: State, predicate: int) -> float:
    """Return the weight that an answer is expected to decide, per second."""
    chance = state.probability[predicate]
    worth = (1.0 - chance) * state.if_false[predicate] + chance * state.if_true[predicate]
    return float(worth / state.cost[predicate])


@lean_kernel
def begin(links: Links, state: State) -> None:
    """Fill the heap with the predicates in demand, and the stack with those that are alone in a conjunction."""
    size = 0
    for predicate in range(len(state.demand)):
        if state.demand[predicate] > 0:
            state.keys[size], state.ids[size] = _score(state, predicate), predicate
            size += 1
    make_heap(state.keys, state.ids, size)
    state.counts[HEAP] = size
    for conjunction in range(len(state.left)):
        if state.left[conjunction] == 1:
            state.pressing[state.counts[PRESSING]] = links.members[links.starts[conjunction]]
            state.counts[PRESSING] += 1


@helper
def _unknown_member(links: Links, state: State, conjunction: int) -> int:
    """Return the first member without an answer."""
    for place in range(links.starts[conjunction], links.starts[conjunction + 1]):
        if state.answers[links.members[place]] == UNKNOWN:
            return int(links.members[place])
    return NONE


@helper
def _release(links: Links, state: State, conjunction: int) -> None:
    """Take a decided conjunction out of what its members are worth."""
    for place in range(links.starts[conjunction], links.starts[conjunction + 1]):
        member = links.members[place]
        state.demand[member] -= 1
        if links.negated[place]:
            state.if_true[member] -= links.weight[conjunction]
        else:
            state.if_false[member] -= links.weight[conjunction]


@helper
def _most_informative(state: State) -> int:
    """Return the predicate that comes next by need or by score, or NONE; it stays on top of its stack or heap."""
    counts, keys, ids = state.counts, state.keys, state.ids
    while counts[PRESSING] > 0:
        predicate = state.pressing[counts[PRESSING] - 1]
        if state.answers[predicate] == UNKNOWN and state.demand[predicate] > 0:
            return int(predicate)
        counts[PRESSING] -= 1
    while counts[HEAP] > 0:
        predicate = ids[0]
        if state.answers[predicate] != UNKNOWN or state.demand[predicate] == 0:
            counts[HEAP] = drop_top(keys, ids, counts[HEAP])
            continue
        # Scores only fall: where this one did not, nothing below the top has a higher one.
        score = _score(state, predicate)
        if score >= keys[0]:
            return int(predicate)
        lower_top(keys, ids, counts[HEAP], score)
    return NONE


@helper
def _mark(links: Links, state: State, predicate: int) -> bool:
    """Mark an undecided conjunction that uses the predicate and has no unknown member packed; return whether there is one."""
    starts, members, answers, counts = links.starts, links.members, state.answers, state.counts
    for at in range(links.user_starts[predicate], links.user_starts[predicate + 1]):
        conjunction = links.users[at]
        if not state.undecided[conjunction]:
            continue
        free = True
        for place in range(starts[conjunction], starts[conjunction + 1]):
            if state.is_packed[members[place]] and answers[members[place]] == UNKNOWN:
                free = False
                break
        if free:
            for place in range(starts[conjunction], starts[conjunction + 1]):
                member = members[place]
                if answers[member] == UNKNOWN:
                    state.is_packed[member] = True
                    state.packed[counts[PACKED]] = member
                    counts[PACKED] += 1
                    state.spent[INSIDE] += state.cost[member]
            counts[MARKED] += 1
            return True
    return False


@helper
def _next_packed(state: State) -> int:
    """Return the first packed predicate that is unknown and in demand."""
    counts = state.counts
    while counts[PASSED] < counts[PACKED]:
        predicate = state.packed[counts[PASSED]]
        if state.answers[predicate] == UNKNOWN and state.demand[predicate] > 0:
            return int(predicate)
        counts[PASSED] += 1
    return NONE


@helper
def _note(links: Links, state: State, answered: int) -> None:
    """Take note of what was answered."""
    left, counts = state.left, state.counts
    for at in range(links.user_starts[answered], links.user_starts[answered + 1]):
        conjunction = links.users[at]
        if not state.undecided[conjunction]:
            continue
        left[conjunction] -= 1
        if left[conjunction] == 0 or fails(state.answers[answered], links.user_negated[at]):
            state.undecided[conjunction] = False
            _release(links, state, conjunction)
        elif left[conjunction] == 1:
            member = _unknown_member(links, state, conjunction)
            if member != NONE:  # else the last one is in flight
                state.pressing[counts[PRESSING]] = member
                counts[PRESSING] += 1


@helper
def _choose(links: Links, state: State) -> int:
    """Return the next predicate, or NONE when all are decided."""
    chosen = _most_informative(state)
    # The guard: what lies outside of marked conjunctions may cost no more than what lies inside.
    if chosen == NONE or state.is_packed[chosen] or _mark(links, state, chosen):
        return chosen
    if state.spent[OUTSIDE] + state.cost[chosen] <= state.spent[INSIDE]:
        state.spent[OUTSIDE] += state.cost[chosen]
        return chosen
    state.counts[GUARDED] += 1
    return _next_packed(state)


@lean_kernel
def next_informative(links: Links, state: State, answered: int) -> int:
    """Take note of what was answered; return the next predicate, or NONE when all are decided."""
    if answered != NONE:
        _note(links, state, answered)
    return _choose(links, state)


@lean_kernel
def note_answer(links: Links, state: State, answered: int) -> None:
    """Take note of what was answered."""
    _note(links, state, answered)


# Several in flight.


IN_FLIGHT = -2  # an answer that is to come
LIKELY = 0.25  # how likely it must be that a predicate is needed, whatever those in flight turn out to be


def next_beside(links: Links, state: State, lengths: Int32s, chance: Float64s) -> int:
    """Return the predicate to evaluate beside those in flight, or NONE; chance[c] is how likely c is not decided by them.

    A conjunction without a member in flight needs one of its members whatever happens. Others need a further one as likely
    as those in flight leave them undecided; what is less likely than LIKELY waits. By the score of the rest.
    """
    some = np.repeat(state.undecided & (chance >= LIKELY), lengths) & (state.answers[links.members] == UNKNOWN)
    members = links.members[some]
    if not len(members):
        return NONE
    share = state.probability[members]
    worth = np.repeat(links.weight * chance, lengths)[some] * np.where(links.negated[some], share, 1.0 - share)
    score = np.bincount(members, worth, len(state.cost)) / state.cost
    return int(members[np.argmax(score[members])])


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
        _, links, state = self._begun(problem)
        ask(lambda answered: next_informative(links, state, answered), state.answers, evaluate)
        self.marked, self.guarded = int(state.counts[MARKED]), int(state.counts[GUARDED])
        return decided(problem, state.answers)

    def _begun(self, problem: SchedulingProblem) -> tuple[SubscriptionGraph, Links, State]:
        overlaps = self._overlaps
        if overlaps is None or overlaps.workload is not problem.workload:
            self._overlaps = overlaps = SubscriptionGraphs(problem.workload)
        graph = overlaps.of(problem)
        probability, cost = self.beliefs.look(problem.workload, problem.statistics)
        links, state = Links.of(graph), State.of(graph, probability, np.maximum(cost, CHEAPEST_SECONDS))
        begin(links, state)
        return graph, links, state

    def steps(self, problem: SchedulingProblem) -> Steps:
        graph, links, state = self._begun(problem)
        chance: Float64s = np.ones(graph.conjunctions)  # that those in flight leave it undecided
        in_flight = 0
        while state.undecided.any():
            if in_flight:
                chosen = next_beside(links, state, graph.lengths, chance)
            else:
                chosen = next_informative(links, state, NONE)
            if chosen != NONE:
                in_flight += 1
                state.answers[chosen] = IN_FLIGHT
                _expect(links, state, chance, chosen, 1.0)
            answer = yield chosen
            if answer is not None:
                predicate, holds = answer
                in_flight -= 1
                _expect(links, state, chance, predicate, -1.0)
                state.answers[predicate] = holds
                note_answer(links, state, predicate)
        state.answers[state.answers == IN_FLIGHT] = UNKNOWN
        return decided(problem, state.answers)


def _expect(links: Links, state: State, chance: Float64s, predicate: int, sign: float) -> None:
    """Count a predicate that is in flight among what may decide its conjunctions, or take it out."""
    users = slice(links.user_starts[predicate], links.user_starts[predicate + 1])
    true = np.clip(state.probability[predicate], 0.01, 0.99)
    chance[links.users[users]] *= np.where(links.user_negated[users], 1.0 - true, true) ** sign
