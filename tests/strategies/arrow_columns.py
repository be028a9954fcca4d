"""Random events as a record batch: each attribute as a column of one Arrow type, whatever of it that type can hold."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from random import Random

import pyarrow as pa

from tocsin.schema import EVENT_TYPE, Event, NumericDomain, Schema, Value
from tocsin.schema.readings import DYNAMIC, ReadableAttributes, ReadableValues

DECIMAL = pa.decimal128(38, 12)


def as_arrow_has_them(random: Random, schema: Schema, events: Sequence[Event]) -> tuple[list[Event], pa.RecordBatch]:
    """Return the events without the numbers that their columns cannot hold, and the record batch of them."""
    names = list(dict.fromkeys(name for event in events for name in event.values))
    values: list[dict[str, tuple[Value, ...]]] = [{} for _ in events]
    columns: dict[str, pa.Array] = {}
    for name in names:
        domain = schema.domain_of(name) if name in schema.attributes or name == EVENT_TYPE else DYNAMIC
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
