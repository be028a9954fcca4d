"""What a table of subscriptions takes of what it is given, and what it keeps of that beside the index.

Of what is given, the first row of an id counts, and the others repeat it (Chosen). A table keeps digests of what its
subscriptions said, by which it knows them again, and their texts where these are wanted (Contents); and, for each
version, what was given and is no subscription (the quarantine). Arrow files, of which the later ones count. Used by
subscription_table.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.compile.ids import Ids, TextIds, id_at, ids_of, joined_ids, kept_ids
from tocsin.compile.table import ConjunctionTable
from tocsin.errors import DuplicateSubscription, FileError
from tocsin.index.coder import IdPlaces
from tocsin.index.explain import table_of
from tocsin.index.index_folder import IndexFolder, Manifest
from tocsin.index.merge_tables import merge_tables
from tocsin.index.subscription_index import SubscriptionIndex, Tier
from tocsin.language.documents import BadLine
from tocsin.pipeline.compile_rows import DIGEST_BYTES, BadRow, Digests, Piece

MOST_CONTENTS = 8  # files, before they become one
Mask = npt.NDArray[np.bool_]


# --- what is taken of what was given ----------------------------------------------------------------------------------


class Chosen:
    """Of what was given, the row that counts for each id: the first; the others repeat it."""

    def __init__(self, pieces: Sequence[Piece], held: Contents) -> None:
        self.pieces = pieces
        self.repeated: list[BadRow] = []
        self.unchanged: Mask = np.zeros(len(held.ids), np.bool_)  # of what is held, what was given again
        known = np.concatenate([held.digests[:0], *(piece.known for piece in pieces)])
        places = held.places_of(known)
        first_rows = np.concatenate([np.zeros(0, np.int64), *(piece.known_rows for piece in pieces)])
        new = [piece.ids for piece in pieces]
        ids = joined_ids([_at(held.ids, places), *new])
        rows = np.concatenate([first_rows, *(piece.rows for piece in pieces)])
        wins = _first_of_each(ids, rows)
        for at in np.flatnonzero(~wins).tolist():
            id = id_at(ids, at)
            self.repeated.append(BadRow(int(rows[at]), id, str(DuplicateSubscription(id)), "", repeated=True))
        self.unchanged[places[wins[: len(places)]]] = True
        self.kept: list[tuple[Piece, Mask]] = []
        start = len(places)
        for piece in pieces:
            keep = wins[start : start + len(piece.ids)]
            start += len(piece.ids)
            if keep.any():
                self.kept.append((_cut(piece, keep), keep))


def _at(ids: Ids, places: npt.NDArray[np.int64]) -> Ids:
    """Return the ids at places."""
    return TextIds.of([ids[at] for at in places.tolist()]) if isinstance(ids, TextIds) else ids[places]


def _first_of_each(ids: Ids, rows: npt.NDArray[np.int64]) -> Mask:
    """Return which rows are the first of their ids."""
    wins = np.ones(len(rows), np.bool_)
    if len(rows):
        group = IdPlaces(ids).of_all(ids)
        order = np.lexsort((rows, group))
        wins[order[1:]] = group[order][1:] != group[order][:-1]
    return wins


def _cut(piece: Piece, keep: Mask) -> Piece:
    """Return the piece with only some of its subscriptions."""
    if keep.all():
        return piece
    assert piece.table is not None
    table = merge_tables([piece.table], [keep])
    documents = None
    if piece.documents is not None:
        documents = [text for text, kept in zip(piece.documents, keep, strict=True) if kept]
    return Piece(piece.known, piece.known_rows, table.ids, piece.rows[keep], piece.digests[keep], table, documents)


def gathered(tables: Iterable[ConjunctionTable], per_segment: int) -> Iterator[ConjunctionTable]:
    """Yield the tables put together, and divided, so that each has at most so many subscriptions."""
    waiting: list[ConjunctionTable] = []
    for table in tables:
        for start in range(0, len(table.ids), per_segment):
            part = table
            if len(table.ids) > per_segment:
                numbers = np.arange(len(table.ids))
                part = merge_tables([table], [(numbers >= start) & (numbers < start + per_segment)])
            if waiting and sum(len(each.ids) for each in waiting) + len(part.ids) > per_segment:
                yield _merged(waiting)
                waiting = []
            waiting.append(part)
    if waiting:
        yield _merged(waiting)


def living(tier: Tier) -> ConjunctionTable:
    """Return the subscriptions of a tier that have not left."""
    keep = np.ones(len(tier.segment), np.bool_)
    keep[np.fromiter(tier.dead, np.int64)] = False
    return merge_tables([table_of(tier.segment)], [keep])


def _merged(tables: list[ConjunctionTable]) -> ConjunctionTable:
    return (
        tables[0] if len(tables) == 1 else merge_tables(tables, [np.ones(len(each.ids), np.bool_) for each in tables])
    )


def check_kinds(given: Sequence[Ids]) -> None:
    """Raise FileError where ids are texts here and whole numbers there."""
    kinds: set[bool] = set()
    for ids in filter(len, given):
        if isinstance(ids, TextIds):
            kinds |= {True, False} if ids.has_numbers else {True}
        else:
            kinds.add(False)
    if len(kinds) > 1:
        raise FileError("subscriptions", "ids must be all texts or all whole numbers")


# --- what subscriptions said ------------------------------------------------------------------------------------------


class Contents:
    """The ids of living subscriptions, and digests of what they said."""

    def __init__(self, ids: Ids, digests: Digests) -> None:
        self.ids, self.digests = ids, digests
        self._order = np.argsort(digests, kind="stable")
        self.known: Digests = digests[self._order]

    @classmethod
    def none(cls) -> Contents:
        return cls(ids_of([]), np.zeros(0, f"S{DIGEST_BYTES}"))

    @classmethod
    def read(cls, folder: IndexFolder, manifest: Manifest, index: SubscriptionIndex) -> Contents:
        """Return those of a version."""
        ids: list[Ids] = []
        digests = [np.zeros(0, f"S{DIGEST_BYTES}")]
        for name in reversed(manifest.contents):
            table = _read_contents(folder.file(name))
            found = _ids_in(table)
            said = np.frombuffer(b"".join(table.column("digest").to_pylist()), f"S{DIGEST_BYTES}")
            fresh = np.ones(len(found), np.bool_)
            for later in ids:
                fresh &= IdPlaces(later).of_all(found) < 0
            ids.append(kept_ids(found, fresh))
            digests.append(said[fresh])
        joined = joined_ids(ids or [ids_of([])])
        lives = np.zeros(len(joined), np.bool_)
        for tier in index.tiers():
            lives |= tier.numbers_of(joined) >= 0
        return cls(kept_ids(joined, lives), np.concatenate(digests)[lives])

    def places_of(self, digests: Digests) -> npt.NDArray[np.int64]:
        """Return where digests are, all of which are held."""
        return self._order[np.searchsorted(self.known, digests)] if len(digests) else np.zeros(0, np.int64)

    @staticmethod
    def write(folder: IndexFolder, name: str, chosen: Chosen, before: tuple[str, ...]) -> tuple[str, ...]:
        """Write what is new beside what was kept before; return the names of all files."""
        import pyarrow as pa

        tables = [
            pa.table({
                "id": _id_column(piece.ids),
                "digest": pa.array(np.frombuffer(piece.digests.tobytes(), "V16").tolist(), pa.binary(DIGEST_BYTES)),
                "document": _texts(piece),
            })
            for piece, _ in chosen.kept
        ]  # fmt: skip
        if len(before) >= MOST_CONTENTS:
            tables = [*(_read_contents(folder.file(each)) for each in before), *tables]
            whole = pa.concat_tables(tables, promote_options="permissive")
            last = {id: at for at, id in enumerate(whole.column("id").to_pylist())}
            tables, before = [whole.take(pa.array(sorted(last.values())))], ()
        written = pa.concat_tables(tables, promote_options="permissive")
        with pa.OSFile(str(folder.path / name), "wb") as file, pa.ipc.new_file(file, written.schema) as writer:
            writer.write_table(written)
        return *before, name


def _texts(piece: Piece) -> Any:
    import pyarrow as pa

    if piece.documents is None:
        return pa.nulls(len(piece.ids), pa.large_string())
    return pa.array(piece.documents, pa.large_string())


def _id_column(ids: Ids) -> Any:
    import pyarrow as pa

    return pa.array(ids.tolist(), pa.string()) if isinstance(ids, TextIds) else pa.array(ids, pa.int64())


def _ids_in(table: Any) -> Ids:
    import pyarrow as pa

    column = table.column("id")
    return column.to_numpy() if pa.types.is_integer(column.type) else TextIds.of(column.to_pylist())


def _read_contents(path: Path) -> Any:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def find_document(folder: IndexFolder, manifest: Manifest, id: Any) -> str | None:
    """Return the document of a subscription, the newest that is kept."""
    import pyarrow as pa
    from pyarrow import compute

    for name in reversed(manifest.contents):
        table = _read_contents(folder.file(name))
        place = compute.index(table.column("id"), pa.scalar(id, table.column("id").type)).as_py()
        if place >= 0:
            return str(table.column("document")[place].as_py())
    return None


def write_quarantine(folder: Path, name: str, bad: Sequence[BadLine], chosen: Chosen | None) -> str:
    """Write what is no subscription; return the name of the file."""
    import pyarrow as pa

    rows = [] if chosen is None else [row for piece in chosen.pieces for row in piece.bad] + chosen.repeated
    texts = [row.line for row in sorted(rows, key=lambda row: row.row)]
    table = pa.table({
        "line": pa.array([line.line for line in bad], pa.int64()),
        "id": pa.array([None if line.id is None else str(line.id) for line in bad], pa.string()),
        "reason": pa.array([str(line.error) for line in bad], pa.string()),
        "document": pa.array(texts, pa.large_string()),
    })  # fmt: skip
    with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return name


def read_quarantine(path: Path) -> list[BadRow]:
    """Return what a file of the quarantine has."""
    return [BadRow(row["line"], row["id"], row["reason"], row["document"]) for row in _read_contents(path).to_pylist()]
