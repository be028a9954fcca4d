"""The definition against an independent judge: the same questions in SQL, answered by DuckDB.

SQL's logic of unknowns gives what the language's rule on binding gives: a condition on NULL is never true, and neither
is its negation. The translation below is written for this test alone and shares nothing with the code under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import pytest

from tocsin.language import bind, evaluate
from tocsin.language.syntax import And, Node, Not, Op, Or, Predicate, Subscription
from tocsin.schema import (
    BooleanDomain,
    EnumeratedDomain,
    Event,
    EventType,
    HierarchicalDomain,
    NumericDomain,
    Schema,
    TextDomain,
    TypeAttribute,
)

SUBSCRIPTIONS, EVENTS = 500, 400  # 200,000 pairs
TEXTS = [
    "",
    "a",
    "A",
    "mini",
    "Mini Cooper",
    "mini cooper",
    "straße",
    "日本",
    "🚀",
    "it's",
    "a%b",
    "a_b",
    "ab",
    "\uffff",
    "zz",
]
SIZES = ("S", "M", "L", "XL")
TREE = {"furniture": {"table": {"desk": {}}, "chair": {}}, "car": {"mini": {}}}
BELOW = {  # written out by hand, so that it does not come from the hierarchy's own numbering
    "furniture": ["furniture", "table", "desk", "chair"],
    "table": ["table", "desk"],
    "desk": ["desk"],
    "chair": ["chair"],
    "car": ["car", "mini"],
    "mini": ["mini"],
}
BIG = 2**53 + 1
POOLS: dict[str, list[Any]] = {
    "whole": [-3, 0, 1, 2, 7, 100, BIG, BIG - 1, -(2**60)],
    "real": [-1.5, 0.0, 0.1, 0.5, 2.5, 1e300, -1e-300],
    "text": TEXTS,
    "size": list(SIZES),
    "kind": list(BELOW),
    "flag": [True, False],
}
COLUMN_TYPES = {
    "whole": "BIGINT",
    "real": "DOUBLE",
    "text": "VARCHAR",
    "size": "VARCHAR",
    "kind": "VARCHAR",
    "flag": "BOOLEAN",
}
ATTRIBUTES = {f"{kind}_{number}": kind for kind in POOLS for number in (1, 2)}
EQUALITY = [Op.EQ, Op.NE, Op.IN, Op.PRESENT, Op.ABSENT]
ORDER = [Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN]
OPERATORS = {
    "whole": EQUALITY + ORDER,
    "real": EQUALITY + ORDER,
    "text": [*EQUALITY, *ORDER, Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS_TEXT, Op.LIKE, Op.MATCHES],
    "size": EQUALITY + ORDER,
    "kind": [*EQUALITY, Op.KIND_OF],
    "flag": EQUALITY,
}


def make_schema() -> Schema:
    domains = [
        NumericDomain(name="whole", type="int"),
        NumericDomain(name="real"),
        TextDomain(name="text"),
        EnumeratedDomain(name="size", values=SIZES, order="total"),
        HierarchicalDomain(name="kind", tree=TREE),
        BooleanDomain(name="flag"),
    ]
    entries = tuple(TypeAttribute(name, mandatory=False) for name in ATTRIBUTES)
    return Schema({domain.name: domain for domain in domains}, ATTRIBUTES, {"e": EventType("e", entries)})


# --- random subscriptions and their SQL -------------------------------------------------------------------------------


def random_node(random: Random, depth: int) -> Node:
    shape = random.random()
    if depth == 0 or shape < 0.3:
        return random_predicate(random)
    if shape < 0.45:
        return Not(random_node(random, depth - 1))
    parts = tuple(random_node(random, depth - 1) for _ in range(random.randint(2, 3)))
    return And(parts) if shape < 0.75 else Or(parts)


def random_predicate(random: Random) -> Predicate:
    name = random.choice(list(ATTRIBUTES))
    kind = ATTRIBUTES[name]
    op, pool = random.choice(OPERATORS[kind]), POOLS[kind]
    operand: Any = random.choice(pool)
    if op in (Op.PRESENT, Op.ABSENT):
        operand = None
    elif op is Op.IN:
        operand = tuple(random.sample(pool, random.randint(1, len(pool) - 1)))
    elif op is Op.BETWEEN:
        operand = (random.choice(pool), random.choice(pool))
    elif op in (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS_TEXT):
        start = random.randint(0, len(operand))
        operand = operand[start : start + random.randint(0, 3)]
    elif op is Op.MATCHES:
        operand = random.choice(["m", "^m.*i", "[a-c]o?", r"\s\w+$", "(?i)MINI", "^.$", "", "(ab|o)+p"])
    elif op is Op.LIKE:
        operand = random.choice(["%", "m%", "%i%", "_", "__", "a\\%b", "a_b", "%o_p%r", "", "Mini%", "%\\__"])
    return Predicate(name, op, operand)


def sql(node: Node) -> str:
    match node:
        case And(parts):
            return "(" + " AND ".join(map(sql, parts)) + ")"
        case Or(parts):
            return "(" + " OR ".join(map(sql, parts)) + ")"
        case Not(part):
            return f"(NOT {sql(part)})"
        case Predicate():
            return sql_predicate(node)
    raise AssertionError(node)


def sql_predicate(predicate: Predicate) -> str:
    name, operand, kind = f'"{predicate.attribute}"', predicate.operand, ATTRIBUTES[predicate.attribute]
    if predicate.op is Op.PRESENT:
        return f"({name} IS NOT NULL)"
    if predicate.op is Op.ABSENT:
        return f"({name} IS NULL)"
    if predicate.op is Op.STARTS_WITH:
        return f"starts_with({name}, {literal(operand)})"
    if predicate.op is Op.ENDS_WITH:
        return f"suffix({name}, {literal(operand)})"
    if predicate.op is Op.CONTAINS_TEXT:
        return f"contains({name}, {literal(operand)})"
    if predicate.op is Op.MATCHES:
        return f"regexp_matches({name}, {literal(operand)})"
    if predicate.op is Op.LIKE:
        return f"({name} LIKE {literal(operand)} ESCAPE '\\')"
    if predicate.op is Op.KIND_OF:
        return f"({name} IN ({', '.join(map(literal, BELOW[str(operand)]))}))"
    if kind == "size" and predicate.op in ORDER:  # by position in the declared order
        name, operand = f"list_position({list(SIZES)}, {name})", positions(operand)
    if predicate.op is Op.IN:
        return f"({name} IN ({', '.join(map(literal, operand))}))"  # type: ignore[arg-type]
    if predicate.op is Op.BETWEEN:
        low, high = map(literal, operand)  # type: ignore[arg-type]
        return f"({name} BETWEEN {low} AND {high})"
    return f"({name} {predicate.op} {literal(operand)})"


def positions(operand: Any) -> Any:
    return tuple(map(positions, operand)) if isinstance(operand, tuple) else SIZES.index(operand) + 1


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return f"CAST({value} AS BIGINT)"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return "'" + str(value).replace("'", "''") + "'"


# --- the comparison ---------------------------------------------------------------------------------------------------


def random_raw_event(random: Random) -> dict[str, Any]:
    return {name: random.choice(POOLS[kind]) for name, kind in ATTRIBUTES.items() if random.random() < 0.75}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def test_200_000_pairs_agree_with_duckdb(connection: duckdb.DuckDBPyConnection) -> None:
    random, schema = Random(20261115), make_schema()
    raws = [random_raw_event(random) for _ in range(EVENTS)]
    events: list[Event] = [schema.admit(raw) for raw in raws]
    columns = ", ".join(f'"{name}" {COLUMN_TYPES[kind]}' for name, kind in ATTRIBUTES.items())
    connection.execute(f"CREATE TABLE events (number INTEGER, {columns})")
    marks = ", ".join("?" * (1 + len(ATTRIBUTES)))
    rows = [[number, *(raw.get(name) for name in ATTRIBUTES)] for number, raw in enumerate(raws)]
    connection.executemany(f"INSERT INTO events VALUES ({marks})", rows)
    pairs = matches = 0
    for _ in range(SUBSCRIPTIONS):
        where = random_node(random, 3)
        bound = bind(Subscription((), where), schema)
        found = {row[0] for row in connection.execute(f"SELECT number FROM events WHERE {sql(where)}").fetchall()}
        answers = {number for number, event in enumerate(events) if evaluate(bound, event)}
        assert answers == found, where
        pairs += len(events)
        matches += len(found)
    assert pairs == 200_000
    assert pairs * 0.05 < matches < pairs * 0.95, "a check that is nearly always yes or no proves little"
