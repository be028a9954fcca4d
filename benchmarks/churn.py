"""Changes while matching: what a minute of 1,000 changes a second costs.

    python -m benchmarks.churn [--subscriptions 1000000] [--changes 60000]

Half of the changes are additions, half removals, in rounds; after each round a batch of events is matched, and merges
run beside. At the end, matching is timed with the tiers and tombstones that are left, and again after merging all.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np
import pyarrow as pa

from benchmarks.bulk import market_schema, write_lines
from benchmarks.results import store
from tocsin.language import bind, parse
from tocsin.matching.matcher import Matcher
from tocsin.schema import Schema

ROUND = 500


def event_batch(count: int, seed: int = 7) -> pa.RecordBatch:
    """Return events that meet the subscriptions."""
    rng = np.random.default_rng(seed)
    return pa.RecordBatch.from_pydict(
        {
            "category": [f"c{each}" for each in np.minimum(rng.pareto(0.8, count).astype(int) + 1, 500)],
            "brand": [f"b{each}" for each in rng.integers(1, 201, count)],
            "city": [f"t{each}" for each in rng.integers(1, 51, count)],
            "price": rng.integers(10, 100_000, count) / 100,
            "year": rng.integers(1950, 2026, count),
        }
    )


def text_of(pick: random.Random) -> str:
    """Return one more subscription."""
    return (
        f"category = 'c{min(int(pick.paretovariate(0.8)), 500)}' and price < {pick.randint(10, 100_000) / 100} "
        f"and brand = 'b{pick.randint(1, 200)}'"
    )


def best_rate(matcher: Matcher, batch: pa.RecordBatch, repeats: int = 7) -> float:
    """Return events per second, the best of several runs."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in matcher.match_arrow(batch):
            pass
        times.append(time.perf_counter() - started)
    return batch.num_rows / min(times)


def main() -> None:
    """Measure, print and store."""
    import tempfile
    from pathlib import Path

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=60_000)
    options = parser.parse_args()
    schema: Schema = market_schema()
    matcher = Matcher(schema)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "subscriptions.jsonl"
        write_lines(path, options.subscriptions)
        with path.open("rb") as file:
            matcher.load(file)
    batch = event_batch(5_000)
    before = best_rate(matcher, batch)
    pick = random.Random(3)
    prepared = [bind(parse(text_of(pick)), schema) for _ in range(1_000)]
    removable = list(range(options.subscriptions))
    pick.shuffle(removable)
    change_seconds = match_seconds = 0.0
    next_id = options.subscriptions
    for _ in range(options.changes // ROUND):
        started = time.perf_counter()
        for _ in range(ROUND // 2):
            matcher.add(next_id, prepared[next_id % 1_000])
            matcher.remove(removable.pop())
            next_id += 1
        changed = time.perf_counter()
        for _ in matcher.match_arrow(batch.slice(0, 100)):
            pass
        change_seconds += changed - started
        match_seconds += time.perf_counter() - changed
    matcher.index.wait_for_merging()
    stats = matcher.stats()
    during = best_rate(matcher, batch)
    matcher.index.merge(everything=True)
    after = best_rate(matcher, batch)
    figures = {
        "subscriptions": options.subscriptions,
        "changes": options.changes,
        "microseconds_per_change": change_seconds / options.changes * 1e6,
        "milliseconds_per_match_of_100": match_seconds / (options.changes / ROUND) * 1e3,
        "tiers": stats.tiers,
        "dead": stats.dead,
        "events_per_second_before": before,
        "events_per_second_with_delta": during,
        "events_per_second_merged": after,
    }
    store("churn", figures)
    print(
        f"{options.changes:,} changes at {options.subscriptions:,}: {figures['microseconds_per_change']:.0f} µs each, "
        f"a match of 100 events between rounds {figures['milliseconds_per_match_of_100']:.1f} ms; tiers {stats.tiers}, "
        f"{stats.dead:,} dead; events/s before {before:,.0f}, with delta {during:,.0f}, merged {after:,.0f}"
    )


if __name__ == "__main__":
    main()
