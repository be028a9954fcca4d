"""What runs in the workers for match() and validate(): Arrow batches in, Arrow batches out.

A worker process opens the index once and keeps it between tasks (open_index.py); the function that Spark carries to it
holds names and settings only. Output comes in pieces of bounded size, however many subscriptions an event matches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tocsin.errors import EventRejected, TocsinError
from tocsin.matching.engine import Inquiry
from tocsin.offers.analysis import Analysis
from tocsin.offers.program_files import ProgramsFile, open_programs
from tocsin.operators.registry import open_registry
from tocsin.pipeline.admission import Admission, admit_batch
from tocsin.pipeline.match_lists import BINDINGS, COMPUTED, MatchLists, PairDetails
from tocsin.pipeline.open_index import FolderIndex, IndexReference, OpenIndex, PairReasons
from tocsin.pipeline.plan import Layout
from tocsin.schema import Event, Schema
from tocsin.schema.arrow import events_from_arrow
from tocsin.schema.files import loads

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.pipeline.list_chunk import IdDictionary

Form = Literal["pairs", "lists", "counts"]
Invalid = Literal["drop", "keep", "fail"]
Failures = Literal["drop", "keep", "fail"]
IDS_AT_ONCE = 1 << 18  # in one batch of output
FEWEST_JUDGED = 100  # rows of a task: in fewer a share says little
SHOWN = 5
MOST_OPEN = 16  # indexes in one process; the ones that were not used for longest are let go
SUBSCRIPTION, SUBSCRIPTIONS, MATCHES = "subscription", "subscriptions", "matches"
CONJUNCTION, REASONS, INVALID = "conjunction", "reasons", "invalid"
FAILURE = "failure"
SHARD, ROW, BATCH_TIME = "__tocsin_shard", "__tocsin_row", "__tocsin_batch_time"  # between driver and workers only


@dataclass(frozen=True, slots=True)
class Output:
    """What comes out of matching: one row a pair, or one an event with its list or its number of matches.

    `kept` are columns of the input. With `invalid` "keep", an event that breaks the rules gives one row, with the
    reason in the column of that name and no match. With `details`, a pair tells the values of variables and what an offer
    computed; with `failures` "keep", a pair that something failed for is a row too, with the reason.
    """

    form: Form = "pairs"
    kept: tuple[str, ...] = ()
    conjunction: bool = False
    reasons: bool = False
    invalid: Invalid = "drop"
    text_ids: bool = False
    details: bool = False
    failures: Failures = "drop"

    @property
    def explained(self) -> bool:
        return self.conjunction or self.reasons

    @property
    def inquires(self) -> bool:
        return self.details or self.failures != "drop"

    def added(self) -> list[str]:
        """Return the names of the columns that stand behind those that are kept, in order."""
        found = {"pairs": SUBSCRIPTION, "lists": SUBSCRIPTIONS, "counts": MATCHES}[self.form]
        return [
            found,
            *([CONJUNCTION] if self.conjunction else []),
            *([REASONS] if self.reasons else []),
            *([BINDINGS, COMPUTED] if self.details else []),
            *([FAILURE] if self.failures == "keep" else []),
            *([INVALID] if self.invalid == "keep" else []),
        ]


class _Tally:
    """Counts the rows of a task, and those that are no events; raises TocsinError where they are too large a share."""

    def __init__(self, share: float | None) -> None:
        self._share, self._rows, self._rejected = share, 0, 0

    def add(self, rows: int, rejected: dict[int, EventRejected]) -> None:
        self._rows, self._rejected = self._rows + rows, self._rejected + len(rejected)
        if self._share is None or self._rows < FEWEST_JUDGED or self._rejected <= self._share * self._rows:
            return
        examples = "\n".join(dict.fromkeys(str(error) for error in list(rejected.values())[:SHOWN]))
        raise TocsinError(
            f"{self._rejected:,} of {self._rows:,} rows of a task are no events of the schema, more than the share of "
            f"{self._share:g} that invalid_share allows (invalid='keep' tells all of them); such as:\n{examples}"
        )


@dataclass(frozen=True, slots=True)
class MatchBatches:
    """Maps batches of events to their matches."""

    __name__ = "tocsin_match"  # in Spark's plans and pages
    index: IndexReference
    schema: str  # as JSON
    layout: Layout
    output: Output
    seq: str | None = None
    arrival: str | None = None
    sharded: bool = False
    columns: tuple[str, ...] | None = None  # the names of the input's columns, where Spark has others
    tells_invalid: bool = True
    invalid_share: float | None = None  # beyond which a task fails

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema, tally = schema_of(self.schema), _Tally(self.invalid_share)
        for batch in filter(len, named(batches, self.columns)):
            for shard, part in self._by_shard(batch):
                index = open_index(self.index, shard, self._time_us(part))
                # What is no event is told by the first shard alone.
                of_shard = self if not shard else replace(self, tells_invalid=False)
                yield from of_shard._match(index, schema, part, tally)

    def _time_us(self, batch: pa.RecordBatch) -> int | None:
        """Return the time of the micro-batch, where that says which version of the subscriptions is meant."""
        import pyarrow as pa

        if not self.index.follow:
            return None
        found: int = batch.column(BATCH_TIME)[0].cast(pa.int64()).as_py()
        return found

    def rows_and_lists(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, Iterator[MatchLists], IdDictionary | None]]:
        """Yield, batch by batch, what is kept of events; their lists, in stretches; and the dictionary of these (OpenIndex).

        The arrays of a stretch may be used again by the next one.
        """
        import pyarrow as pa

        schema, tally = schema_of(self.schema), _Tally(self.invalid_share)
        for batch in filter(len, named(batches, self.columns)):
            index = open_index(self.index, None, self._time_us(batch))
            admission = self._admitted(batch, schema, index, tally)
            if len(admission.rows) == batch.num_rows:
                parts = index.column_parts(admission.columns, *self._as_of(batch))
            else:
                parts = iter([(0, self._find(index, admission, batch, None))])
            columns = {name: batch.column(name) for name in self.output.kept}
            if self.output.invalid == "keep":
                columns[INVALID] = rejection_texts(admission.rejected, batch.num_rows)
            kept = pa.RecordBatch.from_pydict(columns)
            stays = self._stays(admission, 0, batch.num_rows)
            if stays is None:
                yield kept, (lists for _, lists in parts), index.dictionary
            else:
                kept = kept.filter(pa.array(stays)) if columns else kept
                yield kept, _without_empty(parts, stays), index.dictionary

    def _by_shard(self, batch: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """Yield the batch, in parts where its rows are for different shards."""
        import pyarrow as pa
        from pyarrow import compute

        if not self.sharded:
            yield None, batch
            return
        shards = batch.column(SHARD)
        for shard in sorted(compute.unique(shards).to_pylist()):
            yield shard, batch.filter(compute.equal(shards, pa.scalar(shard, shards.type)))

    def _match(
        self, index: OpenIndex, schema: Schema, batch: pa.RecordBatch, tally: _Tally
    ) -> Iterator[pa.RecordBatch]:
        admission = self._admitted(batch, schema, index, tally)
        if self.output.form == "counts":
            yield self._counts(index, admission, batch)
        elif self.output.form == "lists" and len(admission.rows) == batch.num_rows:
            yield from self._lists(index, admission, batch)
        else:
            told = PairDetails() if self.output.inquires else None
            lists = self._find(index, admission, batch, told)
            if told is not None and self.output.failures == "fail":
                told.fail()
            yield from self._rows(batch, lists, admission, index, schema, told)

    def _admitted(self, batch: pa.RecordBatch, schema: Schema, index: OpenIndex, tally: _Tally) -> Admission:
        admission = admit_batch(batch, schema, self.layout, index.analyse)
        tally.add(batch.num_rows, admission.rejected)
        if admission.rejected and self.output.invalid == "fail":
            row, error = next(iter(admission.rejected.items()))
            raise TocsinError(f"row {row} of a batch is not an event of the schema: {error}")
        return admission

    def _counts(self, index: OpenIndex, admission: Admission, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row an event; ids are never gathered."""
        seq, arrival = self._as_of(batch)
        rows = admission.rows
        counts = np.zeros(batch.num_rows, np.int64)
        counts[rows] = index.count_columns(admission.columns, _chosen(rows, seq), _chosen(rows, arrival))
        if admission.events:
            slow = np.fromiter(admission.events, np.int64)
            events = list(admission.events.values())
            found = index.match_events(events, _chosen(slow, seq), _chosen(slow, arrival))
            counts[slow] = found.counts
        return self._per_event(batch, MATCHES, counts, self._rejections(admission, batch.num_rows), admission, 0)

    def _rejections(self, admission: Admission, size: int) -> pa.Array | None:
        """Return why which rows are no events, where that is to be told."""
        if self.output.invalid != "keep":
            return None
        return rejection_texts(admission.rejected if self.tells_invalid else {}, size)

    def _lists(self, index: OpenIndex, admission: Admission, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield one row an event, as the engine finds them: the way of a batch whose rows are all plain columns."""
        import pyarrow as pa

        for first, lists in index.column_parts(admission.columns, *self._as_of(batch)):
            invalid = pa.nulls(len(lists), pa.string()) if self.output.invalid == "keep" else None
            piece = batch.slice(first, len(lists))
            yield self._per_event(piece, SUBSCRIPTIONS, self._column(lists), invalid, admission, first)

    def _column(self, lists: MatchLists) -> pa.Array:
        """Return lists as a column, in memory of its own."""
        codes = lists.codes if lists.dictionary is not None else lists.codes.astype(lists.out_type)
        return _typed(MatchLists(lists.offset, codes, lists.dictionary), self.output.text_ids).list_array()

    def _as_of(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the seqs and the arrivals, where they are given; without arrivals, the time of the plan, where it goes along."""
        import pyarrow as pa

        arrival = self.arrival
        if arrival is None and self.index.kind == "folder" and BATCH_TIME in batch.schema.names:
            arrival = BATCH_TIME  # a folder's subscriptions have no leases: it is what now() is, and nothing else
        return [
            None
            if name is None
            else np.asarray(batch.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
            for name in (self.seq, arrival)
        ]

    def _find(
        self, index: OpenIndex, admission: Admission, batch: pa.RecordBatch, told: PairDetails | None
    ) -> MatchLists:
        """Return the matches of a batch; what else is found out of pairs goes to `told`."""
        seq, arrival = self._as_of(batch)
        rows, inquiry = admission.rows, None if told is None else Inquiry()
        found = index.match_columns(admission.columns, _chosen(rows, seq), _chosen(rows, arrival), inquiry)
        if told is not None and inquiry is not None:
            told.learn(inquiry, rows, found)
        lists = found.spread(rows, batch.num_rows)
        if not admission.events:
            return lists
        slow, inquiry = np.fromiter(admission.events, np.int64), None if told is None else Inquiry()
        events = list(admission.events.values())
        found = index.match_events(events, _chosen(slow, seq), _chosen(slow, arrival), inquiry)
        if told is not None and inquiry is not None:
            told.learn(inquiry, slow, found)
        return MatchLists.joined(lists, found.spread(slow, batch.num_rows))

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _rows(
        self,
        batch: pa.RecordBatch,
        lists: MatchLists,
        admission: Admission,
        index: OpenIndex,
        schema: Schema,
        told: PairDetails | None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the output, a stretch of events at a time so that no batch gets too large."""
        reasons = self._rejections(admission, batch.num_rows)
        start = 0
        while start < batch.num_rows:
            stop = int(np.searchsorted(lists.offset, lists.offset[start] + IDS_AT_ONCE, side="right")) - 1
            stop = min(batch.num_rows, max(start + 1, stop))
            part = MatchLists(
                lists.offset[start : stop + 1] - lists.offset[start],
                lists.codes[lists.offset[start] : lists.offset[stop]],
                lists.dictionary,
            )
            invalid = None if reasons is None else reasons.slice(start, stop - start)
            piece = batch.slice(start, stop - start)
            if self.output.form == "pairs":
                events = _events(admission, range(start, stop), schema) if self.output.explained else {}
                yield self._pairs(piece, part, invalid, index, events, told and told.part(start, stop))
            else:
                yield self._per_event(piece, SUBSCRIPTIONS, self._column(part), invalid, admission, start)
            start = stop

    def _per_event(
        self,
        batch: pa.RecordBatch,
        name: str,
        found_of: Any,
        invalid: pa.Array | None,
        admission: Admission,
        start: int,
    ) -> pa.RecordBatch:
        """Return a row an event: what is kept, and what was found, which is the column `name`."""
        import pyarrow as pa

        columns = {kept: batch.column(kept) for kept in self.output.kept}
        columns[name] = pa.array(found_of)
        if invalid is not None:
            columns[INVALID] = invalid
        found = pa.RecordBatch.from_pydict(columns)
        stays = self._stays(admission, start, batch.num_rows)
        return found if stays is None else found.filter(pa.array(stays))

    def _stays(self, admission: Admission, start: int, size: int) -> npt.NDArray[np.bool_] | None:
        """Return which rows of a stretch stay in the output; None where all do."""
        if self.output.invalid == "keep" and self.tells_invalid:
            return None
        dropped = [row - start for row in admission.rejected if 0 <= row - start < size]
        stays = np.ones(size, np.bool_)
        stays[dropped] = False
        return stays if dropped else None

    def _pairs(
        self,
        batch: pa.RecordBatch,
        lists: MatchLists,
        invalid: pa.Array | None,
        index: OpenIndex,
        events: dict[int, Event],
        told: PairDetails | None,
    ) -> pa.RecordBatch:
        """Return a row for each match, then for each failure and each row that is no event, where they are kept."""
        import pyarrow as pa

        lists = _typed(lists, self.output.text_ids)
        parents, ids = lists.parents(), lists.id_array()
        failed = told.failures if told is not None and self.output.failures == "keep" else {}
        broken = np.zeros(0, np.int64) if invalid is None else np.flatnonzero(invalid.is_valid().to_numpy(False))
        of_failed = np.array([row for row, _ in failed], np.int64)
        rows = pa.array(np.concatenate([parents, of_failed, broken]))
        columns = {name: batch.column(name).take(rows) for name in self.output.kept}
        failed_ids = pa.array([id for _, id in failed], ids.type)
        columns[SUBSCRIPTION] = pa.concat_arrays([ids, failed_ids, pa.nulls(len(broken), ids.type)])
        texts: dict[str, list[str | None]] = {}
        if self.output.explained:
            texts |= self._explained(index, lists, parents.tolist(), events)
        if told is not None and self.output.details:
            texts |= told.columns(list(zip(parents.tolist(), lists.ids.tolist(), strict=True)))
        if self.output.failures == "keep":
            texts[FAILURE] = [*([None] * len(parents)), *failed.values()]
        for name, values in texts.items():
            columns[name] = pa.array(values + [None] * (len(rows) - len(values)), pa.string())
        if invalid is not None:
            beside = pa.nulls(len(parents) + len(failed), pa.string())
            columns[INVALID] = pa.concat_arrays([beside, invalid.take(pa.array(broken))])
        return pa.RecordBatch.from_pydict(columns)

    def _explained(
        self, index: OpenIndex, lists: MatchLists, parents: list[int], events: dict[int, Event]
    ) -> dict[str, list[str | None]]:
        found = PairReasons(index).explain_all(zip(lists.ids.tolist(), (events[at] for at in parents), strict=True))
        columns: dict[str, list[str | None]] = {}
        if self.output.conjunction:
            columns[CONJUNCTION] = [one.conjunction for one in found]
        if self.output.reasons:
            columns[REASONS] = [one.reasons for one in found]
        return columns


@dataclass(frozen=True, slots=True)
class ValidateBatches:
    """Maps batches of rows to themselves with one more column: why a row is no event, null where it is one."""

    __name__ = "tocsin_validate"
    schema: str
    layout: Layout
    columns: tuple[str, ...]  # the names of the input's columns: Spark has others
    operators: str | None = None
    programs: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = schema_of(self.schema)
        analysis = Analysis(schema, open_programs(self.programs), open_registry(self.operators))
        for batch in named(batches, self.columns):
            rejected = admit_batch(batch, schema, self.layout, analysis.analyse).rejected
            columns = {name: batch.column(name) for name in self.columns}
            columns[INVALID] = rejection_texts(rejected, batch.num_rows)
            yield pa.RecordBatch.from_pydict(columns)


def named(batches: Iterator[pa.RecordBatch], columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
    """Yield batches with these names of columns."""
    return batches if columns is None else (batch.rename_columns(list(columns)) for batch in batches)


_schemas: dict[str, Schema] = {}


def schema_of(text: str) -> Schema:
    """Return the schema of a JSON text, read once in a process."""
    if text not in _schemas:
        _schemas.clear()
        _schemas[text] = loads(text, "json")
    return _schemas[text]


def rejection_texts(rejected: dict[int, EventRejected], size: int) -> pa.Array:
    """Return the reason of each row, null where there is none."""
    import pyarrow as pa

    if not rejected:
        return pa.nulls(size, pa.string())
    return pa.array([str(rejected[row]) if row in rejected else None for row in range(size)], pa.string())


def _chosen(rows: Any, column: Any) -> Any:
    return None if column is None else column[rows]


def _typed(lists: MatchLists, text: bool) -> MatchLists:
    """Return the lists with ids of the type that the output declares, also where there is none."""
    if lists.dictionary is not None or len(lists.codes) or not text:
        return lists
    return MatchLists(lists.offset, np.empty(0, object))


def _without_empty(parts: Iterator[tuple[int, MatchLists]], stays: npt.NDArray[np.bool_]) -> Iterator[MatchLists]:
    """Yield the lists of the rows that stay; those of others are empty."""
    for first, lists in parts:
        ends = lists.offset[1:][stays[first : first + len(lists)]]
        yield MatchLists(np.append(lists.offset[:1], ends), lists.codes, lists.dictionary)


def _events(admission: Admission, rows: range, schema: Schema) -> dict[int, Event]:
    """Return the admitted events of a stretch of rows, by their place in it."""
    found = {row - rows.start: event for row, event in admission.events.items() if row in rows}
    places = [(at, int(row)) for at, row in enumerate(admission.rows) if int(row) in rows]
    for at, row in places:
        (found[row - rows.start],) = events_from_arrow(admission.columns.slice(at, 1), schema)
    return found


# Indexes that this process has open.


_indexes: dict[tuple[Any, ...], OpenIndex] = {}


def open_index(reference: IndexReference, shard: int | None = None, time_us: int | None = None) -> OpenIndex:
    """Return the index, at the version that the reference asks for, or that is in effect at a time."""
    named = (reference.kind, reference.place, reference.numbered, reference.operators, reference.programs)
    key = (os.getpid(), *named, shard)
    index = _indexes.pop(key, None) or _new_index(reference, shard)
    _indexes[key] = index  # the last
    while len(_indexes) > MOST_OPEN:  # workers live as long as their executor, and see many jobs
        del _indexes[next(iter(_indexes))]
    index.refresh(reference.version, time_us)
    return index


def _new_index(reference: IndexReference, shard: int | None) -> OpenIndex:
    if reference.kind == "store":
        from tocsin.pipeline.followers import StoreIndex

        return StoreIndex(reference.place, operators=reference.operators, programs=reference.programs)
    return FolderIndex(
        reference.place,
        None if shard is None else reference.shards[shard],
        numbered=reference.numbered,
        registry=open_registry(reference.operators),
        programs=ProgramsFile(reference.programs),
    )
