"""Upkeep of a store's index by hand: build, merge, check, figures. `tocsin index` calls these.

A broker does all this by itself; these are for looking, and for after something went wrong. While a broker has the
index open for writing, building and merging are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tocsin.broker.broker import Broker
from tocsin.broker.indexes import folder_of
from tocsin.broker.live_matcher import LiveFolder
from tocsin.compile.ids import kept_ids
from tocsin.errors import FileError, StoreError
from tocsin.index.check import check_segment
from tocsin.store import Store, schema_history
from tocsin.store.subscriptions import leases_since
from tocsin.store.transaction import read_meta


def build_index(place: str | Path, folder: str | Path | None = None) -> dict[str, Any]:
    """Build the index anew from the store, and write it; return its figures."""
    path = _folder(place, folder)
    with _writing(path):
        (path / "manifest.json").unlink(missing_ok=True)
    return _opened(place, path, merge=True)


def merge_index(place: str | Path, folder: str | Path | None = None) -> dict[str, Any]:
    """Catch up with the store, merge all segments into one, and write it; return its figures."""
    path = _folder(place, folder)
    with _writing(path):
        pass  # nobody else writes
    return _opened(place, path, merge=True)


def index_stats(place: str | Path, folder: str | Path | None = None) -> dict[str, Any]:
    """Return figures of the index as it lies on disk; nothing is changed."""
    path = _folder(place, folder)
    manifest = LiveFolder(path, "").manifest()
    store = Store.open(place)
    try:
        stands = store.meta()
    finally:
        store.close()
    if manifest is None:
        return {"folder": str(path), "segments": 0, "store_seq": stands.seq}
    return {
        "folder": str(path),
        "version": manifest.version,
        "seq": manifest.seq,
        "store_seq": stands.seq,
        "schema_version": manifest.schema_version,
        "segments": len(manifest.segments),
        "subscriptions": sum(entry.subscriptions - entry.dead for entry in manifest.segments),
        "dead": sum(entry.dead for entry in manifest.segments),
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
    }


def check_index(place: str | Path, folder: str | Path | None = None) -> list[str]:
    """Return what is wrong with the index on disk: files, structure, and whether it is what the store says."""
    path = _folder(place, folder)
    store = Store.open(place)
    try:
        live = LiveFolder(path, store.incarnation)
        manifest = live.manifest()
        if manifest is None:
            return [f"{path}: there is no index"]
        with store.read() as connection:
            stands = read_meta(connection)
            newest = schema_history.newest(connection)
            rows = [row for chunk in leases_since(connection, 0, 0, trees=False) for row in chunk]
        if newest is None:
            return ["the store has no schema"]
        loaded = live.load_live(newest.schema)
    except FileError as error:
        return [str(error)]
    finally:
        store.close()
    problems = []
    if manifest.seq > stands.seq or manifest.seq < stands.horizon:
        problems.append(f"{path}: it is as of seq {manifest.seq}, which the store cannot continue")
    found: set[int] = set()
    for tier in loaded.index.tiers():
        try:
            check_segment(tier.segment)
        except (AssertionError, ValueError) as error:
            problems.append(f"{path}/{tier.name}.segment: {error}")
        alive = np.ones(len(tier.segment), np.bool_)
        alive[np.array(list(tier.dead), np.int64)] = False
        found |= {int(id) for id in kept_ids(tier.segment.ids, alive).tolist()}
    due = {row.id for row in rows if row.id <= manifest.seq and (row.deleted_seq or manifest.seq + 1) > manifest.seq}
    may = {row.id for row in rows if row.id <= manifest.seq}  # those that ended may wait for events to be matched
    if due - found:
        problems.append(f"{path}: {len(due - found)} live subscriptions are not in it, such as {min(due - found)}")
    if found - may:
        problems.append(f"{path}: {len(found - may)} subscriptions are in it that the store does not have")
    return problems


def _folder(place: str | Path, folder: str | Path | None) -> Path:
    store = Store.open(place)
    try:
        path = folder_of(store, folder)
    finally:
        store.close()
    if path is None:
        raise StoreError("say where the index is: a store in PostgreSQL has no folder of its own")
    return path


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Give the right to write the index, for a moment; raises StoreError where a broker has it."""
    folder = LiveFolder(path, "")
    if not folder.become_writer():
        raise StoreError(f"a broker has the index {path} open; it merges and saves by itself")
    try:
        yield
    finally:
        folder.close()


def _opened(place: str | Path, path: Path, *, merge: bool) -> dict[str, Any]:
    """Open a broker, which loads or builds the index, and let it save."""
    with Broker.open(place, index=path, sweep=False) as broker:
        broker.save_index(merge=merge)
        return broker.index_stats()
