"""IndexFolder: a SubscriptionIndex on disk, shared by the processes of a host, or of a cluster.

    manifest.json            what is live: version, seq, schema, segments, and who left them
    00000003.manifest        the same of an earlier version, in a folder that keeps them
    00000001.segment, …      segments, written once and never again
    00000001.3.dead, …       the subscriptions that left a segment, by number and seq, as of one manifest
    1a2b3c4d.schema          a schema that subscriptions are bound to, by its checksum
    *.contents, *.quarantine what subscriptions said, and what was none (pipeline/subscription_table.py)

One process writes; any number read. A save writes what is new, makes it durable, and swaps the manifest by a rename:
a reader sees the old set or the new one, whole. A reader that moves on opens only the segments that it does not have.
Files that no manifest names any more are removed; who has them mapped keeps them until it lets go.

Segment files: one file per segment, mapped by every process that uses it.

    bytes 0..7      magic "TOCSINSG"
    8..11, 12..15   format version, length of the header up to its checksum
    ..              directory (int64), CRC-32 of each section (uint32), CRC-32 of the header before this field
    4096..          the buffer, as in index/layout.py

The same segment gives the same bytes: no time, no path, no hash order is in the file. A file that is cut short or
altered anywhere is refused with CorruptSegment.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
import zlib
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tocsin.compile.table import Check, CheckKind
from tocsin.errors import FileError
from tocsin.index.layout import DIRECTORY_LENGTH, Section
from tocsin.index.segment import Segment
from tocsin.index.subscription_index import SubscriptionIndex, Tier
from tocsin.language.documents import node_from_json
from tocsin.language.syntax import OperatorCall, leaves
from tocsin.schema import Schema
from tocsin.schema.files import dumps, loads

if TYPE_CHECKING:
    from collections.abc import Callable

    from tocsin.schema import Domain


MAGIC = b"TOCSINSG"
VERSION = 6
DATA_START = 4096
_HEADER = 16 + 8 * DIRECTORY_LENGTH + 4 * len(Section)


class CorruptSegment(FileError):
    """The file is not a segment of this version, or its bytes are not those that were written."""


def write_segment(segment: Segment, path: Path) -> None:
    """Write the segment to a new file, complete or not at all; rows that were killed since it was built stay alive.

    The caller makes the name known (in a manifest) only after this returns.
    """
    if segment.dead:
        raise ValueError("a segment with dead rows is not written: write it before, or merge it")
    header = bytearray(MAGIC + struct.pack("<II", VERSION, _HEADER))
    header += segment.directory.astype("<i8").tobytes()
    header += np.array([_checksum(segment, section) for section in Section], "<u4").tobytes()
    header += struct.pack("<I", zlib.crc32(header))
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(header.ljust(DATA_START, b"\0"))
        file.write(segment.buffer.data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def open_segment(path: Path, domain_of: Callable[[str], Domain], *, verify: bool = True) -> Segment:
    """Return the segment in a file, mapped; domain_of gives the domain of an attribute.

    Pages are shared with all processes until one kills a row on them. `verify` reads the whole file once; without
    it only the header is checked.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < DATA_START:
            raise CorruptSegment(str(path), f"the file is cut short: {size} bytes")
        mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
    directory, checksums = _read_header(path, mapped[:DATA_START].tobytes())
    expected = DATA_START + int(directory[2 * len(Section) - 2]) + _padded(int(directory[2 * len(Section) - 1]))
    if size != expected:
        raise CorruptSegment(str(path), f"the file has {size} bytes and should have {expected}")
    segment = Segment(mapped[DATA_START:], directory)
    segment.domain_of = domain_of
    if verify:
        for section in Section:
            if _checksum(segment, section) != checksums[section]:
                raise CorruptSegment(str(path), f"the checksum of {section.name} is wrong")
    return segment


