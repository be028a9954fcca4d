"""Verdicts come from intervals by one rule; a planted slower engine changes them, planted noise leaves them undecided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from tocsin.schema import Schema
from tocsin_lab.claims import NOT_EXPLAINED, Falls, Growth, Less, Statement, Where, alike
from tocsin_lab.classic.counting import BitMatrixMatcher, ByteMatrixMatcher, TableListMatcher
from tocsin_lab.experiments import experiment_of
from tocsin_lab.results import Circumstances, Results, Row
from tocsin_lab.rounds import Bench, Notebook, Scale, Turn
from tocsin_lab.verdicts import Sample, Verdict, decide, every, interval_of


class PlantedClock:
    """A clock that only moves when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def results_of(rows: list[Row]) -> Results:
    where = Circumstances(experiment="x", scale="tiny", started="", seconds=0, machine={}, versions={})
    return Results(where, rows)


def row(series: str, x: float, *values: float, figure: str = "ms", counted: bool = False) -> Row:
    return Row(experiment="x", series=series, x=x, figure=figure, values=values, counted=counted)


# --- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "left_out"), [(6, 0), (9, 1), (12, 2), (15, 3)])
def test_the_interval_encloses_the_median_with_95_percent(size: int, left_out: int) -> None:
    found = interval_of([float(value) for value in range(size)])
    assert (found.low, found.high) == (left_out, size - 1 - left_out)
    draws, enclosed = Random(1), 0
    for _ in range(2_000):
        part = interval_of([draws.random() for _ in range(size)])
        enclosed += part.low <= 0.5 <= part.high
    assert enclosed >= 0.94 * 2_000


def test_the_rule_holds_fails_or_leaves_undecided() -> None:
    ones = Sample((1.0,) * 6)
    assert decide(Sample((0.8,) * 6).over(ones)) is Verdict.HOLDS
    assert decide(Sample((1.2,) * 6).over(ones)) is Verdict.FAILS
    assert decide(Sample((0.95,) * 6).over(ones)) is Verdict.UNDECIDED  # within the band
    assert decide(Sample((0.5,) * 5).over(Sample((1.0,) * 5))) is Verdict.UNDECIDED  # too few rounds
    assert decide(Sample((0.5, 2.0) * 5).over(Sample((1.0,) * 10))) is Verdict.UNDECIDED
    assert decide(Sample((0.4,) * 6).over(ones), 0.5) is Verdict.HOLDS


def test_what_is_counted_has_no_band_and_needs_no_rounds() -> None:
    assert decide(Sample((99.0,), counted=True).over(Sample((100.0,), counted=True))) is Verdict.HOLDS
    assert decide(Sample((100.0,), counted=True).over(Sample((100.0,), counted=True))) is Verdict.FAILS


def test_ratios_are_taken_within_a_round_so_that_common_noise_falls_out() -> None:
    noise = [1.0, 5.0, 0.3, 2.0, 9.0, 1.0]
    left, right = (Sample(tuple(cost * each for each in noise)) for cost in (1.0, 1.3))
    assert decide(left.over(right)) is Verdict.HOLDS
    assert left.interval.high > right.interval.low  # side by side they could not be told apart


def test_a_claim_of_several_parts_holds_if_all_do_and_fails_if_one_does() -> None:
    assert every([Verdict.HOLDS, Verdict.UNDECIDED]) is Verdict.UNDECIDED
    assert every([Verdict.FAILS, Verdict.UNDECIDED]) is Verdict.FAILS
    assert every([]) is Verdict.UNDECIDED


# --- claims -----------------------------------------------------------------------------------------------------------


def crossing(counter: float) -> Results:
    """A is better at 10, B at 100 and 1000; A counts `counter` steps there, B 5."""
    rows = []
    for x, (a, b) in {10: (1.0, 2.0), 100: (3.0, 2.0), 1000: (30.0, 2.0)}.items():
        rows += [row("a", x, *(a,) * 6), row("b", x, *(b,) * 6)]
        rows += [row("a", x, counter, figure="steps", counted=True), row("b", x, 5, figure="steps", counted=True)]
    return results_of(rows)


@pytest.mark.parametrize(
    ("where", "verdict"),
    [(Where.EVERYWHERE, Verdict.FAILS), (Where.FEW, Verdict.HOLDS), (Where.MANY, Verdict.FAILS)],
)
def test_a_claim_is_judged_at_every_size(where: Where, verdict: Verdict) -> None:
    claim = Statement("a beats b", "", "", (Less("ms", "a", "b", where=where),)).judge(crossing(5))
    assert claim.verdict is verdict
    assert [point.verdict for point in claim.judged[0].points] == [Verdict.HOLDS, Verdict.FAILS, Verdict.FAILS]


def test_the_reason_is_a_measurement_or_not_explained() -> None:
    less = Less("ms", "a", "b", because=("steps",))
    explained = Statement("a beats b", "", "", (less,)).judge(crossing(50))
    assert explained.reason == "depends on the size: holds at 10, not at 100, 1,000; steps at 1,000: 50 against 5"
    points_the_other_way = Statement("a beats b", "", "", (less,)).judge(crossing(4))
    assert "steps" not in points_the_other_way.reason
    always = results_of([row("a", 1, *(2.0,) * 6), row("b", 1, *(1.0,) * 6)])
    assert Statement("a beats b", "", "", (less,)).judge(always).reason == NOT_EXPLAINED


