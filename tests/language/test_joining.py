"""Joining: what a schema needs for a site's samples, and the mapping that then takes all of them."""

from __future__ import annotations

from typing import Any

from tocsin.language.joining import propose_joining
from tocsin.language.mapping import SiteMapping
from tocsin.schema import EnumeratedDomain, EventType, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin.schema.growth import check_extends

SCHEMA = Schema(
    {
        "amount": NumericDomain(name="amount"),
        "words": TextDomain(name="words"),
        "saleroom": EnumeratedDomain(name="saleroom", values=("Paris", "Lyon")),
    },
    {"price": "amount", "saleroom": "saleroom", "title": "words", "size": "words"},
    {"lot": EventType("lot", tuple(TypeAttribute(name, False) for name in ("price", "saleroom", "title")))},
)
SAMPLES: list[dict[str, Any]] = [
    {"Price": "12", "Saleroom": "London", "Title": "Chair", "Size": 3, "year made": "1900", "sold": True},
    {"Price": 13, "Saleroom": "Paris", "Title": "Table", "Size": 4, "year made": "1910", "sold": False},
]


def test_all_samples_become_events_of_the_schema_that_is_proposed() -> None:
    found = propose_joining("Hammer", SAMPLES, SCHEMA, "lot")
    check_extends(SCHEMA, found.schema)
    mapping = SiteMapping(found.mapping, found.schema)
    events = [found.schema.admit(mapping.translate(sample)).values for sample in SAMPLES]
    assert [event["saleroom"] for event in events] == [("London",), ("Paris",)]
    assert [event["year_made"] for event in events] == [(1900,), (1910,)]
    assert all(not mapping.lost(sample) for sample in SAMPLES)


def test_conflicts_are_found_by_definition_with_their_remedies() -> None:
    found = propose_joining("Hammer & Sons", SAMPLES, SCHEMA, "lot")
    values, attribute = map(str, found.conflicts)
    assert (
        values
        == "saleroom exists with Paris, Lyon; Saleroom has London: add the values, or map them by a table of saleroom"
    )
    assert (
        attribute
        == "size exists over words (text); Size is numeric: name it hammer_sons_size, or map it to size by a table or a pattern"
    )
    assert found.schema.attributes["hammer_sons_size"] == "amount"  # defined alike, though of another name
    assert found.schema.attributes["year_made"] == "amount"
    assert {"add_values": {"domain": "saleroom", "values": ["London"]}} in found.changes


def test_what_fits_already_needs_nothing() -> None:
    found = propose_joining("s", [{"price": 3, "title": "x", "saleroom": "Lyon"}], SCHEMA, "lot")
    assert (found.changes, found.conflicts, found.schema) == ([], [], SCHEMA)
