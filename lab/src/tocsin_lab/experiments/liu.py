"""Liu et al., figures 4 to 8: how many operators each schedule evaluates; counted, over several seeds.

The paper does not say how likely a predicate is true, only that an event matches 0.2% of the subscriptions; there are three
ways to draw it (evaluation/workloads.py), and a claim has to hold under all of them. The unit is the paper's: evaluated
predicates per event. A series is a schedule under one way; its values are the means of several seeds, the same for all
schedules, so that ratios are taken within a seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tocsin.operators.problem import Bools
from tocsin_lab.claims import Falls, Growth, Less, Part, Statement, Where
from tocsin_lab.evaluation.lower_bound import lower_bound
from tocsin_lab.evaluation.measure import run_on
from tocsin_lab.evaluation.workloads import PaperWorkload, Setting, Truth
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.results import Row
from tocsin_lab.rounds import Bench, Notebook, Scale
from tocsin_lab.schedules import SCHEDULES

PAPER = "Overlapping subscriptions"
COST = "evaluations per event"
TRUTHS: tuple[Truth, ...] = ("spread", "equal", "popular")
NAIVE, SEQUENTIAL, SUB_ORDER = "naive", "sequential", "sub-order"
BOUND = "lower bound"
SEEDS = {Scale.TINY: 1, Scale.QUICK: 3, Scale.FULL: 6}
EVENTS = {Scale.TINY: 1, Scale.QUICK: 2, Scale.FULL: 5}  # of each seed
ABOUT = (
    "Counted, not timed: how many operator predicates are evaluated for an event, each at most once. Subscriptions of 3 to 5 "
    "predicates drawn by popularity; events match 0.2% of them. How likely each predicate is true the paper does not say: "
    "*spread* draws it whatever the popularity, *equal* is the same for all, *popular* makes popular ones likelier. "
    "`adaptive` is Tocsin's own, the lower bound is what no schedule can beat."
)


def series(name: str, truth: Truth, popularity: str = "") -> str:
    """Return the name of a schedule's series."""
    return f"{name} ({truth}{', ' + popularity if popularity else ''})"


def measure(bench: Bench, book: Notebook, x: float, setting: Setting, popularity: str = "") -> Iterator[Row]:
    """Yield what every schedule evaluates under every truth, a value a seed."""
    for truth in TRUTHS:
        made = [PaperWorkload.of(replace(setting, truth=truth, seed=seed)) for seed in range(SEEDS[bench.scale])]
        events = [workload.events(EVENTS[bench.scale]) for workload in made]
        for name in SCHEDULES:
            values = [_evaluations(name, workload, drawn) for workload, drawn in zip(made, events, strict=True)]
            yield book.counted(COST, x, series(name, truth, popularity), *values)
        bounds = [
            sum(lower_bound(workload.workload, each) for each in drawn) / len(drawn)
            for workload, drawn in zip(made, events, strict=True)
        ]
        yield book.counted(COST, x, series(BOUND, truth, popularity), *bounds)
        used = [float((workload.workload.popularity > 0).sum()) for workload in made]
        yield book.counted("predicates in use", x, series(NAIVE, truth, popularity), *used)


def _evaluations(name: str, made: PaperWorkload, events: list[Bools]) -> float:
    return run_on(SCHEDULES[name](), made.workload, events, made.statistics(0.001, known=True)).mean_evaluations


def under_all(*make: tuple[str, str, float, Where], popularity: str = "") -> tuple[Part, ...]:
    """Return the parts of: a schedule evaluates less than limit times another, under every truth."""
    return tuple(
        Less(COST, series(left, truth, popularity), series(right, truth, popularity), limit, where)
        for left, right, limit, where in make
        for truth in TRUTHS
    )


def grows(name: str, least: float = -1e9, most: float = 1e9) -> tuple[Part, ...]:
    """Return the parts of: a schedule's evaluations grow so, under every truth."""
    return tuple(Growth(COST, series(name, truth), least, most) for truth in TRUTHS)


EVERYWHERE, MANY = Where.EVERYWHERE, Where.MANY


def run_uniform(bench: Bench) -> Iterator[Row]:
    yield from _over_subscriptions(bench, Notebook("liu-figure-4"), None)


def run_zipf(bench: Bench) -> Iterator[Row]:
    yield from _over_subscriptions(bench, Notebook("liu-figure-5"), 1.0)


