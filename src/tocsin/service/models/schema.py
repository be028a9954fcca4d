"""Documents about the schema: its extensions, and its history."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from tocsin.service.models.base import Asked, Told


class AttributeEntry(Asked):
    attribute: str
    mandatory: bool = True
    multiple: bool = False


class AddDomain(Asked):
    add_domain: dict[str, Any] = Field(description='{"name": "money", "kind": "numeric", …}, as in a schema document')


class AddAttribute(Asked):
    class Body(Asked):
        name: str
        domain: str

    add_attribute: Body


class ExtendEventType(Asked):
    class Body(Asked):
        event_type: str
        attribute: str
        multiple: bool = False

    extend_event_type: Body


class AddEventType(Asked):
    class Body(Asked):
        name: str
        attributes: Annotated[list[AttributeEntry], Field(max_length=1000)]

    add_event_type: Body


Extension = AddDomain | AddAttribute | ExtendEventType | AddEventType


class Extensions(Asked):
    changes: Annotated[list[Extension], Field(min_length=1, max_length=100)]
    words: Annotated[str, StringConstraints(max_length=500)] = ""


class ExtensionTold(Told):
    version: int
    dry_run: bool
    affected: dict[str, Any] | None = None
    schema_: dict[str, Any] = Field(alias="schema")


class SchemaVersionTold(Told):
    version: int
    seq: int
    at: datetime
    change: str


class SchemaHistoryTold(Told):
    items: list[SchemaVersionTold]
