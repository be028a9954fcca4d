"""Random well-typed formulas and rows for them, from one source of randomness."""

from __future__ import annotations

import random as stdlib_random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tocsin.errors import FormulaFailed
from tocsin.language.formula import (
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INT,
    POINT,
    TEXT,
    TIME,
    Function,
    Scope,
    one_value,
)
from tocsin.language.semantics import Row
from tocsin.language.syntax import (
    And,
    Arithmetic,
    AttributeValue,
    Call,
    Case,
    Comparison,
    Constant,
    Expression,
    Negative,
    Node,
    Not,
    Op,
    OperatorCall,
    Or,
    Predicate,
    Variable,
    Within,
)
from tocsin.schema import Domain, EnumeratedDomain, HierarchicalDomain, TextDomain

Random = stdlib_random.Random

SIZE = EnumeratedDomain(name="size", values=("S", "M", "L"), order="total")
RANK = EnumeratedDomain(name="rank", values=("a", "b", "c"), order="partial", less=(("a", "b"),))
KIND = HierarchicalDomain(name="kind", tree={"x": {"y": {}, "z": {}}, "w": {}})
FOLDED = TextDomain(name="folded", case="folded")

NAMES: dict[str, Domain] = {
    **{"i": INT, "j": INT, "f": FLOAT, "g": FLOAT, "d": DECIMAL, "t": TEXT, "u": TEXT, "v": FOLDED},
    **{"size": SIZE, "fits": SIZE, "rank": RANK, "kind": KIND, "b": BOOLEAN, "w": TIME, "p": POINT, "tags": TEXT},
}
INTS = [0, 1, -1, 2, 7, 40, 2**53 + 1, 2**62, -(2**63), 2**63 - 1, 2**64, -(10**30)]
FLOATS = [0.5, -2.25, 1e300, -1e-300, 2.0**53 + 2, 3, 0, 1e16]
DECIMALS = [Decimal("0.1"), Decimal("-2.50"), 3, Decimal(1) / 3]
TEXTS = ["", "a", "B", "b", "mini", "S", "x"]
TIMES = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 2, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC)]
POINTS = [(0.0, 0.0), (40.85, -73.88)]
COMPARISONS = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]
SMALL = [0, 1, -1, 2, 7, 40]


def _half(number: int) -> int:
    if number % 2:
        raise FormulaFailed("odd")
    return number // 2


FUNCTIONS = {
    "half": Function("half", (INT,), INT, _half),
    "ratio": Function("ratio", (FLOAT, FLOAT), FLOAT, lambda a, b: None if b == 0 else a / b if abs(b) > 1 else "high"),
    "positive": Function("positive", (FLOAT,), BOOLEAN, lambda a: a > 0),
    "initial": Function("initial", (TEXT,), TEXT, lambda text: text[:1]),
}
SCOPE = Scope(
    {name: replace(one_value(name, domain), multiple=name == "tags") for name, domain in NAMES.items()},
    {"x": INT, "y": FLOAT},
    lambda name, _first: FUNCTIONS.get(name),
    {"alias": "i"},
)
_VALUES: dict[str, list[Any]] = {
    **{"i": INTS, "j": SMALL, "f": FLOATS, "g": FLOATS, "d": DECIMALS, "t": TEXTS, "u": TEXTS, "v": TEXTS},
    **{"size": list(SIZE.values), "fits": list(SIZE.values), "rank": list(RANK.values), "kind": ["x", "y", "z", "w"]},
    **{"b": [True, False], "w": TIMES, "p": POINTS, "?x": SMALL, "?y": FLOATS},
}


def random_row(random: Random) -> dict[str, Any]:
    """Return values for the names and variables, some absent, as their domains have them: a tuple of several for tags."""
    domains = {**NAMES, "?x": INT, "?y": FLOAT}
    row: dict[str, Any] = {}
    for name, values in _VALUES.items():
        if random.random() < 0.85:
            row[name] = domains[name].admit(random.choice(values))
    if random.random() < 0.7:
        row["tags"] = tuple(random.sample(TEXTS, 2))
    return row


def rows_of(given: Mapping[str, Any]) -> Row:
    """Return the row of these values: of one each, but for tags."""
    return {name: value if name == "tags" else (value,) for name, value in given.items()}


def random_value(random: Random, depth: int = 3) -> Expression:
    """Return an expression of numbers, or now and then of texts."""
    return _text(random, depth) if random.random() < 0.2 else _number(random, depth)


def _arithmetic(random: Random, depth: int) -> Expression:
    left, right = _number(random, depth), _number(random, depth)
    op = random.choice("+-*/%")
    if op in "/%" and not isinstance(right, AttributeValue | Variable):  # constants alone may be zero
        right = AttributeValue("j")
    return Arithmetic(op, left, right)


def _number(random: Random, depth: int) -> Expression:
    shape = random.choice(["name", "name", "constant", "variable", *(["+", "+", "-", "case", "call"] if depth else [])])
    match shape:
        case "name":
            return AttributeValue(random.choice(["i", "j", "j", "f", "g", "alias", "d"]))
        case "constant":
            numbers: list[Any] = [*INTS, 0.5, -2.25, 1e300, Decimal("0.10000000000000000000001")]
            return Constant(random.choice(numbers))
        case "variable":
            return Variable(random.choice("xy"))
        case "-":
            return Negative(_number(random, depth - 1))
        case "case":
            branches = [(_simple(random, depth - 1), _number(random, depth - 1)) for _ in range(random.randint(1, 2))]
            return Case(tuple(branches), _number(random, depth - 1) if random.random() < 0.7 else None)
        case "call":
            if random.random() < 0.3:
                part = random.choice(["year", "quarter", "month", "week", "day", "weekday", "hour", "minute", "second"])
                return Call(part, (_time(random, depth - 1), *_zone(random)))
            if random.random() < 0.3:
                bits = random.choice(["bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"])
                return Call(bits, (_number(random, depth - 1), _number(random, depth - 1)))
            if random.random() < 0.5:
                return Call("half", (AttributeValue(random.choice("ij")),))
            return Call("ratio", (_number(random, depth - 1), _number(random, depth - 1)))
        case _:
            return _arithmetic(random, depth - 1)


