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
from tocsin_lab.classic.counting import CountingMatcher
from tocsin_lab.experiments.experiment import Claim, Experiment, Plot, Scale, ratio
from tocsin_lab.results import Results, Row
from tocsin_lab.timing import WrongAnswer, milliseconds, seconds

PAPER = "Event notification system (thesis), chapter 8"
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


def run_events(scale: Scale) -> Iterator[Row]:
    schema = load_example("thesis")
    events = [schema.admit(raw) for raw in thesis_events(100, seed=8)]
    for count in scale.of([300], [1_000, 5_000, 20_000, 50_000, 200_000], [1_000, 10_000, 50_000, 200_000, 500_000]):
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
        time = milliseconds(matcher.match_coded, coded, scale.budget())
        yield Row(experiment="thesis-events", series="counting", x=count, figure="matching ms", value=time)
        satisfied = float(np.mean([len(matcher.predicates.satisfied(event)) for event in coded]))
        yield Row(
            experiment="thesis-events", series="counting", x=count, figure="satisfied predicates", value=satisfied
        )


def claims_events(results: Results) -> list[Claim]:
    points = sorted(results.points("counting", "matching ms").items())
    (x1, y1), (x2, y2) = points[0], points[-1]
    sizes, times = np.log(np.array(points)).T
    exponent = float(np.polyfit(sizes, times, 1)[0]) if x2 > x1 else float("nan")
    return [
        Claim(
            "The performance of the counting algorithm is close to linear in the number of subscriptions",
            "figure 8.1",
            f"{x1:,.0f} → {x2:,.0f}: {y1:.3f} → {y2:.3f} ms, growing like n^{exponent:.2f}",
            0.6 <= exponent <= 1.3 if x2 > x1 else None,
        )
    ]


def run_subscriptions(scale: Scale) -> Iterator[Row]:
    [count] = scale.of([300], [20_000], [100_000])
    matcher = CountingMatcher(load_example("thesis"))
    step = max(1, count // 20)
    subscriptions = bound_subscriptions(count, seed=7)
    for first in range(0, count, step):
        part = subscriptions[first : first + step]
        before = matcher.predicates.live
        value = seconds(partial(matcher.add_all, part)) / len(part) * 1e3
        x = first + len(part)
        yield Row(experiment="thesis-subscriptions", series="counting", x=x, figure="insertion ms", value=value)
        new = (matcher.predicates.live - before) / len(part)
        yield Row(experiment="thesis-subscriptions", series="counting", x=x, figure="new predicates", value=new)


def claims_subscriptions(results: Results) -> list[Claim]:
    times = list(results.points("counting", "insertion ms").values())
    new = list(results.points("counting", "new predicates").values())
    half = len(times) // 2
    early, late = (float(np.median(part)) for part in (times[1:half], times[half:]))
    return [
        Claim(
            "The time to insert a subscription is not proportional to the number already there, because most of its "
            "predicates are in the table already",
            "figure 8.2",
            f"median {early:.4f} ms in the first half, {late:.4f} ms in the second ({ratio(late, early)} times); new "
            f"predicates per subscription {new[0]:.2f} → {new[-1]:.2f}",
            late < 1.5 * early,
        )
    ]


EXPERIMENTS = (
    Experiment(
        "thesis-events", "Event processing over the number of subscriptions (figure 8.1)", PAPER, ABOUT,
        run_events, claims_events, (Plot("matching ms", "subscriptions", "ms per event"),),
    ),
    Experiment(
        "thesis-subscriptions", "Subscription processing (figure 8.2)", PAPER,
        ABOUT + " The time includes normalising and coding the subscription.",
        run_subscriptions, claims_subscriptions,
        (Plot("insertion ms", "subscriptions held", "ms per subscription", log_x=False, log_y=False),),
    ),
)  # fmt: skip