def _over_subscriptions(bench: Bench, book: Notebook, zipf: float | None) -> Iterator[Row]:
    [predicates] = bench.of([200], [10_000], [40_000])
    for count in bench.of([200, 400], [2_000, 10_000, 20_000], [2_000, 10_000, 20_000, 40_000, 80_000]):
        yield from measure(bench, book, count, Setting(count, predicates, zipf=zipf))


def _trend(figure: str) -> tuple[Statement, ...]:
    return (
        Statement(
            "Sequential and Sub-Order perform much better than naive in all scenarios", f"{figure}, 5.3.1", "figure (here: half or less)",
            under_all((SEQUENTIAL, NAIVE, 0.5, EVERYWHERE), (SUB_ORDER, NAIVE, 0.5, EVERYWHERE)),
        ),
        Statement(
            "The cost of naive increases linearly with the number of subscriptions", f"{figure}, 5.3.1", "figure (here: exponent 0.75 to 1.1)",
            grows(NAIVE, 0.75, 1.1),
        ),
        Statement(
            "The cost of Sequential and Sub-Order increases much slower", f"{figure}, 5.3.1", "figure (here: exponent of at most 0.75)",
            (*grows(SEQUENTIAL, most=0.75), *grows(SUB_ORDER, most=0.75)),
        ),
        Statement(
            "Sub-Order performs consistently better than Sequential", f"{figure}, 5.3.1", "7,037 against 7,761 at 80,000",
            under_all((SUB_ORDER, SEQUENTIAL, 1.0, EVERYWHERE)),
        ),
    )  # fmt: skip


FIGURE_4 = (
    *_trend("figure 4"),
    Statement(
        "At 80,000 subscriptions the cost is reduced by almost 80% against naive", "figure 4, 5.3.1", "7,761 and 7,037 of about 38,000",
        under_all((SEQUENTIAL, NAIVE, 0.25, MANY), (SUB_ORDER, NAIVE, 0.25, MANY)),
    ),
    Statement(
        "Sequential evaluates at most d times what is needed", "theorem 2", "d = 5",
        under_all((SEQUENTIAL, BOUND, 5.0, EVERYWHERE)),
    ),
    Statement(
        "The problem is NP-hard, and no polynomial algorithm approximates it better than Ω(log n)", "theorem 1", "a proof",
        unmeasured="a theorem, not a measurement",
    ),
)  # fmt: skip


def run_predicates(bench: Bench) -> Iterator[Row]:
    book = Notebook("liu-figure-6")
    [subscriptions] = bench.of([200], [10_000], [20_000])
    for predicates in bench.of([100, 200], [2_000, 5_000, 10_000], [2_000, 5_000, 10_000, 20_000, 30_000]):
        yield from measure(bench, book, predicates, Setting(subscriptions, predicates, zipf=1.0))


FIGURE_6 = (
    Statement(
        "As more predicates appear, Sequential and Sub-Order stay far below naive", "figure 6, 5.3.2", "16,251 against 3,267 and 1,977 at 30,000 (here: a third or less)",
        under_all((SEQUENTIAL, NAIVE, 1 / 3, MANY), (SUB_ORDER, NAIVE, 1 / 3, MANY)),
    ),
    Statement(
        "Sub-Order evaluates fewer than Sequential", "figure 6, 5.3.2", "1,977 against 3,267 at 30,000",
        under_all((SUB_ORDER, SEQUENTIAL, 1.0, EVERYWHERE)),
    ),
)  # fmt: skip


def run_length(bench: Bench) -> Iterator[Row]:
    book = Notebook("liu-figure-7")
    [subscriptions], [predicates] = bench.of([200], [5_000], [20_000]), bench.of([50], [1_250], [5_000])
    for longest in bench.of([5, 7], [5, 8, 11], [5, 7, 9, 11]):
        rows = list(measure(bench, book, longest, Setting(subscriptions, predicates, zipf=1.0, longest=longest)))
        yield from rows
        for truth in TRUTHS:
            found = {row.series: row.values for row in rows if row.figure == COST}
            pairs = zip(found[series(SEQUENTIAL, truth)], found[series(SUB_ORDER, truth)], strict=True)
            yield book.counted("gap", longest, series(SEQUENTIAL, truth), *(a / b for a, b in pairs))


