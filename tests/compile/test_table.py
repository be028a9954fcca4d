"""Tables of codes mean what the subscriptions mean, whichever way these came in."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given

from tests.compile.reference import matching_ids
from tests.strategies.worlds import random_event, random_schema, random_subscription, worlds
from tocsin.compile import ConjunctionTable, PredicateKind, compile_table, load_bulk, normalise
from tocsin.errors import TooLarge
from tocsin.language import BoundSubscription, Predicate, bind, evaluate, to_bulk
from tocsin.language.syntax import And, Op, Subscription
from tocsin.schema import EventType, NumericDomain, Schema, TextDomain, TypeAttribute


def check_invariants(table: ConjunctionTable) -> None:
    """Assert what the head of compile/table.py promises."""
    assert len(table.offset) == len(table) + 1
    assert (np.diff(table.offset) >= 0).all()
    assert (np.diff(table.subscription) >= 0).all()
    for column in table.columns:
        constants = column.constants.tolist()
        assert all(a < b for a, b in pairwise(constants))
    for number in range(len(table)):
        rows = slice(int(table.offset[number]), int(table.offset[number + 1]))
        some_in = table.column[rows][table.kind[rows] == PredicateKind.SOME_IN]
        unique = [position for position in some_in.tolist() if not table.columns[position].multiple]
        assert len(unique) == len(set(unique))
    interval = table.kind <= PredicateKind.NONE_IN
    assert (
        table.low[interval & (table.kind == PredicateKind.SOME_IN)]
        <= table.high[interval & (table.kind == PredicateKind.SOME_IN)]
    ).all()


def assert_agrees(schema: Schema, random: Random, subscriptions: int, events: int) -> None:
    bounds: dict[int, BoundSubscription] = {}
    forms = []
    for id in range(subscriptions):
        bound = bind(random_subscription(random, schema), schema)
        try:
            forms.append((id, normalise(bound)))
        except TooLarge:
            continue
        bounds[id] = bound
    table = compile_table(schema, forms)
    check_invariants(table)
    for _ in range(events):
        event = schema.admit(random_event(random, schema))
        expected = [id for id, bound in bounds.items() if evaluate(bound, event)]
        assert matching_ids(table, event, schema) == expected


@given(world=worlds())
def test_a_table_means_what_its_subscriptions_mean(world: tuple[Schema, Random]) -> None:
    assert_agrees(*world, subscriptions=10, events=5)


@pytest.mark.parametrize("seed", range(5))
def test_a_larger_table_means_what_its_subscriptions_mean(seed: int) -> None:
    random = Random(seed)
    assert_agrees(random_schema(random), random, subscriptions=100, events=25)


# --- the bulk form ----------------------------------------------------------------------------------------------------


def random_bulk_line(random: Random, schema: Schema) -> tuple[Subscription, str] | None:
    """Return a conjunction of predicates and its bulk line; None where the bulk form cannot write it."""
    tree = random_subscription(random, schema, depth=1)
    parts = tree.where.parts if isinstance(tree.where, And) else (tree.where,)
    if not all(isinstance(part, Predicate) for part in parts):
        return None
    conjunction = Subscription(tree.event_types, And(parts) if len(parts) != 1 else parts[0])
    document = to_bulk(conjunction)
    return conjunction, json.dumps(document)


@pytest.mark.parametrize("seed", range(5))
def test_the_bulk_form_means_what_the_long_way_means(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    bounds: dict[int, BoundSubscription] = {}
    lines: list[str] = []
    while len(lines) < 150:
        found = random_bulk_line(random, schema)
        if found is None:
            continue
        tree, line = found
        bounds[len(lines)] = bind(tree, schema)
        lines.append(json.dumps({"id": len(lines), **json.loads(line)}))
    load = load_bulk(lines, schema)
    assert load.errors == []
    check_invariants(load.table)
    for _ in range(25):
        event = schema.admit(random_event(random, schema))
        expected = [id for id, bound in bounds.items() if evaluate(bound, event)]
        assert sorted(matching_ids(load.table, event, schema)) == expected


def small_schema() -> Schema:
    domains = {"number": NumericDomain(name="number"), "text": TextDomain(name="text")}
    entries = (
        TypeAttribute("price", False),
        TypeAttribute("brand", False),
        TypeAttribute("tags", False, multiple=True),
    )
    return Schema(domains, {"price": "number", "brand": "text", "tags": "text"}, {"car": EventType("car", entries)})


def test_bad_lines_are_reported_with_number_and_reason_and_the_rest_is_taken() -> None:
    schema = small_schema()
    lines = [
        b'{"id": "good", "predicates": [["price", "<", 1300]]}',
        b"",
        b'{"id": "attribute", "predicates": [["prise", "<", 1300]]}',
        b'{"id": "operand", "predicates": [["price", "<", "cheap"]]}',
        b'{"id": "type", "event_types": ["cart"], "predicates": []}',
        b'{"id": "operator", "predicates": [["price", "near", 3]]}',
        b'{"id": "shape", "predicates": [["price"]]}',
        b"{",
        b'{"id": "also good", "event_types": ["car"], "predicates": [["brand", "=", "mini"], ["tags", "contains", "old"]]}',
    ]
    load = load_bulk(lines, schema)
    assert load.table.ids.tolist() == ["good", "also good"]
    assert [bad.line for bad in load.errors] == [3, 4, 5, 6, 7, 8]
    messages = [str(bad) for bad in load.errors]
    assert "did you mean price" in messages[0]
    assert "price is numeric" in messages[1]
    assert "did you mean car" in messages[2]


def test_intervals_of_one_attribute_are_merged_and_empty_ones_drop_the_conjunction() -> None:
    schema = small_schema()
    load = load_bulk(
        [
            '{"id": 1, "predicates": [["price", ">", 3], ["price", "<", 9], ["price", "<", 7]]}',
            '{"id": 2, "predicates": [["price", ">", 9], ["price", "<", 3]]}',
            '{"id": 3, "predicates": []}',
        ],
        schema,
    )
    assert load.table.ids.tolist() == [1, 2, 3]
    assert load.table.subscription.tolist() == [0, 2]
    assert np.diff(load.table.offset).tolist() == [1, 0]


def test_integers_and_floats_in_one_column_keep_their_order_exactly() -> None:
    schema = small_schema()
    numbers = [2**53 + 1, 2**53, 0.5, 1, 2**70]
    lines = [json.dumps({"id": at, "predicates": [["price", "=", number]]}) for at, number in enumerate(numbers)]
    table = load_bulk(lines, schema).table
    assert table.columns[0].constants.tolist() == sorted(numbers)
    for at, number in enumerate(numbers):
        event = schema.admit({"price": number})
        assert matching_ids(table, event, schema) == [at]


def test_identical_input_gives_an_identical_table() -> None:
    random = Random(3)
    schema = random_schema(random)
    forms = [(id, normalise(bind(random_subscription(random, schema), schema))) for id in range(50)]
    one, other = compile_table(schema, forms), compile_table(schema, forms)
    for name in ("subscription", "offset", "column", "kind", "low", "high", "set_offset", "set_low", "set_high"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert one.checks == other.checks


def test_every_operator_occurs_in_the_random_subscriptions() -> None:
    """The generator reaches the whole language, or the tests above prove less than they say."""
    random = Random(0)
    seen: set[Op] = set()
    for _ in range(40):
        schema = random_schema(random)
        for _ in range(40):
            where = random_subscription(random, schema, depth=0).where
            assert isinstance(where, Predicate)
            seen.add(where.op)
    assert seen == set(Op)
