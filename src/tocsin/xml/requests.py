"""The thesis's XML requests (appendix C), validated against the DTD of the live schema.

A request to extend the schema has `apply(schema)`, which gives the next schema or raises. One to publish an event has
the raw event, for `Schema.admit`. One to subscribe has event types and (attribute, operator, value) triples; what those
mean is the language's affair. XML has text only: values are converted by the attribute's domain here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tocsin.errors import BadDefinition, SchemaError, UnknownEventType, did_you_mean, nearest, shown
from tocsin.schema.domain import Domain
from tocsin.schema.event_type import EVENT_TYPE, TypeAttribute
from tocsin.schema.schema import Schema
from tocsin.xml.dtd import DTD_FILES, compiled, dtd
from tocsin.xml.safe_xml import Element, elements, line_of, parse, text_of
from tocsin.xml.schema_form import OPERATOR_OF, read_domain, read_type_attribute, refuse

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
