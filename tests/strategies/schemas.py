"""Random schemas with every kind of domain, and raw events that are valid over them.

`schemas()` and `raw_events(schema)` draw mostly from small pools, so that events and predicates meet often, with the
odd values (big integers, tenths, folded case, empty and foreign text) in the pools rather than left to chance.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import strategies as st

from tocsin.errors import BadValue
from tocsin.schema import (
    EVENT_TYPE,
    BooleanDomain,
    Domain,
    EnumeratedDomain,
    EventType,
    HierarchicalDomain,
    IpDomain,
    NumericDomain,
    PointDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
)

KINDS = ("numeric", "text", "enumerated", "hierarchical", "boolean", "time", "point", "ip")

DOMAIN_NAMES = ["1", "2", "money", "colour", "d e", "größe", "a<b&'c", "x.y", "-", "日本"]
ATTRIBUTE_NAMES = ["price", "a", "b", "a.b", "seller.name", "seller.rating", "Ünï cödé", "select", "x-1", "it's", "1st"]
TYPE_NAMES = ["car", "antique", "surf-board", "item", "two words", "été", "a,b"]
MEMBERS = [
    "red",
    "green",
    "blue",
    "S",
    "M",
    "L",
    "with space",
    "a,b",
    "<&>",
    "été",
    "it's",
    'say "x"',
    "tab\tnew\nline",
]

NUMBERS: list[int | float | Decimal] = [
    *(0, 1, 2, 3, 5, 7, 9, -1, -4, 100, 1300),
    *(0.5, 2.5, 0.1, 2.0, -0.0, 1e-7, 99.25, 1.5e300),
    *(2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, 2**64, 10**30, float(2**60)),
    *(Decimal("0.1"), Decimal("2.50"), Decimal("0.1000000000000000000000000000000001"), Decimal("1E+3")),
]
TEXTS = [
    "",
    "a",
    "A",
    "mini",
    "Mini Cooper",
    "straße",
    "STRASSE",
    "old wooden chair",
    "日本 語",
    "🚀 ok",
    "O'Brien",
    "x\ty\n",
    "10.1.2.3",
    "2001:DB8::1",
]
TIMES: list[str | datetime] = [
    "2026-11-15T10:00:00Z",
    "2026-11-15T11:00:00+01:00",  # the same instant
    "2026-11-15T10:00:00.000001Z",
    "1969-12-31T23:59:59.999999-00:30",
    "0001-01-01T00:00:00Z",
    datetime(2026, 11, 15, 10, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=14))),
]
POINTS: list[Any] = [
    *([0, 0], [40.85, -73.88], (-90, 180), [-0.0, 0.1], {"lat": 40.85, "lon": -73.88}),
    {"latitude": 51.5, "longitude": -0.12},
]


ADDRESSES = [
    "10.1.2.3",
    "10.0.0.0",
    "9.255.255.255",
    "11.0.0.0",
    "255.255.255.255",
    "::",
    "::1",
    "2001:DB8:0::1",
    "2001:db8:ffff::",
]


# --- schemas ----------------------------------------------------------------------------------------------------------


@st.composite
def schemas(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, max_attributes: int = 6) -> Schema:
    """Return a valid schema with domains of these kinds, at least one attribute and one event type."""
    names = draw(st.lists(st.sampled_from(DOMAIN_NAMES), min_size=1, max_size=4, unique=True))
    domains = {name: draw(domain_named(name, kinds)) for name in names}
    attributes = draw(
        st.dictionaries(st.sampled_from(ATTRIBUTE_NAMES), st.sampled_from(names), min_size=1, max_size=max_attributes)
    )
    types = draw(st.lists(st.sampled_from(TYPE_NAMES), min_size=1, max_size=3, unique=True))
    event_types = {name: EventType(name, draw(_triples(list(attributes)))) for name in types}
    return Schema(domains, attributes, event_types, version=draw(st.integers(1, 9)))


def _triples(attributes: list[str]) -> st.SearchStrategy[tuple[TypeAttribute, ...]]:
    one = st.builds(TypeAttribute, st.sampled_from(attributes), st.booleans(), st.booleans())
    return st.lists(one, max_size=5, unique_by=lambda entry: entry.attribute).map(tuple)


@st.composite
def domain_named(draw: st.DrawFn, name: str, kinds: tuple[str, ...] = KINDS) -> Domain:
    """Return a domain of that name, of one of these kinds, sometimes with fewer operators than its kind allows."""
    kind = draw(st.sampled_from(kinds))
    domain: Domain = draw(_BY_KIND[kind](name))
    if draw(st.integers(0, 4)):
        return domain
    operators = draw(st.frozensets(st.sampled_from(sorted(domain.offerable()))))
    return msgspec.structs.replace(domain, operators=operators)


def domains(kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Domain]:
    """Return domains of these kinds under any name."""
    return st.sampled_from(DOMAIN_NAMES).flatmap(lambda name: domain_named(name, kinds))


def _numeric(name: str) -> st.SearchStrategy[Domain]:
    return st.builds(
        NumericDomain,
        name=st.just(name),
        type=st.sampled_from(["int", "float", "decimal"]),
        minimum=st.sampled_from([None, None, 0, -5, 0.5, -(2**70)]),
        maximum=st.sampled_from([None, None, 9, 1300.0, 99.25, 2**64]),
    )


def _text(name: str) -> st.SearchStrategy[Domain]:
    return st.builds(
        TextDomain,
        name=st.just(name),
        case=st.sampled_from(["sensitive", "folded"]),
        max_length=st.sampled_from([None, None, 5]),
    )


@st.composite
def _enumerated(draw: st.DrawFn, name: str) -> Domain:
    values = tuple(draw(st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=6, unique=True)))
    order: Any = draw(st.sampled_from(["none", "total", "partial"]))
    pairs = [(low, high) for at, low in enumerate(values) for high in values[at + 1 :]]
    less = draw(st.lists(st.sampled_from(pairs), max_size=5, unique=True)) if order == "partial" and pairs else []
    return EnumeratedDomain(name=name, values=values, order=order, less=tuple(less))


@st.composite
def _hierarchical(draw: st.DrawFn, name: str) -> Domain:
    members = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=8, unique=True))
    tree: dict[str, Any] = {}
    places = [tree]
    for member in members:
        below: dict[str, Any] = {}
        places[draw(st.integers(0, len(places) - 1))][member] = below
        places.append(below)
    return HierarchicalDomain(name=name, tree=tree)


_BY_KIND: dict[str, Any] = {
    "numeric": _numeric,
    "text": _text,
    "enumerated": _enumerated,
    "hierarchical": _hierarchical,
    "boolean": lambda name: st.just(BooleanDomain(name=name)),
    "time": lambda name: st.just(TimeDomain(name=name)),
    "point": lambda name: st.just(PointDomain(name=name)),
    "ip": lambda name: st.just(IpDomain(name=name)),
}


# --- events -----------------------------------------------------------------------------------------------------------


def raw_values(domain: Domain) -> st.SearchStrategy[Any]:
    """Return raw values that the domain admits."""
    if isinstance(domain, EnumeratedDomain | HierarchicalDomain):
        return st.sampled_from(domain.values)
    if domain.kind == "boolean":
        return st.booleans()
    pools: dict[str, list[Any]] = {"numeric": NUMBERS, "text": TEXTS, "time": TIMES, "point": POINTS, "ip": ADDRESSES}
    pool = pools[domain.kind]
    return st.sampled_from([raw for raw in pool if _admits(domain, raw)])


def _admits(domain: Domain, raw: object) -> bool:
    try:
        domain.admit(raw)
    except BadValue:
        return False
    return True


@st.composite
def raw_events(draw: st.DrawFn, schema: Schema) -> dict[str, Any]:
    """Return a raw event that the schema admits: nulls, several values, dotted names flat or nested."""
    types = draw(st.lists(st.sampled_from(list(schema.event_types)), min_size=1, max_size=2, unique=True))
    raw: dict[str, Any] = {EVENT_TYPE: types[0] if len(types) == 1 and draw(st.booleans()) else types}
    for name, entry in schema.view(types).attributes.items():
        if name == EVENT_TYPE:
            continue
        how = draw(st.sampled_from(["bound", "bound", "bound", "absent", "null", "empty"]))
        if entry.mandatory or how == "bound":
            bound = draw(st.lists(raw_values(entry.domain), min_size=1, max_size=3 if entry.multiple else 1))
            _put(schema, raw, name, bound if entry.multiple or draw(st.booleans()) else bound[0])
        elif how != "absent":
            _put(schema, raw, name, None if how == "null" else [])
    return raw


def _put(schema: Schema, raw: dict[str, Any], name: str, value: object) -> None:
    """Bind a name; as a nested object where nothing else claims the name above it."""
    above, dot, last = name.partition(".")
    if dot and above not in schema.attributes:
        raw.setdefault(above, {})[last] = value
    else:
        raw[name] = value
