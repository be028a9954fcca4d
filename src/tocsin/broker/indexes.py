"""Opening the index of a broker: from its folder where it is whole, else rebuilt from the store, which is said."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.broker.expressions import calls_operators
from tocsin.broker.live_index import DefinitionEngine, Engine, LiveIndex
from tocsin.broker.routing_engine import Route, RoutingEngine
from tocsin.broker.union_types import UnionTypes
from tocsin.errors import FileError
from tocsin.operators.registry import Registry
from tocsin.schema import Schema
from tocsin.store import Store, schema_history
from tocsin.store.subscriptions import trees_of
from tocsin.store.transaction import read_meta
from tocsin.symmetric.programs import Programs

if TYPE_CHECKING:
    from tocsin.broker.columnar_engine import LiveFolder

log = logging.getLogger("tocsin.broker")


def open_index(
    store: Store,
    engine: str | Engine,
    folder: str | Path | None,
    registry: Registry | None = None,
    *,
    programs: Programs | None = None,
    read_only: bool = False,
) -> LiveIndex:
    """Return a live index; it follows the store from its `seq` on, which is 0 where it must be built anew.

    With `read_only` a folder that cannot be used is left as it is: its writer may be about to replace it.
    """
    routes = routes_of(Registry() if registry is None else registry, programs or Programs())
    if isinstance(engine, Engine):
        return LiveIndex(RoutingEngine(engine, routes))
    if engine == "definition":
        return LiveIndex(RoutingEngine(DefinitionEngine(), routes))
    from tocsin.broker.columnar_engine import ColumnarEngine, LiveFolder

    place = folder_of(store, folder)
    if place is None:
        return LiveIndex(RoutingEngine(ColumnarEngine(), routes))
    live = LiveFolder(place, store.incarnation)
    try:
        loaded = _load(store, live, routes)
    except FileError as error:
        log.warning("the index cannot be used and is built anew from the store: %s", error)
        if not read_only:
            live.discard()
        loaded = None
    return loaded or LiveIndex(RoutingEngine(ColumnarEngine(None if read_only else live), routes))


def routes_of(registry: Registry, programs: Programs) -> list[Route]:
    """Return which subscriptions have engines of their own."""

    def operator_engine(schema: Schema) -> Engine:
        from tocsin.broker.operator_engine import OperatorEngine

        return OperatorEngine(registry, schema)

    def symmetric_engine(schema: Schema) -> Engine:
        from tocsin.broker.symmetric_engine import SymmetricEngine

        return SymmetricEngine(schema, programs)

    types = UnionTypes()
    return [
        Route("operators", calls_operators, operator_engine),
        Route("matchmaking", types.takes, symmetric_engine, types.follow),
    ]


def folder_of(store: Store, folder: str | Path | None) -> Path | None:
    """Return the folder of a store's index: as given, else beside the file; none for a database that is no file."""
    if folder is not None:
        return Path(folder)
    return None if store.path is None else store.path.with_name(f"{store.path.name}.index")


def _load(store: Store, folder: LiveFolder, routes: list[Route]) -> LiveIndex | None:
    """Return what is in the folder, None where nothing is; raises FileError where it is of no use."""
    from tocsin.broker.columnar_engine import same_layout

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
    loaded = folder.load_live(schema)
    engine = RoutingEngine(loaded.engine, routes, schema)
    with store.read() as connection:  # one that is no longer kept is over, and matches nothing
        engine.load_aside(sorted(trees_of(connection, loaded.elsewhere).items()), schema)
    return LiveIndex(engine, loaded.leases, loaded.seq)
