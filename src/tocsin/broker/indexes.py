"""Opening the index of a broker: from its folder where it is whole, else rebuilt from the store, which is said."""

from __future__ import annotations

import logging
from pathlib import Path

from tocsin.broker.live_index import LiveIndex
from tocsin.broker.live_matcher import LiveFolder, LiveMatcher, Loaded, same_layout
from tocsin.errors import FileError
from tocsin.offers.programs import Programs
from tocsin.operators.registry import Registry
from tocsin.store import Store, schema_history
from tocsin.store.transaction import read_meta

log = logging.getLogger("tocsin.broker")


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
    if made_under is None or schema is None or not same_layout(made_under, schema):
        raise FileError(where, "it was made under another schema")
    return folder.load_live(schema)
