"""The advisor tries the engines within a bound, checks them, and gives reasons."""

from __future__ import annotations

import pytest

from tests.matching.test_every_engine import auction
from tocsin.errors import TocsinError
from tocsin.language import bind, parse
from tocsin_lab.advise import Trial, advise, how_sure
from tocsin_lab.verdicts import Sample, Verdict
from tocsin_lab.workloads import le_subscribe


def test_every_engine_is_tried_and_one_recommended_with_reasons() -> None:
    prepared = le_subscribe(150, 20)
    engines = ("naive", "counting", "hanson", "gough")
    advice = advise(
        prepared.schema, list(prepared.subscriptions()), prepared.events, budget_seconds=20, engines=engines
    )
    assert [trial.engine for trial in advice.trials] == list(engines)
    assert advice.recommended in engines
    assert advice.recommended != "naive"
    assert any("ms per event" in reason for reason in advice.reasons)
    assert any("rounds, ratio" in reason for reason in advice.reasons)
    assert (advice.confidence is Verdict.HOLDS) == advice.reasons[-1].startswith("sure: ")


def test_an_engine_that_does_not_support_the_subscriptions_is_out_of_the_question() -> None:
    schema = auction()
    subscriptions = [(id, bind(parse(f"a = {id} or b = {id}"), schema)) for id in range(10)]
    events = [schema.admit({"a": value}) for value in range(5)]
    advice = advise(schema, subscriptions, events, budget_seconds=10, engines=("neon", "counting"))
    assert advice.recommended == "counting"
    assert advice.trials[0].problem == "does not support 10 of 10 subscriptions"
    assert "out of the question: neon" in advice.reasons


def test_time_is_carried_on_to_all_subscriptions_by_the_growth_seen() -> None:
    linear = Trial("x", 0, batch_ms=1.0, growth=4.0)
    assert linear.expected_ms(4_000, 1_000) == pytest.approx(4.0)
    assert linear.expected_ms(500, 1_000) == 1.0
    assert Trial("x", 0, batch_ms=1.0, growth=2.0).expected_ms(4_000, 1_000) == pytest.approx(2.0)


def test_how_sure_the_advice_is_comes_from_a_race_of_the_first_two() -> None:
    fast, slow, noisy = Sample((1.0,) * 9), Sample((2.0,) * 9), Sample((0.2, 5.0, 1.0) * 3)
    assert how_sure("a", "b", fast, slow) == (Verdict.HOLDS, "sure: a is faster than b (9 rounds, ratio 0.5)")
    assert how_sure("a", "b", slow, fast)[0] is Verdict.FAILS
    verdict, reason = how_sure("a", "b", noisy, fast)
    assert verdict is Verdict.UNDECIDED
    assert reason.startswith("not sure: a and b cannot be told apart")


def test_nothing_to_try_is_an_error() -> None:
    with pytest.raises(TocsinError, match="at least one"):
        advise(auction(), [], [])
