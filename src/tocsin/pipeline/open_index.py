"""The index as a worker process holds it: opened once, mapped, kept between tasks and micro-batches, moved forward.

Spark keeps Python workers alive and runs task after task in them. What is opened here stays in this module, under the
place and the shard that it was opened for; a task that comes with a newer version opens only the segments that are new.
Segments are mapped, so that all workers of a host share one copy in the page cache. Operators and programs are made by
each process once, from their names.
"""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.compile.ids import Ids, TextIds
from tocsin.errors import FileError, NotSupported, TocsinError, UnknownSubscription
from tocsin.index.encode import EventColumns, EventObjects, EventSource
from tocsin.index.index_folder import Manifest
from tocsin.language import BoundSubscription, bind, explain
from tocsin.language.documents import decode, from_document
from tocsin.language.explain import ExplainedNode
from tocsin.matching.columnar.matches import Matches, TierIds, in_sequence
from tocsin.matching.engine import Inquiry
from tocsin.matching.matcher import Matcher
from tocsin.offers.program_files import ProgramsFile
from tocsin.operators.registry import Registry
from tocsin.pipeline.list_chunk import IdDictionary
from tocsin.pipeline.match_lists import Longs, MatchLists
from tocsin.pipeline.subscription_table import folder_at
from tocsin.pipeline.table_contents import find_document
from tocsin.schema import Event, Schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class IndexReference:
    """Where the subscriptions are: all that Spark carries to the workers.

    `version` pins a folder's version, so that a retried task gives the same rows. With `follow` the time of a micro-batch
    says which version is meant. With `shards`, a task is asked for one of them, and opens only its segments. `numbered`
    asks for numbers in the index's dictionary in place of ids, where it has one. `operators` and `programs` name those
    that subscriptions and offers may call (operators/registry.py, offers/program_files.py).
    """

    place: str
    kind: str = "folder"  # or "store"
    version: int | None = None
    follow: bool = False
    shards: tuple[tuple[str, ...], ...] = ()
    numbered: bool = False
    operators: str | None = None
    programs: str | None = None


class OpenIndex(ABC):
    """Subscriptions, ready to be matched against."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The schema that the subscriptions are bound to."""

    @property
    @abstractmethod
    def operators(self) -> Registry:
        """The operators that subscriptions, and the rules of offers, may call."""

    @abstractmethod
    def analyse(self, document: Mapping[str, Any]) -> Event:
        """Return the offer of a document, bound to operators and to the programs of now; raises EventRejected."""

    @property
    def dictionary(self) -> IdDictionary | None:
        """The ids that matches name by number; None where matches are the ids. Another object after a change."""
        return None

    @abstractmethod
    def refresh(self, version: int | None, time_us: int | None = None) -> None:
        """Move to a version, to the one that is in effect at a time, or to the newest; and to the programs of now."""

    @abstractmethod
    def match_columns(
        self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None, inquiry: Inquiry | None = None
    ) -> MatchLists:
        """Return the matches of events in canonical columns; the inquiry is told what else is found out."""

    @abstractmethod
    def match_events(
        self, events: Sequence[Event], seq: Longs | None, arrival: Longs | None, inquiry: Inquiry | None = None
    ) -> MatchLists:
        """Return the matches of admitted events and offers."""

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


