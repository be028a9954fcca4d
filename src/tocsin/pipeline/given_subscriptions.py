"""Subscriptions as match() is given them: a DataFrame, a folder on disk, or a store; each becomes an IndexReference.

A DataFrame holds a subscription a row: `id`, and either `text` (an expression), `document` (JSON in any form), or
`predicates` (the bulk form: JSON text, or an array of structs with attribute, operator and operand as JSON text) with
`event_types` if it likes. Its rows become a folder of segments, built by the driver.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tocsin.errors import FileError, ParseError, TocsinError
from tocsin.pipeline.open_index import IndexReference
from tocsin.pipeline.subscription_folder import is_folder, read_manifest, read_schema, write_folder
from tocsin.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STORES = ("sqlite:", "postgresql:", "postgresql+psycopg:")
SHOWN = 5


def reference_of(
    subscriptions: DataFrame | str | Path,
    schema: Schema | None,
    *,
    follow: bool,
    folder: str | Path | None = None,
    documents: bool = False,
    bad: Literal["fail", "skip"] = "fail",
) -> tuple[IndexReference, Schema]:
    """Return where the subscriptions are, and the schema; `follow` lets a folder's newer versions be taken up."""
    if isinstance(subscriptions, str | Path):
        return _named(subscriptions, schema, follow=follow)
    if schema is None:
        raise ParseError("subscriptions in a DataFrame need schema=…")
    place = Path(folder or tempfile.mkdtemp(prefix="tocsin-subscriptions-"))
    errors = write_folder(place, documents_of(subscriptions), schema, documents=documents)
    if errors and bad == "fail":
        listed = "\n".join(map(str, errors[:SHOWN]))
        raise ParseError(f"{len(errors)} subscriptions are wrong (bad_subscriptions='skip' leaves them out):\n{listed}")
    return IndexReference(str(place), version=None if follow else read_manifest(place).version), schema


def _named(place: str | Path, schema: Schema | None, *, follow: bool) -> tuple[IndexReference, Schema]:
    text = str(place)
    if is_folder(text):
        found = schema or read_schema(text)
        return IndexReference(text, version=None if follow else read_manifest(text).version), found
    if text.startswith(_STORES) or Path(text).is_file():
        from tocsin.pipeline.stores import open_store
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
