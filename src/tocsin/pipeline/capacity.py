"""How many cores, executors and shards a load takes, and what breaks first: arithmetic over figures that were measured.

The model is written down in docs/scale.md. An event costs a task its transport and admission, and the engine's search,
which grows as a power of the number of subscriptions; a match costs its id. An event goes to every shard. Figures come from
`measure_figures`, on the machine at hand, with the user's own sample of subscriptions and events or a made one; three sizes
of the sample tell how the search grows. Used by cli/doctor.py; benchmarks/capacity.py holds predictions against runs.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tocsin.errors import NotSupported
from tocsin.matching.matcher import Matcher
from tocsin.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

QUICK, THOROUGH = 20_000, 100_000  # subscriptions of a made sample
MADE_EVENTS = 5_000
BATCH = 5_000
HEAP_BYTES = 2 << 30  # of an executor, beside its workers
WORKER_BYTES = 400 << 20  # a Python worker with the engine, without the index
DRIVER_BYTES_PER_SECOND = 200e6  # of matches that one driver takes over into a store
STORED_ID_BYTES = 16
ID_BYTES = 2.7  # of an id in the files that workers write
US = 1e-6


class MachineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one core does, as measured; but for Spark's transport, which docs/spark.md has (303,070 rows/s on two cores)."""

    search_us: float  # of an event among `subscriptions`
    subscriptions: int
    growth: float  # the search grows as subscriptions ** growth
    id_ns: float  # of a match
    admission_us: float  # of an event as JSON
    bytes_per_subscription: float
    compile_us: float  # of a text
    event_bytes: float
    transport_us: float = 6.6  # of a row through Spark, there and back


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, and what there is to do it with."""

    subscriptions: float
    events_per_second: float
    matches_per_event: float
    cores_per_executor: int = 4
    executor_memory_bytes: float = 32e9
    network_bytes_per_second: float = 1.25e9  # of a host
    busy: float = 0.6  # share of the time that cores may be busy: peaks, and retries
    sink: str = "files"  # or "store": matches then pass through one driver


class CapacityPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the load takes. `limits` are (what, share of what there is), the largest first: the first one breaks first."""

    shards: int
    subscriptions_per_shard: int
    event_us: float  # of one event in one shard, on one core
    cores: int
    executors: int
    index_bytes: float
    memory_bytes: float
    network_in: float
    network_out: float
    compile_core_hours: float
    limits: list[tuple[str, float]]


def plan_capacity(load: Load, figures: MachineFigures) -> CapacityPlan:
    """Return what a load takes."""
    index_bytes = load.subscriptions * figures.bytes_per_subscription
    beside = HEAP_BYTES + load.cores_per_executor * WORKER_BYTES
    for_index = 0.8 * (load.executor_memory_bytes - beside)
    if for_index <= 0:
        raise NotSupported(f"an executor of {load.cores_per_executor} cores needs more than {beside / 1e9:.1f} GB")
    shards = max(1, math.ceil(index_bytes / for_index))
    share = load.subscriptions / shards
    event_us = event_cost_us(figures, share, load.matches_per_event / shards)
    cores_per_shard = max(1, math.ceil(load.events_per_second * event_us * US / load.busy))
    executors = shards * math.ceil(cores_per_shard / load.cores_per_executor)
    network_in = load.events_per_second * figures.event_bytes * shards
    ids = load.events_per_second * load.matches_per_event
    network_out = ids * (STORED_ID_BYTES if load.sink == "store" else ID_BYTES)
    cores = shards * cores_per_shard
    limits = [
        ("cores", cores * load.busy / (executors * load.cores_per_executor)),
        ("memory for the index", index_bytes / shards / (load.executor_memory_bytes - beside)),
        ("network into a host", network_in / executors / load.network_bytes_per_second),
        ("network out of a host", network_out / executors / load.network_bytes_per_second),
    ]
    if load.sink == "store":
        limits.append(("one driver that stores", ids * STORED_ID_BYTES / DRIVER_BYTES_PER_SECOND))
    return CapacityPlan(
        shards=shards, subscriptions_per_shard=math.ceil(share), event_us=event_us, cores=cores, executors=executors,
        index_bytes=index_bytes, memory_bytes=executors * load.executor_memory_bytes, network_in=network_in,
        network_out=network_out, compile_core_hours=load.subscriptions * figures.compile_us * US / 3600,
        limits=sorted(limits, key=lambda limit: -limit[1]),
    )  # fmt: skip


def event_cost_us(figures: MachineFigures, subscriptions: float, matches: float) -> float:
    """Return what an event costs one core of a shard, with its way through Spark."""
    engine = engine_cost_us(figures, subscriptions, matches)
    return figures.transport_us + figures.admission_us + engine


