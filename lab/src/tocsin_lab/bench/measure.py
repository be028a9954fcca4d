"""How fast an engine matches a user's own files: check the answers, then time, then tell."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from tocsin.errors import FileError, TocsinError
from tocsin.language import bind, evaluate
from tocsin.language.documents import from_document
from tocsin.matching import Engine, engine_of
from tocsin.schema import Event, Schema
from tocsin_lab.bench.inferred import schema_of

if TYPE_CHECKING:
    import pyarrow as pa

REPEATS = 5
SHORTEST_REPEAT = 0.1  # seconds
CHECKED_SUBSCRIPTIONS, CHECKED_EVENTS = 300, 50


@dataclass(frozen=True, slots=True)
class MatchFigures:
    """What was measured. Times are of one thread; rates are of whole batches, encoding of the events included."""

    engine: str
    subscriptions: int
    events: int
    matches: int
    load_seconds: float  # reading, binding and coding the lines
    build_seconds: float  # from the coded columns to the index; 0 where the engine does not tell them apart
    bytes_per_subscription: float | None
    seconds: tuple[float, ...]  # of each repeat over all events
    coded_seconds: tuple[float, ...]  # the same without encoding: events coded before; empty where not told apart
    single_p50_us: float  # of one event, its encoding included
    single_p99_us: float
    peak_megabytes: float
    checked_pairs: int

    @property
    def events_per_second_best(self) -> float:
        return self.events / min(self.seconds)

    @property
    def events_per_second_coded(self) -> float | None:
        return self.events / min(self.coded_seconds) if self.coded_seconds else None

    @property
    def events_per_second_median(self) -> float:
        return self.events / statistics.median(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON has them."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return {
            **plain,
            "events_per_second_best": self.events_per_second_best,
            "events_per_second_median": self.events_per_second_median,
            "events_per_second_coded": self.events_per_second_coded,
        }


class WrongAnswer(TocsinError):
    """The engine disagrees with the definition: nothing is timed."""


def measure(
    subscriptions: Path, events: Path, *, schema: Schema | None = None, engine: str = "columnar", batch: int = 1_000
) -> MatchFigures:
    """Return the figures of an engine on these files; raises WrongAnswer, FileError."""
    lines = _lines(events)
    if not lines:
        raise FileError(str(events), "no events: one JSON object a line was expected")
    if schema is None:
        with _opened(subscriptions) as file:
            schema = schema_of(file, lines)
    raws = [msgspec.json.decode(line) for line in lines]
    admitted = [schema.admit(raw) for raw in raws]
    matcher = engine_of(engine)(schema)
    _show_sample(matcher, raws)
    load_seconds, build_seconds, size = _load(matcher, subscriptions)
    pairs = _check(matcher, schema, _lines(subscriptions), admitted)
    run = _batches(matcher, raws, admitted, batch)
    matches = run()  # kernels compile, buffers grow
    seconds = _times(run)
    run_coded = _coded_batches(matcher, raws, batch)
    coded_seconds = _times(run_coded) if run_coded else ()
    singles = _single_times(matcher, schema, raws)
    return MatchFigures(
        engine=engine,
        subscriptions=len(matcher),
        events=len(raws),
        matches=matches,
        load_seconds=load_seconds,
        build_seconds=build_seconds,
        bytes_per_subscription=size,
        seconds=seconds,
        coded_seconds=coded_seconds,
        single_p50_us=singles[len(singles) // 2] * 1e6,
        single_p99_us=singles[len(singles) * 99 // 100] * 1e6,
        peak_megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        checked_pairs=pairs,
    )


def _show_sample(matcher: Engine, raws: Sequence[Any]) -> None:
    """Let the planner know what events look like, as it would after the first batch."""
    from tocsin.matching.matcher import Matcher

    if isinstance(matcher, Matcher):
        from tocsin.index.encode import EventColumns

        matcher.index.sample = EventColumns(_record_batch(raws[:1_024]), matcher.schema)


def _lines(path: Path) -> list[bytes]:
    with _opened(path) as file:
        return [line for line in file if line.strip()]


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from None


def _load(matcher: Engine, path: Path) -> tuple[float, float, float | None]:
    """Return the seconds of loading and of building, and the index's bytes per subscription."""
    from tocsin.matching.matcher import Matcher

    started = time.perf_counter()
    with _opened(path) as file:
        if not isinstance(matcher, Matcher):
            _refuse(path, matcher.load(file))
            return time.perf_counter() - started, 0.0, None
        from tocsin.compile import load_bulk

        loaded = load_bulk(file, matcher.schema)
    _refuse(path, loaded.errors)
    loaded_at = time.perf_counter()
    matcher.load_table(loaded.table)
    built_at = time.perf_counter()
    size = sum(tier.segment.stats().bytes_per_subscription * len(tier.segment) for tier in matcher.index.tiers())
    return loaded_at - started, built_at - loaded_at, size / max(1, len(matcher))


