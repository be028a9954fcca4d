"""Random events as a record batch: each attribute as a column of one Arrow type, whatever of it that type can hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from random import Random
from typing import Any

import pyarrow as pa

from tocsin.schema import EVENT_TYPE, Domain, Element, Event, NumericDomain, Schema, Value
from tocsin.schema.event import admit_elements
from tocsin.schema.readings import DYNAMIC, ReadableAttributes, ReadableValues

DECIMAL = pa.decimal128(38, 12)


def as_arrow_has_them(random: Random, schema: Schema, events: Sequence[Event]) -> tuple[list[Event], pa.RecordBatch]:
    """Return the events without the numbers that their columns cannot hold, and the record batch of them."""
    names = list(dict.fromkeys(name for event in events for name in event.values))
    values: list[dict[str, tuple[Value, ...]]] = [{} for _ in events]
    columns: dict[str, pa.Array] = {}
    arrays = {name.partition(".")[0] for name in names if _domain(schema, name).kind == "object"}
    for name in arrays:
        columns[name] = _elements(schema, name, events, values)
    for name in names:
        if name.partition(".")[0] in arrays:
            continue
        domain = _domain(schema, name)
        number = domain if isinstance(domain, NumericDomain) else None
        kind = None if number is None else random.choice(_types(number))
        lists: list[list[object] | None] = []
        for event, kept in zip(events, values, strict=True):
            fitting = tuple(
                value for value in event.values.get(name, ()) if number is None or _fits(value, kind, number)
            )
            if fitting:
                kept[name] = fitting
            lists.append([_plain(value, kind) for value in fitting] or None)
        multiple = any(each is not None and len(each) > 1 for each in lists) or random.random() < 0.1
        if multiple:
            columns[name] = pa.array(lists, None if kind is None else pa.list_(kind))
        else:
            columns[name] = pa.array([each and each[0] for each in lists], kind)
    known = schema.view().attributes
    if isinstance(known, ReadableAttributes):
        return [Event(ReadableValues(kept, known)) for kept in values], pa.RecordBatch.from_pydict(columns)
    return [Event(kept) for kept in values], pa.RecordBatch.from_pydict(columns)


def _elements(
    schema: Schema, array: str, events: Sequence[Event], values: list[dict[str, tuple[Value, ...]]]
) -> pa.Array:
    """Return a column of an array of objects, lists of structs, and let the events have what it holds."""
    rows: list[Any] = []
    for event, kept in zip(events, values, strict=True):
        rows.append([_raw_element(schema, array, one) for one in event.values.get(array, ())] or None)
        elements = admit_elements(schema, array, rows[-1])
        for name in event.values if elements else ():
            found = dict.fromkeys(value for one in elements for value in one.get(name, ()))
            if name == array or found:
                kept[name] = elements if name == array else _distinct(schema, name, found)
    return pa.array(rows, pa.list_(_struct(schema, array)))


def _distinct(schema: Schema, name: str, values: Iterable[Value]) -> tuple[Value, ...]:
    key = schema.domain_of(name).key
    found: dict[object, Value] = {}
    for value in values:
        found.setdefault(value if isinstance(value, Element) else key(value), value)
    return tuple(found.values())


def _raw_element(schema: Schema, array: str, element: Any) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for name in _children(schema, array):
        domain, values = schema.domain_of(name), element.get(name, ())
        if domain.kind == "object":
            raw[name.rpartition(".")[2]] = [_raw_element(schema, name, one) for one in values]
        elif isinstance(domain, NumericDomain):
            fits = [
                value for value in values if _fits(value, pa.int64() if domain.type == "int" else pa.float64(), domain)
            ]
            raw[name.rpartition(".")[2]] = fits if domain.type == "int" else list(map(float, fits))
        else:
            raw[name.rpartition(".")[2]] = [_plain(value, None) for value in values]
    return raw


def _children(schema: Schema, array: str) -> list[str]:
    return [name for name in schema.attributes if name.rpartition(".")[0] == array]


def _struct(schema: Schema, array: str) -> pa.DataType:
    kinds = {
        "text": pa.string(),
        "boolean": pa.bool_(),
        "time": pa.timestamp("us", "UTC"),
        "point": pa.list_(pa.float64()),
    }
    fields = []
    for name in _children(schema, array):
        domain = schema.domain_of(name)
        kind = _struct(schema, name) if domain.kind == "object" else kinds.get(domain.kind, pa.string())
        if isinstance(domain, NumericDomain):
            kind = pa.int64() if domain.type == "int" else pa.float64()
        fields.append((name.rpartition(".")[2], pa.list_(kind)))
    return pa.struct(fields)


def _domain(schema: Schema, name: str) -> Domain:
    return schema.domain_of(name) if name in schema.attributes or name == EVENT_TYPE else DYNAMIC


def _types(domain: NumericDomain) -> list[pa.DataType]:
    if domain.type == "int":
        return [pa.int64(), pa.int32()]
    return [pa.int64(), pa.float64(), DECIMAL] if domain.type == "decimal" else [pa.int64(), pa.float64()]


def _fits(value: object, kind: pa.DataType, domain: NumericDomain) -> bool:
    """Return whether the type holds the number exactly; floats in a column of decimals are as they are written."""
    if pa.types.is_floating(kind):
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:
            return False
        return (Decimal(repr(number)) if domain.type == "decimal" else number) == value
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return isinstance(value, int) and -most <= value < most
    try:
        scaled = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale))  # type: ignore[arg-type]
    except InvalidOperation:
        return False
    return scaled == value and abs(scaled) < 10 ** (kind.precision - kind.scale)


def _plain(value: object, kind: pa.DataType | None) -> object:
    """Return the value as pyarrow takes it."""
    if isinstance(value, tuple):
        return list(value)
    if kind is not None and pa.types.is_floating(kind):
        return float(value)  # type: ignore[arg-type]
    return Decimal(value) if kind == DECIMAL else value  # type: ignore[arg-type]
