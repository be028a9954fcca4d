"""Rows of an Arrow batch as raw events, for the schema to admit one by one.

This is the exact way, and the slow one: admission.py takes it only for rows that the columnar way cannot decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.errors import EventRejected, Violation
from tocsin.pipeline.layout import Layout

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BYTES = 256 << 10  # of an event as JSON


def raw_rows(batch: pa.RecordBatch, layout: Layout) -> list[dict[str, Any] | EventRejected]:
    """Return each row as a raw event, or why it is none (JSON that cannot be read)."""
    if layout.whole is not None:
        return [_decode_whole(text) for text in batch.column(layout.whole).to_pylist()]
    plain = [(name, _values(batch.column(name))) for name in layout.plain]
    embedded = [(name, batch.column(name).to_pylist()) for name in layout.json]
    rows: list[dict[str, Any] | EventRejected] = []
    for at in range(batch.num_rows):
        row = {name: values[at] for name, values in plain if values[at] is not None}
        try:
            row |= {name: _decode(name, texts[at]) for name, texts in embedded if texts[at] is not None}
        except EventRejected as error:
            rows.append(error)
        else:
            rows.append(row)
    return rows


def _decode_whole(text: str | bytes | None) -> dict[str, Any] | EventRejected:
    try:
        found = _decode("the event", text)
    except EventRejected as error:
        return error
    if not isinstance(found, dict):
        return EventRejected([Violation("not an object", None, f"an event is an object, not {type(found).__name__}")])
    return found


def _decode(what: str, text: str | bytes | None) -> Any:
    if text is None:
        raise EventRejected([Violation("not an object", None, f"{what} is null")])
    if len(text) > MAX_BYTES:
        raise EventRejected([Violation("too large", None, f"{what} has more than {MAX_BYTES} bytes")])
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventRejected([Violation("not an object", None, f"{what} is not JSON: {error}")]) from None
    except RecursionError:
        raise EventRejected([Violation("too large", None, f"{what} is nested too deeply")]) from None


def _values(column: pa.Array) -> list[Any]:
    """Return the values as JSON-like Python objects: maps as dictionaries, at any depth."""
    values: list[Any] = column.to_pylist()
    if not _holds_map(column.type):
        return values
    return [_without_maps(value, column.type) for value in values]


def _holds_map(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_map(kind):
        return True
    return any(_holds_map(kind.field(at).type) for at in range(kind.num_fields))


def _without_maps(value: Any, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_map(kind):
        return {str(key): _without_maps(inner, kind.item_type) for key, inner in value}
    if pa.types.is_struct(kind):
        return {
            kind.field(at).name: _without_maps(value[kind.field(at).name], kind.field(at).type)
            for at in range(kind.num_fields)
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_without_maps(inner, kind.value_type) for inner in value]
    return value
