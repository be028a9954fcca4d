"""The form of an event: a field for each attribute of a view, and the event that it is when it is filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from tocsin.errors import Violation
from tocsin.schema import EVENT_TYPE, View, ViewAttribute
from tocsin.schema.sources import SOURCE_ATTRIBUTES, SOURCE_DOMAIN

Control = Literal["number", "text", "choice", "time", "lines"]
PREFIX = "value."  # of the fields of an event, so that an attribute may have any name
_HINTS = {
    "time": "with its zone: 2026-11-15T10:00:00Z",
    "point": "latitude, longitude: 40.85, -73.88",
    "numeric": "a number",
}


@dataclass(frozen=True)
class Field:
    """One field of a form."""

    attribute: str
    control: Control
    kind: str
    mandatory: bool
    multiple: bool
    choices: tuple[tuple[str, str], ...] = ()  # value, label: indented where it is a hierarchy
    hint: str = ""
    given: tuple[str, ...] = ()
    errors: tuple[str, ...] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        return PREFIX + self.attribute


def choices_of(attribute: ViewAttribute) -> tuple[tuple[str, str], ...]:
    """Return the values that an attribute can have, where they can be listed."""
    domain = attribute.domain
    if domain.kind == "boolean":
        return (("true", "yes"), ("false", "no"))
    if domain.kind == "hierarchical":
        return tuple(
            (value, "\u2003" * len(domain.ancestors(value)) + value)  # type: ignore[attr-defined]
            for value in domain.values  # type: ignore[attr-defined]
        )
    if domain.kind == "enumerated":
        return tuple((value, value) for value in domain.values)  # type: ignore[attr-defined]
    return ()


def fields_of(
    view: View, given: Mapping[str, Sequence[str]] | None = None, violations: Sequence[Violation] = ()
) -> list[Field]:
    """Return the fields for an event of a view, mandatory ones first, with what was given and what is wrong with it."""
    found = []
    for attribute in view.attributes.values():
        if attribute.name == EVENT_TYPE or attribute.domain.kind == "object":  # no field holds an array of objects
            continue
        if attribute.domain.name == SOURCE_DOMAIN and attribute.name in SOURCE_ATTRIBUTES:  # the broker says it
            continue
        choices = choices_of(attribute)
        control: Control = "choice" if choices else "lines" if attribute.multiple else "text"
        if control == "text" and attribute.domain.kind == "numeric":
            control = "number"
        found.append(
            Field(
                attribute.name,
                control,
                attribute.domain.kind,
                attribute.mandatory,
                attribute.multiple,
                choices,
                _HINTS.get(attribute.domain.kind, ""),
                tuple((given or {}).get(attribute.name, ())),
                tuple(one.message for one in violations if one.attribute == attribute.name),
            )
        )
    return sorted(found, key=lambda one: not one.mandatory)


def read_event(view: View, form: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the event that a form describes, as raw as JSON is; what is left empty is absent."""
    event: dict[str, Any] = {EVENT_TYPE: sorted(view.event_types)}
    for attribute in view.attributes.values():
        texts = [text for text in form.get(attribute.name, ()) if text.strip()]
        if attribute.name == EVENT_TYPE or not texts:
            continue
        values = [_raw(attribute, text) for text in texts]
        event[attribute.name] = values if attribute.multiple else values[0]
    return event


def _raw(attribute: ViewAttribute, text: str) -> Any:
    value = attribute.domain.from_text(text)
    if isinstance(value, Decimal):  # as JSON would have it
        return int(value) if value == value.to_integral_value() and "." not in text else float(value)
    return value


def given_values(items: Sequence[tuple[str, str]], multiple: Mapping[str, bool]) -> dict[str, list[str]]:
    """Return attribute -> texts of a form's fields; a field of several lines has a value in each."""
    found: dict[str, list[str]] = {}
    for name, text in items:
        if name.startswith(PREFIX):
            attribute = name.removeprefix(PREFIX)
            lines = text.splitlines() if multiple.get(attribute) else [text]
            found.setdefault(attribute, []).extend(line.strip() for line in lines if line.strip())
    return found
