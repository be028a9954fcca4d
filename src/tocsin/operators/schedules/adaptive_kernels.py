"""The compiled part of the adaptive schedule (adaptive.py says what it does and why).

One event's state is in arrays that the caller owns:

    undecided, left           [n] of each conjunction: not decided yet; members without an answer, while undecided
    demand                    [P] undecided conjunctions that use each predicate
    if_false, if_true         [P] the weight of those that an answer would decide
    keys, ids                 the heap of predicates by score (priority_heap.py), its size in counts[HEAP]
    pressing                  a stack of predicates that are the last of some conjunction, its size in counts[PRESSING]
    packed, is_packed         the unknown members of the marked conjunctions, in order of marking; counts[PACKED] of
                              them, of which the guard has passed counts[PASSED]
    spent                     seconds: [INSIDE] all packed members, [OUTSIDE] what was evaluated besides
"""

from __future__ import annotations

from tocsin.index.jit import helper, lean_kernel
from tocsin.operators.problem import Bools, Float64s, Int32s, Int64s
from tocsin.operators.schedules.answers import NONE, UNKNOWN, Answers, fails
from tocsin.operators.schedules.priority_heap import drop_top, lower_top, make_heap

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
