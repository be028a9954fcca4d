"""The JSON tree: lossless, strict, bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from tests.language import trees
from tocsin.errors import LanguageError, ParseError, TooLarge
from tocsin.language import (
    ALWAYS,
    Node,
    Not,
    Op,
    Predicate,
    Subscription,
    expression_from_json,
    expression_to_json,
    from_json,
    node_from_json,
    node_to_json,
    parse,
    to_json,
)
from tocsin.language.syntax import Expression


@given(trees.subscriptions())
def test_a_subscription_comes_back_from_json_text(tree: Subscription) -> None:
    assert from_json(json.loads(json.dumps(to_json(tree)))) == tree


@given(trees.conditions())
def test_a_condition_comes_back_from_json_text(tree: Node) -> None:
    assert node_from_json(json.loads(json.dumps(node_to_json(tree)))) == tree


@given(trees.expressions())
def test_an_expression_comes_back_from_json_text(tree: Expression) -> None:
    assert expression_from_json(json.loads(json.dumps(expression_to_json(tree)))) == tree


def test_the_tree_is_readable() -> None:
    text = "car where price < 1300 and not (brand in ('mini', 'cooper')) and sold is absent with age = 42"
    assert to_json(parse(text)) == {
        "event_types": ["car"],
        "where": {"and": [["price", "<", 1300], {"not": ["brand", "in", ["mini", "cooper"]]}, ["sold", "is absent"]]},
        "with": {"age": 42},
    }


def test_values_without_a_json_type_are_tagged() -> None:
    text = "a = decimal '0.1' and b = time '2026-11-15T10:00Z' and c = (1.5, 2)"
    assert node_to_json(parse(text).where) == {
        "and": [
            ["a", "=", {"decimal": "0.1"}],
            ["b", "=", {"time": "2026-11-15T10:00:00Z"}],
            ["c", "=", {"point": [1.5, 2.0]}],
        ]
    }


def test_word_patterns_and_places_are_objects() -> None:
    text = "t contains ('a' near[1..5] 'b' and not 'c') and l within 5 km of (1, 2) and l in box (1, 2, 3, 4)"
    assert node_to_json(parse(text).where) == {
        "and": [
            ["t", "contains", {"words": {"and": [{"near": ["a", [1, 5], "b"]}, {"not": "c"}]}}],
            ["l", "within", {"amount": 5, "unit": "km", "of": {"point": [1.0, 2.0]}}],
            ["l", "in box", [1.0, 2.0, 3.0, 4.0]],
        ]
    }


def test_the_empty_object_asks_for_everything() -> None:
    assert from_json({}) == Subscription((), ALWAYS)


def test_a_connective_of_one_part_is_that_part() -> None:
    assert node_from_json({"and": [["a", "=", 1]]}) == Predicate("a", Op.EQ, 1)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (5, "a subscription is an object"),
        ([], "a subscription is an object"),
        ({"wehre": True}, "has no 'wehre'; did you mean where?"),
        ({"event_types": "car"}, "event_types: event_types is an array, not 'car'"),
        ({"event_types": [1]}, r"event_types\[0\]: an event type is a text, not 1"),
        ({"event_types": [""]}, r"event_types\[0\]: a name cannot be empty"),
        ({"where": 5}, "where: a condition is an array"),
        ({"where": {}}, "where: a condition is an array"),
        ({"where": {"adn": []}}, "where: 'adn' is not a condition; did you mean and"),
        ({"where": {"and": {}}}, "where.and: and is an array, not an object"),
        (
            {"where": {"and": [True, ["price", "<<", 1]]}},
            r"where.and\[1\]\[1\]: there is no operator '<<'; did you mean <",
        ),
        ({"where": {"and": [True], "or": []}}, "where: an and has no 'or'"),
        ({"where": {"not": [1]}}, "where.not: a predicate is an array"),
        ({"where": ["price"]}, "where: a predicate is an array"),
        ({"where": [1, "=", 1]}, r"where\[0\]: an attribute's name is a text, not 1"),
        ({"where": ["price", "is present", 1]}, "where: `is present` takes no operand"),
        ({"where": ["price", "<"]}, "where: `<` takes an operand"),
        ({"where": ["price", "<", None]}, r"where\[2\]: there is no null"),
        ({"where": ["price", "<", [1]]}, r"where\[2\]: expected one value, not an array"),
        ({"where": ["price", "<", {"x": 1}]}, r"where\[2\]: a value as an object is"),
        ({"where": ["price", "<", {"decimal": "x"}]}, r"where\[2\]: 'x' is not a number"),
        ({"where": ["price", "<", {"time": "noon"}]}, r"where\[2\]: 'noon' is not a time"),
        ({"where": ["price", "<", float("nan")]}, r"where\[2\]: a number is finite"),
        ({"where": ["price", "<", {"point": [1, "x"]}]}, r"where\[2\]: a point is a pair of numbers"),
        ({"where": ["price", "in", 1]}, r"where\[2\]: the operand of `in` is an array"),
        ({"where": ["price", "in", []]}, r"where\[2\]: the list of `in` is empty"),
        ({"where": ["price", "in", [1, None]]}, r"where\[2\]\[1\]: there is no null"),
        ({"where": ["price", "between", [1]]}, r"where\[2\]: `between` takes two values"),
        ({"where": ["place", "in box", [1, 2]]}, r"where\[2\]: a box has four corners"),
        ({"where": ["place", "within", {"amount": 1}]}, r'where\[2\]: the operand of `within` needs "unit"'),
        (
            {"where": ["place", "within", {"amount": "x", "unit": "km", "of": 1}]},
            r"where\[2\].amount: the amount is a number",
        ),
        (
            {"where": ["place", "within", {"amount": 1, "unit": "feet", "of": 1}]},
            r"where\[2\].unit: there is no unit 'feet'",
        ),
        ({"where": ["title", "contains", {"words": 5}]}, r"where\[2\].words: a word pattern is a word"),
        ({"where": ["title", "contains", {"words": {"near": ["a", "b"]}}]}, r"where\[2\].words.near: a proximity is"),
        ({"where": ["title", "contains", {"words": {"near": ["a", [5, 1], "b"]}}]}, "the least comes first"),
        ({"where": ["title", "contains", {"words": {"near": ["a", [1.5, 2], "b"]}}]}, "the least and the most"),
        ({"where": ["title", "contains", {"words": {"and": []}}]}, "needs at least one word"),
        ({"where": {"compare": [1, "in", 2]}}, "where.compare: a comparison is an array"),
        ({"where": {"compare": [{"varaible": "x"}, "=", 2]}}, r"where.compare\[0\]: an expression is a value"),
        ({"where": {"compare": [{"+": [1]}, "=", 2]}}, r"where.compare\[0\].\+: \+ takes two operands"),
        ({"where": {"compare": [{"case": []}, "=", 2]}}, r"where.compare\[0\].case: a case needs at least one branch"),
        (
            {"where": {"compare": [{"case": [{"when": True}]}, "=", 2]}},
            r'where.compare\[0\].case\[0\]: a branch needs "then"',
        ),
        ({"where": {"operator": "f", "args": []}}, "where: an operator has no 'args'; did you mean arguments"),
        ({"with": [1]}, "with: properties are an object"),
        ({"with": {"age": None}}, "with.age: there is no null"),
        ({"where": ["a", "=", "\ud800"]}, r"where\[2\]: the text is not Unicode"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(tree: object, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        from_json(tree)


def _deep(wrap: Any, leaf: Any, levels: int = 100_000) -> Any:
    for _ in range(levels):
        leaf = wrap(leaf)
    return leaf


@pytest.mark.parametrize(
    "tree",
    [
        _deep(lambda inner: {"not": inner}, True),
        _deep(lambda inner: {"and": [inner, True]}, True),
        {"compare": [_deep(lambda inner: {"negative": inner}, 1), "=", 1]},
        ["t", "contains", {"words": _deep(lambda inner: {"not": inner}, "x")}],
        {"or": [{"or": [["a", "=", 1]] * 9_000}] * 3},
        {"or": [{"or": [["a", "=", 1]] * 10_000}] * 10_000},
        ["a", "=", "x" * 100_000],
        ["a", "=", 10**5000],
    ],
)
def test_a_tree_that_is_too_large_is_refused(tree: object) -> None:
    with pytest.raises(TooLarge):
        node_from_json(tree)


def test_a_long_list_is_refused() -> None:
    with pytest.raises(LanguageError, match="10,000"):
        node_from_json(["a", "in", list(range(10_001))])


def test_a_deep_tree_is_not_written() -> None:
    tree: Node = ALWAYS
    for _ in range(100_000):
        tree = Not(tree)
    with pytest.raises(TooLarge):
        node_to_json(tree)
