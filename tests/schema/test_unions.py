"""Matchmaking unions in schemas and in all the forms of a schema."""

from __future__ import annotations

import pytest

from tocsin.errors import BadDefinition, DuplicateName, UnknownUnion
from tocsin.schema import Schema, Union, dumps, loads
from tocsin.schema.examples import load_example
from tocsin.schema.files import Format

INSURANCE = load_example("insurance")


@pytest.mark.parametrize("form", ["json", "toml", "xml"])
def test_every_form_carries_the_unions(form: Format) -> None:
    again = loads(dumps(INSURANCE, form), form)
    assert again == INSURANCE
    assert again.union("auto_insurance") == Union("auto_insurance", "insurance", "driver")


def test_a_union_can_be_added_once() -> None:
    plain = Schema(INSURANCE.domains, INSURANCE.attributes, INSURANCE.event_types)
    union = Union("market", "insurance", "driver")
    extended = plain.add_union(union)
    assert (extended.unions, extended.version) == ({"market": union}, 2)
    with pytest.raises(DuplicateName):
        extended.add_union(union)


@pytest.mark.parametrize(
    ("union", "message"),
    [
        (Union("m", "insurance", "drivr"), "did you mean driver"),
        (Union("m", "driver", "driver"), "must differ"),
    ],
)
def test_a_union_is_of_two_event_types_of_the_schema(union: Union, message: str) -> None:
    with pytest.raises(BadDefinition, match=message):
        INSURANCE.add_union(union)


def test_an_unknown_union_is_named() -> None:
    with pytest.raises(UnknownUnion, match="did you mean auto_insurance"):
        INSURANCE.union("auto_insuranc")


def test_a_document_says_where_a_union_is_wrong() -> None:
    with pytest.raises(BadDefinition, match=r"unions\.m\.subscriber: None is not the name of an event type"):
        loads('{"unions": {"m": {"event": "x"}}}', "json")
