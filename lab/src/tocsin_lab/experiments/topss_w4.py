"""TOPSS, figures 3 and 4 and the first half of tables 1 and 2: bit, byte and list counting under W4."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.matching import engine_of
from tocsin_lab.classic.counting import CountingMatcher
from tocsin_lab.experiments.experiment import Claim, Experiment, Plot, Scale, ratio
from tocsin_lab.results import Results, Row
from tocsin_lab.timing import loaded, matching_milliseconds, milliseconds
from tocsin_lab.workloads import w4

NAME = "topss-w4"
PAPER = "TOPSS (Toronto Publish/Subscribe System), sections 5.1.2 and 5.1.3"
SIZES = (1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000)
BITS = dict(zip(map(float, SIZES), (0.3, 1.9, 3.8, 20.0, 40.4, 264.0, 562.4, 1555.7), strict=True))
LISTS = dict(zip(map(float, SIZES), (0.10, 0.27, 0.63, 3.85, 8.10, 79.0, 190.7, 1056.0), strict=True))
KDB = dict(zip(map(float, SIZES), (89.3, 206.4, 397.4, 1800.3, 3451.2, 17299.7, 33473.1, 338166.1), strict=True))
LOAD_BITS = dict(zip(map(float, SIZES), (6, 26, 52, 261, 523, 2712, 5428, 26976), strict=True))
LOAD_LISTS = dict(zip(map(float, SIZES), (6, 28, 58, 353, 862, 16093, 97746, 2678858), strict=True))
LOAD_KDB = dict(zip(map(float, SIZES), (52, 84, 196, 706, 1699, 6976, 15658, 69811), strict=True))
LARGEST_BYTES = 1_000_000  # a byte per predicate and subscription: beyond this the matrix takes gigabytes


def run(scale: Scale) -> Iterator[Row]:
    sizes = scale.of([500], [1_000, 10_000, 100_000, 1_000_000], list(SIZES))
    for count in sizes:
        prepared = w4(count, 20)
        engines = ("counting-table", "counting-bits", "counting-bytes", "counting")
        for engine in engines if count <= LARGEST_BYTES else engines[:2]:
            matcher = engine_of(engine)(prepared.schema)
            assert isinstance(matcher, CountingMatcher)
            load = loaded(matcher, prepared)
            time = matching_milliseconds(matcher, prepared, scale.budget(1.0))
            association = matcher.associated.bytes() / 1e6
            reverse = sum(field.nbytes for field in matcher.rows.predicates) / 1e6
            for figure, value in (
                ("matching ms", time), ("loading ms", load * 1e3),
                ("association MB", association), ("association with removal MB", association + reverse),
            ):  # fmt: skip
                if figure != "association with removal MB" or engine == "counting-table":
                    yield Row(experiment=NAME, series=engine, x=count, figure=figure, value=value)
            del matcher
        yield from run_columnar(count, scale.budget(1.0))


def run_columnar(count: int, budget: float) -> Iterator[Row]:
    """Yield the engine that Tocsin works with, beside the papers': one event at a time, and a batch."""
    from tocsin.index.encode import EventObjects
    from tocsin.matching.matcher import Matcher

    prepared = w4(count, 200)
    matcher = Matcher(prepared.schema)
    load = loaded(matcher, prepared)
    yield Row(experiment=NAME, series="columnar", x=count, figure="loading ms", value=load * 1e3)

    def matched(events: EventObjects) -> int:
        return sum(len(part) for part in matcher.match_source(events))

    single = milliseconds(matched, [EventObjects([event]) for event in prepared.events[:20]], budget)
    batch = milliseconds(matched, [EventObjects(prepared.events)], budget) / len(prepared.events)
    yield Row(experiment=NAME, series="columnar", x=count, figure="matching ms", value=single)
    yield Row(experiment=NAME, series="columnar, batch of 200", x=count, figure="matching ms", value=batch)


def claims(results: Results) -> list[Claim]:
    x, byte = results.last("counting-bytes", "matching ms")
    lists, bits = (results.points(name, "matching ms")[x] for name in ("counting-table", "counting-bits"))
    shown = f"at {x:,.0f}: list {lists:.3f} ms, bit {bits:.3f} ms, byte {byte:.3f} ms"
    memory = {name: results.points(name, "association MB")[x] for name in ("counting-table", "counting-bits")}
    removal = results.points("counting-table", "association with removal MB")[x]
    load = {name: results.points(name, "loading ms")[x] for name in ("counting-table", "counting-bits")}
    found = [
        Claim("List-based counting is the fastest, the byte matrix the slowest", "figure 3", shown, lists < bits < byte),
        Claim(
            "Bit-wise matching outperforms the byte matrix by about a factor of 3",
            "about 3", ratio(byte, bits), 2 <= byte / bits <= 4.5,
        ),
        Claim(
            "Lists take less memory than the bit matrix; with what removal needs, the bit matrix takes less",
            "figure 4",
            f"at {x:,.0f}: lists {memory['counting-table']:.1f} MB, with removal {removal:.1f} MB, bits {memory['counting-bits']:.1f} MB",
            memory["counting-table"] < memory["counting-bits"] < removal,
        ),
        Claim(
            "Loading the bit matrix is faster than loading lists",
            f"at {x:,.0f}: {LOAD_BITS.get(x, float('nan')):,.0f} and {LOAD_LISTS.get(x, float('nan')):,.0f} ms",
            f"{load['counting-bits']:,.0f} and {load['counting-table']:,.0f} ms", load["counting-bits"] < load["counting-table"],
            "the paper's lists were re-allocated in constant steps; ours double, and both wait for the same numbering of predicates",
        ),
    ]  # fmt: skip
    for name, paper in (("counting-table", LISTS), ("counting-bits", BITS)):
        at = max((size for size in results.points(name, "matching ms") if size <= 1_000_000), default=None)
        if at is not None and at in paper:
            ours = results.points(name, "matching ms")[at]
            found.append(
                Claim(
                    f"(ours) {name} is at least 50 times as fast as in the paper",
                    f"at {at:,.0f}: {paper[at]:,.1f} ms on a Pentium III at 900 MHz",
                    f"{ours:.2f} ms, {ratio(paper[at], ours)} times",
                    paper[at] / ours >= 50,
                )
            )
    return found


EXPERIMENTS = (
    Experiment(
        NAME, "Subscription matching under W4: lists, bit matrix, byte matrix (figures 3, 4, tables 1, 2)", PAPER,
        "10 attributes with values 1–10, 1–5 predicates with = ≠ < >; about 18% of all subscriptions match every event, "
        "so that the output alone is most of a megabyte per event at a million. Timed from the coded event to the array "
        "of matching subscriptions. Loading is timed from flat columns of coded predicates. The columnar engine's row "
        "includes coding the events from Python objects.",
        run, claims,
        (
            Plot("matching ms", "subscriptions", "ms per event", paper={"paper: bit-wise": BITS, "paper: list-based": LISTS}),
            Plot("association MB", "subscriptions", "MB"),
            Plot("loading ms", "subscriptions", "ms", paper={"paper: bit-wise": LOAD_BITS, "paper: list-based": LOAD_LISTS}),
        ),
    ),
)  # fmt: skip
