"""Le Subscribe, section 4: the three engines over the number of subscriptions, and over the share of equalities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tocsin.matching import Engine
from tocsin_lab.claims import Falls, Growth, Less, Statement, Where, alike
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.prepared import Prepared
from tocsin_lab.results import Row
from tocsin_lab.rounds import Bench, Notebook
from tocsin_lab.timing import Changes, executing, filled, matching, work_of
from tocsin_lab.workloads import le_subscribe

FAIR, PREFERRED, QUARANTINING = ENGINES = ("counting", "equality-preferred", "quarantining")
PAPER = "Le Subscribe"
TIME, ADDITIONS, LOOKED_AT = "processing ms", "additions", "subscriptions looked at"
LOST = "the number is lost in our copy"
WORKLOAD = (
    "One event type of 8 optional attributes, 4 texts with equality only and 4 numbers with any comparison; see "
    "`tocsin_lab/workloads.py`. Our copy of the paper's text has lost its numbers, so the parameters are ours and only its "
    "words can be compared."
)
CHANGED = 50  # subscriptions that go in and out


def run_scaling(bench: Bench) -> Iterator[Row]:
    book = Notebook("le-subscribe-scaling")
    for count in bench.of([200, 400], [1_000, 10_000, 100_000], [1_000, 10_000, 100_000, 500_000]):
        prepared = le_subscribe(count, 50)
        engines = {name: filled(bench, name, prepared) for name in ENGINES}
        if count <= 1_000:
            engines["naive"] = filled(bench, "naive", prepared)
        yield from _processing(bench, book, count, engines, prepared)
        executed = bench.race({name: executing(matcher, prepared.events) for name, matcher in engines.items()})
        yield from book.measured("execution ms", count, executed, 1e3 / len(prepared.events))
        yield book.counted("matches", count, QUARANTINING, _matches(engines[QUARANTINING], prepared))


def _processing(
    bench: Bench, book: Notebook, x: float, engines: Mapping[str, Engine], prepared: Prepared
) -> Iterator[Row]:
    found = bench.race({name: matching(matcher, prepared.events) for name, matcher in engines.items()})
    yield from book.measured(TIME, x, found, 1e3 / len(prepared.events))
    for name, matcher in engines.items():
        for counter, value in work_of(matcher, prepared.events[:20]).items():
            if counter in (ADDITIONS, LOOKED_AT):
                yield book.counted(counter, x, name, value)


def _matches(matcher: Engine, prepared: Prepared) -> float:
    return sum(len(matcher.match(event)) for event in prepared.events) / len(prepared.events)


SCALING = (
    Statement(
        "Equality preferred is better than the fair predicate algorithm", "section 4, processing time", "figure only",
        (Less(TIME, PREFERRED, FAIR, because=(ADDITIONS, LOOKED_AT)),),
    ),
    Statement(
        "Non-equality quarantining is better than the fair predicate algorithm", "section 4, processing time", "figure only",
        (Less(TIME, QUARANTINING, FAIR, because=(ADDITIONS, LOOKED_AT)),),
    ),
    Statement(
        "Quarantining performs better than equality preferred", "section 4, processing time", "figure only",
        (Less(TIME, QUARANTINING, PREFERRED, because=(ADDITIONS, LOOKED_AT)),),
    ),
    Statement(
        "Quarantining largely reduces the number of sums", "section 4, processing time", "in words (here: by half or more)",
        (Less(ADDITIONS, QUARANTINING, PREFERRED, 0.5), Less(ADDITIONS, QUARANTINING, FAIR, 0.5)),
    ),
    Statement(
        "The naive algorithm takes many times as long as quarantining", "section 4", f"{LOST} (here: 10 times or more)",
        (Less(TIME, QUARANTINING, "naive", 0.1),),
    ),
    Statement(
        "Execution, with communication, takes longer as more subscriptions match", "section 4, execution time", "figure only",
        (Falls("matches", QUARANTINING, rises=True), Falls("execution ms", QUARANTINING, rises=True)),
    ),
)  # fmt: skip


def run_unselective(bench: Bench) -> Iterator[Row]:
    """Equalities that hold often: 2 texts, and numbers compared by order alone."""
    book = Notebook("le-subscribe-unselective")
    for count in bench.of([200], [1_000, 10_000, 50_000], [1_000, 10_000, 100_000]):
        prepared = le_subscribe(count, 50, equality=0.0, texts=2, probability=0.9)
        engines = {name: filled(bench, name, prepared) for name in ENGINES}
        yield from _processing(bench, book, count, engines, prepared)


UNSELECTIVE = (
    Statement(
        "Where equalities are not selective, quarantining is worse than equality preferred", "section 4", "in words",
        (Less(TIME, PREFERRED, QUARANTINING, because=(ADDITIONS, LOOKED_AT)),),
    ),
)  # fmt: skip


def run_share(bench: Bench) -> Iterator[Row]:
    book = Notebook("le-subscribe-nonequality")
    [count] = bench.of([300], [50_000], [200_000])
    for percent in (0, 25, 50, 75, 100):
        prepared = le_subscribe(count, 50, equality=1 - percent / 100)
        engines = {name: filled(bench, name, prepared) for name in ENGINES}
        yield from _processing(bench, book, percent, engines, prepared)


SHARE = (
    *(
        Statement(
            f"The lower the share of non-equality predicates, the better: {name}", "section 4, influence of non-equality",
            "figure only", (Falls(TIME, name, rises=True),),
        )
        for name in ENGINES
    ),
    Statement(
        "Without non-equality predicates equality preferred and quarantining are equivalent",
        "section 4, influence of non-equality", "figure only (here: within a quarter)",
        alike(TIME, PREFERRED, QUARANTINING, 1.25, Where.FEW),
    ),
)  # fmt: skip


def run_equality_only(bench: Bench) -> Iterator[Row]:
    book = Notebook("le-subscribe-equality")
    for count in bench.of([100, 300], [1_000, 10_000, 100_000], [1_000, 10_000, 100_000, 500_000]):
        prepared = le_subscribe(count, 50, equality=1.0)
        engines = {name: filled(bench, name, prepared) for name in (PREFERRED, QUARANTINING)}
        yield from _processing(bench, book, count, engines, prepared)


EQUALITY_ONLY = (
    Statement(
        "With equalities only, time grows slightly with the number of subscriptions after a threshold", "section 4",
        "figure only, logarithmic (here: slower than the square root)", (Growth(TIME, QUARANTINING, most=0.5),),
    ),
)  # fmt: skip


def run_insertion(bench: Bench) -> Iterator[Row]:
    book = Notebook("le-subscribe-insertion")
    for count in bench.of([300], [1_000, 20_000], [1_000, 20_000, 200_000]):
        prepared = le_subscribe(count, 10)
        turns = {}
        for name in ENGINES:
            matcher = filled(bench, name, prepared)
            assert isinstance(matcher, ClassicMatcher)
            turns[name] = Changes(matcher, range(count - CHANGED, count)).insertion()
        yield from book.measured("insertion ms", count, bench.race(turns), 1e3 / CHANGED)


INSERTION = (
    Statement(
        "Adding a subscription takes similar time in equality preferred and quarantining", "section 4, last paragraph",
        f"milliseconds; {LOST} (here: within a factor of 2)", alike("insertion ms", PREFERRED, QUARANTINING, 2.0),
    ),
    Statement(
        "The fair predicate algorithm is faster to update", "section 4, last paragraph", "in words",
        (Less("insertion ms", FAIR, PREFERRED), Less("insertion ms", FAIR, QUARANTINING)),
    ),
)  # fmt: skip


EXPERIMENTS = (
    Experiment(
        "le-subscribe-scaling", "Processing and execution time over the number of subscriptions", PAPER,
        WORKLOAD + " `naive` is plain Python.", run_scaling, SCALING,
        (Plot(TIME, "subscriptions", "ms per event"), Plot("execution ms", "subscriptions", "ms per event")),
    ),
    Experiment(
        "le-subscribe-unselective", "Equalities that are not selective", PAPER,
        WORKLOAD + " Here the texts have 2 values instead of 100, 9 of 10 attributes are asked about, numbers by order only.",
        run_unselective, UNSELECTIVE, (Plot(TIME, "subscriptions", "ms per event"),),
    ),
    Experiment(
        "le-subscribe-nonequality", "Influence of the share of non-equality predicates", PAPER, WORKLOAD,
        run_share, SHARE, (Plot(TIME, "% of non-equalities on numbers", "ms per event", log_x=False),),
    ),
    Experiment(
        "le-subscribe-equality", "Equality predicates only", PAPER, WORKLOAD,
        run_equality_only, EQUALITY_ONLY, (Plot(TIME, "subscriptions", "ms per event"),),
    ),
    Experiment(
        "le-subscribe-insertion", "Cost of adding a subscription", PAPER,
        WORKLOAD + " Timed is the engine's own structure: coded predicates go in; normalising and coding are not in it.",
        run_insertion, INSERTION, (Plot("insertion ms", "subscriptions", "ms per subscription"),),
    ),
)  # fmt: skip
