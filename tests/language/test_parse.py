"""The text form: what it says."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tocsin.errors import Span
from tocsin.language import (
    ALWAYS,
    NEVER,
    And,
    Node,
    Not,
    Op,
    Or,
    Predicate,
    Subscription,
    parse,
    parse_condition,
    parse_expression,
)
from tocsin.language.syntax import (
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
    OperatorCall,
    Variable,
    Within,
    WordAnd,
    WordNot,
    WordOr,
    WordPattern,
    Words,
)

A, B, C = (Predicate(name, Op.EQ, 1) for name in "abc")
TEN = datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("car", Subscription(("car",), ALWAYS)),
        ("car, antique", Subscription(("car", "antique"), ALWAYS)),
        ("surf-board", Subscription(("surf-board",), ALWAYS)),
        ("mp3-player-2, x", Subscription(("mp3-player-2", "x"), ALWAYS)),
        ('"two words", "and"', Subscription(("two words", "and"), ALWAYS)),
        ("car where a = 1", Subscription(("car",), A)),
        ("CAR WHERE a = 1", Subscription(("CAR",), A)),
        ("a = 1", Subscription((), A)),
        ("where a = 1", Subscription((), A)),
        ("true", Subscription((), ALWAYS)),
        ("car where false", Subscription(("car",), NEVER)),
        ("car with age = 42", Subscription(("car",), ALWAYS, (("age", 42),))),
        ("with age = 42", Subscription((), ALWAYS, (("age", 42),))),
        ("a = 1 with x = 'y', z = -2.5", Subscription((), A, (("x", "y"), ("z", -2.5)))),
    ],
)
def test_event_types_conditions_and_properties_are_each_optional(text: str, expected: Subscription) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1 and b = 1 and c = 1", And((A, B, C))),
        ("a = 1 or b = 1 or c = 1", Or((A, B, C))),
        ("a = 1 or b = 1 and c = 1", Or((A, And((B, C))))),
        ("(a = 1 or b = 1) and c = 1", And((Or((A, B)), C))),
        ("(a = 1 and b = 1) and c = 1", And((And((A, B)), C))),
        ("not a = 1 and b = 1", And((Not(A), B))),
        ("not (a = 1 and b = 1)", Not(And((A, B)))),
        ("not not a = 1", Not(Not(A))),
        ("((a = 1))", A),
        ("A=1 AND b=1", And((Predicate("A", Op.EQ, 1), B))),
        ("true and a = 1", And((ALWAYS, A))),
    ],
)
def test_connectives_bind_as_in_sql_and_chains_are_flat(text: str, expected: Node) -> None:
    assert parse_condition(text) == expected


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("=", Op.EQ),
        ("==", Op.EQ),
        ("!=", Op.NE),
        ("<>", Op.NE),
        ("<", Op.LT),
        ("<=", Op.LE),
        (">", Op.GT),
        (">=", Op.GE),
    ],
)
def test_comparisons(text: str, op: Op) -> None:
    assert parse_condition(f"price{text}3") == Predicate("price", op, 3)


@pytest.mark.parametrize(
    ("text", "op"), [("=", Op.EQ), ("<>", Op.NE), ("<", Op.GT), ("<=", Op.GE), (">", Op.LT), (">=", Op.LE)]
)
def test_a_constant_on_the_left_is_turned_around(text: str, op: Op) -> None:
    assert parse_condition(f"5 {text} (price)") == Predicate("price", op, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a in (1, 'x', -2)", Predicate("a", Op.IN, (1, "x", -2))),
        ("a in ((1, 2), (3, 4))", Predicate("a", Op.IN, ((1.0, 2.0), (3.0, 4.0)))),
        ("a in ((1, 2))", Predicate("a", Op.IN, ((1.0, 2.0),))),
        ("a in (1 + 1, 2 * 3)", Predicate("a", Op.IN, (2, 6))),
        ("a in (time '2026-11-15T10:00Z', decimal '0.1')", Predicate("a", Op.IN, (TEN, Decimal("0.1")))),
        ("a in ( -- first\n 1, 2)", Predicate("a", Op.IN, (1, 2))),
        ("a not in ('x')", Not(Predicate("a", Op.IN, ("x",)))),
        ("a between 1 and 2 and b = 1", And((Predicate("a", Op.BETWEEN, (1, 2)), B))),
        ("a not between 1 and 2", Not(Predicate("a", Op.BETWEEN, (1, 2)))),
        ("a contains 'x y'", Predicate("a", Op.CONTAINS, "x y")),
        ("a contains 5", Predicate("a", Op.CONTAINS, 5)),
        ("a contains (5)", Predicate("a", Op.CONTAINS, 5)),
        ("a contains (1, 2)", Predicate("a", Op.CONTAINS, (1.0, 2.0))),
        ("a not contains 'x'", Not(Predicate("a", Op.CONTAINS, "x"))),
        ("a contains any ('x', 'y z')", Predicate("a", Op.CONTAINS_ANY, ("x", "y z"))),
        ("a contains all ('x')", Predicate("a", Op.CONTAINS_ALL, ("x",))),
        ("a kind of 'x'", Predicate("a", Op.KIND_OF, "x")),
        ("a starts  with 'x'", Predicate("a", Op.STARTS_WITH, "x")),
        ("a like 'x%'", Predicate("a", Op.LIKE, "x%")),
        ("a not like 'x%'", Not(Predicate("a", Op.LIKE, "x%"))),
        ("a within 5 km of (40.85, -73.88)", Predicate("a", Op.WITHIN, Within(5, "km", (40.85, -73.88)))),
        ("a within 5km of (1, 2)", Predicate("a", Op.WITHIN, Within(5, "km", (1.0, 2.0)))),
        ("a within 1.5 miles of (1, 2)", Predicate("a", Op.WITHIN, Within(1.5, "mi", (1.0, 2.0)))),
        ("a within 1 hour of time '2026-11-15T10:00Z'", Predicate("a", Op.WITHIN, Within(1, "hours", TEN))),
        ("a in box (1, -2, 3, 4)", Predicate("a", Op.IN_BOX, Box(1.0, -2.0, 3.0, 4.0))),
        ("a is present", Predicate("a", Op.PRESENT)),
        ("a is absent", Predicate("a", Op.ABSENT)),
        ("a is not present", Predicate("a", Op.ABSENT)),
        ("a is not absent", Predicate("a", Op.PRESENT)),
        ("a IS NULL", Predicate("a", Op.ABSENT)),
        ("a is not null", Predicate("a", Op.PRESENT)),
    ],
)
def test_operators_that_are_words(text: str, expected: Node) -> None:
    assert parse_condition(text) == expected


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("('boolean')", Words(("boolean",))),
        ("('boolean' near[1..5] 'proximity')", Words(("boolean", "proximity"), ((1, 5),))),
        ("'a' NEAR [ 0 .. 0 ] 'b' near[1..2] 'c'", Words(("a", "b", "c"), ((0, 0), (1, 2)))),
        (
            "('a' and not 'b' or 'c')",
            WordOr((WordAnd((Words(("a",)), WordNot(Words(("b",))))), Words(("c",)))),
        ),
        ("('a' and ('b' or 'c'))", WordAnd((Words(("a",)), WordOr((Words(("b",)), Words(("c",))))))),
    ],
)
def test_word_patterns(text: str, pattern: WordPattern) -> None:
    assert parse_condition(f"title contains {text}") == Predicate("title", Op.CONTAINS, pattern)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1300", 1300),
        ("-5", -5),
        ("+5", 5),
        (".5", 0.5),
        ("1e3", 1000),
        ("9007199254740993", 2**53 + 1),
        ("0.1000000000000000000000001", Decimal("0.1000000000000000000000001")),
        ("'O''Brien -- no comment'", "O'Brien -- no comment"),
        ("''", ""),
        ("'line\nbreak'", "line\nbreak"),
        ("TRUE", True),
        ("time '2026-11-15 11:00+01:00'", TEN),
        ("(40.85, -73.88)", (40.85, -73.88)),
        ("2 * 650", 1300),
        ("(1 + 2) * 3 - 4 / 2", 7),
        ("0.1 + 0.2", 0.3),
        ("1 / 3 * 3", 1),
        ("-(2 + 3)", -5),
        ("7 % 4", 3),
        ("time '2026-11-15T08:00Z' + 2 hours", TEN),
        ("90 minutes + time '2026-11-15T08:30Z'", TEN),
        ("time '2026-11-22T10:00Z' - 1 week", TEN),
        ("time '2026-11-15T09:00Z' + (time '2026-11-15T10:00Z' - time '2026-11-15T09:00Z')", TEN),
        ("time '2026-11-15T09:00Z' + 2 * 30 minutes", TEN),
    ],
)
def test_constants_are_read_exactly_and_folded(text: str, value: Literal) -> None:
    found = parse_condition(f"x < {text}")
    assert found == Predicate("x", Op.LT, value)
    assert isinstance(found, Predicate)
    assert type(found.operand) is type(value)


X, Y, Z = Variable("x"), Variable("y"), Variable("z")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("locIn('Bronx')", OperatorCall("locIn", (Constant("Bronx"),))),
        ("now()", OperatorCall("now", ())),
        ('"my op"(?x, 2)', OperatorCall("my op", (X, Constant(2)))),
        ("?y > 2 * ?z", Comparison(Y, Op.GT, Arithmetic("*", Constant(2), Z))),
        ("?x > 2 * 3", Comparison(X, Op.GT, Arithmetic("*", Constant(2), Constant(3)))),
        ("(f(x)) > 3", Comparison(Call("f", (AttributeValue("x"),)), Op.GT, Constant(3))),
        (
            "program('p', age) > 3",
            Comparison(Call("program", (Constant("p"), AttributeValue("age"))), Op.GT, Constant(3)),
        ),
        ("price < cost", Comparison(AttributeValue("price"), Op.LT, AttributeValue("cost"))),
        ("price * 2 < 3", Comparison(Arithmetic("*", AttributeValue("price"), Constant(2)), Op.LT, Constant(3))),
        ("?x between 1 and 3", And((Comparison(X, Op.GE, Constant(1)), Comparison(X, Op.LE, Constant(3))))),
        ("?x in (1, 2)", Or((Comparison(X, Op.EQ, Constant(1)), Comparison(X, Op.EQ, Constant(2))))),
        ("?x in (1)", Comparison(X, Op.EQ, Constant(1))),
    ],
)
def test_operators_variables_and_constraints(text: str, expected: Node) -> None:
    assert parse_condition(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", Arithmetic("+", Constant(1), Arithmetic("*", Constant(2), Constant(3)))),
        ("1 - 2 - 3", Arithmetic("-", Arithmetic("-", Constant(1), Constant(2)), Constant(3))),
        ("-age", Negative(AttributeValue("age"))),
        ("- -?x", Negative(Negative(X))),
        ("case when a = 1 then ?x end", Case(((A, X),), None)),
        (
            "case when a = 1 then 1 when b = 1 or c = 1 then 2 else -?x end",
            Case(((A, Constant(1)), (Or((B, C)), Constant(2))), Negative(X)),
        ),
    ],
)
def test_value_expressions(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


@pytest.mark.parametrize(
    "name",
    ["time", "decimal", "near", "kind", "of", "starts", "within", "box", "any", "present", "km", "null", "hours"],
)
def test_words_that_are_keywords_only_in_their_place_are_names_elsewhere(name: str) -> None:
    assert parse_condition(f"{name} = 1") == Predicate(name, Op.EQ, 1)
    assert parse_condition(f"{name} kind of 'x' or {name} starts with 'y'") == Or(
        (Predicate(name, Op.KIND_OF, "x"), Predicate(name, Op.STARTS_WITH, "y"))
    )


@pytest.mark.parametrize("name", ["and", "or", "not", "in", "where", "with", "is", "case", "true"])
def test_keywords_are_names_in_double_quotes(name: str) -> None:
    assert parse(f'"{name}" where "{name}" = 1') == Subscription((name,), Predicate(name, Op.EQ, 1))


def test_names_have_letters_of_any_script_digits_and_dots() -> None:
    assert parse_condition("größe.日本_1.0 = 1") == Predicate("größe.日本_1.0", Op.EQ, 1)


def test_comments_run_to_the_end_of_the_line() -> None:
    assert parse("car -- the type\nwhere -- it's cheap\n a = 1 -- done") == Subscription(("car",), A)


def test_nodes_know_where_they_stood() -> None:
    text = "car where 5 < price and brand in ('a', 'b')"
    parts = parse(text).where
    assert isinstance(parts, And)
    first, second = parts.parts
    assert isinstance(first, Predicate)
    assert isinstance(second, Predicate)
    assert parse(text).event_type_spans == (Span(0, 3),)
    assert (first.span, first.operand_span, first.attribute_span) == (Span(10, 19), Span(10, 11), Span(14, 19))
    assert second.operand_span == Span(33, 43)


def test_the_grammar_is_loaded_by_the_first_text_only() -> None:
    script = "import sys, tocsin.language; assert 'lark' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
