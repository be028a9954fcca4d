"""Calls in flight: several at a time, deadlines, circuit breakers, places; counted, never timed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.waiting import wait_until
from tests.operators.schedules.problems import Case, cases, workload_of
from tocsin.matching.matcher import Matcher
from tocsin.operators.foreign import FAILURES, LEFT_BEHIND, Breakers, Flight, ForeignCalls, LeftAlone, TookTooLong
from tocsin.operators.operator import CallPattern, Operator, operator
from tocsin.operators.problem import PredicateStatistics, SchedulingProblem
from tocsin.operators.registry import Registry, Runner
from tocsin.operators.schedules import Adaptive
from tocsin.schema import Event
from tocsin.schema.examples import load_example

EVENT = Event({"event_type": ("item",), "price": (3,)})
SCHEMA = load_example("auction")


@pytest.fixture
def calls() -> Iterator[ForeignCalls]:
    made = ForeignCalls()
    yield made
    made.close()


def meeting(parties: int) -> list[Operator]:
    """Return operators of which each answers only when all are being evaluated."""
    barrier = threading.Barrier(parties)

    def made(number: int) -> Operator:
        @operator(name=f"p{number}", timeout=60)
        def member(_event: Event) -> bool:
            barrier.wait(30)
            return True

        return member

    return list(map(made, range(parties)))


def test_eight_operators_are_evaluated_at_the_same_time() -> None:
    matcher = Matcher(SCHEMA, operators=Registry(meeting(8)))
    for number in range(8):
        matcher.subscribe(number, f"item where p{number}()")
    assert sorted(matcher.match(EVENT)) == list(range(8))
    assert matcher.operators.runner.calls.most_in_flight == 8
    matcher.operators.runner.close()


def test_operators_of_several_events_are_evaluated_at_the_same_time() -> None:
    (both,) = meeting(1)
    barrier = threading.Barrier(6)

    @operator(timeout=60)
    def together(_event: Event) -> bool:
        barrier.wait(30)
        return True

    matcher = Matcher(SCHEMA, operators=Registry([both, together]))
    matcher.subscribe("ann", "item where together()")
    assert matcher.match_batch([EVENT] * 6) == [["ann"]] * 6


def test_coroutines_are_in_flight_together_and_end_at_their_deadline() -> None:
    barrier = asyncio.Barrier(12)

    @operator(timeout=60)
    async def remote(_event: Event, number: int) -> bool:
        await barrier.wait()
        return number >= 0

    @operator(timeout=0.05)
    async def lost(_event: Event) -> bool:
        await asyncio.sleep(600)
        return True

    matcher = Matcher(SCHEMA, operators=Registry([remote, lost]))
    for number in range(12):
        matcher.subscribe(number, f"item where remote({number})")
    matcher.subscribe("lost", "item where lost()")
    assert sorted(matcher.match(EVENT)) == list(range(12))
    assert matcher.operators.runner.counts["lost"].timeouts == 1
    assert matcher.operators.runner.calls.left_behind == 0
    matcher.operators.runner.close()


def test_an_operator_that_turns_out_to_take_long_runs_beside_others_and_one_that_says_here_does_not() -> None:
    runner = Runner()

    @operator
    def slow(_event: Event) -> bool:
        return True

    @operator(runs="here")
    def here(_event: Event) -> bool:
        return True

    assert not runner.runs_beside(slow)
    for each in (slow, here):
        runner.finish(CallPattern(each, ()), EVENT, True, 0.2)
    assert (runner.runs_beside(slow), runner.runs_beside(here)) == (True, False)
    assert runner.runs_beside(operator(cost=0.05)(slow.function))


def test_what_an_operator_said_about_what_it_reads_is_remembered_for_other_events() -> None:
    asked: list[Event] = []

    @operator(reads=("price",), remembers=True, timeout=60)
    def even(event: Event) -> bool:
        asked.append(event)
        return int(str(event.values["price"][0])) % 2 == 0

    matcher = Matcher(SCHEMA, operators=Registry([even]))
    matcher.subscribe("ann", "item where even()")
    for price, title in ((2, "a"), (3, "b"), (2, "c"), (3, "d")):
        event = Event({"event_type": ("item",), "price": (price,), "item": (title,)})
        assert matcher.match(event) == (["ann"] if price == 2 else [])
    assert len(asked) == 2
    assert matcher.operators.runner.counts["even"].remembered == 2


# --- schedules --------------------------------------------------------------------------------------------------------


@given(case=cases(), seed=st.integers(0, 1 << 16), most=st.integers(1, 5))
def test_whatever_is_in_flight_and_comes_back_first_the_answer_is_the_same(case: Case, seed: int, most: int) -> None:
    rng, in_flight, asked = Random(seed), list[int](), list[int]()
    steps = Adaptive().steps(case.problem)
    answer: tuple[int, bool] | None = None

    def go_on() -> None:
        nonlocal answer
        chosen, answer = steps.send(answer), None
        if chosen >= 0:
            assert chosen not in asked
            asked.append(chosen)
            in_flight.append(chosen)
        if chosen < 0 or len(in_flight) >= most:
            predicate = in_flight.pop(rng.randrange(len(in_flight)))
            answer = (predicate, bool(case.truth[predicate]))

    def to_the_end() -> None:
        while True:
            go_on()

    with pytest.raises(StopIteration) as stop:
        to_the_end()
    assert stop.value.value.tolist() == case.expected()
    if most == 1:  # one after the other: as without anything in flight
        others: list[int] = []
        Adaptive().run(case.problem, case.recorder(others))
        assert asked == others


def started_at_once(conjunctions: list[list[int]], size: int, statistics: PredicateStatistics) -> list[int]:
    """Return what is started before there is an answer."""
    steps = Adaptive().steps(SchedulingProblem.whole(workload_of(conjunctions, size), statistics))
    found = []
    while (chosen := steps.send(None)) >= 0:
        found.append(chosen)
    return found


def test_what_is_needed_in_any_case_is_started_at_once_and_what_is_unlikely_waits() -> None:
    unknown = PredicateStatistics.of(np.ones(8))
    assert sorted(started_at_once([[k] for k in range(8)], 8, unknown)) == list(range(8))
    likely = PredicateStatistics.of(np.ones(8))
    likely.evaluations += 1000
    likely.seconds += 1000.0
    likely.trues += 970
    assert len(started_at_once([list(range(8))], 8, likely)) == 8  # nearly always true: all will be needed
    unlikely = PredicateStatistics.of(np.ones(8))
    unlikely.evaluations += 1000
    unlikely.seconds += 1000.0
    unlikely.trues += 30
    assert len(started_at_once([list(range(8))], 8, unlikely)) == 1  # the first decides


def test_an_event_that_is_decided_waits_for_nothing_that_is_still_in_flight() -> None:
    hold = threading.Event()

    @operator(timeout=60, cost=0.01)
    def refuses(_event: Event) -> bool:
        return False

    @operator(timeout=60, cost=0.01)
    def hangs(_event: Event) -> bool:
        return hold.wait(60)

    matcher = Matcher(SCHEMA, operators=Registry([refuses, hangs]))
    matcher.subscribe("ann", "item where refuses() and hangs()")
    try:
        for _ in range(3):
            assert matcher.match(EVENT) == []
    finally:
        hold.set()
        matcher.operators.runner.close()


# --- failures ---------------------------------------------------------------------------------------------------------


def test_circuit_of_an_operator_opens_and_closes_again() -> None:
    now, down = 0.0, True
    runner = Runner()
    runner.calls.breakers = Breakers(clock=lambda: now)

    @operator(timeout=60)
    def remote(_event: Event) -> bool:
        if down:
            raise ConnectionError("nobody there")
        return True

    def ask() -> str | None:
        return runner.run(CallPattern(remote, ()), EVENT).failure

    for _ in range(FAILURES):
        assert ask() == "remote raised ConnectionError: nobody there"
    assert "left alone" in str(ask())
    assert runner.counts["remote"].calls == FAILURES
    now = 1.5
    assert ask() == "remote raised ConnectionError: nobody there"  # asked once whether it is back
    assert "left alone" in str(ask())
    now, down = 4.0, False
    assert ask() is None
    assert (ask(), runner.calls.breakers.state("remote")) == (None, "closed")
    runner.close()


def test_what_an_operator_raises_about_its_event_opens_no_circuit() -> None:
    runner = Runner()

    @operator(timeout=60)
    def picky(_event: Event) -> bool:
        raise ValueError("not this one")

    for _ in range(3 * FAILURES):
        assert "ValueError" in str(runner.run(CallPattern(picky, ()), EVENT).failure)
    assert runner.calls.breakers.state("picky") == "closed"
    runner.close()


def test_threads_that_hang_are_bounded_and_come_back(calls: ForeignCalls) -> None:
    calls.breakers = Breakers(pause_seconds=0.0, longest_pause=0.0)  # it never rests
    hold = threading.Event()
    before = threading.active_count()
    outcomes: list[object] = []
    for _ in range(2 * LEFT_BEHIND):
        flight = Flight(calls)
        flight.start(None, "hangs", hold.wait, (60,), timeout=0.001)
        outcomes.append(flight.wait()[1])
    assert sum(isinstance(each, TookTooLong) for each in outcomes) == calls.left_behind == LEFT_BEHIND
    assert isinstance(outcomes[-1], LeftAlone)
    assert threading.active_count() - before <= LEFT_BEHIND + 1
    flight = Flight(calls)
    flight.start("other", "fine", lambda: 7, (), timeout=60)
    assert flight.wait()[:2] == ("other", 7)
    hold.set()
    wait_until(lambda: calls.left_behind == 0)


def test_a_name_has_places_of_its_own_and_what_is_slow_keeps_only_itself_waiting() -> None:
    calls = ForeignCalls(threads=4, of_name=2)
    hold, flight, others = threading.Event(), Flight(calls), Flight(calls)
    for at in range(10):
        flight.start(at, "slow", hold.wait, (60,), timeout=60)
    for at in range(10):
        others.start(at, "quick", int, (at,), timeout=60)
    assert sorted(others.wait()[1] for _ in range(10)) == list(range(10))
    assert calls.in_flight == 2
    hold.set()
    assert sorted(flight.wait()[0] for _ in range(10)) == list(range(10))
    calls.close()
