"""Loading the bulk form: lines parsed, bound and coded, in one thread.

python -m benchmarks.bulk [--subscriptions 1000000]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.results import store
from tocsin.compile import load_bulk
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute

ATTRIBUTES = {"category": "text", "brand": "text", "city": "text", "price": "number", "year": "number"}


def market_schema() -> Schema:
    """Return the schema of the lines."""
    domains = {"text": TextDomain(name="text"), "number": NumericDomain(name="number")}
    entries = tuple(TypeAttribute(name, mandatory=False) for name in ATTRIBUTES)
    return Schema(domains, ATTRIBUTES, {"offer": EventType("offer", entries)})


def write_lines(path: Path, count: int) -> None:
    """Write subscriptions of 3 to 5 predicates."""
    pick = random.Random(1)
    with path.open("w") as file:
        for id in range(count):
            predicates = [
                ["category", "=", f"c{min(int(pick.paretovariate(0.8)), 500)}"],
                ["price", "<", pick.randint(10, 100_000) / 100],
                ["city", "!=", f"t{pick.randint(1, 50)}"],
            ]
            if pick.random() < 0.7:
                predicates.append(["brand", "=", f"b{pick.randint(1, 200)}"])
            if pick.random() < 0.7:
                predicates.append(["year", ">=", pick.randint(1950, 2025)])
            file.write(json.dumps({"id": id, "event_types": ["offer"], "predicates": predicates}) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    count = parser.parse_args().subscriptions
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "subscriptions.jsonl"
        write_lines(path, count)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        started, cpu = time.perf_counter(), time.process_time()
        with path.open("rb") as file:
            loaded = load_bulk(file, market_schema())
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    if loaded.errors or len(loaded.table) != count:
        raise SystemExit(f"not all was loaded: {loaded.errors[:3]}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {
        "subscriptions": count,
        "predicates": len(loaded.table.low),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "megabytes_before": before,
        "megabytes_peak": peak,
    }
    store("bulk", figures)
    print(f"{count:,} subscriptions, {figures['predicates']:,} predicates: {seconds:.1f} s, peak {peak:,.0f} MB")


if __name__ == "__main__":
    main()
