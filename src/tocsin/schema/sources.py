"""Provenance: which site an event comes from, as attributes of the event that the broker gives and publishers cannot.

    source.site        the site's name                   source.id      the document's own id there
    source.publisher   the account that owns the site    source.link    the address of the document
    source.contact     how to reach it                   source.key     site and id: unique over all sites

Being attributes, they are stored, matched, delivered and explained as everything else: `car where source.site = 'Hammer & Sons'`.
They come into a schema by an extension, when the first site does (`with_sources`), and into every event type that comes
later. Whoever publishes as a site gives the id and the link; nobody gives the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tocsin.errors import EventRejected, SchemaError, Violation
from tocsin.schema.domain import TextDomain
from tocsin.schema.event import Event
from tocsin.schema.event_type import TypeAttribute
from tocsin.schema.schema import Schema

SOURCE_DOMAIN = "source"
SITE, PUBLISHER, CONTACT = "source.site", "source.publisher", "source.contact"
ID, LINK, KEY = "source.id", "source.link", "source.key"
SOURCE_ATTRIBUTES = (SITE, PUBLISHER, CONTACT, ID, LINK, KEY)
LONGEST = 2000  # characters of an id or a link
_DOMAIN = TextDomain(name=SOURCE_DOMAIN)
_SCHEMES = ("http://", "https://")


def has_sources(schema: Schema) -> bool:
    """Return whether events of the schema tell where they come from."""
    return schema.attributes.get(SITE) == SOURCE_DOMAIN


def with_sources(schema: Schema) -> Schema:
    """Return the schema in which every type of events has the attributes of provenance; of the same version.

    Raises SchemaError where it uses their names for something else.
    """
    if schema.domains.get(SOURCE_DOMAIN, _DOMAIN) != _DOMAIN:
        raise SchemaError(f"the domain {SOURCE_DOMAIN!r} is where events come from, a text; this schema has another")
    for name in SOURCE_ATTRIBUTES:
        if schema.attributes.get(name, SOURCE_DOMAIN) != SOURCE_DOMAIN or name in schema.aliases:
            raise SchemaError(
                f"the attribute {name!r} says where events come from; this schema means something else by it"
            )
    if named := [alias for alias, meant in schema.aliases.items() if meant in SOURCE_ATTRIBUTES]:
        raise SchemaError(f"{named[0]!r} cannot be another name for where events come from")
    subscribers = {union.subscriber for union in schema.unions.values()}
    types = {}
    for name, event_type in schema.event_types.items():
        lacking = [TypeAttribute(each, False) for each in SOURCE_ATTRIBUTES if event_type.get(each) is None]
        more = () if name in subscribers else tuple(lacking)
        types[name] = replace(event_type, attributes=(*event_type.attributes, *more))
    for name, event_type in types.items():
        if wrong := [
            each.attribute
            for each in event_type.attributes
            if each.attribute in SOURCE_ATTRIBUTES and (each.mandatory or each.multiple)
        ]:
            raise SchemaError(f"{name}.{wrong[0]} is optional and unique: the broker gives it, or nobody")
    return replace(
        schema,
        domains={**schema.domains, SOURCE_DOMAIN: _DOMAIN},
        attributes={**schema.attributes, **dict.fromkeys(SOURCE_ATTRIBUTES, SOURCE_DOMAIN)},
        event_types=types,
    )


@dataclass(frozen=True, slots=True)
class Provenance:
    """As which site something is published, by whom, and how to reach them."""

    site: str
    publisher: str
    contact: str = ""

    def stamped(self, event: Mapping[str, Any], id: str | None = None, link: str | None = None) -> dict[str, Any]:
        """Return an event with where it comes from; `id` and `link` are the document's, else what the event says."""
        given = event.get("source")
        inner = given if isinstance(given, Mapping) else {}
        id = id if id is not None else _text(event.get(ID, inner.get("id")))
        link = link if link is not None else _text(event.get(LINK, inner.get("link")))
        values = {SITE: self.site, PUBLISHER: self.publisher, CONTACT: self.contact or None, ID: id, LINK: link}
        values[KEY] = None if id is None else f"{self.site}/{id}"
        rest = {name: value for name, value in event.items() if name not in values}
        if inner:
            rest["source"] = {name: value for name, value in inner.items() if name not in ("id", "link")}
        return rest | {name: value for name, value in values.items() if value is not None}


def check_provenance(event: Event, provenance: Provenance | None) -> None:
    """Raise EventRejected where an admitted event says of itself where it comes from, or says it wrongly."""
    values = event.values
    computed = [name for name in getattr(event, "computed", ()) if name in SOURCE_ATTRIBUTES]
    if provenance is None:
        said = [*computed, *(name for name in SOURCE_ATTRIBUTES if name in values)]
        if said:
            raise EventRejected([_reserved(name) for name in said])
        return
    id = values.get(ID)
    expected = {
        SITE: (provenance.site,),
        PUBLISHER: (provenance.publisher,),
        CONTACT: (provenance.contact,) if provenance.contact else None,
        KEY: None if id is None else (f"{provenance.site}/{id[0]}",),
    }
    wrong = [*computed, *(name for name, value in expected.items() if values.get(name) != value)]
    if wrong:
        raise EventRejected([_reserved(name) for name in wrong])
    for name in (ID, LINK):
        text = str(values.get(name, ("",))[0])
        if len(text) > LONGEST:
            raise EventRejected([Violation("bad value", name, f"{name} has at most {LONGEST} characters")])
        if name == LINK and text and not text.lower().startswith(_SCHEMES):
            raise EventRejected([Violation("bad value", LINK, f"{LINK} is an address such as https://example.org/17")])


def _reserved(name: str) -> Violation:
    say = (
        "publish as your site to have it" if name in (SITE, PUBLISHER, CONTACT, KEY) else "publish as a site to give it"
    )
    return Violation("reserved attribute", name, f"{name} is said by the service, not by the event; {say}")


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