def _text(random: Random, depth: int) -> Expression:
    shape = random.choice(["name", "name", "constant", *(["case", "call"] if depth else [])])
    match shape:
        case "name":
            return AttributeValue(random.choice("tuv"))
        case "constant":
            return Constant(random.choice(TEXTS))
        case "call":
            return Call("initial", (_text(random, depth - 1),))
        case _:
            return Case(((_simple(random, depth - 1), _text(random, depth - 1)),), _text(random, depth - 1))


DURATIONS = [
    timedelta(0),
    timedelta(hours=2),
    timedelta(microseconds=-1),
    timedelta(days=900_000),
    timedelta(days=-400),
]
ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia"]


def _time(random: Random, depth: int) -> Expression:
    """Return an expression of times."""
    shape = random.choice(["name", "name", "constant", *(["+", "-", "day"] if depth else [])])
    match shape:
        case "name":
            return AttributeValue("w")
        case "constant":
            return Constant(random.choice(TIMES))
        case "day":
            return Call("start_of_day", (_time(random, depth - 1), *_zone(random)))
        case op:
            left = _time(random, depth - 1)  # constants alone may leave the calendar
            return Arithmetic(
                op, AttributeValue("w") if isinstance(left, Constant) else left, _duration(random, depth - 1)
            )


def _zone(random: Random) -> tuple[Expression, ...]:
    return (Constant(random.choice(ZONES)),) if random.random() < 0.7 else ()


def _duration(random: Random, depth: int) -> Expression:
    """Return an expression of lengths of time."""
    shape = random.choice(["constant", "constant", *(["between", "+", "*", "-"] if depth else [])])
    match shape:
        case "constant":
            return Constant(random.choice(DURATIONS))
        case "between":
            return Arithmetic("-", _time(random, depth - 1), _time(random, depth - 1))
        case "*":
            return Arithmetic("*", _duration(random, depth - 1), AttributeValue(random.choice("ij")))
        case "-":
            return Negative(_duration(random, depth - 1))
        case _:
            return Arithmetic("+", _duration(random, depth - 1), _duration(random, depth - 1))


def _simple(random: Random, depth: int) -> Node:
    return random_condition(random, min(depth, 1))


def random_condition(random: Random, depth: int = 3) -> Node:
    """Return a condition with every kind of node."""
    shape = random.choice(["compare", "compare", "predicate", "call", *(["and", "or", "not"] if depth else [])])
    match shape:
        case "compare":
            return _comparison(random, max(depth - 1, 0))
        case "predicate":
            return _predicate(random)
        case "call":
            return OperatorCall("positive", (_number(random, max(depth - 1, 0)),))
        case "not":
            return Not(random_condition(random, depth - 1))
        case _:
            parts = tuple(random_condition(random, depth - 1) for _ in range(random.randint(0, 3)))
            return And(parts) if shape == "and" else Or(parts)


def _comparison(random: Random, depth: int) -> Node:
    op = random.choice(COMPARISONS)
    which = random.random()
    if which < 0.6:
        return Comparison(_number(random, depth), op, _number(random, depth))
    if which < 0.8:
        return Comparison(_text(random, depth), op, _text(random, depth))
    if which < 0.9:
        sides = (_time, _time) if random.random() < 0.6 else (_duration, _duration)
        return Comparison(sides[0](random, depth), op, sides[1](random, depth))
    pairs = [("size", "fits"), ("kind", "kind"), ("w", "w"), ("t", "size")]
    left, right = random.choice(pairs)
    ordered = left != "t"
    return Comparison(AttributeValue(left), op if ordered else random.choice([Op.EQ, Op.NE]), AttributeValue(right))


def _predicate(random: Random) -> Predicate:
    name = random.choice([*_VALUES][:-2])

    def some() -> Any:
        return random.choice(_VALUES[name])

    if random.random() < 0.15:
        return Predicate("tags" if random.random() < 0.5 else name, random.choice([Op.PRESENT, Op.ABSENT]))
    match NAMES[name].kind:
        case "numeric":
            op = random.choice([*COMPARISONS, Op.IN, Op.BETWEEN])
        case "text":
            return Predicate(
                name, random.choice([*COMPARISONS, Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS_TEXT, Op.LIKE]), some()
            )
        case "hierarchical":
            return Predicate(name, random.choice([Op.EQ, Op.KIND_OF, Op.LT]), some())
        case "time":
            if random.random() < 0.3:
                return Predicate(name, Op.WITHIN, Within(2, "hours", some()))
            op = random.choice([*COMPARISONS, Op.IN, Op.BETWEEN])
        case "point":
            return Predicate(name, Op.WITHIN, Within(5, "km", some()))
        case "boolean":
            return Predicate(name, random.choice([Op.EQ, Op.NE]), some())
        case _:
            op = random.choice(COMPARISONS)
    if name == "t" and random.random() < 0.3:
        return Predicate("tags", Op.CONTAINS, "mini")
    if op is Op.IN:
        return Predicate(name, op, (some(), some()))
    return Predicate(name, op, (some(), some()) if op is Op.BETWEEN else some())
