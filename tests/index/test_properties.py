"""Property columns: in tables, in segments, in files and through merges, each subscription keeps its own values."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tocsin.compile.bulk import load_bulk
from tocsin.compile.normalise import normalise
from tocsin.index.index_folder import open_segment, write_segment
from tocsin.index.subscription_index import SubscriptionIndex
from tocsin.language import bind
from tocsin.language.documents import read_lines
from tocsin.schema import (
    BooleanDomain,
    EnumeratedDomain,
    EventType,
    NumericDomain,
    PointDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
    Union,
)

PERSON = {
    **{"age": "int", "budget": "float", "saved": "money", "city": "text", "shirt": "size", "member": "boolean"},
    **{"born": "time", "home": "point"},
}
SCHEMA = Schema(
    {
        "int": NumericDomain(name="int", type="int", minimum=0),
        "float": NumericDomain(name="float"),
        "money": NumericDomain(name="money", type="decimal"),
        "text": TextDomain(name="text"),
        "size": EnumeratedDomain(name="size", values=("S", "M", "L"), order="total"),
        "boolean": BooleanDomain(name="boolean"),
        "time": TimeDomain(name="time"),
        "point": PointDomain(name="point"),
    },
    {**PERSON, "price": "float"},
    {
        "offer": EventType("offer", (TypeAttribute("price", mandatory=False),)),
        "person": EventType("person", tuple(TypeAttribute(name, mandatory=name == "age") for name in PERSON)),
    },
    unions={"market": Union("market", "offer", "person")},
)
TEXTS = [
    "offer where price < 3 with age = 1, city = 'Rome', saved = 0.10, member = true",
    "offer where price < 3 or price = 8 with age = 9007199254740993, budget = 2.5, shirt = 'M'",
    "offer",
    "offer with age = 3, born = time '2001-02-03T04:05:06Z', home = (1.5, -2.5), city = 'Paris'",
    "offer where price = 1 with age = 4, budget = 9007199254740993, city = 'Rome', member = false",
]


def properties_of(index: SubscriptionIndex) -> dict[object, dict[str, object]]:
    """Return id -> the properties that the index has."""
    found: dict[object, dict[str, object]] = {}
    for tier in index.tiers():
        tier.segment.check()
        for number, id in enumerate(tier.segment.ids.tolist()):
            if number not in tier.dead:
                values = {name: each.column.value(number) for name, each in tier.segment.properties.items()}
                found[id] = {name: value for name, value in values.items() if value is not None}
    return found


def test_properties_stay_with_their_subscription_through_tiers_merges_and_files(tmp_path: Path) -> None:
    index = SubscriptionIndex(SCHEMA)
    wanted = {}
    for id, text in enumerate(TEXTS * 2):
        bound = bind(text, SCHEMA)
        index.add(id, normalise(bound))
        wanted[id] = dict(bound.properties)
        if id % 3 == 1:
            index.tiers()
    assert properties_of(index) == wanted
    for gone in (1, 3):
        index.remove(gone)
        del wanted[gone]
    assert properties_of(index) == wanted
    index.merge(everything=True)
    assert len(index.tiers()) == 1
    assert properties_of(index) == wanted
    assert properties_of(index.snapshot()) == wanted
    (tier,) = index.tiers()
    write_segment(tier.segment, tmp_path / "one.segment")
    opened = open_segment(tmp_path / "one.segment", SCHEMA.domain_of)
    opened.check()
    assert {name: each.column.to_list() for name, each in opened.properties.items()} == {
        name: each.column.to_list() for name, each in tier.segment.properties.items()
    }


def test_bulk_lines_have_the_properties_that_binding_gives_them() -> None:
    draw = np.random.default_rng(1)
    lines = []
    for id in range(300):
        given = {
            "age": int(draw.integers(0, 90)),
            "budget": [3, 2.5, 10**17][id % 3],
            "city": f"c{draw.integers(5)}",
            "member": bool(id % 2),
            "shirt": "SML"[id % 3],
        }
        kept = {name: value for name, value in given.items() if name == "age" or draw.random() < 0.7}
        lines.append({"id": id, "event_types": ["offer"], "predicates": [["price", "<", id]], "with": kept})
    encoded = [msgspec.json.encode(line) for line in lines]
    loaded = load_bulk(encoded, SCHEMA)
    assert not loaded.errors
    table = loaded.table
    for number, (name_, bound) in enumerate(read_lines(encoded, SCHEMA)):  # type: ignore[misc]
        assert table.ids[number] == name_
        values = {name: each.column.value(number) for name, each in table.properties.items()}
        assert {name: value for name, value in values.items() if value is not None} == dict(bound.properties)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"age": 3, "nonsense": 1}, "has no property 'nonsense'"),
        ({"city": "Rome"}, "every person has the property 'age'"),
        ({"age": -1}, "at least 0"),
        ({"age": 3, "shirt": "XXL"}, "shirt"),
        ({"age": [3]}, "expected one value"),
    ],
)
def test_a_bulk_line_with_a_wrong_property_is_refused_and_the_others_are_not(given: object, message: str) -> None:
    good = {"event_types": ["offer"], "predicates": [], "with": {"age": 1, "shirt": "S"}}
    bad = {"event_types": ["offer"], "predicates": [], "with": given}
    loaded = load_bulk([msgspec.json.encode({"id": id, **(bad if id == 2 else good)}) for id in range(4)], SCHEMA)
    assert [error.line for error in loaded.errors] == [3]
    assert message in str(loaded.errors[0])
    assert loaded.table.ids.tolist() == [0, 1, 3]
    assert loaded.table.properties["person.age"].column.to_list() == [1, 1, 1]


def test_exact_decimals_come_back_as_they_were() -> None:
    index = SubscriptionIndex(SCHEMA)
    index.add(1, normalise(bind("offer with age = 1, saved = 0.1", SCHEMA)))
    assert properties_of(index)[1]["person.saved"] == Decimal("0.1")
