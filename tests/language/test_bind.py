"""Binding: what is admitted, and in which form."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given

from tests.language.market import MARKET, AnyOperators
from tests.strategies.worlds import Random, random_subscription, worlds
from tocsin.errors import BindError, TooLarge
from tocsin.language import And, Not, Op, Predicate, Subscription, attributes, bind, parse, render, subscription
from tocsin.language.syntax import Box, Operand, Within, WordAnd, Words
from tocsin.schema import Schema

TEN = datetime(2026, 11, 15, 10, tzinfo=UTC)


@given(worlds())
def test_what_is_bound_renders_parses_and_binds_to_itself(world: tuple[Schema, Random]) -> None:
    schema, random = world
    bound = bind(random_subscription(random, schema), schema)
    assert bind(parse(render(bound.subscription)), schema) == bound
    assert bind(bound.subscription, schema) == bound


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("price < 5.0", 5),
        ("price < 2.5", 2.5),
        ("amount = 0.1", Decimal("0.1")),
        ("price in (1, 1.0, 2, 1)", (1, 2)),
        ("price between 9 and 3", (9, 3)),
        ("title contains 'Old Chair'", "Old Chair"),
        ("title contains any ('old', 'new', 'old')", ("old", "new")),
        ("title contains ('OLD' near[0..2] 'Chair')", Words(("old", "chair"), ((0, 2),))),
        ("title contains ('STRASSE' and 'a')", WordAnd((Words(("strasse",)), Words(("a",))))),
        ("tags contains 'red'", "red"),
        ("tags contains ('red')", "red"),
        ("tags contains any ('red', 'blue', 'red')", ("red", "blue")),
        ("event_type contains 'car'", "car"),
        ("event_type in ('car', 'book')", ("car", "book")),
        ("closes < '2026-11-15T11:00+01:00'", TEN),
        ("closes within 90.0 minutes of time '2026-11-15T10:00Z'", Within(90, "minutes", TEN)),
        ("place = (40, -73)", (40.0, -73.0)),
        ("place within 5 km of (1, 2)", Within(5, "km", (1.0, 2.0))),
        ("place in box (1, 170, 3, -170)", Box(1.0, 170.0, 3.0, -170.0)),
        ("sold = true", True),
        ("category kind of 'furniture'", "furniture"),
        ("size between 'S' and 'L'", ("S", "L")),
        ("code = 'abc'", "abc"),
        ("code < 'longer than any code'", "longer than any code"),
        ("code like '%a%b%c%d%e%'", "%a%b%c%d%e%"),
        ("price is absent", None),
    ],
)
def test_operands_become_canonical(text: str, operand: Operand) -> None:
    where = bind(parse(text), MARKET).subscription.where
    assert isinstance(where, Predicate)
    assert where.operand == operand
    assert type(where.operand) is type(operand)


def test_a_bound_subscription_has_the_view_of_its_types() -> None:
    assert bind(parse("car where price < 3"), MARKET).view == MARKET.view(["car"])
    assert bind(parse("price < 3"), MARKET).view == MARKET.view()


def test_event_types_named_twice_are_one() -> None:
    assert bind(parse("car, car"), MARKET).subscription.event_types == ("car",)


def test_a_connective_of_one_part_becomes_that_part() -> None:
    part = Predicate("price", Op.LT, 3)
    assert bind(Subscription((), And((Not(And((part,))),))), MARKET).subscription.where == Not(part)


def test_operators_and_variables_are_listed() -> None:
    bound = bind(parse("f('x', ?a) and (g(?b, 2 * 3) or f(?b)) and ?a > 2 * ?b"), MARKET, operators=AnyOperators())
    assert (bound.operators, bound.variables) == (("f", "g"), ("a", "b"))
    assert render(bound.subscription) == "f('x', ?a) and (g(?b, 6) or f(?b)) and ?a > 2 * ?b"


def test_a_case_over_variables_may_stand_in_a_constraint() -> None:
    bind(parse("f(?a) and case when ?a > 3 and not ?a = 9 then ?a else -1 end > 0"), MARKET, operators=AnyOperators())


def test_bound_subscriptions_can_be_compared_and_hashed() -> None:
    first, second = (bind(parse("car where price < 3"), MARKET) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)


def test_a_deep_tree_made_by_hand_is_refused() -> None:
    tree = attributes.price < 3
    for _ in range(10_000):
        tree = ~tree
    with pytest.raises(TooLarge):
        bind(subscription("car", where=tree), MARKET)


@pytest.mark.parametrize(
    "predicate",
    [
        Predicate("price", Op.IN, 5),
        Predicate("price", Op.IN, ()),
        Predicate("price", Op.BETWEEN, (1,)),
        Predicate("price", Op.PRESENT, 5),
        Predicate("place", Op.WITHIN, 5),
        Predicate("place", Op.IN_BOX, (1.0, 2.0)),
        Predicate("title", Op.CONTAINS_ANY, "x"),
        Predicate("title", Op.CONTAINS, Words(("a", "b"), ())),
        Predicate("title", Op.CONTAINS, Words(("a", "b"), ((5, 1),))),
        Predicate("title", Op.CONTAINS, WordAnd(())),
    ],
)
def test_operands_of_a_wrong_shape_are_refused(predicate: Predicate) -> None:
    with pytest.raises(BindError):
        bind(Subscription((), predicate), MARKET)
