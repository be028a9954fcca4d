"""The thesis's XML: its own sample loads as printed, ours reads back, and hostile documents end in a clear error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from lxml import etree

from tests.strategies.schemas import schemas
from tests.xml.thesis import SAMPLES
from tocsin.errors import BadDefinition, FileError
from tocsin.schema import EnumeratedDomain, NumericDomain, Schema, TextDomain, TypeAttribute
from tocsin.schema.examples import load_example
from tocsin.schema.files import load
from tocsin.xml.safe_xml import MAX_BYTES, MAX_DEPTH, parse
from tocsin.xml.schema_form import from_xml, to_xml

THESIS_VOCABULARY = {
    "IESCHEMA": set(),
    **{key: set[str]() for key in ["A", "ET", "D", "DOM", "E", "VALUE"]},
    "DOMAIN": {"oid", "type", "attr"},
    "OPER": {"type"},
    "ATTR_DOM": {"name", "type"},
    "E_TYPE": {"type"},
    "E_ATTR": {"mandatory", "unique", "domid", "type"},
}


def thesis() -> Schema:
    return load(SAMPLES / "thesis.xml")


def test_the_sample_schema_of_appendix_a_loads_as_printed() -> None:
    schema = thesis()
    assert list(schema.domains) == ["1", "2", "3", "4", "5", "6", "7"]
    assert schema.domains["1"] == NumericDomain(name="1")
    assert schema.domains["2"] == TextDomain(name="2", operators=frozenset({"contains"}))
    assert schema.domains["3"] == EnumeratedDomain(name="3", values=("bed-room", "living-room", "dining-room"))
    assert schema.domains["7"].kind == "text"  # declared for event_type; kept, though that attribute is ours
    assert "event_type" not in schema.attributes
    assert schema.attributes["material"] == "5"
    assert list(schema.event_types) == ["antique", "furniture", "surf-board", "car", "painting"]
    assert schema.event_types["car"].get("brand") == TypeAttribute("brand", mandatory=False)


def test_the_packaged_example_is_the_sample_of_appendix_a() -> None:
    assert load_example("thesis") == thesis()


def test_mandatory_flase_in_appendix_a_means_optional() -> None:
    assert 'mandatory="flase"' in (SAMPLES / "thesis.xml").read_text(encoding="utf-8")
    assert thesis().event_types["antique"].get("material") == TypeAttribute("material", mandatory=False)


def test_a_schema_that_the_thesis_can_express_is_written_in_its_vocabulary() -> None:
    written = to_xml(thesis())
    for element in etree.fromstring(written.encode()).iter():
        assert set(element.attrib) <= THESIS_VOCABULARY[str(element.tag)]
    assert from_xml(written) == thesis()


@given(schemas())
def test_every_schema_reads_back_from_xml(schema: Schema) -> None:
    again = from_xml(to_xml(schema))
    assert again == schema
    assert list(again.event_types) == list(schema.event_types)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("IESCHEMA", "SCHEMA", "the root of a schema is IESCHEMA, not SCHEMA"),
        ("<ET>", "<A></A><ET>", "line 17: A: stands here a second time"),
        ("<VALUE>price</VALUE>", "<VALU>price</VALU>", "VALU: does not belong into A; did you mean VALUE"),
        ("<VALUE>price</VALUE>", "x<VALUE>price</VALUE>", "the text 'x' does not belong here"),
        ("<VALUE>price</VALUE>", "<VALUE>price</VALUE>y", "the text 'y' does not belong here"),
        ("<VALUE>price</VALUE>", "<VALUE>period</VALUE>", "'period' is listed twice"),
        ("<VALUE>price</VALUE>", "<VALUE>prize</VALUE>", "<A> has no attribute 'price'; did you mean prize"),
        ('<ATTR_DOM name="price" type="1" />', "", "the attribute 'price' has no domain"),
        ('name="price" type="1"', 'name="price" type="12"', "there is no domain '12'"),
        ('name="price" type="1"', 'name="price"', "type is missing"),
        ('name="period" type="2"', 'name="price" type="2"', "the attribute 'price' has a domain already"),
        ('oid="2"', 'oid="1"', "there is a domain '1' already"),
        ('type="numeric"', 'type="numerical"', "DOMAIN '1': type 'numerical' is not one of .* did you mean numeric"),
        ('type="numeric"', 'type="numeric" minimum="low"', "minimum 'low' is not a number"),
        ('type="numeric"', 'type="numeric" unit="EUR"', "there is no attribute 'unit' here"),
        ('type="numeric"', 'type="numeric" attr="1,2"', "only enumerated and hierarchical domains list values"),
        ('<OPER type="contains" />', '<OPER type="has" />', "OPER 'has': type 'has' is not one of eq"),
        ('<OPER type="contains" />', '<OPER type="inbox" />', "a text domain cannot have the operator in box"),
        ('<E_TYPE type="car">', '<E_TYPE type="cars">', "<ET> has no event type 'cars'; did you mean car"),
        ('<E_TYPE type="car">', '<E_TYPE type="antique">', "the event type 'antique' is described twice"),
        ('domid="6" type="brand"', 'domid="5" type="brand"', "'brand' has the domain '6', not '5'"),
        ('domid="6" type="brand"', 'domid="6" type="brant"', "there is no attribute 'brant'; did you mean brand"),
        ('domid="6" type="brand"', 'domid="1" type="price"', "has the attribute 'price' already"),
        ('domid="6" type="brand"', 'type="event_type"', "every event has event_type; do not list it"),
        ("<IESCHEMA>", '<IESCHEMA version="x">', "version 'x' is not a whole number"),
    ],
)
def test_errors_in_a_schema_name_the_place(old: str, new: str, message: str) -> None:
    text = (SAMPLES / "thesis.xml").read_text(encoding="utf-8")
    assert old in text
    count = -1 if old == "IESCHEMA" else 1
    with pytest.raises(BadDefinition, match=message):
        from_xml(text.replace(old, new, count))


# --- hostile documents ------------------------------------------------------------------------------------------------

BOMB = "<!DOCTYPE b [<!ENTITY a0 'ha'>" + "".join(
    f"<!ENTITY a{n} '&a{n - 1};&a{n - 1};&a{n - 1};&a{n - 1};&a{n - 1};&a{n - 1};&a{n - 1};&a{n - 1};'>"
    for n in range(1, 20)
)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><IESCHEMA>&e;</IESCHEMA>', "declarations inside"),
        ('<!DOCTYPE x [<!ENTITY % p SYSTEM "http://localhost:1/x">%p;]><IESCHEMA/>', "declarations inside"),
        (BOMB + "]><IESCHEMA>&a19;</IESCHEMA>", "declarations inside"),
        (BOMB + ']><IESCHEMA version="&a19;"/>', "declarations inside"),
        (
            '<!DOCTYPE IESCHEMA SYSTEM "http://localhost:1/schema.dtd"><IESCHEMA/>',
            "document type IESCHEMA .* not known",
        ),
        ('<!DOCTYPE IESCHEMA PUBLIC "a" "b.dtd"><IESCHEMA/>', "document type IESCHEMA .* not known"),
        ("<IESCHEMA>&undefined;</IESCHEMA>", "undefined entity"),
        ("<a>" * 100_000, "nested deeper than 32"),
        ("<a>" * (MAX_DEPTH + 1) + "</a>" * (MAX_DEPTH + 1), "nested deeper than 32"),
        ("<IESCHEMA>" + " " * MAX_BYTES + "</IESCHEMA>", "at most 1,048,576 are read"),
        ("", "no element found"),
        ("<IESCHEMA>\x00</IESCHEMA>", "not well-formed"),
        ("<IESCHEMA>\ud800</IESCHEMA>", "not well-formed"),
        (b'<?xml version="1.0" encoding="no-such"?><IESCHEMA/>', "unknown encoding"),
        (b'<?xml version="1.0" encoding="utf-7"?><IESCHEMA/>', "encoding"),
        ("<x:IESCHEMA/>", "Namespace prefix x"),
    ],
)
def test_a_hostile_document_ends_in_a_clear_error(document: str | bytes, message: str) -> None:
    with pytest.raises(FileError, match=message):
        from_xml(document)


def test_a_bomb_in_utf_16_is_seen_as_well() -> None:
    with pytest.raises(FileError, match="declarations inside"):
        from_xml((BOMB + "]><IESCHEMA>&a19;</IESCHEMA>").encode("utf-16"))


def test_no_file_is_read_for_a_known_document_type(tmp_path: Path) -> None:
    trap = tmp_path / "x.dtd"
    trap.write_text('<!ATTLIST a b CDATA "from the trap">')
    root = parse(f'<!DOCTYPE a SYSTEM "{trap}"><a/>', system_ids={"a": "x.dtd"})
    assert not root.attrib
    with pytest.raises(FileError, match="not known"):
        parse(f'<!DOCTYPE a SYSTEM "file://{trap}"><a/>', system_ids={"a": "x.dtd"})


def test_text_and_bytes_in_any_declared_encoding_read_alike() -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><IESCHEMA><ET><VALUE>été</VALUE></ET></IESCHEMA>'
    assert list(from_xml(text).event_types) == list(from_xml(text.encode("latin-1")).event_types) == ["été"]


def test_long_lists_are_read_in_linear_time() -> None:
    many = "".join(f"<VALUE>v{n}</VALUE>" for n in range(40_000))
    assert len(from_xml(f"<IESCHEMA><ET>{many}</ET></IESCHEMA>").event_types) == 40_000  # takes minutes if quadratic
    repeated = ",".join(f"v{n % 60_000}" for n in range(120_000))
    with pytest.raises(BadDefinition, match="listed twice: v0, v1"):
        from_xml(f'<IESCHEMA><D><DOMAIN oid="1" type="enum" attr="{repeated}"/></D></IESCHEMA>')


def test_comments_and_processing_instructions_are_passed_over() -> None:
    text = "<!-- a --><IESCHEMA><?x y?><ET><!-- b --><VALUE>c<!-- d -->ar</VALUE></ET></IESCHEMA>"
    assert list(from_xml(text).event_types) == ["car"]


def test_domains_may_have_names_beside_their_oid() -> None:
    schema = from_xml(
        '<IESCHEMA><A><VALUE>p</VALUE><VALUE>q</VALUE></A><D><DOMAIN oid="1" name="money" type="numeric"/></D>'
        '<DOM><ATTR_DOM name="p" type="1"/><ATTR_DOM name="q" type="money"/></DOM></IESCHEMA>'
    )
    assert schema.attributes == {"p": "money", "q": "money"}
