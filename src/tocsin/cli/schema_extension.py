"""The extension rules as options of `tocsin schema extend`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from tocsin.errors import BadDefinition, FileError
from tocsin.schema import Domain, Schema, TypeAttribute


@dataclass(frozen=True, slots=True)
class Extension:
    """What was asked for; None where an option was not given."""

    domain: str | None
    attribute: str | None
    event_type: str | None
    add: str | None
    request: Path | None


def apply_extension(schema: Schema, extension: Extension) -> Schema:
    """Return the schema with the extension; raises a SchemaError and changes nothing where a part of it is wrong."""
    if extension.domain is not None:
        schema = schema.add_domain(_domain(extension.domain))
    if extension.attribute is not None:
        name, domain = _pair(extension.attribute, "--attribute NAME=DOMAIN")
        schema = schema.add_attribute(name, domain)
    if extension.event_type is not None:
        name, entries = _pair(extension.event_type, "--event-type NAME=ATTRIBUTE[:optional][:multiple],…")
        schema = schema.add_event_type(name, [_entry(entry) for entry in entries.split(",") if entry])
    if extension.add is not None:
        event_type, text = _pair(extension.add, "--add TYPE=ATTRIBUTE[:multiple]")
        entry = _entry(text)
        schema = schema.extend_event_type(event_type, entry.attribute, multiple=entry.multiple)
    if extension.request is not None:
        schema = _apply_request(schema, extension.request)
    return schema


def _domain(text: str) -> Domain:
    from tocsin.schema.document import domain_from

    try:
        spec = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise BadDefinition(f"--domain: {error}") from None
    name = spec.pop("name", None)
    if not isinstance(name, str):
        raise BadDefinition('--domain: give it a name: {"name": "money", "kind": "numeric"}')
    return domain_from(name, spec, "--domain")


def _pair(text: str, usage: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not equals or not left or not right:
        raise BadDefinition(f"{text!r}: expected {usage}")
    return left.strip(), right.strip()


def _entry(text: str) -> TypeAttribute:
    name, *words = text.strip().split(":")
    if unknown := set(words) - {"mandatory", "optional", "unique", "multiple"}:
        raise BadDefinition(f"{text!r}: {min(unknown)!r} is none of mandatory, optional, unique, multiple")
    return TypeAttribute(name, mandatory="optional" not in words, multiple="multiple" in words)


def _apply_request(schema: Schema, path: Path) -> Schema:
    from tocsin.xml.requests import read_request  # an extra: raises NotInstalled

    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from None
    request = read_request(content, schema)
    apply = getattr(request, "apply", None)
    if apply is None:
        raise BadDefinition(f"{path}: this request does not extend the schema")
    extended: Schema = apply(schema)
    return extended
