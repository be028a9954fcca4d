"""Recall: a held subscription as a condition again, read back from the rows of its segment.

Nothing but rows is kept of a subscription, since they say all that it asks: not in the words of its owner, but with the same
meaning. Explanations are told of what is recalled.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tocsin.compile.normalise import needed_by
from tocsin.compile.table import Column, ConjunctionTable, PredicateKind
from tocsin.index.explain import table_of
from tocsin.language.bind import BoundSubscription, bind_condition
from tocsin.language.documents import node_from_json
from tocsin.language.syntax import And, Box, Node, Not, Op, Or, Predicate, Subscription
from tocsin.language.text_patterns import predicate_of_key
from tocsin.operators.questions import trusted_scope
from tocsin.schema import EVENT_TYPE, BooleanDomain, EnumeratedDomain, HierarchicalDomain, IpDomain, TimeDomain

if TYPE_CHECKING:
    from tocsin.index.segment import Segment
    from tocsin.language.formula import Operators
    from tocsin.schema import Schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVERYWHERE = {"latitude": (-90.0, 90.0), "longitude": (-180.0, 180.0)}


def recalled(segment: Segment, number: int, schema: Schema, operators: Operators) -> BoundSubscription:
    """Return a subscription of a segment as a bound one."""
    rows = np.zeros(len(segment.alive_rows()), np.bool_)
    rows[segment.rows_of(number)] = True
    table = table_of(segment, rows)
    scope = trusted_scope(schema, operators)
    parts = list(dict.fromkeys(_conjunction(table, at) for at in range(len(table))))
    where = bind_condition(parts[0] if len(parts) == 1 else Or(tuple(parts)), scope).root
    return BoundSubscription(Subscription((), where), schema.view(), properties=segment.properties_of(number))


def _conjunction(table: ConjunctionTable, at: int) -> Node:
    nodes: list[Node] = []
    places: dict[str, dict[str, tuple[float, float]]] = {}  # attribute -> coordinate -> interval
    predicates = range(int(table.offset[at]), int(table.offset[at + 1]))
    whole = any(table.kind[p] == PredicateKind.CHECK and table.checks[table.low[p]].whole for p in predicates)
    for p in predicates:
        column, kind = table.columns[table.column[p]], PredicateKind(int(table.kind[p]))
        low, high = int(table.low[p]), int(table.high[p])
        if whole and kind is not PredicateKind.CHECK and column.attribute != EVENT_TYPE:
            continue  # it follows from the whole condition
        if kind is PredicateKind.CHECK:
            nodes.append(node_from_json(msgspec.json.decode(table.checks[low].expression)))
        elif kind is PredicateKind.PRESENT or kind is PredicateKind.ABSENT:
            nodes.append(Predicate(column.attribute, Op.PRESENT if kind is PredicateKind.PRESENT else Op.ABSENT))
        elif column.derivation in _EVERYWHERE:
            ends = _ends(table, kind, low, high)[0]
            places.setdefault(column.attribute, {})[column.derivation] = _coordinates(column, *ends)
        else:
            each = [_interval(column, *ends) for ends in _ends(table, kind, low, high)]
            found = each[0] if len(each) == 1 else Or(tuple(each))
            nodes.append(Not(found) if kind in (PredicateKind.NONE_IN, PredicateKind.NONE_OF) else found)
    for attribute, found_at in places.items():
        south, north = found_at.get("latitude", _EVERYWHERE["latitude"])
        west, east = found_at.get("longitude", _EVERYWHERE["longitude"])
        nodes.append(Predicate(attribute, Op.IN_BOX, Box(south, west, north, east)))
    implied = {Predicate(name, Op.PRESENT) for node in nodes for name in needed_by(node)}
    nodes = [node for node in nodes if node not in implied]
    return nodes[0] if len(nodes) == 1 else And(tuple(nodes))


def _ends(table: ConjunctionTable, kind: PredicateKind, low: int, high: int) -> list[tuple[int, int]]:
    """Return the intervals of codes that a predicate is about."""
    if kind in (PredicateKind.SOME_IN, PredicateKind.NONE_IN):
        return [(low, high)]
    members = range(int(table.set_offset[low]), int(table.set_offset[low + 1]))
    return [(int(table.set_low[at]), int(table.set_high[at])) for at in members]


def _coordinates(column: Column, low: int, high: int) -> tuple[float, float]:
    least, most = _EVERYWHERE[column.derivation]
    return (
        least if low == 0 else float(column.constants[(low - 1) // 2 if low % 2 == 0 else low // 2]),
        most if high >= 2 * len(column.constants) else float(column.constants[high // 2]),
    )


def _interval(column: Column, low: int, high: int) -> Node:
    """Return an interval of codes as predicates. An odd code is a constant, an even one lies beside one."""
    name, domain = column.attribute, column.domain
    if column.derivation == "words":
        return Predicate(name, Op.CONTAINS, _key(column, low))
    if column.derivation == "patterns":
        return predicate_of_key(name, _key(column, low))
    if isinstance(domain, EnumeratedDomain | HierarchicalDomain | BooleanDomain):
        values: tuple[Any, ...] = (False, True) if isinstance(domain, BooleanDomain) else domain.values
        first = 0 if low == 0 else _key(column, low) if low % 2 else _key(column, low - 1) + 1
        last = len(values) - 1 if high >= 2 * len(column.constants) else _key(column, high) - (high % 2 == 0)
        chosen = values[max(first, 0) : last + 1]
        return Predicate(name, Op.EQ, chosen[0]) if len(chosen) == 1 else Predicate(name, Op.IN, chosen)
    if low == high and low % 2:
        return Predicate(name, Op.EQ, _value(column, low))
    ends: list[Node] = []
    if low > 0:
        ends.append(Predicate(name, Op.GE if low % 2 else Op.GT, _value(column, low if low % 2 else low - 1)))
    if high < 2 * len(column.constants):
        ends.append(Predicate(name, Op.LE if high % 2 else Op.LT, _value(column, high)))
    return ends[0] if len(ends) == 1 else And(tuple(ends)) if ends else Predicate(name, Op.PRESENT)


def _key(column: Column, code: int) -> Any:
    return column.constants[code // 2 : code // 2 + 1].tolist()[0]


def _value(column: Column, code: int) -> Any:
    key = _key(column, code)
    if isinstance(column.domain, IpDomain):
        return column.domain.from_key(key)
    return _EPOCH + timedelta(microseconds=key) if isinstance(column.domain, TimeDomain) else key
