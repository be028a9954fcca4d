"""Readings: attributes whose type nobody has said, as numbers, texts, times or truth values.

    bytes as number > 1000        user as text like 'adm%'        seen as time > time '2026-01-01T00:00Z'

An attribute that the schema does not know, of a type that keeps such, and one of a dynamic domain, have values of any type.
`x as number` is an attribute of its own to everything above: numeric, optional, bound where some value of x can be read so.

    as number    numbers, and texts that are one as JSON writes it: "12", "-0.5", "1e3"
    as text      texts; numbers, truth values and times as JSON writes them: whatever is bound has one
    as time      times, and texts that are one, with their zone
    as boolean   true and false, and the texts that say so

`any attribute` is the attribute that has all texts of such an event. Used by schema.py, event.py, language/bind.py and
index/encode.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from tocsin.errors import BadValue
from tocsin.schema.domain import (
    BooleanDomain,
    Domain,
    DynamicDomain,
    NumericDomain,
    TextDomain,
    TimeDomain,
    Value,
    parse_number,
)
from tocsin.schema.event_type import Unknown, ViewAttribute

Reading = Literal["number", "text", "time", "boolean"]

ANY_ATTRIBUTE = "any attribute"  # as the name of an attribute: all texts of an event
DYNAMIC = DynamicDomain(name="dynamic")
DOMAINS: Mapping[str, Domain] = {
    "number": NumericDomain(name="number"), "text": TextDomain(name="text"), "time": TimeDomain(name="time"),
    "boolean": BooleanDomain(name="boolean"),
}  # fmt: skip
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,100})?(?:[eE][+-]?[0-9]{1,3})?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.{6,24}")


def reading_of(name: str) -> tuple[str, str] | None:
    """Return the attribute and the kind that a name such as `bytes as number` says; None for other names."""
    base, found, kind = name.rpartition(" as ")
    return (base, kind) if found and base and kind in DOMAINS else None


def read(values: Iterable[Any], kind: str) -> tuple[Value, ...] | None:
    """Return what some values are as numbers, texts, times or truth values, each once; None where none is."""
    domain = DOMAINS[kind]
    by_key: dict[Any, Value] = {}
    for value in values:
        found = _READ[kind](value)
        if found is not None:
            by_key.setdefault(domain.key(found), found)
    return tuple(by_key.values()) or None


def _number(value: Any) -> Value | None:
    if isinstance(value, str):
        return DOMAINS["number"].admit(parse_number(value)) if _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        return DOMAINS["number"].admit(value)
    except BadValue:
        return None


def _text(value: Any) -> Value | None:
    match value:
        case str():
            return value
        case bool() | int() | float():
            return json.dumps(value)
        case Decimal():
            return str(value)
        case datetime():
            return str(DOMAINS["time"].dump(value))
        case _:
            return None


def _time(value: Any) -> Value | None:
    if not isinstance(value, datetime) and not (isinstance(value, str) and _TIME.fullmatch(value)):
        return None
    try:
        return DOMAINS["time"].admit(value)
    except BadValue:
        return None


def _boolean(value: Any) -> Value | None:
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(value)


_READ = {"number": _number, "text": _text, "time": _time, "boolean": _boolean}


class ReadableAttributes(dict[str, ViewAttribute]):
    """The attributes of a view, by name, and the readings of those that have no type; these are not listed."""

    def __init__(self, declared: Mapping[str, ViewAttribute], unknown: Unknown) -> None:
        super().__init__(declared)
        self.unknown = unknown

    def declared(self, name: str) -> ViewAttribute | None:
        """Return an attribute that the schema declares."""
        return super().get(name)

    def __missing__(self, name: str) -> ViewAttribute:
        found = self._found(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        known = super().get(name)
        return known or self._found(name) or default

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self._found(name) is not None)

    def __or__(self, other: Any) -> ReadableAttributes:  # type: ignore[override]
        return ReadableAttributes({**self, **other}, self.unknown)

    def _found(self, name: str) -> ViewAttribute | None:
        keeps = self.unknown in ("kept", "dynamic")
        if name == ANY_ATTRIBUTE:
            return _reading(name, DOMAINS["text"]) if keeps else None
        if (reading := reading_of(name)) is None:
            return _reading(name, DYNAMIC) if self.unknown == "dynamic" else None
        base, kind = reading
        known = self.declared(base)
        if known is not None and isinstance(known.domain, DynamicDomain):
            return ViewAttribute(name, DOMAINS[kind], False, known.multiple, known.ever_multiple)
        return _reading(name, DOMAINS[kind]) if keeps else None


def _reading(name: str, domain: Domain) -> ViewAttribute:
    """Return an attribute that may have several values, and of which formulas take the one that it has."""
    return ViewAttribute(name, domain, mandatory=False, multiple=False, ever_multiple=True)


class ReadableValues(dict[str, tuple[Value, ...]]):
    """The values of an event, by attribute, and readings of them; these are not listed.

    `any attribute` has the texts of the event alone: `given` are its attributes, not what stands beside them.
    """

    def __init__(
        self,
        values: Mapping[str, tuple[Value, ...]],
        attributes: ReadableAttributes,
        given: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(values)
        self.attributes, self.given = attributes, tuple(values) if given is None else given

    def __missing__(self, name: str) -> tuple[Value, ...]:
        found = self._found(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name) or self._found(name) or default

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self._found(name) is not None)

    def __or__(self, other: Any) -> ReadableValues:  # type: ignore[override]
        return ReadableValues({**self, **other}, self.attributes, self.given)

    def _found(self, name: str) -> tuple[Value, ...] | None:
        if name == ANY_ATTRIBUTE:
            return read(
                (value for base in self.given if self._is_text(base) for value in self[base] if type(value) is str),
                "text",
            )
        reading = reading_of(name)
        if reading is None or (values := super().get(reading[0])) is None:
            return None
        return read(values, reading[1])

    def _is_text(self, base: str) -> bool:
        entry = self.attributes.declared(base)
        return entry is None or entry.domain.kind in ("text", "dynamic")


def joined_values(values: Mapping[str, tuple[Value, ...]], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an event with others beside them, readings and all."""
    return values | more if isinstance(values, ReadableValues) else {**values, **more}
