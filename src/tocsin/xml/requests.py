"""The thesis's XML requests (appendix C), validated against the DTD of the live schema.

A request to extend the schema has `apply(schema)`, which gives the next schema or raises. One to publish an event has
the raw event, for `Schema.admit`. One to subscribe has event types and (attribute, operator, value) triples; what those
mean is the language's affair. XML has text only: values are converted by the attribute's domain here.

DTDs of the thesis's requests, made from the live schema (thesis, section 5.2.2 and appendix C).

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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import msgspec
from lxml import etree

from tocsin.errors import BadDefinition, SchemaError, UnknownEventType, did_you_mean, nearest, shown
from tocsin.schema.domain import Domain
from tocsin.schema.event_type import EVENT_TYPE, TypeAttribute
from tocsin.schema.schema import Schema
from tocsin.xml.safe_xml import Element, elements, line_of, parse, text_of
from tocsin.xml.schema_form import KIND_OF, OPERATOR_OF, read_domain, read_type_attribute, refuse

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


def _add_domain_dtd(_schema: Schema) -> list[str]:
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


def _add_attribute_dtd(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT ADD_ATTRIBUTE ( ATTR_DOM )>",
        "<!ELEMENT ATTR_DOM EMPTY>",
        "<!ATTLIST ATTR_DOM name CDATA #REQUIRED>",
        f"<!ATTLIST ATTR_DOM type {listed(schema.domains)} #REQUIRED>",
    ]


def _extend_dtd(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT EXTENT_SCHEMA ( E_ATTR+ )>",
        f"<!ATTLIST EXTENT_SCHEMA type {listed(schema.event_types)} #REQUIRED>",
        "<!ELEMENT E_ATTR EMPTY>",
        "<!ATTLIST E_ATTR mandatory ( false ) #IMPLIED>",  # what publishers send today must stay valid
        *_type_attribute_dtd(schema),
    ]


def _add_event_dtd(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT ADD_EVENT ( E_TYPE )>",
        "<!ELEMENT E_TYPE ( E_ATTR* )>",
        "<!ATTLIST E_TYPE type CDATA #REQUIRED>",
        "<!ELEMENT E_ATTR EMPTY>",
        "<!ATTLIST E_ATTR mandatory ( true | false ) #REQUIRED>",
        *_type_attribute_dtd(schema),
    ]


def _type_attribute_dtd(schema: Schema) -> list[str]:
    return [
        "<!ATTLIST E_ATTR unique ( true | false ) #REQUIRED>",
        f"<!ATTLIST E_ATTR domid {listed(schema.domains)} #IMPLIED>",
        f"<!ATTLIST E_ATTR type {listed([*schema.attributes, EVENT_TYPE])} #REQUIRED>",
    ]


def _publish_event_dtd(schema: Schema) -> list[str]:
    return [
        "<!ELEMENT PUBLISH_EVENT ( EVENT_TYPE , ATTRIBUTES )>",
        "<!ATTLIST PUBLISH_EVENT contact CDATA #REQUIRED>",
        *_types_and_attributes(schema),
    ]


def _publish_subscription_dtd(schema: Schema) -> list[str]:
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
    "ADD_DOMAIN": _add_domain_dtd,
    "ADD_ATTRIBUTE": _add_attribute_dtd,
    "EXTENT_SCHEMA": _extend_dtd,
    "ADD_EVENT": _add_event_dtd,
    "PUBLISH_EVENT": _publish_event_dtd,
    "PUBLISH_SUB": _publish_subscription_dtd,
}


# --- Requests ---------------------------------------------------------------------------------------------------------


Triple = tuple[str, str, object]
_BETWEEN_WORDS = re.compile(r"[\s,.]+")  # thesis, section 7.1: comma, space and dot separated tokens


@dataclass(frozen=True, slots=True)
class AddDomain:
    """ADD_DOMAIN. A domain without a name gets the next free number when it is applied, as in the thesis."""

    domain: Domain
    numbered: bool = False

    def apply(self, schema: Schema) -> Schema:
        name = _next_number(schema) if self.numbered else self.domain.name
        return schema.add_domain(msgspec.structs.replace(self.domain, name=name))


@dataclass(frozen=True, slots=True)
class AddAttribute:
    """ADD_ATTRIBUTE."""

    name: str
    domain: str

    def apply(self, schema: Schema) -> Schema:
        return schema.add_attribute(self.name, self.domain)


@dataclass(frozen=True, slots=True)
class ExtendEventType:
    """EXTENT_SCHEMA: one or more optional attributes for an event type; all are added, or none."""

    event_type: str
    attributes: tuple[TypeAttribute, ...]

    def apply(self, schema: Schema) -> Schema:
        for entry in self.attributes:
            schema = schema.extend_event_type(self.event_type, entry.attribute, multiple=entry.multiple)
        return schema


@dataclass(frozen=True, slots=True)
class AddEventType:
    """ADD_EVENT."""

    name: str
    attributes: tuple[TypeAttribute, ...]

    def apply(self, schema: Schema) -> Schema:
        return schema.add_event_type(self.name, self.attributes)


@dataclass(frozen=True, slots=True)
class PublishEvent:
    """PUBLISH_EVENT: a raw event, and how its publisher can be reached."""

    event: dict[str, object]
    contact: str


@dataclass(frozen=True, slots=True)
class PublishSubscription:
    """PUBLISH_SUB: a conjunction of predicates over event types.

    The thesis writes event types as predicates, `event_type contains car`; all of them must hold. Where there are
    several, they stand among the predicates too.
    """

    event_types: tuple[str, ...]
    predicates: tuple[Triple, ...]
    username: str | None = None
    id: str | None = None
    lease_seconds: str | None = None


Extension = AddDomain | AddAttribute | ExtendEventType | AddEventType
Request = Extension | PublishEvent | PublishSubscription


def read_request(xml: bytes | str, schema: Schema) -> Request:
    """Return the request; raises FileError where it is not safe XML, SchemaError where it is not valid."""
    root = parse(xml, system_ids=DTD_FILES)
    for line, message in invalid_places(root, schema):
        raise BadDefinition(f"line {line}: {message}")
    return request_of(root, schema)


def kind_of(root: Element) -> str:
    """Return the kind of request that a document is, which its root names; raises BadDefinition."""
    kind = str(root.tag)
    if kind not in DTD_FILES:
        hint = did_you_mean(nearest(kind, DTD_FILES))
        raise BadDefinition(f"{shown(kind)} is not a kind of request; there are {', '.join(DTD_FILES)}{hint}")
    return kind


def invalid_places(root: Element, schema: Schema) -> list[tuple[int, str]]:
    """Return line and message of everything in a request that its DTD, as the schema stands, does not allow."""
    rules = compiled(dtd(schema, kind_of(root)))
    if rules.validate(root):
        return []
    log: Any = rules.error_log
    return [(entry.line, entry.message) for entry in log]


def request_of(root: Element, schema: Schema) -> Request:
    """Return the request that a document, valid by its DTD, makes; raises SchemaError."""
    return _READERS[kind_of(root)](root, schema)


# --- the kinds --------------------------------------------------------------------------------------------------------


def _add_domain(root: Element, schema: Schema) -> AddDomain:
    (element,) = elements(root)
    domain, _ = read_domain(element, default_name=_next_number(schema))
    return AddDomain(domain, numbered=element.get("oid") is None and element.get("name") is None)


def _add_attribute(root: Element, schema: Schema) -> AddAttribute:
    (element,) = elements(root)
    request = AddAttribute(element.get("name", "").strip(), element.get("type", ""))
    if request.domain not in schema.domains:  # DTDs cannot list every name
        hint = did_you_mean(nearest(request.domain, schema.domains))
        raise refuse(element, f"there is no domain {request.domain!r}{hint}")
    return request


def _extend(root: Element, schema: Schema) -> ExtendEventType:
    name = root.get("type", "")
    schema.event_type(name)
    return ExtendEventType(name, _type_attributes(root, schema))


def _add_event(root: Element, schema: Schema) -> AddEventType:
    (element,) = elements(root)
    return AddEventType(element.get("type", "").strip(), _type_attributes(element, schema))


def _type_attributes(parent: Element, schema: Schema) -> tuple[TypeAttribute, ...]:
    by_oid = {name: name for name in schema.domains}
    return tuple(read_type_attribute(element, schema.attributes, by_oid) for element in elements(parent))


def _publish_event(root: Element, schema: Schema) -> PublishEvent:
    types, attributes = elements(root)
    found: dict[str, list[object]] = {EVENT_TYPE: list(_event_types(types, schema))}
    for element in elements(attributes):
        name = _attribute(element, schema)
        found.setdefault(name, []).append(schema.domain_of(name).from_text(text_of(element)))
    event = {name: values if name == EVENT_TYPE or len(values) > 1 else values[0] for name, values in found.items()}
    return PublishEvent(event, root.get("contact", ""))


def _publish_subscription(root: Element, schema: Schema) -> PublishSubscription:
    types, attributes = list(elements(root))[:2]
    names = _event_types(types, schema)
    predicates = [(EVENT_TYPE, "contains", name) for name in names] if len(names) > 1 else []
    return PublishSubscription(
        names,
        (*predicates, *(triple_of(element, schema, names) for element in elements(attributes))),
        username=root.get("username"),
        id=root.get("id"),
        lease_seconds=root.get("lease"),
    )


def triple_of(element: Element, schema: Schema, event_types: tuple[str, ...]) -> Triple:
    """Return the predicate of an <ATTR>. The thesis's `contains` on text asks for any of the words, not for all."""
    name, operator = _attribute(element, schema), OPERATOR_OF[element.get("oper", "")]
    domain = schema.domain_of(name)
    value = domain.from_text(text_of(element))
    entry = schema.view(event_types).attributes.get(name)
    is_multiple = entry is not None and entry.multiple
    if operator == "contains" and domain.kind == "text" and isinstance(value, str) and not is_multiple:
        words = tuple(word for word in _BETWEEN_WORDS.split(value) if word)
        return (name, "contains any", words) if len(words) > 1 else (name, "contains", value.strip())
    return name, operator, value


def _event_types(parent: Element, schema: Schema) -> tuple[str, ...]:
    names = [element.get("type", "") for element in elements(parent)]
    for name in names:
        if name not in schema.event_types:  # DTDs cannot list every name
            raise UnknownEventType(name, schema.event_types)
    return tuple(dict.fromkeys(names))


def _attribute(element: Element, schema: Schema) -> str:
    name = element.get("type", "")
    try:
        schema.domain_of(name)
    except SchemaError as error:
        raise BadDefinition(f"line {line_of(element)}: {error}") from None
    return name


def _next_number(schema: Schema) -> str:
    """Return the name of the next domain: one more than the greatest number that names one."""
    taken = [int(name) for name in schema.domains if name.isascii() and name.isdigit()]
    return str(max(taken, default=0) + 1)


_READERS: dict[str, Callable[[Element, Schema], Request]] = {
    "ADD_DOMAIN": _add_domain,
    "ADD_ATTRIBUTE": _add_attribute,
    "EXTENT_SCHEMA": _extend,
    "ADD_EVENT": _add_event,
    "PUBLISH_EVENT": _publish_event,
    "PUBLISH_SUB": _publish_subscription,
}