FIGURE_7 = (
    Statement(
        "Sequential is not sensitive to the length of subscriptions", "figure 7, 5.3.3", "1,593 → 1,784 from 5 to 11 (here: at most a quarter more)",
        tuple(Falls(COST, series(SEQUENTIAL, truth), 1.25) for truth in TRUTHS),
    ),
    Statement(
        "Naive evaluates almost all unique predicates, whatever the length", "figure 7, 5.3.3", "close to 5,000 of 5,000 (here: 9 of 10 in use)",
        tuple(
            Less("predicates in use", series(NAIVE, truth), series(NAIVE, truth), 1 / 0.9, right_figure=COST) for truth in TRUTHS
        ),
    ),
    Statement(
        "The gap between Sequential and Sub-Order shrinks as subscriptions become longer", "figure 7, 5.3.3", "figure only",
        tuple(Falls("gap", series(SEQUENTIAL, truth)) for truth in TRUTHS),
    ),
)  # fmt: skip


def run_popularity(bench: Bench) -> Iterator[Row]:
    book = Notebook("liu-figure-8")
    [subscriptions], [predicates] = bench.of([200], [5_000], [20_000]), bench.of([50], [1_250], [5_000])
    for exponent in (0.0, 0.8, 1.0, 1.2):
        setting = Setting(subscriptions, predicates, zipf=exponent or None)
        yield from measure(bench, book, exponent, setting)


FIGURE_8 = (
    Statement(
        "Sequential and Sub-Order perform much better under Zipf than under uniform popularity", "figure 8, figure 5, 5.3.4", "figure (here: at 1.2, at most 0.8 times)",
        tuple(Falls(COST, series(name, truth), 0.8) for name in (SEQUENTIAL, SUB_ORDER) for truth in TRUTHS),
    ),
    Statement(
        "With a greater exponent they continue to improve", "figure 8, 5.3.4", "figure only (here: a falling line from 0.8 on)",
        tuple(
            Growth(COST, series(name, truth), most=0.0, from_x=0.8) for name in (SEQUENTIAL, SUB_ORDER) for truth in TRUTHS
        ),
    ),
)  # fmt: skip


def _stated(name: str, points: dict[float, float]) -> dict[str, dict[float, float]]:
    return {f"paper: {name}": points}


EXPERIMENTS = (
    Experiment(
        "liu-figure-4", "Evaluation cost over subscriptions, uniform popularity (figure 4)", PAPER,
        ABOUT + " 40,000 predicates (10,000 in the quick run).", run_uniform, FIGURE_4,
        (Plot(COST, "subscriptions", "evaluations", paper={**_stated(SEQUENTIAL, {80_000: 7_761}), **_stated(SUB_ORDER, {80_000: 7_037})}),),
    ),
    Experiment(
        "liu-figure-5", "Evaluation cost over subscriptions, Zipf popularity (figure 5)", PAPER,
        ABOUT + " 40,000 predicates (10,000 in the quick run).", run_zipf, _trend("figure 5"),
        (Plot(COST, "subscriptions", "evaluations"),),
    ),
    Experiment(
        "liu-figure-6", "Evaluation cost over predicates, Zipf popularity (figure 6)", PAPER,
        ABOUT + " 20,000 subscriptions (10,000 in the quick run).", run_predicates, FIGURE_6,
        (
            Plot(COST, "predicates", "evaluations", paper={
                **_stated(NAIVE, {30_000: 16_251}), **_stated(SEQUENTIAL, {30_000: 3_267}), **_stated(SUB_ORDER, {30_000: 1_977}),
            }),
        ),
    ),
    Experiment(
        "liu-figure-7", "Evaluation cost over the longest subscription (figure 7)", PAPER,
        ABOUT + " 20,000 subscriptions and 5,000 predicates (5,000 and 1,250 in the quick run), Zipf.", run_length, FIGURE_7,
        (Plot(COST, "longest subscription", "evaluations", log_x=False, paper=_stated(SEQUENTIAL, {5: 1_593, 11: 1_784})),),
    ),
    Experiment(
        "liu-figure-8", "Evaluation cost over popularity (figure 8)", PAPER,
        ABOUT + " 20,000 subscriptions and 5,000 predicates (5,000 and 1,250 in the quick run); 0 is uniform.", run_popularity, FIGURE_8,
        (Plot(COST, "exponent of Zipf's law, 0 for uniform", "evaluations", log_x=False),),
    ),
)  # fmt: skip
