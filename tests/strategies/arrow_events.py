"""Events as Arrow batches, in the columns that `to_arrow` gives a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tocsin.schema import Event, NumericDomain, ObjectDomain, Schema, TimeDomain, View
from tocsin.schema.arrow import to_arrow


def fits(schema: Schema, event: Event) -> bool:
    """Return whether the columns hold every number of an event exactly."""
    return all(_fits(schema, name, value) for name, values in event.values.items() for value in values)


def _fits(schema: Schema, name: str, value: Any) -> bool:
    domain = schema.domain_of(name)
    if isinstance(domain, ObjectDomain):
        return all(_fits(schema, inner, one) for inner, values in value.items() for one in values)
    if not isinstance(domain, NumericDomain) or domain.type == "decimal":
        return True
    if domain.type == "int":
        wide = (domain.minimum or 0) < -(2**63) or (domain.maximum or 0) > 2**63 - 1
        return wide or -(2**63) <= value < 2**63
    return abs(value) < 2**1023 and bool(float(value) == value)


def events_to_arrow(events: Sequence[Event], schema: Schema) -> pa.RecordBatch:
    """Return the events as one batch, a row each; they must fit."""
    kinds, view = to_arrow(schema), schema.view()
    columns = [
        pa.array([_raw(event.values, field.name, field.type, view) for event in events], field.type) for field in kinds
    ]
    return pa.RecordBatch.from_arrays(columns, schema=kinds)


def _raw(values: Mapping[str, Any], name: str, kind: pa.DataType, view: View) -> Any:
    if name not in values:
        return None
    is_list = pa.types.is_list(kind)
    held = [_held(name, value, kind.value_type if is_list else kind, view) for value in values[name]]
    return held if is_list else held[0]


def _held(name: str, value: Any, kind: pa.DataType, view: View) -> Any:
    domain = view[name].domain
    if isinstance(domain, ObjectDomain):
        return {field.name: _raw(value, f"{name}.{field.name}", field.type, view) for field in kind}
    if isinstance(domain, TimeDomain):
        return domain.key(value)
    if domain.kind == "point":
        return {"lat": value[0], "lon": value[1]}
    if not isinstance(domain, NumericDomain):
        return value
    return str(value) if pa.types.is_string(kind) else float(value) if pa.types.is_floating(kind) else value
