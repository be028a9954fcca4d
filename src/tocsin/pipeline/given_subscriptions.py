"""Subscriptions as match() is given them: a DataFrame, a folder on disk, or a store; each becomes an IndexReference.

A DataFrame holds a subscription a row: `id`, and either `text` (an expression), `document` (JSON in any form), or
`predicates` (the bulk form: JSON text, or an array of structs with attribute, operator and operand as JSON text) with
`event_types` if it likes. Its rows become a folder of segments, built by the driver: the folder that is named, which then
holds exactly these subscriptions, or a temporary one, which goes with the process.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.errors import BindError, FileError, NotSupported, ParseError, TocsinError
from tocsin.language.syntax import OperatorCall
from tocsin.offers.program_files import open_programs
from tocsin.operators.registry import INSTALLED, Registry, open_registry
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.subscription_folder import Bad, is_folder, read_manifest, read_schema, write_folder
from tocsin.schema import Schema, ViewAttribute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STORES = ("sqlite:", "postgresql:", "postgresql+psycopg:")
SHOWN = 5
log = logging.getLogger("tocsin.pipeline")


def reference_of(
    subscriptions: DataFrame | str | Path,
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
    if isinstance(subscriptions, str | Path):
        reference, known = _named(subscriptions, schema, follow=follow)
    elif schema is None:
        raise ParseError("subscriptions in a DataFrame need schema=…")
    else:
        place, known = Path(folder or _temporary_folder()), schema
        given = documents_of(subscriptions)
        skipped = write_folder(
            place, given, schema, mode="replace", bad=bad, operators=_Pure(registry), documents=documents
        )  # fmt: skip
        if skipped:
            listed = "\n".join(map(str, skipped[:SHOWN]))
            log.warning("%d subscriptions are left out:\n%s", len(skipped), listed)
        reference = _at(str(place), follow=follow)
    reference = replace(reference, operators=names[0], programs=names[1])
    _check_operators(reference, registry)
    return reference, known


def _temporary_folder() -> str:
    """Return a new folder, which is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="tocsin-subscriptions-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def named_programs(programs: str | Path | None) -> str | None:
    """Return the file of programs by its whole path; raises FileError where it is wrong."""
    open_programs(programs)
    return None if programs is None else str(Path(programs).resolve())


def named_operators(operators: str | Path | None) -> str | None:
    """Return the name of operators as workers, started elsewhere, understand it."""
    if operators is None or operators == INSTALLED:
        return operators and INSTALLED
    if isinstance(operators, Registry):
        raise NotSupported(
            "operators go to the workers by name: 'installed', a settings file, or package.module:function"
        )
    return str(Path(operators).resolve()) if Path(operators).exists() else str(operators)


class _Pure:
    """Operators of which only pure ones can be called, since Spark may run a task again."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.variable_domains, self.solutions = registry.variable_domains, registry.solutions

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        bound = self._registry.bind_call(call, attributes)
        if not self._registry.get(call.name).pure:
            raise BindError(f"the operator {call.name} is not pure, and Spark may run a task again", span=call.span)
        return bound


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
    if is_folder(text):
        return _at(text, follow=follow), schema or read_schema(text)
    if text.startswith(_STORES) or Path(text).is_file():
        from tocsin.pipeline.followers import open_store
        from tocsin.store import schema_history

        with open_store(text).read() as connection:
            newest = schema_history.newest(connection)
        if newest is None:
            raise TocsinError(f"{text}: the store has no schema yet")
        return IndexReference(text, kind="store"), schema or newest.schema
    raise FileError(text, "neither a folder of subscriptions, nor a store (a file, sqlite:///… or postgresql://…)")


def documents_of(subscriptions: DataFrame) -> Iterator[bytes]:
    """Yield the rows of a DataFrame as JSON documents, in order, a few thousand at a time."""
    names = set(subscriptions.columns)
    form = next((form for form in ("document", "text", "predicates") if form in names), None)
    if form is None or (form != "document" and "id" not in names):
        raise ParseError(
            "a DataFrame of subscriptions has the columns id and text, id and predicates, or document; "
            f"this one has {', '.join(subscriptions.columns)}"
        )
    wanted = [name for name in ("id", form, "event_types") if name in names]
    for row in subscriptions.select(*wanted).toLocalIterator(prefetchPartitions=True):
        yield _document(row.asDict(recursive=True), form)


def _document(row: dict[str, Any], form: str) -> bytes:
    if form == "document":
        text: str = row["document"] or ""
        return text.encode()
    document: dict[str, Any] = {"id": row["id"]}
    if form == "text":
        return msgspec.json.encode({**document, "text": row["text"]})
    if row.get("event_types"):
        document["event_types"] = row["event_types"]
    predicates = row["predicates"]
    if isinstance(predicates, str):
        document["predicates"] = msgspec.Raw(predicates.encode())
    else:
        document["predicates"] = [
            [one["attribute"], one["operator"], msgspec.Raw(one["operand"].encode())] for one in predicates or ()
        ]
    return msgspec.json.encode(document)
