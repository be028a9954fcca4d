"""The schema as a plain document of mappings, lists, text and numbers, which JSON and TOML write as they are.

    version = 3

    [domains.money]
    kind = "numeric"
    type = "decimal"
    minimum = 0

    [domains.category]
    kind = "hierarchical"
    tree = { furniture = ["table", "chair"], car = [] }

    [attributes]
    price = "money"

    [event_types.car]
    price = "mandatory"
    tags = "optional multiple"

    [unions.market]
    event = "car"
    subscriber = "buyer"

    [aliases]
    cost = "price"

    [deprecated]
    cost = "say price"
    "category.car" = "use vehicle"

Events of the types in a list `open` may have attributes that no one declared; these are passed over: open = ["car"]. Those
of the types in a list `kept` are kept, and asked about with their type; `dynamic` ones without (readings.py).
A hierarchy is a mapping from each value to what lies below it; a list where nothing lies below those.
Read and written by files.py; an error names its place in the document, such as `event_types.car.price`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tocsin.errors import BadDefinition, SchemaError, UnknownEventType, did_you_mean, nearest, repeated, shown
from tocsin.schema.domain import (
    BooleanDomain,
    Domain,
    DynamicDomain,
    IpDomain,
    NumericDomain,
    ObjectDomain,
    PointDomain,
    TextDomain,
    TimeDomain,
)
from tocsin.schema.event_type import EventType, TypeAttribute, Union, Unknown
from tocsin.schema.finite_domains import EnumeratedDomain, HierarchicalDomain
from tocsin.schema.schema import Schema

Document = dict[str, Any]

DOMAIN_KINDS: dict[str, type[Domain]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        NumericDomain,
        TextDomain,
        EnumeratedDomain,
        HierarchicalDomain,
        BooleanDomain,
        TimeDomain,
        PointDomain,
        IpDomain,
        DynamicDomain,
        ObjectDomain,
    )
}
_OPEN: dict[str, Unknown] = {"open": "ignored", "kept": "kept", "dynamic": "dynamic"}  # lists of event types
_SECTIONS = ("version", "domains", "attributes", "event_types", *_OPEN, "unions", "aliases", "deprecated")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


# --- writing ----------------------------------------------------------------------------------------------------------


def to_document(schema: Schema) -> Document:
    """Return the schema as a document, everything in the order of the schema."""
    document: Document = {
        "version": schema.version,
        "domains": {name: _domain_document(domain) for name, domain in schema.domains.items()},
        "attributes": dict(schema.attributes),
        "event_types": {
            name: {entry.attribute: annotated(entry) for entry in event_type.attributes}
            for name, event_type in schema.event_types.items()
        },
    }
    for section, unknown in _OPEN.items():
        if names := [name for name, event_type in schema.event_types.items() if event_type.unknown == unknown]:
            document[section] = names
    if schema.unions:
        document["unions"] = {
            name: {"event": union.event, "subscriber": union.subscriber} for name, union in schema.unions.items()
        }
    for section, words in (("aliases", schema.aliases), ("deprecated", schema.deprecated)):
        if words:
            document[section] = dict(words)
    return document


def _domain_document(domain: Domain) -> Document:
    document: Document = msgspec.to_builtins(domain)
    del document["name"]
    if domain.operators is not None:
        document["operators"] = sorted(domain.operators)
    if isinstance(domain, HierarchicalDomain):
        document["tree"] = _tree_document(domain.tree)
    return document


def _tree_document(tree: Mapping[str, Any]) -> object:
    if not any(tree.values()):
        return list(tree)
    return {value: _tree_document(below) for value, below in tree.items()}


def annotated(entry: TypeAttribute) -> str:
    """Return 'mandatory', 'optional', 'mandatory multiple' or 'optional multiple'; unique goes without saying."""
    return str(entry).removesuffix(" unique")


# --- reading ----------------------------------------------------------------------------------------------------------


def from_document(document: object) -> Schema:
    """Return the schema that a document describes; raises BadDefinition, which names the place."""
    sections = _table(document, "the document")
    _refuse_unknown_keys(sections, _SECTIONS, "")
    version = sections.get("version", 1)
    if isinstance(version, bool) or not isinstance(version, int):
        raise BadDefinition(f"version: {shown(version)} is not a whole number")
    domains = {
        name: domain_from(name, spec, place("domains", name)) for name, spec in _section(sections, "domains").items()
    }
    attributes = _section(sections, "attributes")
    for name, domain in attributes.items():
        where = place("attributes", name)
        if not isinstance(domain, str):
            raise BadDefinition(f"{where}: {shown(domain)} is not the name of a domain, such as {name} = 'number'")
        if domain not in domains:
            hint = did_you_mean(nearest(domain, domains))
            raise BadDefinition(f"{where}: there is no domain {domain!r}{hint}")
    event_types = {
        name: _event_type(name, spec, attributes) for name, spec in _section(sections, "event_types").items()
    }
    for section, unknown in _OPEN.items():
        for name in _open(section, sections.get(section, []), event_types):
            event_types[name] = replace(event_types[name], unknown=unknown)
    try:
        words = [_words(sections, section) for section in ("aliases", "deprecated")]
        return Schema(domains, attributes, event_types, version, _unions(sections), *words)
    except BadDefinition:
        raise
    except SchemaError as error:
        raise BadDefinition(str(error)) from None


def _words(sections: Mapping[str, object], section: str) -> dict[str, str]:
    table = _section(sections, section)
    for name, words in table.items():
        if not isinstance(words, str):
            raise BadDefinition(f"{place(section, name)}: {shown(words)} is not a text")
    return table


def domain_from(name: str, spec: object, where: str) -> Domain:
    """Return the domain that a table of the document defines."""
    table = dict(_table(spec, where))
    kind = table.pop("kind", None)
    if not isinstance(kind, str) or kind not in DOMAIN_KINDS:
        hint = did_you_mean(nearest(kind, DOMAIN_KINDS)) if isinstance(kind, str) else ""
        raise BadDefinition(f"{where}.kind: {shown(kind)} is not one of {', '.join(DOMAIN_KINDS)}{hint}")
    struct = DOMAIN_KINDS[kind]
    fields = [field for field in struct.__struct_fields__ if field != "name"]
    _refuse_unknown_keys(table, ["kind", *fields], where)
    if "tree" in table:
        table["tree"] = _tree(table["tree"], f"{where}.tree")
    try:
        return msgspec.convert({"kind": kind, "name": name, **table}, struct)
    except msgspec.ValidationError as error:
        raise BadDefinition(_located(error, where, struct)) from None


def _located(error: msgspec.ValidationError, where: str, struct: type[Domain]) -> str:
    """Return msgspec's message with the place in front, and with the words that would have been right."""
    message, _, path = str(error).partition(" - at `$")
    if message.startswith("Invalid enum value"):
        field = path.strip(".`")
        options = getattr(struct.__annotations__.get(field), "__args__", None) or _literal_options(struct, field)
        message += f"; it is one of {', '.join(map(str, options))}"
    return f"{where}{path.rstrip('`')}: {message}"


