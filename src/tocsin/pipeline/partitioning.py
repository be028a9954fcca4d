"""Partitioning: how match() divides its work over tasks, decided from sizes, with the reasons kept for explain_match.

events    tasks take events; each worker maps all subscriptions (one copy a host, in the page cache)
shards    subscriptions too are divided: each task takes some events and one shard of the segments, so that no
          worker maps more than its share; every event goes to every shard, and costs transport that often
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tocsin.errors import NotSupported
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.subscription_folder import read_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

How = Literal["auto", "events", "shards"]
DEFAULT_WORKER_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Partitioning:
    """What was decided, and why."""

    how: str
    shards: tuple[tuple[str, ...], ...]
    spread_to: int | None  # partitions that the events are spread over first
    subscriptions: int | None
    index_bytes: int | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        size = "" if self.index_bytes is None else f", {self.index_bytes / 1e6:,.1f} MB"
        held = "as the store has them" if self.subscriptions is None else f"{self.subscriptions:,}{size}"
        lines = [f"how: {self.how}", f"subscriptions: {held}"]
        if self.shards:
            lines.append(
                f"shards: {len(self.shards)} of {', '.join(str(len(shard)) for shard in self.shards)} segments"
            )
        if self.spread_to:
            lines.append(f"events: spread over {self.spread_to} partitions")
        return "\n".join([*lines, *(f"because {reason}" for reason in self.reasons)])


def choose_partitioning(
    events: DataFrame, reference: IndexReference, how: How, *, worker_bytes: int, shard_bytes: int | None
) -> Partitioning:
    """Return how to divide the work."""
    if reference.kind == "store":
        if how == "shards":
            raise NotSupported("a store's subscriptions are not sharded: write them to a folder for that")
        return Partitioning(
            "events", (), _spread(events), None, None, ("a store is followed by every worker as a whole",)
        )
    manifest = read_manifest(reference.place, reference.version)
    fits = manifest.bytes <= worker_bytes
    chosen = how if how != "auto" else ("events" if fits or len(manifest.segments) < 2 else "shards")
    reasons = [
        f"the index has {manifest.bytes / 1e6:,.1f} MB and a worker may map {worker_bytes / 1e6:,.1f} MB"
        if how == "auto"
        else "it was asked for",
    ]
    if how == "auto" and not fits and chosen == "events":
        reasons.append("it is a single segment, which cannot be divided; write it with a smaller per_segment")
    shards: tuple[tuple[str, ...], ...] = ()
    if chosen == "shards":
        shards = divide([(entry.name, entry.bytes) for entry in manifest.segments], shard_bytes or worker_bytes)
        reasons.append(f"every event goes to {len(shards)} shards")
    spread = _spread(events) if chosen == "events" else None
    if spread:
        reasons.append("the events come in fewer partitions than there are cores")
    return Partitioning(chosen, shards, spread, manifest.subscriptions, manifest.bytes, tuple(reasons))


def divide(segments: list[tuple[str, int]], most_bytes: int) -> tuple[tuple[str, ...], ...]:
    """Return the segments in as few shards of at most so many bytes as first-fit finds, largest first."""
    shards: list[tuple[int, list[str]]] = []
    for file, size in sorted(segments, key=lambda entry: (-entry[1], entry[0])):
        at = next((at for at, (held, _) in enumerate(shards) if held + size <= most_bytes), None)
        if at is None:
            shards.append((size, [file]))
        else:
            shards[at] = (shards[at][0] + size, [*shards[at][1], file])
    return tuple(tuple(sorted(files)) for _, files in shards)


def _spread(events: DataFrame) -> int | None:
    """Return over how many partitions a batch DataFrame should be spread; None where it is well as it is.

    Only where asking costs nothing: a streaming DataFrame, and one of Spark Connect, stays as it is.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if events.isStreaming or not isinstance(events, ClassicDataFrame):
        return None
    cores = events.sparkSession.sparkContext.defaultParallelism
    partitions = events.rdd.getNumPartitions()
    return cores if 0 < partitions < cores else None
