"""SubscriptionTable: subscriptions on disk, compiled, version by version; for match() to map.

    table = SubscriptionTable("/shared/wishes", schema)
    table.replace(dataframe)        it holds exactly these; what it held already is not compiled again
    table.upsert(lines)             these are added, and take the place of those with their ids
    table.delete(["s1", "s2"])
    table.history(); table.quarantine(); table.compact()

It is an index folder (index/index_folder.py) that keeps its versions. A change is made as a whole or not at all:
subscriptions are compiled first (compile_rows.py), then a new version is made known by one rename. Versions stay
readable, so that a job goes on with the one that it began with, and a micro-batch that is run again is matched against
the same. A new version is in effect for streams a moment after it was written (EFFECT_US): by then every worker sees it,
so the time of a micro-batch, which Spark keeps in its log, says which version is meant.
"""

from __future__ import annotations

import fcntl
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from tocsin.compile.ids import ids_of, joined_ids, kept_ids
from tocsin.errors import FileError, ParseError, SchemaError
from tocsin.index.coder import IdPlaces
from tocsin.index.index_folder import IndexFolder, Manifest
from tocsin.index.subscription_index import SubscriptionIndex, due
from tocsin.language.documents import BadLine
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.operators.registry import Registry, open_registry
from tocsin.pipeline.compile_rows import (
    BadRow,
    Digests,
    LineCompiler,
    Piece,
    bad_lines,
    compile_lines,
    compile_rows,
    named_operators,
)
from tocsin.pipeline.remote_folder import SHIPPED, RemoteFolder, ShippedFolder, is_remote
from tocsin.pipeline.table_contents import (
    Chosen,
    Contents,
    check_kinds,
    gathered,
    living,
    read_quarantine,
    write_quarantine,
)
from tocsin.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import TypeIs

PER_SEGMENT = 8_000_000  # subscriptions: few segments match fastest
KEPT_VERSIONS = 100
EFFECT_US = 1_000_000
SHOWN = 5
Bad = Literal["fail", "skip"]


class BadSubscriptions(ParseError):
    """Some of the subscriptions are wrong; nothing was written. `lines` are all of them."""

    def __init__(self, lines: Sequence[BadLine]) -> None:
        self.lines = tuple(lines)
        listed = "\n".join(map(str, lines[:SHOWN]))
        count = f"{len(lines)} subscription{' is' if len(lines) == 1 else 's are'} wrong"
        super().__init__(f"{count} (bad_subscriptions='skip' leaves them out):\n{listed}")


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a change did; the version is the same as before where there was nothing to do."""

    version: int
    compiled: int = 0
    unchanged: int = 0
    removed: int = 0  # replaced ones are not
    bad: list[BadLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version, as history() tells it."""

    version: int
    operation: str
    written_us: int
    subscriptions: int
    segments: int
    bytes: int
    quarantined: bool


