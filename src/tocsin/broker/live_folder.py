"""The folder of a live index: what a broker that starts loads, and catches up from.

    manifest.json, *.segment, *.dead    the subscriptions, as index/index_folder.py has them
    1234.leases                         who owns them and for how long, as of the manifest's seq
    writer                              locked by the process that writes; others only read

`open_index` opens it where it is whole; else the index is rebuilt from the store, which is said.
"""

from __future__ import annotations

import fcntl
import logging
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from tocsin.broker.live_index import LiveIndex, LiveLeases, LiveMatcher
from tocsin.errors import FileError
from tocsin.index.index_folder import IndexFolder, Manifest
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.offers.programs import Programs
from tocsin.operators.registry import Registry
from tocsin.schema import Schema
from tocsin.store import Store, schema_history
from tocsin.store.store import reach, read_meta

log = logging.getLogger("tocsin.broker")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder holds, as of one seq."""

    index: SubscriptionIndex
    leases: LiveLeases
    seq: int


class LiveFolder(IndexFolder):
    """The folder of a live index: segments, and the leases as of the same seq, of one incarnation of a store."""

    def __init__(self, path: Path, incarnation: str) -> None:
        super().__init__(path)
        self._incarnation = incarnation
        self._lock: IO[str] | None = None

    def load_live(self, schema: Schema) -> Loaded:
        """Return the index as it was saved; raises FileError where it is not whole or not of this store."""
        index, manifest = self.load(schema)
        return Loaded(index, self._read_leases(manifest), manifest.seq)

    def _leases_path(self, seq: int) -> Path:
        return self.path / f"{seq}.leases"

    def _read_leases(self, manifest: Manifest) -> LiveLeases:
        path = self._leases_path(manifest.seq)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            facts = msgspec.json.decode(head)
            if facts["incarnation"] != self._incarnation:
                raise FileError(str(path), "it belongs to another store")
            if facts["checksum"] != zlib.crc32(body):
                raise FileError(str(path), "its checksum does not fit")
            return LiveLeases.from_bytes(body)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileError(str(path), f"not the leases of an index: {error}") from None

    def save_as_of(self, index: SubscriptionIndex, seq: int, leases: LiveLeases) -> None:
        """Make the index durable as of seq, unless another process is the one that writes."""
        if not self.become_writer():
            return
        body = leases.to_bytes()
        facts = {"incarnation": self._incarnation, "checksum": zlib.crc32(body)}
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


def open_index(
    store: Store,
    engine: str,
    folder: str | Path | None,
    registry: Registry | None = None,
    *,
    programs: Programs | None = None,
    read_only: bool = False,
) -> LiveIndex:
    """Return a live index; it follows the store from its `seq` on, which is 0 where it must be built anew.

    With `read_only` a folder that cannot be used is left as it is: its writer may be about to replace it.
    """
    place = folder_of(store, folder) if engine == "columnar" else None
    if place is None:
        return LiveIndex(LiveMatcher(engine, operators=registry, programs=programs))
    live = LiveFolder(place, store.incarnation)
    try:
        loaded = _load(store, live)
    except FileError as error:
        log.warning("the index cannot be used and is built anew from the store: %s", error)
        if not read_only:
            live.discard()
        loaded = None
    if loaded is None:
        kept = None if read_only else live
        return LiveIndex(LiveMatcher(engine, kept, operators=registry, programs=programs))
    matcher = LiveMatcher(engine, live, loaded.index, operators=registry, programs=programs)
    return LiveIndex(matcher, loaded.leases, loaded.seq)


def folder_of(store: Store, folder: str | Path | None) -> Path | None:
    """Return the folder of a store's index: as given, else beside the file; none for a database that is no file."""
    if folder is not None:
        return Path(folder)
    return None if store.path is None else store.path.with_name(f"{store.path.name}.index")


def _load(store: Store, folder: LiveFolder) -> Loaded | None:
    """Return what is in the folder, None where nothing is; raises FileError where it is of no use."""
    manifest = folder.manifest()
    if manifest is None:
        return None
    with store.read() as connection:
        stands = read_meta(connection)
        versions = {entry.version: entry.schema for entry in schema_history.history(connection)}
    where = str(folder.path)
    if manifest.seq > stands.seq:
        raise FileError(where, f"it is as of seq {manifest.seq}, and the store is at {stands.seq}")
    if manifest.seq < stands.horizon:
        raise FileError(where, f"it is as of seq {manifest.seq}, and what ended up to {stands.horizon} is not kept")
    made_under, schema = versions.get(manifest.schema_version), versions.get(stands.schema_version)
    if made_under is None or schema is None:
        raise FileError(where, "it was made under another schema")
    return folder.load_live(made_under)  # who follows the store goes on to the schema in force, and moves what it must
