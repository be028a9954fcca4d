"""IndexFolder: a SubscriptionIndex on disk, shared by the processes of a host.

    manifest.json            what is live: version, seq, schema version, segments, and who left them
    00000001.segment, …      segments, written once and never again
    00000001.3.dead, …       the subscriptions that left a segment, by number and seq, as of one manifest

One process writes; any number read. A save writes what is new, makes it durable, and swaps the manifest by a rename:
a reader sees the old set or the new one, whole. A reader that moves on opens only the segments that it does not have.
Files that no manifest names any more are removed; who has them mapped keeps them until it lets go.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import msgspec
import numpy as np

from tocsin.errors import FileError
from tocsin.index.segment_file import open_segment, write_segment
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.index.tier import Tier
from tocsin.schema import Schema

MANIFEST = "manifest.json"
FORMAT = 1
TRIES = 5


class SegmentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One segment of a manifest."""

    name: str
    subscriptions: int
    dead: int = 0
    dead_file: str | None = None
    dead_checksum: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is live: the index holds everything that was acknowledged up to `seq`."""

    format: int = FORMAT
    version: int = 0
    seq: int = 0
    schema_version: int = 1
    next_name: int = 1
    segments: tuple[SegmentEntry, ...] = ()


class IndexFolder:
    """The files of one index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tiers: dict[str, Tier] = {}  # open ones, by name

    # --- reading ------------------------------------------------------------------------------------------------------

    def manifest(self) -> Manifest | None:
        """Return the current manifest; None where there is none yet. Raises FileError where it cannot be read."""
        path = self.path / MANIFEST
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, OSError) as error:
            raise FileError(str(path), f"not a manifest: {error}") from None
        if found.format != FORMAT:
            raise FileError(str(path), f"of format {found.format}, and this version of Tocsin reads format {FORMAT}")
        return found

    def load(self, schema: Schema, *, verify: bool = True) -> tuple[SubscriptionIndex, Manifest]:
        """Return the index as the current manifest has it; tiers that are open already are used again."""
        for attempt in range(TRIES):
            manifest = self.manifest() or Manifest(schema_version=schema.version)
            try:
                tiers = [self._open(entry, schema, verify=verify) for entry in manifest.segments]
            except FileNotFoundError:  # the writer has moved on, and removed what we were about to open
                if attempt == TRIES - 1 or (self.manifest() or manifest).version == manifest.version:
                    raise FileError(str(self.path), "the manifest names a segment that is not there") from None
                continue
            self._tiers = {tier.name: tier for tier in tiers}
            return SubscriptionIndex(schema, tiers, first_name=manifest.next_name), manifest
        raise AssertionError("the loop returns or raises")

    def _open(self, entry: SegmentEntry, schema: Schema, *, verify: bool) -> Tier:
        tier = self._tiers.get(entry.name)
        if tier is None:
            segment = open_segment(self.path / f"{entry.name}.segment", schema.domain_of, verify=verify)
            tier = Tier(entry.name, segment)
        if entry.dead_file is not None:
            tier.bury_all(self._read_dead(entry))
        return tier

    def _read_dead(self, entry: SegmentEntry) -> dict[int, int]:
        path = self.path / str(entry.dead_file)
        data = path.read_bytes()
        if zlib.crc32(data) != entry.dead_checksum:
            raise FileError(str(path), "damaged: its checksum does not fit; the index has to be built again")
        numbers, seqs = np.frombuffer(data, np.int64).reshape(-1, 2).T
        return dict(zip(numbers.tolist(), seqs.tolist(), strict=True))

    # --- writing ------------------------------------------------------------------------------------------------------

    def save(self, index: SubscriptionIndex, seq: int) -> Manifest:
        """Make the index durable as of seq; return the manifest. To be called by one writer, between changes."""
        self.path.mkdir(parents=True, exist_ok=True)
        old = self.manifest() or Manifest()
        self._rename_strangers(index, old)
        on_disk = {entry.name: entry for entry in old.segments}
        tiers = index.tiers_to_save(on_disk)
        for tier in tiers:
            if tier.name not in on_disk:
                write_segment(tier.segment, self.path / f"{tier.name}.segment")
        new = Manifest(
            version=old.version + 1,
            seq=seq,
            schema_version=index.schema.version,
            next_name=index.next_name,
            segments=tuple(self._entry(tier, on_disk.get(tier.name), old.version + 1) for tier in tiers),
        )
        self._swap(new)
        self._tiers = {tier.name: tier for tier in tiers}
        self._remove_unused(old, new)
        return new

    def _rename_strangers(self, index: SubscriptionIndex, old: Manifest) -> None:
        """Give new names to tiers that bear the name of a segment on disk without being it: of an index built anew."""
        index.next_name = max(index.next_name, old.next_name)
        taken = {entry.name for entry in old.segments}
        for tier in index.tiers():
            if tier.name in taken and self._tiers.get(tier.name) is not tier:
                tier.name, index.next_name = f"{index.next_name:08d}", index.next_name + 1

    def _entry(self, tier: Tier, old: SegmentEntry | None, version: int) -> SegmentEntry:
        if not tier.dead:
            return SegmentEntry(name=tier.name, subscriptions=len(tier.segment))
        if old is not None and old.dead == len(tier.dead):
            return old
        name = f"{tier.name}.{version}.dead"
        data = np.array(sorted(tier.dead.items()), np.int64).tobytes()
        _write_durably(self.path / name, data)
        return SegmentEntry(
            name=tier.name,
            subscriptions=len(tier.segment),
            dead=len(tier.dead),
            dead_file=name,
            dead_checksum=zlib.crc32(data),
        )

    def _swap(self, manifest: Manifest) -> None:
        unfinished = self.path / f"{MANIFEST}.{os.getpid()}.unfinished"
        _write_durably(unfinished, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        unfinished.replace(self.path / MANIFEST)
        _sync_folder(self.path)

    def _remove_unused(self, old: Manifest, new: Manifest) -> None:
        """Remove what neither the new manifest nor the one before it names: a reader may be about to open that."""
        named = {MANIFEST}
        for entry in (*old.segments, *new.segments):
            named |= {f"{entry.name}.segment", str(entry.dead_file)}
        for path in self.path.iterdir():
            if path.suffix in (".segment", ".dead", ".unfinished", ".tmp") and path.name not in named:
                path.unlink(missing_ok=True)


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
