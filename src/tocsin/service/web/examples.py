"""Examples from the schema in force: a subscription, events, and lines for /try; so that pages speak of what is there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tocsin.errors import LanguageError
from tocsin.language.literals import render_string
from tocsin.language.render import render_name
from tocsin.language.syntax import Op
from tocsin.schema import EVENT_TYPE, NumericDomain, Schema, View, ViewAttribute
from tocsin.schema.domain import is_number
from tocsin.service.web.builder import Row, rows_of
from tocsin.service.web.event_form import choices_of, read_event

_LINES = 3
_BELOW, _ABOVE = frozenset({Op.LT, Op.NE}), frozenset({Op.GT})
_LISTS = frozenset({Op.IN, Op.CONTAINS_ANY, Op.BETWEEN})


def example_values(view: View, rows: Iterable[Row] = ()) -> dict[str, list[str]]:
    """Return attribute -> texts for an event of a view: what is mandatory, and what fits rows of conditions."""
    found = {
        attribute.name: [_any_value(attribute)]
        for attribute in view.attributes.values()
        if attribute.mandatory and attribute.name != EVENT_TYPE
    }
    for row in rows:
        attribute = view.attributes.get(row.attribute)
        if attribute is None or row.op == Op.ABSENT:
            continue
        texts = _fitting_values(attribute, row)
        if texts:
            found[row.attribute] = texts
    return found


def _any_value(attribute: ViewAttribute) -> str:
    """Return a value that the domain admits."""
    choices, domain = choices_of(attribute), attribute.domain
    if choices:
        return choices[-1][0]
    if isinstance(domain, NumericDomain):
        return str(domain.minimum + 1 if domain.minimum is not None else domain.maximum or 1)
    if domain.kind == "time":
        return (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:00Z")
    return "40.85, -73.88" if domain.kind == "point" else f"example {attribute.name.rpartition('.')[2]}"


def _fitting_values(attribute: ViewAttribute, row: Row) -> list[str]:
    """Return values that satisfy a condition, as far as that is easy; the first of several."""
    value = row.value.strip()
    if row.op == Op.PRESENT or not value:
        return [_any_value(attribute)]
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if row.op == Op.CONTAINS_ALL:
        return parts
    if row.op in _LISTS:
        return parts[:1]
    if is_number(value) and attribute.domain.kind == "numeric":
        return [_number(Decimal(value), row.op, attribute)]
    if row.op in _BELOW | _ABOVE:
        return _neighbour(attribute, value, row.op)
    return [value]


def _number(value: Decimal, op: str, attribute: ViewAttribute) -> str:
    """Return a number on the right side of a bound, within what the domain admits."""
    shifted = value / 2 if op in _BELOW and value > 0 else value - 1 if op in _BELOW else value + 1
    chosen = shifted if op in _BELOW | _ABOVE else value
    domain = attribute.domain
    if isinstance(domain, NumericDomain) and domain.type == "int":
        chosen = Decimal(int(chosen))
    return f"{chosen.normalize():f}"


def _neighbour(attribute: ViewAttribute, value: str, op: str) -> list[str]:
    """Return a listed value before or after another; nothing where values are not listed."""
    values = [one for one, _ in choices_of(attribute)]
    if value not in values:
        return []
    at = values.index(value) + (1 if op in _ABOVE else -1)
    return [values[at]] if 0 <= at < len(values) else [one for one in values if one != value][:1]


def fitting(schema: Schema, text: str) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the types and values of an event that a subscription would match, as far as its text tells."""
    try:
        parts = rows_of(text)
    except LanguageError:
        parts = None
    types, rows = parts if parts is not None else ((), [])
    types = tuple(name for name in types if name in schema.event_types)[:1] or tuple(schema.event_types)[:1]
    return types, example_values(schema.view(types), rows)


def example_event(schema: Schema, text: str) -> str:
    """Return such an event as JSON; nothing where the schema has no event type."""
    if not schema.event_types:
        return ""
    types, given = fitting(schema, text)
    return json.dumps(read_event(schema.view(types), given), ensure_ascii=False)


def example_subscription(schema: Schema) -> str:
    """Return a subscription that the schema admits: to its first event type, on an attribute of it."""
    for name in schema.event_types:
        view = schema.view([name])
        conditions = [_condition(one) for one in _usable(view)]
        return f"{render_name(name)} where {conditions[0]}" if conditions else render_name(name)
    return ""


def example_lines(schema: Schema) -> tuple[str, str] | None:
    """Return subscriptions and events, a line each, of the first event type; None where it has no plain attribute."""
    for name in schema.event_types:
        usable = [one for one in _usable(schema.view([name])) if "." not in one.name][:_LINES]
        if usable:
            subscriptions = [_condition(one) for one in usable]
            if len(usable) > 1:
                subscriptions.append(f"{subscriptions[0]} and not ({subscriptions[1]})")
            events = [json.dumps({one.name: _value(one, at) for one in usable}, ensure_ascii=False) for at in (0, 1)]
            return "\n".join(subscriptions), "\n".join(events)
    return None


def _usable(view: View) -> list[ViewAttribute]:
    """Return the attributes that an example can be made of: numbers first, then listed values, then texts."""
    order = {"numeric": 0, "enumerated": 1, "hierarchical": 1, "text": 2}
    found = [one for one in view.attributes.values() if one.name != EVENT_TYPE and one.domain.kind in order]
    return sorted(found, key=lambda one: (order[one.domain.kind], not one.mandatory))


def _value(attribute: ViewAttribute, which: int) -> Any:
    """Return one of two values that differ, the first of which satisfies the example's condition."""
    if attribute.domain.kind == "numeric":
        return (20, 2000)[which]
    choices = choices_of(attribute)
    if choices:
        return choices[-which][0]
    return (f"an example of {attribute.name}", f"another {attribute.name}")[which]


def _condition(attribute: ViewAttribute) -> str:
    name, value = render_name(attribute.name), _value(attribute, 0)
    if attribute.domain.kind == "numeric":
        return f"{name} < 100"
    if attribute.domain.kind == "text":
        return f"{name} contains 'example'"
    return f"{name} {'contains' if attribute.multiple else '='} {render_string(value)}"
