"""The index as a worker process holds it: opened once, mapped, kept between tasks and micro-batches, moved forward.

Spark keeps Python workers alive and runs task after task in them. What is opened here stays in this module, under the
place and the shard that it was opened for; a task that comes with a newer version opens only the segments that are new.
Segments are mapped, so that all workers of a host share one copy in the page cache.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.compile.ids import Ids, TextIds
from tocsin.errors import NotSupported, UnknownSubscription
from tocsin.index.encode import EventColumns, EventObjects, EventSource
from tocsin.index.segment_file import open_segment
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.index.tier import Tier
from tocsin.matching.columnar.matches import Matches, in_sequence
from tocsin.matching.columnar.tier_ids import TierIds
from tocsin.matching.matcher import Matcher
from tocsin.pipeline.list_chunk import IdDictionary
from tocsin.pipeline.match_lists import Longs, MatchLists
from tocsin.pipeline.subscription_folder import FolderManifest, SegmentEntry, read_manifest, read_schema
from tocsin.schema import Event, Schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class IndexReference:
    """Where the subscriptions are: all that Spark carries to the workers.

    `version` pins a folder's version, so that a retried task gives the same rows; None follows the newest, task by
    task. With `shards`, a task is asked for one of them, and opens only its segments. `numbered` asks for numbers in the
    index's dictionary in place of ids, where it has one.
    """

    place: str
    kind: str = "folder"  # or "store"
    version: int | None = None
    shards: tuple[tuple[str, ...], ...] = ()
    numbered: bool = False


class OpenIndex(ABC):
    """Subscriptions, ready to be matched against."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The schema that the subscriptions are bound to."""

    @property
    def dictionary(self) -> IdDictionary | None:
        """The ids that matches name by number; None where matches are the ids. Another object after a change."""
        return None

    @abstractmethod
    def refresh(self, version: int | None) -> None:
        """Move to a version, or to the newest."""

    @abstractmethod
    def match_columns(self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None) -> MatchLists:
        """Return the matches of events in canonical columns."""

    @abstractmethod
    def match_events(self, events: Sequence[Event], seq: Longs | None, arrival: Longs | None) -> MatchLists:
        """Return the matches of admitted events."""

    def column_parts(
        self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None
    ) -> Iterator[tuple[int, MatchLists]]:
        """Yield the matches of events in canonical columns, a stretch of events at a time, with the first's number.

        A stretch's arrays may be used again by the next one.
        """
        yield 0, self.match_columns(columns, seq, arrival)

    def count_columns(self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None) -> Longs:
        """Return how many subscriptions each event in canonical columns satisfies."""
        counts = np.zeros(columns.num_rows, np.int64)
        for first, lists in self.column_parts(columns, seq, arrival):
            counts[first : first + len(lists)] = lists.counts
        return counts

    @abstractmethod
    def document(self, id: Any) -> str:
        """Return a subscription as JSON, for explaining; raises NotSupported where documents are not kept."""


_indexes: dict[tuple[int, str, str, int | None, bool], OpenIndex] = {}


def open_index(reference: IndexReference, shard: int | None = None) -> OpenIndex:
    """Return the index, at the version that the reference asks for."""
    key = (os.getpid(), reference.kind, reference.place, shard, reference.numbered)
    if key not in _indexes:
        _indexes[key] = _new_index(reference, shard)
    index = _indexes[key]
    index.refresh(reference.version)
    return index


def _new_index(reference: IndexReference, shard: int | None) -> OpenIndex:
    if reference.kind == "store":
        from tocsin.pipeline.store_index import StoreIndex

        return StoreIndex(reference.place)
    files = None if shard is None else reference.shards[shard]
    return FolderIndex(Path(reference.place), files, numbered=reference.numbered)


