"""The thesis, figures 8.1 and 8.2: event and subscription processing of counting on the schema of its appendix A."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

import msgspec
import numpy as np

from tocsin.language import BoundSubscription, bind, evaluate
from tocsin.language.documents import from_document
from tocsin.schema.examples import load_example
from tocsin_lab.bench.paper_workloads import thesis_events, thesis_subscriptions
from tocsin_lab.claims import Falls, Growth, Less, Statement
from tocsin_lab.classic.counting import CountingMatcher
from tocsin_lab.classic.rows import CodedEvent
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.results import Row
from tocsin_lab.rounds import Act, Bench, Notebook, Turn
from tocsin_lab.timing import WrongAnswer

PAPER = "Event notification system"
TIME = "matching ms"
ABOUT = (
    "The schema of appendix A: five event types, each with four mandatory and one optional attribute. A subscription "
    "belongs to one type and has a predicate on every attribute, operator and value uniform; texts have 150 values and "
    "`contains` only, numbers 0–2000 and all comparisons."
)


def bound_subscriptions(count: int, seed: int) -> list[tuple[int, BoundSubscription]]:
    """Return subscriptions of the thesis's random client, bound."""
    schema = load_example("thesis")
    documents = thesis_subscriptions(count, seed)
    return [(number, bind(from_document(each)[1], schema)) for number, each in enumerate(documents)]


def run_events(bench: Bench) -> Iterator[Row]:
    book = Notebook("thesis-events")
    schema = load_example("thesis")
    events = [schema.admit(raw) for raw in thesis_events(50, seed=8)]
    for count in bench.of([300, 600], [1_000, 5_000, 20_000, 50_000], [1_000, 10_000, 50_000, 200_000, 500_000]):
        matcher = CountingMatcher(schema)
        lines = [msgspec.json.encode(document) for document in thesis_subscriptions(count, seed=7)]
        if bad := matcher.load(lines):
            raise WrongAnswer(f"{len(bad)} subscriptions were refused, such as: {bad[0]}")
        sample = Random(1).sample(range(count), min(count, 200))
        subscriptions = {id: bind(from_document(msgspec.json.decode(lines[id]))[1], schema) for id in sample}
        for event in events[:10]:
            found = set(matcher.match(event)) & set(subscriptions)
            if found != {id for id, bound in subscriptions.items() if evaluate(bound, event)}:
                raise WrongAnswer("counting disagrees with the definition")
        coded = [matcher.columns.code_event(event) for event in events]
        yield from book.measured(TIME, count, bench.race({"counting": _pass(matcher, coded)}), 1e3 / len(events))
        satisfied = float(np.mean([len(matcher.predicates.satisfied(event)) for event in coded]))
        yield book.counted("satisfied predicates", count, "counting", satisfied)
        asked = float(np.sum(matcher.rows.count[: len(matcher.rows)]))
        yield book.counted("predicates asked", count, "counting", asked)
        yield book.counted("predicates stored", count, "counting", matcher.predicates.live)


def _pass(matcher: CountingMatcher, coded: list[CodedEvent]) -> Act:
    return lambda: [matcher.match_coded(event) for event in coded]


EVENTS = (
    Statement(
        "The performance of the counting algorithm is close to linear in the number of subscriptions", "figure 8.1, 8.3.1",
        "figure only (here: an exponent of 0.7 to 1.3)", (Growth(TIME, "counting", 0.7, 1.3),),
    ),
    Statement(
        "Many subscriptions over small domains make predicates highly redundant", "8.3.1", "in words (here: asked at least twice as many as stored, at every size)",
        (Less("predicates stored", "counting", "counting", 0.5, right_figure="predicates asked"),),
    ),
    Statement(
        "The generator sends 20 events a second", "chapter 8", "20 a second",
        unmeasured="a setting of the generator, not a finding",
    ),
)  # fmt: skip


def run_subscriptions(bench: Bench) -> Iterator[Row]:
    """The same 50 subscriptions come when more and more others are there."""
    book = Notebook("thesis-subscriptions")
    sizes = bench.of([100, 300], [1_000, 5_000, 20_000], [1_000, 10_000, 50_000, 200_000])
    bound = bound_subscriptions(sizes[-1] + COMING, seed=7)
    coming = [bound[-1 - number] for number in range(COMING)]
    matcher, held = CountingMatcher(load_example("thesis")), 0
    for count in sizes:
        matcher.add_all(bound[held:count])
        held = count
        before = matcher.predicates.live
        matcher.add_all(coming)
        yield book.counted("new predicates", count, "counting", (matcher.predicates.live - before) / COMING)
        _leave(matcher, coming)
        turn = Turn(partial(matcher.add_all, coming), partial(_leave, matcher, coming))
        yield from book.measured("insertion ms", count, bench.race({"counting": turn}), 1e3 / COMING)


COMING = 50


def _leave(matcher: CountingMatcher, coming: list[tuple[int, BoundSubscription]]) -> None:
    for id, _ in coming:
        matcher.remove(id)


SUBSCRIPTIONS = (
    Statement(
        "The time to insert a subscription is not proportional to the number already there", "figure 8.2, 8.3.2",
        "figure only (here: an exponent of at most 0.3)", (Growth("insertion ms", "counting", most=0.3),),
    ),
    Statement(
        "Where insertion is fast, most of the predicates were in the table already", "8.3.2", "in words (here: fewer new ones with more subscriptions)",
        (Falls("new predicates", "counting", 0.5),),
    ),
)  # fmt: skip


EXPERIMENTS = (
    Experiment(
        "thesis-events", "Event processing over the number of subscriptions (figure 8.1)", PAPER, ABOUT,
        run_events, EVENTS, (Plot(TIME, "subscriptions", "ms per event"),),
    ),
    Experiment(
        "thesis-subscriptions", "Subscription processing (figure 8.2)", PAPER,
        ABOUT + " The time includes normalising and coding the subscription.",
        run_subscriptions, SUBSCRIPTIONS,
        (Plot("insertion ms", "subscriptions held", "ms per subscription"),),
    ),
)  # fmt: skip
