"""The consolidation report names what a schema says twice, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies.schemas import schemas
from tocsin.schema import (
    EnumeratedDomain,
    EventType,
    HierarchicalDomain,
    NumericDomain,
    Schema,
    TextDomain,
    TypeAttribute,
)
from tocsin.schema.examples import load_example
from tocsin.schema.growth import (
    ALIKE_ATTRIBUTES,
    EQUAL_EVENT_TYPES,
    REDUNDANT_DOMAINS,
    SIMILAR_ATTRIBUTES,
    UNUSED_ATTRIBUTES,
    UNUSED_DOMAINS,
    are_similar,
    consolidation_report,
)


def test_a_domain_created_twice_is_reported() -> None:
    report = consolidation_report(load_example("thesis"))
    assert [finding.names for finding in report.of(REDUNDANT_DOMAINS)] == [("2", "7")]
    assert "'2', '7' are defined alike; use '2' and leave '7'" in str(report)
    assert [finding.names for finding in report.of(UNUSED_DOMAINS)] == [("4",), ("7",)]
    assert [finding.names for finding in report.of(UNUSED_ATTRIBUTES)] == [("artist",)]


def test_colour_and_color_over_redundant_domains_are_reported() -> None:
    schema = Schema(
        {
            "c1": EnumeratedDomain(name="c1", values=("red", "blue")),
            "c2": EnumeratedDomain(name="c2", values=("red", "blue")),
            "n": NumericDomain(name="n"),
        },
        {"colour": "c1", "color": "c2", "colouring": "n", "shade": "c2", "price": "n", "prize": "n"},
        {
            "car": EventType("car", (TypeAttribute("colour"), TypeAttribute("shade"), TypeAttribute("price"))),
            "auto": EventType("auto", (TypeAttribute("price"), TypeAttribute("shade"), TypeAttribute("colour"))),
            "empty": EventType("empty", ()),
            "void": EventType("void", ()),
        },
    )
    report = consolidation_report(schema)
    assert [finding.names for finding in report.of(SIMILAR_ATTRIBUTES)] == [("colour", "color"), ("price", "prize")]
    assert [finding.names for finding in report.of(ALIKE_ATTRIBUTES)] == [("colour", "shade")]
    assert [finding.names for finding in report.of(EQUAL_EVENT_TYPES)] == [("car", "auto")]
    assert "similar attributes:\n  - 'colour' and 'color' have nearly the same name" in str(report)


def test_domains_that_differ_in_anything_are_not_redundant() -> None:
    schema = Schema(
        {
            "a": TextDomain(name="a"),
            "b": TextDomain(name="b", case="folded"),
            "c": HierarchicalDomain(name="c", tree={"x": {}, "y": {}}),
            "d": HierarchicalDomain(name="d", tree={"y": {}, "x": {}}),
            "e": EnumeratedDomain(name="e", values=("x", "y")),
            "f": EnumeratedDomain(name="f", values=("x", "y"), order="total"),
        }
    )
    assert not consolidation_report(schema).of(REDUNDANT_DOMAINS)


@pytest.mark.parametrize(
    ("left", "right"),
    [("colour", "color"), ("seller_name", "sellerName"), ("tag", "TAG"), ("item", "items"), ("recieve", "receive")],
)
def test_names_that_mean_the_same_are_similar(left: str, right: str) -> None:
    assert are_similar(left, right)
    assert are_similar(right, left)


@pytest.mark.parametrize(
    ("left", "right"), [("cc", "ac"), ("min", "max"), ("price1", "price2"), ("start", "end"), ("width", "height")]
)
def test_names_that_differ_by_design_are_not_similar(left: str, right: str) -> None:
    assert not are_similar(left, right)


def test_a_tidy_schema_has_nothing_to_consolidate() -> None:
    report = consolidation_report(load_example("auction"))
    assert not report.findings
    assert str(report) == "Schema version 1: nothing to consolidate."


@given(schemas())
def test_every_schema_has_a_report_that_names_what_exists(schema: Schema) -> None:
    known = {*schema.domains, *schema.attributes, *schema.event_types}
    for finding in consolidation_report(schema).findings:
        assert set(finding.names) <= known
        assert str(finding)
