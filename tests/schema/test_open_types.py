"""Open event types: what the schema does not know is passed over, and rejects no event."""

from __future__ import annotations

import pytest

import tocsin
from tocsin.errors import BadDefinition, EventRejected
from tocsin.schema import EventType, Schema, TypeAttribute, files
from tocsin.schema.document import from_document, to_document
from tocsin.schema.json_schema import json_schema

OPEN = Schema.infer([{"user": "ann", "seller": {"name": "bob"}, "n": 1}], unknown="ignored")


@pytest.mark.parametrize(
    "raw",
    [
        {"user": "ann", "other": 1},
        {"user": "ann", "other": {"deep": [1, {"x": 2}]}, "seller": {"name": "bob", "age": 4}},
        {"user": "ann", "list": ["a", "b"], "nothing": None, "flag": True},
    ],
)
def test_unknown_attributes_are_passed_over(raw: dict[str, object]) -> None:
    event = OPEN.admit(raw)
    assert set(event.values) <= {"event_type", "user", "seller.name", "n"}
    matcher = tocsin.Matcher(OPEN)
    matcher.subscribe("ann", "user = 'ann'")
    assert matcher.match(raw) == ["ann"]
    assert matcher.match_batch([event]) == [["ann"]]


def test_known_attributes_are_still_judged() -> None:
    with pytest.raises(EventRejected, match="n:"):
        OPEN.admit({"n": "many", "other": 1})


def test_closed_types_refuse_what_they_do_not_know() -> None:
    closed = Schema.infer([{"user": "ann"}])
    with pytest.raises(EventRejected, match="no attribute"):
        closed.admit({"user": "ann", "other": 1})


def test_an_event_of_an_open_and_a_closed_type_is_open() -> None:
    both = Schema(
        OPEN.domains,
        OPEN.attributes,
        {
            "a": EventType("a", (TypeAttribute("user"),)),
            "b": EventType("b", (TypeAttribute("n", False),), unknown="ignored"),
        },
    )
    assert both.admit({"event_type": ["a", "b"], "user": "ann", "x": 1}).values["user"] == ("ann",)
    with pytest.raises(EventRejected):
        both.admit({"event_type": "a", "user": "ann", "x": 1})


def test_open_types_are_kept_by_every_form_and_by_extension() -> None:
    assert from_document(to_document(OPEN)) == OPEN
    assert files.loads(files.dumps(OPEN, "toml"), "toml") == OPEN
    assert files.loads(files.dumps(OPEN, "json"), "json") == OPEN
    extended = OPEN.add_attribute("late", "text").extend_event_type("event", "late")
    assert extended.event_types["event"].is_open
    assert json_schema(OPEN)["additionalProperties"] is True
    with pytest.raises(BadDefinition, match="open:"):
        from_document({**to_document(OPEN), "open": ["none such"]})


def test_xml_keeps_open_types() -> None:
    pytest.importorskip("lxml", reason="needs the extra xml")
    from tocsin.xml.schema_form import from_xml, to_xml

    assert from_xml(to_xml(OPEN)).event_types["event"].is_open
