"""The builder gives the tree that the text form gives."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tocsin.errors import LanguageError, ParseError
from tocsin.language import (
    ALWAYS,
    NEVER,
    Condition,
    operator,
    parse,
    parse_condition,
    subscription,
    variable,
    word,
)
from tocsin.language import attributes as a

TEN = datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (a.price <= 1300, "price <= 1300"),
        (a.price > 1300, "price > 1300"),
        (a.price >= 1300, "price >= 1300"),
        (a.price < 1300, "price < 1300"),
        (a.brand == "mini", "brand = 'mini'"),
        (a.brand != "mini", "brand != 'mini'"),
        ((a.x == 1) & (a.y == 2) & (a.z == 3), "x = 1 and y = 2 and z = 3"),
        ((a.x == 1) & (a.y == 2) | ~(a.z == 3), "x = 1 and y = 2 or not z = 3"),
        ((a.x == 1) | (a.y == 2) | (a.z == 3), "x = 1 or y = 2 or z = 3"),
        (a.x.in_(1, 2), "x in (1, 2)"),
        (a.x.in_([1, 2]), "x in (1, 2)"),
        (a.x.in_([(1, 2)]), "x in ((1, 2))"),
        (a.x.between(1, 2), "x between 1 and 2"),
        (a.x.contains("a b"), "x contains 'a b'"),
        (a.x.contains_any("a", "b"), "x contains any ('a', 'b')"),
        (a.x.contains_all(["a", "b"]), "x contains all ('a', 'b')"),
        (a.x.kind_of("y"), "x kind of 'y'"),
        (a.x.starts_with("y"), "x starts with 'y'"),
        (a.x.like("y%"), "x like 'y%'"),
        (a.x.within(km=5, of=(1, 2)), "x within 5 km of (1, 2)"),
        (a.x.within(hours=2, of=TEN), "x within 2 hours of time '2026-11-15T10:00Z'"),
        (a.x.in_box(1, 2, 3, 4), "x in box (1, 2, 3, 4)"),
        (a.x.is_present(), "x is present"),
        (a.x.is_absent(), "x is absent"),
        (a.seller.name == "x", "seller.name = 'x'"),
        (a["seller name"] == "x", "\"seller name\" = 'x'"),
        (a.seller["contains"] == "x", "\"seller.contains\" = 'x'"),
        (a.x == Decimal("0.1"), "x = decimal '0.1'"),
        (a.t.contains(word("a")), "t contains ('a')"),
        (
            a.t.contains(word("a").near(1, 5, word("b")).near(0, 0, "c")),
            "t contains ('a' near[1..5] 'b' near[0..0] 'c')",
        ),
        (a.t.contains(word("a") & word("b") & ~word("c") | word("d")), "t contains ('a' and 'b' and not 'c' or 'd')"),
        (operator("locIn", "Bronx"), "locIn('Bronx')"),
        (operator("f", variable("x")) & (variable("x") > 2 * variable("y") - 1), "f(?x) and ?x > 2 * ?y - 1"),
        (-variable("x") % 3 != 1 / variable("y") + 1, "-?x % 3 != 1 / ?y + 1"),
        ((1 - variable("x")) * 2 == (3 + variable("x")) / 2, "(1 - ?x) * 2 = (3 + ?x) / 2"),
    ],
)
def test_conditions_are_those_of_the_text_form(built: Condition, text: str) -> None:
    assert built.node == parse_condition(text)


def test_a_subscription_is_that_of_the_text_form() -> None:
    built = subscription("car", "surf-board", where=(a.price < 3) & (a.x == 1), properties={"age": 42})
    assert built == parse("car, surf-board where price < 3 and x = 1 with age = 42")
    assert subscription("car") == parse("car")
    assert subscription(where=parse_condition("x = 1")) == parse("x = 1")


def test_always_and_never_are_neutral() -> None:
    one = a.x == 1
    assert Condition(ALWAYS) & one == one
    assert Condition(NEVER) | one == one
    assert (Condition(ALWAYS) & ALWAYS).node == ALWAYS


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: a.x == 1 and a.y == 2,
        lambda: a.x == 1 or a.y == 2,
        lambda: not (a.x > 1),
        lambda: 1 < a.x < 5,
        lambda: bool(a.x),
        lambda: bool(word("x")),
        lambda: bool(variable("x")),
    ],
)
def test_using_a_condition_as_a_truth_value_is_explained(misuse: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=r"& \| ~"):
        misuse()


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: a.x == None,  # noqa: E711
        lambda: a.x == a.y,
        lambda: a.x < Decimal("NaN"),
        lambda: a.x < datetime(2026, 1, 1),  # noqa: DTZ001
        lambda: a.x == object(),
        a.x.in_,
        lambda: a.x.in_([]),
        lambda: a.x.within(of=(1, 2)),
        lambda: a.x.within(km=1, m=2, of=(1, 2)),
        lambda: a.x.within(feet=1, of=(1, 2)),
        lambda: a.x.in_box(1, 2, 3, "x"),  # type: ignore[arg-type]
        lambda: word("a").near(5, 1, "b"),
        lambda: (word("a") & word("b")).near(1, 2, "c"),
        lambda: a[""],
    ],
)
def test_what_the_language_does_not_have_is_refused(misuse: Callable[[], object]) -> None:
    with pytest.raises(LanguageError):
        misuse()


def test_null_is_told_what_to_use_instead() -> None:
    with pytest.raises(ParseError, match=r"is_absent\(\)"):
        a.x == None  # noqa: B015, E711


def test_a_node_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a condition"):
        subscription("car", where="price < 3")  # type: ignore[arg-type]


def test_what_is_built_shows_as_text() -> None:
    assert repr((a.x < 1) & (a.y == 2)) == "<condition x < 1 and y = 2>"
    assert repr(a.seller.name) == "<attribute seller.name>"
    assert repr(variable("x") + 1) == "<formula ?x + 1>"


def test_conditions_can_be_copied_and_pickled() -> None:
    built = (a.x < 1) & (a.y == 2)
    assert copy.deepcopy(built) == built
    assert pickle.loads(pickle.dumps(built)) == built  # noqa: S301
    assert not hasattr(a, "__wrapped__")
