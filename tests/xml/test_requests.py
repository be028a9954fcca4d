"""The thesis's requests and their DTDs: the samples of appendices B and C work as printed."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.strategies.schemas import domain_named, raw_events, schemas
from tocsin.errors import (
    AttributeInType,
    BadDefinition,
    DuplicateName,
    EventRejected,
    FileError,
    TocsinError,
    UnknownEventType,
)
from tocsin.schema import (
    BooleanDomain,
    EventType,
    NumericDomain,
    PointDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
)
from tocsin.schema.examples import load_example
from tocsin.xml.requests import (
    DTD_FILES,
    AddAttribute,
    AddDomain,
    AddEventType,
    ExtendEventType,
    Kind,
    PublishEvent,
    PublishSubscription,
    dtd,
    read_request,
)
from tocsin.xml.schema_form import domain_element

THESIS = load_example("thesis")
WITHOUT_SIZE_AND_ARTIST = Schema(
    THESIS.domains,
    {name: domain for name, domain in THESIS.attributes.items() if name != "artist"},
    {"antique": EventType("antique", (TypeAttribute("price"),))},
)

ADD_DOMAIN = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE ADD_DOMAIN SYSTEM
  "intellix.intelligence.tuc.gr:8090/dtds/add_dom.dtd">
<ADD_DOMAIN>
  <DOMAIN type="numeric">
    <OPER type="eq" />
    <OPER type="noteq" />
    </DOMAIN>
</ADD_DOMAIN>
"""
ADD_ATTRIBUTE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE ADD_ATTRIBUTE SYSTEM
  "intellix.intelligence.tuc.gr:8090/dtds/add_attr.dtd">
<ADD_ATTRIBUTE>
  <ATTR_DOM name="artist" type="1" />
</ADD_ATTRIBUTE>
"""
EXTENT_SCHEMA = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE EXTENT_SCHEMA SYSTEM
   "intellix.intelligence.tuc.gr:8090/dtds/ext_scm.dtd">
<EXTENT_SCHEMA type="antique">
   <E_ATTR unique="true" type="size" />
</EXTENT_SCHEMA>
"""
ADD_EVENT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE ADD_EVENT SYSTEM
  "intellix.intelligence.tuc.gr:8090/dtds/add_event.dtd">
<ADD_EVENT>
  <E_TYPE type="paint">
    <E_ATTR mandatory="true" unique="true" domid="1"
     type="price" />
    <E_ATTR mandatory="true" unique="true" domid="2"
      type="period" />
    <E_ATTR mandatory="true" unique="true" domid="2"
      type="artist" />
    <E_ATTR mandatory="false" unique="true" domid="1"
      type="size" />
  </E_TYPE>
</ADD_EVENT>
"""
PUBLISH_SUB = """
<PUBLISH_SUB id="1.0" username="automatic">
  <EVENT_TYPE>
    <VALUE type="car" oper="contains" />
  </EVENT_TYPE>
  <ATTRIBUTES>
    <ATTR type="price" oper="gteq">4</ATTR>
    <ATTR type="quantity" oper="eq">4</ATTR>
    <ATTR type="year" oper="lt">1</ATTR>
    <ATTR type="brand" oper="noteq">mazda</ATTR>
    <ATTR type="cc" oper="gt">0</ATTR>
  </ATTRIBUTES>
  <EVENTS />
</PUBLISH_SUB>
"""
PUBLISH_EVENT = """
<PUBLISH_EVENT contact="sbile@hotmail.com">
  <EVENT_TYPE>
    <VALUE type="car" />
  </EVENT_TYPE>
  <ATTRIBUTES>
    <ATTR type="price">4</ATTR>
    <ATTR type="quantity">1</ATTR>
    <ATTR type="year">1</ATTR>
    <ATTR type="cc">22</ATTR>
    <ATTR type="brand">bmw</ATTR>
  </ATTRIBUTES>
