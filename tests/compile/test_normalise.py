"""The normal form means what the subscription means, and tells never from always."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from tests.strategies.worlds import random_event, random_schema, random_subscription, worlds
from tocsin.compile import MAX_CONJUNCTIONS, NormalForm, conjunction_text, normalise, refuse_meaningless, warnings_of
from tocsin.compile.atoms import Among, Atom, Bound, Decided
from tocsin.errors import Meaningless
from tocsin.language import bind, evaluate, parse
from tocsin.language.semantics import Situation, holds, predicate_holds
from tocsin.language.text_patterns import is_like_key, words
from tocsin.schema import Event, Schema, View
from tocsin.schema.examples import load_example

AUCTION = load_example("auction")


def form_holds(form: NormalForm, event: Event, view: View) -> bool:
    return any(all(atom_holds(atom, event, view) for atom in conjunction) for conjunction in form.conjunctions)


def atom_holds(atom: Atom, event: Event, view: View) -> bool:
    if isinstance(atom, Decided):
        return holds(atom.node, Situation(event.values))
    values = event.values.get(atom.attribute)
    if isinstance(atom, Bound):
        return (values is None) == atom.negated
    if values is None:
        return False
    domain = view[atom.attribute].domain
    if not isinstance(atom, Among):
        return predicate_holds(atom.predicate, event.values.get(atom.predicate.attribute), negated=atom.negated)
    derive: dict[str, Any] = {
        "value": lambda value: [domain.key(value)],
        "words": words,
        "patterns": lambda value: [each.low for each in atom.intervals if is_like_key(value, each.low)],
        "latitude": lambda value: [value[0]],
        "longitude": lambda value: [value[1]],
    }
    keys = [key for value in values for key in derive[atom.derivation](value)]
    return any(interval.holds(key) for key in keys for interval in atom.intervals) != atom.negated


@given(world=worlds())
def test_the_normal_form_agrees_with_the_definition(world: tuple[Schema, Random]) -> None:
    schema, random = world
    for _ in range(6):
        bound = bind(random_subscription(random, schema), schema)
        form = normalise(bound)
        for _ in range(6):
            event = schema.admit(random_event(random, schema))
            holds = evaluate(bound, event)
            assert form_holds(form, event, schema.view()) == holds
            assert not (form.never and holds)


@pytest.mark.parametrize("seed", range(6))
def test_larger_random_worlds_agree_with_the_definition(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    events = [schema.admit(random_event(random, schema)) for _ in range(60)]
    for _ in range(120):
        bound = bind(random_subscription(random, schema), schema)
        form = normalise(bound)
        for event in events:
            assert form_holds(form, event, schema.view()) == evaluate(bound, event)


def form_of(text: str) -> NormalForm:
    return normalise(bind(parse(text), AUCTION))


@pytest.mark.parametrize(
    "text",
    [
        "price < 3 and price > 9",
        "quantity > 3 and quantity < 4",
        "price is absent and price < 3",
        "condition < 'for parts'",
        "category < 'bed'",
        "year between 10 and 5",
        "shipping = true and shipping = false",
        "title contains 'old' and not (title contains 'old')",
        "brand = 'Leica' and brand = 'Braun'",
        "brand in ('Leica', 'Braun') and brand not in ('LEICA', 'braun')",
        "false",
        "not true",
        "price < 3 and (year < 0 or false)",
    ],
)
def test_what_can_never_hold_is_recognised(text: str) -> None:
    form = form_of(text)
    assert form.never
    assert warnings_of(form)
    with pytest.raises(Meaningless):
        refuse_meaningless(form)


@pytest.mark.parametrize(
    "text",
    [
        "item",
        "true",
        "item where true",
        "price is present or price is absent",
        "not (price is absent and price is present)",
    ],
)
def test_what_always_holds_is_recognised(text: str) -> None:
    form = form_of(text)
    assert form.always
    assert warnings_of(form)
    refuse_meaningless(form)
    with pytest.raises(Meaningless):
        refuse_meaningless(form, always=True)


@pytest.mark.parametrize(
    "text",
    ["price < 3", "tags = 'rare' and tags = 'signed'", "price < 3 or price >= 3", "not (price < 3)", "price is absent"],
)
def test_ordinary_subscriptions_are_not_warned_about(text: str) -> None:
    assert warnings_of(form_of(text)) == []


def test_intervals_of_a_single_valued_attribute_are_merged() -> None:
    form = form_of("price > 3 and price < 9 and price <= 8 and price != 100")
    assert [conjunction_text(found) for found in form.conjunctions] == ["price in (3, 8]"]


def test_values_of_a_multiple_attribute_are_asked_for_one_by_one() -> None:
    form = form_of("tags = 'rare' and tags = 'signed'")
    assert len(form.conjunctions[0]) == 2


def test_alternatives_of_one_attribute_stay_one_conjunction() -> None:
    assert len(form_of("year = 1 or year = 2 or year in (3, 4)").conjunctions) == 1


def test_a_conjunction_that_another_makes_superfluous_goes() -> None:
    assert len(form_of("price < 3 or (price < 3 and year = 4)").conjunctions) == 1


def test_a_negated_comparison_of_a_single_value_is_the_opposite_one() -> None:
    assert form_of("not (price < 10)").conjunctions == form_of("price >= 10").conjunctions


def test_what_is_superfluous_goes_before_alternatives_are_counted() -> None:
    clauses = " and ".join(f"(price < {number} or year > {number})" for number in range(1, 9))
    assert 1 < len(form_of(clauses).conjunctions) < 30  # of 256


def test_what_contradicts_itself_goes_before_alternatives_are_counted() -> None:
    clauses = " and ".join(f"(price = {number} or year = {number})" for number in range(12))
    assert form_of(clauses).never


def test_a_large_condition_stays_a_tree_found_by_what_it_needs() -> None:
    clauses = " and ".join(f"(price != {number} or year != {number})" for number in range(7))
    found = form_of(f"{clauses} and bids = 3")
    assert 0 < len(found.conjunctions) <= MAX_CONJUNCTIONS
    for conjunction in found.conjunctions:
        assert isinstance(conjunction[-1], Decided)
        assert conjunction[-1].whole
        assert any(isinstance(atom, Among) and atom.attribute == "bids" for atom in conjunction)


def test_a_condition_of_ten_thousand_leaves_is_taken() -> None:
    leaves = " or ".join(f"(price = {number} and year = {number})" for number in range(4_990))
    found = form_of(leaves)
    (conjunction,) = found.conjunctions
    assert isinstance(conjunction[-1], Decided)
    assert any(isinstance(atom, Among) and len(atom.intervals) == 4_990 for atom in conjunction)


def test_attributes_of_one_array_are_warned_about() -> None:
    schema = Schema.infer(
        [{"items": [{"sku": "A", "qty": 1}, {"sku": "B", "qty": 5}], "buyer": {"name": "ann", "age": 3}}]
    )
    scattered = normalise(bind("items.sku = 'A' and items.qty > 3", schema))
    assert "items.sku and items.qty may be of different objects" in warnings_of(scattered)[0]
    for text in ("items.sku = 'A' or items.qty > 3", "items.sku = 'A'", "buyer.name = 'ann' and buyer.age > 3"):
        assert warnings_of(normalise(bind(text, schema))) == []


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("price < 0.8 * estimate", {"price", "estimate"}),
        ("not (2 * price > estimate + 1)", {"price", "estimate"}),
        ("price * estimate > 3", set()),  # price could fail, were it computed
        ("estimate > price / (price - 1)", {"price", "estimate"}),
        ("estimate > case when price > 3 then 1 else 2 end", {"estimate"}),
    ],
)
def test_a_comparison_is_found_by_the_presence_of_what_it_cannot_do_without(text: str, needed: set[str]) -> None:
    schema = Schema.infer([{"price": 1.5, "estimate": 2.5}, {}], mandatory=False)
    form = normalise(bind(text, schema))
    for conjunction in form.conjunctions:
        assert {atom.attribute for atom in conjunction if isinstance(atom, Bound)} == needed
