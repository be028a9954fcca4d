"""Mappings: the definition, columns that equal it, back where it is reversible, bounds, and proposals from samples."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import BadDefinition, EventRejected
from tocsin.language.mapping import MappingDocument, MappingRule, SiteMapping, load_mapping
from tocsin.language.mapping_columns import translate_batch
from tocsin.language.mapping_infer import coverage, infer_mapping
from tocsin.language.units import conversion
from tocsin.schema import (
    BooleanDomain,
    EnumeratedDomain,
    EventType,
    NumericDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
)

NAMES = (
    "title",
    "price",
    "whole",
    "weight_kg",
    "shade",
    "ends",
    "sold",
    "tags",
    "code",
    "size",
    "items.sku",
    "items.qty",
)
SCHEMA = Schema(
    {
        "text": TextDomain(name="text"),
        "number": NumericDomain(name="number"),
        "whole": NumericDomain(name="whole", type="int", minimum=0),
        "shade": EnumeratedDomain(name="shade", values=("red", "blue")),
        "time": TimeDomain(name="time"),
        "flag": BooleanDomain(name="flag"),
    },
    {
        "title": "text", "price": "number", "whole": "whole", "weight_kg": "number", "shade": "shade", "ends": "time",
        "sold": "flag", "tags": "text", "code": "text", "size": "number", "items.sku": "text", "items.qty": "number",
    },
    {
        "thing": EventType(
            "thing", tuple(TypeAttribute(n, False, n == "tags" or n.startswith("items.")) for n in NAMES)
        )
    },
)  # fmt: skip
TOML = """
site = "flohmarkt"
version = 3
event_type = "thing"
missing = ["", "NA"]
ignore = ["internal"]
id = "nr"

[source]
rooms = "number"

[[rules]]
from = "Titel"
to = "title"

[[rules]]
from = "Preis"
to = "price"
scale = 0.01

[[rules]]
from = "Anzahl"
to = "whole"

[[rules]]
from = "masse.Gewicht_lb"
to = "weight_kg"
unit = ["lb", "kg"]

[[rules]]
from = "Farbe"
to = "shade"
table = { rot = "red", blau = "blue" }

[[rules]]
from = "Ende"
to = "ends"
time = "%d.%m.%Y %H:%M"
zone = "Europe/Berlin"

[[rules]]
from = "verkauft"
to = "sold"

[[rules]]
from = "Schlagworte"
to = "tags"
split = ","

[[rules]]
from = "Kennung"
to = ["code", "size"]
pattern = "([A-Z]+)-([0-9]+)"

[[rules]]
to = "tags"
formula = "case when price > 100 then 'dear' else 'cheap' end"
when = "rooms > 2"

