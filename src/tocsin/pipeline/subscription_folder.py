"""A folder of subscriptions: segments on disk with a manifest, for match() to map.

    schema.json               the schema that the subscriptions are bound to
    segment-00000001.seg      immutable, mapped by every worker (index/segment_file.py)
    documents-00000001.arrow  the subscriptions as they were given, by id; only where reasons may be asked for
    manifest-00000002.json    the segments of version 2, and the subscriptions that have left them
    CURRENT                   the number of the newest version, replaced as a whole

A new version names what there was and adds what is new: a worker at version n moves to n + 1 by opening only that. The
folder may lie on any file system that all workers mount. `tocsin pipeline index` writes one; so does match() itself
when it is given a DataFrame.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tocsin.compile.bulk import BulkLoad, load_bulk
from tocsin.compile.table import ConjunctionTable
from tocsin.errors import DuplicateSubscription, FileError
from tocsin.index.build import build_segment
from tocsin.index.segment_file import write_segment
from tocsin.language.documents import BadLine
from tocsin.schema import Schema
from tocsin.schema.files import load, save

PER_SEGMENT = 1_000_000  # subscriptions: a unit of memory, and of sharding


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One segment of a manifest."""

    file: str
    subscriptions: int
    bytes: int
    documents: str | None = None


@dataclass(frozen=True, slots=True)
class FolderManifest:
    """One version of a folder."""

    version: int = 0
    text_ids: bool = False
    segments: tuple[SegmentEntry, ...] = ()
    dead: tuple[tuple[str, str | int], ...] = field(default=())  # (segment's file, id) that have left

    @property
    def subscriptions(self) -> int:
        return sum(entry.subscriptions for entry in self.segments) - len(self.dead)

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.segments)


def write_folder(
    path: str | Path,
    lines: Iterable[bytes | str],
    schema: Schema,
    *,
    documents: bool = False,
    per_segment: int = PER_SEGMENT,
) -> list[BadLine]:
    """Write a new folder, or a new version of one, with these subscriptions added; return the lines that are none.

    Lines are JSON documents in any form (language/documents.py).
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    before = read_manifest(folder) if (folder / "CURRENT").exists() else FolderManifest()
    if before.version == 0:
        save(schema, folder / "schema.json")
    entries, bad, text_ids = list(before.segments), [], before.text_ids
    first = 1
    for chunk in _chunks(lines, per_segment):
        loaded = load_bulk(chunk, schema)
        bad += [BadLine(error.line + first - 1, error.id, error.error) for error in loaded.errors]
        first += len(chunk)
        if not len(loaded.table.ids):
            continue
        number = len(entries) + 1
        text_ids = _checked_ids(loaded.table, text_ids if entries else None)
        kept = _write_documents(folder, number, chunk, loaded) if documents else None
        name = f"segment-{number:08d}.seg"
        write_segment(build_segment(loaded.table), folder / name)
        entries.append(SegmentEntry(name, len(loaded.table.ids), (folder / name).stat().st_size, kept))
    _publish(folder, FolderManifest(before.version + 1, text_ids, tuple(entries), before.dead))
    return bad


def remove_from_folder(path: str | Path, ids: Sequence[str | int]) -> int:
    """Write a new version of a folder without some subscriptions; return how many of them there were."""
    from tocsin.index.segment_file import open_segment

    folder = Path(path)
    before, schema = read_manifest(folder), read_schema(folder)
    gone = set(before.dead)
    for entry in before.segments:
        held = set(open_segment(folder / entry.file, schema.domain_of, verify=False).ids.tolist())
        gone |= {(entry.file, id) for id in ids if id in held}
    dead = tuple(sorted(gone, key=str))
    _publish(folder, FolderManifest(before.version + 1, before.text_ids, before.segments, dead))
    return len(dead) - len(before.dead)


def read_manifest(path: str | Path, version: int | None = None) -> FolderManifest:
    """Return a version of the folder, by default the newest."""
    folder = Path(path)
    try:
        number = int((folder / "CURRENT").read_text()) if version is None else version
        document = json.loads((folder / f"manifest-{number:08d}.json").read_text())
        return FolderManifest(
            document["version"],
            document["text_ids"],
            tuple(SegmentEntry(**entry) for entry in document["segments"]),
            tuple((file, id) for file, id in document["dead"]),
        )
    except OSError as error:
        raise FileError(str(folder), f"not a folder of subscriptions: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(str(folder), f"the manifest cannot be read: {error}") from None


def read_schema(path: str | Path) -> Schema:
    """Return the schema that a folder's subscriptions are bound to."""
    return load(Path(path) / "schema.json")


def is_folder(path: str | Path) -> bool:
    """Return whether there is a folder of subscriptions."""
    return (Path(path) / "CURRENT").is_file()


def _publish(folder: Path, manifest: FolderManifest) -> None:
    """Make a version known: first itself, then that it is the newest; each complete or not at all."""
    _replace(folder / f"manifest-{manifest.version:08d}.json", json.dumps(asdict(manifest)))
    _replace(folder / "CURRENT", f"{manifest.version}\n")


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _chunks(lines: Iterable[bytes | str], size: int) -> Iterator[list[bytes | str]]:
    remaining = iter(lines)
    while chunk := list(islice(remaining, size)):
        yield chunk


def _checked_ids(table: ConjunctionTable, text_before: bool | None) -> bool:
    """Return whether the ids are texts; raises DuplicateSubscription, and FileError where kinds of ids are mixed."""
    ids: list[Any] = table.ids.tolist()
    if len(set(ids)) < len(ids):
        seen: set[Any] = set()
        raise DuplicateSubscription(next(id for id in ids if id in seen or seen.add(id)))  # type: ignore[func-returns-value]
    kinds = {isinstance(id, str) for id in ids} | ({text_before} if text_before is not None else set())
    if len(kinds) > 1:
        raise FileError("subscriptions", "ids must be all texts or all whole numbers")
    return kinds.pop()


def _write_documents(folder: Path, number: int, lines: Sequence[bytes | str], loaded: BulkLoad) -> str:
    """Write the documents beside their segment, ordered by id, to be mapped and searched."""
    import pyarrow as pa

    bad = {error.line for error in loaded.errors}
    texts = [line for at, line in enumerate(lines, 1) if at not in bad and line.strip()]
    found = {}
    for at, text in enumerate(texts, 1):
        document = json.loads(text)
        found[document.get("id", at)] = text if isinstance(text, str) else text.decode()
    ids = sorted(found)
    table = pa.table({"id": pa.array(ids), "document": pa.array([found[id] for id in ids], pa.large_string())})
    name = f"documents-{number:08d}.arrow"
    with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return name
