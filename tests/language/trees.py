"""Random syntax trees with every kind of node, for the round trips of the forms.

The trees are those that the language has: no connective of one part, no empty list, names and values within bounds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tocsin.language.syntax import (
    PATTERN_OPERATORS,
    And,
    Arithmetic,
    AttributeValue,
    Box,
    Call,
    Case,
    Comparison,
    Constant,
    Expression,
    Literal,
    Negative,
    Node,
    Not,
    Op,
    Operand,
    OperatorCall,
    Or,
    Polygon,
    Predicate,
    Subscription,
    TextPatterns,
    Variable,
    Within,
    WordAnd,
    WordNot,
    WordOr,
    WordPattern,
    Words,
)

ODD_NAMES = [
    *(
        "price",
        "seller.name",
        "a.0",
        "_x",
        "surf-board",
        "two words",
        "été",
        "日本",
        "x1",
        "1st",
        "-",
        "--",
        "a--b",
        "'",
    ),
    *(
        "and",
        "OR",
        "Not",
        "in",
        "is",
        "where",
        "with",
        "case",
        "end",
        "true",
        "FALSE",
        "null",
        "None",
        "contains",
        "like",
    ),
    *(
        "time",
        "decimal",
        "near",
        "kind",
        "of",
        "starts",
        "ends",
        "matches",
        "ignoring",
        "text",
        "all",
        "within",
        "box",
        "any",
        "present",
        "km",
        "hours",
        "m",
    ),
    *(
        'say "x"',
        '"',
        "a,b",
        "(x)",
        "?x",
        "x.",
        ".x",
        "a..b",
        " x",
        "tab\t",
        "line\nbreak",
        "İ",
        "ſtarts",
        "liKe",
        "²x",
    ),
    *("walk-in", "in-box", "a-where", "a-1", "a-3d", "time-out", "e.g-x", "a-", "-a", "kind of", "is present"),
]

TEXTS = ["", "'", "''", "O'Brien", "--", "a\nb", "\0", '"', "\\", "%_", "🚀", "‘x’"]
DECIMALS = [
    "0.1",
    "-0.1",
    "2.50",
    "1E+3",
    "1E-300",
    "-0",
    "0.1000000000000000000000000000001",
    "1e400",
    "-0." + "123456789" * 80,
]
INTEGERS = [0, -1, 2**53 + 1, 10**400, -(10**400)]
ZONES = [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=11, seconds=7))]
# Hypothesis wants these without zone; far enough from the ends to have the same in UTC.
FIRST_DAY, LAST_DAY = datetime(2, 1, 1), datetime(9998, 1, 1)  # noqa: DTZ001
UNITS = ["m", "km", "mi", "seconds", "minutes", "hours", "days", "weeks"]
COMPARISONS = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]

# Composites, so that what Hypothesis says of a strategy stays short.


@st.composite
def texts(draw: st.DrawFn) -> str:
    return draw(st.text(max_size=12) | st.sampled_from(TEXTS))


@st.composite
def names(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(ODD_NAMES) | st.text(min_size=1, max_size=8))


@st.composite
def numbers(draw: st.DrawFn) -> int | float | Decimal:
    decimals = st.decimals(allow_nan=False, allow_infinity=False, places=3) | st.sampled_from(DECIMALS).map(Decimal)
    floats = st.floats(allow_nan=False, allow_infinity=False)
    number: int | float | Decimal = draw(st.integers() | st.sampled_from(INTEGERS) | floats | decimals)
    return number


@st.composite
def literals(draw: st.DrawFn) -> Literal:
    instants = st.datetimes(FIRST_DAY, LAST_DAY, timezones=st.sampled_from(ZONES))
    value: Literal = draw(
        st.one_of(texts(), numbers(), st.booleans(), instants, st.tuples(_coordinates(), _coordinates()))
    )
    return value


def _coordinates() -> st.SearchStrategy[float]:
    return st.floats(-180, 180)


def _lists() -> st.SearchStrategy[tuple[Literal, ...]]:
    return st.lists(literals(), min_size=1, max_size=4).map(tuple)


# --- word patterns and predicates -------------------------------------------------------------------------------------


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> WordPattern:
    shape = draw(st.sampled_from(["words", "words", "and", "or", "not"] if depth else ["words"]))
    if shape == "words":
        words = tuple(draw(st.lists(texts(), min_size=1, max_size=3)))
        gaps = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda pair: (min(pair), max(pair)))
        return Words(words, tuple(draw(gaps) for _ in words[1:]))
    if shape == "not":
        return WordNot(draw(patterns(depth - 1)))
    parts = tuple(draw(st.lists(patterns(depth - 1), min_size=2, max_size=3)))
    return WordAnd(parts) if shape == "and" else WordOr(parts)


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    op = draw(st.sampled_from(Op))
    operand: Operand = draw(_operands(op))
    return Predicate(draw(names()), op, operand)


def _operands(op: Op) -> st.SearchStrategy[Any]:
    match op:
        case Op.IN | Op.CONTAINS_ANY | Op.CONTAINS_ALL:
            return _lists()
        case Op.BETWEEN:
            return st.tuples(literals(), literals())
        case Op.CONTAINS:
            return literals() | patterns()
        case Op.WITHIN:
            return st.builds(Within, numbers().map(abs), st.sampled_from(UNITS), literals())
        case Op.IN_POLYGON:
            corners = st.lists(st.tuples(_coordinates(), _coordinates()), min_size=1, max_size=5)
            return corners.map(tuple).map(Polygon)
        case Op.IN_BOX:
            return st.builds(Box, *[_coordinates()] * 4)
        case Op.PRESENT | Op.ABSENT:
            return st.none()
        case op if op in PATTERN_OPERATORS:
            listed = st.lists(texts(), min_size=1, max_size=3).map(tuple)
            return texts() | st.builds(TextPatterns, listed, st.booleans(), st.booleans())
        case _:
            return literals()


# --- conditions and expressions ---------------------------------------------------------------------------------------


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> Node:
    connectives = ["and", "or", "not", "and", "or"] if depth else []
    shape = draw(st.sampled_from(["predicate", "predicate", "call", "constraint", "empty", *connectives]))
    match shape:
        case "predicate":
            return draw(predicates())
        case "call":
            return OperatorCall(draw(names()), tuple(draw(st.lists(expressions(1), max_size=3))))
        case "constraint":
            return Comparison(draw(expressions(depth)), draw(st.sampled_from(COMPARISONS)), draw(expressions(depth)))
        case "empty":
            return And(()) if draw(st.booleans()) else Or(())
        case "not":
            return Not(draw(conditions(depth - 1)))
        case _:
            parts = tuple(draw(st.lists(conditions(depth - 1), min_size=2, max_size=3)))
            return And(parts) if shape == "and" else Or(parts)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Expression:
    compounds = ["arithmetic", "arithmetic", "negative", "call", "case"] if depth else []
    match draw(st.sampled_from(["constant", "attribute", "variable", *compounds])):
        case "constant":
            return Constant(draw(literals() | st.timedeltas()))
        case "attribute":
            return AttributeValue(draw(names()))
        case "variable":
            return Variable(draw(names()))
        case "arithmetic":
            return Arithmetic(
                draw(st.sampled_from("+-*/%")), draw(expressions(depth - 1)), draw(expressions(depth - 1))
            )
        case "negative":
            return Negative(draw(expressions(depth - 1)))
        case "call":
            return Call(draw(names()), tuple(draw(st.lists(expressions(depth - 1), max_size=3))))
        case _:
            branches = st.lists(st.tuples(conditions(0), expressions(depth - 1)), min_size=1, max_size=2).map(tuple)
            return Case(draw(branches), draw(st.none() | expressions(depth - 1)))


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    properties = draw(st.dictionaries(names(), literals(), max_size=3))
    return Subscription(tuple(draw(st.lists(names(), max_size=3))), draw(conditions()), tuple(properties.items()))
