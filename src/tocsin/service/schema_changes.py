"""Extending the schema by request: the four rules as documents, all of a list or none; and whom a change would affect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from tocsin.broker import Broker
from tocsin.errors import BadDefinition
from tocsin.schema import Schema, TypeAttribute
from tocsin.schema.document import domain_from, to_document
from tocsin.service.models.schema import AddAttribute, AddDomain, AddEventType, ExtendEventType, Extension
from tocsin.service.problems import Stale
from tocsin.store.subscriptions import leases_since

_SHOWN = 100


def apply_changes(schema: Schema, changes: Sequence[Extension]) -> Schema:
    """Return the schema with all changes; raises a SchemaError."""
    for change in changes:
        match change:
            case AddDomain():
                spec = dict(change.add_domain)
                name = spec.pop("name", None)
                if not isinstance(name, str):
                    raise BadDefinition('add_domain: give it a name: {"name": "money", "kind": "numeric"}')
                schema = schema.add_domain(domain_from(name, spec, "add_domain"))
            case AddAttribute():
                schema = schema.add_attribute(change.add_attribute.name, change.add_attribute.domain)
            case ExtendEventType():
                body = change.extend_event_type
                schema = schema.extend_event_type(body.event_type, body.attribute, multiple=body.multiple)
            case AddEventType():
                entries = [
                    TypeAttribute(one.attribute, one.mandatory, one.multiple)
                    for one in change.add_event_type.attributes
                ]
                schema = schema.add_event_type(change.add_event_type.name, entries)
    return schema


def extend(
    broker: Broker, changes: Sequence[Extension], words: str, expected: int | None, *, dry_run: bool
) -> dict[str, Any]:
    """Put the extended schema in force and return it; a dry run returns it with whom it would affect."""

    def change(schema: Schema) -> Schema:
        if expected is not None and schema.version != expected:
            raise Stale(f"the schema is at version {schema.version}, and the change was made for {expected}")
        return apply_changes(schema, changes)

    if not dry_run:
        extended = broker.extend_schema(change, words=words)
        return {"version": extended.version, "dry_run": False, "schema": to_document(extended)}
    before = broker.schema
    extended = replace(change(before), version=before.version + 1)
    return {
        "version": extended.version,
        "dry_run": True,
        "affected": affected(broker, before, extended),
        "schema": to_document(extended),
    }


def affected(broker: Broker, before: Schema, after: Schema) -> dict[str, Any]:
    """Return which subscriptions' views gain attributes: they stay valid, and may now ask for more.

    Those that name no event type see all, so every new event type and every extension is in their view.
    """
    gained = {
        name for name, event_type in after.event_types.items()
        if name not in before.event_types or event_type != before.event_types[name]
    }  # fmt: skip
    count = 0
    ids: list[int] = []
    if gained:
        with broker.store.read() as connection:
            for rows in leases_since(connection, 0, 0, trees=True):
                for row in rows:
                    if row.deleted_seq is not None:
                        continue
                    named = msgspec.json.decode(row.tree or b"{}").get("event_types")
                    if not named or gained & set(named):
                        count += 1
                        if len(ids) < _SHOWN:
                            ids.append(row.id)
    return {"event_types": sorted(gained), "subscriptions": count, "first": ids}
