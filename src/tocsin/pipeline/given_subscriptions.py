"""Subscriptions as match() is given them: a DataFrame, a table, or a store; each becomes an IndexReference.

A DataFrame (compile_rows.py says of which columns) becomes a version of a table: of the one that is named, which then
holds exactly these subscriptions, or of a temporary one, which goes with the process.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.errors import FileError, NotSupported, ParseError, TocsinError
from tocsin.offers.program_files import open_programs
from tocsin.operators.registry import Registry, open_registry
from tocsin.pipeline.compile_rows import named_operators
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.subscription_table import Bad, SubscriptionTable, is_folder, read_manifest, read_schema
from tocsin.schema import Schema
from tocsin.schema.files import dumps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STORES = ("sqlite:", "postgresql:", "postgresql+psycopg:")
SHOWN = 5
log = logging.getLogger("tocsin.pipeline")


def reference_of(
    subscriptions: DataFrame | SubscriptionTable | str | Path,
    schema: Schema | None,
    *,
    follow: bool,
    folder: str | Path | None = None,
    documents: bool = False,
    bad: Bad = "fail",
    operators: str | Path | None = None,
    programs: str | Path | None = None,
) -> tuple[IndexReference, Schema]:
    """Return where the subscriptions are, and the schema; `follow` lets a folder's newer versions be taken up.

    Operators and programs go by name, since every worker makes its own.
    """
    names = named_operators(operators), named_programs(programs)
    registry = open_registry(operators)
    if isinstance(subscriptions, SubscriptionTable):
        subscriptions = subscriptions.place
    if isinstance(subscriptions, str | Path):
        reference, known = _named(subscriptions, schema, follow=follow)
    elif schema is None:
        raise ParseError("subscriptions in a DataFrame need schema=…")
    else:
        known = schema
        given = _table_at(schema, folder, operators=names[0], documents=documents, shared=not follow)
        change = given.replace(subscriptions, bad=bad)
        if change.bad:
            listed = "\n".join(map(str, change.bad[:SHOWN]))
            log.warning("%d subscriptions are left out:\n%s", len(change.bad), listed)
        follow = follow and folder is not None  # nobody else changes a temporary table
        reference = IndexReference(given.place, version=None if follow else change.version, follow=follow)
    reference = replace(reference, operators=names[0], programs=names[1])
    _check_operators(reference, registry)
    return reference, known


_tables: dict[tuple[str, str | None, bool], SubscriptionTable] = {}


def _table_at(
    schema: Schema, folder: str | Path | None, *, operators: str | None, documents: bool, shared: bool
) -> SubscriptionTable:
    """Return the table at a folder; else a temporary one, which goes with the process.

    A shared one is the same for the same schema, and knows what it has compiled; a stream has its own, since it may need
    its version for longer than so many others are kept.
    """
    if folder is not None:
        return SubscriptionTable(folder, schema, operators=operators, documents=documents)
    key = (hashlib.sha256(dumps(schema, "json").encode()).hexdigest(), operators, documents)
    if key not in _tables or not shared:
        table = SubscriptionTable(_temporary_folder(), schema, operators=operators, documents=documents)
        return _tables.setdefault(key, table) if shared else table
    return _tables[key]


_TEMPORARY = "tocsin-subscriptions-"
_folders: set[str] = set()


def _temporary_folder() -> str:
    """Return a new folder, which goes with the process; those of processes that were killed go now."""
    for left in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        pid = left.name.removeprefix(_TEMPORARY).partition("-")[0]
        if pid.isdigit() and left.stat().st_uid == os.getuid() and not _lives(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    if not _folders:
        atexit.register(release_subscriptions)
    place = tempfile.mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-")
    _folders.add(place)
    return place


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def release_subscriptions() -> None:
    """Let go of what DataFrames of subscriptions were compiled into, of all match() so far, which are then of no use."""
    _tables.clear()
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)


def named_programs(programs: str | Path | None) -> str | None:
    """Return the file of programs by its whole path; raises FileError where it is wrong."""
    open_programs(programs)
    return None if programs is None else str(Path(programs).resolve())


def _check_operators(reference: IndexReference, registry: Registry) -> None:
    """Raise NotSupported where subscriptions call operators that are not there, or may answer otherwise the next time."""
    if reference.kind != "folder":
        return
    for name in read_manifest(reference.place, reference.version).operators:
        if name not in registry:
            raise NotSupported(f"subscriptions call the operator {name}, which is not there: name those, operators=…")
        if not registry.get(name).pure:
            raise NotSupported(f"the operator {name} is not pure, and Spark may run a task again")


def _at(place: str, *, follow: bool) -> IndexReference:
    return IndexReference(place, version=None if follow else read_manifest(place).version, follow=follow)


def _named(place: str | Path, schema: Schema | None, *, follow: bool) -> tuple[IndexReference, Schema]:
    text = str(place)
    if not text.startswith(_STORES) and is_folder(text):
        return _at(text, follow=follow), schema or read_schema(text)
    if text.startswith(_STORES) or Path(text).is_file():
        from tocsin.pipeline.followers import open_store
        from tocsin.store import schema_history

        with open_store(text).read() as connection:
            newest = schema_history.newest(connection)
        if newest is None:
            raise TocsinError(f"{text}: the store has no schema yet")
        return IndexReference(text, kind="store"), schema or newest.schema
    raise FileError(
        text,
        "neither a table of subscriptions (a folder, s3://…, hdfs://…), nor a store (a file, sqlite:///… or postgresql://…)",
    )