</PUBLISH_EVENT>
"""


# --- the samples ------------------------------------------------------------------------------------------------------


def test_add_domain_of_appendix_c_adds_a_domain_under_the_next_number() -> None:
    request = read_request(ADD_DOMAIN.encode(), THESIS)
    assert isinstance(request, AddDomain)
    schema = request.apply(THESIS)
    assert schema.version == THESIS.version + 1
    assert schema.domains["8"] == NumericDomain(name="8", operators=frozenset({"=", "!="}))
    assert set(request.apply(schema).domains) == {*THESIS.domains, "8", "9"}


def test_add_attribute_of_appendix_c_adds_an_attribute() -> None:
    request = read_request(ADD_ATTRIBUTE.encode(), THESIS)
    assert request == AddAttribute("artist", "1")
    assert request.apply(WITHOUT_SIZE_AND_ARTIST).attributes["artist"] == "1"
    with pytest.raises(DuplicateName, match="there is an attribute 'artist' already"):
        request.apply(THESIS)


def test_extent_schema_of_appendix_c_adds_an_optional_attribute() -> None:
    request = read_request(EXTENT_SCHEMA.encode(), THESIS)
    assert request == ExtendEventType("antique", (TypeAttribute("size", mandatory=False),))
    extended = request.apply(WITHOUT_SIZE_AND_ARTIST)
    assert extended.event_types["antique"].get("size") == TypeAttribute("size", mandatory=False)
    with pytest.raises(AttributeInType, match="'antique' has the attribute 'size' already"):
        request.apply(THESIS)


def test_add_event_of_appendix_c_adds_an_event_type() -> None:
    request = read_request(ADD_EVENT.encode(), THESIS)
    assert isinstance(request, AddEventType)
    schema = request.apply(THESIS)
    assert schema.event_types["paint"] == EventType(
        "paint",
        (
            TypeAttribute("price"),
            TypeAttribute("period"),
            TypeAttribute("artist"),
            TypeAttribute("size", mandatory=False),
        ),
    )


def test_the_event_of_appendix_b_is_published() -> None:
    request = read_request(PUBLISH_EVENT, THESIS)
    assert isinstance(request, PublishEvent)
    assert request.contact == "sbile@hotmail.com"
    assert request.event == {"event_type": ["car"], "price": 4, "quantity": 1, "year": 1, "cc": 22, "brand": "bmw"}
    assert THESIS.admit(request.event).types == ("car",)


def test_the_subscription_of_appendix_b_is_read() -> None:
    request = read_request(PUBLISH_SUB, THESIS)
    assert request == PublishSubscription(
        ("car",),
        (
            ("price", ">=", 4),
            ("quantity", "=", 4),
            ("year", "<", 1),
            ("brand", "!=", "mazda"),
            ("cc", ">", 0),
        ),
        username="automatic",
        id="1.0",
    )


def test_contains_on_text_asks_for_any_of_the_words() -> None:
    text = PUBLISH_SUB.replace('<ATTR type="price" oper="gteq">4<', '<ATTR type="artist" oper="contains">van  gogh<')
    request = read_request(text.replace('"car"', '"painting"'), THESIS)
    assert isinstance(request, PublishSubscription)
    assert request.predicates[0] == ("artist", "contains any", ("van", "gogh"))


def test_several_event_types_of_a_subscription_must_all_hold() -> None:
    two = '<VALUE type="antique" oper="contains" /><VALUE type="car" oper="contains" />'
    request = read_request(PUBLISH_SUB.replace('<VALUE type="car" oper="contains" />', two), THESIS)
    assert isinstance(request, PublishSubscription)
    assert request.event_types == ("antique", "car")
    assert request.predicates[:2] == (("event_type", "contains", "antique"), ("event_type", "contains", "car"))


# --- the DTDs ---------------------------------------------------------------------------------------------------------


def test_the_dtd_of_events_is_that_of_figure_5_4() -> None:
    text = dtd(THESIS, "PUBLISH_EVENT")
    for line in (
        "<!ELEMENT PUBLISH_EVENT ( EVENT_TYPE , ATTRIBUTES )>",
        "<!ATTLIST PUBLISH_EVENT contact CDATA #REQUIRED>",
        "<!ELEMENT EVENT_TYPE ( VALUE+ )>",
        "<!ELEMENT VALUE EMPTY>",
        "<!ATTLIST VALUE type ( antique | furniture | surf-board | car | painting ) #REQUIRED>",
        "<!ELEMENT ATTRIBUTES ( ATTR* )>",
        "<!ELEMENT ATTR (#PCDATA)>",
    ):
        assert line in text.splitlines()


def test_the_dtd_of_new_attributes_lists_the_domains_as_in_appendix_c() -> None:
    assert "<!ATTLIST ATTR_DOM type ( 1 | 2 | 3 | 4 | 5 | 6 | 7 ) #REQUIRED>" in dtd(THESIS, "ADD_ATTRIBUTE")


def test_dtds_follow_the_schema() -> None:
    request = read_request(ADD_DOMAIN, THESIS)
    assert isinstance(request, AddDomain)
    assert "| 7 | 8 )" in dtd(request.apply(THESIS), "ADD_ATTRIBUTE")


@given(schemas())
def test_every_dtd_of_every_schema_is_a_dtd(schema: Schema) -> None:
    for kind in DTD_FILES:
        etree.DTD(BytesIO(dtd(schema, kind).encode()))


def test_names_that_a_dtd_cannot_list_are_checked_all_the_same() -> None:
    schema = Schema(
        {"d e": TextDomain(name="d e")}, {"x y": "d e"}, {"two words": EventType("two words", (TypeAttribute("x y"),))}
    )
    assert "<!ATTLIST VALUE type CDATA #REQUIRED>" in dtd(schema, "PUBLISH_EVENT")
    text = '<PUBLISH_EVENT contact=""><EVENT_TYPE><VALUE type="{}"/></EVENT_TYPE><ATTRIBUTES><ATTR type="{}"> v</ATTR></ATTRIBUTES></PUBLISH_EVENT>'
    request = read_request(text.format("two words", "x y"), schema)
    assert request == PublishEvent({"event_type": ["two words"], "x y": " v"}, "")
    with pytest.raises(UnknownEventType, match="did you mean two words"):
        read_request(text.format("two word", "x y"), schema)
    with pytest.raises(BadDefinition, match="line 1: there is no attribute 'x z'"):
        read_request(text.format("two words", "x z"), schema)
    with pytest.raises(BadDefinition, match="there is no domain 'd f'"):
        read_request('<ADD_ATTRIBUTE><ATTR_DOM name="a" type="d f"/></ADD_ATTRIBUTE>', schema)


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(BadDefinition, match="did you mean ADD_DOMAIN"):
        dtd(THESIS, "ADD_DOMAINS")
    with pytest.raises(BadDefinition, match="did you mean ADD_DOMAIN"):
        read_request("<ADD_DOMAINS/>", THESIS)


# --- values -----------------------------------------------------------------------------------------------------------


def test_values_in_xml_are_text_that_the_domain_converts() -> None:
    schema = Schema(
        {
            "n": NumericDomain(name="n"),
            "i": NumericDomain(name="i", type="int"),
            "d": NumericDomain(name="d", type="decimal"),
            "b": BooleanDomain(name="b"),
            "p": PointDomain(name="p"),
            "t": TimeDomain(name="t"),
        },
        {name: name for name in "nidbpt"},
        {"e": EventType("e", tuple(TypeAttribute(name, multiple=True) for name in "nidbpt"))},
    )
    values = {"n": [" 1.5 "], "i": ["7", "8"], "d": ["0.10"], "b": ["true", "False"], "p": ["1,2", "3, 4"]}
    values["t"] = [" 2026-11-15T10:00:00Z "]
    event = schema.admit(_published(schema, "e", values))
    assert event.values["n"] == (1.5,)
    assert event.values["i"] == (7, 8)
    assert event.values["d"] == (Decimal("0.1"),)
    assert event.values["b"] == (True, False)
    assert event.values["p"] == ((1.0, 2.0), (3.0, 4.0))
    with pytest.raises(EventRejected, match=r"'O' is not a number.*'yes' is not true or false"):
        schema.admit(_published(schema, "e", values | {"n": ["O"], "b": ["yes"]}))


def _published(schema: Schema, event_type: str, values: dict[str, list[str]]) -> dict[str, object]:
    attributes = "".join(
        f"<ATTR type={quoteattr(name)}>{escape(value)}</ATTR>" for name, texts in values.items() for value in texts
    )
    types = f"<EVENT_TYPE><VALUE type={quoteattr(event_type)}/></EVENT_TYPE>"
    text = f'<PUBLISH_EVENT contact="">{types}<ATTRIBUTES>{attributes}</ATTRIBUTES></PUBLISH_EVENT>'
    request = read_request(text, schema)
    assert isinstance(request, PublishEvent)
    return request.event


@given(st.data())
def test_every_event_can_be_published_in_xml(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    event = schema.admit(data.draw(raw_events(schema)))
    texts = {
        name: [_text(schema.domain_of(name).dump(value)) for value in values]
        for name, values in event.values.items()
        if name != "event_type"
    }
    first, *others = event.types
    texts["event_type"] = list(others)
    assert schema.admit(_published(schema, str(first), texts)) == event


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@given(domain=st.deferred(lambda: domain_named("new name")))
def test_every_domain_can_be_added_by_a_request(domain: NumericDomain) -> None:
    text = f"<ADD_DOMAIN>{etree.tostring(domain_element(domain), encoding='unicode')}</ADD_DOMAIN>"
    request = read_request(text, THESIS)
    assert request == AddDomain(domain)
    assert request.apply(THESIS).domains["new name"] == domain


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (PUBLISH_EVENT.replace('type="car"', 'type="plane"'), BadDefinition, "line 4: .*plane"),
        (PUBLISH_EVENT.replace('contact="sbile@hotmail.com"', ""), BadDefinition, "line 2: .*contact"),
        (PUBLISH_EVENT.replace('"price"', '"prise"'), BadDefinition, "line 7: .*prise"),
        (PUBLISH_SUB.replace('oper="gteq"', ""), BadDefinition, "oper"),
        (PUBLISH_SUB.replace('oper="gteq"', 'oper="gte"'), BadDefinition, "gte"),
        (PUBLISH_SUB.replace("<EVENTS />", "<EVENTS>x</EVENTS>"), BadDefinition, "EVENTS"),
        (ADD_EVENT.replace('mandatory="false"', 'mandatory="flase"'), BadDefinition, "flase"),
        (ADD_EVENT.replace('domid="1"', 'domid="2"'), BadDefinition, "'price' has the domain '1', not '2'"),
        (EXTENT_SCHEMA.replace("unique=", 'mandatory="true" unique='), BadDefinition, "mandatory"),
        (EXTENT_SCHEMA.replace("antique", "antic"), BadDefinition, "antic"),
        (ADD_DOMAIN.replace('"numeric"', '"enum"'), BadDefinition, "needs at least one value|values"),
        (ADD_DOMAIN.replace("add_dom", "add_attr"), FileError, "not known"),
        (ADD_DOMAIN.replace("<!DOCTYPE ADD_DOMAIN", "<!DOCTYPE ADD_EVENT"), FileError, "not known"),
        (
            PUBLISH_SUB.replace("<PUBLISH_SUB", '<!DOCTYPE ADD_EVENT SYSTEM "add_event.dtd"><PUBLISH_SUB', 1),
            FileError,
            "root",
        ),
        (ADD_DOMAIN.replace('dtd">', 'dtd" [<!ENTITY x "y">]>'), FileError, "declarations inside"),
        (ADD_DOMAIN.replace("intellix", "file:///x"), FileError, "not known"),
    ],
)
def test_a_request_that_is_not_valid_is_refused_with_its_place(
    text: str, error: type[TocsinError], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_request(text, THESIS)


def test_an_event_type_with_several_new_attributes_gets_all_or_none() -> None:
    request = ExtendEventType(
        "antique", (TypeAttribute("size", mandatory=False), TypeAttribute("price", mandatory=False))
    )
    with pytest.raises(AttributeInType):
        request.apply(WITHOUT_SIZE_AND_ARTIST)
    assert WITHOUT_SIZE_AND_ARTIST.event_types["antique"].get("size") is None


def test_every_kind_of_request_has_a_dtd_file() -> None:
    kinds: tuple[Kind, ...] = (
        "ADD_DOMAIN",
        "ADD_ATTRIBUTE",
        "EXTENT_SCHEMA",
        "ADD_EVENT",
        "PUBLISH_EVENT",
        "PUBLISH_SUB",
    )
    assert tuple(DTD_FILES) == kinds
