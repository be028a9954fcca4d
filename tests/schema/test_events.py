"""Events: the consistency rules of the papers, and how raw JSON becomes an event."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.schemas import raw_events, schemas
from tocsin.errors import EventRejected
from tocsin.schema import (
    EnumeratedDomain,
    EventType,
    HierarchicalDomain,
    NumericDomain,
    PointDomain,
    Schema,
    TextDomain,
    TypeAttribute,
)

# Le Subscribe, section 2.1: furniture and antiques.
LE_SUBSCRIBE = Schema(
    {
        "number": NumericDomain(name="number"),
        "text": TextDomain(name="text"),
        "category": HierarchicalDomain(
            name="category",
            tree={"bedroom": {"bed": {}}, "dining room": {"table": {}, "chair": {}}, "outdoor": {}},
        ),
        "material": EnumeratedDomain(name="material", values=("wood", "metal")),
    },
    {
        "price": "number",
        "period": "text",
        "quantity": "number",
        "furniture category": "category",
        "material": "material",
    },
    {
        "antique": EventType("antique", (TypeAttribute("price"), TypeAttribute("period"), TypeAttribute("quantity"))),
        "furniture": EventType(
            "furniture",
            (
                TypeAttribute("price"),
                TypeAttribute("quantity"),
                TypeAttribute("furniture category"),
                TypeAttribute("material", mandatory=False),
            ),
        ),
    },
)

# Thesis, section 3.1: antiques and cars.
THESIS = Schema(
    {"number": NumericDomain(name="number"), "text": TextDomain(name="text")},
    {
        **dict.fromkeys(["price", "period", "quantity", "cc"], "number"),
        **dict.fromkeys(["brand", "color"], "text"),
    },
    {
        "antique": EventType("antique", (TypeAttribute("price"), TypeAttribute("period"), TypeAttribute("quantity"))),
        "car": EventType(
            "car",
            (
                TypeAttribute("price"),
                TypeAttribute("brand"),
                TypeAttribute("cc"),
                TypeAttribute("color", mandatory=False),
            ),
        ),
    },
)


def violations(schema: Schema, raw: Any) -> list[tuple[str, str | None]]:
    with pytest.raises(EventRejected) as caught:
        schema.admit(raw)
    return [(violation.rule, violation.attribute) for violation in caught.value.violations]


# --- the papers' examples ---------------------------------------------------------------------------------------------


def test_le_subscribe_the_first_furniture_event_satisfies_the_consistency_rules() -> None:
    event = LE_SUBSCRIBE.admit(
        {
            "event_type": ["antique", "furniture"],
            "price": 1000,
            "quantity": 1,
            "period": "Louis XV",
            "furniture category": "table",
        }
    )
    assert event.types == ("antique", "furniture")


def test_le_subscribe_the_second_furniture_event_breaks_rule_2_as_its_category_is_missing() -> None:
    raw = {"event_type": ["antique", "furniture"], "price": 1000, "quantity": 1, "period": "Louis XVIII"}
    assert violations(LE_SUBSCRIBE, raw) == [("missing mandatory attribute", "furniture category")]


def test_le_subscribe_the_mandatory_set_of_furniture() -> None:
    assert set(LE_SUBSCRIBE.view(["furniture"]).mandatory) == {
        *("event_type", "price", "quantity", "furniture category")
    }


def test_thesis_e1_the_antique_cooper_satisfies_all_the_rules() -> None:
    e1 = {"event_type": ["antique", "car"], "price": 1300, "period": 1970, "quantity": 1, "brand": "cooper", "cc": 1000}
    assert THESIS.admit(e1).values["brand"] == ("cooper",)


def test_thesis_e2_the_antique_audi_lacks_the_mandatory_quantity() -> None:
    e2 = {"event_type": ["antique", "car"], "price": 3500, "period": 1970, "brand": "audi", "cc": 1200}
    assert violations(THESIS, e2) == [("missing mandatory attribute", "quantity")]


def test_thesis_the_mandatory_set_of_car() -> None:
    assert set(THESIS.view(["car"]).mandatory) == {"event_type", "price", "brand", "cc"}


# --- violations -------------------------------------------------------------------------------------------------------


def test_all_violations_are_reported_at_once() -> None:
    raw = {
        "event_type": "car",
        "price": "cheap",
        "cc": [1000, 1200],
        "colour": "red",
        "period": 1970,
    }
    assert violations(THESIS, raw) == [
        ("bad value", "price"),
        ("several values for a unique attribute", "cc"),
        ("unknown attribute", "colour"),
        ("unknown attribute", "period"),
        ("missing mandatory attribute", "brand"),
    ]


def test_messages_say_what_would_be_right() -> None:
    with pytest.raises(EventRejected) as caught:
        THESIS.admit({"event_type": ["car", "antik"], "price": 1})
    assert str(caught.value) == "there is no event type 'antik'; did you mean antique?"
    with pytest.raises(EventRejected) as caught:
        THESIS.admit({"event_type": "car", "price": True, "brand": 7, "cc": 1, "colour": 1, "period": 1})
    assert str(caught.value) == (
        "price: True is not a number; brand: 7 is not a text; there is no attribute 'colour'; did you mean color?; "
        "events of type car have no attribute 'period'"
    )


def test_an_event_without_a_type_is_told_which_there_are() -> None:
    with pytest.raises(EventRejected, match="names no event type; there are: antique, car"):
        THESIS.admit({"price": 1})
    assert violations(THESIS, {"event_type": []}) == [("no event type", "event_type")]
    assert violations(THESIS, {"event_type": 7}) == [("unknown event type", "event_type")]


@pytest.mark.parametrize("raw", [None, 3, "x", [], [("event_type", "car")]])
def test_what_is_not_an_object_is_not_an_event(raw: Any) -> None:
    assert violations(THESIS, raw) == [("not an object", None)]


def test_a_thousand_bad_values_cost_ten_messages() -> None:
    schema = Schema(
        {"e": EnumeratedDomain(name="e", values=tuple(f"value{n}" for n in range(5000)))},
        {"x": "e"},
        {"t": EventType("t", (TypeAttribute("x", multiple=True),))},
    )
    found = violations(schema, {"x": ["valu"] * 1000, **{f"y{n}": 1 for n in range(1000)}})
    assert found.count(("bad value", "x")) == 11
    assert sum(rule == "unknown attribute" for rule, _ in found) == 1000


def test_half_a_surrogate_pair_is_refused_however_plain_the_event() -> None:
    assert violations(THESIS, {"event_type": "car", "price": 1, "brand": "\ud800", "cc": 1}) == [("bad value", "brand")]


# --- raw events -------------------------------------------------------------------------------------------------------

ONE = Schema(
    {"n": NumericDomain(name="n"), "t": TextDomain(name="t", case="folded"), "p": PointDomain(name="p")},
    {"a": "n", "a.b": "n", "seller.name": "t", "tags": "t", "where": "p", "ways": "p"},
    {
        "only": EventType(
            "only",
            (
                TypeAttribute("a", mandatory=False),
                TypeAttribute("a.b", mandatory=False),
                TypeAttribute("seller.name", mandatory=False),
                TypeAttribute("tags", mandatory=False, multiple=True),
                TypeAttribute("where", mandatory=False),
                TypeAttribute("ways", mandatory=False, multiple=True),
            ),
        )
    },
)


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        ({}, {}),
        ({"a": None, "tags": [], "where": None, "ways": []}, {}),
        ({"seller": {"name": "Ann"}}, {"seller.name": ("Ann",)}),
        ({"seller.name": "Ann"}, {"seller.name": ("Ann",)}),
        ({"seller": [{"name": "Ann"}]}, {"seller.name": ("Ann",)}),
        ({"seller": None}, {}),
        ({"a.b": 1}, {"a.b": (1,)}),
        ({"a": {"b": 1}}, {"a.b": (1,)}),
        ({"a": [1, 1.0]}, {"a": (1,)}),
        ({"tags": "x"}, {"tags": ("x",)}),
        ({"tags": ["x", None, ["y"], "X"]}, {"tags": ("x", "y")}),
        ({"where": [1, 2]}, {"where": ((1.0, 2.0),)}),
        ({"where": [[1, 2]]}, {"where": ((1.0, 2.0),)}),
        ({"where": {"lat": 1, "lon": 2}}, {"where": ((1.0, 2.0),)}),
        ({"ways": [[1, 2], {"lat": 3, "lon": 4}, None]}, {"ways": ((1.0, 2.0), (3.0, 4.0))}),
        ({"ways": {(1, 2)}}, {"ways": ((1.0, 2.0),)}),
    ],
)
def test_nested_json_flattens_and_a_single_event_type_goes_without_saying(
    raw: dict[str, Any], values: dict[str, Any]
) -> None:
    assert ONE.admit(raw).values == {"event_type": ("only",), **values}


def test_the_same_attribute_nested_and_dotted_has_two_values() -> None:
    assert violations(ONE, {"a": {"b": 1}, "a.b": 2}) == [("several values for a unique attribute", "a.b")]


def test_an_event_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert violations(ONE, {"a": deep}) == [("too large", "a")]


def test_equal_values_are_one_value() -> None:
    schema = Schema(
        {"n": NumericDomain(name="n")}, {"x": "n"}, {"t": EventType("t", (TypeAttribute("x", multiple=True),))}
    )
    assert schema.admit({"x": [1, 1.0, 2**53 + 1, 2**53, 0.5]}).values["x"] == (1, 2**53 + 1, 2**53, 0.5)


@given(st.data())
def test_an_admitted_event_written_as_json_is_admitted_as_the_same(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    event = schema.admit(data.draw(raw_events(schema)))
    dumped = {name: [schema.domain_of(name).dump(value) for value in values] for name, values in event.values.items()}
    assert schema.admit(dumped) == event


@given(st.data())
def test_an_event_that_lacks_a_mandatory_attribute_is_always_refused(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    event = schema.admit(data.draw(raw_events(schema)))
    for name in schema.view(event.types).mandatory:
        if name != "event_type":
            rest = {other: list(values) for other, values in event.values.items() if other != name}
            assert ("missing mandatory attribute", name) in violations(schema, rest)