class FolderIndex(OpenIndex):
    """A folder of subscriptions (subscription_table.py), or one shard of it."""

    def __init__(
        self,
        folder: str | Path,
        segments: Sequence[str] | None = None,
        *,
        numbered: bool = False,
        registry: Registry | None = None,
        programs: ProgramsFile | None = None,
    ) -> None:
        self._folder = folder_at(folder)
        self._segments = None if segments is None else frozenset(segments)
        self._numbered = numbered
        self._registry = Registry() if registry is None else registry
        self._programs = ProgramsFile(None) if programs is None else programs
        self._manifest = Manifest()
        self._time_us: int | None = None  # of the micro-batch that the version is of
        self._matcher: Matcher | None = None
        self._dictionary: IdDictionary | None = None

    @property
    def matcher(self) -> Matcher:
        if self._matcher is None:
            self.refresh(None)
        assert self._matcher is not None
        return self._matcher

    @property
    def schema(self) -> Schema:
        return self.matcher.schema

    @property
    def operators(self) -> Registry:
        return self._registry

    def analyse(self, document: Mapping[str, Any]) -> Event:
        return self.matcher.admit(document)

    @property
    def dictionary(self) -> IdDictionary | None:
        if self._numbered and self._dictionary is None:
            none: Ids = TextIds.of([]) if self._manifest.text_ids else np.zeros(0, np.int64)
            held = TierIds([none, *(tier.segment.ids for tier in self.matcher.index.tiers())])
            self._dictionary = IdDictionary(held.arrow)
        return self._dictionary

    def refresh(self, version: int | None, time_us: int | None = None) -> None:
        self._programs.follow()
        if self._matcher is not None and (version == self._manifest.version or (time_us and time_us == self._time_us)):
            return
        self._time_us = time_us
        manifest = self._folder.manifest(version) if time_us is None else self._folder.manifest_at(time_us)
        if manifest is None:
            raise FileError(str(self._folder.path), "not a folder of subscriptions: it has no manifest.json")
        if manifest.version != self._manifest.version:
            self._move_to(manifest)

    def _move_to(self, manifest: Manifest) -> None:
        known, before = self._matcher, self._manifest
        same = known is not None and manifest.schema_file == before.schema_file
        schema = known.schema if known is not None and same else self._folder.schema(manifest)
        try:
            index = self._folder.open(manifest, schema, only=self._segments, verify=False)
        except FileNotFoundError as error:
            raise FileError(str(self._folder.path), f"version {manifest.version} is not whole: {error}") from None
        if known is not None and same and manifest.version > before.version:
            known.index = index
        else:  # also on the way back: readers are kept by the names of segments, and those may be mapped anew
            self._matcher = Matcher(
                schema, index, operators=self._registry, programs=self._programs.programs, merge_beside=False,
                numbered=self._numbered,
            )  # fmt: skip
        self._manifest, self._dictionary = manifest, None

    def match_columns(
        self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None, inquiry: Inquiry | None = None
    ) -> MatchLists:
        return self._match(EventColumns(columns, self.schema), seq, arrival, inquiry)

    def match_events(
        self, events: Sequence[Event], seq: Longs | None, arrival: Longs | None, inquiry: Inquiry | None = None
    ) -> MatchLists:
        return self._match(EventObjects(events), seq, arrival, inquiry)

    def column_parts(
        self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None
    ) -> Iterator[tuple[int, MatchLists]]:
        if not self.matcher.index.tiers():
            yield 0, self._match(EventColumns(columns, self.schema), seq, arrival)
        elif columns.num_rows:
            for part in self.matcher.match_source(EventColumns(columns, self.schema), seq=seq, arrival=arrival):
                yield part.first, _lists_of(part)

    def count_columns(self, columns: pa.RecordBatch, seq: Longs | None, arrival: Longs | None) -> Longs:
        if not columns.num_rows or not self.matcher.index.tiers():
            return np.zeros(columns.num_rows, np.int64)
        return self.matcher.count_arrow(columns, seq=seq, arrival=arrival)

    def _match(
        self, source: EventSource, seq: Longs | None, arrival: Longs | None, inquiry: Inquiry | None = None
    ) -> MatchLists:
        if not source.size or not self.matcher.index.tiers():
            return MatchLists.of([()] * source.size, text=self._manifest.text_ids and not self._numbered)
        parts = self.matcher.match_source(source, seq=seq, arrival=arrival, inquiry=inquiry)
        found = in_sequence([part.copy() for part in parts], 0)  # the engine uses its arrays again
        return _lists_of(found)

    def document(self, id: Any) -> str:
        if not self._manifest.with_documents:
            raise NotSupported("this folder has no documents to explain with; write it with documents=True")
        found = find_document(self._folder, self._manifest, id)
        if found is None:
            raise UnknownSubscription(id)
        return found


def _lists_of(found: Matches) -> MatchLists:
    return MatchLists(found.offset, found.codes, None if found.dictionary is None else found.dictionary.arrow)


# --- why pairs match ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairReason:
    """Why one pair matched: the conjunction as text, the explanation as JSON."""

    conjunction: str
    reasons: str


class PairReasons:
    """Explains pairs of one index, by the definition (language/explain.py): a thousand times slower than matching."""

    def __init__(self, index: OpenIndex) -> None:
        self._index = index
        self._bound = functools.lru_cache(maxsize=10_000)(self._bind)

    def explain_all(self, pairs: Iterable[tuple[Any, Event]]) -> list[PairReason]:
        """Return the reason of each (subscription id, event)."""
        return [self._explain(id, event) for id, event in pairs]

    def _explain(self, id: Any, event: Event) -> PairReason:
        explanation = explain(self._bound(id), event, self._index.operators)
        if not explanation.matched:
            raise TocsinError(f"subscription {id} was found to match, and the definition says it does not")
        return PairReason(" and ".join(_held(explanation.root)) or "always", json.dumps(explanation.as_json()))

    def _bind(self, id: Any) -> BoundSubscription:
        _, tree = from_document(decode(self._index.document(id)))
        return bind(tree, self._index.schema, operators=self._index.operators)


def _held(outcome: ExplainedNode) -> list[str]:
    """Return the predicates of the first alternative that held."""
    if outcome.condition == "and" and outcome.attribute is None:
        return [condition for part in outcome.parts for condition in _held(part)]
    if outcome.condition == "or" and outcome.attribute is None:
        return next((_held(part) for part in outcome.parts if part.held), [])
    return [outcome.condition]
