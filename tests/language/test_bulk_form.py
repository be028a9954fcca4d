"""The bulk predicate form of one subscription."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import trees
from tocsin.errors import ParseError
from tocsin.language import And, Predicate, Subscription, from_bulk, parse, to_bulk


def test_the_predicates_are_a_conjunction() -> None:
    bulk = {
        "id": "s1",
        "event_types": ["car"],
        "predicates": [["price", "<", 1300], ["year", "between", [1, 2]], ["brand", "in", ["a"]], ["x", "is present"]],
        "with": {"age": 42},
    }
    text = "car where price < 1300 and year between 1 and 2 and brand in ('a') and x is present with age = 42"
    assert from_bulk(bulk) == parse(text)
    assert to_bulk(parse(text), "s1") == bulk


@pytest.mark.parametrize(
    ("bulk", "text"),
    [
        ({"predicates": []}, "true"),
        ({"predicates": [], "event_types": ["car"]}, "car"),
        ({"predicates": [["price", "==", 3]]}, "price = 3"),
        ({"predicates": [["price", "<>", 3]], "id": 7}, "price != 3"),
        ({"predicates": [["t", "<", {"time": "2026-11-15T10:00Z"}]]}, "t < time '2026-11-15T10:00Z'"),
    ],
)
def test_parts_are_optional(bulk: object, text: str) -> None:
    assert from_bulk(bulk) == parse(text)


@given(st.lists(trees.predicates(), max_size=4), st.lists(trees.names(), max_size=2))
def test_conjunctions_come_back(predicates: list[Predicate], event_types: list[str]) -> None:
    where = predicates[0] if len(predicates) == 1 else And(tuple(predicates))
    tree = Subscription(tuple(event_types), where)
    assert from_bulk(json.loads(json.dumps(to_bulk(tree)))) == tree


@pytest.mark.parametrize(
    ("bulk", "message"),
    [
        ([], "a bulk subscription is an object"),
        ({}, 'needs "predicates"'),
        ({"predicates": 5}, "predicates: predicates is an array"),
        ({"predicates": ["price"]}, r"predicates\[0\]: a predicate is an array"),
        ({"predicates": [{"and": []}]}, r"predicates\[0\]: a predicate is an array"),
        ({"predicates": [["a", "=", 1], ["a", "=~", 1]]}, r"predicates\[1\]\[1\]: there is no operator '=~'"),
        ({"predicates": [], "where": True}, "has no 'where'"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(bulk: object, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        from_bulk(bulk)


@pytest.mark.parametrize("text", ["a = 1 or b = 2", "not a = 1", "f(1)", "a = 1 and (b = 1 and c = 1)", "false"])
def test_other_conditions_have_no_bulk_form(text: str) -> None:
    with pytest.raises(ParseError, match="conjunctions of predicates and scopes only"):
        to_bulk(parse(text))