def engine_cost_us(figures: MachineFigures, subscriptions: float, matches: float) -> float:
    """Return what the engine alone takes for an event."""
    grown = figures.search_us * math.pow(max(subscriptions, 1.0) / figures.subscriptions, figures.growth)
    return grown + matches * figures.id_ns / 1000


# --- measuring --------------------------------------------------------------------------------------------------------


def measure_figures(schema: Schema, lines: Sequence[str], events: Sequence[dict[str, Any]]) -> MachineFigures:
    """Return what this machine does with a sample: subscriptions as JSON lines, and events."""
    if len(lines) < 1_000 or len(events) < 100:
        raise NotSupported(
            "a sample needs 1,000 subscriptions and 100 events at least, else it tells nothing of growth"
        )
    batch = _batch_of(schema, events)
    admission_us = _admission_us(schema, events)
    sizes = [len(lines) // 4, len(lines) // 2, len(lines)]
    seconds = [_timed(_loaded(schema, lines[:size]), batch)[0] / batch.num_rows for size in sizes[:-1]]
    started = time.perf_counter()
    matcher = _loaded(schema, lines)
    compile_us = (time.perf_counter() - started) / len(lines) / US
    counted, found, ids = _timed(matcher, batch)
    seconds.append(counted / batch.num_rows)
    growth = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    matches = ids / batch.num_rows
    id_ns = max(0.0, (found - counted) / batch.num_rows) / max(matches, 1e-9) * 1e9
    return MachineFigures(
        search_us=seconds[-1] / US,
        subscriptions=sizes[-1],
        growth=min(1.0, max(0.0, growth)),
        id_ns=min(id_ns, 1000.0),
        admission_us=admission_us,
        bytes_per_subscription=matcher.stats().bytes / sizes[-1],
        compile_us=compile_us,
        event_bytes=float(np.mean([len(msgspec.json.encode(event)) for event in events])),
    )


def _loaded(schema: Schema, lines: Iterable[str]) -> Matcher:
    matcher = Matcher(schema, merge_beside=False)
    bad = matcher.load(lines)
    if bad:
        raise NotSupported(f"{len(bad)} lines of the sample are no subscriptions; the first: {bad[0]}")
    return matcher


def _batch_of(schema: Schema, events: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    from tocsin.pipeline.admission import admit_batch

    columns, layout = _as_json(events)
    admitted = admit_batch(columns, schema, layout).columns
    if not admitted.num_rows:
        raise NotSupported("none of the sample's events is a plain event of the schema")
    return admitted


def _as_json(events: Sequence[dict[str, Any]]) -> tuple[pa.RecordBatch, Any]:
    import pyarrow as pa

    from tocsin.pipeline.plan import Layout

    texts = [msgspec.json.encode(event).decode() for event in events[:BATCH]]
    return pa.RecordBatch.from_pydict({"body": texts}), Layout(whole="body")


def _admission_us(schema: Schema, events: Sequence[dict[str, Any]]) -> float:
    from tocsin.pipeline.admission import admit_batch

    columns, layout = _as_json(events)
    return _best(lambda: admit_batch(columns, schema, layout)) / len(events[:BATCH]) / US


def _timed(matcher: Matcher, batch: pa.RecordBatch) -> tuple[float, float, int]:
    """Return the seconds to count, and to find, the matches of a batch; and how many there are."""
    ids = int(matcher.count_arrow(batch).sum())

    def find() -> None:
        for _ in matcher.match_arrow(batch):
            pass

    return _best(lambda: matcher.count_arrow(batch)), _best(find), ids


def _best(call: Any, times: int = 5) -> float:
    """Return the shortest of some runs: others make it longer, nothing makes it shorter."""
    call()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return min(found)


def made_sample(
    subscriptions: int, matches_per_event: float, *, seed: int = 1
) -> tuple[Schema, list[str], list[dict[str, Any]]]:
    """Return a sample with so many subscriptions, and events that match about so many each."""
    rng = random.Random(seed)  # noqa: S311
    kinds = max(2, round(subscriptions / (2 * max(matches_per_event, 0.5))))
    lines = [
        json.dumps({
            "id": at,
            "predicates": [["kind", "=", rng.randrange(kinds)], ["price", "<=", rng.randrange(1000)]],
        })
        for at in range(subscriptions)
    ]  # fmt: skip
    events = [{"kind": rng.randrange(kinds), "price": rng.randrange(1000), "shop": "a"} for _ in range(MADE_EVENTS)]
    return Schema.infer(events, integers=True), lines, events