def _literal_options(struct: type[Domain], field: str) -> Iterable[str]:
    types = {info.name: info.type for info in msgspec.structs.fields(struct)}
    return getattr(types.get(field), "__args__", ())


def _tree(spec: object, where: str) -> dict[str, Any]:
    if isinstance(spec, list):
        if not all(isinstance(value, str) for value in spec):
            raise BadDefinition(f"{where}: a list in a hierarchy holds values with nothing below them, as text")
        if twice := repeated(spec):
            raise BadDefinition(f"{where}: listed twice: {', '.join(twice)}")
        return {value: {} for value in spec}
    table = _table(spec, where)
    return {value: _tree(below, place(where, value, top=False)) for value, below in table.items()}


def _event_type(name: str, spec: object, attributes: Mapping[str, object]) -> EventType:
    where = place("event_types", name)
    entries = []
    for attribute, words in _table(spec, where).items():
        at = place(where, attribute, top=False)
        if attribute not in attributes:
            hint = did_you_mean(nearest(attribute, attributes))
            raise BadDefinition(f"{at}: there is no attribute {attribute!r}{hint}")
        entries.append(_type_attribute(attribute, words, at))
    return EventType(name, tuple(entries))


def _open(section: str, names: object, event_types: Mapping[str, EventType]) -> list[str]:
    """Return the names of open event types of one kind; those that an earlier list has are refused."""
    if not isinstance(names, list):
        raise BadDefinition(f"{section}: {shown(names)} is not a list of event types")
    for name in names:
        if name not in event_types:
            raise BadDefinition(f"{section}: {UnknownEventType(str(name), event_types)}")
        if event_types[name].is_open:
            raise BadDefinition(f"{section}: {name!r} is in another of the lists {', '.join(_OPEN)} already")
    return names


def _unions(sections: Mapping[str, object]) -> dict[str, Union]:
    unions: dict[str, Union] = {}
    for name, spec in _section(sections, "unions").items():
        where = place("unions", name)
        table = _table(spec, where)
        _refuse_unknown_keys(table, ("event", "subscriber"), where)
        for role in ("event", "subscriber"):
            if not isinstance(table.get(role), str):
                raise BadDefinition(f"{where}.{role}: {shown(table.get(role))} is not the name of an event type")
        unions[name] = Union(name, str(table["event"]), str(table["subscriber"]))
    return unions


def _type_attribute(attribute: str, text: object, where: str) -> TypeAttribute:
    words = text.split() if isinstance(text, str) else []
    need, count = {"mandatory", "optional"}.intersection(words), {"unique", "multiple"}.intersection(words)
    if len(need) != 1 or len(count) > 1 or len(words) != len(need) + len(count):
        hint = did_you_mean([near for word in words for near in nearest(word, _WORDS) if near != word])
        raise BadDefinition(
            f"{where}: {shown(text)} is not 'mandatory' or 'optional', then 'unique' (goes without saying) "
            f"or 'multiple'{hint}"
        )
    return TypeAttribute(attribute, mandatory="mandatory" in need, multiple="multiple" in count)


_WORDS = ("mandatory", "optional", "unique", "multiple")


# --- places -----------------------------------------------------------------------------------------------------------


def place(above: str, name: str, *, top: bool = True) -> str:
    """Return the place of `name` under another, as TOML writes keys: `event_types."two words".price`."""
    return f"{key(above) if top else above}.{key(name)}"


def key(name: str) -> str:
    """Return a name as a TOML key: bare where that is allowed, else quoted."""
    return name if _BARE_KEY.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """Return a text as JSON and TOML quote it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _section(sections: Mapping[str, object], name: str) -> dict[str, Any]:
    return dict(_table(sections.get(name, {}), name))


def _table(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadDefinition(f"{where}: {shown(value)} is not a table of names")
    return value


def _refuse_unknown_keys(table: Mapping[str, object], known: Iterable[str], where: str) -> None:
    for name in table:
        if name not in known:
            hint = did_you_mean(nearest(name, known)) or f"; there are: {', '.join(known)}"
            raise BadDefinition(f"{where}{'.' if where else ''}{key(name)}: there is no such key{hint}")
