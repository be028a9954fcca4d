"""Events as Arrow columns: one for each attribute of a view, null where an event does not bind it.

    domain                      column
    numeric int                 int64; string where the declared bounds reach beyond 64 bits
    numeric float               float64
    numeric decimal             string, so that 0.10 stays a tenth
    text                        string
    enumerated, hierarchical    dictionary<int32, string>; the dictionary is the domain, an index is a value's key
    boolean                     bool
    time                        timestamp[us, UTC]
    point                       struct<lat: double, lon: double>
    object                      struct of its attributes, which are no columns of their own

A multiple attribute is a list of these; `event_type` always is. A number that its column cannot hold exactly (an int
beyond 64 bits in int64, an int that float64 would round) wants a domain that is decimal, or has wider bounds. Field
metadata names the domain and its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tocsin.schema.domain import Domain, NumericDomain, ObjectDomain
from tocsin.schema.event import Event
from tocsin.schema.event_type import EVENT_TYPE, View, ViewAttribute
from tocsin.schema.finite_domains import EnumeratedDomain, HierarchicalDomain
from tocsin.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def to_arrow(schema: Schema, event_types: Iterable[str] = ()) -> pa.Schema:
    """Return the Arrow schema of events of a view; of all event types where none is named."""
    import pyarrow as pa

    view = schema.view(event_types)
    fields = [_field(entry, view) for entry in view.attributes.values() if not _is_inner(entry.name, view)]
    names = [name for name in schema.event_types if name in view.event_types]
    return pa.schema(fields, metadata={"tocsin.version": str(schema.version), "tocsin.event_types": "\n".join(names)})


def events_from_arrow(batch: pa.RecordBatch, schema: Schema) -> list[Event]:
    """Return the events of a batch; raises EventRejected for the first row that the schema does not admit.

    Dictionaries may have become plain strings, columns may be missing or stand in any order, as other tools leave them.
    """
    columns = {name: _raw_column(batch, name, schema) for name in batch.schema.names}
    return [
        schema.admit({name: values[row] for name, values in columns.items() if values[row] is not None})
        for row in range(batch.num_rows)
    ]


# --- types ------------------------------------------------------------------------------------------------------------


def _is_inner(name: str, view: View) -> bool:
    """Return whether an attribute is one of the elements of an array of objects."""
    above = [name[:at] for at, sign in enumerate(name) if sign == "."]
    return any(outer in view.attributes and isinstance(view[outer].domain, ObjectDomain) for outer in above)


def _inner(array: str, view: View) -> list[tuple[str, ViewAttribute]]:
    """Return what elements of an array have, by the names that it has in them."""
    below = f"{array}."
    found = {name: entry for name, entry in view.attributes.items() if name.startswith(below)}
    deeper = [f"{name}." for name, entry in found.items() if isinstance(entry.domain, ObjectDomain)]
    return [(name.removeprefix(below), entry) for name, entry in found.items() if not name.startswith(tuple(deeper))]


def _type(entry: ViewAttribute, view: View) -> pa.DataType:
    import pyarrow as pa

    if not isinstance(entry.domain, ObjectDomain):
        return arrow_type(entry.domain)
    inner = _inner(entry.name, view)
    return pa.struct(
        [(name, pa.list_(kind) if one.multiple else kind) for name, one in inner for kind in [_type(one, view)]]
    )


def _field(entry: ViewAttribute, view: View) -> pa.Field:
    import pyarrow as pa

    value_type = _type(entry, view)
    metadata = {"tocsin.domain": entry.domain.name, "tocsin.kind": entry.domain.kind}
    if isinstance(entry.domain, NumericDomain):
        metadata["tocsin.type"] = entry.domain.type
    whole = pa.list_(value_type) if entry.multiple else value_type
    return pa.field(entry.name, whole, nullable=entry.name != EVENT_TYPE, metadata=metadata)


def arrow_type(domain: Domain) -> pa.DataType:
    """Return the type of one value."""
    import pyarrow as pa

    if isinstance(domain, NumericDomain):
        if _is_text(domain):
            return pa.string()
        return pa.int64() if domain.type == "int" else pa.float64()
    if isinstance(domain, EnumeratedDomain | HierarchicalDomain):
        return pa.dictionary(pa.int32(), pa.string())
    return {
        "text": pa.string(),
        "ip": pa.string(),
        "boolean": pa.bool_(),
        "time": pa.timestamp("us", "UTC"),
        "point": pa.struct([("lat", pa.float64()), ("lon", pa.float64())]),
    }[domain.kind]


def _is_text(domain: NumericDomain) -> bool:
    """Return whether the numbers are written as text, for want of a type that holds them all exactly."""
    low, high = domain.minimum, domain.maximum
    is_wide = (low is not None and low < _SMALLEST) or (high is not None and high > _LARGEST)
    return domain.type == "decimal" or (domain.type == "int" and is_wide)


def _raw_column(batch: pa.RecordBatch, name: str, schema: Schema) -> list[Any]:
    import pyarrow as pa

    column = batch.column(name)
    values: list[Any] = column.to_pylist()
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    value_type = column.type.value_type if is_list else column.type
    if name not in schema.attributes or not pa.types.is_string(value_type):
        return values
    read = schema.domain_of(name)
    if not isinstance(read, NumericDomain):
        return values
    if is_list:
        return [None if row is None else [read.from_text(text) for text in row] for row in values]
    return [None if text is None else read.from_text(text) for text in values]
