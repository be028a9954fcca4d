"""Calling operators: results, failures, time-outs, threads and processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.waiting import wait_until
from tocsin.matching.matcher import Matcher
from tocsin.operators.foreign import FAILURES
from tocsin.operators.operator import CallPattern, Slot, operator
from tocsin.operators.registry import CallResult, Registry, Runner
from tocsin.schema import Event
from tocsin.schema.examples import load_example

EVENT = Event({"event_type": ("item",), "price": (3,)})


@operator(runs="process", timeout=60)
def elsewhere(event: Event, factor: int) -> bool:
    """Whether this is not the main process, and the event came along."""
    import multiprocessing

    return multiprocessing.parent_process() is not None and event.values["price"] == (factor,)


@operator(runs="process", timeout=1.5)
def hangs(event: Event, note: str) -> bool:
    """Leave a note of the process that it hangs in, and hang; only for an event of that price."""
    import os
    import time

    if event.values["price"] != (3,):
        return True
    Path(note).write_text(str(os.getpid()))
    time.sleep(600)
    return True


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


def outcome(runner: Runner, returned: Any, *kinds: type) -> CallResult:
    """Return what comes of an operator that returns this, for variables of these types."""

    @operator(outputs={f"o{at}": kind for at, kind in enumerate(kinds)})
    def fixed(_event: Event) -> Any:
        return returned

    return runner.run(CallPattern(fixed, tuple(map(Slot, range(len(kinds))))), EVENT)


def test_what_an_operator_returns_becomes_rows(runner: Runner) -> None:
    import numpy as np

    assert outcome(runner, True) == CallResult(((),))
    assert outcome(runner, np.bool_(False)) == CallResult(())
    assert outcome(runner, 5.0, int) == CallResult(((5,),))
    assert outcome(runner, np.float64(2.5), float) == CallResult(((2.5,),))
    assert outcome(runner, None, int) == CallResult(())
    assert outcome(runner, [3, 4, 3], int) == CallResult(((3,), (4,)))
    assert outcome(runner, "ab", str) == CallResult((("ab",),))
    assert outcome(runner, (1, "a"), int, str) == CallResult(((1, "a"),))
    assert outcome(runner, [(1, "a"), (2, "b")], int, str) == CallResult(((1, "a"), (2, "b")))


@pytest.mark.parametrize(
    ("returned", "kinds", "reason"),
    [
        (3, (), "must return true or false"),
        ("many", (int,), "'many' is not a number"),
        (float("nan"), (float,), "is not a finite number"),
        ([(1, 2)], (int, int, int), "rows of 3 values"),
        (range(2000), (int,), "2,000 bindings"),
    ],
)
def test_what_the_declaration_does_not_allow_is_a_failure(
    runner: Runner, returned: object, kinds: tuple[type, ...], reason: str
) -> None:
    found = outcome(runner, returned, *kinds)
    assert found.rows == ()
    assert reason in str(found.failure)
    assert runner.counts["fixed"].failures == 1


def test_an_operator_that_takes_too_long_is_left_behind_and_keeps_nobody_waiting(runner: Runner) -> None:
    release = threading.Event()

    @operator(timeout=0.05)
    def stuck(_event: Event) -> bool:
        return release.wait(60)

    @operator(timeout=60)
    def quick(_event: Event) -> bool:
        return threading.current_thread() is not threading.main_thread()

    try:
        for _ in range(FAILURES):
            assert runner.run(CallPattern(stuck, ()), EVENT).failure == "took longer than 0.05 s"
        assert "left alone for a while" in str(runner.run(CallPattern(stuck, ()), EVENT).failure)
        assert runner.run(CallPattern(quick, ()), EVENT) == CallResult(((),))
    finally:
        release.set()
    counts = runner.counts["stuck"]
    assert (counts.calls, counts.failures, counts.timeouts, counts.left_alone) == (5, 6, 5, 1)


def test_a_process_is_used_where_the_operator_says_so(runner: Runner) -> None:
    assert runner.run(CallPattern(elsewhere, (("int", 3),)), EVENT) == CallResult(((),))
    assert runner.run(CallPattern(elsewhere, (("int", 4),)), EVENT) == CallResult(())


def test_a_process_that_takes_too_long_is_ended_and_matching_goes_on(tmp_path: Path) -> None:
    note = tmp_path / "process"
    registry = Registry([hangs, elsewhere])
    matcher = Matcher(load_example("auction"), operators=registry)
    matcher.subscribe("hangs", f"item where hangs('{note}')")
    matcher.subscribe("not", f"item where not hangs('{note}')")
    matcher.subscribe("fine", "item where elsewhere(3)")
    try:
        registry.runner.run(
            CallPattern(elsewhere, (("int", 3),)), EVENT
        )  # the process is up: its start is not the time
        assert matcher.match(EVENT) == ["fine"]
        assert registry.runner.counts["hangs"].timeouts == 1
        process = int(note.read_text())
        wait_until(lambda: not _runs(process))
        assert matcher.match(Event({"event_type": ("item",), "price": (4,)})) == ["hangs"]
    finally:
        registry.runner.close()


def _runs(process: int) -> bool:
    """Return whether a process is there and not just waiting to be buried."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_timeout_error_of_the_operator_itself_is_its_own_failure(runner: Runner) -> None:
    @operator(timeout=60)
    def gives_up(_event: Event) -> bool:
        raise TimeoutError("the server did not answer")

    found = runner.run(CallPattern(gives_up, ()), EVENT)
    assert found.failure == "gives_up raised TimeoutError: the server did not answer"
    assert runner.counts["gives_up"].timeouts == 0


def test_a_batch_of_the_wrong_length_fails_for_all_its_events(runner: Runner) -> None:
    @operator(evaluate_batch=lambda events: [True] * (len(events) - 1))
    def short(_event: Event) -> bool:
        return True

    found = runner.run_batch(CallPattern(short, ()), [EVENT, EVENT])
    assert [each.rows for each in found] == [(), ()]
    assert "1 results for 2 events" in str(found[0].failure)
