"""A folder of subscriptions: an index folder (index/index_folder.py) that keeps its versions, for match() to map.

It is changed as a whole or not at all: subscriptions are compiled first, then a new version is made known by one rename.
`replace` makes the folder hold exactly what is given; `upsert` adds it, and what has a known id takes the place of the
old. Versions stay readable, so that a job goes on with the one that it began with, and a micro-batch that is run again
is matched against the same. A new version is in effect for streams a moment after it was written (EFFECT_US): by then
every worker sees it, so the time of a micro-batch, which Spark keeps in its log, says which version is meant.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tocsin.compile.bulk import BulkLoad, load_bulk
from tocsin.compile.ids import Ids, TextIds, id_at, ids_of
from tocsin.compile.table import ConjunctionTable
from tocsin.errors import DuplicateSubscription, FileError, ParseError, SchemaError, TocsinError
from tocsin.index.coder import IdPlaces
from tocsin.index.index_folder import IndexFolder, Manifest
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.language.documents import BadLine, decode
from tocsin.language.formula import NO_OPERATORS, Operators
from tocsin.schema import Schema

PER_SEGMENT = 1_000_000  # subscriptions: a unit of memory, and of sharding
KEPT_VERSIONS = 100
EFFECT_US = 1_000_000
MOST_DOCUMENTS = 8  # files, before they become one
SHOWN = 5
Mode = Literal["upsert", "replace"]
Bad = Literal["fail", "skip"]


class BadSubscriptions(ParseError):
    """Some of the subscriptions are wrong; nothing was written. `lines` are all of them."""

    def __init__(self, lines: Sequence[BadLine]) -> None:
        self.lines = tuple(lines)
        listed = "\n".join(map(str, lines[:SHOWN]))
        count = f"{len(lines)} subscription{' is' if len(lines) == 1 else 's are'} wrong"
        super().__init__(f"{count} (bad_subscriptions='skip' leaves them out):\n{listed}")


def folder_at(path: str | Path) -> IndexFolder:
    """Return the folder of subscriptions at a path."""
    return IndexFolder(Path(path), keep_versions=KEPT_VERSIONS)


def is_folder(path: str | Path) -> bool:
    """Return whether there is a folder of subscriptions."""
    return (Path(path) / "manifest.json").is_file()


def read_manifest(path: str | Path, version: int | None = None) -> Manifest:
    """Return a version of the folder, by default the newest; raises FileError."""
    found = folder_at(path).manifest(version)
    if found is None:
        raise FileError(str(path), "not a folder of subscriptions: it has no manifest.json")
    return found


def read_schema(path: str | Path, version: int | None = None) -> Schema:
    """Return the schema that a folder's subscriptions are bound to."""
    return folder_at(path).schema(read_manifest(path, version))


# --- writing ----------------------------------------------------------------------------------------------------------


def write_folder(
    path: str | Path,
    lines: Iterable[bytes | str],
    schema: Schema,
    *,
    mode: Mode = "upsert",
    bad: Bad = "skip",
    operators: Operators = NO_OPERATORS,
    documents: bool = False,
    per_segment: int = PER_SEGMENT,
) -> list[BadLine]:
    """Write a new folder, or a new version of one; return the lines that are no subscriptions.

    Lines are JSON documents in any form (language/documents.py); they may call operators. An id that comes again is one
    of the bad lines. With bad="fail" these raise BadSubscriptions, and the folder stays as it was; so it does where
    replacing would change nothing.
    """
    folder = folder_at(path)
    before = folder.manifest()
    if mode == "upsert" and before is not None and folder.schema(before) != schema:
        raise SchemaError(f"{path}: its subscriptions are bound to another schema; write it anew, with mode='replace'")
    given = _Given(schema, operators, documents=documents)
    content = ""
    for chunk, last in _chunks(lines, per_segment):
        content = given.digest(chunk)
        if last and not given.tables and mode == "replace" and before is not None and before.content == content:
            return []
        given.take(chunk)
    if given.bad and bad == "fail":
        raise BadSubscriptions(given.bad)
    index = SubscriptionIndex(schema)
    if mode == "upsert" and before is not None:
        index, _ = folder.load(schema, verify=False)
        _check_kinds([*given.tables, *([] if not before.segments else [before])])
    else:
        before = None
    for table in given.tables:
        index.remove_all(table.ids)
        index.add_table(table)
    kept = () if before is None else before.documents
    _publish(folder, index, given.documents, kept, content if mode == "replace" and not given.bad else "")
    return given.bad


def remove_from_folder(path: str | Path, ids: Sequence[str | int]) -> int:
    """Write a new version of a folder without some subscriptions; return how many of them there were."""
    folder, before = folder_at(path), read_manifest(path)
    index, _ = folder.load(folder.schema(before), verify=False)
    removed = index.remove_all(ids_of(list(ids)))
    if removed:
        _publish(folder, index, {}, before.documents, "")
    return removed


def _publish(
    folder: IndexFolder, index: SubscriptionIndex, documents: dict[Any, str], kept: tuple[str, ...], content: str
) -> None:
    """Make a version known; the first one is in effect at once."""
    folder.path.mkdir(parents=True, exist_ok=True)
    before = folder.manifest()
    version = 1 if before is None else before.version + 1
    names = _write_documents(folder.path, f"{version:08d}.documents", documents, kept) if documents else kept
    effective_us = 0 if before is None else time.time_ns() // 1000 + EFFECT_US
    folder.save(index, 0, documents=names, content=content, effective_us=effective_us)