class FolderIndex(OpenIndex):
    """A folder of subscriptions (subscription_folder.py), or one shard of it."""

    def __init__(self, folder: Path, files: Sequence[str] | None = None, *, numbered: bool = False) -> None:
        self._folder = folder
        self._files = None if files is None else set(files)
        self._schema = read_schema(folder)
        self._manifest = FolderManifest()
        self._numbered = numbered
        self._matcher = Matcher(self._schema, merge_beside=False, numbered=numbered)
        self.segments: dict[str, OpenSegment] = {}
        self._dictionary: IdDictionary | None = None
        self._openings = 0  # a segment that is mapped anew is another tier to the matcher

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def dictionary(self) -> IdDictionary | None:
        if self._numbered and self._dictionary is None:
            none: Ids = TextIds.of([]) if self._manifest.text_ids else np.zeros(0, np.int64)
            held = TierIds([none, *(one.tier.segment.ids for one in self.segments.values())])
            self._dictionary = IdDictionary(held.arrow)
        return self._dictionary

    def refresh(self, version: int | None) -> None:
        if version is not None and version == self._manifest.version:
            return
        manifest = read_manifest(self._folder, version)
        if manifest.version == self._manifest.version:
            return
        gone: dict[str, set[Any]] = {}
        for file, id in manifest.dead:
            gone.setdefault(file, set()).add(id)
        wanted = [entry for entry in manifest.segments if self._files is None or entry.file in self._files]
        self.segments = {entry.file: self._opened(entry, gone.get(entry.file, set())) for entry in wanted}
        self._matcher.index = SubscriptionIndex(self._schema, [one.tier for one in self.segments.values()])
        self._manifest = manifest
        self._dictionary = None

    def _opened(self, entry: SegmentEntry, dead: set[Any]) -> OpenSegment:
        """Return the segment, opened before if that can be; one that subscriptions come back to is mapped anew."""
        known = self.segments.get(entry.file)
        if known is None or not known.dead <= dead:
            segment = open_segment(self._folder / entry.file, self._schema.domain_of, verify=False)
            self._openings += 1
            known = OpenSegment(Tier(f"{entry.file}#{self._openings}", segment), entry)
        known.bury(dead)
        return known

    def match_columns(self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None) -> MatchLists:
        return self._match(EventColumns(columns, self._schema), seq, arrival)

    def match_events(self, events: Sequence[Event], seq: Longs | None, arrival: Longs | None) -> MatchLists:
        return self._match(EventObjects(events), seq, arrival)

    def column_parts(
        self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None
    ) -> Iterator[tuple[int, MatchLists]]:
        if not self.segments:
            yield 0, self._match(EventColumns(columns, self._schema), seq, arrival)
        elif columns.num_rows:
            for part in self._matcher.match_source(EventColumns(columns, self._schema), seq=seq, arrival=arrival):
                yield part.first, _lists_of(part)

    def count_columns(self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None) -> Longs:
        if not columns.num_rows or not self.segments:
            return np.zeros(columns.num_rows, np.int64)
        return self._matcher.count_arrow(columns, seq=seq, arrival=arrival)

    def _match(self, source: EventSource, seq: Longs | None, arrival: Longs | None) -> MatchLists:
        if not source.size or not self.segments:
            return MatchLists.of([()] * source.size, text=self._manifest.text_ids and not self._numbered)
        parts = self._matcher.match_source(source, seq=seq, arrival=arrival)
        found = in_sequence([part.copy() for part in parts], 0)  # the engine uses its arrays again
        return _lists_of(found)

    def document(self, id: Any) -> str:
        for segment in self.segments.values():
            if segment.tier.number_of(id) is not None:
                return segment.document(self._folder, id)
        raise UnknownSubscription(id)


def _lists_of(found: Matches) -> MatchLists:
    return MatchLists(found.offset, found.codes, None if found.dictionary is None else found.dictionary.arrow)


@dataclass(eq=False)
class OpenSegment:
    """A mapped segment, and which of its subscriptions have left."""

    tier: Tier
    entry: SegmentEntry
    dead: set[Any] = field(default_factory=set)

    def bury(self, dead: set[Any]) -> None:
        """Leave out subscriptions; the pages that this touches are no longer shared."""
        numbers = [self.tier.number_of(id) for id in dead - self.dead]
        self.tier.bury_all({number: 0 for number in numbers if number is not None})
        self.dead = set(dead)

    def document(self, folder: Path, id: Any) -> str:
        """Return the document of a subscription that is here."""
        import pyarrow as pa
        from pyarrow import compute

        if self.entry.documents is None:
            raise NotSupported("this folder has no documents to explain with; write it with documents=True")
        with pa.memory_map(str(folder / self.entry.documents)) as file:
            table = pa.ipc.open_file(file).read_all()
            place = compute.index(table.column("id"), id).as_py()
            return str(table.column("document")[place].as_py())
