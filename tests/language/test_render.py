"""parse(render(x)) == x for every tree, and what rendered text looks like."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given

from tests.language import trees
from tocsin.errors import ParseError, TooLarge
from tocsin.language import (
    ALWAYS,
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
    render,
)
from tocsin.language.bounds import MAX_DEPTH
from tocsin.language.syntax import AttributeValue, Comparison, Constant, Expression, Literal, Negative


@given(trees.subscriptions())
def test_parsing_what_was_rendered_gives_the_subscription_back(tree: Subscription) -> None:
    assert parse(render(tree)) == tree


@given(trees.conditions())
def test_parsing_what_was_rendered_gives_the_condition_back(tree: Node) -> None:
    assert parse_condition(render(tree)) == tree


@given(trees.expressions())
def test_parsing_what_was_rendered_gives_the_expression_back(tree: Expression) -> None:
    assert parse_expression(render(tree)) == tree


@given(trees.literals())
def test_every_literal_comes_back_with_its_kind(value: Literal) -> None:
    back = parse_expression(render(Constant(value)))
    assert back == Constant(value)
    assert isinstance(back, Constant)
    assert isinstance(back.value, bool) == isinstance(value, bool)
    assert isinstance(back.value, str) == isinstance(value, str)


A, B, C = (Predicate(name, Op.EQ, 1) for name in "abc")


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (And((A, B, C)), "a = 1 and b = 1 and c = 1"),
        (And((And((A, B)), C)), "(a = 1 and b = 1) and c = 1"),
        (Or((And((A, B)), C)), "a = 1 and b = 1 or c = 1"),
        (And((Or((A, B)), C)), "(a = 1 or b = 1) and c = 1"),
        (Or((Or((A, B)), C)), "(a = 1 or b = 1) or c = 1"),
        (Not(A), "not (a = 1)"),
        (Not(Not(A)), "not (not (a = 1))"),
        (Not(Predicate("a", Op.IN, (1, 2))), "a not in (1, 2)"),
        (Not(Predicate("a", Op.CONTAINS, "x")), "a not contains 'x'"),
        (And((And(()), A)), "true and a = 1"),
        (Not(Or(())), "not false"),
    ],
)
def test_parentheses_show_the_nesting_of_the_tree(tree: Node, text: str) -> None:
    assert render(tree) == text
    assert parse_condition(text) == tree


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1300, "1300"),
        (-5, "-5"),
        (0.1, "0.1"),
        (Decimal("0.5"), "0.5"),
        (Decimal("0.1"), "decimal '0.1'"),
        (2**53 + 1, "9007199254740993"),
        (1e22, "1e+22"),
        (1e23, "1e+23"),
        (10**23, "100000000000000000000000"),
        ("O'Brien", "'O''Brien'"),
        (True, "true"),
        ((40.85, -73.88), "(40.85, -73.88)"),
    ],
)
def test_literals_are_written_plainly(value: Literal, text: str) -> None:
    assert render(Constant(value)) == text


def test_a_time_is_written_in_utc() -> None:
    assert render(Constant(datetime.fromisoformat("2026-11-15T11:00+01:00"))) == "time '2026-11-15T10:00:00Z'"


def test_a_subscription_to_everything_of_a_type_is_just_the_type() -> None:
    assert render(Subscription(("surf-board", "two words"), ALWAYS)) == 'surf-board, "two words"'


def test_a_subscription_to_everything_is_true() -> None:
    assert render(Subscription((), ALWAYS, (("age", 42),))) == "true with age = 42"


def test_an_attribute_beside_a_constant_is_marked_as_a_value() -> None:
    tree = Comparison(AttributeValue("price"), Op.LT, Constant(3))
    assert render(tree) == "+price < 3"
    assert parse_condition("+price < 3") == tree
    assert parse_condition("price < 3") == Predicate("price", Op.LT, 3)


def test_a_minus_before_digits_belongs_to_the_number() -> None:
    assert parse_expression("-5") == Constant(-5)
    assert parse_expression(render(Negative(Constant(5)))) == Negative(Constant(5))
    assert parse_expression(render(Negative(Constant(-5)))) == Negative(Constant(-5))


def test_the_deepest_tree_allowed_comes_back() -> None:
    tree: Node = A
    for level in range(MAX_DEPTH - 1):
        tree = Not(tree) if level % 3 else And((tree,) * 2) if level < 4 else Not(tree)
    assert parse_condition(render(tree)) == tree


def test_a_deeper_tree_is_refused() -> None:
    tree: Node = A
    for _ in range(100_000):
        tree = Not(tree)
    with pytest.raises(TooLarge, match="nested deeper"):
        render(tree)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), datetime(2026, 1, 1), None, [1]])  # noqa: DTZ001
def test_what_is_no_value_of_the_language_is_not_rendered(value: object) -> None:
    with pytest.raises(ParseError):
        render(Constant(value))  # type: ignore[arg-type]
