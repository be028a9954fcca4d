"""DTDs of the thesis's requests, made from the live schema (thesis, section 5.2.2 and appendix C).

    kind             DTD             what it allows
    ADD_DOMAIN       add_dom.dtd     a new domain
    ADD_ATTRIBUTE    add_attr.dtd    a new attribute over one of the schema's domains
    EXTENT_SCHEMA    ext_scm.dtd     more optional attributes for an event type; the thesis does not print this one
    ADD_EVENT        add_event.dtd   a new event type over the schema's attributes
    PUBLISH_EVENT    pub_event.dtd   an event
    PUBLISH_SUB      pub_sub.dtd     a subscription

Where the thesis lists names, so do these: ( antique | car ). DTDs can list only XML name tokens; where one of the names
is not such a token (it has a space, say), the attribute is CDATA, and requests.py checks the name itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import BytesIO
from typing import Literal

from lxml import etree

from tocsin.errors import BadDefinition, did_you_mean, nearest
from tocsin.schema.event_type import EVENT_TYPE
from tocsin.schema.schema import Schema
from tocsin.xml.schema_form import KIND_OF, OPERATOR_OF

Kind = Literal["ADD_DOMAIN", "ADD_ATTRIBUTE", "EXTENT_SCHEMA", "ADD_EVENT", "PUBLISH_EVENT", "PUBLISH_SUB"]

DTD_FILES: dict[str, str] = {
    "ADD_DOMAIN": "add_dom.dtd",
    "ADD_ATTRIBUTE": "add_attr.dtd",
    "EXTENT_SCHEMA": "ext_scm.dtd",
    "ADD_EVENT": "add_event.dtd",
    "PUBLISH_EVENT": "pub_event.dtd",
    "PUBLISH_SUB": "pub_sub.dtd",
}
# The operators that a predicate in XML can have: those with one value as their operand.
PREDICATE_CODES = tuple(code for code in OPERATOR_OF if code not in ("within", "inbox"))

_NAME_CHARACTER = (
    "-.:_0-9A-Za-z\u00b7\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u037d\u037f-\u1fff\u200c\u200d\u203f\u2040"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_TOKEN = re.compile(f"[{_NAME_CHARACTER}]+")
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def dtd(schema: Schema, kind: Kind | str) -> str:
    """Return the DTD of that kind of request, as the schema stands."""
    if kind not in DTD_FILES:
        hint = did_you_mean(nearest(kind, DTD_FILES))
        raise BadDefinition(f"{kind!r} is not a kind of request; there are {', '.join(DTD_FILES)}{hint}")
    return _HEAD + "\n".join(_DECLARATIONS[kind](schema)) + "\n"


def compiled(text: str) -> etree.DTD:
    """Return the DTD that validates; a new one each time, since lxml's are not for several threads."""
    return etree.DTD(BytesIO(text.encode()))


def listed(names: Iterable[str]) -> str:
    """Return '( a | b )', or CDATA where a DTD cannot list these names."""
    tokens = list(names)
    if not tokens or not all(map(_TOKEN.fullmatch, tokens)):
        return "CDATA"
    return f"( {' | '.join(tokens)} )"


def _add_domain(_schema: Schema) -> list[str]:
    return [
        "<!ELEMENT ADD_DOMAIN ( DOMAIN )>",
        "<!ELEMENT DOMAIN ( VALUE*, LESS*, ALIAS*, OPER* )>",
        f"<!ATTLIST DOMAIN type {listed(KIND_OF)} #REQUIRED>",
        '<!ATTLIST DOMAIN attr CDATA "">',
        "<!ATTLIST DOMAIN oid CDATA #IMPLIED>",
        "<!ATTLIST DOMAIN name CDATA #IMPLIED>",
        "<!ATTLIST DOMAIN number ( int | float | decimal ) #IMPLIED>",
        "<!ATTLIST DOMAIN minimum CDATA #IMPLIED>",
        "<!ATTLIST DOMAIN maximum CDATA #IMPLIED>",
        "<!ATTLIST DOMAIN case ( sensitive | folded ) #IMPLIED>",
        "<!ATTLIST DOMAIN max_length CDATA #IMPLIED>",
        "<!ATTLIST DOMAIN order ( none | total | partial ) #IMPLIED>",
        "<!ATTLIST DOMAIN operators ( none ) #IMPLIED>",
        "<!ELEMENT VALUE (#PCDATA)>",
        "<!ATTLIST VALUE below CDATA #IMPLIED>",
        "<!ELEMENT LESS EMPTY>",
        "<!ATTLIST LESS low CDATA #REQUIRED>",
        "<!ATTLIST LESS high CDATA #REQUIRED>",
        "<!ELEMENT ALIAS EMPTY>",
        "<!ATTLIST ALIAS name CDATA #REQUIRED>",
        "<!ATTLIST ALIAS means CDATA #REQUIRED>",
        "<!ELEMENT OPER EMPTY>",
        f"<!ATTLIST OPER type {listed(OPERATOR_OF)} #REQUIRED>",
    ]


