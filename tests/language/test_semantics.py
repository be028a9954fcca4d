"""The definition of matching, by example: the papers' own, and the rules that are easy to get wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.errors import BindError
from tocsin.language import bind, evaluate, parse
from tocsin.schema import (
    EnumeratedDomain,
    EventType,
    HierarchicalDomain,
    NumericDomain,
    PointDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
)

BRANDS = ("opel", "volvo", "mini", "audi", "cooper")
DOMAINS = [
    NumericDomain(name="number"),
    TextDomain(name="text"),
    EnumeratedDomain(name="brand", values=BRANDS),
    EnumeratedDomain(
        name="size",
        values=("S", "M", "L", "letter", "parcel"),
        order="partial",
        less=(("S", "M"), ("M", "L"), ("letter", "parcel")),
    ),
    HierarchicalDomain(
        name="category", tree={"furniture": {"dining room": {"dining table": {}}, "bedroom": {}}, "toys": {}}
    ),
    TimeDomain(name="time"),
    PointDomain(name="place"),
]
ATTRIBUTES = {
    "price": "number",
    "brand": "brand",
    "period": "text",
    "title": "text",
    "author": "text",
    "tags": "text",
    "sizes": "size",
    "scores": "number",
    "furniture_category": "category",
    "starts": "time",
    "position": "place",
}
MULTIPLE = ("tags", "sizes", "scores")
SCHEMA = Schema(
    {domain.name: domain for domain in DOMAINS},
    ATTRIBUTES,
    {
        name: EventType(
            name, tuple(TypeAttribute(each, mandatory=False, multiple=each in MULTIPLE) for each in ATTRIBUTES)
        )
        for name in ("car", "antique", "furniture", "paper")
    },
)


def matches(text: str, **values: Any) -> bool:
    raw = {"event_type": "car", **values}
    return evaluate(bind(parse(text), SCHEMA, text=text), SCHEMA.admit(raw))


# --- the papers' examples ---------------------------------------------------------------------------------------------

THESIS_3_3 = "event_type contains 'car' and price < 1300 and brand = 'mini'"
ANTIQUE_CAR = ["antique", "car"]


def test_thesis_3_3_ei1_binds_no_brand_and_does_not_match() -> None:
    assert not matches(THESIS_3_3, event_type=ANTIQUE_CAR, price=900)


def test_thesis_3_3_ei2_has_another_brand_and_does_not_match() -> None:
    assert not matches(THESIS_3_3, event_type=ANTIQUE_CAR, price=900, brand="audi")


def test_thesis_3_3_ei3_matches() -> None:
    assert matches(THESIS_3_3, event_type=ANTIQUE_CAR, price=1100, brand="mini")


def test_thesis_3_3_any_car_below_1300() -> None:
    assert matches("event_type contains 'car' and price < 1300", event_type=ANTIQUE_CAR, price=1299.99)
    assert not matches("event_type contains 'car' and price < 1300", event_type="antique", price=5)


def test_le_subscribe_2_3_furniture_of_a_kind_of_dining_table() -> None:
    text = "event_type contains 'furniture' and furniture_category <= 'dining room'"
    assert matches(text, event_type=["antique", "furniture"], furniture_category="dining table")
    assert matches(text, event_type=["antique", "furniture"], furniture_category="dining room")
    assert not matches(text, event_type=["antique", "furniture"], furniture_category="bedroom")
    assert not matches(text, event_type=["antique", "furniture"])


def test_dias_awp_example_of_thesis_2_2() -> None:
    text = "paper where author = 'Koubarakis' and title contains ('boolean' near[1..5] 'proximity')"
    event = {"event_type": "paper", "author": "Koubarakis"}
    title = "Boolean Queries with Proximity Operators for Information Dissemination"
    assert matches(text, **event, title=title)
    assert not matches(text, **event, title="Boolean Proximity")
    assert not matches(text, **event, title="Proximity and boolean")


def test_dias_proximity_counts_the_words_between() -> None:
    text = "title contains ('information' near[0..0] 'alert' near[1..5] 'dias')"
    assert matches(text, title="Information alert, as in DIAS")
    assert not matches(text, title="Information alert DIAS")
    assert not matches(text, title="Information or alert as in DIAS")
    assert matches("title contains ('information' and 'alert' and not 'dias')", title="an alert: information")


# --- binding and negation ---------------------------------------------------------------------------------------------


def test_a_predicate_on_an_absent_attribute_never_holds() -> None:
    for text in (
        "price < 10",
        "price != 10",
        "not (price < 10)",
        "not (price != 10)",
        "price in (1, 2)",
        "price not in (1)",
    ):
        assert not matches(text), text


def test_presence_asks_about_binding_itself() -> None:
    assert matches("price is absent")
    assert matches("not (price is present)")
    assert matches("price is present", price=1)
    assert not matches("not (price is present)", price=1)


def test_negation_moves_inwards_so_that_either_side_may_decide() -> None:
    text = "not (price < 10 and brand = 'mini')"
    assert matches(text, price=20)
    assert matches(text, brand="audi")
    assert not matches(text, price=5)
    assert not matches(text)


def test_a_tautology_over_an_attribute_still_needs_it() -> None:
    assert not matches("price < 10 or price >= 10")
    assert matches("price < 10 or price >= 10", price=10)


# --- several values ---------------------------------------------------------------------------------------------------


def test_equality_asks_for_some_value_and_inequality_for_none() -> None:
    assert matches("scores = 3", scores=[1, 3])
    assert not matches("scores != 3", scores=[1, 3])
    assert matches("scores != 3", scores=[1, 2])


def test_two_predicates_may_be_satisfied_by_different_values() -> None:
    assert matches("scores < 2 and scores > 8", scores=[1, 9])
    assert not matches("scores between 2 and 8", scores=[1, 9])


def test_the_negation_of_a_comparison_holds_for_all_values() -> None:
    assert not matches("not (scores < 5)", scores=[1, 9])
    assert matches("not (scores < 5)", scores=[7, 9])
    assert matches("scores >= 5", scores=[1, 9])


@pytest.mark.parametrize(
    ("title", "word"),
    [("İstanbul'da", "i̇stanbul"), ("हिन्दी भाषा", "हिन्दी"), ("Cafe\u0301 noir", "café"), ("straße", "STRASSE")],
)
def test_marks_belong_to_their_words(title: str, word: str) -> None:
    assert matches(f"title contains '{word}'", title=title)


def test_words_of_contains_stand_in_one_value_those_of_contains_all_anywhere() -> None:
    tags = ["old chair", "wooden table"]
    assert not matches("tags contains 'old table'", tags=tags)
    assert matches("tags contains all ('old', 'table')", tags=tags)
    assert matches("tags contains any ('new', 'table')", tags=tags)
    assert matches("tags contains 'chair old'", tags=tags)


def test_an_event_of_two_types_matches_subscriptions_to_either() -> None:
    assert matches("antique where price = 1", event_type=ANTIQUE_CAR, price=1)
    assert matches("car, paper where price = 1", event_type=ANTIQUE_CAR, price=1)
    assert not matches("paper where price = 1", event_type=ANTIQUE_CAR, price=1)


# --- orders, text, time, places ---------------------------------------------------------------------------------------


def test_incomparable_values_satisfy_no_order_predicate() -> None:
    assert matches("sizes < 'L'", sizes=["S"])
    for op in ("<", "<=", ">", ">="):
        assert not matches(f"sizes {op} 'parcel'", sizes=["S"]), op
    assert matches("not (sizes < 'parcel')", sizes=["S"])


def test_text_compares_by_code_point() -> None:
    assert matches("author > 'Z'", author="a")
    assert matches("author < 'é'", author="z")
    assert matches("author starts with 'Kou'", author="Koubarakis")
    assert matches("author like 'K_u%s'", author="Koubarakis")
    assert not matches("author like 'k%'", author="Koubarakis")


def test_like_takes_linear_time_whatever_the_pattern() -> None:
    assert not matches("author like '" + "%a" * 60 + "b'", author="a" * 5000)


def test_instants_compare_across_zones_and_within_durations() -> None:
    starts = "2026-11-15T11:00:00+01:00"
    assert matches("starts = time '2026-11-15T10:00:00Z'", starts=starts)
    assert matches("starts within 2 hours of '2026-11-15T12:00:00Z'", starts=starts)
    assert not matches("starts within 119 minutes of '2026-11-15T12:00:00Z'", starts=starts)
    assert matches("starts < time '2026-11-15T09:00:00Z' + 61 minutes", starts=starts)


def test_places_lie_within_circles_and_boxes() -> None:
    bronx = [40.85, -73.88]
    assert matches("position within 5 km of (40.84, -73.87)", position=bronx)
    assert not matches("position within 500 m of (40.84, -73.87)", position=bronx)
    assert matches("position in box (40, -74, 41, -73)", position=bronx)
    assert matches("position in box (-10, 170, 10, -170)", position=[0, -179])
    assert not matches("position in box (-10, 170, 10, -170)", position=[0, 0])


def test_numbers_of_all_types_compare_as_numbers() -> None:
    assert matches("price = 0.1", price=0.1)
    assert matches("price < 9007199254740993", price=2**53)
    assert not matches("price < 9007199254740993", price=2**53 + 1)
    assert matches("price > 0.1", price=0.1000000001)


def test_operators_that_are_not_installed_are_refused() -> None:
    with pytest.raises(BindError, match="locIn"):
        matches("locIn('Bronx')")
