"""Random worlds: a schema, subscriptions over it and events that meet them, from one source of randomness.

`random_schema`, `random_subscription` and `random_event` take a `random.Random`, so that the fuzzer runs them fast by a
seed, and Hypothesis through `st.randoms()`. Values come from small pools: most predicates are near some event.
"""

from __future__ import annotations

import random as stdlib_random
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from tests.strategies.schemas import ADDRESSES, MEMBERS, NUMBERS, POINTS, TEXTS, TIMES, schemas
from tocsin.errors import BadValue
from tocsin.language.syntax import (
    PATTERN_OPERATORS,
    And,
    Box,
    Node,
    Not,
    Op,
    Or,
    Polygon,
    Predicate,
    Subscription,
    TextPatterns,
    Within,
    WordAnd,
    WordNot,
    WordOr,
    WordPattern,
    Words,
)
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
    View,
    ViewAttribute,
)

Random = stdlib_random.Random
WORDS = ["a", "mini", "cooper", "old", "wooden", "chair", "strasse", "日本", "語", "ok", "x", "y", "missing"]
MORE_TEXTS = [
    "old mini",
    "mini old",
    "a b a",
    "chair, wooden; old!",
    "Old WOODEN chair ok",
    "x y x y",
    "%_\\",
    "a%b",
    "ab",
]
# Some of the points lie on edges and corners of polygons of these.
CORNERS = [
    (-90.0, -180.0),
    (-90.0, 180.0),
    (0.0, 0.0),
    (40.85, -73.88),
    (40.85, 10.0),
    (0.0, 0.2),
    (90.0, 3.0),
    (-10.0, -0.12),
    (81.7, -147.76),
]
NETWORKS = ["10.0.0.0/8", "10.0.0.0/15", "10.1.2.3/32", "0.0.0.0/0", "2001:db8::/32", "::/0"]
REGEXES = [
    "a",
    "^m",
    "i+n",
    r"\w+ \w+",
    "(oo|ra)[ßs]",
    "e.*e$",
    ".",
    "^$",
    "x?",
    "Mini|日",
    r"(?i)O'b",
    "st.{1,3}e",
    "[A-Z]",
]
PATTERNS = ["%", "a%", "%a", "%i%", "_", "mini%", "%o_d%", "a\\%b", "a", "%e%e%", "M_ni%r", "%%", "x%y_"]
LOOSE_TEXTS = [
    *TEXTS,
    "0",
    "1",
    "2.5",
    "-3",
    "1e3",
    "true",
    "false",
    "2026-11-15T10:00:00Z",
    "2026-11-16T10:00:00+01:00",
]
_BY_KIND: dict[str, list[Any]] = {
    "numeric": NUMBERS,
    "text": [*TEXTS, *MORE_TEXTS],
    "time": TIMES,
    "point": POINTS,
    "ip": ADDRESSES,
    "dynamic": LOOSE_TEXTS,
}


def worlds() -> st.SearchStrategy[tuple[Schema, Random]]:
    """Return a schema, and the randomness to draw subscriptions and events over it."""
    return st.tuples(schemas(), st.randoms(use_true_random=False))


# --- schemas ----------------------------------------------------------------------------------------------------------


def random_schema(random: Random) -> Schema:
    """Return a schema with a domain of every kind, and attributes both unique and multiple over each."""
    values = tuple(random.sample(MEMBERS, 5))
    members = random.sample(MEMBERS, 7)
    less = tuple((values[at], values[at + 1]) for at in range(4) if random.random() < 0.6)
    every: list[Domain] = [
        NumericDomain(name="int", type="int"),
        NumericDomain(name="float"),
        NumericDomain(name="decimal", type="decimal"),
        TextDomain(name="text"),
        TextDomain(name="folded", case="folded"),
        EnumeratedDomain(name="enumerated", values=values),
        EnumeratedDomain(name="ordered", values=values, order="total"),
        EnumeratedDomain(name="partial", values=values, order="partial", less=less),
        HierarchicalDomain(name="hierarchical", tree=_random_tree(random, members)),
        BooleanDomain(name="boolean"),
        TimeDomain(name="time"),
        PointDomain(name="point"),
        IpDomain(name="ip"),
    ]
    domains = {domain.name: domain for domain in every}
    attributes = {f"{name}{number}": name for name in domains for number in (1, 2)}
    event_types = {name: _random_type(random, name, list(attributes)) for name in ("car", "antique", "surf-board")}
    return Schema(domains, attributes, event_types)


