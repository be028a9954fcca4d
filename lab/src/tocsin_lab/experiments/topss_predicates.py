"""TOPSS, figure 2: the table-based predicate index against lists, in time and memory, under W0 to W3."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tocsin_lab.claims import Falls, Less, Statement, Where, alike
from tocsin_lab.classic.counting import STAGES
from tocsin_lab.classic.stage import Satisfied, Stage
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.results import Row
from tocsin_lab.rounds import Act, Bench, Notebook, Scale
from tocsin_lab.timing import WrongAnswer
from tocsin_lab.verdicts import Verdict, decide
from tocsin_lab.workloads import PredicatePopulation, possible_predicates, predicate_population

NAME = "topss-predicates"
TABLE, LISTS = "table", "ordered lists"
TIME, MEMORY = "stage ms", "memory MB"
ALL_STAGES = 50_000  # up to so many predicates the stages that the paper does not have are beside its two
EVENTS = 3
SLOWEST = {Scale.TINY: 4_000, Scale.QUICK: 1_000_000, Scale.FULL: 4_000_000}  # predicates: the axis of time ends here


def run(bench: Bench) -> Iterator[Row]:
    book = Notebook(NAME)
    sizes = bench.of([500, 2_000], [1_000, 10_000, 50_000], [1_000, 10_000, 50_000, 200_000])
    for predicates in sizes:
        names = [name for name in ("W0", "W1", "W2") if predicates <= possible_predicates(name)]
        yield from _measure(bench, book, names, predicates)
    yield from _until_they_cross(bench, book, sizes)


def _until_they_cross(bench: Bench, book: Notebook, sizes: list[int]) -> Iterator[Row]:
    """Yield W3 with an axis that goes on until the table wins in time, then in memory, or to its limits."""
    time_crossed, waiting, possible = False, list(sizes), possible_predicates("W3")
    while waiting:
        predicates = waiting.pop(0)
        timed = predicates <= SLOWEST[bench.scale] and not (time_crossed and predicates > sizes[-1])
        rows = list(_measure(bench, book, ["W3"], predicates, timed=timed))
        yield from rows
        found = {(row.series, row.figure): row.sample for row in rows}
        if timed:
            faster = found[f"{TABLE} W3", TIME].over(found[f"{LISTS} W3", TIME])
            time_crossed = decide(faster) is Verdict.HOLDS
        smaller = found[f"{TABLE} W3", MEMORY].over(found[f"{LISTS} W3", MEMORY])
        crossed = time_crossed and decide(smaller) is Verdict.HOLDS
        following = predicates * (2 if time_crossed or predicates >= SLOWEST[bench.scale] else 4)
        limit = 2 * SLOWEST[bench.scale] if bench.scale is Scale.TINY else possible
        if not waiting and not crossed and following <= limit:
            waiting.append(following)


def _measure(
    bench: Bench, book: Notebook, workloads: list[str], predicates: int, *, timed: bool = True
) -> Iterator[Row]:
    """Yield the stages under these workloads, all in the same rounds, since claims compare workloads too."""
    names = [TABLE, LISTS] + (["sorted arrays", "hash"] if predicates <= ALL_STAGES else [])
    stages: dict[str, Stage] = {}
    acts: dict[str, Act] = {}
    for workload in workloads:
        population = predicate_population(workload, predicates, EVENTS)
        for name in names:
            stage = stages[f"{name} {workload}"] = fill(STAGES[name], population)
            acts[f"{name} {workload}"] = _pass(stage, population)
    if timed:
        yield from book.measured(TIME, predicates, bench.race(acts), 1e3 / EVENTS)
    for name, stage in stages.items():
        yield book.counted(MEMORY, predicates, name, stage.bytes() / 1e6)


def fill(stage: type[Stage], population: PredicatePopulation) -> Stage:
    """Return a stage with all predicates, its answers compared with each predicate evaluated on its own."""
    filled = stage(population.columns)
    filled.insert_many(np.arange(len(population.fields[0])), population.fields)
    for event in population.events[:2]:
        found = room(population)
        numbers = found[: filled.satisfied(event, found)]
        if not np.array_equal(np.sort(numbers), population.satisfied(event)):
            raise WrongAnswer(f"the stage {filled.name} finds other predicates than it should")
    return filled


def room(population: PredicatePopulation) -> Satisfied:
    """Return an array that has room for all predicates."""
    return np.zeros(len(population.fields[0]) + 1, np.int32)


def _pass(stage: Stage, population: PredicatePopulation) -> Act:
    found = room(population)
    return lambda: [stage.satisfied(event, found) for event in population.events]


STATEMENTS = (
    Statement(
        "The table's matching time grows with the size of the domain", "figure 2(1), 5.1.1", "figure only",
        (Less(TIME, f"{TABLE} W0", f"{TABLE} W1"), Less(TIME, f"{TABLE} W1", f"{TABLE} W2")),
    ),
    Statement(
        "The lists' matching time is nearly independent of the size of the domain", "figure 2(2), 5.1.1",
        "figure only (here: within a half)",
        (*alike(TIME, f"{LISTS} W0", f"{LISTS} W1", 1.5), *alike(TIME, f"{LISTS} W1", f"{LISTS} W2", 1.5)),
    ),
    Statement(
        "Under W3 lists are better for few predicates", "figure 2(3), 5.1.1", "figure only",
        (Less(TIME, f"{LISTS} W3", f"{TABLE} W3", where=Where.FEW),),
    ),
    Statement(
        "Under W3 the table is better for many predicates", "figure 2(3), 5.1.1", "figure only",
        (Less(TIME, f"{TABLE} W3", f"{LISTS} W3", where=Where.MANY),),
    ),
    Statement(
        "The table's memory is significantly influenced by the size of the domain", "figure 2(4), 5.1.1", "figure only",
        (Less(MEMORY, f"{TABLE} W0", f"{TABLE} W1"), Less(MEMORY, f"{TABLE} W1", f"{TABLE} W2")),
    ),
    Statement(
        "The lists' memory depends on the number of predicates alone", "figure 2(5), 5.1.1", "figure only (here: within 5%)",
        (
            *alike(MEMORY, f"{LISTS} W1", f"{LISTS} W2", 1.05), *alike(MEMORY, f"{LISTS} W1", f"{LISTS} W3", 1.05),
            Falls(MEMORY, f"{LISTS} W3", rises=True),
        ),
    ),
    Statement(
        "For few predicates lists take less memory", "figure 2(6), 5.1.1", "figure only",
        (Less(MEMORY, f"{LISTS} W3", f"{TABLE} W3", where=Where.FEW),),
    ),
    Statement(
        "For many predicates the table takes less memory", "figure 2(6), 5.1.1", "figure only",
        (Less(MEMORY, f"{TABLE} W3", f"{LISTS} W3", where=Where.MANY),),
    ),
    Statement(
        "Under W0 the number of distinct predicates is limited", "5.1.1", "the first few thousand",
        unmeasured="a matter of counting: 120 attributes, 4 operators and 250 values make 120,000 predicates",
    ),
)  # fmt: skip


EXPERIMENTS = (
    Experiment(
        NAME, "Predicate matching: table against lists under W0–W3 (figure 2)", "TOPSS",
        "120 attributes in every event, predicates with = ≠ < >, domains of 250, 9,751, 90,001 values and a mix. Only the "
        "first stage is timed: from a coded event to the numbers of the satisfied predicates. x is the number of distinct "
        "predicates; under W3 the axis goes on until the table wins in time (at most 1,000,000 predicates in the quick run, "
        "4,000,000 in the full one) and in memory (at most the 16 million that there can be).",
        run, STATEMENTS,
        (Plot(TIME, "distinct predicates", "ms per event"), Plot(MEMORY, "distinct predicates", "MB")),
    ),
)  # fmt: skip