def _read_header(path: Path, header: bytes) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[int]]:
    if header[:8] != MAGIC:
        raise CorruptSegment(str(path), "this is not a segment")
    version, length = struct.unpack_from("<II", header, 8)
    if version != VERSION or length != _HEADER:
        raise CorruptSegment(str(path), f"format version {version}; this program reads version {VERSION}")
    if struct.unpack_from("<I", header, _HEADER)[0] != zlib.crc32(header[:_HEADER]) or any(header[_HEADER + 4 :]):
        raise CorruptSegment(str(path), "the checksum of the header is wrong")
    directory = np.frombuffer(header, "<i8", DIRECTORY_LENGTH, 16).astype(np.int64)
    checksums = np.frombuffer(header, "<u4", len(Section), 16 + 8 * DIRECTORY_LENGTH)
    return directory, [int(checksum) for checksum in checksums]


def _checksum(segment: Segment, section: Section) -> int:
    """Return the CRC-32 of a section with the padding behind it."""
    start, size = int(segment.directory[2 * section]), int(segment.directory[2 * section + 1])
    return zlib.crc32(segment.buffer[start : start + _padded(size)].data)


def _padded(size: int) -> int:
    return -(-size // 64) * 64


# IndexFolder.


MANIFEST = "manifest.json"
FORMAT = 2
TRIES = 5
_OURS = (".segment", ".dead", ".manifest", ".schema", ".contents", ".quarantine", ".unfinished", ".tmp")


class SegmentEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One segment of a manifest."""

    name: str
    subscriptions: int
    bytes: int = 0  # of its file
    text_ids: bool = False
    operators: tuple[str, ...] = ()  # that subscriptions call
    dead: int = 0
    dead_file: str | None = None
    dead_checksum: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is live: the index holds everything that was acknowledged up to `seq`."""

    format: int = FORMAT
    version: int = 0
    seq: int = 0
    effective_us: int = 0  # from when on streams are matched against it, where versions are kept
    schema_version: int = 1
    schema_file: str = ""
    next_name: int = 1
    segments: tuple[SegmentEntry, ...] = ()
    contents: tuple[str, ...] = ()  # files of what subscriptions said; the later ones count
    with_documents: bool = False  # do these hold the subscriptions themselves, beside digests
    content: str = ""  # a digest of what was written, where that was all of it
    table: str = ""  # names the table through its life, wherever copies of its files lie
    operation: str = ""  # that made this version
    written_us: int = 0
    quarantine: str = ""  # a file of what was given and is no subscription

    @property
    def subscriptions(self) -> int:
        """How many live."""
        return sum(entry.subscriptions - entry.dead for entry in self.segments)

    @property
    def bytes(self) -> int:
        """The size of all segments."""
        return sum(entry.bytes for entry in self.segments)

    @property
    def text_ids(self) -> bool:
        """Whether ids are texts."""
        return any(entry.text_ids for entry in self.segments)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that subscriptions call, also some that have left."""
        return tuple(sorted({name for entry in self.segments for name in entry.operators}))

    def files(self) -> set[str]:
        """Return the names of all files that it needs."""
        found = {self.schema_file, *self.contents, self.quarantine}
        for entry in self.segments:
            found |= {f"{entry.name}.segment", entry.dead_file or ""}
        return found


class IndexFolder:
    """The files of one index. With `keep_versions` so many earlier manifests stay readable, with all that they name."""

    def __init__(self, path: Path, *, keep_versions: int = 0) -> None:
        self.path = path
        self.keep_versions = keep_versions
        self._tiers: dict[str, Tier] = {}  # open ones, by name

    # --- reading ------------------------------------------------------------------------------------------------------

    def manifest(self, version: int | None = None) -> Manifest | None:
        """Return the current manifest; None where there is none yet. Raises FileError where it cannot be read.

        Of an earlier version, where that is kept, else FileError.
        """
        current = self._read(self.path / MANIFEST)
        if version is None or (current is not None and current.version == version):
            return current
        found = self._read(self._place_of(version))
        if found is None:
            now = "there is none" if current is None else f"the newest is {current.version}"
            raise FileError(str(self.path), f"version {version} of the subscriptions is not kept; {now}")
        return found

    def manifest_at(self, time_us: int) -> Manifest | None:
        """Return the manifest that streams are matched against at a time: the newest that is in effect, or the oldest."""
        found = self.manifest()
        while found is not None and found.effective_us > time_us:
            earlier = self._read(self._place_of(found.version - 1))
            if earlier is None:
                break
            found = earlier
        return found

    def schema(self, manifest: Manifest) -> Schema:
        """Return the schema that a manifest's subscriptions are bound to; raises FileError where it is not there."""
        path = self.path / manifest.schema_file
        try:
            return loads(self.file(manifest.schema_file).read_bytes(), "json")
        except OSError as error:
            raise FileError(str(path), f"the schema cannot be read: {error.strerror}") from None

    def _place_of(self, version: int) -> Path:
        return self.path / f"{version:08d}.manifest"

    def file(self, name: str) -> Path:
        """Return where a file that a manifest names can be read."""
        return self.path / name

    def _read(self, path: Path) -> Manifest | None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileError(str(path), f"not a manifest: {error}") from None
        return self.decoded(path, data)

    @staticmethod
    def decoded(path: Path, data: bytes) -> Manifest:
        """Return the manifest in a file; raises FileError."""
        try:
            found = msgspec.json.decode(data, type=Manifest)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise FileError(str(path), f"not a manifest: {error}") from None
        if found.format != FORMAT:
            raise FileError(str(path), f"of format {found.format}, and this version of Tocsin reads format {FORMAT}")
        return found

    def load(self, schema: Schema, *, verify: bool = True) -> tuple[SubscriptionIndex, Manifest]:
        """Return the index as the current manifest has it; tiers that are open already are used again."""
        for attempt in range(TRIES):
            manifest = self.manifest() or Manifest(schema_version=schema.version)
            try:
                return self.open(manifest, schema, verify=verify), manifest
            except FileNotFoundError:  # the writer has moved on, and removed what we were about to open
                if attempt == TRIES - 1 or (self.manifest() or manifest).version == manifest.version:
                    raise FileError(str(self.path), "the manifest names a segment that is not there") from None
        raise AssertionError("the loop returns or raises")

    def open(
        self, manifest: Manifest, schema: Schema, *, only: Container[str] | None = None, verify: bool = True
    ) -> SubscriptionIndex:
        """Return the index of a manifest, or of some of its segments; raises FileNotFoundError."""
        tiers = [
            self._open(entry, schema, verify=verify)
            for entry in manifest.segments
            if only is None or entry.name in only
        ]
        self._tiers = {tier.name: tier for tier in tiers}
        return SubscriptionIndex(schema, tiers, first_name=manifest.next_name)

    def _open(self, entry: SegmentEntry, schema: Schema, *, verify: bool) -> Tier:
        dead = {} if entry.dead_file is None else self._read_dead(entry)
        tier = self._tiers.get(entry.name)
        if tier is None or not tier.dead.keys() <= dead.keys():  # else some of them would have to come back
            segment = open_segment(self.file(f"{entry.name}.segment"), schema.domain_of, verify=verify)
            tier = Tier(entry.name, segment)
        tier.bury_all(dead)
        return tier

    def _read_dead(self, entry: SegmentEntry) -> dict[int, int]:
        path = self.file(str(entry.dead_file))
        data = path.read_bytes()
        if zlib.crc32(data) != entry.dead_checksum:
            raise FileError(str(path), "damaged: its checksum does not fit; the index has to be built again")
        numbers, seqs = np.frombuffer(data, np.int64).reshape(-1, 2).T
        return dict(zip(numbers.tolist(), seqs.tolist(), strict=True))

    # --- writing ------------------------------------------------------------------------------------------------------

    def save(self, index: SubscriptionIndex, seq: int, *, effect_us: int = 0, **facts: Any) -> Manifest:
        """Make the index durable as of seq; return the manifest. To be called by one writer, between changes.

        `facts` are further fields of the manifest. With `effect_us` it is in effect so long after all that it names is
        written.
        """
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
            schema_file=self._save_schema(index.schema),
            next_name=index.next_name,
            segments=tuple(self._entry(tier, on_disk.get(tier.name), old.version + 1) for tier in tiers),
            **facts,
        )
        self._bring(new)
        if effect_us:
            new = msgspec.structs.replace(new, effective_us=time.time_ns() // 1000 + effect_us)
        self._swap(new)
        self._tiers = {tier.name: tier for tier in tiers}
        self._remove_unused(old, new)
        return new

    def _bring(self, manifest: Manifest) -> None:
        """Bring what a manifest names to where others read it: it is there."""

    def _save_schema(self, schema: Schema) -> str:
        """Write the schema unless it is there; return the name of its file."""
        data = schema.derived("index folder", lambda: dumps(schema, "json").encode())
        name = f"{zlib.crc32(data):08x}.schema"
        if not (self.path / name).exists():
            _write_whole(self.path / name, data)
        return name

    def _rename_strangers(self, index: SubscriptionIndex, old: Manifest) -> None:
        """Give new names to tiers that bear the name of a segment on disk without being it: of an index built anew."""
        index.next_name = max(index.next_name, old.next_name)
        taken = {entry.name for entry in old.segments}
        for tier in index.tiers():
            if (tier.name in taken or int(tier.name) < old.next_name) and self._tiers.get(tier.name) is not tier:
                tier.name, index.next_name = f"{index.next_name:08d}", index.next_name + 1

    def _entry(self, tier: Tier, old: SegmentEntry | None, version: int) -> SegmentEntry:
        if old is not None and old.dead == len(tier.dead):
            return old
        whole = old or SegmentEntry(
            name=tier.name,
            subscriptions=len(tier.segment),
            bytes=(self.path / f"{tier.name}.segment").stat().st_size,
            text_ids=tier.segment.ids_are_text,
            operators=_operators_of(tier.segment.checks),
        )
        if not tier.dead:
            return msgspec.structs.replace(whole, dead=0, dead_file=None, dead_checksum=0)
        name = f"{tier.name}.{version}.dead"
        data = np.array(sorted(tier.dead.items()), np.int64).tobytes()
        _write_durably(self.path / name, data)
        return msgspec.structs.replace(whole, dead=len(tier.dead), dead_file=name, dead_checksum=zlib.crc32(data))

    def _swap(self, manifest: Manifest) -> None:
        data = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        if self.keep_versions:
            _write_whole(self._place_of(manifest.version), data)
        _write_whole(self.path / MANIFEST, data)
        _sync_folder(self.path)

    def _remove_unused(self, old: Manifest, new: Manifest) -> None:
        """Remove what no kept manifest names, nor the one before: a reader may be about to open that."""
        named = old.files() | new.files()
        for version in range(new.version, new.version - self.keep_versions, -1):
            kept = self._read(self._place_of(version)) if version > 0 else None
            if kept is not None:
                named |= kept.files() | {self._place_of(version).name}
        for name in self._listed():
            if Path(name).suffix in _OURS and name not in named:
                self._remove(name)

    def _listed(self) -> list[str]:
        return [path.name for path in self.path.iterdir()]

    def _remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


def _operators_of(checks: Sequence[Check]) -> tuple[str, ...]:
    """Return the names of the operators that checks call."""
    found: set[str] = set()
    for check in checks:
        if check.kind == CheckKind.ASKED:
            tree = node_from_json(msgspec.json.decode(check.expression))
            found |= {leaf.name for leaf in leaves(tree) if isinstance(leaf, OperatorCall)}
    return tuple(sorted(found))


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there complete or not at all."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    _write_durably(unfinished, data)
    unfinished.replace(path)


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
