"""ColumnarEngine: the live index over Tocsin's own engine, on disk beside the store.

Changes are seen by the next match; merging goes on beside it. `save` writes the segments (index/index_folder.py) and
the leases as of one seq; a broker that starts loads them and catches up from there:

    manifest.json, *.segment, *.dead    the subscriptions, as index/index_folder.py has them
    1234.leases                         who owns them and for how long, as of the manifest's seq
    writer                              locked by the process that writes; others only read
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from tocsin.broker.expressions import Prepared, bulk_line
from tocsin.broker.live_index import Engine
from tocsin.broker.live_leases import LiveLeases, Longs
from tocsin.errors import FileError, StoreDamaged, UnknownSubscription
from tocsin.index.encode import EventObjects
from tocsin.index.index_folder import IndexFolder, Manifest
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.matching.matcher import Matcher
from tocsin.schema import Event, Schema
from tocsin.store.crash_points import reach

log = logging.getLogger("tocsin.broker")
_NONE = np.zeros(0, np.int64)
_FEW = 500  # subscriptions that are not worth a tier of their own
_TIERS = 8  # beyond so many they are merged, also where nobody matches


class ColumnarEngine(Engine):
    """Finds candidates with the columnar matcher; it has no schema, and so no subscriptions, before `set_schema`."""

    def __init__(self, folder: LiveFolder | None = None, index: SubscriptionIndex | None = None) -> None:
        self._folder = folder
        self._matcher = None if index is None else Matcher(index.schema, index)

    @property
    def matcher(self) -> Matcher:
        if self._matcher is None:
            raise RuntimeError("the schema must be set first")
        return self._matcher

    def add(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        plain = [(id, prepared.tree) for id, prepared in subscriptions if prepared.plain]
        many = len(plain) >= _FEW
        if many:
            self._load(plain)
        for id, prepared in subscriptions:
            if not (many and prepared.plain):
                self.matcher.index.add(id, prepared.form)

    def load(self, stored: Iterable[tuple[int, bytes]], schema: Schema) -> None:
        remaining = iter(stored)
        first = list(itertools.islice(remaining, _FEW))
        if len(first) < _FEW:
            super().load(first, schema)
        else:
            self._load(itertools.chain(first, remaining))

    def _load(self, stored: Iterable[tuple[int, bytes]]) -> None:
        """Hold subscriptions as a segment of their own, by the bulk path."""
        bad = self.matcher.load(itertools.starmap(bulk_line, stored))
        if bad:
            raise StoreDamaged(f"{len(bad)} stored subscriptions do not fit the schema; the first: {bad[0].error}")
        index = self.matcher.index
        if len(index.tiers()) > _TIERS:  # else matching, when it comes, starts the merge
            index.merge_in_background()

    def remove(self, ids: Sequence[int]) -> None:
        for id in ids:
            try:
                self.matcher.remove(id)
            except UnknownSubscription:
                continue  # it was over before this engine heard of it

    def clear(self) -> None:
        if self._matcher is not None:
            self._matcher.index.wait_for_merging()
            self._matcher = Matcher(self._matcher.schema)

    def find(self, events: Sequence[Event]) -> tuple[Longs, Longs]:
        if len(events) == 1:
            ids = np.array(self.matcher.match(events[0]), np.int64)
            return np.zeros(len(ids), np.int64), ids
        positions, found = [_NONE], [_NONE]
        for part in self.matcher.match_source(EventObjects(events)):
            counts = part.counts()
            positions.append(np.repeat(np.arange(part.first, part.first + len(counts)), counts))
            found.append(part.ids.astype(np.int64))
        return np.concatenate(positions), np.concatenate(found)

    def set_schema(self, schema: Schema) -> bool:
        old = self._matcher
        if old is None:
            self._matcher = Matcher(schema)
            return False
        before, old.schema, old.index.schema = old.schema, schema, schema
        return not same_layout(before, schema)

    def stats(self) -> dict[str, Any]:
        if self._matcher is None:
            return {"engine": "columnar", "subscriptions": 0}
        found = self._matcher.stats()
        return {
            "engine": "columnar",
            "folder": None if self._folder is None else str(self._folder.path),
            "subscriptions": found.subscriptions,
            "tiers": list(found.tiers),
            "dead": found.dead,
            "bytes": found.bytes,
        }

    def merge(self) -> None:
        """Merge all segments into one."""
        if self._matcher is not None:
            self._matcher.index.wait_for_merging()
            self._matcher.index.merge(everything=True)

    def save(self, seq: int, leases: LiveLeases, elsewhere: Sequence[int] = ()) -> None:
        if self._folder is None or self._matcher is None:
            return
        try:
            self._folder.save_as_of(self._matcher.index, seq, leases, elsewhere)
        except (OSError, FileError) as error:  # only a copy: the store has it all, and a start takes longer
            log.warning("the index was not saved: %s", error)

    def close(self) -> None:
        if self._matcher is not None:
            self._matcher.index.wait_for_merging()
        if self._folder is not None:
            self._folder.close()


def same_layout(old: Schema, new: Schema) -> bool:
    """Return whether segments made under one schema serve under its extension.

    They are laid out by which attributes are multiple, and another event type may make one so.
    """
    known = {*old.attributes, *old.multiple_attributes}
    return new.multiple_attributes & known == old.multiple_attributes


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder holds, as of one seq; `elsewhere` are subscriptions that other engines have."""

    engine: ColumnarEngine
    leases: LiveLeases
    seq: int
    elsewhere: list[int]