def test_growth_is_fitted_within_every_round() -> None:
    linear = results_of([row("a", x, *(x * disturbed for disturbed in (1, 2, 3, 4, 5, 6))) for x in (10, 100, 1000)])
    assert Growth("ms", "a", 0.9, 1.1).judge(linear).verdict is Verdict.HOLDS
    assert Growth("ms", "a", most=0.5).judge(linear).verdict is Verdict.FAILS
    assert Growth("ms", "a", most=1.0).judge(linear).verdict is Verdict.UNDECIDED
    assert Falls("ms", "a", rises=True).judge(linear).verdict is Verdict.HOLDS
    assert Falls("ms", "a").judge(linear).verdict is Verdict.FAILS


def test_alike_means_within_a_factor_both_ways() -> None:
    near = results_of([row("a", 1, *(1.2,) * 6), row("b", 1, *(1.0,) * 6)])
    assert Statement("", "", "", alike("ms", "a", "b", 1.5)).judge(near).verdict is Verdict.HOLDS
    assert Statement("", "", "", alike("ms", "b", "a", 1.05)).judge(near).verdict is Verdict.FAILS


def test_what_was_not_run_or_cannot_be_measured_says_so() -> None:
    statement = Statement("a beats b", "", "", (Less("ms", "a", "b"),))
    assert statement.judge(None).verdict is Verdict.UNMEASURED
    unmeasured = replace(statement, unmeasured="Kdb is not free to use").judge(crossing(1))
    assert (unmeasured.verdict, unmeasured.reason) == (Verdict.UNMEASURED, "Kdb is not free to use")


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_competitors_take_turns_and_each_round_begins_with_another() -> None:
    order: list[str] = []
    clock = PlantedClock()
    acts = {name: partial(order.append, name) for name in "abc"}
    Bench(Scale.TINY, cpu=clock).race(acts)
    assert order[6:15] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]  # after two calls each to warm up


def test_a_turn_times_the_act_and_not_what_makes_it_undone() -> None:
    clock = PlantedClock()
    turn = Turn(partial(clock.spend, 1.0), partial(clock.spend, 100.0))
    assert Bench(Scale.TINY, cpu=clock).race({"a": turn})["a"].values == pytest.approx((1.0,) * 6)


def test_a_pass_is_long_enough_for_the_clock() -> None:
    clock, calls = PlantedClock(), list[int]()

    def act() -> None:
        calls.append(1)
        clock.spend(0.001)

    found = Bench(Scale.QUICK, cpu=clock).race({"a": act})["a"]
    assert found.values == pytest.approx((0.001,) * 9)
    assert len(calls) == 2 + 9 * 5  # passes of five milliseconds


# --- planted engines in a whole experiment ----------------------------------------------------------------------------

PLANTED: dict[str, Any] = {
    "counting-table": TableListMatcher,
    "counting-bits": BitMatrixMatcher,
    "counting-bytes": ByteMatrixMatcher,
}


def planted(clock: PlantedClock, costs: dict[str, Callable[[], float]]) -> Bench:
    """Engines that answer as ever, and take as long as the costs say."""

    def make(name: str) -> Callable[[Schema], Any]:
        base: Any = PLANTED[name]

        class Planted(base):  # type: ignore[misc]
            def match_coded(self, event: Any) -> Any:
                clock.spend(costs[name]())
                return super().match_coded(event)

        return Planted

    return Bench(Scale.TINY, cpu=clock, engines={name: make(name) for name in costs})


def verdicts_with(costs: dict[str, Callable[[], float]]) -> dict[str, Verdict]:
    experiment = experiment_of("topss-w4")
    results = results_of(list(experiment.run(planted(PlantedClock(), costs))))
    return {statement.says: statement.judge(results).verdict for statement in experiment.statements}


FASTEST, SLOWEST = (
    "List-based counting is faster than the bit matrix",
    "The byte matrix (regular matching) is the slowest",
)


def test_a_planted_slower_engine_changes_the_verdict() -> None:
    as_in_the_paper = {"counting-table": lambda: 1.0, "counting-bits": lambda: 3.0, "counting-bytes": lambda: 9.0}
    found = verdicts_with(as_in_the_paper)
    assert (found[FASTEST], found[SLOWEST]) == (Verdict.HOLDS, Verdict.HOLDS)
    found = verdicts_with({**as_in_the_paper, "counting-table": lambda: 5.0})
    assert (found[FASTEST], found[SLOWEST]) == (Verdict.FAILS, Verdict.HOLDS)


def test_planted_noise_leaves_the_verdict_undecided() -> None:
    random = Random(7)
    noisy = {name: lambda: random.choice([0.2, 5.0, 9.0]) for name in PLANTED}
    found = verdicts_with(noisy)
    assert found[FASTEST] is Verdict.UNDECIDED
    assert found[SLOWEST] is Verdict.UNDECIDED


def test_a_notebook_keeps_every_round() -> None:
    rows = list(Notebook("x").measured("ms", 10, {"a": Sample((1.0, 2.0))}, 1e3))
    assert rows[0].values == (1000.0, 2000.0)
