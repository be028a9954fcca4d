"""A plan changes with every subscription, without being made anew, and gives the answers of the definition."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.operators.generated import World
from tocsin.language import BoundSubscription
from tocsin.language.operator_semantics import evaluate_with
from tocsin.operators import operator_matcher, plan
from tocsin.operators.growing_array import GrowingArray
from tocsin.operators.operator import operator
from tocsin.operators.operator_matcher import OperatorMatcher
from tocsin.operators.registry import Registry
from tocsin.operators.schedules import schedule_names
from tocsin.schema import Event
from tocsin.schema.examples import load_example


@pytest.mark.parametrize("schedule", schedule_names())
def test_changes_and_events_in_any_order_are_answered_by_the_definition(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_FEW", 5)
    monkeypatch.setattr(operator_matcher, "_FEW", 5)
    world, pick = World(11), random.Random(11)
    matcher = OperatorMatcher(world.schema, world.registry, schedule)
    held: dict[int, BoundSubscription] = {}
    plans, numberings = set(), set()
    for step in range(150):
        if held and pick.random() < (0.3 if step < 80 else 0.7):
            chosen = pick.choice(list(held))
            matcher.remove(chosen)
            del held[chosen]
        else:
            held[step] = world.subscription()
            matcher.add(step, held[step])
        plans.add(id(matcher._plan))
        numberings.add(id(matcher.predicates))
        matcher._plan.check()
        if step % 3 == 0:
            event = world.event()
            expected = {number for number, each in held.items() if evaluate_with(world.registry, each, event)}
            assert set(matcher.match(event)) == expected
    assert len(plans) > 1, "what was removed was never let go of"
    assert len(numberings) > 1, "no predicate was ever let go of"


def test_one_change_costs_no_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    @operator
    def seen(event: Event, what: int) -> bool:
        return what % 2 == 0

    matcher = OperatorMatcher(load_example("auction"), Registry([seen]))
    for number in range(50):
        matcher.subscribe(number, f"item where price < {number} and seen({number}) and seen({number + 1})")
    event = Event({"event_type": ("item",), "price": (7,)})
    matcher.match(event)
    before, workload = matcher._plan, matcher._plan.workload
    members = workload.members.copy()
    monkeypatch.setattr(plan.Plan, "compacted", None)  # fails where everything is made anew
    matcher.subscribe("new", "item where price < 9 and seen(100)")
    matcher.remove(3)
    assert matcher.match(event) == ["new"]
    assert matcher._plan is before
    assert np.array_equal(workload.members, members), "a workload that an event may still use was changed"
    assert matcher._plan.workload.lineage is workload.lineage


def test_what_was_learnt_stays_when_predicates_are_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_FEW", 5)
    monkeypatch.setattr(operator_matcher, "_FEW", 5)

    @operator
    def seen(event: Event, what: int) -> bool:
        return what == 39

    matcher = OperatorMatcher(load_example("auction"), Registry([seen]))
    for number in range(40):
        matcher.subscribe(number, f"item where seen({number})")
    for price in range(3):
        assert matcher.match(Event({"event_type": ("item",), "price": (price,)})) == [39]
    for number in range(39):
        matcher.remove(number)
    assert len(matcher.predicates) < 40
    statistics = matcher.predicates.grown_statistics()
    kept = [str(pattern) for pattern in matcher.predicates.patterns].index("seen(39)")
    assert (statistics.evaluations[kept], statistics.trues[kept]) == (3, 3)
    assert matcher.match(Event({"event_type": ("item",), "price": (9,)})) == [39]


def test_an_array_that_grows_leaves_what_was_seen_as_it_was() -> None:
    grown = GrowingArray(np.int32)
    seen = []
    for number in range(100):
        grown.extend([number] * (number % 4))
        seen.append((grown.view, grown.view.copy()))
    assert all(np.array_equal(view, copy) for view, copy in seen)
    assert len(grown) == sum(number % 4 for number in range(100))
