"""Schema files: what is written reads back as the same schema; what is wrong is named with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.strategies.schemas import schemas
from tocsin.errors import BadDefinition, FileError
from tocsin.schema import EnumeratedDomain, HierarchicalDomain, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin.schema.files import FORMATS, Format, dumps, load, loads, save
from tocsin.schema.finite_domains import MAX_LEVELS

CAR = """
version = 3

[domains.money]
kind = "numeric"
type = "decimal"
minimum = 0

[domains.word]
kind = "text"

[domains.category]
kind = "hierarchical"
tree = { furniture = { bedroom = ["bed"], table = [] }, car = [] }

[domains.size]
kind = "enumerated"
values = ["S", "M", "L"]
order = "partial"
less = [["S", "M"], ["M", "L"]]

[attributes]
price = "money"
tags = "word"
category = "category"
size = "size"

[event_types.car]
price = "mandatory"
tags = "optional multiple"
category = "optional unique"
"""


def order_of(schema: Schema) -> object:
    """Return what equality of mappings leaves out: the order, on which positions and numbers rest."""
    trees = [domain.values for domain in schema.domains.values() if isinstance(domain, HierarchicalDomain)]
    return list(schema.domains), list(schema.attributes), list(schema.event_types), trees


@pytest.mark.parametrize("format", FORMATS)
@given(schema=schemas())
def test_what_is_written_reads_back_as_the_same_schema(format: Format, schema: Schema) -> None:
    again = loads(dumps(schema, format), format)
    assert again == schema
    assert order_of(again) == order_of(schema)
    assert loads(dumps(schema, format).encode(), format) == schema


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_schema_reads_back(format: Format) -> None:
    assert loads(dumps(Schema(), format), format) == Schema()


def test_a_readable_toml_document_loads() -> None:
    schema = loads(CAR, "toml")
    assert schema.version == 3
    assert schema.domains["money"] == NumericDomain(name="money", type="decimal", minimum=0)
    assert schema.domains["category"] == HierarchicalDomain(
        name="category", tree={"furniture": {"bedroom": {"bed": {}}, "table": {}}, "car": {}}
    )
    assert isinstance(schema.domains["size"], EnumeratedDomain)
    assert schema.domains["size"].above == (frozenset({1, 2}), frozenset({2}), frozenset())
    assert schema.event_types["car"].get("tags") == TypeAttribute("tags", mandatory=False, multiple=True)
    assert schema.event_types["car"].get("category") == TypeAttribute("category", mandatory=False)


def test_toml_is_written_as_a_person_would() -> None:
    text = dumps(loads(CAR, "toml"), "toml")
    assert '[domains.category.tree]\nfurniture.bedroom = ["bed"]\nfurniture.table = []\ncar = []\n' in text
    assert '[event_types.car]\nprice = "mandatory"\ntags = "optional multiple"\ncategory = "optional"\n' in text


def test_operators_that_are_all_of_the_kind_are_the_same_as_none_given() -> None:
    listed = NumericDomain(name="n", operators=frozenset({"=", "!=", "<", "<=", ">", ">="}))
    assert listed == NumericDomain(name="n")
    assert TextDomain(name="t", operators=frozenset({"contains"})).offered == {"contains"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'price = "mandatory"',
            'price = "mandatry"',
            "event_types.car.price: 'mandatry' is not .*did you mean mandatory?",
        ),
        ('price = "mandatory"', 'price = "mandatory optional"', "event_types.car.price: "),
        ('price = "mandatory"', "price = true", "event_types.car.price: True is not"),
        ('price = "mandatory"', 'prise = "mandatory"', "event_types.car.prise: there is no attribute .* mean price"),
        ('price = "mandatory"', '"x y" = "mandatory"', 'event_types.car."x y": there is no attribute'),
        ('price = "money"', 'price = "mony"', "attributes.price: there is no domain 'mony'; did you mean money?"),
        ('price = "money"', "price = 7", "attributes.price: 7 is not the name of a domain"),
        ('price = "money"', 'price = "money"\nevent_type = "money"', "there is an attribute 'event_type' already"),
        ("minimum = 0", "minimun = 0", "domains.money.minimun: there is no such key; did you mean minimum"),
        ("minimum = 0", 'minimum = "0"', "domains.money.minimum: Expected `.*`, got `str`"),
        ("minimum = 0", "minimum = nan", "domain 'money': the bound nan is not a finite number"),
        ("minimum = 0", "minimum = 9\nmaximum = 3", "domain 'money': minimum 9 is above maximum 3"),
        ("minimum = 0", 'operators = ["~"]', "domain 'money': a numeric domain cannot have the operator ~"),
        (
            'type = "decimal"',
            'type = "dezimal"',
            "domains.money.type: Invalid enum value 'dezimal'; .*int, float, decimal",
        ),
        ('kind = "text"', 'kind = "string"', "domains.word.kind: 'string' is not one of numeric, text"),
        ('kind = "text"', 'name = "word"', "domains.word.kind: None is not one of"),
        ('kind = "text"', 'kind = "text"\nname = "w"', "domains.word.name: there is no such key"),
        ('["S", "M"], ["M", "L"]', '["S", "M"], ["M", "S"]', "the order goes in a circle through S, M"),
        ("table = []", "table = [1]", "domains.category.tree.furniture.table: a list in a hierarchy"),
        ("table = []", 'table = ["bed"]', "'bed' stands in two places"),
        ("table = []", 'table = ["x", "x"]', "domains.category.tree.furniture.table: listed twice: x"),
        ("table = []", "table = 3", "domains.category.tree.furniture.table: 3 is not a table"),
        ("version = 3", "version = 0", "version 0: versions count from 1"),
        ("version = 3", 'version = "3"', "version: '3' is not a whole number"),
        ("version = 3", "versoin = 3", "versoin: there is no such key; did you mean version?"),
        ("[event_types.car]", "[event_types]", "event_types.price: 'mandatory' is not a table"),
    ],
)
def test_errors_in_a_document_name_the_place(old: str, new: str, message: str) -> None:
    assert old in CAR
    with pytest.raises(BadDefinition, match=message):
        loads(CAR.replace(old, new, 1), "toml")


@pytest.mark.parametrize(
    ("text", "format", "line", "message"),
    [
        ("version = \n", "toml", 1, "Invalid value"),
        ('{"version": 1,\n "domains": }', "json", 2, "Expecting value"),
        ("<IESCHEMA>\n<A>\n</IESCHEMA>", "xml", 3, "mismatched tag"),
        (b"\n\xff", "json", 2, "not UTF-8"),
        ('{"version": ' + "9" * 5000 + "}", "json", None, "digits"),
        ('{"domains": ' + '{"a":' * 100_000, "json", None, "nested too deeply"),
    ],
)
def test_what_is_not_the_format_is_a_file_error(
    text: str | bytes, format: Format, line: int | None, message: str
) -> None:
    with pytest.raises(FileError, match=message) as caught:
        loads(text, format)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"attributes": {"a": "x", "a": "y"}}', "'a' is defined twice"),
        ('{"domains": {"n": {"kind": "numeric", "minimum": NaN}}}', "NaN is not a number"),
        ("[]", r"the document: \[\] is not a table"),
    ],
)
def test_json_that_would_lose_something_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadDefinition, match=message):
        loads(text, "json")


@pytest.mark.parametrize("suffix", ["json", "toml", "xml", "XML"])
def test_files_are_told_apart_by_their_suffix(tmp_path: Path, suffix: str) -> None:
    schema = loads(CAR, "toml")
    path = tmp_path / f"car.{suffix}"
    save(schema, path)
    assert load(path) == load(str(path)) == schema


def test_errors_of_files_name_the_file(tmp_path: Path) -> None:
    bad: Any = tmp_path / "bad.toml"
    bad.write_text("version = \n")
    with pytest.raises(FileError, match=r"bad\.toml:1: Invalid value"):
        load(bad)
    bad.write_text("version = 0")
    with pytest.raises(BadDefinition, match=r"bad\.toml: version 0"):
        load(bad)
    with pytest.raises(FileError, match=r"none\.toml: no such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(FileError, match=r"a schema file ends in \.json, \.toml or \.xml; did you mean x\.toml"):
        load(tmp_path / "x.tom")
    with pytest.raises(FileError, match="no such file"):
        save(Schema(), tmp_path / "none" / "x.json")
    with pytest.raises(BadDefinition, match="'yaml' is not a format"):
        loads("", "yaml")  # type: ignore[arg-type]


@pytest.mark.parametrize("format", FORMATS)
def test_the_deepest_hierarchy_is_written_and_read(format: Format) -> None:
    tree: dict[str, Any] = {}
    for depth in range(MAX_LEVELS, 0, -1):
        tree = {f"v{depth}": tree}
    schema = Schema({"deep": HierarchicalDomain(name="deep", tree=tree)})
    assert loads(dumps(schema, format), format) == schema
    with pytest.raises(BadDefinition, match="at most 100 levels"):
        HierarchicalDomain(name="deeper", tree={"v0": tree})