def _random_tree(random: Random, members: list[str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    places = [tree]
    for member in members:
        below: dict[str, Any] = {}
        random.choice(places)[member] = below
        places.append(below)
    return tree


def _random_type(random: Random, name: str, attributes: list[str]) -> EventType:
    chosen = random.sample(attributes, random.randint(6, 14))
    return EventType(
        name, tuple(TypeAttribute(each, random.random() < 0.2, random.random() < 0.4) for each in sorted(chosen))
    )


# --- events -----------------------------------------------------------------------------------------------------------


def random_event(random: Random, schema: Schema) -> dict[str, Any]:
    """Return a raw event that the schema admits."""
    types = random.sample(list(schema.event_types), min(len(schema.event_types), random.choice([1, 1, 1, 2])))
    raw: dict[str, Any] = {EVENT_TYPE: types}
    for name, entry in schema.view(types).attributes.items():
        if name != EVENT_TYPE and (entry.mandatory or random.random() < 0.7):
            values = raw_values(random, schema.view(types), name)
            if values is not None:
                raw[name] = values
    return raw


def raw_values(random: Random, view: View, name: str) -> Any:
    """Return raw values of an attribute; None where they are part of an array of objects."""
    arrays = [each for each, entry in view.attributes.items() if entry.domain.kind == "object"]
    if any(name.startswith(f"{array}.") for array in arrays):
        return None
    return _elements(random, view, name, arrays) if name in arrays else _several(random, view[name])


def _several(random: Random, entry: ViewAttribute) -> list[Any]:
    count = random.randint(1, 3) if entry.multiple else 1
    return [random.choice(raw_pool(entry.domain)) for _ in range(count)]


def _elements(random: Random, view: View, array: str, arrays: list[str]) -> Any:
    found: list[dict[str, Any]] = []
    for _ in range(random.choice([0, 1, 1, 2, 3, 4])):
        element: dict[str, Any] = {}
        for name, entry in view.attributes.items():
            above = max((other for other in arrays if name.startswith(f"{other}.")), key=len, default=None)
            if above == array and random.random() < 0.6:
                inner = name.removeprefix(f"{array}.")
                if name in arrays:
                    element[inner] = _elements(random, view, name, arrays)
                else:
                    few = _several(random, entry)
                    element[inner] = few if random.random() < 0.2 else few[0]
        found.append(element)
    return found[0] if len(found) == 1 and random.random() < 0.3 else found


def raw_pool(domain: Domain) -> list[Any]:
    """Return raw values that the domain admits."""
    if isinstance(domain, EnumeratedDomain | HierarchicalDomain):
        return list(domain.values)
    if isinstance(domain, BooleanDomain):
        return [False, True]
    return [raw for raw in _BY_KIND[domain.kind] if _admits(domain, raw)]


def _admits(domain: Domain, raw: object) -> bool:
    try:
        domain.admit(raw)
    except BadValue:
        return False
    return True


# --- subscriptions ----------------------------------------------------------------------------------------------------


def random_subscription(
    random: Random, schema: Schema, *, depth: int = 3, operators: frozenset[Op] | None = None
) -> Subscription:
    """Return a subscription that binds to the schema, with only these operators where some are given."""
    types = random.sample(list(schema.event_types), random.randint(0, min(2, len(schema.event_types))))
    view = schema.view(types)
    return Subscription(tuple(types), _node(random, list(view.attributes.values()), depth, operators))


def _node(random: Random, entries: list[ViewAttribute], depth: int, operators: frozenset[Op] | None) -> Node:
    shape = random.random()
    if depth == 0 or shape < 0.35:
        return random_predicate(random, entries, operators)
    if shape < 0.45:
        return Not(_node(random, entries, depth - 1, operators))
    parts = tuple(_node(random, entries, depth - 1, operators) for _ in range(random.choice([0, 1, 2, 2, 2, 3])))
    return And(parts) if shape < 0.8 else Or(parts)


def random_predicate(random: Random, entries: list[ViewAttribute], operators: frozenset[Op] | None = None) -> Predicate:
    """Return a predicate on one of the attributes."""
    for _ in range(20):
        entry = random.choice(entries)
        possible = sorted(set(usable_operators(entry)) & (operators or set(Op)))
        if possible:
            op = random.choice(possible)
            return Predicate(entry.name, op, _operand(random, entry, op))
    return Predicate(entries[0].name, Op.PRESENT)


def usable_operators(entry: ViewAttribute) -> list[Op]:
    """Return the operators that a predicate on the attribute may use."""
    offered, domain = entry.domain.offered, entry.domain
    usable = [Op(name) for name in sorted(offered) if name not in ("contains", "within", "in box", "in polygon")]
    if "like" in offered:
        usable += [Op.ENDS_WITH, Op.CONTAINS_TEXT, Op.MATCHES, Op.IN_NETWORK]
    if isinstance(domain, TextDomain) and "contains" in offered:
        usable += [Op.CONTAINS, Op.CONTAINS_ANY, Op.CONTAINS_ALL]
    if not isinstance(domain, TextDomain) and entry.multiple and "=" in offered:
        usable += [Op.CONTAINS, Op.CONTAINS_ANY, Op.CONTAINS_ALL]
    if "=" in offered:
        usable.append(Op.IN)
    if {"<=", ">="} <= offered:
        usable.append(Op.BETWEEN)
    usable += [op for op in (Op.WITHIN, Op.IN_BOX, Op.IN_POLYGON) if op in offered]
    return [*usable, Op.PRESENT, Op.ABSENT]


def _operand(random: Random, entry: ViewAttribute, op: Op) -> Any:
    domain = entry.domain
    if op in (Op.PRESENT, Op.ABSENT):
        return None
    if isinstance(domain, TextDomain) and op in (Op.CONTAINS, Op.CONTAINS_ANY, Op.CONTAINS_ALL):
        return _word_operand(random, op)
    if op in PATTERN_OPERATORS:
        if random.random() < 0.5:
            return _pattern_text(random, op)
        texts = tuple(_pattern_text(random, op) for _ in range(random.choice([1, 2, 2, 4])))
        return TextPatterns(texts, every=random.random() < 0.3, ignoring_case=random.random() < 0.6)
    if op is Op.WITHIN:
        return _within(random, domain)
    if op is Op.IN_BOX:
        south, north = sorted(random.choices([-90, -10.5, 0, 40.85, 51.5, 90], k=2))
        return Box(south, *_one(random, [-180.0, -73.88, 0.0]), north, *_one(random, [0.1, 10.0, 180.0, -100.0]))  # type: ignore[call-arg]
    if op is Op.IN_POLYGON:
        return Polygon(tuple(random.sample(CORNERS, random.choice([3, 3, 4, 6]))))
    if op in (Op.IN, Op.CONTAINS_ANY, Op.CONTAINS_ALL):
        return tuple(random_literal(random, domain) for _ in range(random.randint(1, 4)))
    if op is Op.BETWEEN:
        return random_literal(random, domain), random_literal(random, domain)
    return random_literal(random, domain)


def _pattern_text(random: Random, op: Op) -> str:
    if op is Op.LIKE:
        return random.choice(PATTERNS)
    if op is Op.MATCHES:
        return random.choice(REGEXES)
    if op is Op.IN_NETWORK:
        return random.choice(NETWORKS)
    text = str(random.choice(_BY_KIND["text"]))
    start = random.randint(0, len(text))
    return text[start : start + random.choice([0, 1, 2, 3, 5, 9])]


def _one(random: Random, options: list[float]) -> list[float]:
    return [random.choice(options)]


def random_literal(random: Random, domain: Domain) -> Any:
    """Return an operand: of a numeric domain any number will do, also one that is not in it."""
    pool = NUMBERS if isinstance(domain, NumericDomain) else raw_pool(domain)
    raw = random.choice(pool)
    if isinstance(domain, PointDomain):
        return domain.admit(raw)
    if isinstance(raw, datetime):
        return raw.astimezone(UTC)
    return raw


def _word_operand(random: Random, op: Op) -> Any:
    if op is Op.CONTAINS:
        return " ".join(random.choices(WORDS, k=random.randint(1, 3))) if random.random() < 0.4 else _pattern(random, 2)
    return tuple(" ".join(random.choices(WORDS, k=random.choice([1, 1, 2]))) for _ in range(random.randint(1, 3)))


def _pattern(random: Random, depth: int) -> WordPattern:
    shape = random.random()
    if depth == 0 or shape < 0.5:
        words = tuple(random.choices(WORDS, k=random.choice([1, 1, 2, 3])))
        gaps = tuple((least, least + random.randint(0, 3)) for least in random.choices([0, 0, 1, 2], k=len(words) - 1))
        return Words(words, gaps)
    if shape < 0.6:
        return WordNot(_pattern(random, depth - 1))
    parts = tuple(_pattern(random, depth - 1) for _ in range(2))
    return WordAnd(parts) if shape < 0.8 else WordOr(parts)


def _within(random: Random, domain: Domain) -> Within:
    if isinstance(domain, TimeDomain):
        unit = random.choice(["seconds", "minutes", "hours", "days", "weeks"])
        return Within(random.choice([0, 1, 2.5, 0.000001]), unit, random_literal(random, domain))
    return Within(
        random.choice([0, 1, 500, 6000, 0.5]), random.choice(["m", "km", "mi"]), random_literal(random, domain)
    )