def _refuse(path: Path, bad: Sequence[object]) -> None:
    if bad:
        raise FileError(str(path), f"{len(bad)} bad lines, the first: {bad[0]}")


def _check(matcher: Engine, schema: Schema, lines: Sequence[bytes], events: Sequence[Event]) -> int:
    """Compare a sample of the answers with the definition; return how many pairs that were."""
    step = max(1, len(lines) // CHECKED_SUBSCRIPTIONS)
    sample = [from_document(msgspec.json.decode(line)) for line in lines[::step]]
    bounds = {id: bind(tree, schema) for id, tree in sample}
    chosen = events[:: max(1, len(events) // CHECKED_EVENTS)]
    for event, found in zip(chosen, matcher.match_batch(chosen), strict=True):
        for found_by, answer in (("batch", set(found)), ("single", set(matcher.match(event)))):
            for id, bound in bounds.items():
                if (id in answer) != evaluate(bound, event):
                    raise WrongAnswer(f"{matcher.name}, {found_by}: wrong about subscription {id} and {event.values}")
    return 2 * len(bounds) * len(chosen)


def _batches(matcher: Engine, raws: Sequence[Any], events: Sequence[Event], batch: int) -> Callable[[], int]:
    """Return what to time: all events, a batch at a time; it returns the number of matches."""
    from tocsin.matching.matcher import Matcher

    starts = range(0, len(events), batch)
    if isinstance(matcher, Matcher):
        parts = [_record_batch(raws[start : start + batch]) for start in starts]
        few = min(batch, CHECKED_EVENTS)
        found = [ids for part in matcher.match_arrow(parts[0].slice(0, few)) for ids in part.lists()]
        if found != matcher.match_batch(events[:few]):
            raise WrongAnswer(f"{matcher.name}: Arrow columns and single events have different matches")
        return lambda: sum(len(found) for part in parts for found in matcher.match_arrow(part))
    lists = [events[start : start + batch] for start in starts]
    return lambda: sum(len(ids) for part in lists for ids in matcher.match_batch(part))


def _coded_batches(matcher: Engine, raws: Sequence[Any], batch: int) -> Callable[[], int] | None:
    """Return the same as _batches for events that are coded already; None where the engine does not code them."""
    from tocsin.matching.matcher import Matcher

    if not isinstance(matcher, Matcher):
        return None
    from tocsin.index.encode import EventColumns

    coded = [
        matcher.code(EventColumns(_record_batch(raws[start : start + batch]), matcher.schema))
        for start in range(0, len(raws), batch)
    ]
    return lambda: sum(len(found) for events in coded for found in matcher.match_coded(events))


def _times(run: Callable[[], int]) -> tuple[float, ...]:
    """Return the seconds of several repeats: each of one run, or of so many that it can be timed well, divided by these."""
    started = time.perf_counter()
    run()  # the first touches memory that the others use again
    runs = max(1, round(SHORTEST_REPEAT / max(time.perf_counter() - started, 1e-9)))
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        for _ in range(runs):
            run()
        seconds.append((time.perf_counter() - started) / runs)
    return tuple(seconds)


def _record_batch(raws: Sequence[Any]) -> pa.RecordBatch:
    """Return raw events as Arrow columns, null where an event does not bind the attribute."""
    import pyarrow as pa

    from tocsin.schema.event import flatten

    rows = [flatten(raw) for raw in raws]
    names = dict.fromkeys(name for row in rows for name in row)
    multiple = {name for row in rows for name, values in row.items() if len(values) > 1}
    columns = {
        name: [row.get(name) if name in multiple else row.get(name, [None])[0] for row in rows] for name in names
    }
    return pa.RecordBatch.from_pydict(columns)


def _single_times(matcher: Engine, schema: Schema, raws: Sequence[Any]) -> list[float]:
    """Return the seconds of admitting, encoding and matching single events, each a dict, ascending."""
    from tocsin.matching.matcher import Matcher

    def admit_and_match(raw: Any) -> Any:
        return matcher.match(schema.admit(raw))

    match = matcher.match_raw if isinstance(matcher, Matcher) else admit_and_match
    times = []
    for raw in [*raws[:200], *raws[:2_000]]:
        started = time.perf_counter()
        match(raw)
        times.append(time.perf_counter() - started)
    return sorted(times[min(200, len(raws)) :])
