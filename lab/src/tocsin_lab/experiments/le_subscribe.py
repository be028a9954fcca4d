"""Le Subscribe, section 4: the three engines over the number of subscriptions, and over the share of equalities."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from tocsin.matching import Engine, engine_of
from tocsin.schema import Event
from tocsin_lab.experiments.experiment import Claim, Experiment, Plot, Scale, ratio
from tocsin_lab.results import Results, Row
from tocsin_lab.timing import loaded, matching_milliseconds, milliseconds, seconds
from tocsin_lab.workloads import le_subscribe

ENGINES = ("counting", "equality-preferred", "quarantining")
PAPER = "Le Subscribe (Fabret, Llirbat, Pereira, Shasha), section 4"
WORKLOAD = (
    "One event type of 8 optional attributes, 4 texts with equality only and 4 numbers with any comparison; see "
    "`tocsin_lab/workloads.py`. Our copy of the paper's text has lost its numbers, so the parameters are ours and only its "
    "words can be compared."
)


def run_scaling(scale: Scale) -> Iterator[Row]:
    name = "le-subscribe-scaling"
    for count in scale.of([200], [1_000, 10_000, 100_000], [1_000, 10_000, 100_000, 500_000]):
        prepared = le_subscribe(count, 100)
        for engine in (*ENGINES, "naive") if count <= 1_000 else ENGINES:
            matcher = engine_of(engine)(prepared.schema)
            loaded(matcher, prepared)
            processing = matching_milliseconds(matcher, prepared, scale.budget())
            execution = milliseconds(partial(_answer, matcher), prepared.events, scale.budget())
            yield Row(experiment=name, series=engine, x=count, figure="processing ms", value=processing)
            yield Row(experiment=name, series=engine, x=count, figure="execution ms", value=execution)


def _answer(matcher: Engine, event: Event) -> bytes:
    """Return the matches as they would go back to the publisher."""
    return msgspec.json.encode(matcher.match(event))


def claims_scaling(results: Results) -> list[Claim]:
    x, fair = results.last("counting", "processing ms")
    preferred, quarantining = (results.points(name, "processing ms")[x] for name in ENGINES[1:])
    shown = f"at {x:,.0f}: fair predicate {fair:.3f} ms, equality preferred {preferred:.3f}, quarantining {quarantining:.3f}"
    at, naive = results.last("naive", "processing ms")
    best = results.points("quarantining", "processing ms")[at]
    return [
        Claim(
            "Equality preferred and non-equality quarantining are the best, quarantining before equality preferred",
            "figure only", shown, quarantining < preferred < fair,
            "an addition takes about a nanosecond today and a comparison less, so that what the clusters save is little "
            "until there are more subscriptions than here",
        ),
        Claim(
            "The naive algorithm takes many times as long as quarantining",
            "figure only", f"at {at:,.0f}: {ratio(naive, best)} times (naive is plain Python)", naive > 10 * best,
        ),
    ]  # fmt: skip


def run_equality_share(scale: Scale) -> Iterator[Row]:
    [count] = scale.of([300], [50_000], [200_000])
    for percent in (0, 25, 50, 75, 100):
        prepared = le_subscribe(count, 100, equality=1 - percent / 100)
        for engine in ENGINES:
            matcher = engine_of(engine)(prepared.schema)
            loaded(matcher, prepared)
            value = matching_milliseconds(matcher, prepared, scale.budget())
            yield Row(
                experiment="le-subscribe-nonequality", series=engine, x=percent, figure="processing ms", value=value
            )


def claims_equality_share(results: Results) -> list[Claim]:
    points = {name: results.points(name, "processing ms") for name in ENGINES}
    preferred, quarantining = points["equality-preferred"][0], points["quarantining"][0]
    grows = all(found[0] < found[50] < found[100] for found in points.values())
    shown = ", ".join(f"{name} {found[0]:.3f} → {found[100]:.3f} ms" for name, found in points.items())
    alike = max(preferred, quarantining) / min(preferred, quarantining)
    return [
        Claim("The lower the share of non-equality predicates, the better all three perform", "figure only", shown, grows),
        Claim(
            "Without non-equality predicates equality preferred and quarantining are equivalent",
            "figure only", f"{preferred:.3f} and {quarantining:.3f} ms", alike < 2,
        ),
    ]  # fmt: skip


def run_equality_only(scale: Scale) -> Iterator[Row]:
    for count in scale.of([100, 300], [1_000, 10_000, 100_000], [1_000, 10_000, 100_000, 500_000]):
        prepared = le_subscribe(count, 100, equality=1.0)
        matcher = engine_of("quarantining")(prepared.schema)
        loaded(matcher, prepared)
        value = matching_milliseconds(matcher, prepared, scale.budget())
        yield Row(
            experiment="le-subscribe-equality", series="quarantining", x=count, figure="processing ms", value=value
        )


def claims_equality_only(results: Results) -> list[Claim]:
    points = sorted(results.points("quarantining", "processing ms").items())
    (first, start), (last, end) = points[0], points[-1]
    growth = end / start
    return [
        Claim(
            "With equalities only, time grows slightly with the number of subscriptions, after a threshold that comes "
            "from looking up every equality cluster",
            "figure only",
            f"{ratio(last, first)} times the subscriptions, {ratio(end, start)} times the time ({start:.4f} → {end:.4f} ms)",
            growth < (last / first) / 3,
        )
    ]


def run_insertion(scale: Scale) -> Iterator[Row]:
    [count] = scale.of([300], [20_000], [200_000])
    more = max(100, count // 20)
    prepared = le_subscribe(count + more, 10)
    new = list(prepared.subscriptions(count, count + more))
    for engine in ENGINES:
        matcher = engine_of(engine)(prepared.schema)
        table = prepared.part(0, count)
        matcher.load_table(table)  # type: ignore[attr-defined]
        matcher.match(prepared.events[0])
        value = seconds(partial(matcher.add_all, new)) / more * 1e3
        yield Row(experiment="le-subscribe-insertion", series=engine, x=count, figure="insertion ms", value=value)


def claims_insertion(results: Results) -> list[Claim]:
    value = {name: results.last(name, "insertion ms")[1] for name in ENGINES}
    shown = ", ".join(f"{name} {found:.3f} ms" for name, found in value.items())
    others = value["equality-preferred"], value["quarantining"]
    return [
        Claim(
            "Adding a subscription takes similar time in equality preferred and quarantining",
            "milliseconds (the number is lost)", shown, max(others) / min(others) < 2,
        ),
        Claim(
            "The fair predicate algorithm is faster to update", "—", shown, value["counting"] < min(others),
            "normalising and coding, which all share, take most of the time; and counting numbers every predicate, the "
            "others one combination",
        ),
    ]  # fmt: skip


EXPERIMENTS = (
    Experiment(
        "le-subscribe-scaling", "Processing and execution time over the number of subscriptions", PAPER, WORKLOAD,
        run_scaling, claims_scaling,
        (Plot("processing ms", "subscriptions", "ms per event"), Plot("execution ms", "subscriptions", "ms per event")),
    ),
    Experiment(
        "le-subscribe-nonequality", "Influence of the share of non-equality predicates", PAPER, WORKLOAD,
        run_equality_share, claims_equality_share,
        (Plot("processing ms", "% of non-equalities on numbers", "ms per event", log_x=False),),
    ),
    Experiment(
        "le-subscribe-equality", "Equality predicates only", PAPER, WORKLOAD,
        run_equality_only, claims_equality_only, (Plot("processing ms", "subscriptions", "ms per event"),),
    ),
    Experiment(
        "le-subscribe-insertion", "Cost of adding a subscription", PAPER,
        WORKLOAD + " The time includes normalising and coding the subscription, which all engines share.",
        run_insertion, claims_insertion, (),
    ),
)  # fmt: skip
