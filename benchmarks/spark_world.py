"""What the Spark benchmarks measure on: a market's subscriptions as a folder, and its events as Parquet files."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from tocsin.pipeline.subscription_table import SubscriptionTable
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin_lab.bench.workloads import OPERATORS, Workload, market

MATCHED_SHARE = 0.00866  # of the subscriptions, by an event of the market
IDS = 3_500_000_000  # found at most by one run over all events
LIST_IDS = 700_000_000  # written at most by one run: below 2 GB, which the disk's cache takes without waiting
FILES = 8


@dataclass(frozen=True, slots=True)
class World:
    """A market on disk; lists are made of its first events only, since each is long."""

    folder: Path
    subscriptions: int
    table: pa.Table

    @property
    def index(self) -> Path:
        return self.folder / "index"

    @property
    def few(self) -> int:
        """How many events lists are made of."""
        return min(self.table.num_rows, int(LIST_IDS / (MATCHED_SHARE * self.subscriptions)))

    def first(self, events: int) -> Path:
        """Return a folder with the first events, as several Parquet files, so that all cores get work."""
        folder = self.folder / f"events-{events}"
        if not folder.exists():
            folder.mkdir()
            for part in range(FILES):
                start, stop = (events * at // FILES for at in (part, part + 1))
                parquet.write_table(self.table.slice(start, stop - start), folder / f"{part}.parquet")
        return folder


@contextmanager
def world_of(subscriptions: int, most_events: int) -> Iterator[World]:
    """Give a market for as long as it is measured; fewer events where each matches very many."""
    folder = Path(tempfile.mkdtemp(prefix="tocsin-bench-"))
    try:
        workload = market(subscriptions, min(most_events, int(IDS / (MATCHED_SHARE * subscriptions))))
        bad = SubscriptionTable(folder / "index", market_schema(workload)).upsert(lines_of(workload)).bad
        assert not bad
        yield World(folder, subscriptions, event_table(workload))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lines_of(workload: Workload) -> Iterator[str]:
    """Yield the subscriptions in the bulk form; predicates that come again are put into words once."""
    words: dict[tuple[int, int, int], str] = {}
    rows = list(zip(workload.attribute.tolist(), workload.operator.tolist(), workload.value.tolist(), strict=True))
    for id, (start, stop) in enumerate(pairwise(workload.offset.tolist())):
        for row in rows[start:stop]:
            if row not in words:
                attribute, operator, value = row
                texts = workload.texts.get(attribute)
                shown = value if texts is None else texts[value]
                words[row] = json.dumps([workload.attributes[attribute], OPERATORS[operator], shown])
        predicates = ", ".join(words[row] for row in rows[start:stop])
        yield f'{{"id": {id}, "predicates": [{predicates}]}}'


def market_schema(workload: Workload) -> Schema:
    """Return the schema of the marketplace."""
    attributes = {name: "text" if at in workload.texts else "whole" for at, name in enumerate(workload.attributes)}
    domains = {"text": TextDomain(name="text"), "whole": NumericDomain(name="whole", type="int")}
    entries = tuple(TypeAttribute(name, mandatory=False) for name in attributes)
    return Schema(domains, attributes, {"offer": EventType("offer", entries)})


def event_table(workload: Workload) -> pa.Table:
    """Return the events as columns, with an id."""
    columns: dict[str, Any] = {"id": pa.array(range(workload.events.shape[1]), pa.int64())}
    for at, name in enumerate(workload.attributes):
        texts = workload.texts.get(at)
        numbers = pa.array(workload.events[at])
        columns[name] = numbers if texts is None else pa.array(texts).take(numbers)
    return pa.table(columns)
