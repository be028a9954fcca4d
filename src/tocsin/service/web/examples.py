"""Examples: values that fill a form of an event, also so that a given subscription would match it.

For people who want to see something arrive: an example is a proposal that they can change, never stored by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tocsin.language.syntax import Op
from tocsin.schema import EVENT_TYPE, NumericDomain, View, ViewAttribute
from tocsin.schema.domain import is_number
from tocsin.service.web.builder import Row
from tocsin.service.web.fields import choices_of

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
        texts = _fitting(attribute, row)
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


def _fitting(attribute: ViewAttribute, row: Row) -> list[str]:
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
