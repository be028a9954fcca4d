"""Extending the schema by request: extensions as documents, all of a list or none; and whom a change would affect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET

from tocsin.broker import Broker
from tocsin.documents.schema import Extension, ExtensionResponse
from tocsin.errors import BadDefinition
from tocsin.schema import Schema, TypeAttribute
from tocsin.schema.document import domain_from, to_document
from tocsin.schema.growth import moved
from tocsin.service.problems import Stale
from tocsin.store.subscriptions import leases_since

_SHOWN = 100


def apply_changes(schema: Schema, changes: Sequence[Extension]) -> Schema:
    """Return the schema with all changes; raises a SchemaError."""
    for change in changes:
        if change.add_domain is not UNSET:
            spec = dict(change.add_domain)
            name = spec.pop("name", None)
            if not isinstance(name, str):
                raise BadDefinition('add_domain: give it a name: {"name": "money", "kind": "numeric"}')
            schema = schema.add_domain(domain_from(name, spec, "add_domain"))
        elif change.add_attribute is not UNSET:
            schema = schema.add_attribute(change.add_attribute.name, change.add_attribute.domain)
        elif change.extend_event_type is not UNSET:
            extended = change.extend_event_type
            schema = schema.extend_event_type(extended.event_type, extended.attribute, multiple=extended.multiple)
        elif change.add_event_type is not UNSET:
            new = change.add_event_type
            entries = [TypeAttribute(one.attribute, one.mandatory, one.multiple) for one in new.attributes]
            schema = schema.add_event_type(new.name, entries)
        elif change.add_values is not UNSET:
            more = change.add_values
            schema = schema.add_values(more.domain, more.values, below=more.below, less=more.less)
        elif change.add_alias is not UNSET:
            alias = change.add_alias
            schema = (
                schema.add_alias(alias.alias, alias.means)
                if alias.domain is None
                else schema.add_value_alias(alias.domain, alias.alias, alias.means)
            )
        elif change.deprecate is not UNSET:
            schema = schema.deprecate(change.deprecate.name, change.deprecate.words)
    return schema


def extend(
    broker: Broker, changes: Sequence[Extension], words: str, expected: int | None, *, dry_run: bool, by: str = ""
) -> ExtensionResponse:
    """Put the extended schema in force and return it; a dry run returns it with whom it would affect."""

    def change(schema: Schema) -> Schema:
        if expected is not None and schema.version != expected:
            raise Stale(f"the schema is at version {schema.version}, and the change was made for {expected}")
        return apply_changes(schema, changes)

    if not dry_run:
        extended = broker.extend_schema(change, words=words, by=by)
        return ExtensionResponse(extended.version, dry_run=False, schema=dict(to_document(extended)))
    before = broker.schema
    extended = replace(change(before), version=before.version + 1)
    found = affected(broker, before, extended)
    return ExtensionResponse(extended.version, dry_run=True, schema=dict(to_document(extended)), affected=found)


def affected(broker: Broker, before: Schema, after: Schema) -> dict[str, Any]:
    """Return which subscriptions' views gain attributes, or ask about what gets values or becomes one; all stay valid.

    Those that name no event type see all, so every new event type and every extension is in their view.
    """
    gained = {
        name for name, event_type in after.event_types.items()
        if name not in before.event_types or event_type != before.event_types[name]
    }  # fmt: skip
    changed = moved(before, after)
    count = 0
    ids: list[int] = []
    if gained or changed:
        with broker.store.read() as connection:
            for rows in leases_since(connection, 0, 0, trees=True):
                for row in rows:
                    if row.deleted_seq is not None:
                        continue
                    named = msgspec.json.decode(row.tree or b"{}").get("event_types")
                    if (gained and (not named or gained & set(named))) or changed.concerns(row.tree or b""):
                        count += 1
                        if len(ids) < _SHOWN:
                            ids.append(row.id)
    return {"event_types": sorted(gained), "subscriptions": count, "first": ids}
