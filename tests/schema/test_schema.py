"""The schema: its four extension rules, its views, and the errors that each has by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.schemas import raw_events, schemas
from tocsin.errors import (
    AttributeInType,
    BadDefinition,
    DuplicateName,
    SchemaError,
    UnknownAttribute,
    UnknownDomain,
    UnknownEventType,
)
from tocsin.schema import (
    EVENT_TYPE,
    EnumeratedDomain,
    EventType,
    NumericDomain,
    Schema,
    TextDomain,
    TypeAttribute,
)

BASE = Schema(
    {"n": NumericDomain(name="n"), "t": TextDomain(name="t")},
    {"price": "n", "colour": "t", "tags": "t"},
    {
        "antique": EventType("antique", (TypeAttribute("price"), TypeAttribute("tags", mandatory=False))),
        "car": EventType("car", (TypeAttribute("price", mandatory=False), TypeAttribute("tags", multiple=True))),
    },
)


# --- the four extension rules -----------------------------------------------------------------------------------------


def test_the_domain_creation_rule_adds_a_domain_one_version_later() -> None:
    new = NumericDomain(name="year", type="int")
    schema = BASE.add_domain(new)
    assert schema.domains == {**BASE.domains, "year": new}
    assert (schema.version, schema.attributes, schema.event_types) == (2, BASE.attributes, BASE.event_types)


def test_the_attribute_creation_rule_adds_an_attribute_one_version_later() -> None:
    schema = BASE.add_attribute("title", "t")
    assert schema.attributes == {**BASE.attributes, "title": "t"}
    assert (schema.version, schema.domains, schema.event_types) == (2, BASE.domains, BASE.event_types)


def test_the_event_schema_extension_rule_adds_an_optional_attribute_one_version_later() -> None:
    schema = BASE.extend_event_type("car", "colour", multiple=True)
    assert schema.event_types["car"].get("colour") == TypeAttribute("colour", mandatory=False, multiple=True)
    assert schema.event_types["antique"] == BASE.event_types["antique"]
    assert schema.version == 2


def test_the_event_schema_creation_rule_adds_an_event_type_one_version_later() -> None:
    schema = BASE.add_event_type("boat", [TypeAttribute("price"), TypeAttribute("colour", mandatory=False)])
    assert schema.event_types["boat"].attributes == (TypeAttribute("price"), TypeAttribute("colour", mandatory=False))
    assert schema.version == 2
    assert schema.event_type_domain.values == ("antique", "car", "boat")  # older positions stay


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda s: s.add_domain(TextDomain(name="n")), DuplicateName, "there is a domain 'n' already"),
        (lambda s: s.add_domain(TextDomain(name=EVENT_TYPE)), DuplicateName, "there is a domain 'event_type' already"),
        (lambda s: s.add_domain(TextDomain(name=" n")), BadDefinition, "' n' cannot name a domain"),
        (lambda s: s.add_attribute("price", "t"), DuplicateName, "there is an attribute 'price' already"),
        (lambda s: s.add_attribute(EVENT_TYPE, "t"), DuplicateName, "there is an attribute 'event_type' already"),
        (lambda s: s.add_attribute("title", "tt"), UnknownDomain, "there is no domain 'tt'; did you mean t"),
        (lambda s: s.add_attribute('"x"', "t"), BadDefinition, "cannot name an attribute"),
        (lambda s: s.add_attribute("", "t"), BadDefinition, "cannot name an attribute"),
        (lambda s: s.add_attribute("a\nb", "t"), BadDefinition, "cannot name an attribute"),
        (lambda s: s.add_attribute("x" * 201, "t"), BadDefinition, "1 to 200 printable characters"),
        (lambda s: s.extend_event_type("car", "price"), AttributeInType, "'car' has the attribute 'price' already"),
        (lambda s: s.extend_event_type("car", "color"), UnknownAttribute, "no attribute 'color'; did you mean colour"),
        (lambda s: s.extend_event_type("cars", "colour"), UnknownEventType, "no event type 'cars'; did you mean car"),
        (lambda s: s.extend_event_type("car", EVENT_TYPE), BadDefinition, "every event has event_type"),
        (lambda s: s.add_event_type("car", []), DuplicateName, "there is an event type 'car' already"),
        (lambda s: s.add_event_type("x", [TypeAttribute("prize")]), UnknownAttribute, "did you mean price"),
        (lambda s: s.add_event_type("x", [TypeAttribute("price")] * 2), AttributeInType, "'x' has the attribute"),
        (lambda s: s.add_event_type("x ", []), BadDefinition, "'x ' cannot name an event type"),
    ],
)
def test_a_change_that_is_wrong_has_its_own_error_and_leaves_no_trace(
    change: Callable[[Schema], Schema], error: type[SchemaError], message: str
) -> None:
    with pytest.raises(error, match=message):
        change(BASE)
    assert BASE.version == 1
    assert set(BASE.attributes) == {"price", "colour", "tags"}


@given(st.data())
def test_what_was_valid_stays_valid_under_every_extension(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    raw = data.draw(raw_events(schema))
    event = schema.admit(raw)
    later = schema.add_domain(TextDomain(name="later")).add_attribute("later", "later")
    name = data.draw(st.sampled_from(list(schema.event_types)))
    later = later.extend_event_type(name, "later").add_event_type("later", [TypeAttribute("later")])
    assert later.version == schema.version + 4
    if len(schema.event_types) > 1 or EVENT_TYPE in raw:
        assert later.admit(raw) == event
    assert schema.admit(raw) == event  # whoever holds the older schema is not disturbed


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Schema({"a": TextDomain(name="b")}), BadDefinition, "'b' stands under another name: 'a'"),
        (lambda: Schema({" a": TextDomain(name=" a")}), BadDefinition, "cannot name a domain"),
        (lambda: Schema({EVENT_TYPE: TextDomain(name=EVENT_TYPE)}), DuplicateName, "event_type"),
        (lambda: Schema(BASE.domains, {EVENT_TYPE: "t"}), DuplicateName, "event_type"),
        (lambda: Schema(BASE.domains, {"a": "x"}), UnknownDomain, "there is no domain 'x'"),
        (lambda: Schema(event_types={"a": EventType("b", ())}), BadDefinition, "stands under another name"),
        (lambda: Schema(event_types={"a": EventType("a", (TypeAttribute("x"),))}), UnknownAttribute, "'x'"),
        (lambda: Schema(version=0), BadDefinition, "versions count from 1"),
    ],
)
def test_a_schema_is_checked_however_it_was_made(
    make: Callable[[], Schema], error: type[SchemaError], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


# --- views ------------------------------------------------------------------------------------------------------------


def test_in_a_view_mandatory_wins_over_optional_and_multiple_over_unique() -> None:
    view = BASE.view(["antique", "car"])
    assert (view["price"].mandatory, view["price"].multiple) == (True, False)
    assert (view["tags"].mandatory, view["tags"].multiple) == (True, True)
    assert view.mandatory == (EVENT_TYPE, "price", "tags")


def test_a_view_has_the_attributes_of_its_types_only() -> None:
    schema = BASE.add_event_type("boat", [TypeAttribute("colour")])
    assert set(schema.view(["boat"]).attributes) == {EVENT_TYPE, "colour"}
    assert set(schema.view().attributes) == {EVENT_TYPE, "price", "tags", "colour"}
    with pytest.raises(UnknownAttribute, match="no attribute 'price'"):
        schema.view(["boat"])["price"]
    with pytest.raises(UnknownEventType, match="did you mean boat"):
        schema.view(["boats"])


def test_the_distinguished_attribute_is_mandatory_multiple_and_ranges_over_the_event_types() -> None:
    entry = BASE.view(["car"])[EVENT_TYPE]
    assert (entry.mandatory, entry.multiple) == (True, True)
    assert entry.domain == EnumeratedDomain(name=EVENT_TYPE, values=("antique", "car"))
    assert BASE.domain_of(EVENT_TYPE) == entry.domain


@given(st.data())
def test_a_view_merges_as_the_paper_says(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = data.draw(st.sets(st.sampled_from(list(schema.event_types)), min_size=1))
    view = schema.view(types)
    triples = [entry for name in types for entry in schema.event_types[name].attributes]
    assert set(view.attributes) == {EVENT_TYPE, *(entry.attribute for entry in triples)}
    for name, merged in view.attributes.items():
        if name != EVENT_TYPE:
            own = [entry for entry in triples if entry.attribute == name]
            assert merged.mandatory == any(entry.mandatory for entry in own)
            assert merged.multiple == any(entry.multiple for entry in own)
            assert merged.domain == schema.domain_of(name)


def test_a_schema_without_event_types_says_so() -> None:
    with pytest.raises(SchemaError, match="no event type yet"):
        Schema().view()


def test_annotations_read_as_the_paper_writes_them() -> None:
    assert str(TypeAttribute("a")) == "mandatory unique"
    assert str(TypeAttribute("a", mandatory=False, multiple=True)) == "optional multiple"
