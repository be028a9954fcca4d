"""Inferred schemas admit all their samples, and say what was uncertain."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.schemas import raw_events, schemas
from tocsin.errors import BadDefinition, EventRejected
from tocsin.schema import EnumeratedDomain, Schema, TextDomain, TypeAttribute


def kinds(schema: Schema) -> dict[str, str]:
    return dict(schema.attributes)


def test_kinds_are_recognised_and_domains_are_shared() -> None:
    schema = Schema.infer(
        [
            {
                "price": 12,
                "weight": 1.5,
                "sold": True,
                "title": "Oak table",
                "at": "2026-11-15T10:00:00Z",
                "where": {"lat": 40.85, "lon": -73.88},
                "location": [40.85, -73.88],
                "tags": ["a", "b"],
                "seller": {"name": "Ann", "rating": 4},
                "exact": Decimal("0.1"),
            }
        ],
        mandatory=True,
    )
    assert kinds(schema) == {
        "price": "number",
        "weight": "number",
        "sold": "boolean",
        "title": "text",
        "at": "time",
        "where": "point",
        "location": "point",
        "tags": "text",
        "seller.name": "text",
        "seller.rating": "number",
        "exact": "decimal",
    }
    assert set(schema.event_types) == {"event"}
    assert schema.event_types["event"].get("tags") == TypeAttribute("tags", multiple=True)
    assert schema.event_types["event"].get("price") == TypeAttribute("price")


def test_integers_are_proposed_only_when_asked_for() -> None:
    samples: list[dict[str, object]] = [{"n": 1, "x": 1}, {"n": 2, "x": 2.5}]
    assert kinds(Schema.infer(samples)) == {"n": "number", "x": "number"}
    assert kinds(Schema.infer(samples, integers=True)) == {"n": "integer", "x": "number"}


def test_a_time_without_zone_is_text() -> None:
    assert kinds(Schema.infer([{"at": "2026-11-15T10:00:00"}])) == {"at": "text"}
    assert kinds(Schema.infer([{"at": "2026-11-15T10:00:00Z"}, {"at": "soon"}])) == {"at": "text"}


def test_pairs_are_points_only_under_a_name_of_positions() -> None:
    assert kinds(Schema.infer([{"range": [1, 2]}])) == {"range": "number"}
    assert kinds(Schema.infer([{"location": [1, 2]}, {"location": [1, 2, 3]}])) == {"location": "number"}
    assert kinds(Schema.infer([{"home.position": [1, 2]}])) == {"home.position": "point"}
    several = Schema.infer([{"location": [[1, 2], [3, 4]]}], mandatory=True)
    assert kinds(several) == {"location": "point"}
    assert several.event_types["event"].get("location") == TypeAttribute("location", multiple=True)
    assert kinds(Schema.infer([{"w": {"lat": 1, "lon": 2}}, {"w": {"lat": 1, "lon": 200}}])) == {
        "w.lat": "number",
        "w.lon": "number",
    }


def test_mandatory_is_what_every_sample_of_a_type_has() -> None:
    samples: list[dict[str, Any]] = [
        {"event_type": "car", "price": 1, "cc": 2},
        {"event_type": "car", "price": 1, "cc": None},
        {"event_type": "bid", "price": 1, "by": "x"},
        {"event_type": ["car", "bid"], "price": 1, "by": "x", "both": 1},
    ]
    schema = Schema.infer(samples, mandatory=True)
    assert schema.event_types["car"].attributes == (
        TypeAttribute("price"),
        TypeAttribute("cc", mandatory=False),
        TypeAttribute("both", mandatory=False),
    )
    assert schema.event_types["bid"].get("by") == TypeAttribute("by")
    optional = Schema.infer(samples)
    assert not any(entry.mandatory for kind in optional.event_types.values() for entry in kind.attributes)


def test_values_are_listed_only_when_asked_for_and_seen_often() -> None:
    samples = [{"colour": colour, "paint": colour, "id": str(at)} for at, colour in enumerate(["red", "blue"] * 5)]
    assert kinds(Schema.infer(samples)) == {"colour": "text", "paint": "text", "id": "text"}
    schema = Schema.infer(samples, enumerate_up_to=20)
    assert kinds(schema) == {"colour": "colour", "paint": "colour", "id": "text"}
    assert schema.domains["colour"] == EnumeratedDomain(name="colour", values=("blue", "red"))
    assert kinds(Schema.infer(samples[:8], enumerate_up_to=20))["colour"] == "text"
    assert kinds(Schema.infer([{"text": "a"}] * 5, enumerate_up_to=3)) == {"text": "text values"}


def test_mixed_values_are_reported_and_the_choice_named() -> None:
    samples: list[dict[str, object]] = [{"x": 1}, {"x": 2}, {"x": "three"}]
    proposal = Schema.propose(samples)
    assert kinds(proposal.schema) == {"x": "dynamic"}
    assert proposal.notes == ("x has mixed values: 2 of 3 are number, others are such as 'three'; dynamic was chosen",)
    assert not proposal.rejected


def test_case_is_folded_when_asked_for() -> None:
    schema = Schema.infer([{"name": "Ann"}], fold_case=True)
    assert schema.domain_of("name") == TextDomain(name="text", case="folded")


def test_what_never_has_a_value_is_left_out_with_a_note() -> None:
    proposal = Schema.propose([{"a": 1, "b": None, "c": {"d": []}}])
    assert kinds(proposal.schema) == {"a": "number"}
    assert proposal.notes == (
        "b never has a value, so it is left out",
        "c.d never has a value, so it is left out",
    )
    assert not proposal.rejected


def test_samples_without_a_type_among_several_types_are_reported() -> None:
    proposal = Schema.propose([{"event_type": "a"}, {"event_type": "b"}, {"x": 1}])
    assert "1 of 3 samples name no event type" in proposal.notes
    assert [position for position, _ in proposal.rejected] == [2]
    assert set(Schema.infer([{"event_type": "a"}, {"x": 1}]).event_types) == {"a"}


def test_no_samples_give_a_schema_with_one_empty_event_type() -> None:
    assert set(Schema.infer([]).event_types) == {"event"}
    assert Schema.infer([{}]).event_types["event"].attributes == ()


@pytest.mark.parametrize("bad", [{"x": float("nan")}, {"x": "\ud800"}, {"x": object()}, {" x": 1}, {"": 1}])
def test_what_no_schema_admits_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadDefinition):
        Schema.infer([bad])


def test_samples_that_are_not_objects_or_too_deep_are_refused() -> None:
    with pytest.raises(BadDefinition, match="a sample is an object, not 3"):
        Schema.infer([3])  # type: ignore[list-item]
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"a": deep}
    with pytest.raises(EventRejected, match="nested deeper than 32"):
        Schema.infer([deep])


@given(st.data())
def test_events_of_any_schema_infer_a_schema_that_admits_them(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    samples = data.draw(st.lists(raw_events(schema), max_size=6))
    proposal = Schema.propose(
        samples, enumerate_up_to=data.draw(st.sampled_from([0, 5])), integers=data.draw(st.booleans())
    )
    if not proposal.notes:
        assert not proposal.rejected


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(["x", "location", "y.z"]), JSON_VALUES, max_size=3), max_size=4))
def test_a_schema_of_any_json_admits_it_unless_values_are_mixed(samples: list[dict[str, Any]]) -> None:
    proposal = Schema.propose(samples)
    if not any("mixed" in note for note in proposal.notes):
        assert not proposal.rejected