[[rules]]
from = "Posten"
to = "items"
array = [{ from = "nr", to = "sku" }, { from = "n", to = "qty" }]
"""
MAPPING = SiteMapping.loads(TOML, SCHEMA)
DOCUMENT: dict[str, Any] = {
    "nr": 17, "Titel": "Stuhl", "Preis": "1250", "Anzahl": 3, "masse": {"Gewicht_lb": 10}, "Farbe": "rot",
    "Ende": "24.12.2026 18:00", "verkauft": "false", "Schlagworte": "alt, Holz ,", "Kennung": "lot AB-12", "rooms": 3,
    "Posten": [{"nr": "a", "n": 1}, {"nr": "b"}], "internal": 1, "Extra": True,
}  # fmt: skip


def test_every_kind_of_rule_does_what_it_says() -> None:
    event = MAPPING.translate(DOCUMENT)
    assert event.pop("ends").isoformat() == "2026-12-24T17:00:00+00:00"
    assert event == {
        "event_type": "thing", "title": "Stuhl", "price": 12.5, "whole": 3, "weight_kg": pytest.approx(4.5359237), "shade": "red",
        "sold": False, "tags": ["alt", "Holz", "cheap"], "code": "AB", "size": 12,
        "items": [{"sku": "a", "qty": 1}, {"sku": "b"}],
    }  # fmt: skip
    assert SCHEMA.admit(MAPPING.translate(DOCUMENT)).values["items.sku"] == ("a", "b")
    assert MAPPING.lost(DOCUMENT) == ["Extra"]


def test_what_is_refused_names_the_original_field_and_says_all() -> None:
    with pytest.raises(EventRejected) as caught:
        MAPPING.translate({"Farbe": "rott", "Ende": "gestern", "Kennung": "?", "Anzahl": -1, "Preis": "x"})
    said = [str(each) for each in caught.value.violations]
    assert len(said) == 5
    assert said[2].startswith("shade, from Farbe: ")
    assert "rot" in said[2]


def test_units_are_converted() -> None:
    assert conversion("mpg", "l/100km")[0] == pytest.approx(235.2145833)
    assert conversion("mpg", "l/100km")[2]
    assert conversion("l/100km", "mpg")[0] == pytest.approx(235.2145833)
    factor, offset, _ = conversion("F", "C")
    assert 212 * factor + offset == pytest.approx(100)
    with pytest.raises(BadDefinition, match="mass"):
        conversion("kg", "km")


@pytest.mark.parametrize(
    "rule",
    [
        {"to": "nothing", "from": "a"},
        {"to": "price", "from": "a", "value": 1},
        {"to": "price"},
        {"to": "price", "from": ["a", "b"]},
        {"to": ["price", "title"], "from": "a"},
        {"to": "price", "from": "a", "unit": ["kg", "km"]},
        {"to": "price", "value": "dear"},
        {"to": "price", "formula": "nothing + 1"},
        {"to": "title", "from": "a", "pattern": "(unclosed"},
        {"to": "title", "from": "a", "pattern": "no group"},
        {"to": "ends", "from": "a", "time": "iso", "zone": "Mars/Olympus"},
        {"to": "price", "from": "a", "scale": 0.0},
        {"to": "price", "from": "a", "colour": "red"},
        {"to": "title", "from": "a", "pattern": "(" + "a{1000}" * 140 + ")"},
    ],
)
def test_a_rule_that_cannot_be_is_refused_when_it_is_compiled(rule: dict[str, Any]) -> None:
    with pytest.raises(BadDefinition):
        SiteMapping.loads(msgspec.json.encode({"site": "s", "rules": [rule]}), SCHEMA, "json")


def test_a_mapping_that_would_blow_up_is_refused() -> None:
    many = SiteMapping(MappingDocument("s", (MappingRule("tags", "t", split=","),), event_type="thing"), SCHEMA)
    with pytest.raises(EventRejected, match="more than"):
        many.translate({"t": "a," * 20_000})
    with pytest.raises(EventRejected, match="at most"):
        many.translate({"t": "a" * 70_000})
    with pytest.raises(BadDefinition):
        load_mapping("#" * (1 << 21))


# --- columns equal the definition -------------------------------------------------------------------------------------

_CELLS: dict[str, list[Any]] = {
    "text": [None, "", "NA", "rot", "blau", "Rot", "a, b,c", "AB-12 x", "7", " 8 ", "2.5", "true", "24.12.2026 18:00"],
    "int": [None, 0, 1, 7, -3, 2**53 + 1],
    "float": [None, 0.0, 0.5, -2.25, 1e300, 3.0],
    "bool": [None, True, False],
    "time": [
        None,
        "",
        "24.12.2026 18:00",
        "25.10.2026 02:30",
        "29.03.2026 02:30",
        "1.1.2026 00:00",
        "31.02.2026 00:00",
    ],
    "times": [None, "24.12.2026 18:00", "25.10.2026 02:30", "01.01.1900 00:00"],
}
_STEPS: list[dict[str, Any]] = [
    {}, {}, {"scale": 2.5, "offset": -1.0}, {"unit": ("mpg", "l/100km")}, {"digits": 0}, {"scale": 0.3, "digits": 2},
    {"table": {"rot": "red", "blau": "blue", "7": 1}, "otherwise": "keep"}, {"table": {"rot": "red"}, "otherwise": "drop"},
    {"table": {"rot": "red"}}, {"split": ","}, {"time": "%d.%m.%Y %H:%M", "zone": "Europe/Paris"}, {"time": "seconds"},
    {"pattern": "([A-Z]+)-"}, {"when": "f1 > 0"},
]  # fmt: skip


def _random_mapping(random: Random) -> SiteMapping:
    rules = []
    for _ in range(random.randint(1, 6)):
        target = random.choice([name for name in NAMES if not name.startswith("items.")])
        if random.random() < 0.1:
            rules.append(MappingRule(to="price", formula="f1 / 2 + whole"))
            continue
        if random.random() < 0.1:
            rules.append(MappingRule(to="title", source=("a", "b"), join="/"))
            continue
        rules.append(MappingRule(to=target, source=random.choice("abcd"), **random.choice(_STEPS)))
    others: Any = random.choice(["ignore", "ignore", "refuse"])
    return SiteMapping(
        MappingDocument(
            "s", tuple(rules), event_type="thing", missing=("", "NA"), source={"f1": "number"}, others=others
        ),
        SCHEMA,
    )


@given(st.integers(0, 2**32))
def test_columns_equal_the_definition(seed: int) -> None:
    random = Random(seed)
    mapping = _random_mapping(random)
    kinds = {name: random.choice(list(_CELLS)) for name in "abcd"} | {"f1": random.choice(["int", "float", "text"])}
    mixed = random.random() < 0.3  # documents of which no two are alike
    documents = []
    for _ in range(random.randint(0, 12)):
        cells = {name: _CELLS[random.choice(list(_CELLS)) if mixed else kind] for name, kind in kinds.items()}
        documents.append({name: random.choice(values) for name, values in cells.items() if random.random() < 0.9})
        if mixed and random.random() < 0.2:
            documents[-1]["a"] = random.choice([["rot", "7"], [], {"b": 1}, [{"b": 2}], 2**70, Decimal("1.50"), -0.0])
    for document, event in zip(documents, translate_batch(mapping, documents), strict=True):
        expected = _translated(mapping, document)
        assert (str(event) if isinstance(event, EventRejected) else event) == expected
        if isinstance(expected, dict):  # also the same when they are stored: 5, not 5.0
            assert msgspec.json.encode(event, order="sorted") == msgspec.json.encode(expected, order="sorted")
            for name, value in expected.items():
                for each in value if isinstance(value, list | tuple) else [value]:
                    assert SCHEMA.domain_of(name).admit(each) == each


def _translated(mapping: SiteMapping, document: Any) -> dict[str, Any] | str:
    try:
        return mapping.translate(document)
    except EventRejected as error:
        return str(error)


def test_nested_and_repeated_fields_are_translated_in_columns_too() -> None:
    documents = [DOCUMENT, {**DOCUMENT, "Farbe": "x"}, DOCUMENT, {**DOCUMENT, "masse": [{"Gewicht_lb": 1}]}, {}]
    found = translate_batch(MAPPING, documents)
    assert isinstance(found[1], EventRejected)
    assert [str(each) if isinstance(each, EventRejected) else each for each in found] == [
        _translated(MAPPING, document) for document in documents
    ]


def test_a_batch_may_hold_what_is_no_document() -> None:
    found = translate_batch(MAPPING, [DOCUMENT, 7, None, [], DOCUMENT])
    assert [isinstance(each, EventRejected) for each in found] == [False, True, True, True, False]


def test_a_field_that_is_a_formulas_name_too_is_what_the_definition_says() -> None:
    rules = (MappingRule("price", "a"), MappingRule("size", formula="price * 2"))
    mapping = SiteMapping(MappingDocument("s", rules, event_type="thing", source={"price": "number"}), SCHEMA)
    documents = [{"a": 1, "price": 5}, {"price": 5}, {"a": 2}, {}]
    assert translate_batch(mapping, documents) == [mapping.translate(each) for each in documents]


def test_too_many_values_are_refused_in_a_batch_too() -> None:
    mapping = SiteMapping(MappingDocument("s", (MappingRule("tags", "a", split=","),), event_type="thing"), SCHEMA)
    found = translate_batch(mapping, [{"a": "x," * 10_001}, {"a": "x,y"}, {"a": "x"}, {}])
    assert "more than 10000 values" in str(found[0])
    assert found[1:] == [
        {"event_type": "thing", "tags": ["x", "y"]},
        {"event_type": "thing", "tags": "x"},
        {"event_type": "thing"},
    ]


# --- back -------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_what_is_reversible_comes_back(seed: int) -> None:
    random = Random(seed)
    rules = (
        MappingRule("title", "Titel"),
        MappingRule("price", "Preis", scale=0.25, offset=2.0),
        MappingRule("weight_kg", "w.lb", unit=("lb", "kg")),
        MappingRule("shade", "Farbe", table={"rot": "red", "blau": "blue"}),
        MappingRule("ends", "Ende", time="%Y-%m-%d %H:%M:%S", zone="Asia/Tokyo"),
        MappingRule("tags", "Worte", split=";"),
        MappingRule("code", value="x"),
    )
    mapping = SiteMapping(MappingDocument("s", rules, event_type="thing"), SCHEMA)
    assert mapping.reversible
    document = {
        "Titel": random.choice(["a", "Ü"]), "Preis": random.randint(-9, 9) / 4, "w": {"lb": random.randint(1, 999)},
        "Farbe": random.choice(["rot", "blau"]), "Ende": f"20{random.randint(10, 99)}-03-31 02:30:00",
        "Worte": ";".join(random.sample(["a", "b", "c"], random.randint(1, 3))),
    }  # fmt: skip
    back = mapping.back(mapping.translate(document))
    assert back.pop("w")["lb"] == pytest.approx(document.pop("w")["lb"])  # type: ignore[index]
    assert back == document
    assert not MAPPING.reversible
    assert MAPPING.back(MAPPING.translate(DOCUMENT))["Titel"] == "Stuhl"


# --- proposals --------------------------------------------------------------------------------------------------------


def test_a_mapping_is_proposed_by_names_values_and_units() -> None:
    samples = [
        {
            "Title": "a",
            "PRICE": "12.5",
            "Weight_in_lbs": 3,
            "Shade": "Red",
            "strange": 1,
            "ends": "2026-01-01T00:00:00Z",
        },
        {"Title": "b", "PRICE": "NA", "Weight_in_lbs": 4, "Shade": "green"},
    ]
    proposal = infer_mapping("s", samples, SCHEMA)
    rules = {rule.to: rule for rule in proposal.document.rules}
    assert rules["weight_kg"].unit == ("lb", "kg")
    assert rules["shade"].table == {"Red": "red"}
    assert rules.keys() == {"title", "price", "weight_kg", "shade", "ends"}
    assert any("green" in note and "add the values" in note for note in proposal.notes)
    assert any(note.startswith("strange has no attribute") for note in proposal.notes)
    found = coverage(SiteMapping(proposal.document, SCHEMA), samples)
    assert (found.admitted, found.samples, found.lost["strange"]) == (1, 2, 1)
    assert any("from Shade" in reason for reason in found.refused)