def _add_attribute(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT ADD_ATTRIBUTE ( ATTR_DOM )>",
        "<!ELEMENT ATTR_DOM EMPTY>",
        "<!ATTLIST ATTR_DOM name CDATA #REQUIRED>",
        f"<!ATTLIST ATTR_DOM type {listed(schema.domains)} #REQUIRED>",
    ]


def _extend(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT EXTENT_SCHEMA ( E_ATTR+ )>",
        f"<!ATTLIST EXTENT_SCHEMA type {listed(schema.event_types)} #REQUIRED>",
        "<!ELEMENT E_ATTR EMPTY>",
        "<!ATTLIST E_ATTR mandatory ( false ) #IMPLIED>",  # what publishers send today must stay valid
        *_type_attribute(schema),
    ]


def _add_event(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT ADD_EVENT ( E_TYPE )>",
        "<!ELEMENT E_TYPE ( E_ATTR* )>",
        "<!ATTLIST E_TYPE type CDATA #REQUIRED>",
        "<!ELEMENT E_ATTR EMPTY>",
        "<!ATTLIST E_ATTR mandatory ( true | false ) #REQUIRED>",
        *_type_attribute(schema),
    ]


def _type_attribute(schema: Schema) -> list[str]:
    return [
        "<!ATTLIST E_ATTR unique ( true | false ) #REQUIRED>",
        f"<!ATTLIST E_ATTR domid {listed(schema.domains)} #IMPLIED>",
        f"<!ATTLIST E_ATTR type {listed([*schema.attributes, EVENT_TYPE])} #REQUIRED>",
    ]


def _publish_event(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT PUBLISH_EVENT ( EVENT_TYPE , ATTRIBUTES )>",
        "<!ATTLIST PUBLISH_EVENT contact CDATA #REQUIRED>",
        *_types_and_attributes(schema),
    ]


def _publish_subscription(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT PUBLISH_SUB ( EVENT_TYPE , ATTRIBUTES , EVENTS? )>",
        "<!ATTLIST PUBLISH_SUB id CDATA #IMPLIED>",
        "<!ATTLIST PUBLISH_SUB username CDATA #IMPLIED>",
        "<!ATTLIST PUBLISH_SUB lease CDATA #IMPLIED>",  # in seconds; not in the thesis, whose subscriptions never end
        *_types_and_attributes(schema),
        "<!ATTLIST VALUE oper ( contains ) #REQUIRED>",
        f"<!ATTLIST ATTR oper {listed(PREDICATE_CODES)} #REQUIRED>",
        "<!ELEMENT EVENTS EMPTY>",  # the log of the thesis keeps matched events here; a new subscription has none
    ]


def _types_and_attributes(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT EVENT_TYPE ( VALUE+ )>",
        "<!ELEMENT VALUE EMPTY>",
        f"<!ATTLIST VALUE type {listed(schema.event_types)} #REQUIRED>",
        "<!ELEMENT ATTRIBUTES ( ATTR* )>",
        "<!ELEMENT ATTR (#PCDATA)>",
        f"<!ATTLIST ATTR type {listed([*schema.attributes, EVENT_TYPE])} #REQUIRED>",
    ]


_DECLARATIONS = {
    "ADD_DOMAIN": _add_domain,
    "ADD_ATTRIBUTE": _add_attribute,
    "EXTENT_SCHEMA": _extend,
    "ADD_EVENT": _add_event,
    "PUBLISH_EVENT": _publish_event,
    "PUBLISH_SUB": _publish_subscription,
}