def _chunks(lines: Iterable[bytes | str], size: int) -> Iterator[tuple[list[bytes | str], bool]]:
    """Yield lines, so many at once, and whether they are the last."""
    remaining = iter(lines)
    chunk = list(islice(remaining, size))
    while chunk:
        following = list(islice(remaining, size)) if len(chunk) == size else []
        yield chunk, not following
        chunk = following


class _Given:
    """Subscriptions that are being compiled, chunk by chunk; nothing is written yet."""

    def __init__(self, schema: Schema, operators: Operators, *, documents: bool) -> None:
        self.schema, self.operators, self.documents_kept = schema, operators, documents
        self.tables: list[ConjunctionTable] = []
        self.bad: list[BadLine] = []
        self.documents: dict[Any, str] = {}
        self._first = 1
        self._sum = int.from_bytes(hashlib.blake2b(f"{documents}".encode(), digest_size=16).digest(), "big")

    def digest(self, chunk: Sequence[bytes | str]) -> str:
        """Return what all lines so far say, in whatever order they came."""
        for line in chunk:
            data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
            self._sum += int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big")
        return f"{self._sum % 2**128:032x}"

    def take(self, chunk: list[bytes | str]) -> None:
        """Compile lines."""
        loaded = self._load(chunk)
        repeated = self._repeated(loaded.table.ids)
        if repeated:
            chunk = self._without_repeated(chunk, repeated)
            loaded = self._load(chunk)
        self.bad += loaded.errors
        self._first += len(chunk)
        if len(loaded.table.ids):
            self.tables.append(loaded.table)
            _check_kinds(self.tables)
            if self.documents_kept:
                self._keep_documents(chunk, loaded)

    def _load(self, chunk: list[bytes | str]) -> BulkLoad:
        return load_bulk(chunk, self.schema, self.operators, first_line=self._first)

    def _repeated(self, ids: Ids) -> set[str | int]:
        """Return the ids that come twice in a table, or came before."""
        own = IdPlaces(ids).of_all(ids)
        found = {id_at(ids, at) for at, last in enumerate(own.tolist()) if last != at}
        for table in self.tables:
            known = IdPlaces(table.ids).of_all(ids)
            found |= {id_at(ids, at) for at in (known >= 0).nonzero()[0].tolist()}
        return found

    def _without_repeated(self, chunk: Sequence[bytes | str], repeated: set[str | int]) -> list[bytes | str]:
        """Return the lines with those left empty whose id came before; they are bad."""
        seen = {id for id in repeated if any(IdPlaces(table.ids).of(id) is not None for table in self.tables)}
        kept = list(chunk)
        for at, line in enumerate(chunk):
            id = _id_of(line, self._first + at)
            if id in seen:
                self.bad.append(BadLine(self._first + at, id, DuplicateSubscription(id)))
                kept[at] = b""
            elif id in repeated:
                seen.add(id)
        return kept

    def _keep_documents(self, chunk: Sequence[bytes | str], loaded: BulkLoad) -> None:
        bad = {error.line for error in loaded.errors}
        for number, line in enumerate(chunk, self._first - len(chunk)):
            if number not in bad and line.strip():
                self.documents[_id_of(line, number)] = line if isinstance(line, str) else line.decode()


def _id_of(line: bytes | str, number: int) -> Any:
    """Return the id of a line: its number where it has none; None where it is no document."""
    try:
        document = decode(line)
    except TocsinError:
        return None
    return document.get("id", number) if isinstance(document, dict) else None


def _check_kinds(held: Sequence[ConjunctionTable | Manifest]) -> None:
    """Raise FileError where some ids are texts and some are numbers: a column of them is either."""
    kinds = set()
    for each in held:
        if isinstance(each, Manifest):
            kinds.add(each.text_ids)
        elif isinstance(each.ids, TextIds):
            kinds |= {True, not each.ids.has_numbers}
        else:
            kinds.add(False)
    if len(kinds) > 1:
        raise FileError("subscriptions", "ids must be all texts or all whole numbers")


# --- documents --------------------------------------------------------------------------------------------------------


def _write_documents(folder: Path, name: str, documents: dict[Any, str], before: tuple[str, ...]) -> tuple[str, ...]:
    """Write documents beside those that were kept before; return the names of all files."""
    import pyarrow as pa

    if len(before) >= MOST_DOCUMENTS:
        older: dict[Any, str] = {}
        for each in before:
            older.update(_read_documents(folder / each))
        documents, before = {**older, **documents}, ()
    ids = sorted(documents)
    table = pa.table({"id": pa.array(ids), "document": pa.array([documents[id] for id in ids], pa.large_string())})
    with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return *before, name


def _read_documents(path: Path) -> dict[Any, str]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
        return dict(zip(table.column("id").to_pylist(), table.column("document").to_pylist(), strict=True))


def find_document(folder: Path, manifest: Manifest, id: Any) -> str | None:
    """Return the document of a subscription, the newest that is kept."""
    import pyarrow as pa
    from pyarrow import compute

    for name in reversed(manifest.documents):
        with pa.memory_map(str(folder / name)) as file:
            table = pa.ipc.open_file(file).read_all()
            place = compute.index(table.column("id"), pa.scalar(id, table.column("id").type)).as_py()
            if place >= 0:
                return str(table.column("document")[place].as_py())
    return None


__all__ = [
    "BadSubscriptions",
    "Manifest",
    "find_document",
    "folder_at",
    "is_folder",
    "read_manifest",
    "read_schema",
    "remove_from_folder",
    "write_folder",
]