class SubscriptionTable:
    """Subscriptions of one schema at one place: a folder that all workers see, or one of a file system (remote_folder.py)."""

    def __init__(
        self,
        place: str | Path,
        schema: Schema | None = None,
        *,
        operators: Operators | str | Path | None = None,
        documents: bool = False,
        per_segment: int = PER_SEGMENT,
    ) -> None:
        """Take the table at a place, or a new one where there is none; `schema` is needed for that, and to replace.

        `operators` are those that subscriptions may call, by name where a DataFrame is compiled on the executors. With
        `documents` the texts are kept too, for reasons. `per_segment` bounds segments, which are the units of sharding.
        """
        self.place = str(place)
        self._folder = folder_at(place)
        self._given_schema, self._operators = schema, operators
        self._documents, self._per_segment = documents, per_segment

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        """The newest version; raises FileError where there is none."""
        return read_manifest(self.place)

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def schema(self) -> Schema:
        """The schema that the newest version is bound to, else the one that was given."""
        before = self._folder.manifest()
        if before is not None:
            return self._folder.schema(before)
        if self._given_schema is None:
            raise SchemaError(f"{self.place}: a new table needs a schema: SubscriptionTable(place, schema)")
        return self._given_schema

    def __len__(self) -> int:
        found = self._folder.manifest()
        return 0 if found is None else found.subscriptions

    def history(self) -> list[TableVersion]:
        """Return the versions that are kept, the newest first."""
        newest = self._folder.manifest()
        found = []
        for version in range(0 if newest is None else newest.version, 0, -1):
            try:
                each = read_manifest(self.place, version)
            except FileError:
                break
            size = len(each.segments), each.bytes
            stands = each.version, each.operation, each.written_us, each.subscriptions
            found.append(TableVersion(*stands, *size, quarantined=bool(each.quarantine)))
        return found

    def quarantine(self, version: int | None = None) -> list[BadRow]:
        """Return what was given for a version and is no subscription, with the reasons."""
        name = read_manifest(self.place, version).quarantine
        return read_quarantine(self._folder.file(name)) if name else []

    def quarantine_frame(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """Return the same as a DataFrame: line, id, reason, document."""
        rows = [
            (bad.row, None if bad.id is None else str(bad.id), bad.reason, bad.line) for bad in self.quarantine(version)
        ]
        return spark.createDataFrame(rows, "line long, id string, reason string, document string")

    # --- changes ------------------------------------------------------------------------------------------------------

    def upsert(self, given: DataFrame | Iterable[bytes | str], *, bad: Bad = "skip") -> TableChange:
        """Add subscriptions; those with known ids take the place of the old ones, where they say something else.

        `given` is a DataFrame (compile_rows.py says of which columns), or JSON documents, a line each. With bad="fail"
        wrong ones raise BadSubscriptions, and nothing is written; else they are in the change, and in the quarantine.
        """
        return self._write("upsert", given, bad)

    def replace(self, given: DataFrame | Iterable[bytes | str], *, bad: Bad = "skip") -> TableChange:
        """Let the table hold exactly these subscriptions."""
        return self._write("replace", given, bad)

    def delete(self, ids: Iterable[str | int]) -> TableChange:
        """Remove subscriptions by id; those that are not there are passed over."""
        with self._locked():
            before = self.manifest
            index, _ = self._folder.load(self._folder.schema(before), verify=False)
            removed = index.remove_all(ids_of(list(ids)))
            if not removed:
                return TableChange(before.version)
            return TableChange(self._publish(index, "delete", before), removed=removed)

    def compact(self) -> TableChange:
        """Let the table have as few segments as `per_segment` allows, without those that left; versions stay."""
        with self._locked():
            before = self.manifest
            index, _ = self._folder.load(self._folder.schema(before), verify=False)
            if len(before.segments) <= 1 and not any(entry.dead for entry in before.segments):
                return TableChange(before.version)
            compact = SubscriptionIndex(index.schema, first_name=index.next_name)
            for table in gathered([living(tier) for tier in index.tiers()], self._per_segment):
                compact.add_table(table)
            return TableChange(self._publish(compact, "compact", before, content=before.content))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes of this host from changing the table meanwhile."""
        self._folder.path.mkdir(parents=True, exist_ok=True)
        with (self._folder.path / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, mode: str, given: DataFrame | Iterable[bytes | str], bad: Bad) -> TableChange:
        with self._locked():
            before = self._folder.manifest()
            schema = self._given_schema or self.schema
            same = before is not None and self._folder.schema(before) == schema
            if before is not None and not same and mode == "upsert":
                raise SchemaError(
                    f"{self.place}: its subscriptions are bound to another schema; write it anew: replace(…)"
                )
            index, held = SubscriptionIndex(schema), Contents.none()
            if before is not None and same:
                index, _ = self._folder.load(schema, verify=False)
                if self._knows(before):
                    held = Contents.read(self._folder, before, index)
            pieces = list(self._compiled(given, schema, held.known))
            return self._take(mode, pieces, index, held, before if same else None, bad)

    def _knows(self, before: Manifest) -> bool:
        """Return whether what a version has is what would be compiled: with texts and operators as they are wanted."""
        registry = self._registry()
        have = isinstance(registry, Registry) and all(name in registry for name in before.operators)
        return (have or not before.operators) and (before.with_documents or not self._documents)

    def _compiled(self, given: DataFrame | Iterable[bytes | str], schema: Schema, known: Digests) -> Iterator[Piece]:
        if _is_frame(given):
            names = named_operators(self._operators)
            return compile_rows(given, schema, operators=names, known=known, documents=self._documents)
        return compile_lines(given, LineCompiler(schema, self._registry(), known, self._documents))

    def _registry(self) -> Operators:
        if self._operators is None:
            return NO_OPERATORS
        return open_registry(self._operators) if isinstance(self._operators, str | Path) else self._operators

    def _take(
        self,
        mode: str,
        pieces: list[Piece],
        index: SubscriptionIndex,
        held: Contents,
        before: Manifest | None,
        bad: Bad,
    ) -> TableChange:
        content = f"{(sum(piece.sum for piece in pieces) + self._documents) % 2**128:032x}"
        if mode == "replace" and before is not None and before.content == content:
            return TableChange(before.version, unchanged=before.subscriptions)
        chosen = Chosen(pieces, held)
        lines = bad_lines(pieces, chosen.repeated)
        if lines and bad == "fail":
            raise BadSubscriptions(lines)
        new = joined_ids([piece.ids for piece, _ in chosen.kept] or [ids_of([])])
        seen = IdPlaces(held.ids).of_all(new) if len(held.ids) and len(new) else np.zeros(0, np.int64)
        gone = ~chosen.unchanged if mode == "replace" else np.zeros(len(held.ids), np.bool_)
        gone[seen[seen >= 0]] = False  # they are replaced
        removed = index.remove_all(kept_ids(held.ids, gone)) if gone.any() else 0
        if mode == "replace" and not len(held.ids):
            removed += len(index)
        lives = mode == "upsert" or len(held.ids) > 0
        tiers = [tier for tier in index.tiers() if len(tier)] if lives else []
        index = SubscriptionIndex(index.schema, tiers, first_name=index.next_name)
        tables = list(gathered([piece.table for piece, _ in chosen.kept if piece.table], self._per_segment))
        check_kinds([*(table.ids for table in tables), *(tier.segment.ids for tier in tiers)])
        for table in tables:
            index.remove_all(table.ids)
            index.add_table(table)
        change = TableChange(0, len(new), int(chosen.unchanged.sum()), removed, lines)
        if before is not None and not len(new) and not removed and not lines:
            return TableChange(before.version, unchanged=change.unchanged)
        version = self._publish(
            index, mode, before, chosen=chosen, content=content if mode == "replace" and not lines else "", bad=lines
        )
        return TableChange(version, change.compiled, change.unchanged, change.removed, lines)

    def _publish(
        self,
        index: SubscriptionIndex,
        operation: str,
        before: Manifest | None,
        *,
        chosen: Chosen | None = None,
        content: str = "",
        bad: Sequence[BadLine] = (),
    ) -> int:
        """Make a version known; the first one is in effect at once."""
        newest = self._folder.manifest()
        version = 1 if newest is None else newest.version + 1
        if operation != "compact":
            self._merge_few(index)
        path, now_us = self._folder.path, time.time_ns() // 1000
        anew = operation == "replace" and chosen is not None and not chosen.unchanged.any()
        kept = () if before is None or anew else before.contents
        documents = self._documents if chosen is not None or before is None else before.with_documents
        if chosen is not None and chosen.kept:
            kept = Contents.write(self._folder, f"{version:08d}.contents", chosen, kept)
        quarantine = write_quarantine(path, f"{version:08d}.quarantine", bad, chosen) if bad else ""
        manifest = self._folder.save(
            index, 0, contents=kept, with_documents=documents, content=content, quarantine=quarantine,
            effect_us=0 if newest is None else EFFECT_US, written_us=now_us, operation=operation,
            table=(newest.table if newest is not None else "") or uuid.uuid4().hex,
        )  # fmt: skip
        return manifest.version

    def _merge_few(self, index: SubscriptionIndex) -> None:
        """Merge small segments into few, as long as they stay below the bound."""
        while (tiers := due(index.tiers())) and sum(map(len, tiers)) <= self._per_segment and index.merge():
            pass


def _is_frame(given: DataFrame | Iterable[bytes | str]) -> TypeIs[DataFrame]:
    return hasattr(given, "sparkSession")


def folder_at(place: str | Path) -> IndexFolder:
    """Return the index folder of a table, wherever it lies."""
    text = str(place)
    if text.startswith(SHIPPED):
        return ShippedFolder(text)
    if is_remote(text):
        return RemoteFolder(text, keep_versions=KEPT_VERSIONS)
    return IndexFolder(Path(text.removeprefix("file://")), keep_versions=KEPT_VERSIONS)


def is_folder(place: str | Path) -> bool:
    """Return whether there is a table."""
    if not is_remote(str(place)):
        return (Path(str(place).removeprefix("file://")) / "manifest.json").is_file()
    return folder_at(place).manifest() is not None


def read_manifest(path: str | Path, version: int | None = None) -> Manifest:
    """Return a version of a table, by default the newest; raises FileError."""
    found = folder_at(path).manifest(version)
    if found is None:
        raise FileError(str(path), "not a table of subscriptions: it has no manifest.json")
    return found


def read_schema(path: str | Path, version: int | None = None) -> Schema:
    """Return the schema that a table's subscriptions are bound to."""
    return folder_at(path).schema(read_manifest(path, version))