class LiveFolder(IndexFolder):
    """The folder of a live index: segments, and the leases as of the same seq, of one incarnation of a store."""

    def __init__(self, path: Path, incarnation: str) -> None:
        super().__init__(path)
        self._incarnation = incarnation
        self._lock: IO[str] | None = None

    def load_live(self, schema: Schema) -> Loaded:
        """Return the index as it was saved; raises FileError where it is not whole or not of this store."""
        index, manifest = self.load(schema)
        leases, elsewhere = self._read_leases(manifest)
        return Loaded(ColumnarEngine(self, index), leases, manifest.seq, elsewhere)

    def _leases_path(self, seq: int) -> Path:
        return self.path / f"{seq}.leases"

    def _read_leases(self, manifest: Manifest) -> tuple[LiveLeases, list[int]]:
        path = self._leases_path(manifest.seq)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            facts = msgspec.json.decode(head)
            if facts["incarnation"] != self._incarnation:
                raise FileError(str(path), "it belongs to another store")
            if facts["checksum"] != zlib.crc32(body):
                raise FileError(str(path), "its checksum does not fit")
            return LiveLeases.from_bytes(body), msgspec.convert(facts.get("elsewhere", []), list[int])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileError(str(path), f"not the leases of an index: {error}") from None

    def save_as_of(self, index: SubscriptionIndex, seq: int, leases: LiveLeases, elsewhere: Sequence[int] = ()) -> None:
        """Make the index durable as of seq, unless another process is the one that writes."""
        if not self.become_writer():
            return
        body = leases.to_bytes()
        facts = {"incarnation": self._incarnation, "checksum": zlib.crc32(body), "elsewhere": list(elsewhere)}
        head = msgspec.json.encode(facts)
        unfinished = self.path / f"{seq}.leases.unfinished"
        with unfinished.open("wb") as file:
            file.write(head + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._leases_path(seq))
        self.save(index, seq)
        for path in self.path.glob("*.leases"):
            if path != self._leases_path(seq):
                path.unlink(missing_ok=True)

    def _swap(self, manifest: Manifest) -> None:
        reach("index.before-manifest")
        super()._swap(manifest)
        reach("index.after-manifest")

    def discard(self) -> None:
        """Remove the manifest, so that nobody takes what it names for an index."""
        (self.path / "manifest.json").unlink(missing_ok=True)

    def become_writer(self) -> bool:
        """Return whether this process is, from now on, the one that writes here."""
        if self._lock is not None:
            return True
        self.path.mkdir(parents=True, exist_ok=True)
        lock = (self.path / "writer").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._lock = lock
        return True

    def close(self) -> None:
        """Let another process write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
