"""Integration: a site with a schema of its own publishes into one schema that all share.

Le Subscribe's way (section 2.3 of the paper, 3.2 of the thesis): the integrated schema is what publishers have made of
it together. A site that joins first *extends* it by the four rules, with what it lacks, and uses what others have added
before; then each of its events is *translated*, attribute by attribute. Subscribers see one schema, whatever the sites
call things. The two sites of the demo are in hammer.py and flohmarkt.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.errors import TocsinError
from tocsin.schema import Schema, TypeAttribute
from tocsin.schema.document import domain_from
from tocsin.schema.files import load

Raw = dict[str, Any]
Change = dict[str, Any]  # as the service's API takes it: {"add_attribute": {…}}


def same(value: Any) -> Any:
    """Return the value."""
    return value


@dataclass(frozen=True, slots=True)
class Step:
    """One attribute of the integrated schema: from which of the site's it comes, and how."""

    attribute: str
    source: str
    words: str = "as it is"
    convert: Callable[[Any], Any] = same


def looked_up(table: Mapping[str, str]) -> Callable[[Any], Any]:
    """Return a conversion by a table; what is not in it is refused, not guessed."""

    def convert(value: Any) -> Any:
        try:
            return table[value]
        except KeyError:
            raise TocsinError(f"{value!r} has no counterpart in the integrated schema") from None

    return convert


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """One of the site's event types, and the integrated one that its events become."""

    own_type: str
    event_type: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """A publisher: its own schema, what it adds to the integrated one, and how its events are translated."""

    name: str
    account: str  # by which it publishes
    schema: Schema
    extensions: tuple[Change, ...]
    mappings: Mapping[str, TypeMapping]  # by the site's event type

    def translate(self, raw: Mapping[str, Any]) -> Raw:
        """Return the event of the integrated schema that one of the site's own becomes.

        Raises EventRejected where the event is not one of the site's.
        """
        self.schema.admit(raw)
        mapping = self.mappings[str(raw["event_type"])]
        event: Raw = {"event_type": mapping.event_type}
        for step in mapping.steps:
            if step.source in raw:
                _put(event, step.attribute, step.convert(raw[step.source]))
        event["site"] = self.name
        return event

    def table(self) -> list[tuple[str, str, str]]:
        """Return the mapping for people to read: the site's attribute, the integrated one, how."""
        return [
            (f"{mapping.own_type}.{step.source}", f"{mapping.event_type}.{step.attribute}", step.words)
            for mapping in self.mappings.values()
            for step in mapping.steps
        ]


def _put(event: Raw, attribute: str, value: Any) -> None:
    """Set an attribute; one with a dot is nested, as in seller.name."""
    *outer, name = attribute.split(".")
    for part in outer:
        event = event.setdefault(part, {})
    event[name] = value


def mappings_of(*mappings: TypeMapping) -> dict[str, TypeMapping]:
    """Return mappings by the site's event type."""
    return {mapping.own_type: mapping for mapping in mappings}


def own_schema(name: str) -> Schema:
    """Return the packaged schema of a site."""
    return load(Path(__file__).with_name(f"{name}.toml"))


def missing(schema: Schema, changes: tuple[Change, ...]) -> list[Change]:
    """Return the changes that a schema lacks: a site that joins later uses what is there."""
    return [change for change in changes if not _has(schema, change)]


def _has(schema: Schema, change: Change) -> bool:
    ((rule, body),) = change.items()
    match rule:
        case "add_domain":
            return body["name"] in schema.domains
        case "add_attribute":
            return body["name"] in schema.attributes
        case "add_event_type":
            return body["name"] in schema.event_types
        case _:
            return schema.event_types[body["event_type"]].get(body["attribute"]) is not None


def extended(schema: Schema, changes: tuple[Change, ...]) -> Schema:
    """Return a schema with what it lacks of these changes."""
    for change in changes:
        if _has(schema, change):
            continue
        ((rule, body),) = change.items()
        match rule:
            case "add_domain":
                schema = schema.add_domain(
                    domain_from(body["name"], {key: value for key, value in body.items() if key != "name"}, rule)
                )
            case "add_attribute":
                schema = schema.add_attribute(body["name"], body["domain"])
            case "add_event_type":
                schema = schema.add_event_type(body["name"], [TypeAttribute(**one) for one in body["attributes"]])
            case _:
                schema = schema.extend_event_type(body["event_type"], body["attribute"])
    return schema
